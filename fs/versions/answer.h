/* SPDX-License-Identifier: MIT */
#ifndef TDFS_ANSWER_H
#define TDFS_ANSWER_H

#include "daemon.h"
#include "versions/tree.h"

/*
 * What the answers about the read-only tree share. A node's inode number was given out by
 * us, but may be years old (NFS), so each request of a name or node starts with tdfs_node_of(); an
 * open file knows what it is of.
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

#endif
