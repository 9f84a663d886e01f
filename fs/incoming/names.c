/* SPDX-License-Identifier: MIT */
/*
 * What happens to names in incoming/: lookup, unlink, and rename with the commit that it may
 * cause. Knows nothing of FUSE or of /proc.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

int tdfs_incoming_lookup(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *name, struct stat *st)
{
	struct tdfs_inode *node;
	struct tdfs_note *note;
	int why = 0;

	tdfs_lock(in);
	tdfs_ghosts_expire(in);
	node = tdfs_inode_by_name(in, name);
	note = tdfs_note_of(node);
	if (node && tdfs_inode_is_ghost(node)) {
		int wrote;

		node->users++;
		wrote = tdfs_people_wrote(in, tdfs_drop_of(node), caller);
		node->users--;
		if (wrote == TDFS_LATER)
			why = TDFS_LATER;
		else if (!wrote)
			why = ENOENT;
	} else if (!node || (note && !tdfs_note_known(note, caller))) {
		why = ENOENT;
	}
	if (why == 0) {
		node->lookups++;
		node->seen_by = caller->tid;
		tdfs_inode_stat(node, st);
	} else if (node) {
		tdfs_inode_settle(in, node);
	}
	tdfs_unlock(in);
	return why;
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

void tdfs_drop_cancel(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	void *file = drop->file;

	tdfs_note_drop(in, drop);
	(void)tdfs_inode_set_name(in, &drop->node, NULL);
	drop->node.users++;
	tdfs_unlock(in);
	in->backend.remove(in->backend.context, file);
	tdfs_lock(in);
	drop->node.users--;
	tdfs_inode_settle(in, &drop->node);
}

static void unlink_note(struct tdfs_incoming *in, struct tdfs_inode *node)
{
	struct tdfs_note *note = (struct tdfs_note *)node;

	if (note->removed) {
		tdfs_note_end(in, note);
		return;
	}
	if (note->drop)
		note->drop->note = NULL;
	note->drop = NULL;
	(void)tdfs_inode_set_name(in, node, NULL);
	tdfs_inode_settle(in, node);
}

static int unlink_locked(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *name)
{
	for (;;) {
		struct tdfs_inode *node = tdfs_inode_by_name(in, name);
		struct tdfs_drop *drop = tdfs_drop_of(node);
		int wrote;

		if (!node)
			return ENOENT;
		if (!drop && !tdfs_note_known(tdfs_note_of(node), caller))
			return ENOENT;
		if (!tdfs_inode_checked(node, caller))
			return ESTALE;
		if (!drop) {
			unlink_note(in, node);
			return 0;
		}
		if (drop->state == TDFS_OPEN) {
			tdfs_note_remove(in, drop, caller);
			tdfs_drop_cancel(in, drop);
			return 0;
		}
		if (drop->state == TDFS_PUBLISHING) {
			if (!caller->may_wait)
				return TDFS_LATER;
			tdfs_drop_wait(in, drop);
			continue;
		}
		node->users++;
		wrote = tdfs_people_wrote(in, drop, caller);
		node->users--;
		if (wrote == TDFS_LATER)
			return TDFS_LATER;
		if (!wrote)
			return ENOENT;
		if (tdfs_inode_is_ghost(node)) {
			tdfs_ghost_end(in, drop);
			return 0;
		}
	}
}

int tdfs_incoming_unlink(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *name)
{
	int why;

	tdfs_lock(in);
	tdfs_ghosts_expire(in);
	why = unlink_locked(in, caller, name);
	tdfs_unlock(in);
	return why;
}

/* ---- Rename ------------------------------------------------------------------------------- */

struct rename {
	struct tdfs_incoming *in;
	const struct tdfs_caller *caller;
	const char *from, *to;
	unsigned flags;
	struct tdfs_drop *drop;
	bool forgiven; /* what a killed writer left */
};

#define AGAIN (-2) /* the lock was given up, and things changed meanwhile */

