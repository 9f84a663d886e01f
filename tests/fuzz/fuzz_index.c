/* SPDX-License-Identifier: MIT */
/*
 * An index that somebody has tampered with, checksums and all: it is ignored, or it gives a history
 * of which every question is answered without harm, also when commits are replayed behind it.
 *
 * An input is a list of edits of a good index, three bytes each: where (the ten counts of the
 * header, then the body) and what. The file gets the length that the counts ask for.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "log/index.h"
#include "scratch.h"
#include "table/table.h"
#include "tables.h"
#include "util/buf.h"
#include "util/crc32c.h"

/* Where things are in the file; index.h has its order. */
#define HEADER	   256u
#define COUNTS	   80u
#define COUNT_MAX  10u
#define BODY_CRC   176u
#define HEADER_CRC 252u
#define LENGTH_MAX 16384u
#define COVERED	   5
#define PART	   "part-0123456789abcdef0123456789abcde"

static unsigned char good[LENGTH_MAX], file[LENGTH_MAX];
static size_t good_length;

/* A file of three blocks, twice: the second time as who knows no checksums adds it. */
static void put_large(int64_t version)
{
	uint32_t blocks[3] = { 1, 2, 3 }, rows[3] = { 4, 5, 6 };
	uint64_t size = 2 * TDL__BLOCK + 1;
	tdl__sums sums = { true, 0, blocks, rows }, none = { 0 };
	tdl__text lines = { 0 };

	sums.crc = tdl__crc32c_combine(tdl__crc32c_combine(1, 2, TDL__BLOCK), 3, 1);
	tdl__text_add(&lines, FOREIGN_META, strlen(FOREIGN_META));
	tdl__action_add(&lines, PART "3.jsonl", size, 15, &sums);
	tdl__action_remove(&lines, PART "3.jsonl");
	tdl__action_add(&lines, PART "3.jsonl", size, 15, &none);
	tdl__text_add(&lines, "", 1);
	if (lines.failed)
		abort();
	put_commit("t", version, lines.p);
	tdl__text_free(&lines);
}

static void set_up(void)
{
	tdl_table *table;
	char *bytes;

	scratch_begin();
	atexit(scratch_end);
	put_commit("t", 0, FOREIGN_META);
	put_commit("t", 1, add_line(PART "0.jsonl", 4, 1));
	put_commit("t", 2,
		   "{\"add\":{\"path\":\"odd\",\"size\":3,\"numRecords\":1}}\n"
		   "{\"add\":{\"path\":\"" PART "1.jsonl\",\"size\":9,\"numRecords\":1,"
		   "\"crc32c\":7}}\n");
	put_commit("t", 3, remove_line(PART "0.jsonl"));
	put_large(4);
	put_bytes(in_scratch("t/" PART "0.jsonl"), "abc\n", 4);
	put_bytes(in_scratch("t/odd"), "abc", 3);
	table = open_table("t");
	/* Learns which files lack their last newline. */
	for (int64_t i = 0; i < COVERED; i++) {
		tdl_error error;
		char *text = NULL;

		if (try_read(table, i, &text, NULL, &error) == 0)
			free(text);
	}
	if (!tdl__index_save(&table->history, table->log_dir, TDL__INDEX_NAME))
		abort();
	tdl_table_free(table);
	bytes = get_bytes(in_scratch("t/_delta_log/" TDL__INDEX_NAME), &good_length);
	if (good_length > sizeof good)
		abort();
	memcpy(good, bytes, good_length);
	free(bytes);
	/* What is replayed behind it. */
	put_commit("t", 5, remove_line("odd"));
	put_commit("t", 6, add_line(PART "1.jsonl", 9, 2));
	put_commit("t", 7, add_line(PART "2.jsonl", 0, 0));
}

static uint64_t count_of(unsigned nth)
{
	uint64_t count;

	memcpy(&count, file + COUNTS + 8 * (size_t)nth, sizeof count);
	return count;
}

/* The length that the counts ask for; 0: too much. */
static size_t length_of(void)
{
	static const unsigned sizes[COUNT_MAX] = {
		sizeof(tdl__version), 16, 37, 8, 8, 0, 0, 1, 16, 4
	};
	uint64_t length = HEADER;

	for (unsigned i = 0; i < COUNT_MAX; i++) {
		if (count_of(i) > LENGTH_MAX)
			return 0;
		length += count_of(i) * sizes[i];
	}
	return length <= LENGTH_MAX ? (size_t)length : 0;
}

