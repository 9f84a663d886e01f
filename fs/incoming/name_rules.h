/* SPDX-License-Identifier: MIT */
#ifndef TDFS_NAMES_H
#define TDFS_NAMES_H

#include <stdbool.h>

/* What the name of a file in incoming/ says about it. Any other name is only a name. */

/* Close neither commits nor fails: .x, and x~, x.tmp and the like, of files that are being made or
 * are kept aside. */
bool tdfs_name_is_temporary(const char *name);

/* A name that is too long for a file there. Temporary ones have room for what programs put before
 * and behind the name that the file will get. */
bool tdfs_name_is_too_long(const char *name);

#define TDFS_ERROR_SUFFIX ".error"

/* NAME.error: where the reason of a refusal is read; no staged file may be called so. */
bool tdfs_name_is_error_file(const char *name);

#endif
