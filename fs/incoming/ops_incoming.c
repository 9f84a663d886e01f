/* SPDX-License-Identifier: MIT */
/*
 * FUSE requests for incoming/ and its files, translated; and how a request that has to wait is
 * carried over to a thread that may. Decides nothing. What has no function here ops.c refuses.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon.h"
#include "gate.h"
#include "incoming/incoming.h"
#include "versions/answer.h"

/* Of the threads that answer requests so many are not in incoming/, whatever the disk does. */
#define KEPT_THREADS 2u
#define CARRIED_MAX  ((size_t)128 << 20)

/* ---- Requests on their way ---------------------------------------------------------------- */

/*
 * A request on its way: tried at once by the thread that took it, and where that would have to
 * wait, once more by one that may. Where too many of those that take requests may be stuck, the
 * other one does both. What act() points at lives as long as the request does.
 */
struct op {
	fuse_req_t req;
	struct tdfs_incoming *in;
	struct tdfs_gate *gate;
	struct tdfs_caller caller;
	/* Answers and returns 0, or returns TDFS_LATER. */
	int (*act)(struct op *op);
	fuse_ino_t ino;
	struct fuse_file_info fi;
	char *name, *to;
	char *data;
	size_t size; /* of the data */
	size_t room; /* for data that is read */
	off_t offset;
	mode_t mode;
	unsigned flags;
	struct stat change;
	enum tdfs_queue queue; /* where it waits */
};

static struct op op_of(fuse_req_t req, fuse_ino_t ino, int (*act)(struct op *op))
{
	const struct fuse_ctx *context = fuse_req_ctx(req);

	return (struct op){
		.req = req,
		.in = tdfs_of(req)->incoming,
		.gate = tdfs_of(req)->gate,
		.caller = { .tid = context->pid, .uid = context->uid, .gid = context->gid },
		.act = act,
		.ino = ino,
	};
}

static struct tdfs_handle *op_handle(const struct op *op)
{
	return (struct tdfs_handle *)(uintptr_t)op->fi.fh;
}

static void op_free(struct op *op)
{
	if (!op)
		return;
	free(op->name);
	free(op->to);
	free(op->data);
	free(op);
}

/* A copy that outlives the request's buffer. */
static struct op *op_copy(const struct op *op)
{
	struct op *copy = malloc(sizeof *copy);

	if (!copy)
		return NULL;
	*copy = *op;
	copy->name = op->name ? strdup(op->name) : NULL;
	copy->to = op->to ? strdup(op->to) : NULL;
	copy->data = op->data ? malloc(op->size ? op->size : 1) : NULL;
	if (copy->data)
		memcpy(copy->data, op->data, op->size);
	if (!copy->name == !op->name && !copy->to == !op->to && !copy->data == !op->data)
		return copy;
	op_free(copy);
	return NULL;
}

/* What copies of requests hold that nobody could take yet: one for each program that writes, where
 * the disk hangs. */
static atomic_size_t carried;

static void act_until_done(struct op *op)
{
	if (op->act(op) != TDFS_LATER)
		return;
	op->caller.may_wait = true;
	(void)op->act(op);
}

static void run_later(void *argument)
{
	struct op *op = argument;
	size_t size = op->size;

	act_until_done(op);
	op_free(op);
	atomic_fetch_sub(&carried, size);
}

/* Lets another thread take it. False: that is not possible. */
static bool hand_over(const struct op *op)
{
	struct op *copy = NULL;

	if (atomic_fetch_add(&carried, op->size) <= CARRIED_MAX)
		copy = op_copy(op);
	if (copy && tdfs_incoming_later(op->in, op->caller.uid, op->queue, run_later, copy))
		return true;
	op_free(copy);
	atomic_fetch_sub(&carried, op->size);
	return false;
}

/* No memory and no thread: late is better than never. */
static void op_run(struct op *op)
{
	bool later;

	if (!tdfs_gate_enter(op->gate, KEPT_THREADS)) {
		if (!hand_over(op))
			act_until_done(op);
		return;
	}
	later = op->act(op) == TDFS_LATER;
	op->caller.may_wait = later;
	if (later && !hand_over(op))
		(void)op->act(op);
	tdfs_gate_leave(op->gate);
}

static void op_reply_entry(struct op *op, int err, const struct stat *st)
{
	struct fuse_entry_param entry = { .attr_timeout = 0, .entry_timeout = 0 };

	if (err) {
		fuse_reply_err(op->req, err);
		return;
	}
	entry.ino = st->st_ino;
	entry.attr = *st;
	if (fuse_reply_entry(op->req, &entry) != 0)
		tdfs_incoming_forget(op->in, entry.ino, 1);
}

/* The attributes of incoming/ itself. An errno. */
static int dir_stat(const struct tdfs *tdfs, struct stat *st)
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

