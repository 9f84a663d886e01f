/* SPDX-License-Identifier: MIT */
/*
 * When a staged file is finished: closes, the release of the last handle, and the end of the mount.
 * Knows nothing of FUSE, of /proc or of the table; incoming.h has the contract.
 */
#include "incoming/incoming.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

/* ---- Flush -------------------------------------------------------------------------------- */

int tdfs_incoming_flush_begin(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			      struct tdfs_handle *handle)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);
	int err = 0;

	if (!staged || !handle->writes)
		return 0;
	tdfs_lock(in);
	if (!handle->flushed)
		staged->unflushed--;
	handle->flushed = true;
	tdfs_client_add(in, staged, caller, false);
	tdfs_client_used(handle, caller, true);
	if (staged->state == TDFS_COMMITTED) {
		err = staged->answer;
	} else if (tdfs_staged_has_final_name(staged)) {
		staged->scanning++;
		staged->node.users++;
		err = TDFS_LATER;
	}
	tdfs_unlock(in);
	return err;
}

/*
 * Whether somebody still has the staged file open for writing. Descriptors that an exec is about to
 * close are waited for. On the way it takes note of a writer that is being killed.
 */
static struct tdfs_scan_result is_held_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
					       const struct tdfs_caller *caller)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_EXEC_MS;

	for (;;) {
		struct tdfs_scan_result result = tdfs_holders_scan_unlocks(
			in, staged,
			staged->state == TDFS_COMMITTED ? TDFS_SCAN_KILLED : TDFS_SCAN_HOLDERS,
			caller, 0);

		if (staged->unflushed > 0)
			return (struct tdfs_scan_result){ .held = true };
		if (!result.held || !result.till_exec || !tdfs_staged_is_uncommitted(staged) ||
		    in->backend.now(in->backend.context) >= until)
			return result;
		tdfs_sleep_unlocks(in, TDFS_STEP_MS);
	}
}

/* The scans of closes that came before ours may find that a writer was killed. False: some are
 * still due, and what to do is for the last of them to decide. */
static bool wait_for_scans_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_SCANS_MS;

	while (staged->scanning > 0 && in->backend.now(in->backend.context) < until)
		tdfs_sleep_unlocks(in, TDFS_STEP_MS);
	return staged->scanning == 0;
}

/* A later close commits it. Where none comes for long, the log says whose it has to be. */
static int leave_to(struct tdfs_incoming *in, struct tdfs_staged *staged,
		    const struct tdfs_named_process *holder)
{
	staged->holder = *holder;
	if (staged->waits_since == 0) {
		staged->waits_since = in->backend.now(in->backend.context) + 1;
		in->waiting++;
		in->backend.needs_expiry(in->backend.context);
	}
	return 0;
}

/* Decides what a close means, once its scan is done; the last one commits. */
static int finish_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged, uint64_t serial,
			  const struct tdfs_caller *caller)
{
	bool first = true;

	/* Whoever opens or writes between the scan and the commit is scanned for again; one that
	 * never stops holds it. */
	for (int rounds = 0; rounds < 8; rounds++) {
		uint64_t opens, changes;
		struct tdfs_scan_result result;

		tdfs_staged_wait_unlocks(in, staged);
		opens = staged->opens;
		changes = staged->changes;
		result = is_held_unlocks(in, staged, caller);
		if (first) {
			staged->scanning--;
			first = false;
		}
		if (staged->state == TDFS_COMMITTED)
			return staged->answer;
		if (staged->state == TDFS_COMMITTING)
			continue;
		if (!tdfs_staged_has_final_name(staged))
			return 0;
		/* Who came after the last outcome and changed nothing has nothing to do with it. */
		if (!tdfs_staged_is_uncommitted(staged))
			return serial > staged->answered ? 0 : staged->answer;
		if (staged->unflushed > 0 || (result.held && !result.unknown))
			return leave_to(in, staged, &result.holder);
		if (!wait_for_scans_unlocks(in, staged))
			return 0;
		if (staged->state != TDFS_OPEN || staged->opens != opens ||
		    staged->changes != changes || !tdfs_staged_has_final_name(staged) ||
		    !tdfs_staged_is_uncommitted(staged))
			continue;
		if (in->closing) {
			staged->unanswered = true;
			return EIO;
		}
		if (result.unknown)
			return tdfs_staged_refuse(in, staged, EAGAIN, result.why);
		return tdfs_staged_commit_unlocks(in, staged, staged->node.name);
	}
	return 0;
}

