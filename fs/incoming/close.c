/* SPDX-License-Identifier: MIT */
/*
 * When a staged file is finished: closes, the release of the last handle, and the end of the mount.
 * Knows nothing of FUSE, of /proc or of the table; incoming.h has the contract.
 */
#include "incoming/incoming.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

/* ---- Flush -------------------------------------------------------------------------------- */

int tdfs_incoming_flush_begin(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			      struct tdfs_handle *handle)
{
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);
	int why = 0;

	if (!drop || !handle->writes)
		return 0;
	tdfs_lock(in);
	if (!handle->closed)
		drop->unclosed--;
	handle->closed = true;
	tdfs_people_note(in, drop, caller, false);
	tdfs_people_used(handle, caller, true);
	if (drop->state == TDFS_PUBLISHED) {
		why = drop->answer;
	} else if (tdfs_drop_commits(drop)) {
		drop->looking++;
		drop->node.users++;
		why = TDFS_LATER;
	}
	tdfs_unlock(in);
	return why;
}

/*
 * Whether somebody still has the drop open for writing. Descriptors that an exec is about to close
 * are waited for. On the way it takes note of a writer that is being killed.
 */
static struct tdfs_verdict is_held(struct tdfs_incoming *in, struct tdfs_drop *drop,
				   const struct tdfs_caller *closer)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_EXEC_MS;

	for (;;) {
		struct tdfs_verdict verdict = tdfs_people_look(
			in, drop,
			drop->state == TDFS_PUBLISHED ? TDFS_LOOK_KILLED : TDFS_LOOK_HOLDERS,
			closer, 0);

		if (drop->unclosed > 0)
			return (struct tdfs_verdict){ .held = true };
		if (!verdict.held || !verdict.till_exec || !tdfs_drop_unpublished(drop) ||
		    in->backend.now(in->backend.context) >= until)
			return verdict;
		tdfs_sleep_unlocked(in, TDFS_STEP_MS);
	}
}

/* The looks of closes that came before ours may find that a writer was killed. False: some are
 * still due, and what to do is for the last of them to decide. */
static bool wait_for_looks(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	int64_t until = in->backend.now(in->backend.context) + TDFS_LOOKS_MS;

	while (drop->looking > 0 && in->backend.now(in->backend.context) < until)
		tdfs_sleep_unlocked(in, TDFS_STEP_MS);
	return drop->looking == 0;
}

/* A later close commits it. Where none comes for long, the log says whose it has to be. */
static int leave_to(struct tdfs_incoming *in, struct tdfs_drop *drop,
		    const struct tdfs_seen *holder)
{
	drop->holder = *holder;
	if (drop->waits_since == 0) {
		drop->waits_since = in->backend.now(in->backend.context) + 1;
		in->waiting++;
		in->backend.untidy(in->backend.context);
	}
	return 0;
}

/* Decides what a close means, once its look is done; the last one commits. */
static int finish(struct tdfs_incoming *in, struct tdfs_drop *drop, uint64_t serial,
		  const struct tdfs_caller *closer)
{
	bool first = true;

	/* Whoever opens or writes between the look and the commit is looked at again; one that
	 * never stops holds it. */
	for (int rounds = 0; rounds < 8; rounds++) {
		uint64_t opens, changes;
		struct tdfs_verdict verdict;

		tdfs_drop_wait(in, drop);
		opens = drop->opens;
		changes = drop->changes;
		verdict = is_held(in, drop, closer);
		if (first) {
			drop->looking--;
			first = false;
		}
		if (drop->state == TDFS_PUBLISHED)
			return drop->answer;
		if (drop->state == TDFS_PUBLISHING)
			continue;
		if (!tdfs_drop_commits(drop))
			return 0;
		/* Who came after the last outcome and changed nothing has nothing to do with it. */
		if (!tdfs_drop_unpublished(drop))
			return serial > drop->answered ? 0 : drop->answer;
		if (drop->unclosed > 0 || (verdict.held && !verdict.unknown))
			return leave_to(in, drop, &verdict.holder);
		if (!wait_for_looks(in, drop))
			return 0;
		if (drop->state != TDFS_OPEN || drop->opens != opens || drop->changes != changes ||
		    !tdfs_drop_commits(drop) || !tdfs_drop_unpublished(drop))
			continue;
		if (in->closing) {
			drop->unanswered = true;
			return EIO;
		}
		if (verdict.unknown)
			return tdfs_drop_refuse(in, drop, EAGAIN, verdict.why);
		return tdfs_drop_publish(in, drop, drop->node.name);
	}
	return 0;
}

