/* SPDX-License-Identifier: MIT */
/*
 * FUSE requests for names in incoming/ and for the directory itself, translated. Decides nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "incoming/ops_incoming.h"
#include "versions/tree.h"

/* ---- Names -------------------------------------------------------------------------------- */

static int act_lookup(struct tdfs_op *op)
{
	struct stat st;
	int why = tdfs_incoming_lookup(op->in, &op->caller, op->name, &st);

	if (why == TDFS_LATER)
		return TDFS_LATER;
	tdfs_op_reply_entry(op, why, &st);
	return 0;
}

void tdfs_incoming_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct tdfs_op op = tdfs_op_of(req, parent, act_lookup);
	struct stat st;

	/* A file server asks for these. */
	if (strcmp(name, "..") == 0) {
		tdfs_tree_ops.lookup(req, TDFS_INO_INCOMING,
				     parent == TDFS_INO_INCOMING ? ".." : ".");
		return;
	}
	if (strcmp(name, ".") == 0) {
		int why = parent == TDFS_INO_INCOMING ? tdfs_incoming_dir_stat(tdfs_of(req), &st)
						      : tdfs_incoming_again(op.in, parent, &st);

		tdfs_op_reply_entry(&op, why, &st);
		return;
	}
	op.name = (char *)name;
	tdfs_op_run(&op);
}

static int act_mknod(struct tdfs_op *op)
{
	struct stat st;
	int why = tdfs_incoming_create(op->in, &op->caller, op->name, op->mode, 0, &st, NULL);

	if (why == TDFS_LATER)
		return TDFS_LATER;
	tdfs_op_reply_entry(op, why, &st);
	return 0;
}

void tdfs_incoming_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
			    dev_t device)
{
	struct tdfs_op op = tdfs_op_of(req, parent, act_mknod);

	if (!S_ISREG(mode)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	op.name = (char *)name;
	op.mode = mode;
	tdfs_op_run(&op);
}

void tdfs_incoming_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	fuse_reply_err(req, EPERM);
}

void tdfs_incoming_op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, EPERM);
}

void tdfs_incoming_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, EPERM);
}

void tdfs_incoming_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, ENOTDIR);
}

static int act_unlink(struct tdfs_op *op)
{
	int why = tdfs_incoming_unlink(op->in, &op->caller, op->name);

	if (why == TDFS_LATER)
		return TDFS_LATER;
	fuse_reply_err(op->req, why);
	return 0;
}

void tdfs_incoming_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct tdfs_op op = tdfs_op_of(req, parent, act_unlink);

	op.name = (char *)name;
	tdfs_op_run(&op);
}

static int act_rename(struct tdfs_op *op)
{
	int why = tdfs_incoming_rename(op->in, &op->caller, op->name, op->to, op->flags);

	if (why == TDFS_LATER)
		return TDFS_LATER;
	fuse_reply_err(op->req, why);
	return 0;
}

void tdfs_incoming_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
			     fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
	struct tdfs_op op = tdfs_op_of(req, parent, act_rename);

	if (parent != new_parent) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	op.name = (char *)name;
	op.to = (char *)new_name;
	op.flags = flags;
	op.queue = TDFS_QUEUE_RENAMES;
	tdfs_op_run(&op);
}

/* ---- The directory ------------------------------------------------------------------------ */

int tdfs_incoming_dir_stat(const struct tdfs *tdfs, struct stat *st)
{
	struct stat table;

	if (fstat(tdl_table_fd(tdfs->table), &table) != 0)
		return errno;
	memset(st, 0, sizeof *st);
	st->st_ino = TDFS_INO_INCOMING;
	st->st_mode = S_IFDIR;
	tdfs_tree_own(tdfs->tree, &table, 0777, st);
	/* Several users of one table do not remove each other's files. */
	if (st->st_mode & 0022)
		st->st_mode |= S_ISVTX;
	st->st_nlink = 2;
	st->st_blksize = 4096;
	st->st_mtim = st->st_atim = st->st_ctim = tdfs_incoming_changed(tdfs->incoming);
	return 0;
}

void tdfs_incoming_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct tdfs_op op = tdfs_op_of(req, ino, NULL);

	tdfs_incoming_listed(op.in);
	tdfs_incoming_copying(op.in, &op.caller, true);
	fuse_reply_open(req, fi);
}

void tdfs_incoming_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fuse_reply_err(req, 0);
}

void tdfs_incoming_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
			       struct fuse_file_info *fi)
{
	fuse_reply_err(req, 0);
}

/* Entry 1 is ".", 2 "..", the others follow in the order of their inode numbers. */
struct listing {
	fuse_req_t req;
	bool plus;
	char *buffer;
	size_t size, used;
};

/* False: no more room. */
static bool put(struct listing *list, const char *name, const struct stat *st, off_t next)
{
	size_t room = list->size - list->used, need;

	if (list->plus) {
		struct fuse_entry_param entry = { .attr = *st };

		/* "." and ".." count no lookup. */
		if (name[0] != '.' || (name[1] && strcmp(name, "..") != 0))
			entry.ino = st->st_ino;
		need = fuse_add_direntry_plus(list->req, list->buffer + list->used, room, name,
					      &entry, next);
	} else {
		need = fuse_add_direntry(list->req, list->buffer + list->used, room, name, st,
					 next);
	}
	if (need > room)
		return false;
	list->used += need;
	return true;
}

static void put_files(struct listing *list, struct tdfs_incoming *in, off_t offset)
{
	struct tdfs_op op = tdfs_op_of(list->req, TDFS_INO_INCOMING, NULL);
	uint64_t at = offset > 2 ? (uint64_t)offset - 2 : 0, ino;
	char name[256];

	while (tdfs_incoming_list(in, &at, name, &ino)) {
		struct stat st = { .st_ino = ino, .st_mode = S_IFREG };

		/* One that went meanwhile, or became a recent name, is left out. */
		if (list->plus && tdfs_incoming_lookup(in, &op.caller, name, &st) != 0)
			continue;
		if (!put(list, name, &st, (off_t)at + 2)) {
			if (list->plus)
				tdfs_incoming_forget(in, st.st_ino, 1);
			break;
		}
	}
}

static void list_names(fuse_req_t req, size_t size, off_t offset, bool plus)
{
	struct tdfs *tdfs = tdfs_of(req);
	struct listing list = { .req = req, .plus = plus, .buffer = malloc(size), .size = size };
	struct tdfs_caller caller = tdfs_op_of(req, TDFS_INO_INCOMING, NULL).caller;
	struct stat here, above = { .st_ino = TDFS_INO_ROOT, .st_mode = S_IFDIR };
	int why = list.buffer ? tdfs_incoming_dir_stat(tdfs, &here) : ENOMEM;

	if (why) {
		fuse_reply_err(req, why);
		free(list.buffer);
		return;
	}
	tdfs_incoming_copying(tdfs->incoming, &caller, false);
	if ((offset >= 1 || put(&list, ".", &here, 1)) &&
	    (offset >= 2 || put(&list, "..", &above, 2)))
		put_files(&list, tdfs->incoming, offset);
	fuse_reply_buf(req, list.buffer, list.used);
	free(list.buffer);
}

void tdfs_incoming_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
			      struct fuse_file_info *fi)
{
	list_names(req, size, offset, false);
}

void tdfs_incoming_op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
				  struct fuse_file_info *fi)
{
	list_names(req, size, offset, true);
}
