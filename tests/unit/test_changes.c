/* SPDX-License-Identifier: MIT */
/*
 * What a version changed, against what two whole versions say: every offset, data files of every
 * shape, and files that have other rows than the log says.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changes/splice.h"
#include "error.h"
#include "scratch.h"
#include "tables.h"
#include "util/buf.h"

static tdl_error error;

/* ---- One data file ------------------------------------------------------------------------- */

/* Line by line, as the manual says it. Returns how many rows there are. */
static uint64_t by_hand(tdl__text *out, const char *bytes, size_t n, const char *text)
{
	uint64_t rows = 0;

	for (size_t at = 0; at < n;) {
		const char *newline = memchr(bytes + at, '\n', n - at);
		size_t end = newline ? (size_t)(newline - bytes) + 1 : n, brace = at;

		while (brace < end && strchr(" \t\r", bytes[brace]) && bytes[brace] != '\0')
			brace++;
		if (brace < end && bytes[brace] == '{') {
			tdl__text_add(out, bytes + at, brace + 1 - at);
			tdl__text_add(out, text, strlen(text));
			at = brace + 1;
			rows++;
		}
		tdl__text_add(out, bytes + at, end - at);
		at = end;
	}
	if (n > 0 && bytes[n - 1] != '\n')
		tdl__text_add(out, "\n", 1);
	return rows;
}

struct memory {
	const char *bytes;
	size_t n;
	unsigned reads;
};

static int read_memory(void *context, void *buffer, size_t n, uint64_t offset, tdl_error *why)
{
	struct memory *memory = context;

	(void)why;
	cr_assert_leq(offset + n, memory->n);
	memcpy(buffer, memory->bytes + offset, n);
	memory->reads++;
	return 0;
}

static tdl__splice_source source_of(struct memory *memory, uint64_t rows, size_t block,
				    const char *text)
{
	return (tdl__splice_source){
		.read = read_memory,
		.context = memory,
		.block = block,
		.size = memory->n,
		.rows = rows,
		.lacks_newline = memory->n > 0 && memory->bytes[memory->n - 1] != '\n',
		.text = text,
		.text_length = strlen(text),
	};
}

static uint32_t *count_newlines(const char *bytes, size_t n, size_t block)
{
	uint32_t *counts = calloc(n / block + 2, sizeof *counts);

	for (size_t i = 0; i < n; i++)
		counts[i / block] += bytes[i] == '\n';
	return counts;
}

/* Reads of every length at every offset, in an order that jumps. */
static void compare_all(tdl__splice *splice, const tdl__text *expected, unsigned seed)
{
	char *buffer = malloc(expected->n + 1);

	if (expected->n == 0) {
		free(buffer);
		return;
	}
	for (unsigned i = 0; i < 400; i++) {
		size_t offset, n;

		seed = seed * 1103515245 + 12345;
		offset = expected->n > 0 ? (seed >> 8) % expected->n : 0;
		seed = seed * 1103515245 + 12345;
		n = (seed >> 8) % (expected->n - offset + 1);
		if (i % 3 == 0)
			n = n % 5;
		if (tdl__splice_read(splice, buffer, n, offset, &error) < 0)
			cr_assert_fail("%zu at %zu: %s", n, offset, error.message);
		if (memcmp(buffer, expected->p + offset, n) != 0)
			cr_assert_fail("%zu bytes at %zu of %zu are others", n, offset,
				       expected->n);
	}
	for (size_t offset = 0; offset < expected->n; offset++) {
		cr_assert_eq(tdl__splice_read(splice, buffer, 1, offset, &error), 0);
		cr_assert_eq(*buffer, expected->p[offset], "byte %zu", offset);
	}
	for (size_t offset = expected->n; offset > 0; offset--) {
		cr_assert_eq(tdl__splice_read(splice, buffer, 1, offset - 1, &error), 0);
		cr_assert_eq(*buffer, expected->p[offset - 1], "byte %zu", offset - 1);
	}
	free(buffer);
}

static void try_file(const char *bytes, size_t n, size_t block, const char *text, bool counted)
{
	struct memory memory = { .bytes = bytes, .n = n };
	tdl__text expected CLEANUP(tdl__text_free) = { 0 };
	uint64_t rows = by_hand(&expected, bytes, n, text);
	tdl__splice_source source = source_of(&memory, rows, block, text);
	uint32_t *newlines = count_newlines(bytes, n, block);
	tdl__splice *splice;
	uint64_t size;

	if (counted)
		source.newlines = newlines;
	cr_assert(tdl__splice_size(&source, &size));
	cr_assert_eq(size, expected.n, "%zu bytes", n);
	/* Anew for each order, since what was counted is kept. */
	for (unsigned seed = 0; seed < 4; seed++) {
		cr_assert_eq(tdl__splice_new(&source, &splice, &error), 0, "%s", error.message);
		compare_all(splice, &expected, seed * 77 + (unsigned)block);
		tdl__splice_free(splice);
	}
	free(newlines);
}

