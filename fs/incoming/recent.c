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
		tdfs_inode_reap(in, &oldest->node);
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
	tdfs_inode_reap(in, &staged->node);
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
