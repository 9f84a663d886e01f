/* SPDX-License-Identifier: MIT */
/*
 * From the library's codes to errnos. Knows nothing of libfuse.
 */
#include "errmap.h"

#include <errno.h>

int tdfs_errno(const tdl_error *error)
{
	switch ((enum tdl_code)error->code) {
	case TDL_OK:
		return 0;
	case TDL_ERR_IO:
		if (error->os_error <= 0 || error->os_error == ENOSYS)
			return EIO;
		return error->os_error;
	case TDL_ERR_NOMEM:
		return ENOMEM;
	case TDL_ERR_NOT_FOUND:
		return ENOENT;
	case TDL_ERR_EXISTS:
		return EEXIST;
	case TDL_ERR_UNSUPPORTED:
		return EOPNOTSUPP;
	case TDL_ERR_CONFLICT:
		return EAGAIN;
	case TDL_ERR_MISUSE:
	case TDL_ERR_SCHEMA:
	case TDL_ERR_LIMIT:
	case TDL_ERR_EMPTY:
		return EINVAL;
	case TDL_ERR_CORRUPT:
	case TDL_ERR_PUBLISHED:
		return EIO;
	case TDL_ERR_STOPPED:
		return EINTR;
	}
	return EIO;
}
