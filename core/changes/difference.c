/* SPDX-License-Identifier: MIT */
/*
 * Two versions' data files, side by side. Knows the lists of the history; opens no file.
 */
#include "changes/difference.h"

#include <inttypes.h>
#include <stdlib.h>

#include "error.h"
#include "table/snapshot.h"
#include "util/search.h"
#include "util/util.h"

void tdl__difference_free(tdl__difference *difference)
{
	free(difference->removed);
	free(difference->added);
	*difference = (tdl__difference){ 0 };
}

/* A live file of the version before. */
struct live {
	uint64_t hash; /* of its name */
	uint64_t nth;
	bool stays;
};

static int compare_live(const void *left, const void *right)
{
	const struct live *a = left, *b = right;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return a->nth < b->nth ? -1 : a->nth > b->nth;
}

static bool same_file(const tdl__filelist *files, uint64_t a, uint64_t b)
{
	tdl__file_key left = tdl__filelist_key(files, a), right = tdl__filelist_key(files, b);

	return tdl__file_key_equal(&left, &right) &&
	       tdl__filelist_size(files, a) == tdl__filelist_size(files, b) &&
	       tdl__filelist_records(files, a) == tdl__filelist_records(files, b);
}

static bool add_nth(uint64_t **numbers, size_t *count, size_t *cap, uint64_t nth)
{
	if (!tdl__reserve(numbers, cap, *count + 1, sizeof **numbers))
		return false;
	(*numbers)[(*count)++] = nth;
	return true;
}

/* Finds a file among those of the version before, and marks it. */
static bool find_live(const tdl__filelist *files, struct live *live, size_t count, uint64_t first,
		      uint64_t index)
{
	tdl__file_key key = tdl__filelist_key(files, index);
	uint64_t hash = tdl__file_key_hash(&key);
	size_t low = tdl__lower_bound(count, i, live[i].hash < hash);

	for (; low < count && live[low].hash == hash; low++) {
		if (!live[low].stays && same_file(files, first + live[low].nth, index)) {
			live[low].stays = true;
			return true;
		}
	}
	return false;
}

static int compare_lists(const tdl__filelist *files, uint64_t first_before, uint32_t before,
			 uint64_t first_after, uint32_t after, tdl__difference *difference)
{
	struct live *live CLEANUP(tdl__free_at) = calloc((size_t)before + 1, sizeof *live);
	bool *stays CLEANUP(tdl__free_at) = calloc((size_t)before + 1, sizeof *stays);

	if (!live || !stays)
		return TDL_ERR_NOMEM;
	for (uint32_t i = 0; i < before; i++) {
		tdl__file_key key = tdl__filelist_key(files, first_before + i);

		live[i] = (struct live){ .hash = tdl__file_key_hash(&key), .nth = i };
	}
	qsort(live, before, sizeof *live, compare_live);
	for (uint32_t i = 0; i < after; i++) {
		if (!find_live(files, live, before, first_before, first_after + i) &&
		    !add_nth(&difference->added, &difference->added_count, &difference->added_cap,
			     i))
			return TDL_ERR_NOMEM;
	}
	for (uint32_t i = 0; i < before; i++)
		stays[live[i].nth] = live[i].stays;
	for (uint32_t i = 0; i < before; i++) {
		if (!stays[i] && !add_nth(&difference->removed, &difference->removed_count,
					  &difference->removed_cap, i))
			return TDL_ERR_NOMEM;
	}
	return 0;
}

int tdl__difference_of(tdl_snapshot *before, tdl_snapshot *after, tdl__history *history,
		       tdl__difference *difference, tdl_error *error)
{
	const tdl__filelist *files = &history->files;
	uint32_t list_before, count_before = 0, list, count;
	int r = 0;

	tdl__snapshot_list(after, &list, &count);
	list_before = list;
	if (before)
		tdl__snapshot_list(before, &list_before, &count_before);
	pthread_rwlock_rdlock(&history->lock);
	if (list_before == list) {
		for (uint32_t i = count_before; i < count && r == 0; i++)
			r = add_nth(&difference->added, &difference->added_count,
				    &difference->added_cap, i)
				    ? 0
				    : TDL_ERR_NOMEM;
	} else {
		r = compare_lists(files, files->lists[list_before].first, count_before,
				  files->lists[list].first, count, difference);
	}
	pthread_rwlock_unlock(&history->lock);
	if (r < 0)
		tdl__difference_free(difference);
	return r < 0 ? tdl__fail_nomem(error) : 0;
}