static void make_file(const uint8_t *edits, size_t n)
{
	size_t length;
	uint32_t crc;

	memset(file, 0, sizeof file);
	memcpy(file, good, good_length);
	for (; n >= 3; edits += 3, n -= 3) {
		size_t at = (size_t)edits[0] | (size_t)edits[1] << 8;

		/* Of a count the low byte, so that most of them are possible. */
		at = at < COUNT_MAX ? COUNTS + 8 * at : HEADER + at - COUNT_MAX;
		if (at < sizeof file)
			file[at] = edits[2];
	}
	length = length_of();
	if (length == 0)
		length = good_length;
	crc = tdl__crc32c(0, file + HEADER, length - HEADER);
	memcpy(file + BODY_CRC, &crc, sizeof crc);
	crc = tdl__crc32c(0, file, HEADER_CRC);
	memcpy(file + HEADER_CRC, &crc, sizeof crc);
	put_bytes(in_scratch("t/_delta_log/" TDL__INDEX_NAME), file, length);
}

/* Whether this file and the library still agree on where things are. */
static void check_layout(void)
{
	make_file(NULL, 0);
	if (memcmp(file, good, good_length) != 0 || length_of() != good_length)
		abort();
}

static void ask_snapshot(tdl_snapshot *snapshot, uint64_t files)
{
	static char bytes[4096];
	uint64_t size;
	size_t got;

	(void)tdl_snapshot_size(snapshot, &size, NULL);
	(void)tdl_snapshot_read(snapshot, bytes, sizeof bytes, 0, &got, NULL);
	(void)tdl_snapshot_read(snapshot, bytes, 1, UINT64_MAX, &got, NULL);
	for (uint64_t i = 0; i <= files && i < 600; i++) {
		tdl_file one;
		int fd;

		if (tdl_snapshot_file(snapshot, i, &one, NULL) == 0 &&
		    (one.path[0] == '/' || strstr(one.path, "..")))
			abort();
		if (tdl_snapshot_open_file(snapshot, i, &fd, NULL) == 0)
			close(fd);
	}
}

static void ask(tdl_table *table)
{
	int64_t head = tdl_table_head(table);
	tdl__file_key key = tdl__file_key_of("odd");

	if (head >= 8)
		abort();
	for (int64_t i = -1; i <= head + 1; i++) {
		tdl_version_info info;
		tdl_snapshot *snapshot;
		char *json;
		size_t n;

		if (tdl_table_version_info(table, i, &info, NULL) == 0 &&
		    (strlen(info.operation) > LENGTH_MAX || strlen(info.table_id) > LENGTH_MAX ||
		     tdl_schema_count(info.schema) == 0))
			abort();
		if (tdl_table_version_json(table, i, &json, &n, NULL) == 0)
			free(json);
		if (tdl_snapshot_open(table, i, &snapshot, NULL) == 0) {
			ask_snapshot(snapshot, tdl_snapshot_info(snapshot)->files);
			tdl_snapshot_unref(snapshot);
		}
		(void)tdl_table_next_version(table, i);
	}
	(void)tdl__history_ever_added(&table->history, &key);
	(void)tdl_table_damage(table, NULL);
}

/* Most are not, and a table is opened only for those that are. */
static bool is_believed(void)
{
	static int log_dir = -1;
	tdl__history history;
	bool believed;

	if (log_dir < 0)
		log_dir = open(in_scratch("t/_delta_log"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tdl__history_init(&history, (tdl__log){ log_dir, "t" }, NULL) < 0)
		abort();
	tdl__index_load(&history, log_dir, TDL__INDEX_NAME);
	believed = history.count > 0;
	tdl__history_free(&history);
	return believed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tdl_table *table;

	if (good_length == 0) {
		set_up();
		check_layout();
	}
	make_file(data, size);
	if (!is_believed())
		return 0;
	if (tdl_table_open(in_scratch("t"), TDL_OPEN_READ_ONLY, &table, NULL) < 0)
		return 0;
	ask(table);
	tdl_table_free(table);
	return 0;
}
