/* SPDX-License-Identifier: MIT */
/*
 * What is read of a version: every offset and length of the golden tables, files without a last
 * newline and empty ones, and data files that are not what the log says.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"
#include "tables.h"

static tdl_error error;

TestSuite(snapshot, .init = scratch_begin, .fini = scratch_end);

/* Every offset with every length, or with many where there are too many. */
static void read_every_way(tdl_snapshot *snapshot, const char *expected, size_t n)
{
	char *buffer = malloc(n + 64);
	size_t step = n < 500 ? 1 : n / 100, got;

	for (size_t offset = 0; offset <= n + 2; offset++) {
		for (size_t count = 0; count <= n - (offset < n ? offset : n) + 2; count++) {
			size_t want = offset >= n ? 0 : count < n - offset ? count : n - offset;

			if (step > 1 && count > 3 && (offset + count) % step != 0)
				continue;
			buffer[want] = '#';
			if (tdl_snapshot_read(snapshot, buffer, count, offset, &got, &error) < 0)
				cr_assert_fail("%s", error.message);
			if (got != want ||
			    (want > 0 && memcmp(buffer, expected + offset, want) != 0))
				cr_assert_fail("%zu bytes at %zu", count, offset);
			if (buffer[want] != '#')
				cr_assert_fail("more than %zu bytes at %zu", count, offset);
		}
	}
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, 1, UINT64_MAX, &got, &error), 0);
	cr_assert_eq(got, 0);
	free(buffer);
}

/* The pieces that tdl_snapshot_file() tells of, put together by hand. */
static void read_by_files(tdl_snapshot *snapshot, const char *expected, size_t n)
{
	size_t at = 0;

	for (uint64_t i = 0; i < tdl_snapshot_info(snapshot)->files; i++) {
		tdl_file file;
		char *bytes;
		int fd;

		cr_assert_eq(tdl_snapshot_file(snapshot, i, &file, &error), 0);
		cr_assert_eq(file.offset, at);
		cr_assert_eq(tdl_snapshot_open_file(snapshot, i, &fd, &error), 0);
		bytes = malloc(file.size + 1);
		cr_assert_eq(pread(fd, bytes, file.size + 1, 0), (ssize_t)file.size);
		cr_assert_eq(memcmp(bytes, expected + at, file.size), 0);
		at += file.size;
		if (file.lacks_newline)
			cr_assert_eq(expected[at++], '\n');
		free(bytes);
		close(fd);
	}
	cr_assert_eq(at, n);
}

Test(snapshot, golden_tables_at_every_offset_and_length, .timeout = 60)
{
	static const char *const names[] = { "foreign", "orders", "orphans", "steps", "types" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		tdl_table *table = open_table(golden("tables/%s", names[i]));

		for (int64_t version = 0; version <= tdl_table_head(table); version++) {
			size_t n;
			char *expected = get_bytes(
				golden("expected/%s/v%ld.jsonl", names[i], (long)version), &n);
			tdl_snapshot *snapshot;
			uint64_t size;

			cr_assert_eq(tdl_snapshot_open(table, version, &snapshot, &error), 0);
			cr_assert_eq(tdl_snapshot_size(snapshot, &size, &error), 0);
			cr_assert_eq(size, n);
			read_every_way(snapshot, expected, n);
			read_by_files(snapshot, expected, n);
			tdl_snapshot_unref(snapshot);
			free(expected);
		}
		tdl_table_free(table);
	}
}

/* Six files: with and without a last newline, empty ones first, between and last. */
static void make_odd_table(void)
{
	char lines[2000];

	snprintf(lines, sizeof lines, "%s%s%s%s%s%s%s", FOREIGN_META, add_line("e1", 0, 0),
		 add_line("a", 5, 1), add_line("e2", 0, 0), add_line("b", 4, 1),
		 add_line("sub/c", 1, 0), add_line("e3", 0, 0));
	put_commit("t", 0, lines);
	put_commit("t", 1, add_line("d", 2, 1));
	make_dir("t/sub");
	put("t/e1", "%s", "");
	put("t/e2", "%s", "");
	put("t/e3", "%s", "");
	put("t/a", "aaaaa");
	put("t/b", "bbb\n");
	put("t/sub/c", "c");
	put("t/d", "dd");
}

