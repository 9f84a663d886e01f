/* SPDX-License-Identifier: MIT */
/*
 * Which processes still hold a staged file: the backend scans /proc, and what it found is applied
 * to the file's clients; writers that are being killed are found so, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incoming/state.h"

void tdfs_incoming_found(struct tdfs_incoming *in, uint64_t ino, pid_t tid,
			 struct tdfs_process *process)
{
	struct tdfs_staged *staged;
	struct tdfs_client *client;

	tdfs_lock(in);
	staged = tdfs_staged_of(tdfs_inode_by_ino(in, ino));
	client = staged ? tdfs_client_by_tid(staged, tid) : NULL;
	if (client)
		tdfs_client_set_process(staged, client, process);
	else
		tdfs_process_unref(process);
	tdfs_unlock(in);
}

/* ---- Scanning ------------------------------------------------------------------------------ */

static struct tdfs_scan *new_scan(const struct tdfs_staged *staged)
{
	struct tdfs_scan *scan = calloc(1, sizeof *scan);

	if (!scan)
		return NULL;
	/* One more, for tdfs_client_wrote_unlocks(). */
	scan->candidates = calloc(staged->n_clients + 1, sizeof *scan->candidates);
	if (!scan->candidates) {
		free(scan);
		return NULL;
	}
	for (size_t i = 0; i < staged->n_clients; i++) {
		struct tdfs_candidate *one = &scan->candidates[scan->count++];

		one->tid = staged->clients[i].tids[0];
		one->process = tdfs_process_ref(staged->clients[i].process);
		one->clean = staged->clients[i].clean;
	}
	scan->since = staged->since;
	memcpy(scan->users, staged->users, sizeof scan->users);
	scan->n_users = staged->n_users;
	return scan;
}

/* The backend scans, without the lock. False: it was given up, and *scan is gone. */
static bool scan_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged, uid_t uid,
			 struct tdfs_scan *scan)
{
	bool in_time;

	staged->node.users++;
	tdfs_unlock(in);
	in_time = in->backend.scan(in->backend.context, uid, scan);
	tdfs_lock(in);
	staged->node.users--;
	return in_time;
}

static void apply_processes(struct tdfs_staged *staged, const struct tdfs_scan *scan)
{
	for (size_t i = 0; i < scan->count; i++) {
		struct tdfs_client *client = tdfs_client_by_tid(staged, scan->candidates[i].tid);

		if (client && scan->candidates[i].process)
			tdfs_client_set_process(staged, client,
						tdfs_process_ref(scan->candidates[i].process));
	}
}

static void apply_killed(struct tdfs_staged *staged, const struct tdfs_scan *scan,
			 pid_t closing_tid)
{
	for (size_t i = 0; i < scan->n_killed; i++) {
		const struct tdfs_killed *killed = &scan->killed[i];
		struct tdfs_client *client = tdfs_client_by_process(staged, killed->process);
		const char *what;
		char why[160], by[32];

		if (!client)
			client = tdfs_client_by_tid(staged, killed->process);
		if (!client && killed->process == scan->closing_process)
			client = tdfs_client_by_tid(staged, closing_tid);
		if (!client || !client->wrote)
			continue;
		/* strsignal() allocates for the signals that have no name. */
		what = killed->signal > 0 ? sigdescr_np(killed->signal) : NULL;
		snprintf(by, sizeof by, killed->signal > 0 ? "signal %d" : "a signal",
			 killed->signal);
		if (killed->signal < 0)
			snprintf(why, sizeof why,
				 "incomplete: how its writer %s (process %d) ended cannot be seen: "
				 "it "
				 "may have been killed",
				 killed->name, (int)killed->process);
		else
			snprintf(why, sizeof why,
				 "incomplete: its writer %s (process %d) was killed by %s%s%s%s",
				 killed->name, (int)killed->process, by, what ? " (" : "",
				 what ? what : "", what ? ")" : "");
		tdfs_staged_set_incomplete(staged, why);
	}
}

/* Forgets clients that have exited. If one may have left a child with the file, every later scan
 * covers all processes. */
static void apply_ended(struct tdfs_staged *staged, const struct tdfs_scan *scan)
{
	/* Those that did not fit into the list of the killed are needed in a later scan. */
	bool forget = scan->n_killed < TDFS_KILLED_MAX;

	for (size_t i = 0; i < scan->count; i++) {
		struct tdfs_client *client = tdfs_client_by_tid(staged, scan->candidates[i].tid);

		if (!scan->candidates[i].ended)
			continue;
		if (!client || !client->clean)
			staged->lost_holder = true;
		if (client && forget)
			tdfs_client_remove(staged, client);
	}
}

/* ---- Where /proc shows nothing ------------------------------------------------------------ */

/* Whether a handle was opened by the process that closes now; its threads and tables witness it. */
static bool is_opener(struct tdfs_staged *staged, const struct tdfs_handle *handle,
		      const struct tdfs_caller *caller, pid_t closing_process)
{
	if (caller->tid > 0 && handle->opener == caller->tid)
		return true;
	if (closing_process > 0 && handle->opener > 0)
		return tdfs_client_is_process(staged, handle->opener, closing_process);
	return handle->owner == caller->owner;
}

/*
 * The closing process's descriptors cannot be seen, nor whose else they are. Another table that
 * wrote and has not closed since has the file for sure. And who did not open the file has it from
 * someone who may well go on with it: a later close commits, or the end of the last descriptor.
 */
