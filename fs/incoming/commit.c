/* SPDX-License-Identifier: MIT */
/*
 * The commit of a drop, and what becomes of it: published, refused with a note, found empty, or
 * given up because of a hole. When to commit is decided elsewhere.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

bool tdfs_drop_commits(const struct tdfs_drop *drop)
{
	return drop->node.name && !tdfs_name_is_temporary(drop->node.name);
}

bool tdfs_drop_unpublished(const struct tdfs_drop *drop)
{
	return drop->state == TDFS_OPEN && drop->changes != drop->settled &&
	       (drop->size > 0 || drop->failed);
}

void tdfs_drop_wait(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	drop->node.users++;
	while (drop->state == TDFS_PUBLISHING)
		pthread_cond_wait(&in->change, &in->lock);
	drop->node.users--;
}

void tdfs_drop_freeze(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	drop->node.users++;
	drop->state = TDFS_PUBLISHING;
	in->publishing++;
	while (drop->writing > 0)
		pthread_cond_wait(&in->change, &in->lock);
	drop->node.users--;
}

void tdfs_drop_thaw(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	if (drop->state == TDFS_PUBLISHING)
		drop->state = TDFS_OPEN;
	in->publishing--;
	pthread_cond_broadcast(&in->change);
}

void tdfs_drop_taint(struct tdfs_drop *drop, const char *why)
{
	if (drop->state == TDFS_PUBLISHED)
		return;
	/* By whoever was killed last: who had it open before cannot rewrite it. */
	drop->tainted = drop->opens;
	if (drop->taint)
		return;
	drop->taint = strdup(why);
	/* What was refused for another reason before is so for this one now. */
	drop->settled = drop->changes - 1;
}

void tdfs_drop_rewritten(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	free(drop->taint);
	drop->taint = NULL;
	drop->unanswered = false;
	drop->answer = 0;
	tdfs_note_drop(in, drop);
}

static void refuse(struct tdfs_incoming *in, struct tdfs_drop *drop, int answer, const char *text)
{
	drop->answer = answer;
	tdfs_note_set(in, drop, text);
	in->backend.say(in->backend.context, drop->node.name, text);
}

int tdfs_drop_refuse(struct tdfs_incoming *in, struct tdfs_drop *drop, int answer, const char *text)
{
	drop->settled = drop->changes;
	drop->answered = drop->opens;
	refuse(in, drop, answer, text);
	return answer;
}

static void published(struct tdfs_incoming *in, struct tdfs_drop *drop, const char *source)
{
	free(drop->published);
	drop->published = strdup(source); /* a rename has not given it that yet */
	drop->state = TDFS_PUBLISHED;
	drop->orphans = false;
	tdfs_note_drop(in, drop);
	in->changed = tdfs_time();
	tdfs_ghost_add(in, drop);
}

/* There is a hole where a write failed: nothing is to be had of the file but its room. */
static void give_up(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	char text[160];

	(void)tdfs_drop_cut(in, drop, 0);
	drop->shrank = true;
	snprintf(text, sizeof text, "not committed: a write failed (%s), what was written is gone",
		 strerror(drop->failed));
	refuse(in, drop, drop->failed, text);
	drop->failed = 0;
}

static void commit(struct tdfs_incoming *in, struct tdfs_drop *drop, const char *source)
{
	tdl_error error = { 0 };
	void *file = drop->file;
	uid_t uid = drop->writer;
	bool renames = strcmp(source, drop->node.name) != 0;
	int code, why = tdfs_drop_wake(in, drop);
	char text[120];

	if (why) {
		snprintf(text, sizeof text, "not committed: cannot open it: %s", strerror(why));
		refuse(in, drop, why, text);
		return;
	}
	tdfs_unlock(in);
	code = in->backend.commit(in->backend.context, file, source, uid, renames, &error);
	tdfs_lock(in);
	drop->answer = 0;
	if (code == TDL_OK) {
		published(in, drop, source);
	} else if (code == TDL_ERR_PUBLISHED && !error.in_doubt) {
		drop->answer = in->backend.to_errno(&error);
		in->backend.say(in->backend.context, drop->node.name, error.message);
		published(in, drop, source);
	} else if (code == TDL_ERR_EMPTY) {
		tdfs_note_drop(in, drop);
	} else {
		refuse(in, drop, in->backend.to_errno(&error), error.message);
	}
}

int tdfs_drop_publish(struct tdfs_incoming *in, struct tdfs_drop *drop, const char *source)
{
	const struct tdfs_inode before = drop->node;
	char *copy = strdup(source);

	if (!copy)
		return ENOMEM;
	drop->node.users++;
	tdfs_drop_freeze(in, drop);
	while (drop->preparing)
		pthread_cond_wait(&in->change, &in->lock);
	drop->settled = drop->changes;
	drop->answered = drop->opens;
	if (drop->failed)
		give_up(in, drop);
	else if (drop->taint)
		refuse(in, drop, EIO, drop->taint);
	else
		commit(in, drop, copy);
	if (drop->state == TDFS_PUBLISHING) {
		tdfs_drop_keep_reason(in, drop);
		if (drop->node.mode != before.mode || drop->node.uid != before.uid ||
		    drop->node.gid != before.gid)
			tdfs_drop_own(in, drop);
	}
	tdfs_drop_thaw(in, drop);
	drop->node.users--;
	free(copy);
	return drop->answer;
}
