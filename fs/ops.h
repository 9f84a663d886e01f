/* SPDX-License-Identifier: MIT */
#ifndef TDFS_OPS_H
#define TDFS_OPS_H

#include "daemon.h"

/* The requests of the whole mount. */
extern const struct fuse_lowlevel_ops tdfs_ops;

#endif
