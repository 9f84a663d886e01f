/* SPDX-License-Identifier: MIT */
/*
 * What a version changed, as text: which rows it took away and which it added, in the order of
 * Delta Lake's change data. Reads data files through the versions they are in; what their rows say
 * is not looked at.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changes/difference.h"
#include "changes/splice.h"
#include "error.h"
#include "row/schema.h"
#include "table/snapshot.h"
#include "util/search.h"
#include "util/util.h"

/* In the order in which they stand in what is read. */
enum change {
	CHANGE_DELETE,
	CHANGE_INSERT,
	CHANGE_COUNT
};

static const char *const change_names[CHANGE_COUNT] = { "delete", "insert" };

/* Longest: the name of a type, a version and a time of 20 digits each. */
#define TEXT_MAX 128

/* A data file that was added or removed. */
struct part {
	enum change change;
	bool lacks_newline;
	uint64_t index;	 /* in its version */
	uint64_t offset; /* of its first byte in what is read */
};

struct tdl_changes {
	atomic_uint refs;
	tdl_table *table;
	tdl_snapshot *after, *before; /* before: NULL for version 0 */
	int64_t version;
	char texts[CHANGE_COUNT][TEXT_MAX];
	struct part *parts;
	size_t count;
	uint64_t size;
	pthread_mutex_t lock;
	tdl__splice *splice; /* under the lock: of part `open`; or NULL */
	size_t open;
};

static tdl_snapshot *snapshot_of(const tdl_changes *changes, const struct part *part)
{
	return part->change == CHANGE_DELETE ? changes->before : changes->after;
}

static const char *const reserved[] = { "_change_type", "_commit_version", "_commit_timestamp" };

/* A column of the table's by one of these names could not be told from what is put in. */
static int check_columns(tdl_table *table, tdl_error *error)
{
	tdl__history *history = &table->history;
	int r = 0;

	pthread_rwlock_rdlock(&history->lock);
	for (size_t i = 0; i < history->meta_count && r == 0; i++) {
		const tdl_schema *schema = history->metas[i]->schema;

		for (size_t k = 0; k < sizeof reserved / sizeof *reserved && r == 0; k++) {
			if (schema &&
			    tdl__schema_find(schema, reserved[k], strlen(reserved[k])) >= 0)
				r = tdl__fail(
					error, TDL_ERR_UNSUPPORTED,
					"%s has or had a column \"%s\", so its changes cannot "
					"be written as rows",
					table->path, reserved[k]);
		}
	}
	pthread_rwlock_unlock(&history->lock);
	return r;
}

static int in_file(const tdl_changes *changes, const struct part *part, int r, const tdl_error *why,
		   tdl_error *error)
{
	tdl_file *file;

	if (r == TDL_ERR_NOMEM)
		return tdl__fail_nomem(error);
	if (r != TDL_ERR_CORRUPT || why->version >= 0 || !error) {
		if (error)
			*error = *why;
		return r;
	}
	/* The path is long: not on the stack. */
	file = malloc(sizeof *file);
	if (!file)
		return tdl__fail_nomem(error);
	r = tdl_snapshot_file_entry(snapshot_of(changes, part), part->index, file, error);
	if (r == 0)
		r = tdl__fail_at(error, TDL_ERR_CORRUPT, changes->version, 0, 0,
				 "changes of version %" PRId64 ": data file %s/%s: %s",
				 changes->version, changes->table->path, file->path, why->message);
	free(file);
	return r;
}

/* ---- Which data files ---------------------------------------------------------------------- */

static int read_part(void *context, void *buffer, size_t n, uint64_t offset, tdl_error *error)
{
	const tdl_changes *changes = context;
	const struct part *part = &changes->parts[changes->open];
	size_t got;

	return tdl_snapshot_read_file(snapshot_of(changes, part), part->index, buffer, n, offset,
				      &got, error);
}

static int source_of(tdl_changes *changes, const struct part *part, tdl__splice_source *source,
		     tdl_error *error)
{
	tdl_snapshot *snapshot = snapshot_of(changes, part);
	tdl_file *file = malloc(sizeof *file);
	const char *text = changes->texts[part->change];
	int r;

	if (!file)
		return tdl__fail_nomem(error);
	r = tdl_snapshot_file_entry(snapshot, part->index, file, error);
	if (r == 0)
		*source = (tdl__splice_source){
			.read = read_part,
			.context = changes,
			.block = TDL__BLOCK,
			.size = file->size,
			.rows = file->num_records,
			.lacks_newline = part->lacks_newline,
			.newlines = tdl__snapshot_sums(snapshot, part->index).rows,
			.text = text,
			.text_length = strlen(text),
		};
	free(file);
	return r;
}

static int add_part(tdl_changes *changes, enum change change, uint64_t index, tdl_error *error)
{
	struct part part = { .change = change, .index = index, .offset = changes->size };
	tdl__splice_source source;
	uint64_t size;
	int r = tdl__snapshot_lacks_newline(snapshot_of(changes, &part), index, &part.lacks_newline,
					    error);

	if (r == 0)
		r = source_of(changes, &part, &source, error);
	if (r < 0)
		return r;
	if (!tdl__splice_size(&source, &size) || size > INT64_MAX - changes->size)
		return tdl__fail_at(error, TDL_ERR_CORRUPT, changes->version, 0, 0,
				    "changes of version %" PRId64 " of %s: more than 2^63 bytes",
				    changes->version, changes->table->path);
	changes->parts[changes->count++] = part;
	changes->size += size;
	return 0;
}

