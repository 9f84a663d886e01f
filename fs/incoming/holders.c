/* SPDX-License-Identifier: MIT */
/*
 * The clients of a staged file, processes that opened, wrote or closed it, and which of them still
 * hold it: threads as requests name them are put together to processes, the backend scans /proc,
 * and writers that are being killed are found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incoming/state.h"

static bool has_tid(const struct tdfs_client *client, pid_t tid)
{
	for (unsigned i = 0; i < TDFS_TIDS; i++)
		if (client->tids[i] == tid)
			return true;
	return false;
}

static void add_tid(struct tdfs_client *client, pid_t tid)
{
	if (tid <= 0 || has_tid(client, tid))
		return;
	client->tids[client->next_tid++ % TDFS_TIDS] = tid;
}

static struct tdfs_client *find_tid(struct tdfs_staged *staged, pid_t tid)
{
	for (size_t i = 0; i < staged->n_clients; i++)
		if (has_tid(&staged->clients[i], tid))
			return &staged->clients[i];
	return NULL;
}

static struct tdfs_client *find_process(struct tdfs_staged *staged, pid_t process)
{
	for (size_t i = 0; i < staged->n_clients; i++)
		if (staged->clients[i].process &&
		    tdfs_process_id(staged->clients[i].process) == process)
			return &staged->clients[i];
	return NULL;
}

bool tdfs_client_is_process(struct tdfs_staged *staged, pid_t tid, pid_t process)
{
	const struct tdfs_client *client = find_tid(staged, tid);

	return client && client->process && tdfs_process_id(client->process) == process;
}

static void remove_client(struct tdfs_staged *staged, struct tdfs_client *client)
{
	tdfs_process_unref(client->process);
	*client = staged->clients[--staged->n_clients];
	if (staged->user)
		staged->user->clients--;
}

void tdfs_clients_clear(struct tdfs_staged *staged)
{
	while (staged->n_clients > 0)
		remove_client(staged, staged->clients);
	free(staged->clients);
	staged->clients = NULL;
}

/* Whoever is known no more may have left somebody behind. */
static void forget_oldest(struct tdfs_staged *staged)
{
	staged->lost_holder |= !staged->clients[0].clean;
	tdfs_process_unref(staged->clients[0].process);
	memmove(staged->clients, staged->clients + 1,
		--staged->n_clients * sizeof *staged->clients);
	if (staged->user)
		staged->user->clients--;
}

/* One more would be more than are remembered of a file, or of all files of a user. */
static bool are_enough(const struct tdfs_incoming *in, const struct tdfs_staged *staged)
{
	return staged->n_clients >= TDFS_CLIENTS_MAX ||
	       (staged->n_clients > 0 && !tdfs_quota_clients(in, staged));
}

void tdfs_clients_rest(struct tdfs_staged *staged)
{
	struct tdfs_client *fewer;

	while (staged->n_clients > TDFS_CLIENTS_KEPT)
		forget_oldest(staged);
	staged->lost_holder = false;
	fewer = staged->n_clients > 0 ? realloc(staged->clients, staged->n_clients * sizeof *fewer)
				      : NULL;
	if (fewer)
		staged->clients = fewer;
}

void tdfs_client_add(struct tdfs_incoming *in, struct tdfs_staged *staged,
		     const struct tdfs_caller *caller, bool wrote)
{
	struct tdfs_client *client, *clients;
	pid_t tid = caller->tid;

	if (tid <= 0)
		return;
	client = find_tid(staged, tid);
	if (!client) {
		clients = realloc(staged->clients, (staged->n_clients + 1) * sizeof *clients);
		if (!clients) {
			staged->lost_holder = true;
			return;
		}
		staged->clients = clients;
		/* Temporary files that one process after the other appends to. */
		if (are_enough(in, staged))
			forget_oldest(staged);
		client = &clients[staged->n_clients++];
		if (staged->user)
			staged->user->clients++;
		*client = (struct tdfs_client){ 0 };
		add_tid(client, tid);
	}
	client->wrote |= wrote;
	client->clean = false;
	/* Early, while the thread is sure to be there: it waits for the answer to its request. */
	if (client->wrote && !client->sought) {
		client->sought = true;
		in->backend.find(in->backend.context, staged->node.ino, caller->uid, tid);
	}
}

static void add_user(struct tdfs_staged *staged, uid_t uid)
{
	for (unsigned i = 0; i < staged->n_users && i < TDFS_USERS_MAX; i++)
		if (staged->users[i] == uid)
			return;
	if (staged->n_users < TDFS_USERS_MAX)
		staged->users[staged->n_users++] = uid;
	else
		staged->n_users = TDFS_USERS_MAX + 1;
}

void tdfs_client_opened(struct tdfs_incoming *in, struct tdfs_staged *staged,
			const struct tdfs_caller *caller)
{
	/* Nobody has it from before. */
	if (staged->writers == 1 && in->backend.moment) {
		staged->since = in->backend.moment(in->backend.context);
		staged->n_users = 0;
		memset(staged->tables, 0, sizeof staged->tables);
	}
	add_user(staged, caller->uid);
	tdfs_client_add(in, staged, caller, true);
}

static struct tdfs_table *table_of(struct tdfs_staged *staged, uint64_t owner)
{
	for (unsigned i = 0; i < TDFS_TABLES; i++)
		if (staged->tables[i].owner == owner)
			return &staged->tables[i];
	return NULL;
}

void tdfs_client_used(struct tdfs_handle *handle, const struct tdfs_caller *caller, bool closes)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);
	struct tdfs_table *table;

	if (caller->owner == 0)
		return;
	if (handle->owner == 0)
		handle->owner = caller->owner;
	table = table_of(staged, caller->owner);
	if (!table && !closes) {
		table = &staged->tables[staged->next_table++ % TDFS_TABLES];
		table->owner = caller->owner;
	}
	if (table)
		table->wrote = !closes;
}