Test(snapshot, missing_newlines_are_put_in)
{
	tdl_table *table;
	tdl_snapshot *snapshot, *again;
	uint64_t size;

	make_odd_table();
	table = open_table("t");
	cr_assert_eq(tdl_snapshot_open(table, 1, &snapshot, &error), 0);
	cr_assert_eq(tdl_snapshot_size(snapshot, &size, &error), 0);
	cr_assert_eq(size, 15);
	read_every_way(snapshot, "aaaaa\nbbb\nc\ndd\n", 15);
	read_by_files(snapshot, "aaaaa\nbbb\nc\ndd\n", 15);
	cr_assert_eq(tdl_snapshot_open(table, 0, &again, &error), 0);
	read_every_way(again, "aaaaa\nbbb\nc\n", 12);
	/* A snapshot outlives its table. */
	tdl_table_free(table);
	read_every_way(snapshot, "aaaaa\nbbb\nc\ndd\n", 15);
	cr_assert_eq(tdl_snapshot_ref(snapshot), snapshot);
	tdl_snapshot_unref(snapshot);
	read_by_files(snapshot, "aaaaa\nbbb\nc\ndd\n", 15);
	tdl_snapshot_unref(snapshot);
	tdl_snapshot_unref(again);
}

/* Whatever another tool wrote: its bytes, and a newline where one is missing. */
Test(snapshot, foreign_bytes_are_not_touched)
{
	static const char *const parts[] = {
		"\xef\xbb\xbf{\"id\":1,\"name\":\"bom\"}\n",
		"{\"id\":2,\"name\":\"crlf\"}\r\n",
		"\n \t\n{ \"name\" : NaN , \"id\" : 3 }",
		"\xef\xbb\xbf{\"id\":4,\"name\":\"x\xe2\x80\xa8y\xc2\x85\"}\r",
		"\r\n\n",
	};
	char lines[2000] = FOREIGN_META, all[500] = "";
	tdl_snapshot *snapshot;
	tdl_table *table;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char path[16];

		snprintf(path, sizeof path, "p%zu", i);
		put_bytes(in_scratch("t%zu", i), parts[i], strlen(parts[i]));
		strcat(lines, add_line(path, strlen(parts[i]), 1));
		strcat(all, parts[i]);
		if (all[strlen(all) - 1] != '\n')
			strcat(all, "\n");
	}
	put_commit("t", 0, lines);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		cr_assert_eq(rename(in_scratch("t%zu", i), in_scratch("t/p%zu", i)), 0);
	table = open_table("t");
	cr_assert_eq(tdl_snapshot_open(table, 0, &snapshot, &error), 0, "%s", error.message);
	read_every_way(snapshot, all, strlen(all));
	read_by_files(snapshot, all, strlen(all));
	tdl_snapshot_unref(snapshot);
	tdl_table_free(table);
}

/* Those behind what an earlier version has settled are known already. */
Test(snapshot, empty_files_of_later_versions)
{
	tdl_table *table;
	tdl_snapshot *snapshot;

	make_odd_table();
	put_commit("t", 2, add_line("e4", 0, 0));
	put("t/e4", "%s", "");
	table = open_table("t");
	for (int64_t i = 1; i <= 2; i++) {
		cr_assert_eq(tdl_snapshot_open(table, i, &snapshot, &error), 0);
		read_every_way(snapshot, "aaaaa\nbbb\nc\ndd\n", 15);
		read_by_files(snapshot, "aaaaa\nbbb\nc\ndd\n", 15);
		tdl_snapshot_unref(snapshot);
	}
	tdl_table_free(table);
}

Test(snapshot, what_is_no_version)
{
	tdl_snapshot *snapshot;
	tdl_table *table;
	tdl_file file;
	int fd;

	make_odd_table();
	table = open_table("t");
	cr_assert_eq(tdl_snapshot_open(table, 2, &snapshot, &error), TDL_ERR_NOT_FOUND);
	cr_assert_eq(error.version, 2);
	cr_assert_eq(tdl_snapshot_open(table, -2, &snapshot, &error), TDL_ERR_NOT_FOUND);
	cr_assert_eq(tdl_snapshot_open(table, INT64_MAX, &snapshot, &error), TDL_ERR_NOT_FOUND);
	cr_assert_eq(tdl_snapshot_open(table, INT64_MIN, &snapshot, &error), TDL_ERR_NOT_FOUND);
	cr_assert_eq(tdl_snapshot_open(table, 1, &snapshot, &error), 0);
	cr_assert_eq(tdl_snapshot_file(snapshot, 7, &file, &error), TDL_ERR_MISUSE);
	cr_assert_eq(tdl_snapshot_open_file(snapshot, UINT64_MAX, &fd, &error), TDL_ERR_MISUSE);
	tdl_snapshot_unref(snapshot);
	tdl_table_free(table);
}

