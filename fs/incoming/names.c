/* SPDX-License-Identifier: MIT */
/*
 * What happens to names in incoming/: lookup, unlink, and rename with the commit that it may
 * cause. Knows nothing of FUSE or of /proc.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

int tdfs_incoming_lookup(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *name, struct stat *st)
{
	struct tdfs_inode *node;
	struct tdfs_error_file *error_file;
	int err = 0;

	tdfs_lock(in);
	tdfs_recent_expire(in);
	node = tdfs_inode_by_name(in, name);
	error_file = tdfs_error_file_of(node);
	if (node && tdfs_inode_is_recent(node)) {
		int wrote;

		node->users++;
		wrote = tdfs_client_wrote_unlocks(in, tdfs_staged_of(node), caller);
		node->users--;
		if (wrote == TDFS_LATER)
			err = TDFS_LATER;
		else if (!wrote)
			err = ENOENT;
	} else if (!node || (error_file && !tdfs_error_file_removable(error_file, caller))) {
		err = ENOENT;
	}
	if (err == 0) {
		node->lookups++;
		node->seen_by = caller->tid;
		tdfs_inode_stat(node, st);
	} else if (node) {
		tdfs_inode_reap(in, node);
	}
	tdfs_unlock(in);
	return err;
}

int tdfs_incoming_again(struct tdfs_incoming *in, uint64_t ino, struct stat *st)
{
	struct tdfs_inode *node;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (node) {
		node->lookups++;
		tdfs_inode_stat(node, st);
	}
	tdfs_unlock(in);
	return node ? 0 : ESTALE;
}

/* ---- Unlink ------------------------------------------------------------------------------- */

void tdfs_staged_cancel_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	void *file = staged->file;

	tdfs_error_file_clear(in, staged);
	(void)tdfs_inode_set_name(in, &staged->node, NULL);
	staged->node.users++;
	tdfs_unlock(in);
	in->backend.remove(in->backend.context, file);
	tdfs_lock(in);
	staged->node.users--;
	tdfs_inode_reap(in, &staged->node);
}

static void unlink_error_file(struct tdfs_incoming *in, struct tdfs_inode *node)
{
	struct tdfs_error_file *error_file = (struct tdfs_error_file *)node;

	if (error_file->removed) {
		tdfs_error_file_end(in, error_file);
		return;
	}
	if (error_file->staged)
		error_file->staged->error_file = NULL;
	error_file->staged = NULL;
	(void)tdfs_inode_set_name(in, node, NULL);
	tdfs_inode_reap(in, node);
}

static int unlink_unlocks(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			  const char *name)
{
	for (;;) {
		struct tdfs_inode *node = tdfs_inode_by_name(in, name);
		struct tdfs_staged *staged = tdfs_staged_of(node);
		int wrote;

		if (!node)
			return ENOENT;
		if (!staged && !tdfs_error_file_removable(tdfs_error_file_of(node), caller))
			return ENOENT;
		if (!tdfs_inode_checked(node, caller))
			return ESTALE;
		if (!staged) {
			unlink_error_file(in, node);
			return 0;
		}
		if (staged->state == TDFS_OPEN) {
			tdfs_error_file_unlink(in, staged, caller);
			tdfs_staged_cancel_unlocks(in, staged);
			return 0;
		}
		if (staged->state == TDFS_COMMITTING) {
			if (!caller->may_wait)
				return TDFS_LATER;
			tdfs_staged_wait_unlocks(in, staged);
			continue;
		}
		node->users++;
		wrote = tdfs_client_wrote_unlocks(in, staged, caller);
		node->users--;
		if (wrote == TDFS_LATER)
			return TDFS_LATER;
		if (!wrote)
			return ENOENT;
		if (tdfs_inode_is_recent(node)) {
			tdfs_recent_end(in, staged);
			return 0;
		}
	}
}

int tdfs_incoming_unlink(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *name)
{
	int err;

	tdfs_lock(in);
	tdfs_recent_expire(in);
	err = unlink_unlocks(in, caller, name);
	tdfs_unlock(in);
	return err;
}

/* ---- Rename ------------------------------------------------------------------------------- */

