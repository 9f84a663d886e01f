/* SPDX-License-Identifier: MIT */
#ifndef TDFS_OPS_INCOMING_H
#define TDFS_OPS_INCOMING_H

#include "daemon.h"
#include "incoming/incoming.h"

/*
 * A request on its way: tried at once by the thread that took it, and where that would have to
 * wait, once more by one that may. Where too many of those that take requests may be stuck, the
 * other one does both. What act() points at lives as long as the request does.
 */
struct tdfs_op {
	fuse_req_t req;
	struct tdfs_incoming *in;
	struct tdfs_gate *gate;
	struct tdfs_caller caller;
	/* Answers and returns 0, or returns TDFS_LATER. */
	int (*act)(struct tdfs_op *op);
	fuse_ino_t ino;
	struct fuse_file_info fi;
	char *name, *to;
	char *data;
	size_t size; /* of the data */
	size_t room; /* for data that is read */
	off_t offset;
	mode_t mode;
	unsigned flags;
	struct stat change;
	enum tdfs_queue queue; /* where it waits */
};

struct tdfs_op tdfs_op_of(fuse_req_t req, fuse_ino_t ino, int (*act)(struct tdfs_op *op));
void tdfs_op_run(struct tdfs_op *op);
struct tdfs_handle *tdfs_op_handle(const struct tdfs_op *op);
void tdfs_op_reply_entry(struct tdfs_op *op, int why, const struct stat *st);

/* ops_incoming_dir.c: the requests for names and for the directory itself. */
void tdfs_incoming_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void tdfs_incoming_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
			    dev_t device);
void tdfs_incoming_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void tdfs_incoming_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void tdfs_incoming_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void tdfs_incoming_op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
			      const char *name);
void tdfs_incoming_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void tdfs_incoming_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
			     fuse_ino_t new_parent, const char *new_name, unsigned flags);
void tdfs_incoming_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tdfs_incoming_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
			      struct fuse_file_info *fi);
void tdfs_incoming_op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
				  struct fuse_file_info *fi);
void tdfs_incoming_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tdfs_incoming_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
			       struct fuse_file_info *fi);
/* The attributes of incoming/ itself. An errno. */
int tdfs_incoming_dir_stat(const struct tdfs *tdfs, struct stat *st);

#endif
