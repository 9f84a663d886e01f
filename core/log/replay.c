/* SPDX-License-Identifier: MIT */
/*
 * Replaying: what a commit's actions make of the version before. Knows actions and their order;
 * finding commits and locking the history are its caller's.
 */
#include "log/replay.h"

#include <string.h>

#include "error.h"
#include "log/record.h"
#include "row/schema.h"

/* ---- The newest list by key ---------------------------------------------------------------- */

static const uint32_t nowhere = UINT32_MAX;

/*
 * The slot for a key: 0, or 1 + the position of a file with that name. While a commit is worked
 * out, `names` says where the name of each position is in the array; else the positions are those
 * of the newest list.
 * Not a tdl__hashmap, which takes four times the memory: there may be a million files.
 */
static uint32_t *position_slot(const tdl__history *history, const uint64_t *names,
			       const tdl__file_key *key)
{
	uint64_t first = history->files.lists[history->files.list_count - 1].first;
	size_t mask = history->slot_count - 1, at = tdl__file_key_hash(key) & mask;

	for (;; at = (at + 1) & mask) {
		uint32_t position = history->slots[at];
		tdl__file_key other;

		if (position == 0)
			return &history->slots[at];
		other = tdl__filelist_key(&history->files,
					  names ? names[position - 1] : first + position - 1);
		if (tdl__file_key_equal(&other, key))
			return &history->slots[at];
	}
}

