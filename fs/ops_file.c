/* SPDX-License-Identifier: MIT */
/*
 * Reading the files of the read-only tree. A handle holds what it reads from: a data file its
 * snapshot, a record its text. Which version that is was decided by the lookup, so a handle of
 * latest/data.jsonl stays on its version.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "buffers.h"
#include "ops_tree.h"

struct record {
	size_t length;
	char *text;
};

static void free_record(struct record *record)
{
	if (record != NULL)
		free(record->text);
	free(record);
}

static tdl_snapshot *snapshot_of(const struct fuse_file_info *fi)
{
	return (tdl_snapshot *)(uintptr_t)fi->fh;
}

static struct record *record_of(const struct fuse_file_info *fi)
{
	return (struct record *)(uintptr_t)fi->fh;
}

static void close_handle(struct tdfs_node node, const struct fuse_file_info *fi)
{
	if (node.kind == TDFS_DATA)
		tdl_snapshot_unref(snapshot_of(fi));
	else
		free_record(record_of(fi));
}

static int open_handle(const struct tdfs_tree *tree, struct tdfs_node node,
		       struct fuse_file_info *fi, tdl_error *error)
{
	tdl_snapshot *snapshot;
	struct record *record;
	uint64_t size;
	int result;

	if (node.kind == TDFS_DATA) {
		result = tdfs_tree_open_data(tree, node, &snapshot, &size, error);
		if (result == 0)
			fi->fh = (uintptr_t)snapshot;
		return result;
	}
	record = calloc(1, sizeof *record);
	if (record == NULL) {
		*error = (tdl_error){ .code = TDL_ERR_NOMEM, .message = "out of memory" };
		return error->code;
	}
	result = tdfs_tree_render(tree, node, &record->text, &record->length, error);
	if (result < 0)
		free_record(record);
	else
		fi->fh = (uintptr_t)record;
	return result;
}

void tdfs_tree_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tdfs_node node;
	tdl_error error;

	if (!tdfs_node_of(req, ino, &node))
		return;
	if (tdfs_node_is_directory(node)) {
		fuse_reply_err(req, EISDIR);
		return;
	}
	if ((fi->flags & O_ACCMODE) != O_RDONLY || (fi->flags & O_TRUNC) != 0) {
		fuse_reply_err(req, EROFS);
		return;
	}
	if (open_handle(tdfs_of(req)->tree, node, fi, &error) < 0) {
		tdfs_answer_error(req, node, NULL, &error);
		return;
	}
	fi->keep_cache = 1;
	fi->noflush = 1;
	if (fuse_reply_open(req, fi) < 0)
		close_handle(node, fi); /* interrupted: nobody will release it */
}

static void read_data(fuse_req_t req, struct tdfs_node node, size_t size, off_t offset,
		      struct fuse_file_info *fi)
{
	struct tdfs_buffers *buffers = tdfs_of(req)->buffers;
	void *buffer = tdfs_buffers_take(buffers);
	tdl_error error;
	size_t got;

	if (buffer == NULL) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (tdl_snapshot_read(snapshot_of(fi), buffer, size, (uint64_t)offset, &got, &error) < 0)
		tdfs_answer_error(req, node, NULL, &error);
	else
		fuse_reply_buf(req, buffer, got);
	tdfs_buffers_give(buffers, buffer);
}

void tdfs_tree_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	const struct record *record;
	struct tdfs_node node;
	size_t from;

	if (!tdfs_node_of(req, ino, &node))
		return;
	/* The kernel asks for no more than the session allows; less would be taken for the end. */
	if (offset < 0 || size > TDFS_BUFFER_SIZE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	if (node.kind == TDFS_DATA) {
		read_data(req, node, size, offset, fi);
		return;
	}
	record = record_of(fi);
	from = (uint64_t)offset < record->length ? (size_t)offset : record->length;
	if (size > record->length - from)
		size = record->length - from;
	fuse_reply_buf(req, record->text + from, size);
}

void tdfs_tree_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tdfs_node node;

	if (!tdfs_node_of(req, ino, &node))
		return;
	close_handle(node, fi);
	fuse_reply_err(req, 0);
}