static const char *const files[] = {
	"",
	"{}\n",
	"{\"a\":1}\n{\"a\":22}\n{\"a\":333}\n",
	"{\"a\":1}\n{\"a\":22}\n{\"a\":333}",
	"\n\n{\"a\":1}\n\n \t\n{\"b\":\"{{{\"}\n\r\n",
	"   {\"a\":1}\r\n\t{\"a\":\"long enough to span a few blocks of the small sizes\"}\n",
	"no row\n[1,{\"a\":2}]\n {\"a\":1}\n{\n",
	"{\"a\":1}\n                                                     {\"a\":2}",
	"                                              \n{\"a\":1}\n         ",
};

Test(splice, any_lines_at_every_offset, .timeout = 60)
{
	static const size_t blocks[] = { 1, 2, 3, 7, 16, 1000 };

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
			try_file(files[i], strlen(files[i]), blocks[k], "", false);
			try_file(files[i], strlen(files[i]), blocks[k],
				 blocks[k] > 12 ? "\"_type\":9," : "t", false);
		}
	}
}

Test(splice, rows_with_counted_newlines, .timeout = 60)
{
	tdl__text rows CLEANUP(tdl__text_free) = { 0 };

	for (int i = 0; i < 60; i++)
		tdl__text_format(&rows, "{\"id\":%d,\"name\":\"%*d\"}\n", i, i % 13 * 4, i);
	try_file(rows.p, rows.n, 64, "\"_type\":9,", true);
	try_file(rows.p, rows.n, 7, "xyz,", true);
	try_file(rows.p, rows.n, 1, "x", true);
	try_file(rows.p, rows.n - 1, 16, "\"_type\":9,", true);
}

/* Reads it forward, backward and in the middle: an error, or what the lines say up to there. */
static void expect_refusal(const char *bytes, uint64_t rows, size_t block, bool counted)
{
	struct memory memory = { .bytes = bytes, .n = strlen(bytes) };
	tdl__splice_source source = source_of(&memory, rows, block, "x");
	uint32_t *newlines = count_newlines(bytes, memory.n, block);
	char buffer[1024];
	tdl__splice *splice = NULL;
	uint64_t size;
	int r;

	if (counted)
		source.newlines = newlines;
	cr_assert(tdl__splice_size(&source, &size));
	r = tdl__splice_new(&source, &splice, &error);
	for (uint64_t offset = 0; r == 0 && offset < size; offset++)
		r = tdl__splice_read(splice, buffer, 1, offset, &error);
	cr_assert_eq(r, TDL_ERR_CORRUPT, "%s, %" PRIu64 " rows", bytes, rows);
	tdl__splice_free(splice);
	if (tdl__splice_new(&source, &splice, &error) == 0) {
		cr_assert_eq(tdl__splice_read(splice, buffer, (size_t)size, 0, &error),
			     TDL_ERR_CORRUPT);
		tdl__splice_free(splice);
	}
	free(newlines);
}

Test(splice, other_rows_than_the_log_says)
{
	for (size_t block = 1; block < 40; block += 5) {
		expect_refusal("{\"a\":1}\n{\"a\":2}\n", 1, block, false);
		expect_refusal("{\"a\":1}\n{\"a\":2}\n", 3, block, false);
		expect_refusal("{\"a\":1}\n{\"a\":2}\n", 1, block, true);
		expect_refusal("{\"a\":1}\n\n", 2, block, false);
		expect_refusal("{\"a\":1}\n\n", 2, block, true);
		expect_refusal("\n{\"a\":1}\n", 2, block, true);
	}
	expect_refusal("", 1, 4, false);
}

Test(splice, a_size_past_all_numbers)
{
	tdl__splice_source source = { .rows = UINT64_MAX / 4, .text_length = 90 };
	uint64_t size;

	cr_assert_not(tdl__splice_size(&source, &size));
	source = (tdl__splice_source){ .size = INT64_MAX, .lacks_newline = true };
	cr_assert_not(tdl__splice_size(&source, &size));
	source.lacks_newline = false;
	cr_assert(tdl__splice_size(&source, &size));
}

