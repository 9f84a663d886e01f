/* SPDX-License-Identifier: MIT */
#ifndef TDFS_DAEMON_H
#define TDFS_DAEMON_H

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

#include "tinydelta.h"

/*
 * The daemon's state; the session's userdata. Everything here is set before the first request and
 * constant after, so it needs no lock; what changes lives behind the pointers, under their locks.
 */
struct tdfs_options;
struct tdfs_incoming;
struct tdfs_tree;
struct tdfs_buffers;
struct tdfs_readers;
struct tdfs_passthrough;
struct tdfs_gate;

struct tdfs {
	tdl_table *table;		      /* what is mounted */
	const struct tdfs_options *options;   /* what the command line asked for */
	struct fuse_session *session;	      /* libfuse's */
	struct tdfs_tree *tree;		      /* names and attributes of all that is read-only */
	struct tdfs_buffers *buffers;	      /* room for replies to reads */
	struct tdfs_readers *readers;	      /* open files of versions */
	struct tdfs_passthrough *passthrough; /* data files that the kernel reads by itself */
	struct tdfs_gate *gate;		      /* keeps threads free of incoming/ */
	struct tdfs_incoming *incoming;	      /* NULL: incoming/ is empty and read-only */
};

/*
 * Inode numbers say who answers: those of the read-only tree are below TDFS_INO_STAGED, files in
 * incoming/ have it and more. incoming/ itself is one fixed number, answered by the incoming
 * operations where there are any, else by the tree.
 */
#define TDFS_INO_ROOT	  ((fuse_ino_t)1)
#define TDFS_INO_INCOMING ((fuse_ino_t)2)
#define TDFS_INO_STAGED	  ((fuse_ino_t)1 << 62)

/*
 * Two tables of requests, of the same shape as libfuse's; ops.c makes one of them. A lookup of
 * "incoming" in the root is answered by the incoming operations' own lookup of "." in incoming/.
 */
extern const struct fuse_lowlevel_ops tdfs_tree_ops;
extern const struct fuse_lowlevel_ops tdfs_incoming_ops;

/* Seconds for which the kernel may keep attributes that change, but need not be asked for again at
 * each step of one path or call: as short as it counts, some milliseconds. */
#define TDFS_MOMENT 0.001

/* To be called after a commit, before its close is answered and without a lock: the kernel forgets
 * the times it knows of the directories that show all versions, and of incoming/. */
void tdfs_tree_changed(const struct tdfs *tdfs);

static inline struct tdfs *tdfs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

#endif
