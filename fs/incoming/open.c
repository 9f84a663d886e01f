/* SPDX-License-Identifier: MIT */
/*
 * How a staged file and a handle on it come to be: create, mknod, open, and what O_TRUNC may do.
 * When it is finished is decided elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

bool tdfs_handle_writes(const struct tdfs_handle *handle)
{
	return handle->writes;
}

static struct tdfs_handle *handle_new(struct tdfs_incoming *in, struct tdfs_inode *node,
				      const struct tdfs_caller *caller, int flags)
{
	struct tdfs_handle *handle = calloc(1, sizeof *handle);
	struct tdfs_drop *drop = tdfs_drop_of(node);
	int access = flags & O_ACCMODE;

	if (!handle)
		return NULL;
	handle->node = node;
	handle->reads = access != O_WRONLY;
	handle->writes = access != O_RDONLY;
	handle->next = in->handles;
	handle->link = &in->handles;
	if (in->handles)
		in->handles->link = &handle->next;
	in->handles = handle;
	node->users++;
	if (!drop || !handle->writes)
		return handle;
	if (drop->writers == 0 && drop->size == 0 && drop->base == 0 && !drop->failed)
		tdfs_drop_rewritten(in, drop);
	handle->serial = ++drop->opens;
	drop->writers++;
	drop->unclosed++;
	drop->writer = caller->uid;
	handle->opener = caller->tid;
	tdfs_people_opened(in, drop, caller);
	return handle;
}

/* ---- Create ------------------------------------------------------------------------------- */

/*
 * Makes a drop under a name that is not listed; a ghost there ends. Gives the lock up meanwhile.
 * EEXIST where somebody else was first.
 */
static int make_drop(struct tdfs_incoming *in, const char *name, mode_t mode, uid_t uid, gid_t gid,
		     struct tdfs_drop **made)
{
	struct tdfs_drop *drop = NULL;
	struct tdfs_inode *node;
	void *file;
	int fd, why;

	tdfs_unlock(in);
	why = in->backend.create(in->backend.context, name, &file, &fd);
	if (why == 0 && in->backend.own)
		in->backend.own(in->backend.context, file, uid, gid, mode & 0777);
	tdfs_lock(in);
	if (why)
		return why;
	node = tdfs_inode_by_name(in, name);
	if (node && tdfs_inode_listed(node)) {
		why = EEXIST;
	} else {
		if (node)
			tdfs_ghost_end(in, tdfs_drop_of(node));
		drop = tdfs_drop_new(in, name, mode, uid, gid, file, fd);
		why = drop ? 0 : ENOMEM;
	}
	if (why) {
		tdfs_unlock(in);
		in->backend.remove(in->backend.context, file);
		in->backend.free(in->backend.context, file);
		tdfs_lock(in);
		return why;
	}
	*made = drop;
	return 0;
}

static int open_existing(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
			 int flags, struct stat *st, struct tdfs_handle **handle)
{
	struct tdfs_inode *node;
	int why = tdfs_incoming_open(in, caller, ino, flags, handle);

	if (why)
		return why;
	tdfs_lock(in);
	node = (*handle)->node;
	node->lookups++;
	tdfs_inode_stat(node, st);
	tdfs_unlock(in);
	return 0;
}

int tdfs_incoming_create(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *name, mode_t mode, int flags, struct stat *st,
			 struct tdfs_handle **handle)
{
	struct tdfs_inode *node;
	struct tdfs_drop *drop;
	int why;

	if (strlen(name) > TDL_STAGED_NAME_MAX)
		return ENAMETOOLONG;
	if (tdfs_name_is_note(name))
		return EPERM;
	tdfs_lock(in);
	if (in->closing) {
		tdfs_unlock(in);
		return EROFS;
	}
	tdfs_ghosts_expire(in);
	do {
		node = tdfs_inode_by_name(in, name);
		if (node && tdfs_inode_listed(node)) {
			uint64_t ino = node->ino;
			uid_t uid = node->uid;

			tdfs_unlock(in);
			if (!handle || flags & O_EXCL)
				return EEXIST;
			/* The kernel has found nothing there and checked nothing: it has to look
			 * again. */
			if (uid != caller->uid)
				return ESTALE;
			why = open_existing(in, caller, ino, flags, st, handle);
			if (why != ESTALE)
				return why;
			tdfs_lock(in); /* it went meanwhile */
			why = EEXIST;
			continue;
		}
		why = make_drop(in, name, mode, caller->uid, caller->gid, &drop);
	} while (why == EEXIST);
	if (why == 0 && handle) {
		*handle = handle_new(in, &drop->node, caller, flags);
		if (!*handle) {
			/* It stays, empty and listed. */
			why = ENOMEM;
		}
	}
	if (why == 0) {
		drop->node.lookups++;
		tdfs_inode_stat(&drop->node, st);
		tdfs_inode_settle(in, &drop->node);
	}
	tdfs_unlock(in);
	return why;
}

/* ---- Open --------------------------------------------------------------------------------- */

/*
 * A published file is opened for writing. Its inode cannot become another file; so the name gets
 * a fresh drop, where it is the writer's own ghost, and ESTALE makes the kernel look the name up
 * again. Where nothing is done with it then (Emacs looks at a file it has saved through a
 * descriptor that could write), it goes with the last handle.
 */
