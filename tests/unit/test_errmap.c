/* SPDX-License-Identifier: MIT */
/*
 * The one table of errors, line by line.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "errmap.h"

static int map(int code, int os_error)
{
	tdl_error error = { .code = code, .os_error = os_error };

	return tdfs_errno(&error);
}

Test(errmap, what_rows_can_be)
{
	cr_assert_eq(map(TDL_ERR_SCHEMA, 0), EINVAL);
	cr_assert_eq(map(TDL_ERR_LIMIT, 0), EINVAL);
	cr_assert_eq(map(TDL_ERR_EMPTY, 0), EINVAL);
	cr_assert_eq(map(TDL_ERR_MISUSE, 0), EINVAL);
}

Test(errmap, what_a_table_can_be)
{
	cr_assert_eq(map(TDL_OK, 0), 0);
	cr_assert_eq(map(TDL_ERR_CONFLICT, 0), EAGAIN);
	cr_assert_eq(map(TDL_ERR_NOT_FOUND, 0), ENOENT);
	cr_assert_eq(map(TDL_ERR_EXISTS, 0), EEXIST);
	cr_assert_eq(map(TDL_ERR_CORRUPT, 0), EIO);
	cr_assert_eq(map(TDL_ERR_PUBLISHED, ENOSPC), EIO);
	cr_assert_eq(map(TDL_ERR_UNSUPPORTED, 0), EOPNOTSUPP);
	cr_assert_eq(map(TDL_ERR_STOPPED, 0), EINTR);
}

Test(errmap, what_the_system_says)
{
	static const int errors[] = { ENOSPC, EACCES, EROFS, EDQUOT, EMFILE, EIO, ESTALE };

	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		cr_assert_eq(map(TDL_ERR_IO, errors[i]), errors[i]);
	cr_assert_eq(map(TDL_ERR_NOMEM, 0), ENOMEM);
	cr_assert_eq(map(TDL_ERR_IO, 0), EIO, "an error is never success");
	cr_assert_eq(map(TDL_ERR_IO, -1), EIO);
	cr_assert_eq(map(TDL_ERR_IO, ENOSYS), EIO, "the kernel would never ask again");
	cr_assert_eq(map(-1000, 0), EIO, "a code of a later library");
}
