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
static void recent_close_file(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (!staged->keeps_file)
		return;
	staged->keeps_file = false;
	in->n_recent_files--;
	if (in->recent_files == staged)
		in->recent_files = staged->next_recent;
}

static void recent_remove(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (!staged->in_recent)
		return;
	recent_close_file(in, staged);
	*(staged->previous_recent ? &staged->previous_recent->next_recent : &in->first_recent) =
		staged->next_recent;
	*(staged->next_recent ? &staged->next_recent->previous_recent : &in->last_recent) =
		staged->previous_recent;
	staged->previous_recent = staged->next_recent = NULL;
	staged->in_recent = false;
	in->n_recent--;
}

void tdfs_recent_add(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	staged->until = in->backend.now(in->backend.context) + TDFS_RECENT_MS;
	staged->in_recent = true;
	staged->previous_recent = in->last_recent;
	*(in->last_recent ? &in->last_recent->next_recent : &in->first_recent) = staged;
	in->last_recent = staged;
	in->n_recent++;
	staged->keeps_file = true;
	in->n_recent_files++;
	if (!in->recent_files)
		in->recent_files = staged;
	while (in->n_recent_files > TDFS_RECENT_FILES_MAX) {
		struct tdfs_staged *oldest = in->recent_files;

		recent_close_file(in, oldest);
		/* Where it is being read, this is for the last handle. */
		tdfs_inode_settle(in, &oldest->node);
	}
	tdfs_recent_expire(in);
	in->backend.needs_expiry(in->backend.context);
}

void tdfs_recent_leave(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	recent_remove(in, staged);
}

void tdfs_recent_end(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	recent_remove(in, staged);
	tdfs_clients_clear(staged);
	(void)tdfs_inode_set_name(in, &staged->node, NULL);
	tdfs_inode_settle(in, &staged->node);
}

void tdfs_recent_expire(struct tdfs_incoming *in)
{
	if (in->removed) {
		int64_t now = in->backend.now(in->backend.context);

		while (in->removed && in->removed->until <= now)
			tdfs_error_file_end(in, in->removed);
	}
	if (!in->first_recent)
		return;
	for (int64_t now = in->backend.now(in->backend.context);
	     in->first_recent &&
	     (in->first_recent->until <= now || in->n_recent > TDFS_RECENT_MAX);)
		tdfs_recent_end(in, in->first_recent);
}

/* It still waits for the close of somebody else: the log says once who that is. */
static void log_holder(struct tdfs_incoming *in, struct tdfs_staged *staged, int64_t now)
{
	char text[160];

	if (!staged->node.name || staged->writers == 0 || !tdfs_staged_has_final_name(staged) ||
	    !tdfs_staged_is_uncommitted(staged)) {
		staged->waits_since = 0;
		in->waiting--;
		return;
	}
	if (staged->waits_logged || now - staged->waits_since < TDFS_WAITS_MS)
		return;
	staged->waits_logged = true;
	if (staged->holder.process > 0)
		snprintf(text, sizeof text, "still open in process %d (%s), not committed yet",
			 (int)staged->holder.process, staged->holder.name);
	else
		snprintf(text, sizeof text, "still open somewhere, not committed yet");
	tdfs_drop_say(in, staged, text);
}

static void log_waiting(struct tdfs_incoming *in)
{
	int64_t now = in->backend.now(in->backend.context);

	for (struct tdfs_inode *node = in->waiting > 0 ? in->oldest : NULL; node;
	     node = node->next) {
		struct tdfs_staged *staged = tdfs_staged_of(node);

		if (staged && staged->waits_since != 0)
			log_holder(in, staged, now);
	}
}

/* A committed file that was rewritten takes room on the disk for as long as it is a recent name. */
bool tdfs_incoming_expire(struct tdfs_incoming *in)
{
	bool more;

	tdfs_lock(in);
	tdfs_recent_expire(in);
	tdfs_implicit_expire(in);
	log_waiting(in);
	more = in->n_recent > 0 || in->removed || in->unopened || in->waiting > 0;
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
	return tdfs_inode_is_recent(&staged->node) ||
	       tdfs_time().tv_sec - staged->node.ctime.tv_sec <= TDFS_RECENT_MS / 1000;
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
	tdfs_recent_expire(in);
	for (node = in->newest; node && !copies && seen < TDFS_COPIED_MAX;
	     node = node->previous, seen++) {
		const struct tdfs_staged *staged = tdfs_staged_of(node);

		copies = staged && staged->writer == caller->uid && staged->node.name &&
			 is_recent(staged);
	}
	tdfs_unlock(in);
	return copies;
}