/* ---- Damage -------------------------------------------------------------------------------- */

/* Version 1 holds good and victim, version 2 only good, version 3 victim again. */
static void make_victim(void)
{
	char lines[1000];

	put_commit("t", 0, FOREIGN_META);
	snprintf(lines, sizeof lines, "%s%s", add_line("good", 5, 1), add_line("victim", 6, 1));
	put_commit("t", 1, lines);
	put_commit("t", 2, remove_line("victim"));
	put_commit("t", 3, add_line("victim", 6, 1));
	put("t/good", "good\n");
	put("t/victim", "abcde\n");
}

static void expect_corrupt(tdl_table *table, int64_t version, const char *what)
{
	tdl_snapshot *snapshot;
	char buffer[64], whole[200];
	uint64_t size;
	size_t got;
	int fd, r;

	snprintf(whole, sizeof whole, "version %ld: data file %s", (long)version,
		 in_scratch("t/%s", what));
	cr_assert_eq(tdl_snapshot_open(table, version, &snapshot, &error), 0);
	r = tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error);
	cr_assert_eq(r, TDL_ERR_CORRUPT, "%s: %d", what, r);
	cr_assert_eq(error.code, TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, version);
	cr_expect_str_eq(error.message, whole);
	r = tdl_snapshot_open_file(snapshot, tdl_snapshot_info(snapshot)->files - 1, &fd, &error);
	cr_assert_eq(r, TDL_ERR_CORRUPT);
	r = tdl_snapshot_size(snapshot, &size, &error);
	cr_assert_eq(r, TDL_ERR_CORRUPT);
	tdl_snapshot_unref(snapshot);
}

static void expect_victim(const char *what)
{
	tdl_table *table = open_table("t");
	char *bytes;

	expect_corrupt(table, 1, what);
	/* Other versions do not suffer. */
	bytes = read_version(table, 2, NULL);
	cr_assert_str_eq(bytes, "good\n");
	free(bytes);
	tdl_table_free(table);
}

Test(snapshot, damaged_data_files, .timeout = 10)
{
	const char *victim;

	make_victim();
	victim = in_scratch("t/victim");
	unlink(victim);
	expect_victim("victim is missing");
	put("t/victim", "abcd\n");
	expect_victim("victim has 5 bytes, the log says 6");
	put("t/victim", "%s", "");
	expect_victim("victim has 0 bytes, the log says 6");
	put("t/victim", "abcdef\n");
	expect_victim("victim has 7 bytes, the log says 6");
	unlink(victim);
	put("elsewhere", "abcde\n");
	cr_assert_eq(symlink(in_scratch("elsewhere"), victim), 0);
	expect_victim("victim is reached through a symbolic link");
	unlink(victim);
	cr_assert_eq(symlink("good", victim), 0);
	expect_victim("victim is reached through a symbolic link");
	unlink(victim);
	cr_assert_eq(symlink("nowhere", victim), 0);
	expect_victim("victim is reached through a symbolic link");
	unlink(victim);
	cr_assert_eq(mkdir(victim, 0755), 0);
	expect_victim("victim is not a regular file");
	rmdir(victim);
	cr_assert_eq(mkfifo(victim, 0644), 0);
	expect_victim("victim is not a regular file");
	unlink(victim);
	cr_assert_eq(mknod(victim, S_IFSOCK | 0644, 0), 0);
	expect_victim("victim is not a regular file");
	unlink(victim);
	if (mknod(victim, S_IFCHR | 0666, 1 << 8 | 5) == 0) {
		expect_victim("victim is not a regular file");
		unlink(victim);
	}
	put("t/victim", "abcde\n");
	expect_version("t", 3, "good\nabcde\n");
}

Test(snapshot, a_folder_that_is_a_link)
{
	tdl_table *table;

	make_victim();
	make_dir("elsewhere");
	put("elsewhere/x", "x");
	put_commit("t", 4, add_line("sub/x", 1, 1));
	cr_assert_eq(symlink("../elsewhere", in_scratch("t/sub")), 0);
	table = open_table("t");
	expect_corrupt(table, 4, "sub/x is reached through a symbolic link");
	unlink(in_scratch("t/sub"));
	put("t/sub", "x");
	expect_corrupt(table, 4, "sub/x is missing");
	tdl_table_free(table);
}

