/* SPDX-License-Identifier: MIT */
#ifndef TDFS_ERRMAP_H
#define TDFS_ERRMAP_H

#include "tinydelta.h"

/*
 * The errno (positive; 0 for TDL_OK) with which a request is answered that failed with `error`.
 * The one place where the library's codes become errnos. Never ENOSYS: the kernel would take the
 * request for one that this file system does not have, for as long as it is mounted.
 */
int tdfs_errno(const tdl_error *error);

#endif
