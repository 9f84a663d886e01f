/* SPDX-License-Identifier: MIT */
/*
 * The part of a check that reads data files: each once, whatever number of versions hold it. Knows
 * what readers refuse, and says it of what they would.
 */
#include "commit/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "row/stream.h"
#include "sys.h"
#include "util/buf.h"
#include "util/crc32c.h"
#include "util/hashmap.h"
#include "util/simd.h"

/* Of the text that names the versions of a file, and for how many files it does so. */
#define VERSIONS_MAX 200
#define NAMED_MAX    100

#define PIECE ((size_t)TDL__BLOCK)

/* A data file, once, with the first version that holds it. */
struct item {
	uint64_t index; /* in the history's array */
	int64_t version;
	uint64_t size;
};

struct data {
	struct tdl__check *check;
	struct item *items;
	size_t count, cap;
	tdl__hashmap promises; /* items by what the log says of them: their number + 1 */
};

/* ---- Which versions hold a file ------------------------------------------------------------ */

static void add_range(tdl__text *text, int64_t first, int64_t last)
{
	if (text->n > 0)
		tdl__text_add(text, ", ", 2);
	tdl__text_format(text, "%" PRId64, first);
	if (last > first)
		tdl__text_format(text, " to %" PRId64, last);
}

/* Whether two adds can be of one file: one that is not as long, has other bytes or other rows is
 * another promise, which is kept or not by itself. */
static bool same_promise(const tdl__filelist *files, uint64_t a, uint64_t b)
{
	tdl__file_key left = tdl__filelist_key(files, a), right = tdl__filelist_key(files, b);
	tdl__sums left_sums = tdl__filelist_sums(files, a);
	tdl__sums right_sums = tdl__filelist_sums(files, b);

	return tdl__file_key_equal(&left, &right) &&
	       tdl__filelist_size(files, a) == tdl__filelist_size(files, b) &&
	       tdl__filelist_records(files, a) == tdl__filelist_records(files, b) &&
	       (!left_sums.has_crc || !right_sums.has_crc || left_sums.crc == right_sums.crc);
}

/* Where a list of files has one, or UINT64_MAX. */
static uint64_t position(const tdl__filelist *files, const tdl__version *version, uint64_t index)
{
	uint64_t first = files->lists[version->list].first;

	for (uint64_t i = 0; i < version->files; i++) {
		if (same_promise(files, first + i, index))
			return i;
	}
	return UINT64_MAX;
}

/* " (versions 1 to 3, 7)". */
static void name_versions(const struct tdl__check *check, const struct item *item,
			  char out[VERSIONS_MAX])
{
	tdl__history *history = &check->table->history;
	int64_t last = check->options->version >= 0 ? item->version : check->head, first = -1;
	tdl__text ranges CLEANUP(tdl__text_free) = { 0 };
	uint64_t at = UINT64_MAX;
	uint32_t list = UINT32_MAX;

	for (int64_t version = item->version; version <= last + 1; version++) {
		tdl_version_info info;
		tdl__version known;
		bool holds = false;

		if (version <= last &&
		    tdl__history_get(history, version, &known, &info, NULL) == 0) {
			pthread_rwlock_rdlock(&history->lock);
			if (known.list != list || at == UINT64_MAX)
				at = position(&history->files, &known, item->index);
			pthread_rwlock_unlock(&history->lock);
			list = known.list;
			holds = at < known.files;
		}
		if (holds && first < 0)
			first = version;
		if (!holds && first >= 0) {
			add_range(&ranges, first, version - 1);
			first = -1;
		}
	}
	if (!ranges.p || ranges.failed)
		snprintf(out, VERSIONS_MAX, " (version %" PRId64 ")", item->version);
	else
		snprintf(out, VERSIONS_MAX, " (version%s %.160s%s)",
			 strpbrk(ranges.p, ", ") ? "s" : "", ranges.p, ranges.n > 160 ? "..." : "");
}

/* ---- Data files ---------------------------------------------------------------------------- */

static struct item *find_item(const struct data *data, const tdl__filelist *files, uint64_t index,
			      uint64_t hash)
{
	const struct tdl__slot *slot = tdl__hashmap_first(&data->promises, hash);

	for (; slot; slot = tdl__hashmap_next(&data->promises, slot))
		if (same_promise(files, data->items[slot->value - 1].index, index))
			return &data->items[slot->value - 1];
	return NULL;
}