Test(snapshot, unsafe_paths_make_the_version_unreadable)
{
	static const char *const unsafe[] = { "../x",
					      "/etc/passwd",
					      "a//b",
					      "./good",
					      "a/..",
					      "",
					      "_delta_log/00000000000000000000.json" };

	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++) {
		tdl_snapshot *snapshot;
		tdl_table *table;

		make_victim();
		put_commit("t", 4, add_line(unsafe[i], 6, 1));
		table = open_table("t");
		cr_assert_eq(tdl_snapshot_open(table, 4, &snapshot, &error), TDL_ERR_CORRUPT);
		cr_assert_eq(error.version, 4);
		cr_assert_eq(error.line, 2);
		cr_assert_not_null(strstr(error.message, "unsafe path"));
		tdl_table_free(table);
		expect_version("t", 3, "good\nabcde\n");
		remove_tree("t");
	}
}

Test(snapshot, changed_in_place_while_open)
{
	tdl_snapshot *snapshot;
	tdl_table *table;
	char buffer[64];
	size_t got;

	make_victim();
	age("t/victim", 100);
	table = open_table("t");
	cr_assert_eq(tdl_snapshot_open(table, 1, &snapshot, &error), 0);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error), 0);
	cr_assert_eq(got, 11);
	/* Same length, other bytes. */
	put("t/victim", "ABCDE\n");
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_not_null(strstr(error.message, "victim was changed while it was read"), "%s",
			   error.message);
	/* Another length. */
	put("t/victim", "ABC");
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_CORRUPT);
	/* Cut under an open descriptor with the time it had. */
	put("t/victim", "abcde\n");
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error), 0);
	cut_to("t/victim", 3);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_CORRUPT);
	tdl_snapshot_unref(snapshot);
	tdl_table_free(table);
}

/* A file that was replaced keeps its old bytes for those who have it open. */
Test(snapshot, the_last_byte_is_what_it_was)
{
	tdl_snapshot *snapshot;
	tdl_table *table;
	char buffer[64];
	size_t got;

	put_commit(
		"t", 0,
		FOREIGN_META
		"{\"add\":{\"path\":\"p\",\"size\":3,\"numRecords\":1,\"crc32c\":4163249591}}\n");
	put_commit("t", 1, add_line("q", 2, 1));
	put("t/p", "ppp");
	put("t/q", "q\n");
	table = open_table("t");
	/* Its checksum promises rows, and rows end in a newline: else they would run together. */
	cr_assert_eq(tdl_snapshot_open(table, 1, &snapshot, &error), 0);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_not_null(strstr(error.message, "p does not end as it should"), "%s",
			   error.message);
	tdl_snapshot_unref(snapshot);
	tdl_table_free(table);
}

Test(snapshot, failures_of_the_system_are_not_damage)
{
	tdl_snapshot *snapshot;
	tdl_table *table;
	char buffer[64];
	size_t got;

	make_victim();
	table = open_table("t");
	cr_assert_eq(tdl_snapshot_open(table, 1, &snapshot, &error), 0);
	faults_fail_op(TDL__OP_OPEN, 1, 1, EACCES);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_IO);
	cr_assert_eq(error.os_error, EACCES);
	cr_assert_eq(error.version, 1);
	faults_fail_op(TDL__OP_READ, 1, 1, EIO);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_IO);
	cr_assert_eq(error.os_error, EIO);
	/* A handle that a server has forgotten is asked for once more. */
	faults_fail_op(TDL__OP_OPEN, 1, 1, ESTALE);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error), 0, "%s",
		     error.message);
	/* And so is one that it forgets while the file is open. */
	faults_fail_op(TDL__OP_READ, 1, 1, ESTALE);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error), 0, "%s",
		     error.message);
	cr_assert_eq(got, 11);
	faults_fail_op(TDL__OP_READ, 1, 2, ESTALE);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_IO);
	cr_assert_eq(error.os_error, ESTALE);
	/* Deleted there meanwhile, it is missing here. */
	rename(in_scratch("t/good"), in_scratch("away"));
	faults_fail_op(TDL__OP_READ, 1, 1, ESTALE);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_not_null(strstr(error.message, "good is missing"), "%s", error.message);
	rename(in_scratch("away"), in_scratch("t/good"));
	faults_fail_op(TDL__OP_READ, 1, 20, TDL__SYS_SHORT);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, sizeof buffer, 0, &got, &error), 0);
	faults_off();
	cr_assert_eq(got, 11);
	cr_assert_eq(memcmp(buffer, "good\nabcde\n", 11), 0);
	tdl_snapshot_unref(snapshot);
	tdl_table_free(table);
}
