/* SPDX-License-Identifier: MIT */
/*
 * Answers about the read-only tree that several requests give: its nodes, their attributes, errors.
 */
#include "versions/answer.h"

#include <errno.h>
#include <stdio.h>

#include "errmap.h"
#include "msg.h"

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

void tdfs_tree_changed(const struct tdfs *tdfs)
{
	static const enum tdfs_kind kinds[] = { TDFS_ROOT, TDFS_LATEST, TDFS_HISTORY, TDFS_AT,
						TDFS_INCOMING };

	/* Attributes only, which takes no lock of the kernel that a request could hold. One that
	 * it does not know of is not an error. */
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		fuse_lowlevel_notify_inval_inode(
			tdfs->session, tdfs_node_ino((struct tdfs_node){ kinds[i], 0 }), -1, 0);
}
