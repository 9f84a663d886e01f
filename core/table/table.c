/* SPDX-License-Identifier: MIT */
/*
 * Tables: opening, and what is known of their versions. The log, the history and the
 * cache of open files do the work.
 */
#include "table/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "log/revision.h"
#include "sys.h"
#include "table/tags.h"
#include "util/escape.h"
#include "util/search.h"

#define TEXT_OF(number)	 #number
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

/* The header's version is the project's. */
_Static_assert(__builtin_strcmp(TINYDELTA_VERSION, VERSION(TDL_VERSION_MAJOR, TDL_VERSION_MINOR,
							   TDL_VERSION_PATCH)) == 0,
	       "tinydelta.h and meson.build have different versions");

const char *tdl_library_version(void)
{
	return TINYDELTA_VERSION;
}

/* ---- Opening ------------------------------------------------------------------------------- */

void tdl__table_ref(tdl_table *table)
{
	atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
}

void tdl_table_free(tdl_table *table)
{
	if (!table || atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) > 1)
		return;
	tdl__table_save_index(table, true);
	tdl__filecache_free(&table->files);
	tdl__history_free(&table->history);
	pthread_mutex_destroy(&table->publishing);
	pthread_mutex_destroy(&table->verifying);
	if (table->log_dir >= 0)
		close(table->log_dir);
	if (table->dir >= 0)
		close(table->dir);
	free(table->id);
	free(table->path);
	free(table);
}

static void free_table(tdl_table **table)
{
	tdl_table_free(*table);
}

static int open_dirs(tdl_table *table, const char *path, tdl_error *error)
{
	int err = tdl__sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, &table->dir);

	if (err == 0)
		err = tdl__sys_open(table->dir, TDL__LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
				    0, &table->log_dir);
	if (err == ENOENT || err == ENOTDIR || err == ELOOP)
		return tdl__fail(error, TDL_ERR_NOT_FOUND, "no tinydelta table at %s%s", path,
				 table->dir < 0 && err == ENOENT
					 ? ": no such directory"
					 : (table->dir < 0 ? ": not a directory"
							   : ": it has no " TDL__LOG_DIR));
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot open %s", path);
	/* For messages only: one that is too long to be found out is told as it was given. */
	table->path = realpath(path, NULL);
	if (!table->path && errno == ENAMETOOLONG)
		table->path = strdup(path);
	if (!table->path)
		return tdl__fail_errno(error, errno, "cannot resolve %s", path);
	return 0;
}

/* A table without anything yet, or NULL. */
static tdl_table *new_table(unsigned flags, tdl_error *error)
{
	tdl_table *table = calloc(1, sizeof *table);

	if (!table) {
		tdl__fail_nomem(error);
		return NULL;
	}
	atomic_init(&table->refs, 1);
	table->flags = flags;
	table->dir = table->log_dir = -1;
	pthread_mutex_init(&table->publishing, NULL);
	pthread_mutex_init(&table->verifying, NULL);
	if (tdl__history_init(&table->history, (tdl__log){ .dir = -1 }, error) < 0) {
		pthread_mutex_destroy(&table->publishing);
		pthread_mutex_destroy(&table->verifying);
		free(table);
		return NULL;
	}
	return table;
}

/* A log of so many versions is listed in the blink of an eye. */
#define LISTED_MAX 100000

/* Reads the commits behind the index, if there is one. */
static int follow_log(tdl_table *table, tdl_error *error)
{
	tdl__history *history = &table->history;
	struct timespec start, end;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &start);
	/* Without a listing, what lies behind a gap has to be looked for; before a commit, and by
	 * tdl_table_verify_log(), it is listed all the same. */
	r = history->count > 0 && history->count <= LISTED_MAX
		    ? tdl__history_refresh_listed(history, error)
		    : tdl__history_refresh(history, error);
	if (r == 0 && history->from_index)
		r = tdl__history_probe_gap(history, error);
	clock_gettime(CLOCK_MONOTONIC, &end);
	table->replay_ms =
		(end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;
	return r;
}