int tdfs_incoming_flush(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			struct tdfs_handle *handle)
{
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);
	int answer;

	tdfs_lock(in);
	answer = finish(in, drop, handle->serial, caller);
	drop->node.users--;
	tdfs_unlock(in);
	return answer;
}

void tdfs_incoming_untold(struct tdfs_incoming *in, struct tdfs_handle *handle)
{
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);

	tdfs_lock(in);
	if (drop->state == TDFS_PUBLISHED && drop->answer == 0)
		in->backend.say(in->backend.context, drop->published,
				"committed, but its writer could not be told, since the connection "
				"was cut: do not drop it again");
	tdfs_unlock(in);
}

/* ---- What a rename would wait for --------------------------------------------------------- */

struct preparation {
	struct tdfs_incoming *in;
	struct tdfs_drop *drop;
};

/* A temporary name that nobody writes to, and that is likely to get another one soon. */
static bool can_prepare(const struct tdfs_incoming *in, const struct tdfs_drop *drop)
{
	return drop->state == TDFS_OPEN && drop->writers == 0 && drop->node.name &&
	       !tdfs_drop_commits(drop) && tdfs_drop_unpublished(drop) && !drop->failed &&
	       !drop->taint && !in->closing;
}

static void prepare(void *argument)
{
	struct preparation *it = argument;
	struct tdfs_incoming *in = it->in;
	struct tdfs_drop *drop = it->drop;

	tdfs_lock(in);
	while (drop->writing > 0)
		pthread_cond_wait(&in->change, &in->lock);
	drop->queued = false;
	if (can_prepare(in, drop)) {
		drop->preparing = true;
		drop->prepared = drop->size;
		tdfs_unlock(in);
		in->backend.prepare(in->backend.context, drop->file);
		tdfs_lock(in);
		drop->preparing = false;
		pthread_cond_broadcast(&in->change);
	}
	drop->node.users--;
	tdfs_inode_settle(in, &drop->node);
	tdfs_unlock(in);
	free(it);
}

/* A file to which rows are added one by one is prepared when it has doubled. */
static void prepare_later(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	struct preparation *it;

	if (!in->backend.background || drop->queued || drop->preparing || !can_prepare(in, drop) ||
	    drop->size / 2 < drop->prepared)
		return;
	it = malloc(sizeof *it);
	if (!it)
		return;
	*it = (struct preparation){ .in = in, .drop = drop };
	drop->queued = true;
	drop->node.users++;
	if (in->backend.background(in->backend.context, drop->writer, prepare, it))
		return;
	drop->queued = false;
	drop->node.users--;
	free(it);
}

/* ---- Release ------------------------------------------------------------------------------ */

/* The last handle for writing goes, and nobody has closed for good: whose the last close was could
 * not be seen, or it never came. */
static bool is_left_over(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	return drop->writers == 1 && tdfs_drop_commits(drop) && !in->closing &&
	       (drop->state == TDFS_PUBLISHING || tdfs_drop_unpublished(drop));
}

