/* SPDX-License-Identifier: MIT */
#ifndef TDFS_OPS_TREE_H
#define TDFS_OPS_TREE_H

#include "daemon.h"
#include "versions/tree.h"

/*
 * What the files share that answer for the read-only tree. A node's inode number was given out by
 * us, but may be years old (NFS), so each request starts with tdfs_node_of().
 */

/* False where there can be no such node; then the request has been answered. */
bool tdfs_node_of(fuse_req_t req, fuse_ino_t ino, struct tdfs_node *node);

/* Answers a request that failed, and says so in the log unless it is only a name that is not
 * there. `name` is within the node, or NULL for the node itself. */
void tdfs_answer_error(fuse_req_t req, struct tdfs_node node, const char *name,
		       const tdl_error *error);

/* How long the kernel may keep what it was told. */
double tdfs_timeout(enum tdfs_lasting lasting);

/* The entry of a node, with its attributes. */
int tdfs_fill_entry(const struct tdfs *tdfs, struct tdfs_node node, enum tdfs_lasting name_lasting,
		    struct fuse_entry_param *entry, tdl_error *error);

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
