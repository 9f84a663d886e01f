/* SPDX-License-Identifier: MIT */
/*
 * Which data files two versions do not share, and the rows in them. A data file never changes, so
 * one that both have is the same in both, unless the log says otherwise of it.
 */
#include "diff_files.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"

/* A block of a data file that has checksums of blocks: so each is read once. */
#define READ_SIZE ((size_t)1024 * 1024)

struct named {
	char *path;
	uint64_t index, records, size;
	bool has_crc;
	uint32_t crc;
};

struct list {
	struct named *files;
	size_t count;
};

static void free_list(struct list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->files[i].path);
	free(list->files);
}

static int no_memory(tdl_error *error)
{
	*error = (tdl_error){ .code = TDL_ERR_NOMEM, .version = -1 };
	strcpy(error->message, "out of memory");
	return error->code;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->path, ((const struct named *)b)->path);
}

/* Of two files of one name: unless the log says that they are not as long, or have other bytes. */
static bool is_same(const struct named *a, const struct named *b)
{
	return a->size == b->size && (!a->has_crc || !b->has_crc || a->crc == b->crc);
}

/* The files from `first` on, sorted by path. */
static int list_files(struct list *list, tdl_snapshot *snapshot, uint64_t first, tdl_error *error)
{
	uint64_t count = tdl_snapshot_info(snapshot)->files;
	tdl_file file;

	list->files = calloc(count - first + 1, sizeof *list->files);
	if (list->files == NULL)
		return no_memory(error);
	for (uint64_t i = first; i < count; i++) {
		int r = tdl_snapshot_file_entry(snapshot, i, &file, error);
		char *path = r < 0 ? NULL : strdup(file.path);

		if (path == NULL)
			return r < 0 ? r : no_memory(error);
		list->files[list->count++] =
			(struct named){ path,	    i, file.num_records, file.size, file.has_crc32c,
					file.crc32c };
	}
	qsort(list->files, list->count, sizeof *list->files, by_path);
	return 0;
}

/* How many files both have at their beginning, as after appends. */
static int common_beginning(tdl_snapshot *a, tdl_snapshot *b, uint64_t *count, tdl_error *error)
{
	uint64_t a_count = tdl_snapshot_info(a)->files, b_count = tdl_snapshot_info(b)->files;
	uint64_t most = a_count < b_count ? a_count : b_count;
	tdl_file left, right;
	int r = 0;

	for (*count = 0; *count < most; ++*count) {
		r = tdl_snapshot_file_entry(a, *count, &left, error);
		if (r == 0)
			r = tdl_snapshot_file_entry(b, *count, &right, error);
		if (r < 0 || strcmp(left.path, right.path) != 0 || left.size != right.size ||
		    (left.has_crc32c && right.has_crc32c && left.crc32c != right.crc32c))
			break;
	}
	return r;
}