/* Reads the log of a table whose directories are open. */
static int read_history(tdl_table *table, const char *path, tdl_error *error)
{
	tdl__version version;
	tdl_version_info info;
	tdl_error why;
	int r;

	table->history.log = (tdl__log){ table->log_dir, table->path };
	table->history.table_dir = table->dir;
	r = tdl__filecache_init(&table->files, table->dir, table->path, error);
	if (r < 0)
		return r;
	if (!table->replayed)
		tdl__table_load_index(table);
	r = follow_log(table, &why);
	/* The commit behind an index was built on something else. Nobody has seen a version yet. */
	if (table->history.from_index && table->history.rewritten) {
		tdl__history_clear(&table->history);
		table->indexed = table->covered = 0;
		r = follow_log(table, &why);
	}
	if (r == 0 && tdl_table_head(table) < 0)
		return tdl__fail(error, TDL_ERR_NOT_FOUND,
				 "no tinydelta table at %s: it has no version 0", path);
	if (r < 0 && !(r == TDL_ERR_CORRUPT && tdl_table_head(table) >= 0)) {
		if (error)
			*error = why;
		return r;
	}
	if (tdl__history_get(&table->history, 0, &version, &info, NULL) < 0)
		info.table_id = "";
	table->id = strdup(info.table_id);
	return table->id ? 0 : tdl__fail_nomem(error);
}

int tdl_table_open(const char *path, unsigned flags, tdl_table **out, tdl_error *error)
{
	tdl_table *table CLEANUP(free_table) = new_table(flags, error);
	int r;

	if (!table)
		return TDL_ERR_NOMEM;
	r = open_dirs(table, path, error);
	if (r == 0)
		r = read_history(table, path, error);
	if (r < 0)
		return r;
	tdl__table_save_index(table, false);
	*out = tdl__steal(table);
	return 0;
}

int tdl__table_replayed(tdl_table *table, tdl_table **out, tdl_error *error)
{
	tdl_table *fresh CLEANUP(free_table) = NULL;
	int err, r;

	if (!table->history.from_index) {
		r = tdl__history_refresh_listed(&table->history, error);
		if (r < 0 && r != TDL_ERR_CORRUPT)
			return r;
		tdl__table_ref(table);
		*out = table;
		return 0;
	}
	fresh = new_table(table->flags, error);
	if (!fresh)
		return TDL_ERR_NOMEM;
	fresh->replayed = true;
	fresh->path = strdup(table->path);
	if (!fresh->path)
		return tdl__fail_nomem(error);
	err = tdl__sys_open(table->dir, ".", O_RDONLY | O_DIRECTORY, 0, &fresh->dir);
	if (err == 0)
		err = tdl__sys_open(table->log_dir, ".", O_RDONLY | O_DIRECTORY, 0,
				    &fresh->log_dir);
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot open %s", table->path);
	r = read_history(fresh, table->path, error);
	if (r < 0)
		return r;
	*out = tdl__steal(fresh);
	return 0;
}

/* ---- What is known ------------------------------------------------------------------------- */

const char *tdl_table_path(const tdl_table *table)
{
	return table->path;
}

int tdl_table_fd(const tdl_table *table)
{
	return table->dir;
}

const char *tdl_table_id(const tdl_table *table)
{
	return table->id;
}

int tdl_table_refresh(tdl_table *table, tdl_error *error)
{
	return tdl__history_refresh(&table->history, error);
}

/* 1: version `at` is as it was, 0: there is none. */
static int verify_one(tdl_table *table, size_t at, tdl_error *error)
{
	tdl__history *history = &table->history;
	uint32_t crc = 0, stamp;
	bool there;
	int r;

	pthread_rwlock_rdlock(&history->lock);
	/* What was replayed just now need not be read at once again. */
	there = at < history->count &&
		(table->verifies_all || (history->from_index && at < table->covered));
	if (there)
		crc = history->versions[at].crc;
	pthread_rwlock_unlock(&history->lock);
	if (!there)
		return 0;
	r = tdl__log_compare(&history->log, (int64_t)at, crc, true, &stamp, error);
	return r == 0 ? tdl__history_rewritten(history, (int64_t)at, error) : r;
}

