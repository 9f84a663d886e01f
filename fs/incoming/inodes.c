/* SPDX-License-Identifier: MIT */
/*
 * Names and inode numbers in incoming/: the two tables, staged files and their error files coming
 * and going. Knows nothing of when a file is finished.
 */
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"
#include "util/search.h"

void tdfs_lock(struct tdfs_incoming *in)
{
	pthread_mutex_lock(&in->lock);
}

void tdfs_unlock(struct tdfs_incoming *in)
{
	struct tdfs_deferred_close *deferred = in->deferred_closes;

	in->deferred_closes = NULL;
	pthread_mutex_unlock(&in->lock);
	while (deferred) {
		struct tdfs_deferred_close *next = deferred->next;

		if (deferred->file)
			in->backend.free(in->backend.context, deferred->file);
		else
			close(deferred->fd);
		free(deferred);
		deferred = next;
	}
}

void tdfs_sleep_unlocks(struct tdfs_incoming *in, unsigned ms)
{
	tdfs_unlock(in);
	in->backend.wait(in->backend.context, ms);
	tdfs_lock(in);
}

struct timespec tdfs_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now;
}

/* ---- Tables ------------------------------------------------------------------------------- */

/* The first place of a number from `ino` on. */
static size_t lower_place(const struct tdfs_incoming *in, uint64_t ino)
{
	return tdl__lower_bound(in->n_places, i, in->places[i].ino < ino);
}

static bool reserve_place(struct tdfs_incoming *in)
{
	size_t room = in->room ? 2 * in->room : 64;
	struct tdfs_place *places;

	if (in->n_places < in->room)
		return true;
	places = reallocarray(in->places, room, sizeof *places);
	if (!places)
		return false;
	in->places = places;
	in->room = room;
	return true;
}

static void close_gaps(struct tdfs_incoming *in)
{
	size_t kept = 0;

	for (size_t i = 0; i < in->n_places; i++)
		if (in->places[i].node)
			in->places[kept++] = in->places[i];
	in->n_places = kept;
	in->gaps = 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct tdfs_inode *)a)->name, ((const struct tdfs_inode *)b)->name);
}

struct tdfs_inode *tdfs_inode_by_ino(struct tdfs_incoming *in, uint64_t ino)
{
	size_t at = lower_place(in, ino);

	return at < in->n_places && in->places[at].ino == ino ? in->places[at].node : NULL;
}

struct tdfs_inode *tdfs_inode_by_name(struct tdfs_incoming *in, const char *name)
{
	struct tdfs_inode wanted = { .name = (char *)name };
	struct tdfs_inode **found = tfind(&wanted, &in->names, compare_names);

	return found ? *found : NULL;
}

struct tdfs_error_file *tdfs_error_file_of(struct tdfs_inode *node)
{
	return node && node->kind == TDFS_ERROR_FILE ? (struct tdfs_error_file *)node : NULL;
}

bool tdfs_inode_is_recent(const struct tdfs_inode *node)
{
	return node->name && node->kind == TDFS_STAGED &&
	       ((const struct tdfs_staged *)node)->state == TDFS_COMMITTED;
}

bool tdfs_inode_listed(const struct tdfs_inode *node)
{
	if (!node->name || tdfs_inode_is_recent(node))
		return false;
	return node->kind == TDFS_STAGED || !((const struct tdfs_error_file *)node)->removed;
}

int tdfs_inode_set_name(struct tdfs_incoming *in, struct tdfs_inode *node, const char *name)
{
	char *copy = name ? strdup(name) : NULL, *old = node->name;

	if (name && !copy)
		return ENOMEM;
	if (old)
		tdelete(node, &in->names, compare_names);
	node->name = copy;
	if (copy && !tsearch(node, &in->names, compare_names)) {
		free(copy);
		/* There is room for the one that has just gone. */
		node->name = old;
		if (old && !tsearch(node, &in->names, compare_names)) {
			node->name = NULL;
			free(old);
		}
		return ENOMEM;
	}
	free(old);
	node->ctime = in->changed = tdfs_time();
	return 0;
}

void tdfs_inode_appears(struct tdfs_inode *node)
{
	node->appeared = true;
	node->seen_by = 0;
}

