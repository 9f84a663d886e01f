/* SPDX-License-Identifier: MIT */
#ifndef TDFS_SERVE_H
#define TDFS_SERVE_H

#include "daemon.h"
#include "mountpoint.h"

/*
 * Mounts tdfs->session and answers requests until the file system is unmounted or SIGTERM or SIGINT
 * arrives; then it lets commits finish, and unmounts. When the first request has been answered it
 * lets the parent at the end of the pipe `ready` go (-1: there is none). Returns 0, or -1 after a
 * message.
 */
int tdfs_serve(struct tdfs *tdfs, struct tdfs_place *place, int ready);

#endif