/* The end of a large file whose rows nobody counted costs the end, not all of it. */
Test(splice, counts_from_the_nearer_end)
{
	tdl__text rows CLEANUP(tdl__text_free) = { 0 };
	struct memory memory;
	tdl__splice_source source;
	tdl__splice *splice;
	char buffer[16];
	uint64_t size;

	for (int i = 0; i < 10000; i++)
		tdl__text_format(&rows, "{\"id\":%04d}\n", i);
	memory = (struct memory){ .bytes = rows.p, .n = rows.n };
	source = source_of(&memory, 10000, 120, "x");
	cr_assert(tdl__splice_size(&source, &size));
	cr_assert_eq(tdl__splice_new(&source, &splice, &error), 0);
	cr_assert_eq(tdl__splice_read(splice, buffer, 13, size - 13, &error), 0);
	cr_assert_eq(memcmp(buffer, "{x\"id\":9999}\n", 13), 0);
	cr_assert_lt(memory.reads, 12, "%u reads", memory.reads);
	tdl__splice_free(splice);
}

/* ---- Versions ------------------------------------------------------------------------------ */

TestSuite(changes, .init = scratch_begin, .fini = scratch_end);

static char *read_changes(tdl_table *table, int64_t version, size_t *n)
{
	tdl_changes *changes;
	char *bytes;

	if (tdl_changes_open(table, version, &changes, &error) < 0)
		cr_assert_fail("%s", error.message);
	bytes = malloc(tdl_changes_size(changes) + 2);
	if (tdl_changes_read(changes, bytes, tdl_changes_size(changes) + 1, 0, n, &error) < 0)
		cr_assert_fail("%s", error.message);
	cr_assert_eq(*n, tdl_changes_size(changes));
	bytes[*n] = '\0';
	tdl_changes_unref(changes);
	return bytes;
}

/* Lines with + or - before them, then NULL. */
static void expect_changes(tdl_table *table, int64_t version, const char *first, ...)
{
	tdl_version_info info;
	tdl__text expected CLEANUP(tdl__text_free) = { 0 };
	char *got;
	size_t n;
	va_list lines;
	const char *line;

	cr_assert_eq(tdl_table_version_info(table, version, &info, &error), 0);
	va_start(lines, first);
	for (line = first; line; line = va_arg(lines, const char *))
		tdl__text_format(&expected,
				 "{\"_change_type\":\"%s\",\"_commit_version\":%" PRId64
				 ",\"_commit_timestamp\":%" PRId64 ",%s\n",
				 *line == '-' ? "delete" : "insert", version, info.time,
				 line + 2); /* behind its brace */
	va_end(lines);
	got = read_changes(table, version, &n);
	cr_assert_eq(n, expected.n, "%s", got);
	cr_assert_eq(memcmp(got, expected.p ? expected.p : "", n), 0, "%s", got);
	free(got);
}

Test(changes, appends_overwrites_and_restores)
{
	tdl_table *table;

	make_table("t");
	table = open_table(in_scratch("t"));
	append_rows(table, "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n");
	append_rows(table, "{\"id\":3,\"name\":null}\n");
	overwrite_rows(table, "{\"id\":4,\"name\":\"d\"}\n");
	restore_version(table, 1);
	restore_version(table, 1);
	expect_changes(table, 0, NULL);
	expect_changes(table, 1, "+{\"id\":1,\"name\":\"a\"}", "+{\"id\":2,\"name\":\"b\"}", NULL);
	expect_changes(table, 2, "+{\"id\":3,\"name\":null}", NULL);
	expect_changes(table, 3, "-{\"id\":1,\"name\":\"a\"}", "-{\"id\":2,\"name\":\"b\"}",
		       "-{\"id\":3,\"name\":null}", "+{\"id\":4,\"name\":\"d\"}", NULL);
	expect_changes(table, 4, "-{\"id\":4,\"name\":\"d\"}", "+{\"id\":1,\"name\":\"a\"}",
		       "+{\"id\":2,\"name\":\"b\"}", NULL);
	expect_changes(table, 5, NULL);

	tdl_table_free(table);
}

static const char *add_quietly(const char *path, size_t size, unsigned records)
{
	static char line[256];

	snprintf(
		line, sizeof line,
		"{\"add\":{\"path\":\"%s\",\"size\":%zu,\"numRecords\":%u,\"dataChange\":false}}\n",
		path, size, records);
	return line;
}