int tdl_table_verify_log(tdl_table *table, uint64_t budget, tdl_error *error)
{
	int r;

	pthread_mutex_lock(&table->verifying);
	r = tdl__history_list_once(&table->history, error);
	if (r == 0)
		r = 1;
	for (; r == 1 && budget > 0; budget--) {
		r = verify_one(table, table->verified, error);
		/* One that cannot be read must not hold up the others. */
		table->verified = r == 0 ? 0 : table->verified + 1;
		table->verifies_all |= r == 0;
	}
	pthread_mutex_unlock(&table->verifying);
	return r;
}

int64_t tdl_table_head(tdl_table *table)
{
	int64_t head;

	pthread_rwlock_rdlock(&table->history.lock);
	head = (int64_t)table->history.count - 1;
	pthread_rwlock_unlock(&table->history.lock);
	return head;
}

int tdl_table_damage(tdl_table *table, tdl_error *error)
{
	int r = 0;

	pthread_rwlock_rdlock(&table->history.lock);
	if (table->history.damaged) {
		r = TDL_ERR_CORRUPT;
		if (error)
			*error = table->history.damage;
	}
	pthread_rwlock_unlock(&table->history.lock);
	return r;
}

int64_t tdl_table_next_version(tdl_table *table, int64_t version)
{
	tdl__history *history = &table->history;
	int64_t next = -1;

	pthread_rwlock_rdlock(&history->lock);
	if (version < -1)
		version = -1;
	if (version < (int64_t)history->count - 1) {
		next = version + 1;
	} else {
		size_t low = tdl__lower_bound(history->past_gap_count, i,
					      history->past_gap[i] <= version);

		if (low < history->past_gap_count)
			next = history->past_gap[low];
	}
	pthread_rwlock_unlock(&history->lock);
	return next;
}