int tdfs_incoming_release(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			  struct tdfs_handle *handle)
{
	struct tdfs_inode *node = handle->node;
	struct tdfs_drop *drop = handle->writes ? tdfs_drop_of(node) : NULL;

	tdfs_lock(in);
	if (drop && is_left_over(in, drop)) {
		if (!caller->may_wait) {
			tdfs_unlock(in);
			return TDFS_LATER;
		}
		tdfs_drop_wait(in, drop);
		if (is_left_over(in, drop))
			(void)tdfs_drop_publish(in, drop, drop->node.name);
	}
	if (drop && !handle->closed)
		drop->unclosed--;
	if (drop && --drop->writers == 0 && drop->unasked && drop->node.name &&
	    drop->state == TDFS_OPEN && drop->changes == 0)
		tdfs_drop_cancel(in, drop);
	if (drop)
		prepare_later(in, drop);
	node->users--;
	*handle->link = handle->next;
	if (handle->next)
		handle->next->link = handle->link;
	tdfs_inode_settle(in, node);
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

void tdfs_incoming_adopt(struct tdfs_incoming *in, void *file, int fd, const tdl_left *left)
{
	const char *why = "incomplete: the mount ended before this file was committed; "
			  "rename it to commit it as it is, or remove it";
	int answer = left->reason ? parse_reason(left->reason, &why) : 0;
	struct tdfs_drop *drop = NULL;
	struct stat st;
	char *free_name;

	if (fstat(fd, &st) != 0)
		memset(&st, 0, sizeof st);
	tdfs_lock(in);
	free_name = tdfs_free_name(in, left->name);
	if (free_name)
		drop = tdfs_drop_new(in, free_name, left->mode, left->uid, left->gid, file, fd);
	if (drop) {
		tdfs_inode_appears(&drop->node);
		drop->size = (uint64_t)st.st_size;
		drop->node.mtime = (struct timespec){ .tv_sec = left->mtime / 1000,
						      .tv_nsec = left->mtime % 1000 * 1000000 };
		if (drop->size > 0 || answer) {
			/* EIO: a writer was killed, or the disk failed. */
			if (answer == 0 || answer == EIO)
				tdfs_drop_taint(drop, why);
			drop->settled = drop->changes;
			drop->answer = answer ? answer : EIO;
			tdfs_note_set(in, drop, why);
		}
		tdfs_inode_settle(in, &drop->node);
	}
	tdfs_unlock(in);
	if (!drop)
		in->backend.free(in->backend.context, file);
	free(free_name);
}

void tdfs_incoming_close(struct tdfs_incoming *in)
{
	tdfs_lock(in);
	in->closing = true;
	/* What is prepared for later is given up. */
	for (struct tdfs_inode *node = in->oldest; node; node = node->next) {
		struct tdfs_drop *drop = tdfs_drop_of(node);

		if (drop && drop->preparing && in->backend.generation)
			(void)in->backend.generation(in->backend.context, drop->file);
	}
	tdfs_unlock(in);
}

/* Every close had its answer: it is known only where all handles are released. Of one that is not a
 * close may be on its way to us, which says to its writer that nothing was committed. */
static bool is_complete(const struct tdfs_drop *drop)
{
	return !drop->unanswered && drop->writers == 0;
}

static void settle_drop(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	if (!tdfs_drop_commits(drop) || !tdfs_drop_unpublished(drop))
		return;
	if (is_complete(drop))
		(void)tdfs_drop_publish(in, drop, drop->node.name);
	else
		in->backend.say(in->backend.context, drop->node.name,
				"not committed: it was not complete when the mount ended");
}

void tdfs_incoming_settle(struct tdfs_incoming *in)
{
	struct tdfs_inode *node;

	tdfs_lock(in);
	while (in->publishing > 0)
		pthread_cond_wait(&in->change, &in->lock);
	for (node = in->oldest; node;) {
		struct tdfs_drop *drop = tdfs_drop_of(node);
		struct tdfs_inode *next;

		node->users++; /* it stays in the list while the lock is given up */
		if (drop)
			settle_drop(in, drop);
		next = node->next;
		node->users--;
		tdfs_inode_settle(in, node);
		node = next;
	}
	tdfs_unlock(in);
}
