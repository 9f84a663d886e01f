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
	struct tdfs_staged *staged = tdfs_staged_of(node);
	int access = flags & O_ACCMODE;

	if (!handle)
		return NULL;
	handle->node = node;
	handle->reads = access != O_WRONLY;
	handle->writes = access != O_RDONLY;
	if (staged)
		tdfs_quota_opened(in, handle, caller->uid);
	handle->next = in->handles;
	handle->link = &in->handles;
	if (in->handles)
		in->handles->link = &handle->next;
	in->handles = handle;
	node->users++;
	if (!staged || !handle->writes)
		return handle;
	if (staged->writers == 0 && staged->size == 0 && staged->base == 0 && !staged->failed)
		tdfs_staged_rewritten(in, staged);
	handle->serial = ++staged->opens;
	staged->writers++;
	staged->unflushed++;
	staged->writer = caller->uid;
	handle->opener = caller->tid;
	tdfs_client_opened(in, staged, caller);
	return handle;
}

/* ---- Create ------------------------------------------------------------------------------- */

/*
 * Makes a staged file under a name that is not listed; a recent name there ends. Gives the lock up
 * meanwhile. EEXIST where somebody else was first.
 */
static int make_staged_unlocks(struct tdfs_incoming *in, const char *name, mode_t mode, uid_t uid,
			       gid_t gid, struct tdfs_staged **made)
{
	struct tdfs_staged *staged = NULL;
	struct tdfs_inode *node;
	void *file;
	int fd, err = tdfs_quota_file(in, uid);

	if (err)
		return err;
	tdfs_unlock(in);
	err = in->backend.create(in->backend.context, name, &file, &fd);
	if (err == 0 && in->backend.own)
		in->backend.own(in->backend.context, file, uid, gid, mode & 0777);
	tdfs_lock(in);
	if (err)
		return err;
	node = tdfs_inode_by_name(in, name);
	if (node && tdfs_inode_listed(node)) {
		err = EEXIST;
	} else {
		if (node)
			tdfs_recent_end(in, tdfs_staged_of(node));
		staged = tdfs_staged_new(in, name, mode, uid, gid, file, fd);
		err = staged ? 0 : ENOMEM;
	}
	if (err) {
		tdfs_unlock(in);
		in->backend.remove(in->backend.context, file);
		in->backend.free(in->backend.context, file);
		tdfs_lock(in);
		return err;
	}
	*made = staged;
	return 0;
}

static int open_existing(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
			 int flags, struct stat *st, struct tdfs_handle **handle)
{
	struct tdfs_inode *node;
	int err = tdfs_incoming_open(in, caller, ino, flags, handle);

	if (err)
		return err;
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
	struct tdfs_staged *staged;
	int err;

	if (tdfs_name_is_too_long(name))
		return ENAMETOOLONG;
	if (tdfs_name_is_error_file(name))
		return EPERM;
	tdfs_lock(in);
	if (in->closing) {
		tdfs_unlock(in);
		return EROFS;
	}
	tdfs_recent_expire(in);
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
			err = open_existing(in, caller, ino, flags, st, handle);
			if (err != ESTALE)
				return err;
			tdfs_lock(in); /* it went meanwhile */
			err = EEXIST;
			continue;
		}
		err = handle ? tdfs_quota_open(in, caller->uid) : 0;
		if (err == 0)
			err = make_staged_unlocks(in, name, mode, caller->uid, caller->gid,
						  &staged);
	} while (err == EEXIST);
	if (err == 0 && handle) {
		*handle = handle_new(in, &staged->node, caller, flags);
		if (!*handle) {
			/* It stays, empty and listed. */
			err = ENOMEM;
		}
	}
	if (err == 0) {
		staged->node.lookups++;
		tdfs_inode_stat(&staged->node, st);
		tdfs_inode_reap(in, &staged->node);
	}
	tdfs_unlock(in);
	return err;
}

/* ---- Open --------------------------------------------------------------------------------- */

/*
 * A committed file is opened for writing. Its inode cannot become another file; so the name gets
 * a fresh staged file, where it is a recent name of the writer's own, and ESTALE makes the kernel
 * look the name up again. Where nothing is done with it then (Emacs looks at a file it has saved
 * through a descriptor that could write), it goes with the last handle.
 */
static int open_committed_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
				  const struct tdfs_caller *caller)
{
	struct tdfs_inode *node = &staged->node;
	struct tdfs_staged *fresh;
	int wrote = node->name ? tdfs_client_wrote_unlocks(in, staged, caller) : 0;
	char *name;

	if (wrote == TDFS_LATER)
		return TDFS_LATER;
	if (!wrote || !node->name || staged->state != TDFS_COMMITTED)
		return ESTALE;
	name = strdup(node->name);
	if (!name)
		return ENOMEM;
	if (make_staged_unlocks(in, name, node->mode, node->uid, node->gid, &fresh) == 0) {
		fresh->implicit = true;
		tdfs_inode_appears(&fresh->node);
		fresh->until = in->backend.now(in->backend.context) + TDFS_RECENT_MS;
		in->unopened = true;
		in->backend.needs_expiry(in->backend.context);
	}
	free(name);
	return ESTALE;
}

