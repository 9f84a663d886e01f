/* SPDX-License-Identifier: MIT */
/*
 * Deleting what no version needs: data files that no commit ever named, temporary commits and
 * nameless staged files of dead writers. Deletes nothing it is not sure of.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "error.h"
#include "index.h"
#include "staging.h"
#include "sys.h"

/* Candidates of one kind, by their path relative to the table. */
struct paths {
	char **items;
	size_t count, cap;
	bool failed;
};

struct vacuum {
	tdl_table *table;
	const tdl_vacuum_options *options;
	int64_t now;
	int incoming;	    /* _incoming, or -1 */
	int folder;	    /* a dead folder in it, while that is listed */
	const char *prefix; /* before a name that is listed */
	struct paths parts, temps, staged;
	struct paths folders; /* dead ones, by name */
};

static void free_paths(struct paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->items[i]);
	free(paths->items);
}

static void keep(struct vacuum *vacuum, struct paths *paths, const char *name)
{
	char *path;

	if (asprintf(&path, "%s%s", vacuum->prefix, name) < 0) {
		paths->failed = true;
	} else if (!tdl__reserve(&paths->items, &paths->cap, paths->count + 1, sizeof path)) {
		free(path);
		paths->failed = true;
	} else {
		paths->items[paths->count++] = path;
	}
}