bool tdfs_inode_checked(const struct tdfs_inode *node, const struct tdfs_caller *caller)
{
	return !node->appeared || caller->uid == node->uid ||
	       (caller->tid > 0 && caller->tid == node->seen_by);
}

static int node_add(struct tdfs_incoming *in, struct tdfs_inode *node, const char *name)
{
	node->atime = node->mtime = tdfs_time();
	if (!reserve_place(in) || tdfs_inode_set_name(in, node, name) != 0)
		return ENOMEM;
	node->ino = in->next++;
	in->places[in->n_places++] = (struct tdfs_place){ node->ino, node };
	node->previous = in->newest;
	if (in->newest)
		in->newest->next = node;
	else
		in->oldest = node;
	in->newest = node;
	return 0;
}

static void node_free(struct tdfs_incoming *in, struct tdfs_inode *node)
{
	struct tdfs_staged *staged = tdfs_staged_of(node);

	if (node->name)
		tdelete(node, &in->names, compare_names);
	in->places[lower_place(in, node->ino)].node = NULL;
	if (++in->gaps > 64 && in->gaps > in->n_places / 2)
		close_gaps(in);
	*(node->previous ? &node->previous->next : &in->oldest) = node->next;
	*(node->next ? &node->next->previous : &in->newest) = node->previous;
	if (staged) {
		tdfs_staged_discard(in, staged);
		tdfs_clients_clear(staged);
		tdfs_quota_remove(in, staged);
		free(staged->incomplete);
		free(staged->committed_name);
		in->waiting -= staged->waits_since != 0;
	} else {
		free(((struct tdfs_error_file *)node)->text);
	}
	free(node->name);
	free(node);
}

void tdfs_inode_reap(struct tdfs_incoming *in, struct tdfs_inode *node)
{
	struct tdfs_staged *staged = tdfs_staged_of(node);

	if (node->users > 0)
		return;
	if (node->name) {
		if (staged && staged->state == TDFS_COMMITTED && !staged->keeps_file)
			tdfs_staged_discard(in, staged);
		else if (staged && staged->state == TDFS_OPEN) {
			tdfs_staged_close_fd(in, staged);
			tdfs_clients_rest(staged);
		}
		return;
	}
	/* The kernel can remember a committed file for as long as it has memory. Whoever asks for
	 * it by its number alone is told that it is stale. */
	if (node->lookups == 0 || (staged && staged->state == TDFS_COMMITTED)) {
		node_free(in, node);
	} else if (staged) {
		/* Removed, and nobody can commit it any more. */
		tdfs_staged_discard(in, staged);
		tdfs_clients_clear(staged);
		tdfs_quota_remove(in, staged);
	}
}

struct tdfs_staged *tdfs_staged_new(struct tdfs_incoming *in, const char *name, mode_t mode,
				    uid_t uid, gid_t gid, void *file, int fd)
{
	struct tdfs_staged *staged = calloc(1, sizeof *staged);

	if (!staged)
		return NULL;
	staged->node.kind = TDFS_STAGED;
	staged->node.mode = mode & 0777;
	staged->node.uid = uid;
	staged->node.gid = gid;
	staged->writer = uid;
	staged->file = file;
	staged->fd = fd;
	if (node_add(in, &staged->node, name) != 0) {
		free(staged);
		return NULL;
	}
	tdfs_quota_add(in, staged);
	return staged;
}

/* ---- Their staged files ------------------------------------------------------------------- */

static void defer_close(struct tdfs_incoming *in, void *file, int fd)
{
	struct tdfs_deferred_close *deferred = malloc(sizeof *deferred);

	if (deferred) {
		*deferred = (struct tdfs_deferred_close){ .next = in->deferred_closes,
							  .file = file,
							  .fd = fd };
		in->deferred_closes = deferred;
	} else if (file) {
		in->backend.free(in->backend.context, file);
	} else {
		close(fd);
	}
}

void tdfs_staged_close_fd(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	int fd;

	if (!in->backend.detach || !staged->file || staged->fd < 0)
		return;
	fd = in->backend.detach(in->backend.context, staged->file);
	staged->fd = -1;
	if (fd >= 0)
		defer_close(in, NULL, fd);
}

/* Calls of the backend about a file without the lock: until end_using() the staged file keeps it.
 */