/* One that has been looked up, through /proc/self/fd say, is not looked up again. */
void tdfs_implicit_expire_unlocks(struct tdfs_incoming *in)
{
	int64_t now = in->backend.now(in->backend.context);
	struct tdfs_inode *node = in->unopened ? in->oldest : NULL;

	in->unopened = false;
	while (node) {
		struct tdfs_staged *staged = tdfs_staged_of(node);

		if (!staged || !staged->implicit || staged->opens > 0 || staged->changes > 0 ||
		    !node->name || staged->state != TDFS_OPEN) {
			node = node->next;
		} else if (staged->until > now) {
			in->unopened = true;
			node = node->next;
		} else {
			tdfs_staged_cancel_unlocks(in, staged);
			node = in->oldest; /* anything may have changed */
		}
	}
}

/* A handle that is surely open, and not the caller's own. */
static bool another_is_open(struct tdfs_incoming *in, struct tdfs_staged *staged,
			    const struct tdfs_caller *caller, pid_t process)
{
	for (struct tdfs_handle *handle = in->handles; handle; handle = handle->next) {
		if (handle->node == &staged->node && handle->writes && !handle->flushed &&
		    handle->opener != caller->tid &&
		    !tdfs_client_is_process(staged, handle->opener, process))
			return true;
	}
	return false;
}

/*
 * O_TRUNC while another process has it open for writing. Where nobody has, but bytes are not
 * committed, their last close is on its way to us: they must not be lost.
 */
static int may_truncate_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
				const struct tdfs_caller *caller)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_SCANS_MS;

	while (staged->writers > 0 && staged->state == TDFS_OPEN) {
		struct tdfs_scan_result result;

		if (!caller->may_wait)
			return TDFS_LATER;
		result =
			tdfs_holders_scan_unlocks(in, staged, TDFS_SCAN_HOLDERS, NULL, caller->tid);
		if (staged->state != TDFS_OPEN)
			break;
		if (result.held || another_is_open(in, staged, caller, result.excluded))
			return EBUSY;
		if (result.excluded_holds || !tdfs_staged_has_final_name(staged) ||
		    (!tdfs_staged_is_uncommitted(staged) && staged->scanning == 0))
			break;
		if (in->backend.now(in->backend.context) >= until)
			return EBUSY;
		tdfs_sleep_unlocks(in, TDFS_STEP_MS);
	}
	return 0;
}

/* With no write under way, which the caller may not wait for: what it wrote is cut too. */
static int truncate_all_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
				const struct tdfs_caller *caller)
{
	int err;

	if (staged->writing > 0 && !caller->may_wait)
		return TDFS_LATER;
	tdfs_staged_freeze_unlocks(in, staged);
	err = staged->size > 0 ? tdfs_staged_truncate_unlocks(in, staged, 0) : 0;
	tdfs_staged_thaw(in, staged);
	if (err)
		return err;
	staged->base = 0;
	staged->failed = 0;
	staged->changes++;
	staged->node.mtime = staged->node.ctime = tdfs_time();
	tdfs_staged_rewritten(in, staged);
	return 0;
}

static int open_staged_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
			       const struct tdfs_caller *caller, int flags)
{
	for (;;) {
		uint64_t opens;
		int err;

		if (staged->state == TDFS_COMMITTING) {
			if (!caller->may_wait)
				return TDFS_LATER;
			tdfs_staged_wait_unlocks(in, staged);
		}
		if (staged->state == TDFS_COMMITTED)
			return open_committed_unlocks(in, staged, caller);
		if (!(flags & O_TRUNC))
			return 0;
		opens = staged->opens;
		err = may_truncate_unlocks(in, staged, caller);
		if (err)
			return err;
		/* Whoever opened it during the scan was not seen. */
		if (staged->state == TDFS_OPEN && staged->opens == opens)
			return truncate_all_unlocks(in, staged, caller);
	}
}

/* A handle has a descriptor. While it is opened somebody may commit the staged file. */
static int open_fd_for_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged, bool changes)
{
	int err = tdfs_staged_open_fd_unlocks(in, staged);

	if (err == EIO && !staged->file)
		return ESTALE;
	/* The kernel tries once more, and is told what it then is. */
	return err == 0 && changes && staged->state != TDFS_OPEN ? ESTALE : err;
}

int tdfs_incoming_open(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
		       int flags, struct tdfs_handle **handle)
{
	bool changes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	struct tdfs_inode *node;
	struct tdfs_staged *staged;
	int err = 0;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (!node) {
		tdfs_unlock(in);
		return ESTALE;
	}
	staged = tdfs_staged_of(node);
	node->users++;
	if (staged)
		err = tdfs_quota_open(in, caller->uid);
	if (err)
		; /* he has too many */
	else if (!staged && changes)
		err = EPERM;
	else if (changes && in->closing)
		err = EROFS;
	else if (staged && changes)
		err = open_staged_unlocks(in, staged, caller, flags);
	else if (staged && !staged->file)
		err = ESTALE; /* committed, and nobody had it open */
	if (err == 0 && staged)
		err = open_fd_for_unlocks(in, staged, changes);
	if (err == 0) {
		*handle = handle_new(in, node, caller, flags);
		if (!*handle)
			err = ENOMEM;
	}
	node->users--;
	tdfs_inode_reap(in, node);
	tdfs_unlock(in);
	return err;
}