struct rename {
	struct tdfs_incoming *in;
	const struct tdfs_caller *caller;
	const char *from, *to;
	unsigned flags;
	struct tdfs_staged *staged;
	bool forgiven; /* what a killed writer left */
};

#define AGAIN (-2) /* the lock was given up, and things changed meanwhile */

/* What has the new name now: nothing, the staged file itself, or something that will be replaced.
 */
static int check_new_name_unlocks(struct rename *r)
{
	struct tdfs_inode *node = tdfs_inode_by_name(r->in, r->to);
	struct tdfs_staged *target = tdfs_staged_of(node);
	bool there = node && tdfs_inode_listed(node);

	if (there && node != &r->staged->node && !tdfs_inode_checked(node, r->caller))
		return ESTALE;
	if (target && target != r->staged && target->state == TDFS_COMMITTING) {
		tdfs_staged_wait_unlocks(r->in, target);
		return AGAIN;
	}
	if (!(r->flags & RENAME_NOREPLACE))
		return 0;
	if (node && !there) {
		node->users++;
		there = tdfs_client_wrote_unlocks(r->in, target, r->caller) == 1;
		node->users--;
		if (tdfs_inode_by_name(r->in, r->to) != node)
			return AGAIN;
	}
	return there ? EEXIST : 0;
}

/* NAME.error goes with NAME, where that is only renamed. */
static void move_error_file(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	struct tdfs_error_file *before;
	char *name = NULL;

	if (!staged->error_file)
		return;
	if (asprintf(&name, "%s" TDFS_ERROR_SUFFIX, staged->node.name) < 0) {
		tdfs_error_file_clear(in, staged);
		return;
	}
	before = tdfs_error_file_of(tdfs_inode_by_name(in, name));
	if (before && before->removed)
		tdfs_error_file_end(in, before);
	if (strlen(name) > NAME_MAX || tdfs_inode_by_name(in, name) ||
	    tdfs_inode_set_name(in, &staged->error_file->node, name) != 0)
		tdfs_error_file_clear(in, staged);
	free(name);
}

/* Gives the staged file the new name; what had it goes. Gives the lock up, with the staged file
 * renamed. */
static int take_new_name_unlocks(struct rename *r)
{
	struct tdfs_incoming *in = r->in;
	struct tdfs_staged *target;
	int err;

	/* The kernel has one rename at a time in a directory: nobody waits for us here. */
	while ((target = tdfs_staged_of(tdfs_inode_by_name(in, r->to))) &&
	       target->state == TDFS_COMMITTING)
		tdfs_staged_wait_unlocks(in, target);
	if (target == r->staged)
		return 0;
	if (target && target->state == TDFS_OPEN && !tdfs_inode_checked(&target->node, r->caller)) {
		/* It came while we were busy, and stays. */
		if (r->staged->state != TDFS_COMMITTED)
			return ESTALE;
		tdfs_recent_end(in, r->staged);
		return 0;
	}
	if (target && target->state == TDFS_COMMITTED) {
		tdfs_recent_end(in, target);
		target = NULL;
	} else if (target) {
		/* Both names change at once. */
		tdfs_error_file_clear(in, target);
		(void)tdfs_inode_set_name(in, &target->node, NULL);
	}
	err = tdfs_inode_set_name(in, &r->staged->node, r->to);
	if (err == 0)
		move_error_file(in, r->staged);
	if (target)
		tdfs_staged_cancel_unlocks(in, target);
	return err;
}

/* The name on disk, by which the file is known after a crash. The staged file is frozen meanwhile.
 */
static int rename_on_disk_unlocks(struct rename *r)
{
	struct tdfs_staged *staged = r->staged;
	int err;

	tdfs_staged_freeze_unlocks(r->in, staged);
	tdfs_unlock(r->in);
	err = r->in->backend.rename(r->in->backend.context, staged->file, r->to);
	tdfs_lock(r->in);
	tdfs_staged_thaw(r->in, staged);
	return err;
}

/* Refused, and unchanged since. */
static bool is_refused(const struct tdfs_staged *staged)
{
	return staged->answer && staged->changes == staged->outcome_at;
}

/* It is put aside as it is: sed -i.bak does so, with a good one to come under its name. */
static int put_aside_unlocks(struct rename *r)
{
	int err = rename_on_disk_unlocks(r);

	r->staged->implicit = false;
	return err ? err : take_new_name_unlocks(r);
}