/* What has the new name now: nothing, the drop itself, or something that will be replaced. */
static int check_target(struct rename *r)
{
	struct tdfs_inode *node = tdfs_inode_by_name(r->in, r->to);
	struct tdfs_drop *target = tdfs_drop_of(node);
	bool there = node && tdfs_inode_listed(node);

	if (there && node != &r->drop->node && !tdfs_inode_checked(node, r->caller))
		return ESTALE;
	if (target && target != r->drop && target->state == TDFS_PUBLISHING) {
		tdfs_drop_wait(r->in, target);
		return AGAIN;
	}
	if (!(r->flags & RENAME_NOREPLACE))
		return 0;
	if (node && !there) {
		node->users++;
		there = tdfs_people_wrote(r->in, target, r->caller) == 1;
		node->users--;
		if (tdfs_inode_by_name(r->in, r->to) != node)
			return AGAIN;
	}
	return there ? EEXIST : 0;
}

/* NAME.error goes with NAME, where that is only renamed. */
static void move_note(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	struct tdfs_note *before;
	char *name = NULL;

	if (!drop->note)
		return;
	if (asprintf(&name, "%s" TDFS_NOTE_SUFFIX, drop->node.name) < 0) {
		tdfs_note_drop(in, drop);
		return;
	}
	before = tdfs_note_of(tdfs_inode_by_name(in, name));
	if (before && before->removed)
		tdfs_note_end(in, before);
	if (tdfs_inode_by_name(in, name) || tdfs_inode_set_name(in, &drop->note->node, name) != 0)
		tdfs_note_drop(in, drop);
	free(name);
}

/* Gives the drop the new name; what had it goes. Gives the lock up, with the drop renamed. */
static int take_name(struct rename *r)
{
	struct tdfs_incoming *in = r->in;
	struct tdfs_drop *target;
	int why;

	/* The kernel has one rename at a time in a directory: nobody waits for us here. */
	while ((target = tdfs_drop_of(tdfs_inode_by_name(in, r->to))) &&
	       target->state == TDFS_PUBLISHING)
		tdfs_drop_wait(in, target);
	if (target == r->drop)
		return 0;
	if (target && target->state == TDFS_OPEN && !tdfs_inode_checked(&target->node, r->caller)) {
		/* It came while we were busy, and stays. */
		if (r->drop->state != TDFS_PUBLISHED)
			return ESTALE;
		tdfs_ghost_end(in, r->drop);
		return 0;
	}
	if (target && target->state == TDFS_PUBLISHED) {
		tdfs_ghost_end(in, target);
		target = NULL;
	} else if (target) {
		/* Both names change at once. */
		tdfs_note_drop(in, target);
		(void)tdfs_inode_set_name(in, &target->node, NULL);
	}
	why = tdfs_inode_set_name(in, &r->drop->node, r->to);
	if (why == 0)
		move_note(in, r->drop);
	if (target)
		tdfs_drop_cancel(in, target);
	return why;
}

/* The name on disk, by which the file is known after a crash. The drop is frozen meanwhile. */
static int rename_on_disk(struct rename *r)
{
	struct tdfs_drop *drop = r->drop;
	int why;

	tdfs_drop_freeze(r->in, drop);
	tdfs_unlock(r->in);
	why = r->in->backend.rename(r->in->backend.context, drop->file, r->to);
	tdfs_lock(r->in);
	tdfs_drop_thaw(r->in, drop);
	return why;
}

/* Refused, and unchanged since. */
static bool is_refused(const struct tdfs_drop *drop)
{
	return drop->answer && drop->changes == drop->settled;
}

/* It is put aside as it is: sed -i.bak does so, with a good one to come under its name. */
static int put_aside(struct rename *r)
{
	int why = rename_on_disk(r);

	r->drop->unasked = false;
	return why ? why : take_name(r);
}

