/* SPDX-License-Identifier: MIT */
/*
 * Versions as JSON, for people and jq: what history/vN.json and history.jsonl show. Nothing of
 * history.jsonl is kept but where each line ends; a line is written when it is read, from its
 * commit, which must be the one that was replayed.
 */
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "log/record.h"
#include "table/table.h"
#include "util/search.h"

/* A version's line, and where it is in history.jsonl. */
struct line {
	tdl__record record;
	uint32_t crc; /* of its commit file */
	uint64_t begin, end;
};

static int find_line(tdl_table *table, int64_t version, struct line *line, tdl_error *error)
{
	tdl__history *history = &table->history;
	const tdl__meta *meta;
	tdl_version_info info;
	tdl__version at;
	int r = tdl__history_get(history, version, &at, &info, error);

	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&history->lock);
	meta = history->metas[at.meta];
	line->begin = info.version > 0 ? history->versions[info.version - 1].record_end : 0;
	pthread_rwlock_unlock(&history->lock);
	line->end = at.record_end;
	line->crc = at.crc;
	line->record = (tdl__record){
		.version = info.version,
		.timestamp = info.timestamp,
		.read_version = info.read_version,
		.operation = info.operation,
		.files = info.files,
		.rows = info.num_records,
		.bytes = info.bytes,
		.schema = { meta->json, meta->length },
	};
	return 0;
}

/* Adds a line to a text. */
static int add_line(tdl_table *table, const struct line *line, tdl__text *text, tdl_error *error)
{
	char *info CLEANUP(tdl__free_at) = NULL;
	size_t length, before = text->n;
	int r = tdl__log_read_info(&table->history.log, line->record.version, line->crc, &info,
				   &length, error);

	if (r < 0)
		return r;
	tdl__record_write(text, &line->record, (tdl__span){ info, length });
	if (text->failed)
		return tdl__fail_nomem(error);
	/* Else what says where lines end was made of another log. */
	if (text->n - before != line->end - line->begin)
		return tdl__fail_at(error, TDL_ERR_CORRUPT, line->record.version, 0, 0,
				    "version %" PRId64 " of %s is not as long in history.jsonl as "
				    "it was; delete _delta_log/_history.idx and mount anew",
				    line->record.version, table->path);
	return 0;
}

int tdl_table_version_json(tdl_table *table, int64_t version, char **json, size_t *length,
			   tdl_error *error)
{
	tdl__text text CLEANUP(tdl__text_free) = { 0 };
	struct line line;
	int r = find_line(table, version, &line, error);

	if (r == 0)
		r = add_line(table, &line, &text, error);
	if (r < 0)
		return r;
	*json = tdl__steal(text.p);
	*length = text.n;
	return 0;
}

uint64_t tdl_table_history_size(tdl_table *table)
{
	tdl__history *history = &table->history;
	uint64_t end;

	pthread_rwlock_rdlock(&history->lock);
	end = history->count > 0 ? history->versions[history->count - 1].record_end : 0;
	pthread_rwlock_unlock(&history->lock);
	return end;
}

/* The version that the byte at `offset` is of; -1 behind the last one. */
static int64_t version_at(tdl_table *table, uint64_t offset)
{
	tdl__history *history = &table->history;
	size_t low, high;

	pthread_rwlock_rdlock(&history->lock);
	high = history->count;
	low = tdl__lower_bound(high, i, history->versions[i].record_end <= offset);
	pthread_rwlock_unlock(&history->lock);
	return low < high ? (int64_t)low : -1;
}

int tdl_table_history_read(tdl_table *table, void *buffer, size_t count, uint64_t offset,
			   size_t *got, tdl_error *error)
{
	tdl__text text CLEANUP(tdl__text_free) = { 0 };
	tdl_error why = { 0 };
	size_t done = 0;
	int64_t version;
	int r = 0;

	if (count > UINT64_MAX - offset || offset + count > tdl_table_history_size(table))
		r = tdl_table_refresh(table, &why);
	version = version_at(table, offset);
	while (done < count && version >= 0) {
		struct line line;
		size_t skip, length;

		text.n = 0;
		r = find_line(table, version, &line, &why);
		/* The end, unless the log goes on where nobody can follow it. */
		if (r == TDL_ERR_NOT_FOUND)
			r = 0;
		else if (r == 0)
			r = add_line(table, &line, &text, &why);
		if (r < 0 || text.n == 0)
			break;
		skip = (size_t)(offset + done - line.begin);
		length = text.n - skip < count - done ? text.n - skip : count - done;
		memcpy((char *)buffer + done, text.p + skip, length);
		done += length;
		version++;
	}
	/* What comes before damage is handed out, and the next read meets that. */
	if (done == 0 && count > 0 && r < 0) {
		if (error)
			*error = why;
		return r;
	}
	*got = done;
	return 0;
}