static int rename_open_unlocks(struct rename *r)
{
	struct tdfs_incoming *in = r->in;
	struct tdfs_staged *staged = r->staged;
	bool commit = !tdfs_name_is_temporary(r->to) && (staged->size > 0 || staged->failed);
	int answer;

	if (is_refused(staged) && tdfs_name_is_temporary(r->to))
		return put_aside_unlocks(r);
	/* Once, and before the scan: a writer that is killed meanwhile spoils it again. */
	if (!r->forgiven && !staged->failed) {
		free(staged->incomplete);
		staged->incomplete = NULL;
		staged->unanswered = false;
	}
	r->forgiven = true;
	if (commit && staged->writers > 0) {
		uint64_t opens = staged->opens, changes = staged->changes;
		struct tdfs_scan_result result =
			tdfs_holders_scan_unlocks(in, staged, TDFS_SCAN_HOLDERS, r->caller, 0);

		commit = !result.held && staged->unflushed == 0;
		if (staged->state != TDFS_OPEN || staged->opens != opens ||
		    staged->changes != changes || tdfs_inode_by_name(in, r->from) != &staged->node)
			return AGAIN;
		if (result.unknown && staged->writers > 0 && staged->unflushed == 0)
			return tdfs_staged_refuse(in, staged, EAGAIN, result.why);
	}
	staged->implicit = false;
	if (commit) {
		if (in->closing)
			return EIO;
		answer = tdfs_staged_commit_unlocks(in, staged, r->to);
		if (staged->state == TDFS_COMMITTED) {
			/* Who renamed it finds it, too. */
			tdfs_client_add(in, staged, r->caller, true);
			(void)take_new_name_unlocks(r);
			return answer;
		}
		if (answer)
			return answer;
		if (staged->state != TDFS_OPEN || tdfs_inode_by_name(in, r->from) != &staged->node)
			return AGAIN;
	}
	answer = rename_on_disk_unlocks(r);
	if (answer)
		return answer;
	tdfs_error_file_clear(in, staged);
	staged->answer = 0;
	if (!commit)
		staged->outcome_at = staged->changes - 1; /* its next close tries again */
	return take_new_name_unlocks(r);
}

static int rename_unlocks(struct rename *r)
{
	struct tdfs_incoming *in = r->in;
	struct tdfs_inode *node = tdfs_inode_by_name(in, r->from);
	int err;

	if (!node)
		return ENOENT;
	r->staged = tdfs_staged_of(node);
	if (!r->staged)
		return EPERM;
	if (!tdfs_inode_checked(node, r->caller))
		return ESTALE;
	if (r->staged->state == TDFS_COMMITTING) {
		tdfs_staged_wait_unlocks(in, r->staged);
		return AGAIN;
	}
	node->users++;
	err = check_new_name_unlocks(r);
	if (err == 0 && tdfs_inode_by_name(in, r->to) == node) {
		/* onto itself */
	} else if (err == 0 && r->staged->state == TDFS_COMMITTED) {
		if (tdfs_client_wrote_unlocks(in, r->staged, r->caller) != 1)
			err = ENOENT;
		else if (!tdfs_inode_is_recent(node))
			err = AGAIN;
		else
			err = take_new_name_unlocks(r);
	} else if (err == 0) {
		err = rename_open_unlocks(r);
	}
	node->users--;
	tdfs_inode_reap(in, node);
	return err;
}

int tdfs_incoming_rename(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *from, const char *to, unsigned flags)
{
	struct rename r = { .in = in, .caller = caller, .from = from, .to = to, .flags = flags };
	int err;

	if (flags & ~RENAME_NOREPLACE)
		return EINVAL;
	if (tdfs_name_is_too_long(to))
		return ENAMETOOLONG;
	if (tdfs_name_is_error_file(to) || tdfs_name_is_error_file(from))
		return EPERM;
	if (!caller->may_wait)
		return TDFS_LATER;
	tdfs_lock(in);
	tdfs_recent_expire(in);
	do
		err = rename_unlocks(&r);
	while (err == AGAIN);
	tdfs_unlock(in);
	return err;
}
