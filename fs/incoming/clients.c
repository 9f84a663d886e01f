/* SPDX-License-Identifier: MIT */
/*
 * The clients of a staged file: processes that opened, wrote or closed it, put together from
 * threads as requests name them. Asks nobody: what /proc tells of them is holders.c's.
 */
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

void tdfs_client_add_tid(struct tdfs_client *client, pid_t tid)
{
	if (tid <= 0 || has_tid(client, tid))
		return;
	client->tids[client->next_tid++ % TDFS_TIDS] = tid;
}

struct tdfs_client *tdfs_client_by_tid(struct tdfs_staged *staged, pid_t tid)
{
	for (size_t i = 0; i < staged->n_clients; i++)
		if (has_tid(&staged->clients[i], tid))
			return &staged->clients[i];
	return NULL;
}

struct tdfs_client *tdfs_client_by_process(struct tdfs_staged *staged, pid_t process)
{
	for (size_t i = 0; i < staged->n_clients; i++)
		if (staged->clients[i].process &&
		    tdfs_process_id(staged->clients[i].process) == process)
			return &staged->clients[i];
	return NULL;
}

bool tdfs_client_is_process(struct tdfs_staged *staged, pid_t tid, pid_t process)
{
	const struct tdfs_client *client = tdfs_client_by_tid(staged, tid);

	return client && client->process && tdfs_process_id(client->process) == process;
}

void tdfs_client_remove(struct tdfs_staged *staged, struct tdfs_client *client)
{
	tdfs_process_unref(client->process);
	*client = staged->clients[--staged->n_clients];
	if (staged->user)
		staged->user->clients--;
}

void tdfs_clients_clear(struct tdfs_staged *staged)
{
	while (staged->n_clients > 0)
		tdfs_client_remove(staged, staged->clients);
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
	client = tdfs_client_by_tid(staged, tid);
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
		tdfs_client_add_tid(client, tid);
	}
	client->wrote |= wrote;
	client->clean = false;
	/* Early, while the thread is sure to be there: it waits for the answer to its request. */
	if (client->wrote && !client->requested) {
		client->requested = true;
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

void tdfs_client_set_process(struct tdfs_staged *staged, struct tdfs_client *client,
			     struct tdfs_process *process)
{
	struct tdfs_client *same;

	if (client->process || !process) {
		tdfs_process_unref(process);
		return;
	}
	same = tdfs_client_by_process(staged, tdfs_process_id(process));
	if (!same) {
		client->process = process;
		return;
	}
	for (unsigned i = 0; i < TDFS_TIDS; i++)
		tdfs_client_add_tid(same, client->tids[i]);
	same->wrote |= client->wrote;
	same->requested |= client->requested;
	same->clean &= client->clean;
	tdfs_client_remove(staged, client);
	tdfs_process_unref(process);
}
