/* SPDX-License-Identifier: MIT */
/*
 * Requests for the open files of the read-only tree, translated. Which version a file is of was
 * decided by the lookup, so a handle of latest/data.jsonl stays on its version.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "buffers.h"
#include "gate.h"
#include "versions/open_file.h"
#include "versions/ops_tree.h"
#include "versions/passthrough.h"

static struct tdfs_reader *reader_of(const struct fuse_file_info *fi)
{
	return (struct tdfs_reader *)(uintptr_t)fi->fh;
}

/* After the kernel has let go of the handle, or was never told of it. */
static void close_reader(fuse_req_t req, fuse_ino_t ino, struct tdfs_reader *reader)
{
	const struct tdfs *tdfs = tdfs_of(req);

	if (tdfs_reader_snapshot(reader))
		tdfs_passthrough_close(tdfs->passthrough, req, ino);
	tdfs_reader_close(tdfs->readers, reader);
}

void tdfs_tree_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	const struct tdfs *tdfs = tdfs_of(req);
	struct tdfs_reader *reader;
	struct tdfs_node node;
	tdl_error error;

	if (!tdfs_node_of(req, ino, &node))
		return;
	if (tdfs_node_is_directory(node)) {
		fuse_reply_err(req, EISDIR);
		return;
	}
	if (tdfs_node_type(node) == S_IFLNK) {
		fuse_reply_err(req, ELOOP);
		return;
	}
	if ((fi->flags & O_ACCMODE) != O_RDONLY || (fi->flags & O_TRUNC) != 0) {
		fuse_reply_err(req, EROFS);
		return;
	}
	if (tdfs_reader_open(tdfs->readers, tdfs->tree, node, &reader, &error) < 0) {
		tdfs_answer_error(req, node, NULL, &error);
		return;
	}
	fi->fh = (uintptr_t)reader;
	/* A page at a growing file's end would show zeros where there are bytes by now. */
	fi->direct_io = tdfs_reader_grows(reader);
	fi->keep_cache = !fi->direct_io;
	fi->noflush = 1;
	if (tdfs_reader_snapshot(reader) &&
	    tdfs_passthrough_open(tdfs->passthrough, req, ino, tdfs_reader_snapshot(reader), fi,
				  &error) < 0) {
		tdfs_reader_close(tdfs->readers, reader);
		tdfs_answer_error(req, node, NULL, &error);
		return;
	}
	if (fuse_reply_open(req, fi) < 0)
		close_reader(req, ino, reader); /* interrupted: no release will come */
}

/* A read that is left to another thread. */
struct later {
	fuse_req_t req;
	struct tdfs_reader *reader;
	size_t size;
	uint64_t offset;
};

static void read_now(fuse_req_t req, struct tdfs_reader *reader, size_t size, uint64_t offset)
{
	struct tdfs_buffers *buffers = tdfs_of(req)->buffers;
	tdl_error error;
	size_t got;
	void *buffer;

	buffer = tdfs_buffers_get(buffers);
	if (!buffer) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (tdfs_reader_read(reader, buffer, size, offset, &got, &error) < 0)
		tdfs_answer_error(req, tdfs_reader_node(reader), NULL, &error);
	else
		fuse_reply_buf(req, buffer, got);
	tdfs_buffers_put(buffers, buffer);
}

static void read_later(void *argument)
{
	struct later *later = argument;

	read_now(later->req, later->reader, later->size, later->offset);
	free(later);
}

static bool leave_to_another(struct tdfs_gate *gate, const struct later *wanted)
{
	struct later *later = malloc(sizeof *later);

	if (!later)
		return false;
	*later = *wanted;
	if (tdfs_gate_aside(gate, read_later, later))
		return true;
	free(later);
	return false;
}

void tdfs_tree_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	struct tdfs_gate *gate = tdfs_of(req)->gate;
	bool entered;

	(void)ino;
	/* The kernel asks for no more than the session allows; less would be taken for the end. */
	if (offset < 0 || size > TDFS_BUFFER_SIZE) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	entered = tdfs_gate_enter(gate, 1);
	if (!entered &&
	    leave_to_another(gate, &(struct later){ req, reader_of(fi), size, (uint64_t)offset }))
		return;
	read_now(req, reader_of(fi), size, (uint64_t)offset);
	if (entered)
		tdfs_gate_leave(gate);
}

void tdfs_tree_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tdfs_reader *reader = reader_of(fi);
	tdl_snapshot *snapshot = tdfs_reader_snapshot(reader);
	tdl_error error;

	if (snapshot &&
	    tdfs_passthrough_check(tdfs_of(req)->passthrough, ino, snapshot, &error) < 0)
		tdfs_answer_error(req, tdfs_reader_node(reader), NULL, &error);
	else
		fuse_reply_err(req, 0);
}

void tdfs_tree_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	close_reader(req, ino, reader_of(fi));
	fuse_reply_err(req, 0);
}
