/* SPDX-License-Identifier: MIT */
#ifndef TDFS_PASSTHROUGH_H
#define TDFS_PASSTHROUGH_H

#include "daemon.h"

/*
 * Kernel passthrough: where libfuse, the kernel and our privileges have it, reads of a version that
 * is one data file with a final newline go to that file without coming to us.
 *
 * The kernel wants all open handles of an inode to agree: all go through, to the same backing file,
 * or none does. So what the first handle of an inode gets is what every further one gets until the
 * last is closed. Whatever stands against passthrough leads to ordinary reads.
 */
struct tdfs_passthrough;

/* NULL: no memory. Without passthrough in libfuse all of this does nothing. */
struct tdfs_passthrough *tdfs_passthrough_new(void);
/* When the session is over; handles may be left. */
void tdfs_passthrough_free(struct tdfs_passthrough *through);

/* Asks the kernel for it, at INIT. */
void tdfs_passthrough_init(struct tdfs_passthrough *through, struct fuse_conn_info *conn);

/*
 * Counts a handle of a data node in, and sets in *fi how it is read. To be undone with
 * tdfs_passthrough_close(), in whatever order. Errors: CORRUPT where the file that others read
 * through is no longer what it was.
 */
int tdfs_passthrough_open(struct tdfs_passthrough *through, fuse_req_t req, fuse_ino_t ino,
			  tdl_snapshot *snapshot, struct fuse_file_info *fi, tdl_error *error);
/* Whether what was read until now was what the version is: nobody else can say for reads that do
 * not come to us. Asked when a descriptor is closed. Errors: CORRUPT. */
int tdfs_passthrough_check(struct tdfs_passthrough *through, fuse_ino_t ino, tdl_snapshot *snapshot,
			   tdl_error *error);
void tdfs_passthrough_close(struct tdfs_passthrough *through, fuse_req_t req, fuse_ino_t ino);

#endif