int tdl_table_writable(tdl_table *table, tdl_error *error)
{
	int err;

	if ((table->flags & TDL_OPEN_READ_ONLY) != 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	err = tdl__sys_writable(table->dir);
	if (err == 0)
		err = tdl__sys_writable(table->log_dir);
	return err == 0 ? 0 : tdl__fail_errno(error, err, "cannot write to %s", table->path);
}

int tdl_table_version_info(tdl_table *table, int64_t version, tdl_version_info *info,
			   tdl_error *error)
{
	tdl__version at;

	return tdl__history_get(&table->history, version, &at, info, error);
}

/* ---- Which version a text names ----------------------------------------------------------- */

/* Whether the version `back` before `number` is there. */
static int find_number(tdl_table *table, int64_t number, int64_t back, const char *text,
		       tdl_error *error)
{
	char shown[160];
	tdl__version version;
	tdl_version_info info;
	int r = TDL_ERR_NOT_FOUND;

	if (back <= number)
		r = tdl__history_get(&table->history, number - back, &version, &info, error);
	/* It may just have been committed. */
	if (back <= number && r == TDL_ERR_NOT_FOUND) {
		r = tdl__history_refresh(&table->history, error);
		if (r < 0 && r != TDL_ERR_CORRUPT)
			return r;
		r = tdl__history_get(&table->history, number - back, &version, &info, error);
	}
	/* One that cannot be read has its number all the same. */
	if (r != TDL_ERR_NOT_FOUND)
		return r == TDL_ERR_CORRUPT ? 0 : r;
	return tdl__fail(error, r, "no such version: %s (%s has 0 to %" PRId64 ")",
			 tdl__printable(shown, sizeof shown, text, strlen(text)), table->path,
			 tdl_table_head(table));
}

/* The version that a tag says, which need not be there. */
static int find_tag(tdl_table *table, const tdl__revision *revision, int64_t *version,
		    tdl_error *error)
{
	char name[TDL__TAG_MAX + 1], shown[TDL__TAG_MAX * 4 + 1];
	tdl__tag tag CLEANUP(tdl__tag_clear) = { 0 };
	int dir CLEANUP(tdl__close_at) = -1;
	tdl_error why = { 0 };
	int r;

	memcpy(name, revision->tag, revision->tag_length);
	name[revision->tag_length] = '\0';
	tdl__printable(shown, sizeof shown, name, revision->tag_length);
	r = tdl__tags_open(table, &dir, &why);
	if (r == 0)
		r = tdl__tag_read(table, dir, name, &tag, &why);
	if (r == TDL_ERR_NOT_FOUND)
		return tdl__fail(error, r, "no such tag: %s (%s has versions 0 to %" PRId64 ")",
				 shown, table->path, tdl_table_head(table));
	if (r == TDL_ERR_CORRUPT)
		return tdl__fail(error, r, "the tag %s of %s %s", shown, table->path, why.message);
	if (r < 0 && error)
		*error = why;
	else if (r == 0)
		*version = tag.version;
	return r;
}

int tdl_table_find_version(tdl_table *table, const char *text, int64_t *version, tdl_error *error)
{
	int64_t now = tdl__now_ms(), found;
	tdl__revision revision;
	tdl__version known;
	tdl_version_info info;
	int r = tdl__revision_parse(text, now, &revision, error);

	if (r < 0)
		return r;
	found = revision.number;
	if (revision.kind == TDL__REVISION_TAG) {
		r = find_tag(table, &revision, &found, error);
		if (r < 0)
			return r;
	} else if (revision.kind != TDL__REVISION_NUMBER) {
		r = tdl__history_refresh(&table->history, error);
		if (r < 0 && r != TDL_ERR_CORRUPT)
			return r;
	}
	if (revision.kind == TDL__REVISION_LATEST) {
		r = tdl__history_get(&table->history, TDL_LATEST, &known, &info, error);
		if (r == 0)
			found = info.version;
	} else if (revision.kind == TDL__REVISION_INSTANT) {
		r = tdl__history_at(&table->history, revision.instant, now, &found, error);
	}
	if (r == 0)
		r = find_number(table, found, revision.back, text, error);
	if (r == 0)
		*version = found - revision.back;
	return r;
}

/* ---- Ownership ----------------------------------------------------------------------------- */

mode_t tdl__table_file_mode(const struct stat *table)
{
	return (table->st_mode & 0444) | 0400;
}

int tdl__table_set_owner(tdl_table *table, int fd, mode_t mode, tdl_error *error)
{
	struct stat dir, st;
	int err;

	if ((err = tdl__sys_fstat(table->dir, &dir)) != 0 || (err = tdl__sys_fstat(fd, &st)) != 0)
		return tdl__fail_errno(error, err, "cannot look at %s", table->path);
	/* Root writes for the owner, a member of the group for the group. Where that is not
	 * allowed (a file system that maps owners, a writer from outside), what there is has to do.
	 */
	if (st.st_uid != dir.st_uid && geteuid() == 0 &&
	    tdl__sys_chown(fd, dir.st_uid, dir.st_gid) == 0)
		st.st_gid = dir.st_gid;
	if (st.st_gid != dir.st_gid)
		tdl__sys_chown(fd, (uid_t)-1, dir.st_gid);
	if ((st.st_mode & 07777) == mode)
		return 0;
	err = tdl__sys_chmod(fd, mode);
	return err == 0 || err == EPERM || err == EOPNOTSUPP
		       ? 0
		       : tdl__fail_errno(error, err, "cannot set the mode of a file in %s",
					 table->path);
}

void tdl__table_set_future_mtime(int fd)
{
	/* Longer than a publish takes, also on a disk that stalls; where it cannot be set, the
	 * check after the publish stays.
	 */
	tdl__sys_set_mtime(fd, tdl__now_ms() + 600000);
}