/* ---- Open and close ----------------------------------------------------------------------- */

/* Sizes and appends are exact, and a close tells what became of the bytes. */
static void fill_file_info(struct fuse_file_info *fi, struct tdfs_handle *handle)
{
	fi->fh = (uintptr_t)handle;
	fi->direct_io = 1;
	fi->keep_cache = 0;
	fi->noflush = !tdfs_handle_writes(handle);
}

/* The request was interrupted: nobody will release it. */
static void undo_open(struct op *op, struct tdfs_handle *handle)
{
	op->caller.may_wait = true;
	(void)tdfs_incoming_release(op->in, &op->caller, handle);
}

/* The kernel looks at the attributes once more before it lets the new file be written. Whatever
 * changes its size or times makes it forget those. */
static int act_create(struct op *op)
{
	struct fuse_entry_param entry = { .attr_timeout = TDFS_MOMENT, .entry_timeout = 0 };
	struct tdfs_handle *handle;
	int err = tdfs_incoming_create(op->in, &op->caller, op->name, op->mode, op->fi.flags,
				       &entry.attr, &handle);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	if (err) {
		fuse_reply_err(op->req, err);
		return 0;
	}
	entry.ino = entry.attr.st_ino;
	fill_file_info(&op->fi, handle);
	if (fuse_reply_create(op->req, &entry, &op->fi) != 0) {
		undo_open(op, handle);
		tdfs_incoming_forget(op->in, entry.ino, 1);
	}
	return 0;
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct op op = op_of(req, parent, act_create);

	op.name = (char *)name;
	op.mode = mode;
	op.fi = *fi;
	op_run(&op);
}

static int act_open(struct op *op)
{
	struct tdfs_handle *handle;
	int err = tdfs_incoming_open(op->in, &op->caller, op->ino, op->fi.flags, &handle);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	if (err) {
		fuse_reply_err(op->req, err);
		return 0;
	}
	fill_file_info(&op->fi, handle);
	if (fuse_reply_open(op->req, &op->fi) != 0)
		undo_open(op, handle);
	return 0;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, act_open);

	op.fi = *fi;
	op_run(&op);
}

static int act_flush(struct op *op)
{
	int answer;

	if (!op->caller.may_wait) {
		answer = tdfs_incoming_flush_begin(op->in, &op->caller, op_handle(op));
		if (answer == TDFS_LATER)
			return TDFS_LATER;
	} else {
		answer = tdfs_incoming_flush(op->in, &op->caller, op_handle(op));
	}
	/* The connection was cut meanwhile, so no release comes either. */
	if (fuse_reply_err(op->req, answer) != 0 && answer == 0 && op->caller.may_wait)
		tdfs_incoming_untold(op->in, op_handle(op));
	return 0;
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, act_flush);

	op.fi = *fi;
	op.caller.owner = fi->lock_owner;
	op.queue = TDFS_QUEUE_CLOSES;
	op_run(&op);
}

static int act_release(struct op *op)
{
	return tdfs_incoming_release(op->in, &op->caller, op_handle(op));
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, act_release);

	op.fi = *fi;
	op.queue = TDFS_QUEUE_CLOSES;
	/* Nobody waits for the answer, and the kernel ignores it. */
	fuse_reply_err(req, 0);
	op_run(&op);
}

/* ---- Bytes -------------------------------------------------------------------------------- */

static int act_read(struct op *op)
{
	char *buffer = malloc(op->room ? op->room : 1);
	size_t got = 0;
	int err = ENOMEM;

	if (buffer)
		err = tdfs_incoming_read(op->in, op_handle(op), buffer, op->room,
					 (uint64_t)op->offset, &got);
	if (err)
		fuse_reply_err(op->req, err);
	else
		fuse_reply_buf(op->req, buffer, got);
	free(buffer);
	return 0;
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, act_read);

	op.fi = *fi;
	op.room = size;
	op.offset = offset;
	op_run(&op);
}

static int act_write(struct op *op)
{
	struct tdfs_written written = { 0 };
	int err = tdfs_incoming_write_begin(op->in, &op->caller, op_handle(op), op->fi.flags,
					    op->data, op->size, (uint64_t)op->offset, &written);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	if (err)
		fuse_reply_err(op->req, err);
	else
		fuse_reply_write(op->req, written.done);
	/* The writer goes on meanwhile. */
	tdfs_incoming_write_end(op->in, op->data, &written);
	return 0;
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, act_write);

	op.fi = *fi;
	op.caller.owner = fi->lock_owner;
	op.data = (char *)data;
	op.size = size;
	op.offset = offset;
	op_run(&op);
}

