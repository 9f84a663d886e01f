/* SPDX-License-Identifier: MIT */
/*
 * Deleting what no version needs: data files that no commit ever named, temporary commits and
 * nameless staged files of dead writers. Deletes nothing it is not sure of: it goes by the log
 * alone, spares what is dated in the future, and keeps writers out while it deletes.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "commit/added.h"
#include "commit/staging.h"
#include "commit/tablelock.h"
#include "error.h"
#include "log/index.h"
#include "sys.h"
#include "util/search.h"

/* Writers wait no longer than this for a vacuum, and one deletion. */
#define BATCH_MS 50

struct names {
	char **items;
	size_t count, cap;
	bool failed;
};

/* A dead process's folder in _incoming, and what may go of it. */
struct folder {
	char *name;
	struct names files;
};

struct vacuum {
	tdl_table *table; /* with a history that was replayed */
	const tdl_vacuum_options *options;
	void (*found)(void *context, const char *path);
	void *context;
	int incoming; /* _incoming, or -1 */
	struct names parts, temps;
	struct names unmade;	/* folders that were to become _incoming */
	bool listed;		/* the log was */
	size_t protected_files; /* so many files of the history are not candidates any more */
	struct folder *folders;
	size_t folder_count, folder_cap;
	bool failed; /* no memory for a folder */
	int folder;  /* the one that is being listed */
	struct names
		moved; /* parts that are to become staged files again, if they are not published */
	tdl__added added;
};

static void free_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
}

static void clear(struct vacuum *vacuum)
{
	free_names(&vacuum->parts);
	free_names(&vacuum->temps);
	free_names(&vacuum->unmade);
	free_names(&vacuum->moved);
	tdl__added_clear(&vacuum->added);
	for (size_t i = 0; i < vacuum->folder_count; i++) {
		free_names(&vacuum->folders[i].files);
		free(vacuum->folders[i].name);
	}
	free(vacuum->folders);
	if (vacuum->incoming >= 0)
		close(vacuum->incoming);
	if (vacuum->table)
		tdl_table_free(vacuum->table);
}

static void keep(struct names *names, const char *name)
{
	char *copy = strdup(name);

	if (!copy || !tdl__reserve(&names->items, &names->cap, names->count + 1, sizeof copy)) {
		free(copy);
		names->failed = true;
		return;
	}
	names->items[names->count++] = copy;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct names *names)
{
	/* qsort() wants an array even for none. */
	if (names->count > 0)
		qsort(names->items, names->count, sizeof(char *), by_name);
}

/*
 * Whether a file may go by what it is and by its age. One that went away meanwhile may not, and
 * whatever age was asked for, nor may one that is dated in the future: so a writer dates what it
 * is about to publish, and not every file system shows us its lock.
 */
