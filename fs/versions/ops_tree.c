/* SPDX-License-Identifier: MIT */
/*
 * Requests about the nodes of the read-only tree: names, attributes, the file system's numbers.
 * Only translates; what there is stands in tree.c. What would change something has no function
 * here: ops.c refuses it.
 */
#include "versions/ops_tree.h"

#include <errno.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "errmap.h"
#include "msg.h"

_Static_assert(TDFS_INO_ROOT == FUSE_ROOT_ID, "the kernel's number of the root");

bool tdfs_node_of(fuse_req_t req, fuse_ino_t ino, struct tdfs_node *node)
{
	if (tdfs_node_from_ino(ino, node))
		return true;
	fuse_reply_err(req, ENOENT);
	return false;
}

void tdfs_answer_error(fuse_req_t req, struct tdfs_node node, const char *name,
		       const tdl_error *error)
{
	char path[TDFS_PATH_MAX], where[TDFS_PATH_MAX + 256];

	if (error->code != TDL_ERR_NOT_FOUND) {
		tdfs_node_path(node, path);
		snprintf(where, sizeof where, "%s%s%s", path, !name ? "" : "/", !name ? "" : name);
		tdfs_msg_fault(tdl_table_path(tdfs_of(req)->table), where, error);
	}
	fuse_reply_err(req, tdfs_errno(error));
}

double tdfs_timeout(enum tdfs_lasting lasting)
{
	switch (lasting) {
	case TDFS_NOW:
		return 0;
	case TDFS_A_MOMENT:
		return TDFS_MOMENT;
	case TDFS_FOR_EVER:
		return 1e9; /* seconds: thirty years */
	}
	return 0;
}

int tdfs_fill_entry(const struct tdfs *tdfs, struct tdfs_node node, enum tdfs_lasting name_lasting,
		    struct fuse_entry_param *entry, tdl_error *error)
{
	enum tdfs_lasting lasting;
	struct stat st;
	int result = tdfs_tree_stat(tdfs->tree, node, &st, &lasting, error);

	if (result < 0)
		return result;
	*entry = (struct fuse_entry_param){
		.ino = st.st_ino,
		.attr = st,
		.attr_timeout = tdfs_timeout(lasting),
		.entry_timeout = tdfs_timeout(name_lasting),
	};
	return 0;
}

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

void tdfs_tree_changed(const struct tdfs *tdfs)
{
	static const enum tdfs_kind kinds[] = { TDFS_ROOT, TDFS_LATEST, TDFS_HISTORY,
						TDFS_INCOMING };

	/* Attributes only, which takes no lock of the kernel that a request could hold. One that
	 * it does not know of is no error. */
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		fuse_lowlevel_notify_inval_inode(
			tdfs->session, tdfs_node_ino((struct tdfs_node){ kinds[i], 0 }), -1, 0);
}

const struct fuse_lowlevel_ops tdfs_tree_ops = {
	.lookup = tree_lookup,
	.getattr = tree_getattr,
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
