/* SPDX-License-Identifier: MIT */
/*
 * Requests about the nodes of the read-only tree: names, attributes, the file system's numbers.
 * Only translates; what there is stands in tree.c. What would change something has no function
 * here: ops.c refuses it.
 */
#include "versions/ops_tree.h"

#include <errno.h>
#include <sys/statvfs.h>

_Static_assert(TDFS_INO_ROOT == FUSE_ROOT_ID, "the kernel's number of the root");

static void tree_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	const struct tdfs *tdfs = tdfs_of(req);
	struct fuse_entry_param entry;
	struct tdfs_node directory, node;
	enum tdfs_lasting lasting;
	tdl_error error;

	if (!tdfs_node_of(req, parent, &directory))
		return;
	if (tdfs_tree_lookup(tdfs->tree, directory, name, &node, &lasting, &error) < 0) {
		tdfs_answer_error(req, directory, name, &error);
		return;
	}
	if (node.kind == TDFS_INCOMING && tdfs->incoming) {
		/* Its attributes are not ours to tell. */
		tdfs_incoming_ops.lookup(req, TDFS_INO_INCOMING, ".");
		return;
	}
	if (tdfs_fill_entry(tdfs, node, lasting, &entry, &error) < 0)
		tdfs_answer_error(req, node, NULL, &error);
	else
		fuse_reply_entry(req, &entry);
}

static void tree_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	enum tdfs_lasting lasting;
	struct tdfs_node node;
	struct stat st;
	tdl_error error;

	if (!tdfs_node_of(req, ino, &node))
		return;
	if (tdfs_tree_stat(tdfs_of(req)->tree, node, &st, &lasting, &error) < 0)
		tdfs_answer_error(req, node, NULL, &error);
	else
		fuse_reply_attr(req, &st, tdfs_timeout(lasting));
}

static void tree_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[TDFS_PATH_MAX];
	struct tdfs_node node;

	if (!tdfs_node_of(req, ino, &node))
		return;
	if (tdfs_tree_readlink(tdfs_of(req)->tree, node, target))
		fuse_reply_readlink(req, target);
	else
		fuse_reply_err(req, EINVAL);
}

static void tree_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st;

	if (fstatvfs(tdl_table_fd(tdfs_of(req)->table), &st) < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	/* Programs ask for this before they make up a temporary name. */
	st.f_namemax =
		ino == TDFS_INO_INCOMING || ino >= TDFS_INO_STAGED ? TDL_STAGED_NAME_MAX : 255;
	fuse_reply_statfs(req, &st);
}

const struct fuse_lowlevel_ops tdfs_tree_ops = {
	.lookup = tree_lookup,
	.getattr = tree_getattr,
	.readlink = tree_readlink,
	.statfs = tree_statfs,
	.open = tdfs_tree_open,
	.read = tdfs_tree_read,
	.flush = tdfs_tree_flush,
	.release = tdfs_tree_release,
	.opendir = tdfs_tree_opendir,
	.readdir = tdfs_tree_readdir,
	.readdirplus = tdfs_tree_readdirplus,
	.releasedir = tdfs_tree_releasedir,
};
