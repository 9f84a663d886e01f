/* SPDX-License-Identifier: MIT */
/*
 * The state of a staged file: open, being committed, incomplete, to be committed by its last close.
 * What leads from one to the other is decided elsewhere.
 */
#include <stdlib.h>
#include <string.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

bool tdfs_staged_has_final_name(const struct tdfs_staged *staged)
{
	return staged->node.name && !tdfs_name_is_temporary(staged->node.name);
}

bool tdfs_staged_is_uncommitted(const struct tdfs_staged *staged)
{
	return staged->state == TDFS_OPEN && staged->changes != staged->outcome_at &&
	       (staged->size > 0 || staged->failed);
}

void tdfs_staged_wait_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	staged->node.users++;
	while (staged->state == TDFS_COMMITTING)
		pthread_cond_wait(&in->change, &in->lock);
	staged->node.users--;
}

void tdfs_staged_freeze_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	staged->node.users++;
	staged->state = TDFS_COMMITTING;
	in->committing++;
	while (staged->writing > 0)
		pthread_cond_wait(&in->change, &in->lock);
	staged->node.users--;
}

void tdfs_staged_thaw(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (staged->state == TDFS_COMMITTING)
		staged->state = TDFS_OPEN;
	in->committing--;
	pthread_cond_broadcast(&in->change);
}

void tdfs_staged_set_incomplete(struct tdfs_staged *staged, const char *why)
{
	if (staged->state == TDFS_COMMITTED)
		return;
	/* By whoever was killed last: who had it open before cannot rewrite it. */
	staged->incomplete_opens = staged->opens;
	if (staged->incomplete)
		return;
	staged->incomplete = strdup(why);
	/* What was refused for another reason before is so for this one now. */
	staged->outcome_at = staged->changes - 1;
}

void tdfs_staged_rewritten(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	free(staged->incomplete);
	staged->incomplete = NULL;
	staged->unanswered = false;
	staged->answer = 0;
	tdfs_error_file_clear(in, staged);
}

void tdfs_staged_log(struct tdfs_incoming *in, const struct tdfs_staged *staged, const char *text)
{
	in->backend.log(in->backend.context, staged->writer, staged->node.name, text);
}
