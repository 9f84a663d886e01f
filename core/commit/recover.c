/* SPDX-License-Identifier: MIT */
/*
 * What the dead left under _incoming/: which of it may be taken over, and taking it over. How
 * folders are made and locked is staging.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "commit/added.h"
#include "error.h"
#include "sys.h"
#include "util/escape.h"

struct recovery {
	tdl_staging *staging; /* where the files go; borrowed */
	void (*recovered)(void *context, tdl_staged *file, const tdl_left *left);
	void *context;	  /* of recovered() */
	unsigned busy;	  /* folders whose processes live */
	tdl__added added; /* which parts some commit names */
	int from;	  /* the dead folder that is being emptied */
	uid_t owner;	  /* its owner */
	char **names;	  /* what is in it; owned */
	size_t count, cap;
	bool by_hand; /* at a user's request: the folder may be another user's */
	tdl_error *error;
	int result; /* the first failure, or 0 */
};

static int open_leftover(const struct recovery *recovery, const char *name, int *fd,
			 struct stat *st)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK;
	int got CLEANUP(tdl__close_at) = -1;
	int err = tdl__sys_open(recovery->from, name, O_RDWR | flags, 0, &got);

	/* It was about to be published, and readable to all, writable to none already. */
	if (err == EACCES && tdl__sys_open(recovery->from, name, O_RDONLY | flags, 0, &got) == 0 &&
	    tdl__sys_fstat(got, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == recovery->owner &&
	    tdl__sys_chmod(got, 0600) == 0) {
		close(tdl__steal_fd(&got));
		err = tdl__sys_open(recovery->from, name, O_RDWR | flags, 0, &got);
	}
	if (err == 0)
		err = tdl__sys_fstat(got, st);
	if (err == 0)
		*fd = tdl__steal_fd(&got);
	return err;
}

/* Takes one named file over into our folder and opens it. */
static int take_over(struct recovery *recovery, const char *name, const char *staged_name)
{
	tdl_staging *staging = recovery->staging;
	int fd CLEANUP(tdl__close_at) = -1;
	tdl_staged *file;
	tdl_left left;
	struct stat st;
	int err = open_leftover(recovery, name, &fd, &st);

	/* Whatever else lies there is not ours to touch. */
	if (err == ENOENT || err == ELOOP || err == ENXIO || err == EISDIR ||
	    (err == 0 && (!S_ISREG(st.st_mode) || st.st_uid != recovery->owner)))
		return 0;
	if (err == 0)
		err = tdl__sys_rename(recovery->from, name, staging->dir, name, false);
	if (err == EINVAL || err == ENOSYS)
		err = tdl__sys_rename(recovery->from, name, staging->dir, name, true);
	if (err != 0)
		return tdl__cannot_stage(staging->table, err, recovery->error);
	file = tdl__staged_new(staging, strdup(name));
	if (!file)
		return tdl__fail_nomem(recovery->error);
	file->fd = tdl__steal_fd(&fd);
	if ((st.st_mode & 07777) != 0600)
		tdl__sys_chmod(file->fd, 0600);
	/* Root takes up again only what is its folder's owner's. */
	if (recovery->by_hand && geteuid() == 0)
		tdl__table_set_owner(staging->table, file->fd, 0600, NULL);
	memcpy(file->hex, name, TDL__HEX_MAX - 1);
	left.name = staged_name;
	left.mtime = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	tdl__about_take(file, recovery->from, &st, &left);
	recovery->recovered(recovery->context, file, &left);
	free((char *)left.reason);
	return 0;
}

/* Deletes a name that nobody needs any more. */
static int discard(struct recovery *recovery, const char *name)
{
	tdl__sys_unlink(recovery->from, name);
	return 0;
}