/* Notes a file where it is not noted yet. With the read lock held. */
static bool collect_file(struct data *data, const tdl__filelist *files, uint64_t index,
			 int64_t version)
{
	tdl__file_key key = tdl__filelist_key(files, index);
	uint64_t hash = tdl__file_key_hash(&key);
	struct item *item = find_item(data, files, index, hash);

	if (item) {
		/* What any commit says of its bytes they have to be. */
		if ((files->flags[item->index] & TDL__FILE_HAS_CRC) == 0)
			item->index = index;
		return true;
	}
	if (!tdl__reserve(&data->items, &data->cap, data->count + 1, sizeof *data->items) ||
	    !tdl__hashmap_add(&data->promises, hash, data->count + 1))
		return false;
	data->items[data->count++] =
		(struct item){ index, version, tdl__filelist_size(files, index) };
	data->check->total += data->items[data->count - 1].size;
	return true;
}

static int collect_files(struct data *data)
{
	struct tdl__check *check = data->check;
	tdl__history *history = &check->table->history;
	int64_t first = check->options->version >= 0 ? check->head : 0;
	tdl__version last = { .list = UINT32_MAX };

	for (int64_t version = first; version <= check->head; version++) {
		tdl_version_info info;
		tdl__version known;
		tdl_error why;
		bool room = true;
		int r = tdl__history_get(history, version, &known, &info, &why);

		if (r < 0) {
			char name[TDL__LOG_NAME_MAX], path[64];

			tdl__log_name(name, version);
			snprintf(path, sizeof path, TDL__LOG_DIR "/%s", name);
			tdl__check_problem(check, TDL_DAMAGE, version, path, 0, "%s", why.message);
			continue;
		}
		pthread_rwlock_rdlock(&history->lock);
		for (uint64_t i = known.list == last.list ? last.files : 0; i < known.files && room;
		     i++)
			room = collect_file(data, &history->files,
					    history->files.lists[known.list].first + i, version);
		pthread_rwlock_unlock(&history->lock);
		if (!room)
			return tdl__fail_nomem(check->error);
		last = known;
	}
	return 0;
}

/* What reading a data file through came to. */
struct content {
	const uint32_t *blocks; /* the CRC-32C of each, as the log says; NULL: it does not */
	const uint32_t *lines;	/* the newlines in each, as the log says; NULL: it does not */
	bool is_wrong;		/* some block has another CRC-32C */
	uint64_t wrong;		/* is_wrong: offset of the first such block */
	bool is_miscounted;	/* some block has another number of newlines */
	uint64_t miscounted;	/* is_miscounted: offset of the first such block */
	uint64_t bytes;		/* read */
	uint32_t crc;		/* CRC-32C of them */
	char last;		/* the last of them */
	uint64_t rows;		/* in them */
	int rows_result;	/* 0, or what the rows are refused with */
	tdl_error rows_error;	/* where that is not 0 */
};

static int forget_rows(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	return 0;
}

static void cleanup_rows(tdl__rows **rows)
{
	tdl__rows_free(*rows);
}

/* Sums up the next block of a file. */
static void add_block(struct content *content, const char *bytes, size_t n)
{
	uint32_t crc = tdl__crc32c(0, bytes, n);
	uint64_t block = content->bytes / TDL__BLOCK;

	if (content->blocks && crc != content->blocks[block] && !content->is_wrong) {
		content->is_wrong = true;
		content->wrong = content->bytes;
	}
	if (content->lines && !content->is_miscounted &&
	    tdl__count_newlines(bytes, n) != content->lines[block]) {
		content->is_miscounted = true;
		content->miscounted = content->bytes;
	}
	content->crc = tdl__crc32c_combine(content->crc, crc, n);
}

static int read_content(struct tdl__check *check, int fd, uint64_t size, const tdl_schema *schema,
			const char *path, struct content *content)
{
	tdl__rows *rows CLEANUP(cleanup_rows) = tdl__rows_new(schema, path, forget_rows, NULL);
	char *buffer CLEANUP(tdl__free_at) = malloc(PIECE);

	if (!rows || !buffer)
		return ENOMEM;
	for (;;) {
		size_t got;
		int err = tdl__sys_pread(fd, buffer, PIECE, content->bytes, &got);

		if (err != 0)
			return err;
		if (got == 0)
			break;
		if (got > size - content->bytes) {
			content->bytes += got;
			return 0;
		}
		if (content->rows_result == 0)
			content->rows_result =
				tdl__rows_feed(rows, buffer, got, &content->rows_error);
		add_block(content, buffer, got);
		content->last = buffer[got - 1];
		content->bytes += got;
		check->bytes += got;
		if (check->options->progress)
			check->options->progress(check->options->context, check->bytes,
						 check->total);
	}
	if (content->rows_result == 0)
		content->rows_result = tdl__rows_finish(rows, &content->rows_error);
	/* A data file without rows is odd, but says what it says. */
	if (content->rows_result == TDL_ERR_EMPTY)
		content->rows_result = 0;
	content->rows = tdl__rows_count(rows);
	return content->rows_result == TDL_ERR_NOMEM ? ENOMEM : 0;
}