static bool others_have_it(struct tdfs_incoming *in, struct tdfs_staged *staged,
			   const struct tdfs_caller *caller, pid_t closing_process)
{
	for (unsigned i = 0; i < TDFS_TABLES; i++)
		if (staged->tables[i].wrote && staged->tables[i].owner != caller->owner)
			return true;
	/* Not a close: a rename. */
	if (caller->owner == 0)
		return false;
	for (struct tdfs_handle *handle = in->handles; handle; handle = handle->next)
		if (handle->node == &staged->node && handle->writes &&
		    !is_opener(staged, handle, caller, closing_process))
			return true;
	return false;
}

static void log_hidden_once(struct tdfs_incoming *in)
{
	if (in->logged_hidden)
		return;
	in->logged_hidden = true;
	in->backend.log(in->backend.context, TDFS_NOBODY, NULL,
			"not all processes can be seen in /proc: a file of one of those is "
			"committed when the process that opened it closes it, or when nobody has "
			"it any more");
}

/* ---- The result --------------------------------------------------------------------------- */

static void apply_scan(struct tdfs_incoming *in, struct tdfs_staged *staged,
		       const struct tdfs_scan *scan, const struct tdfs_caller *caller,
		       struct tdfs_scan_result *result)
{
	struct tdfs_client *client;
	pid_t tid = caller ? caller->tid : 0;

	apply_processes(staged, scan);
	result->held = scan->held;
	result->till_exec = scan->till_exec;
	result->holder = scan->holder;
	result->excluded = scan->excluded;
	result->excluded_holds = scan->excluded_holds;
	if (scan->ino != 0 && !scan->held && scan->unwatched && caller) {
		result->held = others_have_it(in, staged, caller, scan->closing_process);
		log_hidden_once(in);
	} else if (scan->ino != 0 && scan->hidden.process != 0 &&
		   (!scan->held || scan->till_exec)) {
		result->held = result->unknown = true;
		result->till_exec = false;
		snprintf(result->why, sizeof result->why,
			 "not committed: whether process %d (%s) still has it open cannot be seen; "
			 "rename it to commit it, or write it again",
			 (int)scan->hidden.process, scan->hidden.name);
	}
	client = scan->closing_process > 0 ? tdfs_client_by_process(staged, scan->closing_process)
					   : NULL;
	if (!client && tid > 0)
		client = tdfs_client_by_tid(staged, tid);
	if (client && scan->ino != 0)
		client->clean = scan->clean;
	apply_killed(staged, scan, tid);
	apply_ended(staged, scan);
}

/* One scan; false: it was given up, or not complete for lack of something. */
static bool scan_once_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
			      enum tdfs_scan_kind how, const struct tdfs_caller *caller,
			      pid_t exclude, struct tdfs_scan_result *result)
{
	struct tdfs_scan *scan = new_scan(staged);
	bool complete;

	if (!scan)
		return false;
	scan->ino = how == TDFS_SCAN_KILLED ? 0 : staged->node.ino;
	scan->all_processes = staged->lost_holder;
	scan->closing_tid = caller ? caller->tid : -1;
	scan->exclude = exclude;
	if (!scan_unlocks(in, staged, caller ? caller->uid : staged->writer, scan))
		return false;
	complete = !scan->incomplete || scan->held;
	if (complete)
		apply_scan(in, staged, scan, caller, result);
	tdfs_scan_clear(scan);
	free(scan);
	return complete;
}

struct tdfs_scan_result tdfs_holders_scan_unlocks(struct tdfs_incoming *in,
						  struct tdfs_staged *staged,
						  enum tdfs_scan_kind how,
						  const struct tdfs_caller *caller, pid_t exclude)
{
	struct tdfs_scan_result result = { 0 };

	for (int tries = 0; tries < TDFS_SCANS_MAX; tries++) {
		if (tries > 0)
			tdfs_sleep_unlocks(in, TDFS_RETRY_MS);
		if (scan_once_unlocks(in, staged, how, caller, exclude, &result))
			return result;
	}
	/* Whoever closes waits for our answer: now or never it shows why. */
	if (caller && how != TDFS_SCAN_KILLED)
		(void)scan_once_unlocks(in, staged, TDFS_SCAN_KILLED, caller, exclude, &result);
	result = (struct tdfs_scan_result){ .held = how != TDFS_SCAN_KILLED };
	result.unknown = result.held;
	snprintf(result.why, sizeof result.why,
		 "not committed: who still has it open cannot be seen for lack of descriptors, "
		 "memory or threads; rename it to commit it, or write it again");
	return result;
}

int tdfs_client_wrote_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
			      const struct tdfs_caller *caller)
{
	struct tdfs_client *client;
	struct tdfs_process *process;
	struct tdfs_scan *scan;
	int wrote = 0;

	if (caller->tid <= 0)
		return 0;
	client = tdfs_client_by_tid(staged, caller->tid);
	if (client && client->wrote)
		return 1;
	if (staged->n_clients == 0)
		return 0;
	if (!caller->may_wait)
		return TDFS_LATER;
	scan = new_scan(staged);
	if (!scan)
		return 0;
	scan->closing_tid = -1;
	scan->candidates[scan->count++].tid = caller->tid;
	if (!scan_unlocks(in, staged, caller->uid, scan))
		return 0;
	process = scan->candidates[scan->count - 1].process;
	scan->count--;
	apply_processes(staged, scan);
	scan->count++;
	if (process) {
		client = tdfs_client_by_process(staged, tdfs_process_id(process));
		if (client) {
			tdfs_client_add_tid(client, caller->tid);
			wrote = client->wrote;
		}
	}
	tdfs_scan_clear(scan);
	free(scan);
	return wrote;
}
