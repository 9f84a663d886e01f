/* SPDX-License-Identifier: MIT */
#ifndef TDFS_REMOUNT_H
#define TDFS_REMOUNT_H

#include "opts.h"

/* -o remount: has mount(8) change the flags of what is mounted at options->mountpoint, which is all
 * there is to a remount of a FUSE file system. Returns the exit status, what failed being said. */
int tdfs_remount(const struct tdfs_options *options);

#endif
