/* SPDX-License-Identifier: MIT */
/*
 * Following a table's log, and what is known of its versions: finds commits, has them replayed,
 * and says where the log cannot be followed any further.
 */
#include "log/history.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "log/instant.h"
#include "log/prefetch.h"
#include "log/replay.h"
#include "row/schema.h"
#include "sys.h"
#include "util/search.h"

/* Commits that are read one after the other before it is asked whether there are many more. */
#define FEW 256

int tdl__history_init(tdl__history *history, tdl__log log, tdl_error *error)
{
	pthread_rwlockattr_t attr;

	*history = (tdl__history){ .log = log, .table_dir = -1, .copies_max = TDL__COPIES_MAX };
	pthread_rwlockattr_init(&attr);
	/* Readers come without pause under load; a commit must not wait for ever. */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&history->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&history->refreshing, NULL);
	pthread_mutex_init(&history->listing, NULL);
	if (!tdl__filelist_start(&history->files)) {
		tdl__history_free(history);
		return tdl__fail_nomem(error);
	}
	return 0;
}

static void clear_damage(tdl__history *history)
{
	history->damaged = false;
	history->unreadable = false;
	history->replaced = false;
	free(history->past_gap);
	history->past_gap = NULL;
	history->past_gap_count = 0;
}

void tdl__history_clear(tdl__history *history)
{
	clear_damage(history);
	history->rewritten = false;
	history->shown = 0;
	for (size_t i = 0; i < history->operation_count; i++)
		free(history->operations[i]);
	for (size_t i = 0; i < history->meta_count; i++) {
		tdl_schema_free(history->metas[i]->schema);
		free(history->metas[i]->json);
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
	history->restamped = 0;
	history->listed = false;
	/* The list that every history starts with stays. */
	tdl__times_clear(&history->times);
	tdl__filelist_reset(&history->files);
}

void tdl__history_free(tdl__history *history)
{
	tdl__history_clear(history);
	tdl__filelist_free(&history->files);
	pthread_rwlock_destroy(&history->lock);
	pthread_mutex_destroy(&history->refreshing);
	pthread_mutex_destroy(&history->listing);
}

/* ---- Damage -------------------------------------------------------------------------------- */

/* What the commit file that cannot be followed looks like; zeros where there is none. */
static struct stat stat_damage(const tdl__history *history)
{
	char name[TDL__LOG_NAME_MAX];
	struct stat st = { 0 };

	tdl__log_name(name, (int64_t)history->count);
	if (tdl__sys_stat(history->log.dir, name, &st) != 0)
		return (struct stat){ 0 };
	return st;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return tdl__same_file(a, b) && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Whether a failure says something of what was read, and not of who reads. */
static bool is_of_the_file(const tdl_error *why)
{
	return why->code == TDL_ERR_IO && why->os_error != ENOMEM && why->os_error != EMFILE &&
	       why->os_error != ENFILE && why->os_error != EAGAIN;
}

/* The versions from the end of what can be followed on: those that are there, and those that were
 * shown. */
static int list_past_gap(tdl__history *history, int64_t **past_gap, size_t *count, tdl_error *error)
{
	int64_t *there CLEANUP(tdl__free_at) = NULL;
	size_t n = 0, first = history->count;
	size_t shown = history->rewritten ? history->shown - first : 0;
	tdl_error why;
	bool far;
	int r = tdl__log_list(&history->log, (int64_t)(first + shown) - 1, &there, &n, &far, &why);

	/* A log that cannot even be listed is no less damaged. */
	if (r < 0 && !is_of_the_file(&why)) {
		if (error)
			*error = why;
		return r;
	}
	*past_gap = calloc(shown + n + 1, sizeof **past_gap);
	if (!*past_gap)
		return tdl__fail_nomem(error);
	for (size_t i = 0; i < shown; i++)
		(*past_gap)[i] = (int64_t)(first + i);
	if (n > 0)
		memcpy(*past_gap + shown, there, n * sizeof *there);
	*count = shown + n;
	return 0;
}

/* Remembers why the log cannot be followed past the head, and what is there all the same. */
static int set_damage(tdl__history *history, const tdl_error *why, tdl_error *error)
{
	struct stat st = stat_damage(history);
	bool unreadable = why->code == TDL_ERR_IO;
	tdl_error damage = *why;
	int64_t *past_gap = NULL;
	size_t count = 0;
	int r = list_past_gap(history, &past_gap, &count, error);

	if (r < 0)
		return r;
	if (unreadable) {
		tdl__fail_at(&damage, TDL_ERR_CORRUPT, (int64_t)history->count, 0, 0,
			     "version %zu is damaged: %s", history->count, why->message);
		damage.os_error = why->os_error;
	}
	damage.code = TDL_ERR_CORRUPT;
	pthread_rwlock_wrlock(&history->lock);
	clear_damage(history);
	history->damaged = true;
	history->unreadable = unreadable;
	history->damage = damage;
	history->damage_stat = st;
	history->past_gap = past_gap;
	history->past_gap_count = count;
	pthread_rwlock_unlock(&history->lock);
	if (error)
		*error = damage;
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

/* Whether what the log could not be followed for is as it was. */
static bool still_damaged(const tdl__history *history)
{
	struct stat st;

	if (history->rewritten)
		return true;
	if (history->replaced)
		return false;
	if (history->unreadable) {
		tdl__commit commit = { 0 };
		tdl_error why;
		int r = tdl__log_read(&history->log, (int64_t)history->count, &commit, &why);

		tdl__commit_free(&commit);
		return r < 0 && is_of_the_file(&why) && why.os_error == history->damage.os_error;
	}
	st = stat_damage(history);
	if (!is_same_file(&st, &history->damage_stat))
		return false;
	/* A gap is none once nothing is behind it. */
	return st.st_ino != 0 || (history->past_gap_count > 0 &&
				  tdl__log_exists(&history->log, history->past_gap[0]));
}

/* ---- Whether the log is what it was -------------------------------------------------------- */

/* 1: a version's commit is what was replayed; 0: it is not; negative: nobody can say. */
static int is_as_replayed(tdl__history *history, int64_t version, tdl_error *error)
{
	tdl__version *at = &history->versions[version];
	uint32_t stamp = at->stamp;
	int r = tdl__log_compare(&history->log, version, at->crc, false, &stamp, error);

	if (r == 1 && stamp != at->stamp) {
		pthread_rwlock_wrlock(&history->lock);
		at->stamp = stamp;
		pthread_rwlock_unlock(&history->lock);
	}
	return r;
}

/* With the refresh mutex held. */
static int set_rewritten(tdl__history *history, int64_t version, tdl_error *error)
{
	size_t shown = history->count;
	tdl_error why;

	/* What came before it may have been replaced as well. */
	while (version > 0 && is_as_replayed(history, version - 1, NULL) != 1)
		version--;
	tdl__fail_at(&why, TDL_ERR_CORRUPT, version, 0, 0,
		     "the log of %s was rewritten: version %" PRId64
		     " is not what it was; mount anew",
		     history->log.table, version);
	pthread_rwlock_wrlock(&history->lock);
	if (!history->rewritten)
		history->shown = shown;
	history->rewritten = true;
	history->count = (size_t)version;
	pthread_rwlock_unlock(&history->lock);
	return set_damage(history, &why, error);
}

int tdl__history_rewritten(tdl__history *history, int64_t version, tdl_error *error)
{
	int r = TDL_ERR_CORRUPT;

	pthread_mutex_lock(&history->refreshing);
	if (version < (int64_t)history->count)
		r = set_rewritten(history, version, error);
	else if (error)
		*error = history->damage;
	pthread_mutex_unlock(&history->refreshing);
	return r;
}

/* Who commits into a folder that is not the table's log any more commits nothing. Where nobody can
 * say, whatever is looked at next will. */
static bool is_replaced(const tdl__history *history)
{
	struct stat named, ours;
	int err;

	if (history->table_dir < 0)
		return false;
	err = tdl__sys_stat(history->table_dir, TDL__LOG_DIR, &named);
	if (err == ENOENT)
		return true;
	return err == 0 && tdl__sys_fstat(history->log.dir, &ours) == 0 &&
	       !tdl__same_file(&named, &ours);
}

/* With the refresh mutex held. */
static int set_replaced(tdl__history *history, tdl_error *error)
{
	tdl_error why;
	int r;

	if (history->replaced || history->rewritten) {
		if (error)
			*error = history->damage;
		return TDL_ERR_CORRUPT;
	}
	tdl__fail_at(&why, TDL_ERR_CORRUPT, (int64_t)history->count, 0, 0,
		     "the log of %s was replaced: %s/" TDL__LOG_DIR
		     " is not the directory that it was; put it back or mount anew",
		     history->log.table, history->log.table);
	r = set_damage(history, &why, error);
	if (history->damaged) {
		pthread_rwlock_wrlock(&history->lock);
		history->replaced = true;
		pthread_rwlock_unlock(&history->lock);
	}
	return r;
}

/* ---- Following the log --------------------------------------------------------------------- */

static void stop_prefetch(tdl__prefetch **prefetch)
{
	tdl__prefetch_stop(*prefetch);
}

/* A walk along the log. A commit is replayed only when the one behind it was read: that one may
 * say that it was built on something else. */
struct walk {
	tdl__history *history;
	tdl__prefetch *prefetch;
	tdl__commit commits[2];
	tdl__commit *pending; /* the one of version `count`, or NULL */
	bool again;	      /* others know of the versions before */
	size_t done;
};

static int read_next(struct walk *walk, int64_t version, tdl__commit *commit, tdl_error *why)
{
	const tdl__log *log = &walk->history->log;

	tdl__commit_clear(commit);
	/* So many at once are rarely all. */
	if (walk->done++ == FEW)
		walk->prefetch = tdl__prefetch_start(log, version);
	if (walk->prefetch && tdl__prefetch_take(walk->prefetch, version, commit))
		return 0;
	return tdl__log_read(log, version, commit, why);
}

/* Whether the commit before `version` still is the one that was read. 1: yes; 0: of the pending
 * one it is not, so it is read again. */
static int check_before(struct walk *walk, int64_t version, tdl_error *error)
{
	tdl__history *history = walk->history;
	tdl_error why;
	int r;

	if (!walk->again || walk->done > FEW)
		return 1;
	if (walk->pending) {
		uint32_t stamp = walk->pending->stamp;

		r = tdl__log_compare(&history->log, version - 1, walk->pending->file_crc, false,
				     &stamp, &why);
		return r == 0 ? 0 : 1;
	}
	r = is_as_replayed(history, version - 1, &why);
	if (r == 0)
		return set_rewritten(history, version - 1, error);
	if (r < 0 && error)
		*error = why;
	return r;
}

/* Whether a commit was built on what was read before it. */
static int check_chain(struct walk *walk, int64_t version, const tdl__commit *commit,
		       tdl_error *error)
{
	tdl__history *history = walk->history;
	tdl_error why;

	if (!commit->chained || version == 0)
		return 0;
	if (walk->pending) {
		if (commit->previous == (int64_t)walk->pending->file_crc)
			return 0;
		tdl__fail_at(&why, TDL_ERR_CORRUPT, version - 1, 0, 0,
			     "version %" PRId64 " of %s is damaged: version %" PRId64
			     " was built on another one",
			     version - 1, history->log.table, version);
		return set_damage(history, &why, error);
	}
	if (commit->previous == (int64_t)history->versions[version - 1].crc)
		return 0;
	return set_rewritten(history, version - 1, error);
}

static int replay_pending(struct walk *walk, tdl_error *error)
{
	tdl__history *history = walk->history;
	tdl_error why, whole;
	int r;

	if (!walk->pending)
		return 0;
	pthread_rwlock_wrlock(&history->lock);
	r = tdl__replay(history, walk->pending, &why);
	pthread_rwlock_unlock(&history->lock);
	walk->pending = NULL;
	if (r == 0)
		return 0;
	if (r != TDL_ERR_CORRUPT)
		return tdl__fail_nomem(error);
	tdl__fail_at(&whole, r, (int64_t)history->count, 0, 0, "version %zu of %s is damaged: %s",
		     history->count, history->log.table, why.message);
	return set_damage(history, &whole, error);
}

static int walk_on(struct walk *walk, tdl_error *error)
{
	tdl__history *history = walk->history;

	for (;;) {
		int64_t version = (int64_t)history->count + (walk->pending != NULL);
		tdl__commit *commit =
			walk->pending == &walk->commits[0] ? &walk->commits[1] : &walk->commits[0];
		tdl_error why = { 0 };
		int found = read_next(walk, version, commit, &why), r;

		r = version > 0 ? check_before(walk, version, error) : 1;
		if (r == 0) {
			walk->pending = NULL;
			continue;
		}
		if (r == 1)
			r = found == 0 ? check_chain(walk, version, commit, error) : 0;
		if (r == 0)
			r = replay_pending(walk, error);
		if (r < 0)
			return r;
		if (found == 0) {
			walk->pending = commit;
			continue;
		}
		if (found == TDL_ERR_CORRUPT || (version > 0 && is_of_the_file(&why) &&
						 tdl__log_is_there(&history->log, version)))
			return set_damage(history, &why, error);
		if (error)
			*error = why;
		return found;
	}
}

/* Reads commits one after the other until there is none. NOT_FOUND is the good end. */
static int follow_log(tdl__history *history, tdl_error *error)
{
	struct walk walk = { .history = history, .again = history->count > 0 };
	int r = walk_on(&walk, error);

	if (walk.done > FEW) {
		pthread_rwlock_wrlock(&history->lock);
		tdl__trim(&history->versions, &history->cap, history->count,
			  sizeof *history->versions);
		tdl__filelist_trim(&history->files);
		pthread_rwlock_unlock(&history->lock);
	}
	stop_prefetch(&walk.prefetch);
	tdl__commit_free(&walk.commits[0]);
	tdl__commit_free(&walk.commits[1]);
	return r;
}

/* The end of the log by its listing: it may have gone on since, or end in a gap. */
static int check_gap(tdl__history *history, tdl_error *error)
{
	for (;;) {
		int64_t *versions CLEANUP(tdl__free_at) = NULL;
		int64_t head = (int64_t)history->count - 1;
		size_t count;
		bool far;
		int r = tdl__log_list(&history->log, head, &versions, &count, &far, error);

		if (r < 0)
			return r;
		history->listed = true;
		if (count == 0)
			return far ? gap(history, TDL__FAR_VERSION, error) : 0;
		if (versions[0] != head + 1)
			return gap(history, versions[0], error);
		r = follow_log(history, error);
		if (r != TDL_ERR_NOT_FOUND)
			return r;
		/* Listed, not found, and nothing was added: it went away again. */
		if (history->count == (size_t)head + 1)
			return 0;
	}
}

static int refresh(tdl__history *history, bool listed, tdl_error *error)
{
	bool first = history->count == 0, again = history->damaged;
	int r;

	if (is_replaced(history))
		return set_replaced(history, error);
	if (again && still_damaged(history)) {
		if (error)
			*error = history->damage;
		return TDL_ERR_CORRUPT;
	}
	r = follow_log(history, error);
	if (r == TDL_ERR_NOT_FOUND)
		r = first || again || listed ? check_gap(history, error) : 0;
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

static int probe_gap(tdl__history *history, tdl_error *error)
{
	int64_t head = (int64_t)history->count - 1, found;
	struct timespec changed;
	bool there = true;
	bool own = history->own && last_change(history, &changed) &&
		   changed.tv_sec == history->changed.tv_sec &&
		   changed.tv_nsec == history->changed.tv_nsec;
	int r = tdl__log_probe_past_gap(&history->log, head, own ? &history->turn : NULL, &found,
					error);

	/* What is past the gap may just have been committed, with all that lies between. */
	if (r == 0 && found >= 0)
		r = tdl__log_probe(&history->log, head + 1, &there, error);
	return r == 0 && !there ? gap(history, found, error) : r;
}

int tdl__history_probe_gap(tdl__history *history, tdl_error *error)
{
	int r;

	pthread_mutex_lock(&history->refreshing);
	r = probe_gap(history, error);
	pthread_mutex_unlock(&history->refreshing);
	return r;
}

/* Whether versions are all that follow the head, one behind the other. */
static bool are_next(const int64_t *versions, size_t count, int64_t head)
{
	return count == 0 || versions[count - 1] == head + (int64_t)count;
}

/* With the listing mutex held. */
static int list_log(tdl__history *history, tdl_error *error)
{
	int64_t *versions CLEANUP(tdl__free_at) = NULL;
	int64_t head;
	size_t count;
	bool listed, far;
	int r;

	pthread_mutex_lock(&history->refreshing);
	listed = history->listed;
	head = (int64_t)history->count - 1;
	pthread_mutex_unlock(&history->refreshing);
	if (listed)
		return 0;
	/* It takes a while, and others want to look for commits meanwhile. */
	r = tdl__log_list(&history->log, head, &versions, &count, &far, error);
	if (r < 0)
		return r;
	pthread_mutex_lock(&history->refreshing);
	if (!far && are_next(versions, count, head))
		history->listed = true;
	else
		r = check_gap(history, error);
	pthread_mutex_unlock(&history->refreshing);
	return r;
}

int tdl__history_list_once(tdl__history *history, tdl_error *error)
{
	int r;

	/* Whoever comes while another lists needs no listing of his own. */
	pthread_mutex_lock(&history->listing);
	r = list_log(history, error);
	pthread_mutex_unlock(&history->listing);
	return r;
}

int tdl__history_find_gap(tdl__history *history, tdl_error *error)
{
	int r = tdl__history_list_once(history, error);

	return r == 0 ? tdl__history_probe_gap(history, error) : r;
}

/* ---- What is known ------------------------------------------------------------------------- */

int tdl__no_such_version(tdl_error *error, int64_t version, const char *table, int64_t head)
{
	return tdl__fail_at(error, TDL_ERR_NOT_FOUND, version, 0, 0,
			    "no such version: %" PRId64 " (%s has 0 to %" PRId64 ")", version,
			    table, head);
}

/* With the read lock held. */
static int check_version(tdl__history *history, int64_t *version, tdl_error *error)
{
	int64_t head = (int64_t)history->count - 1;

	if (*version == TDL_LATEST && !history->damaged)
		*version = head;
	if (*version >= 0 && *version <= head)
		return 0;
	if (history->damaged &&
	    (*version == TDL_LATEST || *version == head + 1 ||
	     (history->rewritten && *version > head && *version < (int64_t)history->shown) ||
	     (*version > head && history->past_gap_count > 0 &&
	      *version <= history->past_gap[history->past_gap_count - 1]))) {
		if (error)
			*error = history->damage;
		return TDL_ERR_CORRUPT;
	}
	return tdl__no_such_version(error, *version, history->log.table, head);
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
			.time = tdl__history_time(history, (size_t)version),
			.read_version = at->read_version,
			.operation = history->operations[at->operation],
			.files = at->files,
			.num_records = tdl__filelist_rows(&history->files, at->list, at->files),
			.bytes = tdl__filelist_bytes(&history->files, at->list, at->files),
			.schema = meta->schema,
			.table_id = meta->table_id,
		};
		if (!meta->schema)
			r = tdl__fail_at(error, TDL_ERR_CORRUPT, version, 0, 0,
					 "version %" PRId64
					 " of %s: the log has no metaData up to it",
					 version, history->log.table);
	}
	pthread_rwlock_unlock(&history->lock);
	return r;
}

/* How many versions are not later than `instant`. With the read lock held. */
static size_t count_until(const tdl__history *history, int64_t instant)
{
	return tdl__lower_bound(history->count, i, tdl__history_time(history, i) <= instant);
}

int tdl__history_at(tdl__history *history, int64_t instant, int64_t now, int64_t *version,
		    tdl_error *error)
{
	char asked[TDL__INSTANT_MAX], near[TDL__INSTANT_MAX];
	size_t count;
	int r = 0;

	tdl__instant_format(asked, instant);
	pthread_rwlock_rdlock(&history->lock);
	count = count_until(history, instant);
	if (instant > now) {
		r = tdl__fail(error, TDL_ERR_NOT_FOUND,
			      "no version of %s at %s: it lies in the future", history->log.table,
			      asked);
	} else if (count == 0) {
		tdl__instant_format(near, tdl__history_time(history, 0));
		r = tdl__fail(error, TDL_ERR_NOT_FOUND,
			      "no version of %s at %s: version 0 is of %s", history->log.table,
			      asked, near);
	} else if (count == history->count && history->damaged) {
		if (error)
			*error = history->damage;
		r = TDL_ERR_CORRUPT;
	} else if (count < history->count && tdl__history_time(history, count) > now) {
		/* Its clock was ahead: what it was at that time nobody can say. */
		tdl__instant_format(near, tdl__history_time(history, count));
		r = tdl__fail_at(error, TDL_ERR_NOT_FOUND, (int64_t)count, 0, 0,
				 "no version of %s at %s for certain: version %zu is dated %s, "
				 "which lies in the future",
				 history->log.table, asked, count, near);
	} else {
		*version = (int64_t)count - 1;
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
