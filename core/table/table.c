/* SPDX-License-Identifier: MIT */
/*
 * Tables: opening, creating, and what is known of their versions. The log, the history and the
 * cache of open files do the work.
 */
#include "table/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <uuid/uuid.h>

#include "commit/publish.h"
#include "error.h"
#include "log/revision.h"
#include "row/schema.h"
#include "sys.h"

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
	if (table == NULL || atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) > 1)
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
	int why = tdl__sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, &table->dir);

	if (why == 0)
		why = tdl__sys_open(table->dir, TDL__LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
				    0, &table->log_dir);
	if (why == ENOENT || why == ENOTDIR || why == ELOOP)
		return tdl__fail(error, TDL_ERR_NOT_FOUND, "no tinydelta table at %s%s", path,
				 table->dir < 0 && why == ENOENT
					 ? ": no such directory"
					 : (table->dir < 0 ? ": not a directory"
							   : ": it has no " TDL__LOG_DIR));
	if (why != 0)
		return tdl__fail_errno(error, why, "cannot open %s", path);
	/* For messages only: one that is too long to be found out is told as it was given. */
	table->path = realpath(path, NULL);
	if (table->path == NULL && errno == ENAMETOOLONG)
		table->path = strdup(path);
	if (table->path == NULL)
		return tdl__fail_errno(error, errno, "cannot resolve %s", path);
	return 0;
}

/* A table without anything yet, or NULL. */
static tdl_table *new_table(unsigned flags, tdl_error *error)
{
	tdl_table *table = calloc(1, sizeof *table);

	if (table == NULL) {
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
		if (error != NULL)
			*error = why;
		return r;
	}
	if (tdl__history_get(&table->history, 0, &version, &info, NULL) < 0)
		info.table_id = "";
	table->id = strdup(info.table_id);
	return table->id != NULL ? 0 : tdl__fail_nomem(error);
}

int tdl_table_open(const char *path, unsigned flags, tdl_table **out, tdl_error *error)
{
	__attribute__((cleanup(free_table))) tdl_table *table = new_table(flags, error);
	int r;

	if (table == NULL)
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
	__attribute__((cleanup(free_table))) tdl_table *fresh = NULL;
	int why, r;

	if (!table->history.from_index) {
		r = tdl__history_refresh_listed(&table->history, error);
		if (r < 0 && r != TDL_ERR_CORRUPT)
			return r;
		tdl__table_ref(table);
		*out = table;
		return 0;
	}
	fresh = new_table(table->flags, error);
	if (fresh == NULL)
		return TDL_ERR_NOMEM;
	fresh->replayed = true;
	fresh->path = strdup(table->path);
	if (fresh->path == NULL)
		return tdl__fail_nomem(error);
	why = tdl__sys_open(table->dir, ".", O_RDONLY | O_DIRECTORY, 0, &fresh->dir);
	if (why == 0)
		why = tdl__sys_open(table->log_dir, ".", O_RDONLY | O_DIRECTORY, 0,
				    &fresh->log_dir);
	if (why != 0)
		return tdl__fail_errno(error, why, "cannot open %s", table->path);
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

/* 1: version `at` is as it was, 0: all that the index covered are. */
static int verify_one(tdl_table *table, size_t at, tdl_error *error)
{
	tdl__history *history = &table->history;
	uint32_t crc = 0, stamp;
	bool covered;
	int r;

	pthread_rwlock_rdlock(&history->lock);
	covered = history->from_index && at < history->count && at < table->covered;
	if (covered)
		crc = history->versions[at].crc;
	pthread_rwlock_unlock(&history->lock);
	if (!covered)
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
		table->verified += r != 0;
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
		if (error != NULL)
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
		size_t low = 0, high = history->beyond_count;

		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (history->beyond[middle] <= version)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < history->beyond_count)
			next = history->beyond[low];
	}
	pthread_rwlock_unlock(&history->lock);
	return next;
}