static void begin_using_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	staged->node.users++;
	staged->using_file++;
	tdfs_unlock(in);
}

static void end_using(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	tdfs_lock(in);
	staged->using_file--;
	staged->node.users--;
	pthread_cond_broadcast(&in->change);
}

int tdfs_staged_open_fd_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	void *file = staged->file;
	int fd, err;

	if (staged->fd >= 0)
		return 0;
	if (!file || !in->backend.open)
		return EIO;
	begin_using_unlocks(in, staged);
	err = in->backend.open(in->backend.context, file, &fd);
	end_using(in, staged);
	if (err == 0)
		staged->fd = fd;
	return err;
}

void tdfs_staged_keep_owner_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	struct tdfs_inode node = staged->node;
	void *file = staged->file;

	if (!file || !in->backend.own)
		return;
	begin_using_unlocks(in, staged);
	in->backend.own(in->backend.context, file, node.uid, node.gid, node.mode);
	end_using(in, staged);
}

void tdfs_staged_keep_reason_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	void *file = staged->file;
	char *reason;

	if (!file || !in->backend.reason || !staged->error_file || !staged->error_file->text ||
	    asprintf(&reason, "%d %.*s", staged->answer,
		     (int)strcspn(staged->error_file->text, "\n"), staged->error_file->text) < 0)
		return;
	begin_using_unlocks(in, staged);
	in->backend.reason(in->backend.context, file, reason);
	end_using(in, staged);
	free(reason);
}

void tdfs_staged_discard(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (!staged->file)
		return;
	defer_close(in, staged->file, -1);
	staged->file = NULL;
	staged->fd = -1;
}

void tdfs_inode_stat(const struct tdfs_inode *node, struct stat *st)
{
	memset(st, 0, sizeof *st);
	if (node->kind == TDFS_STAGED) {
		const struct tdfs_staged *staged = (const struct tdfs_staged *)node;

		st->st_size = (off_t)(staged->base + staged->size);
	} else {
		st->st_size = (off_t)((const struct tdfs_error_file *)node)->length;
	}
	st->st_ino = node->ino;
	st->st_mode = S_IFREG | node->mode;
	st->st_nlink = tdfs_inode_listed(node) || tdfs_inode_is_recent(node) ? 1 : 0;
	st->st_uid = node->uid;
	st->st_gid = node->gid;
	st->st_blksize = TDFS_BEST_WRITE;
	st->st_blocks = (st->st_size + 511) / 512;
	st->st_atim = node->atime;
	st->st_mtim = node->mtime;
	st->st_ctim = node->ctime;
}

char *tdfs_free_name(struct tdfs_incoming *in, const char *name)
{
	char *other = strdup(name);

	for (unsigned i = 2; other && tdfs_inode_by_name(in, other); i++) {
		free(other);
		if (asprintf(&other, "%.*s.%u", TDL_STAGED_NAME_MAX - 11, name, i) < 0)
			return NULL;
	}
	return other;
}

/* ---- Error files -------------------------------------------------------------------------- */

void tdfs_error_file_set(struct tdfs_incoming *in, struct tdfs_staged *staged, const char *text)
{
	struct tdfs_error_file *error_file, *before;
	char *name = NULL;

	tdfs_error_file_clear(in, staged);
	if (!staged->node.name)
		return;
	error_file = calloc(1, sizeof *error_file);
	if (!error_file || asprintf(&name, "%s" TDFS_ERROR_SUFFIX, staged->node.name) < 0) {
		free(error_file);
		return; /* the log has it */
	}
	if (strlen(name) > NAME_MAX) {
		free(error_file);
		free(name);
		return;
	}
	error_file->node.kind = TDFS_ERROR_FILE;
	/* It may quote what is in the staged file. */
	error_file->node.mode = staged->node.mode & 0444;
	error_file->node.uid = staged->node.uid;
	error_file->node.gid = staged->node.gid;
	if (asprintf(&error_file->text, "%s\n", text) < 0)
		error_file->text = NULL;
	error_file->length = error_file->text ? strlen(error_file->text) : 0;
	before = tdfs_error_file_of(tdfs_inode_by_name(in, name));
	if (before && before->removed)
		tdfs_error_file_end(in, before);
	if (tdfs_inode_by_name(in, name) || node_add(in, &error_file->node, name) != 0) {
		free(error_file->text);
		free(error_file);
	} else {
		error_file->staged = staged;
		staged->error_file = error_file;
	}
	free(name);
}

