/* SPDX-License-Identifier: MIT */
/*
 * When and where a table's index is read and written: in its log by whoever may write there, else
 * in the user's own cache directory. No failure here is one of the table.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "log/index.h"
#include "sys.h"
#include "table/table.h"

size_t tdl__index_worth = 1000;

/* A replay that takes so long is worth it as well, unless it is the disk that is slow. */
#define WORTH_MS    100
#define WORTH_LEAST 100

/* "<table id>-<device>-<inode of the log>.idx", where the id is a UUID as it should be: it becomes
 * a file name. A copy of a table has the id, and another log. */
#define CACHE_NAME_MAX 80

static bool cache_name(const tdl_table *table, const char *id, char out[CACHE_NAME_MAX])
{
	struct stat st;

	if (strlen(id) != 36 || strspn(id, "0123456789abcdef-") != 36 ||
	    tdl__sys_fstat(table->log_dir, &st) != 0)
		return false;
	snprintf(out, CACHE_NAME_MAX, "%s-%jx-%jx.idx", id, (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino);
	return true;
}

/* Opens a directory that is the user's alone to write, made where it is missing. */
static bool open_own(int dir, const char *name, bool make, int *fd)
{
	int got CLEANUP(tdl__close_at) = -1;
	struct stat st;

	if (make)
		tdl__sys_mkdir(dir, name, 0700);
	if (tdl__sys_open(dir, name, O_RDONLY | O_DIRECTORY, 0, &got) != 0 ||
	    tdl__sys_fstat(got, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return false;
	*fd = tdl__steal_fd(&got);
	return true;
}

static bool open_cache(bool make, int *fd)
{
	int base CLEANUP(tdl__close_at) = -1, home CLEANUP(tdl__close_at) = -1;
	const char *cache = secure_getenv("XDG_CACHE_HOME");

	if (cache && cache[0] == '/')
		return open_own(AT_FDCWD, cache, make, &base) &&
		       open_own(base, "tinydelta", make, fd);
	cache = secure_getenv("HOME");
	return cache && cache[0] == '/' && open_own(AT_FDCWD, cache, false, &home) &&
	       open_own(home, ".cache", make, &base) && open_own(base, "tinydelta", make, fd);
}

/* The table's id before its history is known: from its first commit. */
static bool first_id(tdl_table *table, char name[CACHE_NAME_MAX])
{
	tdl__commit commit = { 0 };
	bool good = tdl__log_read(&table->history.log, 0, &commit, NULL) == 0 && commit.schema &&
		    cache_name(table, tdl__commit_string(&commit, commit.table_id), name);

	tdl__commit_free(&commit);
	return good;
}

void tdl__table_load_index(tdl_table *table)
{
	tdl__history *history = &table->history;
	int cache CLEANUP(tdl__close_at) = -1;
	char name[CACHE_NAME_MAX];
	size_t in_log;

	tdl__index_load(history, table->log_dir, TDL__INDEX_NAME);
	in_log = history->count;
	/* A log of few commits more is replayed faster than a cache is looked for. */
	if (tdl__log_exists(&history->log, (int64_t)(in_log + tdl__index_worth)) &&
	    first_id(table, name) && open_cache(false, &cache) &&
	    tdl__index_covers(cache, name) > in_log) {
		tdl__history_clear(history);
		tdl__index_load(history, cache, name);
		if (history->count == 0 && in_log > 0)
			tdl__index_load(history, table->log_dir, TDL__INDEX_NAME);
	}
	table->covered = history->count;
	/* One whose stamps are old costs reading many commits each time. */
	table->indexed = history->restamped < tdl__index_worth ? history->count : 0;
}

void tdl__table_save_index(tdl_table *table, bool closing)
{
	int cache CLEANUP(tdl__close_at) = -1;
	char name[CACHE_NAME_MAX];
	size_t behind = table->history.count - table->indexed;
	bool slow = table->replay_ms >= WORTH_MS && behind >= WORTH_LEAST;

	if (table->replayed || table->history.rewritten)
		return;
	/* In between, a long index is rewritten only for what would take long to replay. */
	if ((behind < tdl__index_worth && !slow) || (!closing && behind < table->indexed / 32))
		return;
	if (((table->flags & TDL_OPEN_READ_ONLY) == 0 &&
	     tdl__index_save(&table->history, table->log_dir, TDL__INDEX_NAME)) ||
	    (cache_name(table, table->id, name) && open_cache(true, &cache) &&
	     tdl__index_save(&table->history, cache, name))) {
		table->indexed = table->history.count;
		table->replay_ms = 0;
	}
}