Test(changes, of_other_writers)
{
	static const char one[] = "{\"id\": 1}\n\n{\"id\": 2}", two[] = " {\"id\": 3}\n";
	tdl__text lines CLEANUP(tdl__text_free) = { 0 };
	tdl_table *table;

	make_dir("t");
	make_dir("t/_delta_log");
	put_bytes("t/one", one, strlen(one));
	put_bytes("t/two", two, strlen(two));
	put_bytes("t/both", "{\"id\": 1}\n\n{\"id\": 2}\n {\"id\": 3}\n", 33);
	/* Version 0 may have rows; and a file may be added, removed and added again. */
	tdl__text_format(&lines, "%s%s%s%s", FOREIGN_META, add_line("one", strlen(one), 2), "", "");
	put_commit(in_scratch("t"), 0, lines.p);
	lines.n = 0;
	tdl__text_format(&lines, "%s", add_line("two", strlen(two), 1));
	tdl__text_format(&lines, "%s", remove_line("one"));
	tdl__text_format(&lines, "%s", add_line("one", strlen(one), 2));
	put_commit(in_scratch("t"), 1, lines.p);
	/* Rows that only move to another file. */
	lines.n = 0;
	tdl__text_format(&lines, "{\"remove\":{\"path\":\"one\",\"dataChange\":false}}\n"
				 "{\"remove\":{\"path\":\"two\",\"dataChange\":false}}\n");
	tdl__text_format(&lines, "%s", add_quietly("both", 33, 3));
	put_commit(in_scratch("t"), 2, lines.p);
	lines.n = 0;
	tdl__text_format(&lines, "%s", remove_line("both"));
	put_commit(in_scratch("t"), 3, lines.p);
	table = open_table(in_scratch("t"));
	{
		size_t n;
		char *got = read_changes(table, 0, &n);

		cr_assert(strstr(got, ",\"id\": 1}\n\n{\"_change_type\":\"insert\"") != NULL, "%s",
			  got);
		cr_assert(strstr(got, ",\"id\": 2}\n") != NULL, "%s", got);
		free(got);
		got = read_changes(table, 1, &n);
		cr_assert(strncmp(got, " {\"_change_type\":\"insert\",\"_commit_version\":1,",
				  46) == 0,
			  "%s", got);
		cr_assert(!strstr(got, "delete") && !strstr(got, "\"id\": 1"), "%s", got);
		free(got);
		got = read_changes(table, 2, &n);
		cr_assert_eq(n, 0, "%s", got);
		free(got);
		got = read_changes(table, 3, &n);
		cr_assert(strncmp(got, "{\"_change_type\":\"delete\",\"_commit_version\":3,", 45) ==
				  0,
			  "%s", got);
		free(got);
	}
	tdl_table_free(table);
}

Test(changes, of_files_that_are_not_what_the_log_says)
{
	tdl_table *table;
	tdl_changes *changes;
	char buffer[4096], *bytes;
	size_t got;

	make_dir("t");
	make_dir("t/_delta_log");
	put_commit(in_scratch("t"), 0, FOREIGN_META);
	put("t/one", "{\"id\": 1}\n{\"id\": 2}\n");
	put_commit(in_scratch("t"), 1, add_line("one", 20, 1));
	table = open_table(in_scratch("t"));
	cr_assert_eq(tdl_changes_open(table, 1, &changes, &error), 0);
	cr_assert_eq(tdl_changes_read(changes, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 1);
	cr_assert(strstr(error.message, "t/one: it does not have the 1 rows") != NULL, "%s",
		  error.message);
	tdl_changes_unref(changes);
	/* The version itself is what it was. */
	cr_assert_eq(try_read(table, 1, &bytes, &got, &error), 0);
	free(bytes);
	tdl_table_free(table);
}

Test(changes, reserved_columns)
{
	tdl_table *table;
	tdl_schema *schema;
	tdl_changes *changes;
	const char *columns[] = { "id:int", "_change_type:str" };

	cr_assert_eq(tdl_schema_parse(columns, 2, &schema, &error), 0);
	cr_assert_eq(tdl_table_create(in_scratch("t"), schema, NULL, &error), 0);
	table = open_table(in_scratch("t"));
	cr_assert_eq(tdl_changes_open(table, 0, &changes, &error), TDL_ERR_UNSUPPORTED);
	cr_assert(strstr(error.message, "_change_type"));
	tdl_schema_free(schema);
	tdl_table_free(table);
}
