/* SPDX-License-Identifier: MIT */
#ifndef TDFS_OPS_TREE_H
#define TDFS_OPS_TREE_H

#include "versions/answer.h"

/* The functions of tdfs_tree_ops that do not stand in ops_tree.c. */
void tdfs_tree_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tdfs_tree_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		       struct fuse_file_info *fi);
void tdfs_tree_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
			   struct fuse_file_info *fi);
void tdfs_tree_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

void tdfs_tree_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tdfs_tree_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi);
void tdfs_tree_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void tdfs_tree_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

#endif