static int act_fsync(struct op *op)
{
	int err = tdfs_incoming_sync(op->in, &op->caller, op_handle(op));

	if (err == TDFS_LATER)
		return TDFS_LATER;
	fuse_reply_err(op->req, err);
	return 0;
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, act_fsync);

	op.fi = *fi;
	op_run(&op);
}

/* ---- Attributes --------------------------------------------------------------------------- */

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, NULL);
	bool directory = ino == TDFS_INO_INCOMING;
	struct stat st;
	int err = directory ? dir_stat(tdfs_of(req), &st)
			    : tdfs_incoming_getattr(op.in, &op.caller, ino, &st);

	if (err)
		fuse_reply_err(req, err);
	else
		fuse_reply_attr(req, &st, directory ? TDFS_MOMENT : 0);
}

static int act_setattr(struct op *op)
{
	struct stat st;
	int err = tdfs_incoming_setattr(op->in, &op->caller, op->ino, &op->change, op->flags, &st);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	if (err)
		fuse_reply_err(op->req, err);
	else
		fuse_reply_attr(op->req, &st, 0);
	return 0;
}

/* Whether it would hide or close the folder, or give it away: whoever asked for that must not
 * believe that he has it now. */
static bool takes_away(const struct stat *change, int to_set, const struct stat *st)
{
	return (to_set & FUSE_SET_ATTR_MODE && st->st_mode & ~change->st_mode & 0777) ||
	       (to_set & FUSE_SET_ATTR_UID && change->st_uid != st->st_uid) ||
	       (to_set & FUSE_SET_ATTR_GID && change->st_gid != st->st_gid);
}

/*
 * The folder's mode and owner are the table's, and stay: what changes them is granted and not kept,
 * as its times are, where it takes nothing away, and where it comes from a program that copies a
 * folder, whose files are committed whatever becomes of this.
 */
static void set_directory(fuse_req_t req, const struct stat *change, int to_set)
{
	struct op op = op_of(req, TDFS_INO_INCOMING, NULL);
	struct stat st;
	int err = dir_stat(tdfs_of(req), &st);

	if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME) &&
	    !(to_set & FUSE_SET_ATTR_MTIME_NOW))
		tdfs_incoming_copying(op.in, &op.caller, true);
	if (err == 0 && takes_away(change, to_set, &st) && !tdfs_incoming_copies(op.in, &op.caller))
		err = EPERM;
	if (err)
		fuse_reply_err(req, err);
	else
		fuse_reply_attr(req, &st, TDFS_MOMENT);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *change, int to_set,
		       struct fuse_file_info *fi)
{
	static const struct {
		int fuse;
		unsigned ours;
	} bits[] = {
		{ FUSE_SET_ATTR_MODE, TDFS_SET_MODE },
		{ FUSE_SET_ATTR_UID, TDFS_SET_UID },
		{ FUSE_SET_ATTR_GID, TDFS_SET_GID },
		{ FUSE_SET_ATTR_SIZE, TDFS_SET_SIZE },
		{ FUSE_SET_ATTR_ATIME, TDFS_SET_ATIME },
		{ FUSE_SET_ATTR_MTIME, TDFS_SET_MTIME },
		{ FUSE_SET_ATTR_ATIME_NOW, TDFS_SET_ATIME_NOW },
		{ FUSE_SET_ATTR_MTIME_NOW, TDFS_SET_MTIME_NOW },
	};
	struct op op = op_of(req, ino, act_setattr);

	if (ino == TDFS_INO_INCOMING) {
		set_directory(req, change, to_set);
		return;
	}
	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
		if (to_set & bits[i].fuse)
			op.flags |= bits[i].ours;
	op.change = *change;
	op_run(&op);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	if (ino >= TDFS_INO_STAGED)
		tdfs_incoming_forget(tdfs_of(req)->incoming, ino, count);
	fuse_reply_none(req);
}

/* As the kernel forgets, many at once: whenever it needs memory, or a process has ended. */
static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		if (forgets[i].ino >= TDFS_INO_STAGED)
			tdfs_incoming_forget(tdfs_of(req)->incoming, forgets[i].ino,
					     forgets[i].nlookup);
	fuse_reply_none(req);
}

/* ---- Extended attributes ------------------------------------------------------------------ */

/*
 * Taken and not kept, so that a copy that preserves them does not fail when its rows are committed
 * already. The kernel has asked whether the caller may; of an ACL it has not everywhere. The
 * folder's, which may be an ACL that closes it, as its mode.
 */
static void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
			size_t size, int flags)
{
	struct op op = op_of(req, ino, NULL);
	bool taken = ino != TDFS_INO_INCOMING || tdfs_incoming_copies(op.in, &op.caller);

	fuse_reply_err(req, taken ? 0 : EPERM);
}

/* There is none. */
static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	fuse_reply_err(req, 0);
}

/* ---- Names -------------------------------------------------------------------------------- */