int tdfs_incoming_flush(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			struct tdfs_handle *handle)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);
	int answer;

	tdfs_lock(in);
	answer = finish_unlocks(in, staged, handle->serial, caller);
	staged->node.users--;
	tdfs_unlock(in);
	return answer;
}

void tdfs_incoming_untold(struct tdfs_incoming *in, struct tdfs_handle *handle)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);

	tdfs_lock(in);
	if (staged->state == TDFS_COMMITTED && staged->answer == 0)
		in->backend.log(in->backend.context, staged->writer, staged->committed_name,
				"committed, but its writer could not be told, since the connection "
				"was cut: do not drop it again");
	tdfs_unlock(in);
}

/* ---- What a rename would wait for --------------------------------------------------------- */

struct preparation {
	struct tdfs_incoming *in;
	struct tdfs_staged *staged;
};

/* A temporary name that nobody writes to, and that is likely to get another one soon. */
static bool can_prepare(const struct tdfs_incoming *in, const struct tdfs_staged *staged)
{
	return staged->state == TDFS_OPEN && staged->writers == 0 && staged->node.name &&
	       !tdfs_staged_has_final_name(staged) && tdfs_staged_is_uncommitted(staged) &&
	       !staged->failed && !staged->incomplete && !in->closing;
}

static void run_preparation(void *argument)
{
	struct preparation *it = argument;
	struct tdfs_incoming *in = it->in;
	struct tdfs_staged *staged = it->staged;

	tdfs_lock(in);
	while (staged->writing > 0)
		pthread_cond_wait(&in->change, &in->lock);
	staged->queued = false;
	if (can_prepare(in, staged)) {
		staged->preparing = true;
		staged->prepared = staged->size;
		tdfs_unlock(in);
		in->backend.prepare(in->backend.context, staged->file);
		tdfs_lock(in);
		staged->preparing = false;
		pthread_cond_broadcast(&in->change);
	}
	staged->node.users--;
	tdfs_inode_reap(in, &staged->node);
	tdfs_unlock(in);
	free(it);
}

/* A file to which rows are added one by one is prepared when it has doubled. */
static void prepare_later(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	struct preparation *it;

	if (!in->backend.background || staged->queued || staged->preparing ||
	    !can_prepare(in, staged) || staged->size / 2 < staged->prepared)
		return;
	it = malloc(sizeof *it);
	if (!it)
		return;
	*it = (struct preparation){ .in = in, .staged = staged };
	staged->queued = true;
	staged->node.users++;
	if (in->backend.background(in->backend.context, staged->writer, run_preparation, it))
		return;
	staged->queued = false;
	staged->node.users--;
	free(it);
}

/* ---- Release ------------------------------------------------------------------------------ */

/* The last handle for writing goes, and nobody has closed for good: whose the last close was could
 * not be seen, or it never came. */
static bool is_left_over(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	return staged->writers == 1 && tdfs_staged_has_final_name(staged) && !in->closing &&
	       (staged->state == TDFS_COMMITTING || tdfs_staged_is_uncommitted(staged));
}

int tdfs_incoming_release(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			  struct tdfs_handle *handle)
{
	struct tdfs_inode *node = handle->node;
	struct tdfs_staged *staged = handle->writes ? tdfs_staged_of(node) : NULL;

	tdfs_lock(in);
	if (staged && is_left_over(in, staged)) {
		if (!caller->may_wait) {
			tdfs_unlock(in);
			return TDFS_LATER;
		}
		tdfs_staged_wait_unlocks(in, staged);
		if (is_left_over(in, staged))
			(void)tdfs_staged_commit_unlocks(in, staged, staged->node.name);
	}
	if (staged && !handle->flushed)
		staged->unflushed--;
	if (staged && --staged->writers == 0 && staged->implicit && staged->node.name &&
	    staged->state == TDFS_OPEN && staged->changes == 0)
		tdfs_staged_cancel_unlocks(in, staged);
	if (staged)
		prepare_later(in, staged);
	node->users--;
	tdfs_quota_closed(in, handle);
	*handle->link = handle->next;
	if (handle->next)
		handle->next->link = handle->link;
	tdfs_inode_reap(in, node);
	tdfs_unlock(in);
	free(handle);
	return 0;
}

