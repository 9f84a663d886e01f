/* SPDX-License-Identifier: MIT */
/*
 * Replaying the log into versions. Knows actions and their order; files on disk other than
 * commits do not concern it.
 */
#include "history.h"

#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "schema.h"
#include "sys.h"

int tdl__history_init(tdl__history *history, tdl__log log, tdl_error *error)
{
	pthread_rwlockattr_t attr;

	*history = (tdl__history){ .log = log };
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

/* ---- The newest list by key ---------------------------------------------------------------- */

static const uint32_t nowhere = UINT32_MAX;

/*
 * The slot for a key: 0, or 1 + the position of a file with that name. While a commit is worked
 * out, `names` says where the name of each position is in the array; else the positions are those
 * of the newest list.
 */
static uint32_t *slot_of(const tdl__history *history, const uint64_t *names,
			 const tdl__file_key *key)
{
	uint64_t first = history->files.lists[history->files.list_count - 1].first;
	size_t mask = history->slot_count - 1, at = tdl__file_key_hash(key) & mask;

	for (;; at = (at + 1) & mask) {
		uint32_t position = history->slots[at];
		tdl__file_key other;

		if (position == 0)
			return &history->slots[at];
		other = tdl__filelist_key(&history->files, names != NULL ? names[position - 1]
									 : first + position - 1);
		if (tdl__file_key_equal(&other, key))
			return &history->slots[at];
	}
}

static void drop_slots(tdl__history *history)
{
	free(history->slots);
	history->slots = NULL;
	history->slot_count = 0;
}

/* Makes sure that the slots are those of the newest list, which has `count` files, and have room
 * for `more`. */
static bool ensure_slots(tdl__history *history, uint32_t count, size_t more)
{
	uint64_t first = history->files.lists[history->files.list_count - 1].first;
	size_t want = 64;
	uint32_t *slots;

	if (count + more < history->slot_count / 4 * 3)
		return true;
	/* Twice what is needed, unless that is a waste worth avoiding. */
	while (want / 4 * 3 <= count + more)
		want *= 2;
	slots = calloc(want, sizeof *slots);
	if (slots == NULL)
		return false;
	free(history->slots);
	history->slots = slots;
	history->slot_count = want;
	for (uint32_t i = 0; i < count; i++) {
		tdl__file_key key = tdl__filelist_key(&history->files, first + i);

		*slot_of(history, NULL, &key) = i + 1;
	}
	return true;
}

/* ---- Applying a commit --------------------------------------------------------------------- */

static int too_much(tdl_error *error)
{
	return tdl__fail(error, TDL_ERR_CORRUPT,
			 "more than 2^32 files, 2^63 bytes or 2^63 rows in one version");
}

static bool fits(uint64_t sum, uint64_t more)
{
	return more <= (uint64_t)INT64_MAX && sum <= (uint64_t)INT64_MAX - more;
}

static tdl__file_key action_key(const tdl__commit *commit, const tdl__action *action)
{
	return tdl__file_key_of(tdl__commit_string(commit, action->path));
}

static bool add_action(tdl__history *history, const tdl__file_key *key, const tdl__action *action)
{
	return tdl__filelist_add(&history->files, key, action->size, action->num_records,
				 action->crc, action->has_crc ? TDL__FILE_HAS_CRC : 0);
}

/* Whether a commit leaves the live files as they are, but for new ones behind them: almost every
 * one does. A file that is added twice by it is found by extend(). */
static bool only_extends(const tdl__history *history, const tdl__commit *commit)
{
	for (size_t i = 0; i < commit->count; i++) {
		tdl__file_key key = action_key(commit, &commit->actions[i]);

		if (*slot_of(history, NULL, &key) != 0)
			return false;
	}
	return true;
}

/*
 * Makes the newest list longer. 1: done; 0: the commit does more than that (nothing changed);
 * negative: failed (nothing changed).
 */
static int extend(tdl__history *history, const tdl__commit *commit, tdl__version *version,
		  tdl_error *error)
{
	tdl__filelist *files = &history->files;
	size_t list = files->list_count - 1, before = files->count;
	uint64_t bytes = tdl__filelist_bytes(files, list, version->files);
	uint64_t rows = tdl__filelist_rows(files, list, version->files);
	uint32_t count = version->files;
	int r = 1;

	for (size_t i = 0; i < commit->count && r == 1; i++) {
		const tdl__action *action = &commit->actions[i];
		tdl__file_key key = action_key(commit, action);
		uint32_t *slot = slot_of(history, NULL, &key);

		if (*slot != 0)
			r = 0;
		else if (!action->is_add)
			continue;
		else if (!fits(bytes, action->size) || !fits(rows, action->num_records))
			r = too_much(error);
		else if (!add_action(history, &key, action))
			r = tdl__fail_nomem(error);
		else
			*slot = ++count;
		bytes += action->size;
		rows += action->num_records;
	}
	if (r == 1) {
		version->files = count;
		tdl__filelist_settle(files, list, count);
	} else {
		tdl__filelist_cut(files, before);
		drop_slots(history);
	}
	return r;
}

#define DEAD UINT64_MAX

/* The live files while a commit is worked out, by position: where in the array the name of each
 * is, and where what is now known of it (DEAD: removed). */
struct work {
	uint64_t *names, *sources;
	uint32_t count;
};

static int work_out(tdl__history *history, const tdl__commit *commit, struct work *work,
		    tdl_error *error)
{
	for (size_t i = 0; i < commit->count; i++) {
		const tdl__action *action = &commit->actions[i];
		tdl__file_key key = action_key(commit, action);
		uint32_t *slot = slot_of(history, work->names, &key);
		uint64_t added = history->files.count;

		if (!action->is_add) {
			if (*slot != 0)
				work->sources[*slot - 1] = DEAD;
			continue;
		}
		if (!add_action(history, &key, action))
			return tdl__fail_nomem(error);
		if (*slot != 0 && work->sources[*slot - 1] != DEAD) {
			work->sources[*slot - 1] = added;
			continue;
		}
		/* New, or removed before: at the end. */
		work->names[work->count] = added;
		work->sources[work->count] = added;
		*slot = ++work->count;
	}
	return 0;
}

/* Starts a list of the live files. Where they are just what the commit added, they are in the
 * array already (an overwrite); else copies go behind it. */
static int start_list(tdl__history *history, const struct work *work, size_t before,
		      tdl__version *version, tdl_error *error)
{
	tdl__filelist *files = &history->files;
	uint64_t bytes = 0, rows = 0, next = before;
	bool in_place = true;
	uint32_t live = 0;

	for (uint32_t i = 0; i < work->count; i++) {
		uint64_t source = work->sources[i], size, records;

		if (source == DEAD)
			continue;
		live++;
		in_place = in_place && source == next++;
		size = tdl__filelist_size(files, source);
		records = tdl__filelist_records(files, source);
		if (!fits(bytes, size) || !fits(rows, records))
			return too_much(error);
		bytes += size;
		rows += records;
	}
	in_place = in_place && next == files->count;
	if (!tdl__filelist_start(files))
		return tdl__fail_nomem(error);
	if (in_place)
		files->lists[files->list_count - 1].first = before;
	for (uint32_t i = 0; i < work->count && !in_place; i++) {
		uint64_t source = work->sources[i];
		tdl__file_key key;

		if (source == DEAD)
			continue;
		key = tdl__filelist_key(files, source);
		if (!tdl__filelist_add(files, &key, tdl__filelist_size(files, source),
				       tdl__filelist_records(files, source), files->crcs[source],
				       files->flags[source])) {
			files->list_count--;
			return tdl__fail_nomem(error);
		}
	}
	version->list = (uint32_t)files->list_count - 1;
	version->files = live;
	tdl__filelist_settle(files, version->list, live);
	return 0;
}

/* A commit that removes or updates: the live files get a list of their own. */
static int replace(tdl__history *history, const tdl__commit *commit, tdl__version *version,
		   tdl_error *error)
{
	uint64_t first = history->files.lists[version->list].first;
	size_t room = version->files + commit->count, before = history->files.count;
	_cleanup_free_ uint64_t *names = calloc(room + 1, sizeof *names);
	_cleanup_free_ uint64_t *sources = calloc(room + 1, sizeof *sources);
	struct work work = { names, sources, version->files };
	int r;

	if (names == NULL || sources == NULL)
		return tdl__fail_nomem(error);
	for (uint32_t i = 0; i < version->files; i++)
		names[i] = sources[i] = first + i;
	r = work_out(history, commit, &work, error);
	if (r == 0)
		r = start_list(history, &work, before, version, error);
	if (r < 0)
		tdl__filelist_cut(&history->files, before);
	drop_slots(history);
	return r;
}

static int intern_operation(tdl__history *history, const char *name, uint32_t *at)
{
	char *copy;

	/* The newest are the likeliest; a log of a million different ones must not cost a search
	 * through all. */
	for (size_t i = history->operation_count; i > 0 && i + 64 > history->operation_count; i--) {
		if (strcmp(history->operations[i - 1], name) == 0) {
			*at = (uint32_t)i - 1;
			return 0;
		}
	}
	copy = strdup(name);
	if (copy == NULL || !tdl__reserve(&history->operations, &history->operation_cap,
					  history->operation_count + 1, sizeof copy)) {
		free(copy);
		return TDL_ERR_NOMEM;
	}
	*at = (uint32_t)history->operation_count;
	history->operations[history->operation_count++] = copy;
	return 0;
}

int tdl__history_add_meta(tdl__history *history, tdl__commit *commit)
{
	const char *id = commit->schema != NULL ? tdl__commit_string(commit, commit->table_id) : "";
	tdl__meta *meta = calloc(1, sizeof *meta);

	if (meta != NULL)
		meta->table_id = strdup(id);
	if (meta == NULL || meta->table_id == NULL ||
	    !tdl__reserve(&history->metas, &history->meta_cap, history->meta_count + 1,
			  sizeof meta)) {
		if (meta != NULL)
			free(meta->table_id);
		free(meta);
		return TDL_ERR_NOMEM;
	}
	meta->schema = tdl__steal(commit->schema);
	history->metas[history->meta_count++] = meta;
	return 0;
}

/* Adds the next version. On failure nothing of it is seen. Errors: CORRUPT, NOMEM. */
static int apply(tdl__history *history, tdl__commit *commit, tdl_error *error)
{
	tdl__version version = { .timestamp = commit->timestamp,
				 .read_version = commit->read_version };
	int r;

	if (history->count > 0) {
		const tdl__version *last = &history->versions[history->count - 1];

		version.list = last->list;
		version.files = last->files;
		version.meta = last->meta;
	}
	if (commit->count >= nowhere - 1 - version.files)
		return too_much(error);
	/* All that may fail for memory comes before the files change. */
	if (commit->schema != NULL || history->meta_count == 0) {
		if (tdl__history_add_meta(history, commit) < 0)
			return tdl__fail_nomem(error);
		version.meta = (uint32_t)history->meta_count - 1;
	}
	if (!tdl__reserve(&history->versions, &history->cap, history->count + 1, sizeof version) ||
	    intern_operation(history, tdl__commit_string(commit, commit->operation),
			     &version.operation) < 0 ||
	    !ensure_slots(history, version.files, commit->count))
		return tdl__fail_nomem(error);
	r = only_extends(history, commit) ? extend(history, commit, &version, error) : 0;
	if (r == 0 && !ensure_slots(history, version.files, commit->count))
		return tdl__fail_nomem(error);
	if (r == 0)
		r = replace(history, commit, &version, error);
	if (r < 0)
		return r;
	history->versions[history->count++] = version;
	return 0;
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
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
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

/* Reads commits one after the other until there is none. NOT_FOUND is the good end. */
static int follow(tdl__history *history, tdl__commit *commit, tdl_error *error)
{
	for (;;) {
		int64_t next = (int64_t)history->count;
		tdl_error why = { 0 };
		int r;

		tdl__commit_clear(commit);
		r = tdl__log_read(&history->log, next, commit, &why);
		if (r == 0) {
			pthread_rwlock_wrlock(&history->lock);
			r = apply(history, commit, &why);
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

static int refresh(tdl__history *history, tdl_error *error)
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
		r = first || again ? look_for_gap(history, &commit, error) : 0;
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
	r = refresh(history, error);
	pthread_mutex_unlock(&history->refreshing);
	return r;
}

int tdl__history_find_gap(tdl__history *history, tdl_error *error)
{
	int64_t head, found;
	bool there = true;
	int r;

	pthread_mutex_lock(&history->refreshing);
	head = (int64_t)history->count - 1;
	r = tdl__log_beyond_gap(&history->log, head, &found, error);
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