static bool may_go(const struct vacuum *vacuum, int dir, const char *name)
{
	struct stat st;
	int64_t now, mtime;

	if (tdl__sys_stat(dir, name, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	now = tdl__now_ms();
	mtime = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	return mtime <= now && now - mtime >= vacuum->options->older_than;
}

/* ---- Candidates ---------------------------------------------------------------------------- */

static bool see_part(void *context, const char *name)
{
	struct vacuum *vacuum = context;

	if (!tdl__file_key_of(name).named)
		keep(&vacuum->parts, name);
	else if (tdl__incoming_is_temp(name))
		keep(&vacuum->unmade, name);
	return true;
}

static bool see_temp(void *context, const char *name)
{
	struct vacuum *vacuum = context;

	if ((tdl__log_is_temp(name) || tdl__index_is_temp(name)) &&
	    may_go(vacuum, vacuum->table->log_dir, name))
		keep(&vacuum->temps, name);
	return true;
}

static bool collect_staged(void *context, const char *name)
{
	struct vacuum *vacuum = context;
	const char *staged_name;

	if (tdl__staged_parse(name, &staged_name) && *staged_name == '\0' &&
	    may_go(vacuum, vacuum->folder, name))
		keep(&vacuum->folders[vacuum->folder_count - 1].files, name);
	return true;
}

/* A part that its daemon had no time to publish is a staged file, not an orphan. */
static bool see_mark(void *context, const char *name)
{
	struct vacuum *vacuum = context;
	char part[64];
	const char *staged_name;

	if (tdl__moved_parse(name, &staged_name)) {
		snprintf(part, sizeof part, "part-%.32s.jsonl", name);
		keep(&vacuum->moved, part);
	}
	return true;
}

static void see_marks(struct vacuum *vacuum, const char *name)
{
	int dir CLEANUP(tdl__close_at) = -1;

	if (tdl__folder_parse(name) &&
	    tdl__sys_open(vacuum->incoming, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &dir) ==
		    0)
		tdl__sys_list(dir, see_mark, vacuum);
}

static bool collect_folder(void *context, const char *name)
{
	struct vacuum *vacuum = context;
	struct tdl__dead dead CLEANUP(tdl__dead_close) = TDL__DEAD_NONE;
	struct folder folder = { 0 };

	see_marks(vacuum, name);
	if (tdl__folder_trylock(vacuum->incoming, name, &dead) != TDL__FOLDER_DEAD ||
	    !tdl__folder_is_ours(vacuum->table, dead.dir))
		return true;
	folder.name = strdup(name);
	if (!folder.name || !tdl__reserve(&vacuum->folders, &vacuum->folder_cap,
					  vacuum->folder_count + 1, sizeof folder)) {
		free(folder.name);
		vacuum->failed = true;
		return false;
	}
	vacuum->folders[vacuum->folder_count++] = folder;
	vacuum->folder = dead.dir;
	tdl__sys_list(dead.dir, collect_staged, vacuum);
	sort(&vacuum->folders[vacuum->folder_count - 1].files);
	return true;
}

static int by_folder(const void *a, const void *b)
{
	return strcmp(((const struct folder *)a)->name, ((const struct folder *)b)->name);
}

/*
 * Takes out of the sorted candidates every file that any commit ever added, of the commits that
 * have come since the last time; also by its name alone, since a folder in a path may lead back
 * here, for a reader that follows links.
 */
static void protect_added(struct vacuum *vacuum)
{
	tdl__history *history = &vacuum->table->history;
	struct names *parts = &vacuum->parts;
	size_t kept = 0;

	pthread_rwlock_rdlock(&history->lock);
	for (; vacuum->protected_files < history->files.count; vacuum->protected_files++) {
		tdl__file_key key = tdl__filelist_key(&history->files, vacuum->protected_files);
		char path[TDL__PATH_MAX + 1];
		const char *slash, *name;
		size_t low;

		if (parts->count == 0)
			continue;
		tdl__file_key_path(&key, path);
		slash = strrchr(path, '/');
		name = slash ? slash + 1 : path;
		if (*name != 'p')
			continue;
		/* What is protected already has lost its first byte, which all candidates share. */
		low = tdl__lower_bound(parts->count, i, strcmp(parts->items[i] + 1, name + 1) < 0);
		if (low < parts->count && strcmp(parts->items[low] + 1, name + 1) == 0)
			parts->items[low][0] = '+';
	}
	pthread_rwlock_unlock(&history->lock);
	for (size_t i = 0; i < parts->count; i++) {
		if (parts->items[i][0] == '+')
			free(parts->items[i]);
		else
			parts->items[kept++] = parts->items[i];
	}
	parts->count = kept;
}

/* What the log says now. Behind damage nobody knows what a version needs. */
static int refresh_log(struct vacuum *vacuum, tdl_error *error)
{
	tdl__history *history = &vacuum->table->history;
	tdl_version_info info;
	int r;

	/* The whole log is listed once; while writers wait, it is looked for the next commits. */
	if (!vacuum->listed) {
		r = tdl__history_refresh_listed(history, error);
	} else {
		r = tdl__history_refresh(history, error);
		if (r == 0)
			r = tdl__history_find_gap(history, error);
	}
	vacuum->listed = true;
	if (r == 0)
		r = tdl__history_get(history, TDL_LATEST, &(tdl__version){ 0 }, &info, error);
	if (r == 0)
		protect_added(vacuum);
	return r;
}

static bool is_moved(const struct vacuum *vacuum, const char *part)
{
	return vacuum->moved.count > 0 &&
	       bsearch(&part, vacuum->moved.items, vacuum->moved.count, sizeof part, by_name);
}

static int collect_orphans(struct vacuum *vacuum, tdl_error *error)
{
	tdl_table *table = vacuum->table;
	struct names *parts = &vacuum->parts;
	size_t kept = 0;
	int r, err = tdl__sys_list(table->dir, see_part, vacuum);

	if (err == 0)
		err = tdl__sys_list(table->log_dir, see_temp, vacuum);
	if (err == 0 &&
	    tdl__sys_open(table->dir, TDL__INCOMING_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
			  &vacuum->incoming) == 0)
		err = tdl__sys_list(vacuum->incoming, collect_folder, vacuum);
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot list %s", table->path);
	sort(parts);
	sort(&vacuum->temps);
	sort(&vacuum->moved);
	if (vacuum->folder_count > 0)
		qsort(vacuum->folders, vacuum->folder_count, sizeof *vacuum->folders, by_folder);
	for (size_t i = 0; i < vacuum->folder_count; i++)
		vacuum->failed |= vacuum->folders[i].files.failed;
	if (parts->failed || vacuum->temps.failed || vacuum->moved.failed || vacuum->failed)
		return tdl__fail_nomem(error);
	/* The candidates first, the log after: what was committed in between is seen. */
	r = refresh_log(vacuum, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < parts->count; i++) {
		if (may_go(vacuum, table->dir, parts->items[i]) &&
		    !is_moved(vacuum, parts->items[i]))
			parts->items[kept++] = parts->items[i];
		else
			free(parts->items[i]);
	}
	parts->count = kept;
	return 0;
}

/* ---- Deleting ------------------------------------------------------------------------------ */

/* Deletes and tells of a file; `where` is what its path begins with. */
static int remove_one(const struct vacuum *vacuum, int dir, const char *where, const char *name,
		      tdl_error *error)
{
	char path[512];
	int err = 0;

	snprintf(path, sizeof path, "%s%s", where, name);
	/* Once more: it may have been taken up again since it was seen. */
	if (!vacuum->options->dry_run)
		err = may_go(vacuum, dir, name) ? tdl__sys_unlink(dir, name) : ENOENT;
	if (err == ENOENT)
		return 0;
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot delete %s/%s", vacuum->table->path,
				       path);
	vacuum->found(vacuum->context, path);
	return 0;
}

static int64_t steady_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int lock_writers_out(const struct vacuum *vacuum, struct tdl__table_lock *lock,
			    tdl_error *error)
{
	const char *path = vacuum->table->path;
	int r = tdl__table_lock_alone(vacuum->table, lock, error);

	if (r < 0 || lock->file >= 0 || vacuum->options->older_than > 0)
		return r;
	if (lock->why == EACCES || lock->why == EPERM)
		return tdl__fail_errno(error, lock->why,
				       "cannot lock %s/" TDL__LOG_DIR "/" TDL__LOCK_NAME
				       ", so a writer at work cannot be seen: name an age with "
				       "--older-than",
				       path);
	return tdl__fail(error, TDL_ERR_UNSUPPORTED,
			 "the file system of %s has no flock, so a writer at work cannot be seen: "
			 "name an age with --older-than",
			 path);
}

/* Parts and temporary commits, some at a time: between them, writers have their turn. */
static int sweep(struct vacuum *vacuum, struct names *names, int dir, const char *where,
		 tdl_error *error)
{
	const bool dry = vacuum->options->dry_run;
	size_t at = 0;
	int r = 0;

	while (at < names->count && r == 0) {
		struct tdl__table_lock lock CLEANUP(tdl__table_unlock) = TDL__TABLE_UNLOCKED;
		int64_t end;

		if (!dry) {
			/* What is done already must not be told again. */
			for (size_t i = 0; i < at; i++)
				free(names->items[i]);
			names->count -= at;
			memmove(names->items, names->items + at, names->count * sizeof(char *));
			at = 0;
			r = lock_writers_out(vacuum, &lock, error);
			if (r == 0)
				r = refresh_log(vacuum, error);
		}
		end = steady_ms() + BATCH_MS;
		while (r == 0 && at < names->count && (at == 0 || dry || steady_ms() < end))
			r = remove_one(vacuum, dir, where, names->items[at++], error);
	}
	return r;
}

/* By the folder that is locked and looked at, whatever has its name by now. */
static int sweep_folder(struct vacuum *vacuum, const struct folder *folder, tdl_error *error)
{
	struct tdl__dead dead CLEANUP(tdl__dead_close) = TDL__DEAD_NONE;
	char where[160];
	int r = 0;

	if (tdl__folder_trylock(vacuum->incoming, folder->name, &dead) != TDL__FOLDER_DEAD ||
	    !tdl__folder_is_ours(vacuum->table, dead.dir))
		return 0;
	snprintf(where, sizeof where, TDL__INCOMING_DIR "/%s/", folder->name);
	for (size_t i = 0; i < folder->files.count && r == 0; i++) {
		const char *name = folder->files.items[i];
		enum tdl__fate fate;

		/* What is all that is left of a data file the next mount puts back. */
		r = tdl__added_fate(&vacuum->added, name, &fate, error);
		if (r == 0 && fate != TDL__FATE_LOST)
			r = remove_one(vacuum, dead.dir, where, name, error);
	}
	if (r == 0 && !vacuum->options->dry_run)
		tdl__dead_remove(vacuum->incoming, folder->name, &dead);
	return r;
}

int tdl_table_vacuum(tdl_table *table, const tdl_vacuum_options *options,
		     void (*found)(void *context, const char *path), void *context,
		     tdl_error *error)
{
	tdl_vacuum_options own;
	struct vacuum vacuum CLEANUP(
		clear) = { .options = &own, .found = found, .context = context, .incoming = -1 };
	int r = TDL__OPTIONS_TAKE(&own, dry_run, options, error);

	if (r < 0)
		return r;
	if ((table->flags & TDL_OPEN_READ_ONLY) != 0 && !own.dry_run)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	if (own.older_than < 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "an age cannot be negative");
	r = tdl__table_replayed(table, &vacuum.table, error);
	vacuum.added.table = vacuum.table;
	if (r == 0)
		r = collect_orphans(&vacuum, error);
	if (r == 0)
		r = sweep(&vacuum, &vacuum.parts, vacuum.table->dir, "", error);
	if (r == 0)
		r = sweep(&vacuum, &vacuum.temps, vacuum.table->log_dir, TDL__LOG_DIR "/", error);
	for (size_t i = 0; i < vacuum.folder_count && r == 0; i++)
		r = sweep_folder(&vacuum, &vacuum.folders[i], error);
	/* They are empty, and one that is still needed is made again. */
	for (size_t i = 0; i < vacuum.unmade.count && r == 0 && !options->dry_run; i++)
		tdl__sys_rmdir(vacuum.table->dir, vacuum.unmade.items[i]);
	return r;
}