static int rename_open(struct rename *r)
{
	struct tdfs_incoming *in = r->in;
	struct tdfs_drop *drop = r->drop;
	bool commit = !tdfs_name_is_temporary(r->to) && (drop->size > 0 || drop->failed);
	int answer;

	if (is_refused(drop) && tdfs_name_is_temporary(r->to))
		return put_aside(r);
	/* Once, and before the look: a writer that is killed meanwhile spoils it again. */
	if (!r->forgiven && !drop->failed) {
		free(drop->taint);
		drop->taint = NULL;
		drop->unanswered = false;
	}
	r->forgiven = true;
	if (commit && drop->writers > 0) {
		uint64_t opens = drop->opens, changes = drop->changes;
		struct tdfs_verdict verdict =
			tdfs_people_look(in, drop, TDFS_LOOK_HOLDERS, r->caller, 0);

		commit = !verdict.held && drop->unclosed == 0;
		if (drop->state != TDFS_OPEN || drop->opens != opens || drop->changes != changes ||
		    tdfs_inode_by_name(in, r->from) != &drop->node)
			return AGAIN;
		if (verdict.unknown && drop->writers > 0 && drop->unclosed == 0)
			return tdfs_drop_refuse(in, drop, EAGAIN, verdict.why);
	}
	drop->unasked = false;
	if (commit) {
		if (in->closing)
			return EIO;
		answer = tdfs_drop_publish(in, drop, r->to);
		if (drop->state == TDFS_PUBLISHED) {
			/* Who renamed it finds it, too. */
			tdfs_people_note(in, drop, r->caller, true);
			(void)take_name(r);
			return answer;
		}
		if (answer)
			return answer;
		if (drop->state != TDFS_OPEN || tdfs_inode_by_name(in, r->from) != &drop->node)
			return AGAIN;
	}
	answer = rename_on_disk(r);
	if (answer)
		return answer;
	tdfs_note_drop(in, drop);
	drop->answer = 0;
	if (!commit)
		drop->settled = drop->changes - 1; /* its next close tries again */
	return take_name(r);
}

static int rename_locked(struct rename *r)
{
	struct tdfs_incoming *in = r->in;
	struct tdfs_inode *node = tdfs_inode_by_name(in, r->from);
	int why;

	if (!node)
		return ENOENT;
	r->drop = tdfs_drop_of(node);
	if (!r->drop)
		return EPERM;
	if (!tdfs_inode_checked(node, r->caller))
		return ESTALE;
	if (r->drop->state == TDFS_PUBLISHING) {
		tdfs_drop_wait(in, r->drop);
		return AGAIN;
	}
	node->users++;
	why = check_target(r);
	if (why == 0 && tdfs_inode_by_name(in, r->to) == node) {
		/* onto itself */
	} else if (why == 0 && r->drop->state == TDFS_PUBLISHED) {
		if (tdfs_people_wrote(in, r->drop, r->caller) != 1)
			why = ENOENT;
		else if (!tdfs_inode_is_ghost(node))
			why = AGAIN;
		else
			why = take_name(r);
	} else if (why == 0) {
		why = rename_open(r);
	}
	node->users--;
	tdfs_inode_settle(in, node);
	return why;
}

int tdfs_incoming_rename(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			 const char *from, const char *to, unsigned flags)
{
	struct rename r = { .in = in, .caller = caller, .from = from, .to = to, .flags = flags };
	int why;

	if (flags & ~RENAME_NOREPLACE)
		return EINVAL;
	if (strlen(to) > TDL_STAGED_NAME_MAX)
		return ENAMETOOLONG;
	if (tdfs_name_is_note(to) || tdfs_name_is_note(from))
		return EPERM;
	if (!caller->may_wait)
		return TDFS_LATER;
	tdfs_lock(in);
	tdfs_ghosts_expire(in);
	do
		why = rename_locked(&r);
	while (why == AGAIN);
	tdfs_unlock(in);
	return why;
}
