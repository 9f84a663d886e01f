/* SPDX-License-Identifier: MIT */
/*
 * The life of a staged file from its creation to the close that finishes it: create, open, flush,
 * release, and the end of the mount. Here is decided when a drop is committed. Knows nothing of
 * FUSE, of /proc or of the table; incoming.h has the contract.
 */
#include "incoming.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "incoming_state.h"
#include "names.h"

bool tdfs_handle_writes(const struct tdfs_handle *handle)
{
	return handle->writes;
}

/* A close of it commits. */
static bool commits(const struct tdfs_drop *drop)
{
	return drop->node.name && !tdfs_name_is_temporary(drop->node.name);
}

static void sleep_unlocked(struct tdfs_incoming *in, unsigned ms)
{
	tdfs_unlock(in);
	in->backend.wait(in->backend.context, ms);
	tdfs_lock(in);
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
	handle->appends = flags & O_APPEND;
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
	handle->opener = handle->tid = caller->tid;
	tdfs_people_note(in, drop, caller->tid, true);
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
	tdfs_ghosts_expire(in);
	do {
		node = tdfs_inode_by_name(in, name);
		if (node && tdfs_inode_listed(node)) {
			uint64_t ino = node->ino;

			tdfs_unlock(in);
			if (!handle || flags & O_EXCL)
				return EEXIST;
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
	if (make_drop(in, name, node->mode, node->uid, node->gid, &fresh) == 0)
		fresh->unasked = true;
	free(name);
	return ESTALE;
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
		verdict = tdfs_people_look(in, drop, TDFS_LOOK_HOLDERS, -1, caller->tid);
		if (drop->state != TDFS_OPEN)
			break;
		if (verdict.held || another_is_open(in, drop, caller, verdict.aside))
			return EBUSY;
		if (verdict.aside_holds || !commits(drop) ||
		    (!tdfs_drop_unpublished(drop) && drop->looking == 0))
			break;
		if (in->backend.now(in->backend.context) >= until)
			return EBUSY;
		sleep_unlocked(in, TDFS_STEP_MS);
	}
	return 0;
}

static int truncate_all(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	int why = drop->size > 0 ? tdfs_drop_cut(in, drop, 0) : 0;

	if (why)
		return why;
	drop->base = 0;
	drop->changes++;
	drop->node.mtime = drop->node.ctime = tdfs_time();
	tdfs_drop_rewritten(in, drop);
	return 0;
}

static int open_drop(struct tdfs_incoming *in, struct tdfs_drop *drop,
		     const struct tdfs_caller *caller, int flags)
{
	for (;;) {
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
		why = may_truncate(in, drop, caller);
		if (why)
			return why;
		if (drop->state == TDFS_OPEN)
			return truncate_all(in, drop);
	}
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
	else if (drop && changes)
		why = open_drop(in, drop, caller, flags);
	else if (drop && !drop->file)
		why = ESTALE; /* published, and nobody had it open */
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

/* ---- Flush -------------------------------------------------------------------------------- */

int tdfs_incoming_flush_begin(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			      struct tdfs_handle *handle)
{
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);
	int why = 0;

	if (!drop || !handle->writes)
		return 0;
	tdfs_lock(in);
	if (!handle->closed)
		drop->unclosed--;
	handle->closed = true;
	tdfs_people_note(in, drop, caller->tid, false);
	if (drop->state == TDFS_PUBLISHED) {
		why = drop->answer;
	} else if (commits(drop)) {
		drop->looking++;
		drop->node.users++;
		why = TDFS_LATER;
	}
	tdfs_unlock(in);
	return why;
}

/*
 * Whether somebody still has the drop open for writing. Descriptors that an exec is about to close
 * are waited for. On the way it takes note of a writer that is being killed.
 */
static bool is_held(struct tdfs_incoming *in, struct tdfs_drop *drop, pid_t closer)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_EXEC_MS;

	for (;;) {
		struct tdfs_verdict verdict = tdfs_people_look(
			in, drop,
			drop->state == TDFS_PUBLISHED ? TDFS_LOOK_KILLED : TDFS_LOOK_HOLDERS,
			closer, 0);

		if (drop->unclosed > 0)
			return true;
		if (!verdict.held || !verdict.till_exec || !tdfs_drop_unpublished(drop) ||
		    in->backend.now(in->backend.context) >= until)
			return verdict.held;
		sleep_unlocked(in, TDFS_STEP_MS);
	}
}

/* The looks of closes that came before ours may find that a writer was killed. */
static void wait_for_looks(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_LOOKS_MS;

	while (drop->looking > 0 && in->backend.now(in->backend.context) < until)
		sleep_unlocked(in, TDFS_STEP_MS);
}

