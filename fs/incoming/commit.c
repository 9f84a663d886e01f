/* SPDX-License-Identifier: MIT */
/*
 * The commit of a staged file, and what becomes of it: committed, refused with an error file, found
 * empty, or given up because of a hole. When to commit is decided elsewhere.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "incoming/state.h"

static void set_refused(struct tdfs_incoming *in, struct tdfs_staged *staged, int answer,
			const char *text)
{
	staged->answer = answer;
	tdfs_error_file_set(in, staged, text);
	tdfs_staged_log(in, staged, text);
}

int tdfs_staged_refuse(struct tdfs_incoming *in, struct tdfs_staged *staged, int answer,
		       const char *text)
{
	staged->outcome_at = staged->changes;
	staged->answered = staged->opens;
	set_refused(in, staged, answer, text);
	return answer;
}

static void set_committed(struct tdfs_incoming *in, struct tdfs_staged *staged, const char *source)
{
	free(staged->committed_name);
	staged->committed_name = strdup(source); /* a rename has not given it that yet */
	staged->state = TDFS_COMMITTED;
	tdfs_quota_remove(in, staged);
	staged->lost_holder = false;
	tdfs_error_file_clear(in, staged);
	in->changed = tdfs_time();
	tdfs_recent_add(in, staged);
}

/* There is a hole where a write failed: nothing is to be had of the file but its room. */
static void give_up_hole_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	char text[160];

	(void)tdfs_staged_truncate_unlocks(in, staged, 0);
	staged->shrank = true;
	snprintf(text, sizeof text, "not committed: a write failed (%s), what was written is gone",
		 strerror(staged->failed));
	set_refused(in, staged, staged->failed, text);
	staged->failed = 0;
}

static void commit_bytes_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
				 const char *source)
{
	tdl_error error = { 0 };
	void *file = staged->file;
	uid_t uid = staged->writer;
	bool renames = strcmp(source, staged->node.name) != 0;
	int r, err = tdfs_staged_open_fd_unlocks(in, staged);
	char text[120];

	if (err) {
		snprintf(text, sizeof text, "not committed: cannot open it: %s", strerror(err));
		set_refused(in, staged, err, text);
		return;
	}
	tdfs_unlock(in);
	r = in->backend.commit(in->backend.context, file, source, uid, renames, &error);
	tdfs_lock(in);
	staged->answer = 0;
	if (r == TDL_OK) {
		set_committed(in, staged, source);
	} else if (r == TDL_ERR_PUBLISHED && !error.in_doubt) {
		staged->answer = in->backend.to_errno(&error);
		tdfs_staged_log(in, staged, error.message);
		set_committed(in, staged, source);
	} else if (r == TDL_ERR_EMPTY) {
		tdfs_error_file_clear(in, staged);
	} else {
		set_refused(in, staged, in->backend.to_errno(&error), error.message);
	}
}

int tdfs_staged_commit_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
			       const char *source)
{
	const struct tdfs_inode before = staged->node;
	char *copy = strdup(source);

	if (!copy)
		return tdfs_staged_refuse(in, staged, ENOMEM, "not committed: no memory");
	staged->node.users++;
	tdfs_staged_freeze_unlocks(in, staged);
	while (staged->preparing)
		pthread_cond_wait(&in->change, &in->lock);
	staged->outcome_at = staged->changes;
	staged->answered = staged->opens;
	if (staged->failed)
		give_up_hole_unlocks(in, staged);
	else if (staged->incomplete)
		set_refused(in, staged, EIO, staged->incomplete);
	else
		commit_bytes_unlocks(in, staged, copy);
	if (staged->state == TDFS_COMMITTING) {
		tdfs_staged_keep_reason_unlocks(in, staged);
		if (staged->node.mode != before.mode || staged->node.uid != before.uid ||
		    staged->node.gid != before.gid)
			tdfs_staged_keep_owner_unlocks(in, staged);
	}
	tdfs_staged_thaw(in, staged);
	staged->node.users--;
	free(copy);
	return staged->answer;
}