/* The client gets its process; two that turn out to be the same one become one. Takes over the
 * reference. */
static void set_client_process(struct tdfs_staged *staged, struct tdfs_client *client,
			       struct tdfs_process *process)
{
	struct tdfs_client *same;

	if (client->process || !process) {
		tdfs_process_unref(process);
		return;
	}
	same = find_process(staged, tdfs_process_id(process));
	if (!same) {
		client->process = process;
		return;
	}
	for (unsigned i = 0; i < TDFS_TIDS; i++)
		add_tid(same, client->tids[i]);
	same->wrote |= client->wrote;
	same->sought |= client->sought;
	same->clean &= client->clean;
	remove_client(staged, client);
	tdfs_process_unref(process);
}

void tdfs_incoming_found(struct tdfs_incoming *in, uint64_t ino, pid_t tid,
			 struct tdfs_process *process)
{
	struct tdfs_staged *staged;
	struct tdfs_client *client;

	tdfs_lock(in);
	staged = tdfs_staged_of(tdfs_inode_by_ino(in, ino));
	client = staged ? find_tid(staged, tid) : NULL;
	if (client)
		set_client_process(staged, client, process);
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
	/* One more, for tdfs_client_wrote(). */
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
static bool scan_unlocked(struct tdfs_incoming *in, struct tdfs_staged *staged, uid_t uid,
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
		struct tdfs_client *client = find_tid(staged, scan->candidates[i].tid);

		if (client && scan->candidates[i].process)
			set_client_process(staged, client,
					   tdfs_process_ref(scan->candidates[i].process));
	}
}

static void apply_killed(struct tdfs_staged *staged, const struct tdfs_scan *scan,
			 pid_t closing_tid)
{
	for (size_t i = 0; i < scan->n_killed; i++) {
		const struct tdfs_killed *killed = &scan->killed[i];
		struct tdfs_client *client = find_process(staged, killed->process);
		const char *what;
		char why[160], by[32];

		if (!client)
			client = find_tid(staged, killed->process);
		if (!client && killed->process == scan->closing_process)
			client = find_tid(staged, closing_tid);
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
		struct tdfs_client *client = find_tid(staged, scan->candidates[i].tid);

		if (!scan->candidates[i].ended)
			continue;
		if (!client || !client->clean)
			staged->lost_holder = true;
		if (client && forget)
			remove_client(staged, client);
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
	client = scan->closing_process > 0 ? find_process(staged, scan->closing_process) : NULL;
	if (!client && tid > 0)
		client = find_tid(staged, tid);
	if (client && scan->ino != 0)
		client->clean = scan->clean;
	apply_killed(staged, scan, tid);
	apply_ended(staged, scan);
}

/* One scan; false: it was given up, or not complete for lack of something. */
static bool scan_once(struct tdfs_incoming *in, struct tdfs_staged *staged, enum tdfs_scan_kind how,
		      const struct tdfs_caller *caller, pid_t exclude,
		      struct tdfs_scan_result *result)
{
	struct tdfs_scan *scan = new_scan(staged);
	bool complete;

	if (!scan)
		return false;
	scan->ino = how == TDFS_SCAN_KILLED ? 0 : staged->node.ino;
	scan->all_processes = staged->lost_holder;
	scan->closing_tid = caller ? caller->tid : -1;
	scan->exclude = exclude;
	if (!scan_unlocked(in, staged, caller ? caller->uid : staged->writer, scan))
		return false;
	complete = !scan->incomplete || scan->held;
	if (complete)
		apply_scan(in, staged, scan, caller, result);
	tdfs_scan_clear(scan);
	free(scan);
	return complete;
}

struct tdfs_scan_result tdfs_holders_scan(struct tdfs_incoming *in, struct tdfs_staged *staged,
					  enum tdfs_scan_kind how, const struct tdfs_caller *caller,
					  pid_t exclude)
{
	struct tdfs_scan_result result = { 0 };

	for (int tries = 0; tries < TDFS_SCANS_MAX; tries++) {
		if (tries > 0)
			tdfs_sleep_unlocked(in, TDFS_RETRY_MS);
		if (scan_once(in, staged, how, caller, exclude, &result))
			return result;
	}
	/* Whoever closes waits for our answer: now or never it shows why. */
	if (caller && how != TDFS_SCAN_KILLED)
		(void)scan_once(in, staged, TDFS_SCAN_KILLED, caller, exclude, &result);
	result = (struct tdfs_scan_result){ .held = how != TDFS_SCAN_KILLED };
	result.unknown = result.held;
	snprintf(result.why, sizeof result.why,
		 "not committed: who still has it open cannot be seen for lack of descriptors, "
		 "memory or threads; rename it to commit it, or write it again");
	return result;
}

int tdfs_client_wrote(struct tdfs_incoming *in, struct tdfs_staged *staged,
		      const struct tdfs_caller *caller)
{
	struct tdfs_client *client;
	struct tdfs_process *process;
	struct tdfs_scan *scan;
	int wrote = 0;

	if (caller->tid <= 0)
		return 0;
	client = find_tid(staged, caller->tid);
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
	if (!scan_unlocked(in, staged, caller->uid, scan))
		return 0;
	process = scan->candidates[scan->count - 1].process;
	scan->count--;
	apply_processes(staged, scan);
	scan->count++;
	if (process) {
		client = find_process(staged, tdfs_process_id(process));
		if (client) {
			add_tid(client, caller->tid);
			wrote = client->wrote;
		}
	}
	tdfs_scan_clear(scan);
	free(scan);
	return wrote;
}