static int recover_file(struct recovery *recovery, const char *name, const char *staged_name)
{
	enum tdl__fate fate;
	bool mended = false;
	int r = tdl__added_fate(&recovery->added, name, &fate, recovery->error);

	if (r < 0)
		return r;
	/* Published ones are the table's already. Where the data file is gone, this may be it. */
	if (fate == TDL__FATE_LOST) {
		r = tdl__added_mend(&recovery->added, recovery->from, name, &mended,
				    recovery->error);
		if (r < 0)
			return r;
	}
	if (fate == TDL__FATE_PUBLISHED || mended)
		return discard(recovery, name);
	/* Nameless ones are of no use to anyone, unless they are all that is left. */
	if (*staged_name == '\0')
		return fate == TDL__FATE_NONE ? discard(recovery, name) : 0;
	return take_over(recovery, name, staged_name);
}

/* A staged file that was given its data file's name, and perhaps not published: it comes back. */
static int recover_moved(struct recovery *recovery, const char *mark, const char *staged_name)
{
	tdl_table *table = recovery->staging->table;
	char name[NAME_MAX + 1], part[64];
	enum tdl__fate fate;
	int err, r = tdl__added_fate(&recovery->added, mark, &fate, recovery->error);

	if (r < 0)
		return r;
	if (fate != TDL__FATE_NONE)
		return discard(recovery, mark);
	snprintf(name, sizeof name, "%s", mark);
	name[TDL__MOVED_AT] = '-';
	snprintf(part, sizeof part, "part-%.32s.jsonl", mark);
	err = tdl__sys_rename(table->dir, part, recovery->from, name, false);
	/* It had not been moved yet, or was moved back. */
	if (err == ENOENT || err == EEXIST)
		return discard(recovery, mark);
	if (err != 0)
		return tdl__cannot_stage(table, err, recovery->error);
	discard(recovery, mark);
	return recover_file(recovery, name, staged_name);
}

