/* SPDX-License-Identifier: MIT */
/*
 * Checking a table: each kind of problem is named, with its file and line, and for every version
 * checking and reading agree.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commit/check.h"
#include "commit/staging.h"
#include "faults.h"
#include "scratch.h"
#include "tables.h"
#include "util/crc32c.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2 "{\"id\":2,\"name\":\"b\"}\n"
#define HEX   "0123456789abcdef0123456789abcdef"

static tdl_error error;

TestSuite(check, .init = scratch_begin, .fini = scratch_end);

static char all[1 << 16];
static bool damaged;
static int64_t first_damaged;

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void note(void *context, const tdl_problem *problem)
{
	char line[64] = "";

	if (problem->severity == TDL_DAMAGE) {
		if (!damaged || problem->version < first_damaged)
			first_damaged = problem->version;
		damaged = true;
	}
	if (problem->line > 0)
		snprintf(line, sizeof line, ":%lu", (unsigned long)problem->line);
	snprintf(all + strlen(all), sizeof all - strlen(all), "%d %s%s: %s\n",
		 (int)problem->severity, problem->path, line, problem->text);
}

static int check_table(tdl_table *table, int64_t version)
{
	tdl_check_options options = { .version = version };

	all[0] = '\0';
	damaged = false;
	return tdl_table_check(table, &options, note, NULL, &error);
}

/* The problems, sorted, one a line: severity, file, line, text. */
static const char *check(int64_t version)
{
	static char sorted[1 << 16];
	tdl_table *table = open_table("t");
	char *lines[200];
	size_t count = 0, n = 0;

	cr_assert_eq(check_table(table, version), 0, "%s", error.message);
	tdl_table_free(table);
	for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n"))
		lines[count++] = line;
	qsort(lines, count, sizeof *lines, by_text);
	sorted[0] = '\0';
	for (size_t i = 0; i < count; i++)
		n += (size_t)snprintf(sorted + n, sizeof sorted - n, "%s\n", lines[i]);
	return sorted;
}

static void begin_table(void)
{
	tdl_table *table;

	make_table("t");
	table = open_table("t");
	append_rows(table, ROW_1 ROW_2);
	append_rows(table, ROW_2);
	overwrite_rows(table, ROW_1);
	restore_version(table, 1);
	append_rows(table, ROW_1);
	tdl_table_free(table);
}

/* The data file that a commit of `begin_table` adds. */
static char *part_of(int64_t version)
{
	char *text = get_bytes(commit_path("t", version), NULL);
	char *path = strndup(strstr(text, "\"add\":{\"path\":\"") + 15, 43);

	free(text);
	return path;
}

Test(check, a_good_table)
{
	begin_table();
	cr_assert_str_eq(check(-1), "");
	for (int64_t version = 0; version < 6; version++)
		cr_assert_str_eq(check(version), "");
}

/* When the tables that the Python package made are older than a day. */
#define AFTER_GOLDEN INT64_C(1797000000000)

Test(check, a_version_from_the_future)
{
	int64_t now = tdl__now_ms();

	begin_table();
	/* Clocks differ by a little. */
	tdl__check_now = now - 30000;
	cr_assert_str_eq(check(-1), "");
	tdl__check_now = now - 3600000;
	cr_assert_eq(
		strncmp(check(-1), "1 _delta_log/00000000000000000000.json:1: is dated 20", 53), 0,
		"%s", check(-1));
	cr_assert_not_null(
		strstr(check(-1), "Z, which lies in the future (a clock was ahead)\n1 "));
	cr_assert_not_null(
		strstr(check(-1), "1 _delta_log/00000000000000000005.json:1: is dated "));
	cr_assert_null(strstr(check(3), "0004.json"));
}

