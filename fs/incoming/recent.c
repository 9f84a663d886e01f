/* SPDX-License-Identifier: MIT */
/*
 * Names that outlive their commit for a moment, for those who wrote them. The oldest go first,
 * by age, or when there are so many that their memory would be missed. The newest keep their
 * staged file open, so that it can be read; of the others there is the name and what stat shows.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "incoming/state.h"

/* Those that keep their file are the last ones of the list. */
static void let_file_go(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (!staged->keeps_file)
		return;
	staged->keeps_file = false;
	in->n_ghost_files--;
	if (in->ghost_files == staged)
		in->ghost_files = staged->next_ghost;
}

static void take_out(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (!staged->lingers)
		return;
	let_file_go(in, staged);
	*(staged->previous_ghost ? &staged->previous_ghost->next_ghost : &in->ghosts) =
		staged->next_ghost;
	*(staged->next_ghost ? &staged->next_ghost->previous_ghost : &in->last_ghost) =
		staged->previous_ghost;
	staged->previous_ghost = staged->next_ghost = NULL;
	staged->lingers = false;
	in->n_ghosts--;
}

void tdfs_ghost_add(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	staged->until = in->backend.now(in->backend.context) + TDFS_GHOST_MS;
	staged->lingers = true;
	staged->previous_ghost = in->last_ghost;
	*(in->last_ghost ? &in->last_ghost->next_ghost : &in->ghosts) = staged;
	in->last_ghost = staged;
	in->n_ghosts++;
	staged->keeps_file = true;
	in->n_ghost_files++;
	if (!in->ghost_files)
		in->ghost_files = staged;
	while (in->n_ghost_files > TDFS_GHOST_FILES_MAX) {
		struct tdfs_staged *oldest = in->ghost_files;

		let_file_go(in, oldest);
		/* Where it is being read, this is for the last handle. */
		tdfs_inode_settle(in, &oldest->node);
	}
	tdfs_ghosts_expire(in);
	in->backend.untidy(in->backend.context);
}

void tdfs_ghost_leave(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	take_out(in, staged);
}

void tdfs_ghost_end(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	take_out(in, staged);
	tdfs_clients_clear(staged);
	(void)tdfs_inode_set_name(in, &staged->node, NULL);
	tdfs_inode_settle(in, &staged->node);
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
static void say_who(struct tdfs_incoming *in, struct tdfs_staged *staged, int64_t now)
{
	char text[160];

	if (!staged->node.name || staged->writers == 0 || !tdfs_staged_has_final_name(staged) ||
	    !tdfs_staged_is_uncommitted(staged)) {
		staged->waits_since = 0;
		in->waiting--;
		return;
	}
	if (staged->waits_said || now - staged->waits_since < TDFS_WAITS_MS)
		return;
	staged->waits_said = true;
	if (staged->holder.process > 0)
		snprintf(text, sizeof text, "still open in process %d (%s), not committed yet",
			 (int)staged->holder.process, staged->holder.name);
	else
		snprintf(text, sizeof text, "still open somewhere, not committed yet");
	in->backend.say(in->backend.context, staged->node.name, text);
}

static void say_what_waits(struct tdfs_incoming *in)
{
	int64_t now = in->backend.now(in->backend.context);

	for (struct tdfs_inode *node = in->waiting > 0 ? in->oldest : NULL; node;
	     node = node->next) {
		struct tdfs_staged *staged = tdfs_staged_of(node);

		if (staged && staged->waits_since != 0)
			say_who(in, staged, now);
	}
}

/* A committed file that was rewritten takes room on the disk for as long as it is a ghost. */
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

static bool is_recent(const struct tdfs_staged *staged)
{
	return tdfs_inode_is_ghost(&staged->node) ||
	       tdfs_time().tv_sec - staged->node.ctime.tv_sec <= TDFS_GHOST_MS / 1000;
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
		const struct tdfs_staged *staged = tdfs_staged_of(node);

		copies = staged && staged->writer == caller->uid && staged->node.name &&
			 is_recent(staged);
	}
	tdfs_unlock(in);
	return copies;
}