static void free_slots(tdl__history *history)
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
	if (!slots)
		return false;
	free(history->slots);
	history->slots = slots;
	history->slot_count = want;
	for (uint32_t i = 0; i < count; i++) {
		tdl__file_key key = tdl__filelist_key(&history->files, first + i);

		*position_slot(history, NULL, &key) = i + 1;
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

/* A file never changes: where an add does not say what its bytes are, what an earlier one of the
 * same file said holds. */
static bool add_action(tdl__history *history, const tdl__commit *commit, const tdl__file_key *key,
		       const tdl__action *action)
{
	tdl__filelist *files = &history->files;
	tdl__sums sums = tdl__action_sums(commit, action);
	uint64_t known = UINT64_MAX;

	if (!sums.has_crc && !tdl__filelist_find_sums(files, key, action->size, &known))
		return false;
	if (known != UINT64_MAX)
		return tdl__filelist_add_again(files, known, action->num_records);
	return tdl__filelist_add(files, key, action->size, action->num_records, &sums);
}

/* Whether a commit leaves the live files as they are, but for new ones behind them: almost every
 * one does. A file that is added twice by it is found by extend(). */
static bool only_extends(const tdl__history *history, const tdl__commit *commit)
{
	for (size_t i = 0; i < commit->count; i++) {
		tdl__file_key key = action_key(commit, &commit->actions[i]);

		if (*position_slot(history, NULL, &key) != 0)
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
		uint32_t *slot = position_slot(history, NULL, &key);

		if (*slot != 0)
			r = 0;
		else if (!action->is_add)
			continue;
		else if (!fits(bytes, action->size) || !fits(rows, action->num_records))
			r = too_much(error);
		else if (!add_action(history, commit, &key, action))
			r = tdl__fail_nomem(error);
		else
			*slot = ++count;
		bytes += action->size;
		rows += action->num_records;
	}
	if (r == 1) {
		version->files = count;
		tdl__filelist_resolve_eol(files, list, count);
	} else {
		tdl__filelist_cut(files, before);
		free_slots(history);
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
		uint32_t *slot = position_slot(history, work->names, &key);
		uint64_t added = history->files.count;

		if (!action->is_add) {
			if (*slot != 0)
				work->sources[*slot - 1] = DEAD;
			continue;
		}
		if (!add_action(history, commit, &key, action))
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
	if (!in_place && files->count + live > history->copies_max)
		return tdl__fail(error, TDL_ERR_CORRUPT,
				 "too many commits that remove a few of many files");
	if (!tdl__filelist_start(files))
		return tdl__fail_nomem(error);
	if (in_place)
		files->lists[files->list_count - 1].first = before;
	for (uint32_t i = 0; i < work->count && !in_place; i++) {
		uint64_t source = work->sources[i];

		if (source == DEAD)
			continue;
		if (!tdl__filelist_add_again(files, source, tdl__filelist_records(files, source))) {
			files->list_count--;
			return tdl__fail_nomem(error);
		}
	}
	version->list = (uint32_t)files->list_count - 1;
	version->files = live;
	tdl__filelist_resolve_eol(files, version->list, live);
	return 0;
}

/* A commit that removes or updates: the live files get a list of their own. */
static int replace(tdl__history *history, const tdl__commit *commit, tdl__version *version,
		   tdl_error *error)
{
	uint64_t first = history->files.lists[version->list].first;
	size_t room = version->files + commit->count, before = history->files.count;
	uint64_t *names CLEANUP(tdl__free_at) = calloc(room + 1, sizeof *names);
	uint64_t *sources CLEANUP(tdl__free_at) = calloc(room + 1, sizeof *sources);
	struct work work = { names, sources, version->files };
	int r;

	if (!names || !sources)
		return tdl__fail_nomem(error);
	for (uint32_t i = 0; i < version->files; i++)
		names[i] = sources[i] = first + i;
	r = work_out(history, commit, &work, error);
	if (r == 0)
		r = start_list(history, &work, before, version, error);
	if (r < 0)
		tdl__filelist_cut(&history->files, before);
	free_slots(history);
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
	if (!copy || !tdl__reserve(&history->operations, &history->operation_cap,
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
	const char *id = commit->schema ? tdl__commit_string(commit, commit->table_id) : "";
	tdl__meta *meta = calloc(1, sizeof *meta);

	if (meta)
		meta->table_id = strdup(id);
	if (!meta || !meta->table_id ||
	    !tdl__reserve(&history->metas, &history->meta_cap, history->meta_count + 1,
			  sizeof meta)) {
		if (meta)
			free(meta->table_id);
		free(meta);
		return TDL_ERR_NOMEM;
	}
	if (commit->schema) {
		meta->json = tdl__schema_json(commit->schema, &meta->length);
		if (!meta->json) {
			free(meta->table_id);
			free(meta);
			return TDL_ERR_NOMEM;
		}
	}
	meta->schema = tdl__steal(commit->schema);
	history->metas[history->meta_count++] = meta;
	return 0;
}

/* Where a version's record ends in history.jsonl. One that no columns are known of has none. */
static uint64_t record_end(const tdl__history *history, const tdl__commit *commit,
			   const tdl__version *version)
{
	const tdl__filelist *files = &history->files;
	const tdl__meta *meta = history->metas[version->meta];
	uint64_t before = history->count > 0 ? history->versions[history->count - 1].record_end : 0;
	tdl__record record = {
		.version = (int64_t)history->count,
		.timestamp = version->timestamp,
		.read_version = version->read_version,
		.operation = history->operations[version->operation],
		.files = version->files,
		.rows = tdl__filelist_rows(files, version->list, version->files),
		.bytes = tdl__filelist_bytes(files, version->list, version->files),
		.schema = { meta->json, meta->length },
	};

	return !meta->schema ? before : before + tdl__record_length(&record, commit->others);
}

int tdl__replay(tdl__history *history, tdl__commit *commit, tdl_error *error)
{
	tdl__version version = { .timestamp = commit->timestamp,
				 .read_version = commit->read_version,
				 .crc = commit->file_crc,
				 .stamp = commit->stamp };
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
	if (commit->schema || history->meta_count == 0) {
		if (tdl__history_add_meta(history, commit) < 0)
			return tdl__fail_nomem(error);
		version.meta = (uint32_t)history->meta_count - 1;
	}
	if (!tdl__reserve(&history->versions, &history->cap, history->count + 1, sizeof version) ||
	    intern_operation(history, tdl__commit_string(commit, commit->operation),
			     &version.operation) < 0 ||
	    !tdl__times_reserve(&history->times) ||
	    !ensure_slots(history, version.files, commit->count))
		return tdl__fail_nomem(error);
	r = only_extends(history, commit) ? extend(history, commit, &version, error) : 0;
	if (r == 0 && !ensure_slots(history, version.files, commit->count))
		return tdl__fail_nomem(error);
	if (r == 0)
		r = replace(history, commit, &version, error);
	if (r < 0)
		return r;
	if (history->count > 0)
		tdl__times_add(&history->times, history->count,
			       tdl__history_time(history, history->count - 1), version.timestamp);
	version.record_end = record_end(history, commit, &version);
	history->versions[history->count++] = version;
	return 0;
}

int tdl__replay_check(const tdl_version_info *base, bool keeps, const tdl__commit *commit,
		      tdl_error *error)
{
	uint64_t bytes = keeps ? base->bytes : 0, rows = keeps ? base->num_records : 0;

	if (base->files + commit->count >= nowhere - 1)
		return too_much(error);
	for (size_t i = 0; i < commit->count; i++) {
		const tdl__action *action = &commit->actions[i];

		if (!action->is_add)
			continue;
		if (!fits(bytes, action->size) || !fits(rows, action->num_records))
			return too_much(error);
		bytes += action->size;
		rows += action->num_records;
	}
	return 0;
}