int tdl_table_writable(tdl_table *table, tdl_error *error)
{
	int why;

	if ((table->flags & TDL_OPEN_READ_ONLY) != 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	why = tdl__sys_writable(table->dir);
	if (why == 0)
		why = tdl__sys_writable(table->log_dir);
	return why == 0 ? 0 : tdl__fail_errno(error, why, "cannot write to %s", table->path);
}

int tdl_table_version_info(tdl_table *table, int64_t version, tdl_version_info *info,
			   tdl_error *error)
{
	tdl__version at;

	return tdl__history_get(&table->history, version, &at, info, error);
}

/* ---- Which version a text names ------------------------------------------------------------- */

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

static int find_tag(tdl_table *table, const tdl__revision *revision, tdl_error *error)
{
	char shown[TDL__TAG_MAX + 1];

	return tdl__fail(error, TDL_ERR_NOT_FOUND,
			 "no such tag: %s (%s has versions 0 to %" PRId64 ")",
			 tdl__printable(shown, sizeof shown, revision->tag, revision->tag_length),
			 table->path, tdl_table_head(table));
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
	if (revision.kind == TDL__REVISION_TAG)
		return find_tag(table, &revision, error);
	if (revision.kind != TDL__REVISION_NUMBER) {
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

int tdl__table_adopt(tdl_table *table, int fd, mode_t mode, tdl_error *error)
{
	struct stat dir, st;
	int why;

	if ((why = tdl__sys_fstat(table->dir, &dir)) != 0 || (why = tdl__sys_fstat(fd, &st)) != 0)
		return tdl__fail_errno(error, why, "cannot look at %s", table->path);
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
	why = tdl__sys_chmod(fd, mode);
	return why == 0 || why == EPERM || why == EOPNOTSUPP
		       ? 0
		       : tdl__fail_errno(error, why, "cannot set the mode of a file in %s",
					 table->path);
}

void tdl__table_spare(int fd)
{
	/* Longer than a publish takes, also on a disk that stalls; where it cannot be set, the
	 * check after the publish stays.
	 */
	tdl__sys_set_mtime(fd, tdl__now_ms() + 600000);
}

/* ---- Creating ------------------------------------------------------------------------------ */

/* Makes the directories above `path` that are missing. *made gets the length of the first of
 * these, also on failure; 0: none were. */
static int make_parents(const char *path, size_t *made, tdl_error *error)
{
	_cleanup_free_ char *copy = strdup(path);
	char *slash;

	*made = 0;
	if (copy == NULL)
		return tdl__fail_nomem(error);
	for (slash = copy + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		int why;

		if (slash[1] == '/')
			continue;
		if (slash[1] == '\0')
			break;
		*slash = '\0';
		why = tdl__sys_mkdir(AT_FDCWD, copy, 0777);
		if (why != 0 && why != EEXIST)
			return tdl__fail_errno(error, why, "cannot create %s", copy);
		if (why == 0 && *made == 0)
			*made = strlen(copy);
		*slash = '/';
	}
	return 0;
}

/* Removes the directories above `path` that make_parents() made, where nobody uses them. */
static void remove_parents(const char *path, size_t made)
{
	_cleanup_free_ char *copy = strdup(path);
	char *slash;

	while (made > 0 && copy != NULL && (slash = strrchr(copy, '/')) != NULL &&
	       (size_t)(slash - copy) >= made) {
		*slash = '\0';
		tdl__sys_rmdir(AT_FDCWD, copy);
	}
}

/* Makes the names in the directory that holds `path`, and in all above, durable. */
static int sync_parents(const char *path, tdl_error *error)
{
	_cleanup_free_ char *copy = realpath(path, NULL);

	if (copy == NULL)
		return tdl__fail_errno(error, errno, "cannot resolve %s", path);
	for (char *slash = strrchr(copy, '/'); slash != NULL; slash = strrchr(copy, '/')) {
		_cleanup_close_ int fd = -1;
		int why;

		slash[slash == copy ? 1 : 0] = '\0';
		why = tdl__sys_open(AT_FDCWD, copy, O_RDONLY | O_DIRECTORY, 0, &fd);
		/* A directory that may be searched but not read held its names before. */
		if (why == 0)
			why = tdl__sys_fsync_dir(fd);
		else if (why == EACCES)
			why = 0;
		if (why != 0)
			return tdl__fail_errno(error, why, "cannot make %s durable", copy);
		if (slash == copy)
			return 0;
	}
	return 0;
}

static int first_commit(const char *path, const tdl_schema *schema, tdl__text *text,
			tdl_error *error)
{
	static const tdl_version_info nothing = { .version = -1 };
	_cleanup_text_ tdl__text lines = { 0 };
	char id[UUID_STR_LEN];
	uuid_t uuid;

	uuid_generate_random(uuid);
	uuid_unparse_lower(uuid, id);
	tdl__action_metadata(&lines, id, schema);
	if (lines.failed)
		return tdl__fail_nomem(error);
	tdl__commit_info(text, tdl__now_ms(), "CREATE", -1, -1, NULL, lines.p, lines.n);
	if (text->failed)
		return tdl__fail_nomem(error);
	return tdl__commit_check(path, text, &nothing, true, error);
}

/* Fills a table directory that was just made. */
static int fill(const char *path, const char *text, size_t length, tdl_error *error)
{
	_cleanup_close_ int dir = -1, log_dir = -1;
	struct stat st;
	int r, why = tdl__sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &dir);

	if (why == 0)
		why = tdl__sys_fstat(dir, &st);
	if (why == 0)
		why = tdl__sys_mkdir(dir, TDL__LOG_DIR, 0777);
	if (why == 0)
		why = tdl__sys_open(dir, TDL__LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
				    &log_dir);
	/* Its names must last before the first commit makes it a table. */
	if (why == 0)
		why = tdl__sys_fsync_dir(dir);
	r = why == 0 ? sync_parents(path, error)
		     : tdl__fail_errno(error, why, "cannot create %s", path);
	if (r == 0)
		r = tdl__publish_first(&(tdl__log){ log_dir, path }, text, length,
				       tdl__table_file_mode(&st), error);
	if (r < 0 && r != TDL_ERR_PUBLISHED && dir >= 0)
		tdl__sys_rmdir(dir, TDL__LOG_DIR);
	return r;
}

int tdl_table_create(const char *path, const tdl_schema *schema, tdl_error *error)
{
	_cleanup_text_ tdl__text text = { 0 };
	struct stat st;
	size_t made;
	int why, r = first_commit(path, schema, &text, error);

	if (r < 0)
		return r;
	why = tdl__sys_stat(AT_FDCWD, path, &st);
	if (why == 0)
		return tdl__fail(error, TDL_ERR_EXISTS, "%s exists already", path);
	if (*path == '\0')
		return tdl__fail(error, TDL_ERR_MISUSE, "a table needs a path");
	r = make_parents(path, &made, error);
	if (r == 0) {
		why = tdl__sys_mkdir(AT_FDCWD, path, 0777);
		if (why == EEXIST)
			return tdl__fail(error, TDL_ERR_EXISTS, "%s exists already", path);
		if (why != 0)
			r = tdl__fail_errno(error, why, "cannot create %s", path);
	}
	if (r == 0) {
		r = fill(path, text.p, text.n, error);
		if (r < 0 && r != TDL_ERR_PUBLISHED)
			tdl__sys_rmdir(AT_FDCWD, path);
	}
	if (r < 0 && r != TDL_ERR_PUBLISHED)
		remove_parents(path, made);
	return r;
}