static int find_parts(tdl_changes *changes, tdl_error *error)
{
	tdl__difference difference = { 0 };
	int r = tdl__difference_of(changes->before, changes->after, &changes->table->history,
				   &difference, error);

	if (r == 0)
		r = tdl__difference_filter(changes->before, changes->after,
					   &changes->table->history, &difference, error);
	if (r < 0) {
		tdl__difference_free(&difference);
		return r;
	}
	changes->parts = calloc(difference.removed_count + difference.added_count + 1,
				sizeof *changes->parts);
	if (!changes->parts)
		r = tdl__fail_nomem(error);
	for (size_t i = 0; i < difference.removed_count && r == 0; i++)
		r = add_part(changes, CHANGE_DELETE, difference.removed[i], error);
	for (size_t i = 0; i < difference.added_count && r == 0; i++)
		r = add_part(changes, CHANGE_INSERT, difference.added[i], error);
	tdl__difference_free(&difference);
	return r;
}

/* ---- The changes of a version -------------------------------------------------------------- */

static void free_changes(tdl_changes *changes)
{
	tdl__splice_free(changes->splice);
	tdl_snapshot_unref(changes->after);
	tdl_snapshot_unref(changes->before);
	tdl_table_free(changes->table);
	free(changes->parts);
	pthread_mutex_destroy(&changes->lock);
	free(changes);
}

static int prepare_version(tdl_changes *changes, int64_t version, tdl_error *error)
{
	int r = tdl_snapshot_open(changes->table, version, &changes->after, error);
	const tdl_version_info *info;

	if (r < 0)
		return r;
	info = tdl_snapshot_info(changes->after);
	changes->version = info->version;
	if (info->version > 0)
		r = tdl_snapshot_open(changes->table, info->version - 1, &changes->before, error);
	if (r == 0)
		r = check_columns(changes->table, error);
	if (r < 0)
		return r;
	for (int i = 0; i < CHANGE_COUNT; i++)
		snprintf(changes->texts[i], TEXT_MAX,
			 "\"_change_type\":\"%s\",\"_commit_version\":%" PRId64
			 ",\"_commit_timestamp\":%" PRId64 ",",
			 change_names[i], info->version, info->time);
	return find_parts(changes, error);
}

int tdl_changes_open(tdl_table *table, int64_t version, tdl_changes **out, tdl_error *error)
{
	tdl_changes *changes = calloc(1, sizeof *changes);
	int r;

	if (!changes)
		return tdl__fail_nomem(error);
	atomic_init(&changes->refs, 1);
	pthread_mutex_init(&changes->lock, NULL);
	changes->table = table;
	tdl__table_ref(table);
	r = prepare_version(changes, version, error);
	if (r < 0)
		free_changes(changes);
	else
		*out = changes;
	return r;
}

tdl_changes *tdl_changes_ref(tdl_changes *changes)
{
	atomic_fetch_add_explicit(&changes->refs, 1, memory_order_relaxed);
	return changes;
}

void tdl_changes_unref(tdl_changes *changes)
{
	if (changes && atomic_fetch_sub_explicit(&changes->refs, 1, memory_order_acq_rel) == 1)
		free_changes(changes);
}

int64_t tdl_changes_version(const tdl_changes *changes)
{
	return changes->version;
}

uint64_t tdl_changes_size(const tdl_changes *changes)
{
	return changes->size;
}

static uint64_t end_of(const tdl_changes *changes, size_t nth)
{
	return nth + 1 < changes->count ? changes->parts[nth + 1].offset : changes->size;
}

/* The part that holds the byte at an offset. */
static size_t part_at(const tdl_changes *changes, uint64_t offset)
{
	return tdl__lower_bound(changes->count, i, end_of(changes, i) <= offset);
}

/* With the lock held. */
static int read_from(tdl_changes *changes, size_t nth, void *buffer, size_t n, uint64_t offset,
		     tdl_error *error)
{
	const struct part *part = &changes->parts[nth];
	tdl__splice_source source;
	tdl_error why = { .version = -1 };
	int r = 0;

	if (!changes->splice || changes->open != nth) {
		tdl__splice_free(changes->splice);
		changes->splice = NULL;
		changes->open = nth;
		r = source_of(changes, part, &source, &why);
		if (r == 0)
			r = tdl__splice_new(&source, &changes->splice, &why);
	}
	if (r == 0)
		r = tdl__splice_read(changes->splice, buffer, n, offset - part->offset, &why);
	return r < 0 ? in_file(changes, part, r, &why, error) : 0;
}

int tdl_changes_read(tdl_changes *changes, void *buffer, size_t count, uint64_t offset, size_t *got,
		     tdl_error *error)
{
	size_t done = 0;

	if (offset >= changes->size)
		count = 0;
	else if (count > changes->size - offset)
		count = (size_t)(changes->size - offset);
	while (done < count) {
		size_t nth = part_at(changes, offset + done);
		uint64_t left = end_of(changes, nth) - (offset + done);
		size_t n = left < count - done ? (size_t)left : count - done;
		int r;

		pthread_mutex_lock(&changes->lock);
		r = read_from(changes, nth, (char *)buffer + done, n, offset + done, error);
		pthread_mutex_unlock(&changes->lock);
		if (r < 0)
			return r;
		done += n;
	}
	*got = done;
	return 0;
}
