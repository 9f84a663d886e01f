/* SPDX-License-Identifier: MIT */
/*
 * The checksums of data files in the log: what a writer says of them, and that nothing which comes
 * later loses them: restores, other writers' commits, the index.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scratch.h"
#include "table/table.h"
#include "tables.h"
#include "util/crc32c.h"

#define ROW "{\"id\":%u,\"name\":\"%0*u\"}\n"

static tdl_table *table;
static size_t worth;

static void begin(void)
{
	worth = tdl__index_worth;
	table = begin_with_table("t");
}

static void end(void)
{
	tdl__index_worth = worth;
	end_with_table(table);
}

TestSuite(sums, .init = begin, .fini = end);

/* Rows of at least `size` bytes, to free(). */
static char *make_rows(size_t size)
{
	char *rows = malloc(size + 200);
	size_t n = 0;

	for (unsigned i = 0; n < size; i++)
		n += (size_t)sprintf(rows + n, ROW, i, (int)(i % 150) + 1, i);
	return rows;
}

/* File `nth` of a version, as the history knows it. */
static tdl__sums sums_of(tdl_table *of, int64_t version, uint64_t nth)
{
	tdl__history *history = &of->history;
	const tdl__version *at = &history->versions[version];

	cr_assert_lt(nth, at->files);
	return tdl__filelist_sums(&history->files, history->files.lists[at->list].first + nth);
}

/* Compares what is known of a file with its bytes. */
static void expect_sums(tdl_table *of, int64_t version, const char *bytes, bool with_rows)
{
	tdl__sums sums = sums_of(of, version, 0);
	size_t n = strlen(bytes);

	cr_assert(sums.has_crc);
	cr_assert_eq(sums.crc, tdl__crc32c_portable(0, bytes, n));
	cr_assert_eq(sums.blocks != NULL, n > TDL__BLOCK, "of %zu bytes", n);
	cr_assert_eq(sums.rows != NULL, n > TDL__BLOCK && with_rows);
	for (size_t at = 0, i = 0; at < n && sums.blocks; at += TDL__BLOCK, i++) {
		size_t length = n - at < TDL__BLOCK ? n - at : TDL__BLOCK;
		uint32_t rows = 0;

		cr_assert_eq(sums.blocks[i], tdl__crc32c_portable(0, bytes + at, length));
		for (size_t k = 0; k < length; k++)
			rows += bytes[at + k] == '\n';
		cr_assert(!with_rows || sums.rows[i] == rows, "block %zu", i);
	}
}

Test(sums, of_what_is_written)
{
	static const size_t sizes[] = { 1, TDL__BLOCK - 150, TDL__BLOCK + 1, 5 * TDL__BLOCK / 2 };
	tdl_table *again;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		char *rows CLEANUP(tdl__free_at) = make_rows(sizes[i]);
		int64_t version = overwrite_rows(table, rows);

		expect_sums(table, version, rows, true);
		/* The bytes are other ones where they were rewritten on the way. */
		char *loose CLEANUP(tdl__free_at) = malloc(strlen(rows) + 2);
		sprintf(loose, " %s", rows);
		expect_sums(table, overwrite_rows(table, loose), rows, true);
		/* A restore says it again. */
		overwrite_rows(table, "{\"id\":1,\"name\":null}\n");
		again = open_table("t");
		expect_sums(again, restore_version(again, version), rows, true);
		tdl_table_free(again);
		cr_assert_eq(tdl_table_refresh(table, NULL), 0);
	}
}

/* Just a block, and a byte more. */
Test(sums, of_whole_blocks)
{
	for (int more = 0; more < 3; more++) {
		size_t n = TDL__BLOCK * (more == 2 ? 2 : 1) + (more == 1);
		char *rows CLEANUP(tdl__free_at) = malloc(n + 1);
		size_t head = (size_t)sprintf(rows, "{\"id\":1,\"name\":\"");

		memset(rows + head, 'x', n - head - 3);
		strcpy(rows + n - 3, "\"}\n");
		expect_sums(table, overwrite_rows(table, rows), rows, true);
	}
}

/* Removes and adds the only file of `of`, as a writer does that knows no checksums. */
static void restore_as_others(int64_t version, int64_t of)
{
	char *text = get_bytes(commit_path("t", of), NULL), lines[400], path[64];
	char *add = strstr(text, "{\"add\":{\"path\":\""), *size = strstr(add, "\"size\":");

	cr_assert_eq(sscanf(add, "{\"add\":{\"path\":\"%63[^\"]", path), 1);
	snprintf(lines, sizeof lines,
		 "{\"remove\":{\"path\":\"%s\"}}\n{\"add\":{\"path\":\"%s\",%.*s}}\n", path, path,
		 (int)(strstr(size, ",\"crc32c\"") - size), size);
	put_commit("t", version, lines);
	free(text);
}

Test(sums, of_files_that_others_add_again)
{
	char *rows CLEANUP(tdl__free_at) = make_rows(3 << 20);
	char lines[400];

	overwrite_rows(table, rows);
	put_commit("t", 2, "{\"remove\":{\"path\":\"nothing\"}}\n");
	restore_as_others(3, 1);
	cr_assert_eq(tdl_table_refresh(table, NULL), 0);
	expect_sums(table, 3, rows, true);
	/* Once more, by a process that has an index and replays only this. */
	tdl__index_worth = 1;
	tdl_table_free(table);
	table = open_table("t");
	tdl_table_free(table);
	cr_assert(is_there("t/_delta_log/_history.idx"));
	restore_as_others(4, 1);
	table = open_table("t");
	cr_assert_gt(table->indexed, 3);
	for (int64_t version = 1; version <= 4; version++)
		expect_sums(table, version, rows, true);
	/* And ours says it for all to read. */
	expect_sums(table, restore_version(table, 4), rows, true);
	/* Of another size it is another file. */
	snprintf(lines, sizeof lines, "{\"add\":{\"path\":\"x\",\"size\":5,\"numRecords\":1}}\n");
	put_commit("t", 6, lines);
	cr_assert_eq(tdl_table_refresh(table, NULL), 0);
	cr_assert_not(sums_of(table, 6, 1).has_crc);
}