/* ---- What the commit says ------------------------------------------------------------------ */

/* A file of which a commit says so. */
struct quiet {
	uint64_t hash;
	tdl__file_key key; /* borrowed from the commit */
};

static int compare_quiet(const void *left, const void *right)
{
	const struct quiet *a = left, *b = right;

	return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static bool is_quiet(const struct quiet *quiet, size_t count, const tdl__file_key *key)
{
	struct quiet wanted = { .hash = tdl__file_key_hash(key) };
	const struct quiet *at = bsearch(&wanted, quiet, count, sizeof wanted, compare_quiet);

	if (!at)
		return false;
	while (at > quiet && at[-1].hash == wanted.hash)
		at--;
	for (; at < quiet + count && at->hash == wanted.hash; at++) {
		if (tdl__file_key_equal(&at->key, key))
			return true;
	}
	return false;
}

/* Keeps the numbers whose files are not among them. */
static size_t keep_others(const tdl__filelist *files, uint64_t first, uint64_t *numbers, size_t n,
			  const struct quiet *quiet, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		tdl__file_key key = tdl__filelist_key(files, first + numbers[i]);

		if (!is_quiet(quiet, count, &key))
			numbers[kept++] = numbers[i];
	}
	return kept;
}

static int filter(tdl_snapshot *before, tdl_snapshot *after, tdl__history *history,
		  const tdl__commit *commit, tdl__difference *difference, tdl_error *error)
{
	struct quiet *quiet CLEANUP(tdl__free_at) = calloc(commit->count + 1, sizeof *quiet);
	const tdl__filelist *files = &history->files;
	uint32_t list, ignored;
	size_t count = 0;

	if (!quiet)
		return tdl__fail_nomem(error);
	for (size_t i = 0; i < commit->count; i++) {
		const tdl__action *action = &commit->actions[i];

		if (!action->no_change)
			continue;
		quiet[count].key = tdl__file_key_of(tdl__commit_string(commit, action->path));
		quiet[count].hash = tdl__file_key_hash(&quiet[count].key);
		count++;
	}
	if (count == 0)
		return 0;
	qsort(quiet, count, sizeof *quiet, compare_quiet);
	pthread_rwlock_rdlock(&history->lock);
	tdl__snapshot_list(after, &list, &ignored);
	difference->added_count = keep_others(files, files->lists[list].first, difference->added,
					      difference->added_count, quiet, count);
	if (before)
		tdl__snapshot_list(before, &list, &ignored);
	difference->removed_count =
		keep_others(files, files->lists[list].first, difference->removed,
			    difference->removed_count, quiet, count);
	pthread_rwlock_unlock(&history->lock);
	return 0;
}

int tdl__difference_filter(tdl_snapshot *before, tdl_snapshot *after, tdl__history *history,
			   tdl__difference *difference, tdl_error *error)
{
	int64_t version = tdl_snapshot_info(after)->version;
	tdl__commit commit = { 0 };
	uint32_t crc;
	int r = tdl__log_read(&history->log, version, &commit, error);

	pthread_rwlock_rdlock(&history->lock);
	crc = history->versions[version].crc;
	pthread_rwlock_unlock(&history->lock);
	if (r == 0 && commit.file_crc != crc)
		r = tdl__fail_at(error, TDL_ERR_CORRUPT, version, 0, 0,
				 "version %" PRId64 " of %s: its commit is not what it was",
				 version, history->log.table);
	if (r == 0)
		r = filter(before, after, history, &commit, difference, error);
	tdl__commit_free(&commit);
	return r;
}