void tdfs_error_file_clear(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	struct tdfs_error_file *error_file = staged->error_file;

	if (!error_file)
		return;
	staged->error_file = NULL;
	error_file->staged = NULL;
	(void)tdfs_inode_set_name(in, &error_file->node, NULL);
	tdfs_inode_reap(in, &error_file->node);
}

void tdfs_error_file_unlink(struct tdfs_incoming *in, struct tdfs_staged *staged,
			    const struct tdfs_caller *caller)
{
	struct tdfs_error_file *error_file = staged->error_file;

	if (!error_file)
		return;
	staged->error_file = NULL;
	error_file->staged = NULL;
	error_file->removed = true;
	error_file->remover = caller->uid;
	error_file->remover_tid = caller->tid;
	error_file->until = in->backend.now(in->backend.context) + TDFS_RECENT_MS;
	error_file->previous_removed = in->last_removed;
	*(in->last_removed ? &in->last_removed->next_removed : &in->removed) = error_file;
	in->last_removed = error_file;
	if (++in->n_removed > TDFS_RECENT_MAX)
		tdfs_error_file_end(in, in->removed);
	in->backend.needs_expiry(in->backend.context);
}

void tdfs_error_file_end(struct tdfs_incoming *in, struct tdfs_error_file *error_file)
{
	*(error_file->previous_removed ? &error_file->previous_removed->next_removed
				       : &in->removed) = error_file->next_removed;
	*(error_file->next_removed ? &error_file->next_removed->previous_removed
				   : &in->last_removed) = error_file->previous_removed;
	error_file->removed = false;
	in->n_removed--;
	(void)tdfs_inode_set_name(in, &error_file->node, NULL);
	tdfs_inode_reap(in, &error_file->node);
}

bool tdfs_error_file_removable(const struct tdfs_error_file *error_file,
			       const struct tdfs_caller *caller)
{
	return !error_file->removed || error_file->remover == caller->uid;
}

/* ---- Lists -------------------------------------------------------------------------------- */

int tdfs_incoming_list(struct tdfs_incoming *in, uint64_t *offset, char *name, uint64_t *ino)
{
	int found = 0;

	tdfs_lock(in);
	for (size_t at = lower_place(in, in->first + *offset); at < in->n_places; at++) {
		const struct tdfs_inode *node = in->places[at].node;

		if (!node || !tdfs_inode_listed(node))
			continue;
		*offset = node->ino - in->first + 1;
		*ino = node->ino;
		snprintf(name, 256, "%s", node->name);
		found = 1;
		break;
	}
	tdfs_unlock(in);
	return found;
}

struct timespec tdfs_incoming_changed(struct tdfs_incoming *in)
{
	struct timespec changed;

	tdfs_lock(in);
	changed = in->changed;
	tdfs_unlock(in);
	return changed;
}

void tdfs_incoming_forget(struct tdfs_incoming *in, uint64_t ino, uint64_t count)
{
	struct tdfs_inode *node;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (node) {
		node->lookups -= count < node->lookups ? count : node->lookups;
		tdfs_inode_reap(in, node);
	}
	tdfs_unlock(in);
}

struct tdfs_incoming *tdfs_incoming_make(const struct tdfs_backend *backend, uint64_t first)
{
	struct tdfs_incoming *in = calloc(1, sizeof *in);

	if (!in)
		return NULL;
	in->backend = *backend;
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->change, NULL);
	in->first = in->next = first;
	in->changed = tdfs_time();
	return in;
}

void tdfs_incoming_unmake(struct tdfs_incoming *in)
{
	if (!in)
		return;
	tdfs_lock(in);
	while (in->handles) {
		struct tdfs_handle *handle = in->handles;

		in->handles = handle->next;
		tdfs_quota_closed(in, handle);
		free(handle);
	}
	while (in->oldest)
		node_free(in, in->oldest);
	tdfs_unlock(in);
	free(in->places);
	pthread_cond_destroy(&in->change);
	pthread_mutex_destroy(&in->lock);
	free(in);
}
