/* SPDX-License-Identifier: MIT */
/*
 * Following a table's log, and what is known of its versions: finds commits, has them replayed,
 * and says where the log cannot be followed any further.
 */
#include "history.h"

#include <inttypes.h>
#include <string.h>

#include "ahead.h"
#include "error.h"
#include "replay.h"
#include "schema.h"
#include "sys.h"

/* Commits that are read one after the other before it is asked whether there are many more. */
#define FEW 256

int tdl__history_init(tdl__history *history, tdl__log log, tdl_error *error)
{
	pthread_rwlockattr_t attr;

	*history = (tdl__history){ .log = log, .copies_max = TDL__COPIES_MAX };
	pthread_rwlockattr_init(&attr);
	/* Readers come without pause under load; a commit must not wait for ever. */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&history->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&history->refreshing, NULL);
	if (!tdl__filelist_start(&history->files)) {
		tdl__history_free(history);
		return tdl__fail_nomem(error);
	}
	return 0;
}

void tdl__history_clear(tdl__history *history)
{
	for (size_t i = 0; i < history->operation_count; i++)
		free(history->operations[i]);
	for (size_t i = 0; i < history->meta_count; i++) {
		tdl_schema_free(history->metas[i]->schema);
		free(history->metas[i]->table_id);
		free(history->metas[i]);
	}
	free(history->versions);
	free(history->operations);
	free(history->metas);
	free(history->slots);
	history->versions = NULL;
	history->operations = NULL;
	history->metas = NULL;
	history->slots = NULL;
	history->count = history->cap = 0;
	history->operation_count = history->operation_cap = 0;
	history->meta_count = history->meta_cap = 0;
	history->slot_count = 0;
	history->from_index = false;
	/* The list that every history starts with stays. */
	tdl__filelist_reset(&history->files);
}

void tdl__history_free(tdl__history *history)
{
	tdl__history_clear(history);
	tdl__filelist_free(&history->files);
	free(history->beyond);
	pthread_rwlock_destroy(&history->lock);
	pthread_mutex_destroy(&history->refreshing);
}

/* ---- Following the log --------------------------------------------------------------------- */

static void clear_damage(tdl__history *history)
{
	history->damaged = false;
	free(history->beyond);
	history->beyond = NULL;
	history->beyond_count = 0;
}

/* What the commit file that cannot be followed looks like; zeros where there is none. */
static struct stat look(const tdl__history *history)
{
	char name[TDL__LOG_NAME_MAX];
	struct stat st = { 0 };

	tdl__log_name(name, (int64_t)history->count);
	if (tdl__sys_stat(history->log.dir, name, &st) != 0)
		return (struct stat){ 0 };
	return st;
}

