/* SPDX-License-Identifier: MIT */
#ifndef TDFS_READERS_H
#define TDFS_READERS_H

#include "versions/tree.h"

/*
 * The open files of the read-only tree. A reader holds what it reads from, a version or the text
 * of a record, so it stays what it was when it was opened; only history.jsonl grows. All of them
 * are known, because the kernel releases none of those that are open when a signal ends the mount.
 */
struct tdfs_readers;
struct tdfs_reader;

struct tdfs_readers *tdfs_readers_new(void);
/* Closes those that are left. */
void tdfs_readers_free(struct tdfs_readers *readers);

/* Opens a file node. Errors: as tdfs_tree_open_data() and tdfs_tree_render(). */
int tdfs_reader_open(struct tdfs_readers *readers, const struct tdfs_tree *tree,
		     struct tdfs_node node, struct tdfs_reader **reader, tdl_error *error);
void tdfs_reader_close(struct tdfs_readers *readers, struct tdfs_reader *reader);

/* Whether what it reads can become more: the kernel must keep none of it. */
bool tdfs_reader_grows(const struct tdfs_reader *reader);

/* What it was opened as. */
struct tdfs_node tdfs_reader_node(const struct tdfs_reader *reader);

/* The version that it reads; borrowed; NULL for anything else. */
tdl_snapshot *tdfs_reader_snapshot(const struct tdfs_reader *reader);

/* As tdl_snapshot_read(). */
int tdfs_reader_read(struct tdfs_reader *reader, void *buffer, size_t count, uint64_t offset,
		     size_t *got, tdl_error *error);

#endif