/* Whether a regular file is old enough. One that went away meanwhile is not. */
static bool is_old(const struct vacuum *vacuum, int dir, const char *name)
{
	struct stat st;
	int64_t mtime;

	if (tdl__sys_stat(dir, name, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	mtime = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	return vacuum->options->older_than == 0 ||
	       vacuum->now - mtime >= vacuum->options->older_than;
}

static bool see_part(void *context, const char *name)
{
	struct vacuum *vacuum = context;
	tdl__file_key key = tdl__file_key_of(name);

	if (key.odd == NULL && is_old(vacuum, vacuum->table->dir, name))
		keep(vacuum, &vacuum->parts, name);
	return true;
}

static bool see_temp(void *context, const char *name)
{
	struct vacuum *vacuum = context;

	if ((tdl__log_is_temp(name) || tdl__index_is_temp(name)) &&
	    is_old(vacuum, vacuum->table->log_dir, name))
		keep(vacuum, &vacuum->temps, name);
	return true;
}

static bool see_staged(void *context, const char *name)
{
	struct vacuum *vacuum = context;
	const char *dropped;

	if (tdl__staged_parse(name, &dropped) && *dropped == '\0' &&
	    is_old(vacuum, vacuum->folder, name))
		keep(vacuum, &vacuum->staged, name);
	return true;
}

static bool see_folder(void *context, const char *name)
{
	struct vacuum *vacuum = context;
	_cleanup_dead_ struct tdl__dead dead = TDL__DEAD_NONE;
	char prefix[160];

	if (tdl__folder_look(vacuum->incoming, name, &dead) != TDL__FOLDER_DEAD)
		return true;
	snprintf(prefix, sizeof prefix, TDL__INCOMING_DIR "/%s/", name);
	vacuum->prefix = prefix;
	vacuum->folder = dead.dir;
	tdl__sys_list(dead.dir, see_staged, vacuum);
	vacuum->prefix = "";
	keep(vacuum, &vacuum->folders, name);
	return true;
}

/* Takes out of the sorted candidates every file that any commit ever added; also by its name
 * alone, since a folder in a path may lead back here, for a reader that follows links. */
static void spare_added(struct vacuum *vacuum)
{
	tdl__history *history = &vacuum->table->history;
	struct paths *parts = &vacuum->parts;
	size_t kept = 0;

	pthread_rwlock_rdlock(&history->lock);
	for (size_t i = 0; i < history->files.count && parts->count > 0; i++) {
		tdl__file_key key = tdl__filelist_key(&history->files, i);
		char path[TDL__PATH_MAX + 1];
		const char *slash, *name;
		size_t low = 0, high = parts->count;

		tdl__file_key_path(&key, path);
		slash = strrchr(path, '/');
		name = slash != NULL ? slash + 1 : path;
		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (strcmp(parts->items[middle] + 1, name) < 0)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < parts->count && strcmp(parts->items[low] + 1, name) == 0)
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

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct paths *paths)
{
	/* qsort() wants an array even for none. */
	if (paths->count > 0)
		qsort(paths->items, paths->count, sizeof(char *), by_name);
}

/* Deletes and names the files of one kind; `skip` bytes of a path are not part of it. */
static int sweep(struct vacuum *vacuum, struct paths *paths, size_t skip,
		 void (*found)(void *context, const char *path), void *context, tdl_error *error)
{
	for (size_t i = 0; i < paths->count; i++) {
		const char *path = paths->items[i] + skip;
		int why = vacuum->options->dry_run ? 0 : tdl__sys_unlink(vacuum->table->dir, path);

		if (why == ENOENT)
			continue;
		if (why != 0)
			return tdl__fail_errno(error, why, "cannot delete %s/%s",
					       vacuum->table->path, path);
		found(context, path);
	}
	return 0;
}

/* The dead folders that are empty now. One that is being made looks dead until it is locked: so
 * each is locked while it goes. */
static void remove_folders(const struct vacuum *vacuum)
{
	for (size_t i = 0; i < vacuum->folders.count && !vacuum->options->dry_run; i++) {
		const char *name = vacuum->folders.items[i];
		_cleanup_dead_ struct tdl__dead dead = TDL__DEAD_NONE;

		if (tdl__folder_look(vacuum->incoming, name, &dead) == TDL__FOLDER_DEAD)
			tdl__dead_remove(vacuum->incoming, name, &dead);
	}
}

static int look(struct vacuum *vacuum, tdl_error *error)
{
	tdl_table *table = vacuum->table;
	int why;

	/* A candidate begins with a mark, so that those to spare are marked in place. */
	vacuum->prefix = "-";
	why = tdl__sys_list(table->dir, see_part, vacuum);
	if (why == 0) {
		vacuum->prefix = TDL__LOG_DIR "/";
		why = tdl__sys_list(table->log_dir, see_temp, vacuum);
	}
	if (why == 0 &&
	    tdl__sys_open(table->dir, TDL__INCOMING_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
			  &vacuum->incoming) == 0)
		why = tdl__sys_list(vacuum->incoming, see_folder, vacuum);
	if (why != 0)
		return tdl__fail_errno(error, why, "cannot list %s", table->path);
	if (vacuum->parts.failed || vacuum->temps.failed || vacuum->staged.failed ||
	    vacuum->folders.failed)
		return tdl__fail_nomem(error);
	sort(&vacuum->parts);
	sort(&vacuum->temps);
	sort(&vacuum->staged);
	return 0;
}

/* Keeps our writers from linking a part between the look at the log and the deletion. */
static int lock_writers_out(const struct vacuum *vacuum, int *fd, tdl_error *error)
{
	const char *path = vacuum->table->path;
	int why = tdl__sys_open(vacuum->table->dir, ".", O_RDONLY | O_DIRECTORY, 0, fd);

	if (why == 0)
		why = tdl__sys_lock(*fd, LOCK_EX);
	if (why == 0 || vacuum->options->dry_run)
		return 0;
	if (why == EOPNOTSUPP || why == ENOSYS || why == EINVAL || why == ENOLCK || why == EBADF) {
		if (vacuum->options->older_than > 0)
			return 0;
		return tdl__fail(error, TDL_ERR_UNSUPPORTED,
				 "the file system of %s has no flock, so a writer at work cannot "
				 "be seen: name an age with --older-than",
				 path);
	}
	return tdl__fail_errno(error, why, "cannot lock %s", path);
}

int tdl_table_vacuum(tdl_table *table, const tdl_vacuum_options *options,
		     void (*found)(void *context, const char *path), void *context,
		     tdl_error *error)
{
	struct vacuum vacuum = {
		.table = table, .options = options, .now = tdl__now_ms(), .incoming = -1
	};
	_cleanup_close_ int lock = -1;
	int r;

	if ((table->flags & TDL_OPEN_READ_ONLY) != 0 && !options->dry_run)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	if (options->older_than < 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "an age cannot be negative");
	r = lock_writers_out(&vacuum, &lock, error);
	/* The candidates first, the log after: what was committed in between is seen. */
	if (r == 0)
		r = look(&vacuum, error);
	if (r == 0)
		r = tdl__history_refresh(&table->history, error);
	if (r == 0)
		r = tdl__history_find_gap(&table->history, error);
	if (r == 0) {
		spare_added(&vacuum);
		r = sweep(&vacuum, &vacuum.parts, 1, found, context, error);
	}
	if (r == 0)
		r = sweep(&vacuum, &vacuum.temps, 0, found, context, error);
	if (r == 0)
		r = sweep(&vacuum, &vacuum.staged, 0, found, context, error);
	if (r == 0)
		remove_folders(&vacuum);
	free_paths(&vacuum.parts);
	free_paths(&vacuum.temps);
	free_paths(&vacuum.staged);
	free_paths(&vacuum.folders);
	if (vacuum.incoming >= 0)
		close(vacuum.incoming);
	return r;
}