static bool looks_same(const struct stat *a, const struct stat *b)
{
	return tdl__same_file(a, b) && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Remembers why the log cannot be followed past the head, and what is there all the same. */
static int set_damage(tdl__history *history, const tdl_error *why, tdl_error *error)
{
	struct stat st = look(history);
	int64_t *beyond = NULL;
	size_t count = 0;
	bool far;
	int r = tdl__log_list(&history->log, (int64_t)history->count - 1, &beyond, &count, &far,
			      error);

	if (r < 0)
		return r;
	pthread_rwlock_wrlock(&history->lock);
	clear_damage(history);
	history->damaged = true;
	history->damage = *why;
	history->damage_stat = st;
	history->beyond = beyond;
	history->beyond_count = count;
	pthread_rwlock_unlock(&history->lock);
	if (error != NULL)
		*error = *why;
	return TDL_ERR_CORRUPT;
}

static int gap(tdl__history *history, int64_t found, tdl_error *error)
{
	tdl_error why;
	int64_t missing = (int64_t)history->count;

	if (found == TDL__FAR_VERSION)
		tdl__fail_at(&why, TDL_ERR_CORRUPT, missing, 0, 0,
			     "gap in the log: %s has no version %" PRId64
			     ", but one whose number is too large",
			     history->log.table, missing);
	else
		tdl__fail_at(&why, TDL_ERR_CORRUPT, missing, 0, 0,
			     "gap in the log: %s has no version %" PRId64 ", but version %" PRId64,
			     history->log.table, missing, found);
	return set_damage(history, &why, error);
}

static void stop_ahead(tdl__ahead **ahead)
{
	tdl__ahead_stop(*ahead);
}

/* Reads commits one after the other until there is none. NOT_FOUND is the good end. */
static int follow(tdl__history *history, tdl__commit *commit, tdl_error *error)
{
	__attribute__((cleanup(stop_ahead))) tdl__ahead *ahead = NULL;

	for (size_t done = 0;; done++) {
		int64_t next = (int64_t)history->count;
		tdl_error why = { 0 };
		int r;

		tdl__commit_clear(commit);
		/* So many at once are rarely all. */
		if (done == FEW)
			ahead = tdl__ahead_start(&history->log, next);
		r = ahead != NULL && tdl__ahead_take(ahead, next, commit)
			    ? 0
			    : tdl__log_read(&history->log, next, commit, &why);
		if (r == 0) {
			pthread_rwlock_wrlock(&history->lock);
			r = tdl__replay(history, commit, &why);
			pthread_rwlock_unlock(&history->lock);
			if (r == TDL_ERR_CORRUPT) {
				tdl_error whole;

				tdl__fail_at(&whole, r, next, 0, 0,
					     "version %" PRId64 " of %s is damaged: %s", next,
					     history->log.table, why.message);
				why = whole;
			} else if (r == TDL_ERR_NOMEM) {
				return tdl__fail_nomem(error);
			}
		}
		if (r == TDL_ERR_CORRUPT)
			return set_damage(history, &why, error);
		if (r < 0) {
			if (error != NULL)
				*error = why;
			return r;
		}
	}
}

/* The end of the log by its listing: it may have gone on since, or end in a gap. */
static int look_for_gap(tdl__history *history, tdl__commit *commit, tdl_error *error)
{
	for (;;) {
		_cleanup_free_ int64_t *versions = NULL;
		int64_t head = (int64_t)history->count - 1;
		size_t count;
		bool far;
		int r = tdl__log_list(&history->log, head, &versions, &count, &far, error);

		if (r < 0)
			return r;
		if (count == 0)
			return far ? gap(history, TDL__FAR_VERSION, error) : 0;
		if (versions[0] != head + 1)
			return gap(history, versions[0], error);
		r = follow(history, commit, error);
		if (r != TDL_ERR_NOT_FOUND)
			return r;
		/* Listed, not found, and nothing was added: it went away again. */
		if (history->count == (size_t)head + 1)
			return 0;
	}
}

/* Whether what the log could not be followed for is as it was. */
static bool still_damaged(const tdl__history *history)
{
	struct stat st = look(history);

	if (!looks_same(&st, &history->damage_stat))
		return false;
	/* A gap is none once nothing is behind it. */
	return st.st_ino != 0 ||
	       (history->beyond_count > 0 && tdl__log_exists(&history->log, history->beyond[0]));
}

static int refresh(tdl__history *history, bool listed, tdl_error *error)
{
	bool first = history->count == 0, again = history->damaged;
	tdl__commit commit = { 0 };
	int r;

	if (again && still_damaged(history)) {
		if (error != NULL)
			*error = history->damage;
		return TDL_ERR_CORRUPT;
	}
	r = follow(history, &commit, error);
	if (r == TDL_ERR_NOT_FOUND)
		r = first || again || listed ? look_for_gap(history, &commit, error) : 0;
	tdl__commit_free(&commit);
	/* Not before: where looking failed, nothing is known to be whole. */
	if (r == 0 && again) {
		pthread_rwlock_wrlock(&history->lock);
		clear_damage(history);
		pthread_rwlock_unlock(&history->lock);
	}
	return r;
}

int tdl__history_refresh(tdl__history *history, tdl_error *error)
{
	int r;

	pthread_mutex_lock(&history->refreshing);
	r = refresh(history, false, error);
	pthread_mutex_unlock(&history->refreshing);
	return r;
}

int tdl__history_refresh_listed(tdl__history *history, tdl_error *error)
{
	int r;

	pthread_mutex_lock(&history->refreshing);
	r = refresh(history, true, error);
	pthread_mutex_unlock(&history->refreshing);
	return r;
}

/* When the log's folder last changed; false where nobody can say. */
static bool last_change(const tdl__history *history, struct timespec *when)
{
	struct stat st;

	if (tdl__sys_fstat(history->log.dir, &st) != 0)
		return false;
	*when = st.st_mtim;
	return true;
}

void tdl__history_committed(tdl__history *history)
{
	pthread_mutex_lock(&history->refreshing);
	history->own = last_change(history, &history->changed);
	pthread_mutex_unlock(&history->refreshing);
}

int tdl__history_find_gap(tdl__history *history, tdl_error *error)
{
	struct timespec changed;
	int64_t head, found;
	bool there = true, own;
	int r;

	pthread_mutex_lock(&history->refreshing);
	own = history->own && last_change(history, &changed) &&
	      changed.tv_sec == history->changed.tv_sec &&
	      changed.tv_nsec == history->changed.tv_nsec;
	head = (int64_t)history->count - 1;
	r = tdl__log_beyond_gap(&history->log, head, own ? &history->turn : NULL, &found, error);
	/* What is beyond may just have been committed, with all that lies between. */
	if (r == 0 && found >= 0)
		r = tdl__log_look(&history->log, head + 1, &there, error);
	if (r == 0 && !there)
		r = gap(history, found, error);
	if (r == 0 && head >= 0)
		r = tdl__log_look(&history->log, head, &there, error);
	if (r == 0 && !there)
		r = tdl__fail_at(error, TDL_ERR_CORRUPT, head, 0, 0,
				 "version %" PRId64 " of %s has vanished from its log", head,
				 history->log.table);
	pthread_mutex_unlock(&history->refreshing);
	return r;
}

/* ---- What is known ------------------------------------------------------------------------- */

/* With the read lock held. */
static int check_version(tdl__history *history, int64_t *version, tdl_error *error)
{
	int64_t head = (int64_t)history->count - 1;

	if (*version == TDL_LATEST && !history->damaged)
		*version = head;
	if (*version >= 0 && *version <= head)
		return 0;
	if (history->damaged && (*version == TDL_LATEST || *version == head + 1 ||
				 (*version > head && history->beyond_count > 0 &&
				  *version <= history->beyond[history->beyond_count - 1]))) {
		if (error != NULL)
			*error = history->damage;
		return TDL_ERR_CORRUPT;
	}
	return tdl__fail_at(error, TDL_ERR_NOT_FOUND, *version, 0, 0,
			    "no such version: %" PRId64 " (%s has 0 to %" PRId64 ")", *version,
			    history->log.table, head);
}

int tdl__history_get(tdl__history *history, int64_t version, tdl__version *out,
		     tdl_version_info *info, tdl_error *error)
{
	int r;

	pthread_rwlock_rdlock(&history->lock);
	r = check_version(history, &version, error);
	if (r == 0) {
		const tdl__version *at = &history->versions[version];
		const tdl__meta *meta = history->metas[at->meta];

		*out = *at;
		*info = (tdl_version_info){
			.version = version,
			.timestamp = at->timestamp,
			.read_version = at->read_version,
			.operation = history->operations[at->operation],
			.files = at->files,
			.num_records = tdl__filelist_rows(&history->files, at->list, at->files),
			.bytes = tdl__filelist_bytes(&history->files, at->list, at->files),
			.schema = meta->schema,
			.table_id = meta->table_id,
		};
		if (meta->schema == NULL)
			r = tdl__fail_at(error, TDL_ERR_CORRUPT, version, 0, 0,
					 "version %" PRId64
					 " of %s: the log has no metaData up to it",
					 version, history->log.table);
	}
	pthread_rwlock_unlock(&history->lock);
	return r;
}

bool tdl__history_ever_added(tdl__history *history, const tdl__file_key *key)
{
	bool found = false;

	pthread_rwlock_rdlock(&history->lock);
	for (size_t i = 0; i < history->files.count && !found; i++) {
		tdl__file_key other = tdl__filelist_key(&history->files, i);

		found = tdl__file_key_equal(key, &other);
	}
	pthread_rwlock_unlock(&history->lock);
	return found;
}