/* ---- The ends of a mount ------------------------------------------------------------------ */

/* Whether what backend.reason was told can be understood: the errno then, and the words. */
static int parse_reason(const char *reason, const char **text)
{
	char *end;
	long answer = strtol(reason, &end, 10);

	if (*end != ' ' || answer <= 0 || answer > INT_MAX)
		return 0;
	*text = end + 1;
	return (int)answer;
}

void tdfs_incoming_recover(struct tdfs_incoming *in, void *file, int fd, const tdl_left *left)
{
	const char *why = "incomplete: the mount ended before this file was committed; "
			  "rename it to commit it as it is, or remove it";
	int answer = left->reason ? parse_reason(left->reason, &why) : 0;
	struct tdfs_staged *staged = NULL;
	struct stat st;
	char *free_name;

	if (fstat(fd, &st) != 0)
		memset(&st, 0, sizeof st);
	tdfs_lock(in);
	free_name = tdfs_free_name(in, left->name);
	if (free_name)
		staged = tdfs_staged_new(in, free_name, left->mode, left->uid, left->gid, file, fd);
	if (staged) {
		tdfs_inode_appears(&staged->node);
		staged->size = (uint64_t)st.st_size;
		staged->node.mtime = (struct timespec){ .tv_sec = left->mtime / 1000,
							.tv_nsec = left->mtime % 1000 * 1000000 };
		if (staged->size > 0 || answer) {
			/* EIO: a writer was killed, or the disk failed. */
			if (answer == 0 || answer == EIO)
				tdfs_staged_set_incomplete(staged, why);
			staged->outcome_at = staged->changes;
			staged->answer = answer ? answer : EIO;
			tdfs_error_file_set(in, staged, why);
		}
		tdfs_inode_reap(in, &staged->node);
	}
	tdfs_unlock(in);
	if (!staged)
		in->backend.free(in->backend.context, file);
	free(free_name);
}

void tdfs_incoming_close(struct tdfs_incoming *in)
{
	tdfs_lock(in);
	in->closing = true;
	/* What is prepared for later is given up. */
	for (struct tdfs_inode *node = in->oldest; node; node = node->next) {
		struct tdfs_staged *staged = tdfs_staged_of(node);

		if (staged && staged->preparing && in->backend.generation)
			(void)in->backend.generation(in->backend.context, staged->file);
	}
	tdfs_unlock(in);
}

/* Every close had its answer: it is known only where all handles are released. Of one that is not a
 * close may be on its way to us, which says to its writer that nothing was committed. */
static bool is_complete(const struct tdfs_staged *staged)
{
	return !staged->unanswered && staged->writers == 0;
}

static void commit_one_remaining_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (!tdfs_staged_has_final_name(staged) || !tdfs_staged_is_uncommitted(staged))
		return;
	if (is_complete(staged))
		(void)tdfs_staged_commit_unlocks(in, staged, staged->node.name);
	else
		tdfs_staged_log(in, staged,
				"not committed: it was not complete when the mount ended");
}

void tdfs_incoming_commit_remaining(struct tdfs_incoming *in)
{
	struct tdfs_inode *node;

	tdfs_lock(in);
	while (in->committing > 0)
		pthread_cond_wait(&in->change, &in->lock);
	for (node = in->oldest; node;) {
		struct tdfs_staged *staged = tdfs_staged_of(node);
		struct tdfs_inode *next;

		node->users++; /* it stays in the list while the lock is given up */
		if (staged)
			commit_one_remaining_unlocks(in, staged);
		next = node->next;
		node->users--;
		tdfs_inode_reap(in, node);
		node = next;
	}
	tdfs_unlock(in);
}

/* ---- In time ------------------------------------------------------------------------------ */

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
	tdfs_staged_log(in, staged, text);
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
	tdfs_implicit_expire_unlocks(in);
	log_waiting(in);
	more = in->n_recent > 0 || in->removed || in->unopened || in->waiting > 0;
	tdfs_unlock(in);
	return more;
}