/* What the log promises of a data file. */
struct promise {
	char path[TDL__PATH_MAX + 1];
	tdl__file_key key;
	uint64_t records;
	bool has_crc;
	uint32_t crc;
};

/* The versions are looked for only now, so that good files cost nothing; and where very many files
 * are bad, the first version of each has to do. */
static void report_wrong(struct tdl__check *check, const struct item *item,
			 const struct promise *promise, enum tdl_severity severity, uint64_t line,
			 const char *text)
{
	char versions[VERSIONS_MAX];

	if (check->told++ < NAMED_MAX)
		name_versions(check, item, versions);
	else
		snprintf(versions, sizeof versions, " (from version %" PRId64 ")", item->version);
	tdl__check_problem(check, severity, item->version, promise->path, line, "%s%s", text,
			   versions);
}

static void check_content(struct tdl__check *check, const struct item *item,
			  const struct promise *promise, const struct content *content)
{
	char text[120], where[TDL__PATH_MAX + 32];

	if (promise->has_crc && content->crc != promise->crc) {
		if (content->is_wrong)
			snprintf(text, sizeof text,
				 "is not what its checksum in the log says, first in the MiB from "
				 "byte %" PRIu64 " on",
				 content->wrong);
		report_wrong(check, item, promise, TDL_DAMAGE, 0,
			     content->is_wrong ? text : "is not what its checksum in the log says");
		return;
	}
	if (content->bytes > 0 && content->last != '\n')
		report_wrong(check, item, promise, promise->has_crc ? TDL_DAMAGE : TDL_SUSPECT, 0,
			     "lacks its last newline");
	if (content->rows_result < 0) {
		snprintf(where, sizeof where, "%s:%" PRIu64 ": ", promise->path,
			 content->rows_error.line);
		report_wrong(check, item, promise, TDL_SUSPECT, content->rows_error.line,
			     tdl__check_without(content->rows_error.message, where));
	} else if (content->is_miscounted) {
		snprintf(text, sizeof text,
			 "has not the rows that the log says, first in the MiB from byte %" PRIu64
			 " on",
			 content->miscounted);
		report_wrong(check, item, promise, TDL_SUSPECT, 0, text);
	} else if (content->rows != promise->records) {
		snprintf(text, sizeof text, "has %" PRIu64 " rows, the log says %" PRIu64,
			 content->rows, promise->records);
		report_wrong(check, item, promise, TDL_SUSPECT, 0, text);
	}
}

static int check_file(struct tdl__check *check, const struct item *item)
{
	tdl_table *table = check->table;
	tdl__history *history = &table->history;
	int fd CLEANUP(tdl__close_at) = -1;
	struct content content = { 0 };
	char where[2 * TDL__PATH_MAX];
	tdl_version_info info;
	tdl__version known;
	struct promise promise;
	tdl__sums sums;
	tdl_error why;
	int r = tdl__history_get(history, item->version, &known, &info, check->error);

	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&history->lock);
	promise.key = tdl__filelist_key(&history->files, item->index);
	promise.records = tdl__filelist_records(&history->files, item->index);
	sums = tdl__filelist_sums(&history->files, item->index);
	pthread_rwlock_unlock(&history->lock);
	promise.has_crc = sums.has_crc;
	promise.crc = sums.crc;
	content.blocks = sums.blocks;
	content.lines = sums.rows;
	tdl__file_key_path(&promise.key, promise.path);
	r = tdl__filecache_open(&table->files, &promise.key, item->size, &fd, &why);
	if (r == TDL_ERR_NOMEM)
		return tdl__fail_nomem(check->error);
	if (r < 0) {
		snprintf(where, sizeof where, "data file %s/%s ", table->path, promise.path);
		report_wrong(check, item, &promise, TDL_DAMAGE, 0,
			     tdl__check_without(why.message, where));
		return 0;
	}
	r = read_content(check, fd, item->size, info.schema, promise.path, &content);
	if (r == ENOMEM)
		return tdl__fail_nomem(check->error);
	if (r != 0) {
		tdl__fail_errno(&why, r, "cannot be read");
		report_wrong(check, item, &promise, TDL_DAMAGE, 0, why.message);
	} else if (content.bytes != item->size) {
		report_wrong(check, item, &promise, TDL_DAMAGE, 0, "was changed while it was read");
	} else {
		check_content(check, item, &promise, &content);
	}
	return 0;
}

int tdl__check_data(struct tdl__check *check)
{
	struct data data = { .check = check };
	int r = collect_files(&data);

	for (size_t i = 0; i < data.count && r == 0; i++)
		r = check_file(check, &data.items[i]);
	free(data.items);
	tdl__hashmap_clear(&data.promises);
	return r;
}