Test(check, golden_tables)
{
	static const char *const names[] = { "orders", "steps" };

	tdl__check_now = AFTER_GOLDEN;
	for (size_t i = 0; i < 2; i++) {
		copy_tree(golden("tables/%s", names[i]), "t");
		cr_assert_str_eq(check(-1), "");
		remove_tree("t");
	}
	copy_tree(golden("tables/foreign"), "t");
	cr_assert_str_eq(
		check(-1),
		"1 part-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.jsonl: lacks its last newline "
		"(versions 1 to 5)\n"
		"1 part-dddddddddddddddddddddddddddddddd.jsonl:1: byte 16: NaN and Infinity "
		"are not JSON (versions 4 to 5)\n");
	remove_tree("t");
	copy_tree(golden("tables/orphans"), "t");
	cr_assert_str_eq(
		check(-1),
		"0 _delta_log/.00000000000000000003." HEX ".tmp: a commit that was never "
		"published\n"
		"0 part-00000000000000000000000000000bad.jsonl: a data file that no version "
		"ever held\n");
}

static void expect(int64_t version, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void expect(int64_t version, const char *format, ...)
{
	char want[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(want, sizeof want, format, args);
	va_end(args);
	cr_assert_str_eq(check(version), want);
}

Test(check, data_files)
{
	char *part, path[100], *bytes;
	size_t n;

	begin_table();
	part = part_of(1);
	snprintf(path, sizeof path, "t/%s", part);
	bytes = get_bytes(path, &n);
	cut_to(path, n - 1);
	expect(-1, "2 %s: has %zu bytes, the log says %zu (versions 1 to 2, 4 to 5)\n", part, n - 1,
	       n);
	expect(0, "%s", "");
	expect(1, "2 %s: has %zu bytes, the log says %zu (version 1)\n", part, n - 1, n);
	expect(3, "%s", "");
	expect(4, "2 %s: has %zu bytes, the log says %zu (version 4)\n", part, n - 1, n);
	unlink(in_scratch("%s", path));
	expect(-1, "2 %s: is missing (versions 1 to 2, 4 to 5)\n", part);
	cr_assert_eq(symlink("x", in_scratch("%s", path)), 0);
	expect(-1, "2 %s: is reached through a symbolic link (versions 1 to 2, 4 to 5)\n", part);
	unlink(in_scratch("%s", path));
	make_dir(path);
	expect(-1, "2 %s: is not a regular file (versions 1 to 2, 4 to 5)\n", part);
	rmdir(in_scratch("%s", path));
	/* The same length, another byte. */
	bytes[6] = '8';
	put_bytes(path, bytes, n);
	expect(-1, "2 %s: is not what its checksum in the log says (versions 1 to 2, 4 to 5)\n",
	       part);
	bytes[6] = '1';
	put_bytes(path, bytes, n);
	expect(-1, "%s", "");
	free(bytes);
	free(part);
}

Test(check, rows)
{
	make_table("t");
	put("t/a", "{\"id\":1,\"name\":\"x\"}\n{\"id\":\"2\",\"name\":\"x\"}\n");
	put("t/b", "{\"id\":1}\n");
	put("t/c", ROW_1 ROW_1);
	put("t/d", "{\"id\":1,\"name\":\"x\"}\nnot json\n");
	put("t/e", "{\"id\":1,\"name\":\"x\"}");
	put("t/f", "%s", "");
	put("t/g", ROW_1);
	put_commit("t", 1, add_line("a", 42, 2));
	put_commit("t", 2, add_line("b", 9, 1));
	put_commit("t", 3, add_line("c", 40, 3));
	put_commit("t", 4, add_line("d", 29, 2));
	put_commit("t", 5, add_line("e", 19, 1));
	put_commit("t", 6, add_line("f", 0, 1));
	put_commit("t", 7, add_line("g", 20, 1));
	put_commit("t", 8, add_line("g", 20, 7));
	cr_assert_str_eq(check(1), "1 a:2: \"id\" expected int, got string \"2\" (version 1)\n");
	cr_assert_str_eq(check(2), "1 a:2: \"id\" expected int, got string \"2\" (version 2)\n"
				   "1 b:1: missing column \"name\" (version 2)\n");
	check(-1);
	cr_assert_not(damaged);
	cr_assert_not_null(
		strstr(check(-1), "1 c: has 2 rows, the log says 3 (versions 3 to 8)\n"));
	cr_assert_not_null(strstr(check(-1), "1 d:2: "), "%s", check(-1));
	cr_assert_not_null(strstr(check(-1), "1 e: lacks its last newline (versions 5 to 8)\n"));
	cr_assert_not_null(
		strstr(check(-1), "1 f: has 0 rows, the log says 1 (versions 6 to 8)\n"));
	/* Added again with another number. */
	cr_assert_not_null(strstr(check(-1), "1 g: has 1 rows, the log says 7 (version 8)\n"));
}

/* One name of which two commits say what cannot both be so: each version is told of by itself. */
Test(check, one_name_two_promises)
{
	char line[200];

	make_table("t");
	put("t/a", ROW_1);
	for (int version = 1; version <= 2; version++) {
		const char *rows = version == 1 ? ROW_1 : ROW_2;

		snprintf(line, sizeof line,
			 "{\"add\":{\"path\":\"a\",\"size\":%zu,\"numRecords\":1,"
			 "\"crc32c\":%u}}\n",
			 strlen(rows), (unsigned)tdl__crc32c(0, rows, strlen(rows)));
		put_commit("t", version, line);
	}
	cr_assert_str_eq(check(1), "");
	cr_assert_not_null(strstr(check(-1), "2 a: is not what its checksum in the log says "
					     "(version 2)\n"),
			   "%s", check(-1));
}

Test(check, the_log)
{
	begin_table();
	put_commit("t", 8, "{\"add\":{\"path\":\"x\"}}\n");
	put_commit("t", 10, "");
	put("t/_delta_log/99999999999999999999.json", "x");
	/* What is left over is not known behind damage. */
	put("t/part-" HEX ".jsonl", "x");
	cr_assert_str_eq(
		check(-1),
		"2 _delta_log/00000000000000000006.json: missing, and so are the versions up to 7: "
		"a "
		"gap in the log (versions 6 to 10 cannot be read)\n"
		"2 _delta_log/00000000000000000008.json:2: add without a whole number as its size\n"
		"2 _delta_log/00000000000000000009.json: missing: a gap in the log\n"
		"2 _delta_log: holds a commit whose number is past all versions\n");
	cr_assert_str_eq(check(5), "");
	cr_assert_not_null(strstr(check(6), "missing"));
	cr_assert_not_null(strstr(check(10), "00000000000000000006.json: missing"));
	unlink(commit_path("t", 8));
	unlink(commit_path("t", 10));
	unlink(in_scratch("t/_delta_log/99999999999999999999.json"));
	put_raw_commit("t", 4, "", 0);
	cr_assert_str_eq(check(-1),
			 "2 _delta_log/00000000000000000004.json: is empty (versions 4 to "
			 "5 cannot be read)\n");
	cr_assert_str_eq(check(3), "");
	unlink(commit_path("t", 4));
	make_dir(commit_path("t", 4));
	cr_assert_str_eq(check(4), "2 _delta_log/00000000000000000004.json: is not a regular file "
				   "(versions 4 to 5 cannot be read)\n");
}

Test(check, what_only_replaying_finds)
{
	put_commit("t", 0, "");
	put_commit("t", 1,
		   FOREIGN_META
		   "{\"add\":{\"path\":\"a\",\"size\":9223372036854775807,\"numRecords\":1,"
		   "\"crc32c\":1}}\n");
	put_commit("t", 2,
		   "{\"add\":{\"path\":\"b\",\"size\":9223372036854775807,\"numRecords\":1,"
		   "\"crc32c\":1}}\n");
	check(-1);
	cr_assert_not_null(
		strstr(check(0), "2 _delta_log/00000000000000000000.json: version 0 of"));
	cr_assert_not_null(strstr(check(0), "no metaData"));
	cr_assert_not_null(strstr(check(-1), "2^63 bytes"));
	cr_assert_not_null(strstr(check(-1), "2 a: is missing (version 1)"));
	cr_assert_not_null(strstr(check(2), "2^63 bytes"));
}

static unsigned missing, ranges;

static void count_missing(void *context, const tdl_problem *problem)
{
	missing += strstr(problem->text, "is missing") != NULL;
	ranges += strstr(problem->text, " to ") != NULL;
}

/* All data files lost of a table of many versions: it is not a matter of hours. */
Test(check, very_many_problems, .timeout = 20)
{
	enum {
		FILES = 3000
	};
	tdl_check_options options = { .version = -1 };
	tdl_table *table;

	put_commit("t", 0, FOREIGN_META);
	for (int64_t version = 1; version <= FILES; version++) {
		char path[64];

		snprintf(path, sizeof path, "part-%032lx.jsonl", (long)version);
		put_commit("t", version, add_line(path, 10, 1));
	}
	table = open_table("t");
	cr_assert_eq(tdl_table_check(table, &options, count_missing, NULL, &error), 0);
	cr_assert_eq(missing, FILES);
	cr_assert_eq(ranges, 100);
	tdl_table_free(table);
}

Test(check, no_such_version)
{
	tdl_table *table;

	begin_table();
	table = open_table("t");
	cr_assert_eq(check_table(table, 6), TDL_ERR_NOT_FOUND);
	cr_assert_eq(error.version, 6);
	tdl_table_free(table);
}

static void stage_and_die(const char *name)
{
	pid_t pid = fork();

	if (pid == 0) {
		tdl_table *table = open_table("t");
		tdl_staging *staging;
		tdl_staged *file;

		if (tdl_staging_open(table, &staging, NULL) < 0 ||
		    (!name ? tdl__staged_create_nameless(staging, HEX, &file, NULL)
			   : tdl_staged_create(staging, name, &file, NULL)) < 0)
			_exit(1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

Test(check, leftovers)
{
	static const char other[] = "t/_incoming/00112233445566778899aabbccddeeff-"
				    "00112233445566778899aabbccddeeff-0011223344556677";
	tdl_table *table;
	char *published;

	begin_table();
	stage_and_die("drop\n1");
	stage_and_die(NULL);
	make_dir(other);
	published = part_of(1);
	put(in_scratch("%s/%s-x", other, HEX), "x");
	put(in_scratch("%s/%.32s-y", other, published + 5), "y");
	free(published);
	make_dir("t/_incoming/mine");
	put("t/_incoming/mine/" HEX "-z", "z");
	put("t/part-" HEX ".jsonl", "x");
	put("t/notes.txt", "x");
	check(-1);
	cr_assert_not_null(
		strstr(check(-1), "-drop\\x0a1: an incomplete drop of a process that died\n"), "%s",
		check(-1));
	cr_assert_not_null(strstr(check(-1), "/" HEX ": left by a process that died\n"));
	cr_assert_not_null(strstr(check(-1), HEX "-x: staged by another machine; if that is "
						 "gone: tinydelta recover "));
	cr_assert_not_null(strstr(check(-1), "-y: left of what was published\n"));
	cr_assert_not_null(
		strstr(check(-1), "0 part-" HEX ".jsonl: a data file that no version ever held\n"));
	cr_assert_null(strstr(check(-1), "notes"));
	cr_assert_null(strstr(check(-1), "mine"));
	cr_assert_str_eq(check(5), "");
	/* Nothing was touched; and what vacuum takes is named no more. */
	table = open_table("t");
	free(vacuum(table, false));
	tdl_table_free(table);
	cr_assert_null(strstr(check(-1), "part-"));
	cr_assert_not_null(strstr(check(-1), "an incomplete drop"));
}

Test(check, the_living_are_left_alone)
{
	tdl_staging *staging;
	tdl_staged *file;
	tdl_table *table;

	begin_table();
	table = open_table("t");
	cr_assert_eq(tdl_staging_open(table, &staging, &error), 0);
	cr_assert_eq(tdl_staged_create(staging, "mine", &file, &error), 0);
	cr_assert_str_eq(check(-1), "");
	tdl_staged_free(file);
	tdl_staging_free(staging);
	tdl_table_free(table);
}

static void at(void *context, uint64_t bytes, uint64_t total)
{
	uint64_t *last = context;

	cr_assert(bytes > last[0] && bytes <= total);
	last[0] = bytes;
	last[1] = total;
}

Test(check, progress)
{
	uint64_t last[2] = { 0 };
	tdl_check_options options = { .version = -1, .progress = at, .context = last };
	tdl_table *table;

	begin_table();
	table = open_table("t");
	cr_assert_eq(tdl_table_check(table, &options, note, NULL, &error), 0);
	cr_assert_eq(last[0], 5 * strlen(ROW_1));
	cr_assert_eq(last[0], last[1]);
	tdl_table_free(table);
}

/* ---- Checking and reading agree ------------------------------------------------------------ */

/* For each version: what check calls good reads, and what the reader refuses is named. */
static void expect_agreement(const char *what)
{
	tdl_table *table;

	if (tdl_table_open(in_scratch("t"), 0, &table, &error) < 0)
		return;
	for (int64_t version = 0; version < 6; version++) {
		char *bytes;
		int checked = check_table(table, version), read;
		bool good = checked == 0 && !damaged;

		cr_assert(checked == 0 || checked == TDL_ERR_NOT_FOUND, "%s: %s", what,
			  error.message);
		read = try_read(table, version, &bytes, NULL, &error);
		if (read == 0)
			free(bytes);
		/* Reading does not look at checksums. */
		if (good != (read == 0) && !(read == 0 && strstr(all, "its checksum")))
			cr_assert_fail("%s: version %d reads with %d (%s), check says %d:\n%s",
				       what, (int)version, read, error.message, checked, all);
	}
	cr_assert_eq(check_table(table, -1), 0);
	tdl_table_free(table);
}

Test(check, agrees_with_readers, .timeout = 60)
{
	begin_table();
	for (int64_t version = 1; version < 6; version++) {
		size_t n;
		char *text = get_bytes(commit_path("t", version), &n), what[64];

		for (size_t i = 0; i < n; i += 3) {
			text[i] ^= 4;
			put_bytes(commit_path("t", version), text, n);
			text[i] ^= 4;
			snprintf(what, sizeof what, "commit %d, byte %zu", (int)version, i);
			expect_agreement(what);
		}
		unlink(commit_path("t", version));
		expect_agreement("a gap");
		put_bytes(commit_path("t", version), text, n);
		if (version != 4) {
			char *part = part_of(version), path[100];

			snprintf(path, sizeof path, "t/%s", part);
			rename(in_scratch("%s", path), in_scratch("away"));
			expect_agreement("a missing file");
			put(path, "short");
			expect_agreement("a short file");
			rename(in_scratch("away"), in_scratch("%s", path));
			free(part);
		}
		free(text);
	}
	tdl__check_now = AFTER_GOLDEN;
	copy_tree(golden("tables/foreign"), "f");
	remove_tree("t");
	copy_tree("f", "t");
	for (int64_t version = 1; version < 6; version++) {
		size_t n;
		char *text = get_bytes(commit_path("t", version), &n), what[64];

		for (size_t i = 0; i < n; i++) {
			text[i] ^= 1;
			put_bytes(commit_path("t", version), text, n);
			text[i] ^= 1;
			snprintf(what, sizeof what, "foreign commit %d, byte %zu", (int)version, i);
			expect_agreement(what);
		}
		put_bytes(commit_path("t", version), text, n);
		free(text);
	}
}