static int act_lookup(struct op *op)
{
	struct stat st;
	int err = tdfs_incoming_lookup(op->in, &op->caller, op->name, &st);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	op_reply_entry(op, err, &st);
	return 0;
}

static void lookup_root(fuse_req_t req)
{
	const struct tdfs_node root = { TDFS_ROOT, 0 };
	struct fuse_entry_param entry;
	tdl_error error;

	if (tdfs_fill_entry(tdfs_of(req), root, TDFS_NOW, &entry, &error) < 0)
		tdfs_answer_error(req, root, NULL, &error);
	else
		fuse_reply_entry(req, &entry);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct op op = op_of(req, parent, act_lookup);
	struct stat st;

	/* A file server asks for these. */
	if (strcmp(name, "..") == 0 && parent == TDFS_INO_INCOMING) {
		lookup_root(req);
		return;
	}
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		int err = parent == TDFS_INO_INCOMING || name[1] == '.'
				  ? dir_stat(tdfs_of(req), &st)
				  : tdfs_incoming_again(op.in, parent, &st);

		op_reply_entry(&op, err, &st);
		return;
	}
	op.name = (char *)name;
	op_run(&op);
}

static int act_mknod(struct op *op)
{
	struct stat st;
	int err = tdfs_incoming_create(op->in, &op->caller, op->name, op->mode, 0, &st, NULL);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	op_reply_entry(op, err, &st);
	return 0;
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	struct op op = op_of(req, parent, act_mknod);

	if (!S_ISREG(mode)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	op.name = (char *)name;
	op.mode = mode;
	op_run(&op);
}

static int act_unlink(struct op *op)
{
	int err = tdfs_incoming_unlink(op->in, &op->caller, op->name);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	fuse_reply_err(op->req, err);
	return 0;
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct op op = op_of(req, parent, act_unlink);

	op.name = (char *)name;
	op_run(&op);
}

static int act_rename(struct op *op)
{
	int err = tdfs_incoming_rename(op->in, &op->caller, op->name, op->to, op->flags);

	if (err == TDFS_LATER)
		return TDFS_LATER;
	fuse_reply_err(op->req, err);
	return 0;
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned flags)
{
	struct op op = op_of(req, parent, act_rename);

	if (parent != new_parent) {
		fuse_reply_err(req, EXDEV);
		return;
	}
	op.name = (char *)name;
	op.to = (char *)new_name;
	op.flags = flags;
	op.queue = TDFS_QUEUE_RENAMES;
	op_run(&op);
}

/* ---- The directory ------------------------------------------------------------------------ */

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct op op = op_of(req, ino, NULL);

	tdfs_incoming_listed(op.in);
	tdfs_incoming_copying(op.in, &op.caller, true);
	fuse_reply_open(req, fi);
}

/* Entry 1 is ".", 2 "..", the others follow in the order of their inode numbers. */
struct listing {
	fuse_req_t req;
	bool plus;
	char *buffer;
	size_t size, used;
};

/* False: no more room. */
static bool put_entry(struct listing *list, const char *name, const struct stat *st, off_t next)
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
	struct op op = op_of(list->req, TDFS_INO_INCOMING, NULL);
	uint64_t at = offset > 2 ? (uint64_t)offset - 2 : 0, ino;
	char name[256];

	while (tdfs_incoming_list(in, &at, name, &ino)) {
		struct stat st = { .st_ino = ino, .st_mode = S_IFREG };

		/* One that went meanwhile, or became a recent name, is left out. */
		if (list->plus && tdfs_incoming_lookup(in, &op.caller, name, &st) != 0)
			continue;
		if (!put_entry(list, name, &st, (off_t)at + 2)) {
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
	struct tdfs_caller caller = op_of(req, TDFS_INO_INCOMING, NULL).caller;
	struct stat here, above = { .st_ino = TDFS_INO_ROOT, .st_mode = S_IFDIR };
	int err = list.buffer ? dir_stat(tdfs, &here) : ENOMEM;

	if (err) {
		fuse_reply_err(req, err);
		free(list.buffer);
		return;
	}
	tdfs_incoming_copying(tdfs->incoming, &caller, false);
	if ((offset >= 1 || put_entry(&list, ".", &here, 1)) &&
	    (offset >= 2 || put_entry(&list, "..", &above, 2)))
		put_files(&list, tdfs->incoming, offset);
	fuse_reply_buf(req, list.buffer, list.used);
	free(list.buffer);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	list_names(req, size, offset, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
			   struct fuse_file_info *fi)
{
	list_names(req, size, offset, true);
}

const struct fuse_lowlevel_ops tdfs_incoming_ops = {
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.mknod = op_mknod,
	.unlink = op_unlink,
	.rename = op_rename,
	.create = op_create,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
};