static int open_published(struct tdfs_incoming *in, struct tdfs_drop *drop,
			  const struct tdfs_caller *caller)
{
	struct tdfs_inode *node = &drop->node;
	struct tdfs_drop *fresh;
	int wrote = node->name ? tdfs_people_wrote(in, drop, caller) : 0;
	char *name;

	if (wrote == TDFS_LATER)
		return TDFS_LATER;
	if (!wrote || !node->name || drop->state != TDFS_PUBLISHED)
		return ESTALE;
	name = strdup(node->name);
	if (!name)
		return ENOMEM;
	if (make_drop(in, name, node->mode, node->uid, node->gid, &fresh) == 0) {
		fresh->unasked = true;
		tdfs_inode_appears(&fresh->node);
		fresh->until = in->backend.now(in->backend.context) + TDFS_GHOST_MS;
		in->unopened = true;
		in->backend.untidy(in->backend.context);
	}
	free(name);
	return ESTALE;
}

/* One that has been looked up, through /proc/self/fd say, is not looked up again. */
void tdfs_unopened_expire(struct tdfs_incoming *in)
{
	int64_t now = in->backend.now(in->backend.context);
	struct tdfs_inode *node = in->unopened ? in->oldest : NULL;

	in->unopened = false;
	while (node) {
		struct tdfs_drop *drop = tdfs_drop_of(node);

		if (!drop || !drop->unasked || drop->opens > 0 || drop->changes > 0 ||
		    !node->name || drop->state != TDFS_OPEN) {
			node = node->next;
		} else if (drop->until > now) {
			in->unopened = true;
			node = node->next;
		} else {
			tdfs_drop_cancel(in, drop);
			node = in->oldest; /* anything may have changed */
		}
	}
}

/* A handle that is surely open, and not the caller's own. */
static bool another_is_open(struct tdfs_incoming *in, struct tdfs_drop *drop,
			    const struct tdfs_caller *caller, pid_t process)
{
	for (struct tdfs_handle *handle = in->handles; handle; handle = handle->next) {
		if (handle->node == &drop->node && handle->writes && !handle->closed &&
		    handle->opener != caller->tid &&
		    !tdfs_people_same(drop, handle->opener, process))
			return true;
	}
	return false;
}

/*
 * O_TRUNC while another process has it open for writing. Where nobody has, but bytes are not
 * published, their last close is on its way to us: they must not be lost.
 */
static int may_truncate(struct tdfs_incoming *in, struct tdfs_drop *drop,
			const struct tdfs_caller *caller)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_LOOKS_MS;

	while (drop->writers > 0 && drop->state == TDFS_OPEN) {
		struct tdfs_verdict verdict;

		if (!caller->may_wait)
			return TDFS_LATER;
		verdict = tdfs_people_look(in, drop, TDFS_LOOK_HOLDERS, NULL, caller->tid);
		if (drop->state != TDFS_OPEN)
			break;
		if (verdict.held || another_is_open(in, drop, caller, verdict.aside))
			return EBUSY;
		if (verdict.aside_holds || !tdfs_drop_commits(drop) ||
		    (!tdfs_drop_unpublished(drop) && drop->looking == 0))
			break;
		if (in->backend.now(in->backend.context) >= until)
			return EBUSY;
		tdfs_sleep_unlocked(in, TDFS_STEP_MS);
	}
	return 0;
}

/* With no write under way, which the caller may not wait for: what it wrote is cut too. */
static int truncate_all(struct tdfs_incoming *in, struct tdfs_drop *drop,
			const struct tdfs_caller *caller)
{
	int why;

	if (drop->writing > 0 && !caller->may_wait)
		return TDFS_LATER;
	tdfs_drop_freeze(in, drop);
	why = drop->size > 0 ? tdfs_drop_cut(in, drop, 0) : 0;
	tdfs_drop_thaw(in, drop);
	if (why)
		return why;
	drop->base = 0;
	drop->failed = 0;
	drop->changes++;
	drop->node.mtime = drop->node.ctime = tdfs_time();
	tdfs_drop_rewritten(in, drop);
	return 0;
}

static int open_drop(struct tdfs_incoming *in, struct tdfs_drop *drop,
		     const struct tdfs_caller *caller, int flags)
{
	for (;;) {
		uint64_t opens;
		int why;

		if (drop->state == TDFS_PUBLISHING) {
			if (!caller->may_wait)
				return TDFS_LATER;
			tdfs_drop_wait(in, drop);
		}
		if (drop->state == TDFS_PUBLISHED)
			return open_published(in, drop, caller);
		if (!(flags & O_TRUNC))
			return 0;
		opens = drop->opens;
		why = may_truncate(in, drop, caller);
		if (why)
			return why;
		/* Whoever opened it during the look was not seen. */
		if (drop->state == TDFS_OPEN && drop->opens == opens)
			return truncate_all(in, drop, caller);
	}
}

/* A handle has a descriptor. While it is opened somebody may publish the drop. */
static int wake_open(struct tdfs_incoming *in, struct tdfs_drop *drop, bool changes)
{
	int why = tdfs_drop_wake(in, drop);

	if (why == EIO && !drop->file)
		return ESTALE;
	/* The kernel tries once more, and is told what it then is. */
	return why == 0 && changes && drop->state != TDFS_OPEN ? ESTALE : why;
}

int tdfs_incoming_open(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
		       int flags, struct tdfs_handle **handle)
{
	bool changes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	struct tdfs_inode *node;
	struct tdfs_drop *drop;
	int why = 0;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (!node) {
		tdfs_unlock(in);
		return ESTALE;
	}
	drop = tdfs_drop_of(node);
	node->users++;
	if (!drop && changes)
		why = EPERM;
	else if (changes && in->closing)
		why = EROFS;
	else if (drop && changes)
		why = open_drop(in, drop, caller, flags);
	else if (drop && !drop->file)
		why = ESTALE; /* published, and nobody had it open */
	if (why == 0 && drop)
		why = wake_open(in, drop, changes);
	if (why == 0) {
		*handle = handle_new(in, node, caller, flags);
		if (!*handle)
			why = ENOMEM;
	}
	node->users--;
	tdfs_inode_settle(in, node);
	tdfs_unlock(in);
	return why;
}
