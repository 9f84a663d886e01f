/* SPDX-License-Identifier: MIT */
/*
 * Listing the directories of the read-only tree. A listing keeps no state: each request goes on
 * from an offset that means the same name for ever, however many commits land meanwhile.
 */
#include <errno.h>

#include "buffers.h"
#include "versions/ops_tree.h"

void tdfs_tree_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tdfs_node node;

	if (!tdfs_node_of(req, ino, &node))
		return;
	if (!tdfs_node_is_directory(node))
		fuse_reply_err(req, ENOTDIR);
	else {
		/* A version's never changes: the kernel need not ask for it again. */
		fi->cache_readdir = fi->keep_cache = node.kind == TDFS_VERSION;
		fuse_reply_open(req, fi);
	}
}

void tdfs_tree_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fuse_reply_err(req, 0);
}

/*
 * Whether a listing tells the attributes too, so that `ls -l` need not ask for each. Not those of
 * incoming/, which are not ours, nor those of records, whose size is known only once rendered.
 * What cannot be read is only named; the lookup that follows says why.
 */
static bool tell_attributes(const struct tdfs *tdfs, const struct tdfs_entry *item)
{
	if (item->name[0] == '.' || item->node.kind == TDFS_RECORD)
		return false;
	return item->node.kind != TDFS_INCOMING || !tdfs->incoming;
}

static size_t add_entry(fuse_req_t req, const struct tdfs_node *directory, bool plus, char *at,
			size_t room, const struct tdfs_entry *item)
{
	struct stat st = {
		.st_ino = tdfs_node_ino(item->node),
		.st_mode = tdfs_node_type(item->node),
	};
	struct fuse_entry_param entry;
	tdl_error error;

	if (!plus)
		return fuse_add_direntry(req, at, room, item->name, &st, (off_t)item->next);
	/* Nothing is looked up for an entry that would not fit. */
	if (fuse_add_direntry_plus(req, NULL, 0, item->name, NULL, 0) > room)
		return room + 1;
	if (!tell_attributes(tdfs_of(req), item) ||
	    tdfs_fill_entry(tdfs_of(req), item->node, TDFS_FOR_EVER, &entry, &error) < 0)
		entry = (struct fuse_entry_param){ .attr = st };
	else if (directory->kind == TDFS_LATEST || entry.attr_timeout == 0)
		entry.entry_timeout = tdfs_timeout(TDFS_NOW);
	return fuse_add_direntry_plus(req, at, room, item->name, &entry, (off_t)item->next);
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, bool plus)
{
	const struct tdfs *tdfs = tdfs_of(req);
	uint64_t next = (uint64_t)offset;
	struct tdfs_node directory;
	struct tdfs_entry item;
	size_t used = 0;
	char *buffer;

	if (!tdfs_node_of(req, ino, &directory))
		return;
	buffer = tdfs_buffers_get(tdfs->buffers);
	if (!buffer) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (size > TDFS_BUFFER_SIZE)
		size = TDFS_BUFFER_SIZE;
	while (tdfs_tree_entry(tdfs->tree, directory, next, &item) > 0) {
		size_t length = add_entry(req, &directory, plus, buffer + used, size - used, &item);

		if (length > size - used)
			break;
		used += length;
		next = item.next;
	}
	fuse_reply_buf(req, buffer, used);
	tdfs_buffers_put(tdfs->buffers, buffer);
}

void tdfs_tree_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	list(req, ino, size, offset, false);
}

void tdfs_tree_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
			   struct fuse_file_info *fi)
{
	list(req, ino, size, offset, true);
}