static bool collect_name(void *context, const char *name)
{
	struct recovery *recovery = context;
	const char *staged_name;
	char *copy;

	if (!tdl__staged_parse(name, &staged_name) && !tdl__moved_parse(name, &staged_name))
		return true;
	copy = strdup(name);
	if (!copy ||
	    !tdl__reserve(&recovery->names, &recovery->cap, recovery->count + 1, sizeof copy)) {
		free(copy);
		recovery->result = tdl__fail_nomem(recovery->error);
		return false;
	}
	recovery->names[recovery->count++] = copy;
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In order of names: what was made of its rows comes before the staged file itself. */
static void recover_files(struct recovery *recovery)
{
	const char *staged_name;

	if (recovery->count > 0)
		qsort(recovery->names, recovery->count, sizeof(char *), by_name);
	for (size_t i = 0; i < recovery->count && recovery->result == 0; i++) {
		const char *name = recovery->names[i];

		if (tdl__moved_parse(name, &staged_name))
			recovery->result = recover_moved(recovery, name, staged_name);
		else if (tdl__staged_parse(name, &staged_name))
			recovery->result = recover_file(recovery, name, staged_name);
	}
	for (size_t i = 0; i < recovery->count; i++)
		free(recovery->names[i]);
	recovery->count = 0;
}

/* About a file that has gone another way. */
static bool remove_about(void *context, const char *name)
{
	const struct recovery *recovery = context;

	if (tdl__about_parse(name))
		tdl__sys_unlink(recovery->from, name);
	return true;
}

/* All that is in a folder whose locks are held. */
static void take_folder(struct recovery *recovery, const char *name, const struct tdl__dead *dead)
{
	struct stat st;
	int err = tdl__sys_fstat(dead->dir, &st);

	recovery->from = dead->dir;
	recovery->owner = st.st_uid;
	if (err == 0)
		err = tdl__sys_list(dead->dir, collect_name, recovery);
	recover_files(recovery);
	if (err == 0 && recovery->result == 0)
		(void)tdl__sys_list(dead->dir, remove_about, recovery);
	if (err != 0 && recovery->result == 0)
		recovery->result =
			tdl__cannot_stage(recovery->staging->table, err, recovery->error);
	tdl__dead_remove(recovery->staging->incoming, name, dead);
}

static bool recover_folder(void *context, const char *name)
{
	struct recovery *recovery = context;
	struct tdl__dead dead CLEANUP(tdl__dead_close) = TDL__DEAD_NONE;

	if (strcmp(name, recovery->staging->name) == 0)
		return true;
	switch (tdl__folder_trylock(recovery->staging->incoming, name, &dead)) {
	case TDL__FOLDER_BUSY:
		recovery->busy++;
		return true;
	case TDL__FOLDER_FOREIGN:
		return true;
	case TDL__FOLDER_DEAD:
		break;
	}
	if (!tdl__folder_is_ours(recovery->staging->table, dead.dir))
		return true;
	take_folder(recovery, name, &dead);
	return recovery->result == 0;
}

int tdl_staging_recover(tdl_staging *staging,
			void (*recovered)(void *context, tdl_staged *file, const tdl_left *left),
			void *context, unsigned *busy, tdl_error *error)
{
	struct recovery recovery = {
		.staging = staging,
		.recovered = recovered,
		.context = context,
		.added = { .table = staging->table },
		.error = error,
	};
	int err, r = tdl__history_refresh(&staging->table->history, error);

	/* Behind damage nobody knows what was published: nothing is touched. */
	if (r < 0)
		return r;
	err = tdl__sys_list(staging->incoming, recover_folder, &recovery);
	tdl__added_clear(&recovery.added);
	free(recovery.names);
	if (recovery.result < 0)
		return recovery.result;
	if (err != 0)
		return tdl__cannot_stage(staging->table, err, error);
	if (recovery.result == 0 && busy)
		*busy = recovery.busy;
	return recovery.result;
}

/* ---- By hand ------------------------------------------------------------------------------- */

struct waiting {
	tdl_table *table;
	void (*found)(void *context, const tdl_waiting *waiting);
	void *context;
	const char *only; /* folder, or NULL */
	int incoming;
	int dir; /* the folder that is being listed */
	tdl_waiting told;
	int result;
};

static void tell_waiting(struct waiting *waiting, const char *staged_name)
{
	char folder[4 * NAME_MAX + 1], name[4 * NAME_MAX + 1];

	waiting->told.folder = tdl__printable(folder, sizeof folder, waiting->told.folder,
					      strlen(waiting->told.folder));
	waiting->told.name =
		staged_name ? tdl__printable(name, sizeof name, staged_name, strlen(staged_name))
			    : NULL;
	waiting->found(waiting->context, &waiting->told);
}

static bool tell_file(void *context, const char *name)
{
	struct waiting *waiting = context;
	const char *staged_name, *folder = waiting->told.folder;
	char reason[TDL_MESSAGE_MAX];
	struct stat st;

	if ((!tdl__staged_parse(name, &staged_name) && !tdl__moved_parse(name, &staged_name)) ||
	    *staged_name == '\0' || tdl__sys_stat(waiting->dir, name, &st) != 0)
		return true;
	waiting->told.size = (uint64_t)st.st_size;
	waiting->told.mtime = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	waiting->told.reason = tdl__about_reason(waiting->dir, name, &st, reason) ? reason : NULL;
	tell_waiting(waiting, staged_name);
	waiting->told.folder = folder;
	return true;
}

static bool tell_folder(void *context, const char *name)
{
	struct waiting *waiting = context;
	struct tdl__dead dead CLEANUP(tdl__dead_close) = TDL__DEAD_NONE,
			      by_hand CLEANUP(tdl__dead_close) = TDL__DEAD_NONE;
	int dir CLEANUP(tdl__close_at) = -1;
	enum tdl__folder folder;
	struct stat st;
	int err;

	if (!tdl__folder_parse(name) || (waiting->only && strcmp(name, waiting->only) != 0) ||
	    tdl__sys_stat(waiting->incoming, name, &st) != 0 || !S_ISDIR(st.st_mode))
		return true;
	folder = tdl__folder_trylock(waiting->incoming, name, &dead);
	waiting->told = (tdl_waiting){ .folder = name, .uid = st.st_uid, .mtime = -1 };
	waiting->told.state = TDL_WAITING_UNKNOWN;
	if (folder == TDL__FOLDER_DEAD && tdl__folder_is_ours(waiting->table, dead.dir))
		waiting->told.state = TDL_WAITING_MOUNT;
	else if (folder != TDL__FOLDER_DEAD &&
		 tdl__folder_lock(waiting->incoming, name, &by_hand) == TDL__FOLDER_BUSY)
		waiting->told.state = TDL_WAITING_LIVES;
	err = tdl__sys_open(waiting->incoming, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &dir);
	waiting->dir = dir;
	if (err == 0)
		err = tdl__sys_list(dir, tell_file, waiting);
	/* Nobody but its user knows what is in it. */
	if (err == EACCES)
		tell_waiting(waiting, NULL);
	return true;
}

int tdl_table_waiting(tdl_table *table, const char *folder,
		      void (*found)(void *context, const tdl_waiting *waiting), void *context,
		      tdl_error *error)
{
	int incoming CLEANUP(tdl__close_at) = -1;
	struct waiting waiting = {
		.table = table, .found = found, .context = context, .only = folder
	};
	int err = tdl__sys_open(table->dir, TDL__INCOMING_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
				0, &incoming);

	if (err == ENOENT)
		return 0;
	waiting.incoming = incoming;
	if (err == 0)
		err = tdl__sys_list(incoming, tell_folder, &waiting);
	return err == 0 ? 0
			: tdl__fail_errno(error, err, "cannot list %s/" TDL__INCOMING_DIR,
					  table->path);
}

/* It stays on the disk, in this process's folder, for a mount to find. */
static void leave(void *context, tdl_staged *file, const tdl_left *left)
{
	unsigned *count = context;

	(*count)++;
	tdl_staged_free(file);
}

/* Refuses what is not a folder that may be taken over; else its locks are held. */
static int lock_named(tdl_table *table, int incoming, const char *folder, struct tdl__dead *dead,
		      tdl_error *error)
{
	char shown[4 * NAME_MAX + 1];
	struct stat st;
	int err;

	tdl__printable(shown, sizeof shown, folder, strnlen(folder, NAME_MAX));
	if (!tdl__folder_parse(folder) || strchr(folder, '/'))
		return tdl__fail(error, TDL_ERR_NOT_FOUND,
				 "no folder of %s/" TDL__INCOMING_DIR ": %s", table->path, shown);
	switch (tdl__folder_lock(incoming, folder, dead)) {
	case TDL__FOLDER_BUSY:
		return tdl__fail(error, TDL_ERR_CONFLICT,
				 "%s/" TDL__INCOMING_DIR
				 "/%s is locked: the process that stages files there lives",
				 table->path, shown);
	case TDL__FOLDER_FOREIGN:
		err = tdl__sys_stat(incoming, folder, &st);
		return tdl__fail_errno(error, err != 0 ? err : EACCES,
				       "cannot take over %s/" TDL__INCOMING_DIR "/%s", table->path,
				       shown);
	case TDL__FOLDER_DEAD:
		break;
	}
	err = tdl__sys_fstat(dead->dir, &st);
	if (err != 0 || (st.st_mode & 022) != 0 || (st.st_uid != geteuid() && geteuid() != 0))
		return tdl__fail(error, TDL_ERR_MISUSE,
				 "%s/" TDL__INCOMING_DIR
				 "/%s is not this user's alone: its user or root takes it over",
				 table->path, shown);
	return 0;
}

int tdl_table_recover(tdl_table *table, const char *folder, unsigned *count, tdl_error *error)
{
	struct tdl__dead dead CLEANUP(tdl__dead_close) = TDL__DEAD_NONE;
	struct recovery recovery = {
		.recovered = leave,
		.context = count,
		.added = { .table = table },
		.by_hand = true,
		.error = error,
	};
	int r = tdl__history_refresh(&table->history, error);

	*count = 0;
	/* Behind damage nobody knows what was published: nothing is touched. */
	if (r == 0)
		r = tdl_staging_open(table, &recovery.staging, error);
	if (r < 0)
		return r;
	r = lock_named(table, recovery.staging->incoming, folder, &dead, error);
	if (r == 0) {
		take_folder(&recovery, folder, &dead);
		r = recovery.result;
	}
	tdl__added_clear(&recovery.added);
	free(recovery.names);
	tdl_staging_free(recovery.staging);
	return r;
}