static int by_index(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static void add(struct difference *difference, unsigned side, const struct named *file)
{
	difference->files[side][difference->count[side]++] = file->index;
	difference->records[side] += file->records;
	difference->bytes[side] += file->size;
}

int difference_find(struct difference *difference, tdl_snapshot *a, tdl_snapshot *b,
		    tdl_error *error)
{
	struct list left AUTO(free_list) = { 0 }, right AUTO(free_list) = { 0 };
	uint64_t first;
	size_t i = 0, j = 0;
	int r = common_beginning(a, b, &first, error);

	if (r == 0)
		r = list_files(&left, a, first, error);
	if (r == 0)
		r = list_files(&right, b, first, error);
	if (r < 0)
		return r;
	difference->side[0] = a;
	difference->side[1] = b;
	difference->files[0] = calloc(left.count + 1, sizeof **difference->files);
	difference->files[1] = calloc(right.count + 1, sizeof **difference->files);
	if (difference->files[0] == NULL || difference->files[1] == NULL)
		return no_memory(error);
	while (i < left.count || j < right.count) {
		int order = i == left.count    ? 1
			    : j == right.count ? -1
					       : by_path(&left.files[i], &right.files[j]);

		bool apart = order == 0 && !is_same(&left.files[i], &right.files[j]);

		if (order < 0 || apart)
			add(difference, 0, &left.files[i]);
		if (order > 0 || apart)
			add(difference, 1, &right.files[j]);
		i += order <= 0;
		j += order >= 0;
	}
	for (unsigned side = 0; side < 2; side++)
		qsort(difference->files[side], difference->count[side], sizeof(uint64_t), by_index);
	return 0;
}

void difference_clear(struct difference *difference)
{
	free(difference->files[0]);
	free(difference->files[1]);
}

/* ---- Rows --------------------------------------------------------------------------------- */

struct reader {
	char *buffer;
	size_t room, filled;
	bool (*row)(void *context, const char *bytes, size_t n);
	void *context;
};

static bool is_blank(const char *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (row[i] != ' ' && row[i] != '\t' && row[i] != '\r')
			return false;
	return true;
}

/* What reading a file can come to. */
enum outcome {
	DONE,
	BAD,	 /* the error says why */
	REPORTED /* who was handed a row has said why no more are wanted */
};

/* Hands on the rows in the buffer that are complete; at the end of a file the last one is. Bytes
 * before `looked` hold no newline. */
static bool hand_on(struct reader *reader, size_t looked, bool end)
{
	char *row = reader->buffer, *from = row + looked, *stop = row + reader->filled, *newline;
	bool good = true;

	while (good && from < stop &&
	       (newline = memchr(from, '\n', (size_t)(stop - from))) != NULL) {
		if (!is_blank(row, (size_t)(newline - row)))
			good = reader->row(reader->context, row, (size_t)(newline - row));
		row = from = newline + 1;
	}
	if (good && end && !is_blank(row, (size_t)(stop - row)))
		good = reader->row(reader->context, row, (size_t)(stop - row));
	reader->filled = (size_t)(stop - row);
	memmove(reader->buffer, row, reader->filled);
	return good;
}

static enum outcome read_file(struct reader *reader, tdl_snapshot *snapshot, uint64_t index,
			      uint64_t size, void (*done)(uint64_t bytes), tdl_error *error)
{
	uint64_t at = 0;

	reader->filled = 0;
	while (at < size && !output_failed()) {
		size_t looked = reader->filled, got;

		if (reader->room - reader->filled < READ_SIZE) {
			char *buffer = realloc(reader->buffer, 2 * reader->room + READ_SIZE);

			if (buffer == NULL) {
				no_memory(error);
				return BAD;
			}
			reader->buffer = buffer;
			reader->room = 2 * reader->room + READ_SIZE;
		}
		if (tdl_snapshot_read_file(snapshot, index, reader->buffer + reader->filled,
					   READ_SIZE, at, &got, error) < 0)
			return BAD;
		reader->filled += got;
		at += got;
		if (!hand_on(reader, looked, at == size))
			return REPORTED;
		if (done != NULL)
			done(got);
	}
	return DONE;
}

bool difference_rows(const struct difference *difference, unsigned side,
		     bool (*row)(void *context, const char *bytes, size_t n), void *context,
		     void (*done)(uint64_t bytes))
{
	tdl_snapshot *snapshot = difference->side[side];
	struct reader reader = { .row = row, .context = context };
	enum outcome outcome = DONE;
	tdl_error error = { 0 };
	tdl_file file;

	for (size_t i = 0; i < difference->count[side] && outcome == DONE; i++) {
		uint64_t index = difference->files[side][i];

		outcome = tdl_snapshot_file_entry(snapshot, index, &file, &error) < 0
				  ? BAD
				  : read_file(&reader, snapshot, index, file.size, done, &error);
	}
	free(reader.buffer);
	if (outcome == BAD)
		report_error(&error);
	return outcome == DONE;
}
