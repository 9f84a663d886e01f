/* SPDX-License-Identifier: MIT */
/*
 * Names that outlive their publish for a moment, for those who wrote them. The oldest go first,
 * by age, or when there are so many that their memory would be missed. The newest keep their
 * staged file open, so that it can be read; of the others there is the name and what stat shows.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "incoming/state.h"

/* Those that keep their file are the last ones of the list. */
static void let_file_go(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	if (!drop->keeps_file)
		return;
	drop->keeps_file = false;
	in->n_ghost_files--;
	if (in->ghost_files == drop)
		in->ghost_files = drop->next_ghost;
}

static void take_out(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	if (!drop->lingers)
		return;
	let_file_go(in, drop);
	*(drop->previous_ghost ? &drop->previous_ghost->next_ghost : &in->ghosts) =
		drop->next_ghost;
	*(drop->next_ghost ? &drop->next_ghost->previous_ghost : &in->last_ghost) =
		drop->previous_ghost;
	drop->previous_ghost = drop->next_ghost = NULL;
	drop->lingers = false;
	in->n_ghosts--;
}

void tdfs_ghost_add(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	drop->until = in->backend.now(in->backend.context) + TDFS_GHOST_MS;
	drop->lingers = true;
	drop->previous_ghost = in->last_ghost;
	*(in->last_ghost ? &in->last_ghost->next_ghost : &in->ghosts) = drop;
	in->last_ghost = drop;
	in->n_ghosts++;
	drop->keeps_file = true;
	in->n_ghost_files++;
	if (!in->ghost_files)
		in->ghost_files = drop;
	while (in->n_ghost_files > TDFS_GHOST_FILES_MAX) {
		struct tdfs_drop *oldest = in->ghost_files;

		let_file_go(in, oldest);
		/* Where it is being read, this is for the last handle. */
		tdfs_inode_settle(in, &oldest->node);
	}
	tdfs_ghosts_expire(in);
	in->backend.untidy(in->backend.context);
}

void tdfs_ghost_leave(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	take_out(in, drop);
}

void tdfs_ghost_end(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	take_out(in, drop);
	tdfs_people_clear(drop);
	(void)tdfs_inode_set_name(in, &drop->node, NULL);
	tdfs_inode_settle(in, &drop->node);
}

void tdfs_ghosts_expire(struct tdfs_incoming *in)
{
	if (in->removed) {
		int64_t now = in->backend.now(in->backend.context);

		while (in->removed && in->removed->until <= now)
			tdfs_note_end(in, in->removed);
	}
	if (!in->ghosts)
		return;
	for (int64_t now = in->backend.now(in->backend.context);
	     in->ghosts && (in->ghosts->until <= now || in->n_ghosts > TDFS_GHOSTS_MAX);)
		tdfs_ghost_end(in, in->ghosts);
}

/* It still waits for the close of somebody else: the log says once who that is. */
static void say_who(struct tdfs_incoming *in, struct tdfs_drop *drop, int64_t now)
{
	char text[160];

	if (!drop->node.name || drop->writers == 0 || !tdfs_drop_commits(drop) ||
	    !tdfs_drop_unpublished(drop)) {
		drop->waits_since = 0;
		in->waiting--;
		return;
	}
	if (drop->waits_said || now - drop->waits_since < TDFS_WAITS_MS)
		return;
	drop->waits_said = true;
	if (drop->holder.process > 0)
		snprintf(text, sizeof text, "still open in process %d (%s), not committed yet",
			 (int)drop->holder.process, drop->holder.name);
	else
		snprintf(text, sizeof text, "still open somewhere, not committed yet");
	in->backend.say(in->backend.context, drop->node.name, text);
}

static void say_what_waits(struct tdfs_incoming *in)
{
	int64_t now = in->backend.now(in->backend.context);

	for (struct tdfs_inode *node = in->waiting > 0 ? in->oldest : NULL; node;
	     node = node->next) {
		struct tdfs_drop *drop = tdfs_drop_of(node);

		if (drop && drop->waits_since != 0)
			say_who(in, drop, now);
	}
}

/* A published file that was rewritten takes room on the disk for as long as it is a ghost. */
bool tdfs_incoming_tidy(struct tdfs_incoming *in)
{
	bool more;

	tdfs_lock(in);
	tdfs_ghosts_expire(in);
	tdfs_unopened_expire(in);
	say_what_waits(in);
	more = in->n_ghosts > 0 || in->removed || in->unopened || in->waiting > 0;
	tdfs_unlock(in);
	return more;
}

/* ---- Whoever copies a folder -------------------------------------------------------------- */

void tdfs_incoming_copying(struct tdfs_incoming *in, const struct tdfs_caller *caller, bool copies)
{
	int64_t now = in->backend.now(in->backend.context);

	tdfs_lock(in);
	for (size_t i = 0; i < TDFS_COPIERS; i++)
		if (in->copiers[i].tid == caller->tid)
			in->copiers[i].until = 0;
	if (copies)
		in->copiers[in->next_copier++ % TDFS_COPIERS] =
			(struct tdfs_copier){ caller->tid, now + TDFS_COPY_MS };
	tdfs_unlock(in);
}

static bool is_recent(const struct tdfs_drop *drop)
{
	return tdfs_inode_is_ghost(&drop->node) ||
	       tdfs_time().tv_sec - drop->node.ctime.tv_sec <= TDFS_GHOST_MS / 1000;
}

bool tdfs_incoming_copies(struct tdfs_incoming *in, const struct tdfs_caller *caller)
{
	int64_t now = in->backend.now(in->backend.context);
	struct tdfs_inode *node;
	unsigned seen = 0;
	bool copies = false;

	tdfs_lock(in);
	for (size_t i = 0; i < TDFS_COPIERS; i++)
		copies |= in->copiers[i].tid == caller->tid && in->copiers[i].until > now;
	tdfs_ghosts_expire(in);
	for (node = in->newest; node && !copies && seen < TDFS_COPIED_MAX;
	     node = node->previous, seen++) {
		const struct tdfs_drop *drop = tdfs_drop_of(node);

		copies = drop && drop->writer == caller->uid && drop->node.name && is_recent(drop);
	}
	tdfs_unlock(in);
	return copies;
}