/* Decides what a close means, once its look is done; the last one commits. */
static int finish(struct tdfs_incoming *in, struct tdfs_drop *drop, pid_t closer)
{
	bool first = true;

	/* Whoever opens or writes between the look and the commit is looked at again; one that
	 * never stops holds it. */
	for (int rounds = 0; rounds < 8; rounds++) {
		uint64_t opens, changes;
		bool held;

		tdfs_drop_wait(in, drop);
		opens = drop->opens;
		changes = drop->changes;
		held = is_held(in, drop, closer);
		if (first) {
			drop->looking--;
			first = false;
		}
		if (drop->state == TDFS_PUBLISHED)
			return drop->answer;
		if (drop->state == TDFS_PUBLISHING)
			continue;
		if (!commits(drop))
			return 0;
		if (!tdfs_drop_unpublished(drop))
			return drop->answer;
		if (held || drop->unclosed > 0)
			return 0;
		wait_for_looks(in, drop);
		if (drop->state != TDFS_OPEN || drop->opens != opens || drop->changes != changes ||
		    !commits(drop) || !tdfs_drop_unpublished(drop))
			continue;
		if (in->closing) {
			drop->unanswered = true;
			return EIO;
		}
		return tdfs_drop_publish(in, drop, drop->node.name);
	}
	return 0;
}

int tdfs_incoming_flush(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			struct tdfs_handle *handle)
{
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);
	int answer;

	tdfs_lock(in);
	answer = finish(in, drop, caller->tid);
	drop->node.users--;
	tdfs_unlock(in);
	return answer;
}

/* ---- Release ------------------------------------------------------------------------------ */

/* The last handle for writing goes, and nobody has closed for good: a look was too slow, or did
 * not see everyone. */
static bool is_left_over(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	return drop->writers == 1 && commits(drop) && !in->closing &&
	       (drop->state == TDFS_PUBLISHING || tdfs_drop_unpublished(drop));
}

int tdfs_incoming_release(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			  struct tdfs_handle *handle)
{
	struct tdfs_inode *node = handle->node;
	struct tdfs_drop *drop = handle->writes ? tdfs_drop_of(node) : NULL;

	tdfs_lock(in);
	if (drop && is_left_over(in, drop)) {
		if (!caller->may_wait) {
			tdfs_unlock(in);
			return TDFS_LATER;
		}
		tdfs_drop_wait(in, drop);
		if (is_left_over(in, drop))
			(void)tdfs_drop_publish(in, drop, drop->node.name);
	}
	if (drop && !handle->closed)
		drop->unclosed--;
	if (drop && --drop->writers == 0 && drop->unasked && drop->node.name &&
	    drop->state == TDFS_OPEN && drop->changes == 0)
		tdfs_drop_cancel(in, drop);
	node->users--;
	*handle->link = handle->next;
	if (handle->next)
		handle->next->link = handle->link;
	tdfs_inode_settle(in, node);
	tdfs_unlock(in);
	free(handle);
	return 0;
}

/* ---- The ends of a mount ------------------------------------------------------------------ */

void tdfs_incoming_adopt(struct tdfs_incoming *in, void *file, int fd, const char *name,
			 int64_t mtime)
{
	static const char why[] = "incomplete: the mount ended before this file was committed; "
				  "rename it to commit it as it is, or remove it";
	struct tdfs_drop *drop = NULL;
	struct stat st;
	char *free_name;

	if (fstat(fd, &st) != 0)
		memset(&st, 0, sizeof st);
	tdfs_lock(in);
	free_name = tdfs_free_name(in, name);
	if (free_name)
		drop = tdfs_drop_new(in, free_name, 0644, st.st_uid, st.st_gid, file, fd);
	if (drop) {
		drop->size = (uint64_t)st.st_size;
		drop->node.mtime = (struct timespec){ .tv_sec = mtime / 1000,
						      .tv_nsec = mtime % 1000 * 1000000 };
		if (drop->size > 0) {
			tdfs_drop_taint(drop, why);
			drop->settled = drop->changes;
			drop->answer = EIO;
			tdfs_note_set(in, drop, why);
		}
	}
	tdfs_unlock(in);
	if (!drop)
		in->backend.free(in->backend.context, file);
	free(free_name);
}

void tdfs_incoming_close(struct tdfs_incoming *in)
{
	tdfs_lock(in);
	in->closing = true;
	tdfs_unlock(in);
}

/* Nobody has it open, and every close had its answer. */
static bool is_complete(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	if (drop->unanswered || drop->unclosed > 0)
		return false;
	return drop->writers == 0 || !tdfs_people_look(in, drop, TDFS_LOOK_EVERYWHERE, -1, 0).held;
}

static void settle_drop(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	if (!commits(drop) || !tdfs_drop_unpublished(drop))
		return;
	if (is_complete(in, drop))
		(void)tdfs_drop_publish(in, drop, drop->node.name);
	else
		in->backend.say(in->backend.context, drop->node.name,
				"not committed: it was not complete when the mount ended");
}

void tdfs_incoming_settle(struct tdfs_incoming *in)
{
	struct tdfs_inode *node;

	tdfs_lock(in);
	for (node = in->oldest; node;) {
		struct tdfs_drop *drop = tdfs_drop_of(node);
		struct tdfs_inode *next;

		node->users++; /* it stays in the list while the lock is given up */
		if (drop)
			settle_drop(in, drop);
		next = node->next;
		node->users--;
		tdfs_inode_settle(in, node);
		node = next;
	}
	tdfs_unlock(in);
}
