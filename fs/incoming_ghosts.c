/* SPDX-License-Identifier: MIT */
/*
 * Names that outlive their publish for a moment, for those who wrote them. The oldest go first,
 * by age, or when there are so many that their descriptors would be missed.
 */
#include <stddef.h>
#include <stdlib.h>

#include "incoming_state.h"

static void take_out(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	for (struct tdfs_drop **at = &in->ghosts; *at; at = &(*at)->next_ghost) {
		if (*at != drop)
			continue;
		*at = drop->next_ghost;
		if (in->last_ghost == &drop->next_ghost)
			in->last_ghost = at;
		drop->next_ghost = NULL;
		in->n_ghosts--;
		return;
	}
}

void tdfs_ghost_add(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	drop->until = in->backend.now(in->backend.context) + TDFS_GHOST_MS;
	*in->last_ghost = drop;
	in->last_ghost = &drop->next_ghost;
	in->n_ghosts++;
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
	if (!in->ghosts)
		return;
	for (int64_t now = in->backend.now(in->backend.context);
	     in->ghosts && (in->ghosts->until <= now || in->n_ghosts > TDFS_GHOSTS_MAX);)
		tdfs_ghost_end(in, in->ghosts);
}

/* A published file that was rewritten takes room on the disk for as long as it is a ghost. */
bool tdfs_incoming_tidy(struct tdfs_incoming *in)
{
	bool more;

	tdfs_lock(in);
	tdfs_ghosts_expire(in);
	tdfs_unopened_expire(in);
	more = in->n_ghosts > 0 || in->unopened;
	tdfs_unlock(in);
	return more;
}
