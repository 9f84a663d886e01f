/* SPDX-License-Identifier: MIT */
/*
 * Replaying a log: the order of files, damage and its repair, commits of others, and ten thousand
 * random commits against a plain list.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "sanitized.h"
#include "scratch.h"
#include "table/table.h"
#include "tables.h"

static tdl_error error;

TestSuite(history, .init = scratch_begin, .fini = scratch_end);

/* The files of a version as "path:size:rows " each. */
static const char *files_of(tdl_table *table, int64_t version)
{
	static char text[4096];
	tdl_snapshot *snapshot;
	size_t n = 0;

	cr_assert_eq(tdl_snapshot_open(table, version, &snapshot, &error), 0, "%s", error.message);
	text[0] = '\0';
	for (uint64_t i = 0; i < tdl_snapshot_info(snapshot)->files; i++) {
		tdl_file file;

		cr_assert_eq(tdl_snapshot_file(snapshot, i, &file, &error), 0, "%s", error.message);
		n += (size_t)snprintf(text + n, sizeof text - n, "%s:%lu:%lu ", file.path,
				      (unsigned long)file.size, (unsigned long)file.num_records);
	}
	tdl_snapshot_unref(snapshot);
	return text;
}

/* With a checksum, so that nobody needs to look at the file. */
static const char *add(const char *path, unsigned size, unsigned records)
{
	static char lines[16][200];
	static unsigned next;
	char *line = lines[next++ % 16];

	snprintf(line, sizeof lines[0],
		 "{\"add\":{\"path\":\"%s\",\"size\":%u,\"numRecords\":%u,\"crc32c\":1}}\n", path,
		 size, records);
	return line;
}

/* Puts a commit of up to four lines. */
static void commit(int64_t version, const char *a, const char *b, const char *c, const char *d)
{
	char lines[2000];

	snprintf(lines, sizeof lines, "%s%s%s%s%s", version == 0 ? FOREIGN_META : "", a, b, c, d);
	put_commit("t", version, lines);
}

Test(history, order_of_files)
{
	tdl_table *table;

	commit(0, "", "", "", "");
	commit(1, add("a", 1, 1), add("b", 2, 2), "", "");
	commit(2, add("c", 3, 3), "", "", "");
	/* A second add of a live path keeps its place and takes the new size. */
	commit(3, add("a", 9, 8), "", "", "");
	/* Removed and added again, in one commit or later: it goes to the end. */
	commit(4, remove_line("b"), add("b", 2, 2), "", "");
	commit(5, remove_line("a"), "", "", "");
	commit(6, add("a", 1, 1), "", "", "");
	/* In the order of the file: what is removed after it was added is gone. */
	commit(7, add("d", 4, 4), remove_line("d"), remove_line("nobody"), "");
	/* Only information. */
	commit(8, "", "", "", "");
	/* Added twice in one commit. */
	commit(9, add("e", 5, 5), add("f", 6, 6), add("e", 7, 7), "");
	/* An overwrite, and back. */
	commit(10, remove_line("c"), remove_line("b"), remove_line("a"), remove_line("e"));
	commit(11, remove_line("f"), add("g", 1, 1), "", "");
	commit(12, remove_line("g"), add("a", 9, 8), add("b", 2, 2), add("c", 3, 3));
	/* Removal and addition of the same path twice over. */
	commit(13, remove_line("b"), add("b", 4, 4), remove_line("b"), add("b", 5, 5));
	table = open_table("t");
	cr_assert_eq(tdl_table_damage(table, &error), 0);
	cr_assert_eq(tdl_table_head(table), 13);
	cr_expect_str_eq(files_of(table, 0), "");
	cr_expect_str_eq(files_of(table, 1), "a:1:1 b:2:2 ");
	cr_expect_str_eq(files_of(table, 2), "a:1:1 b:2:2 c:3:3 ");
	cr_expect_str_eq(files_of(table, 3), "a:9:8 b:2:2 c:3:3 ");
	cr_expect_str_eq(files_of(table, 4), "a:9:8 c:3:3 b:2:2 ");
	cr_expect_str_eq(files_of(table, 5), "c:3:3 b:2:2 ");
	cr_expect_str_eq(files_of(table, 6), "c:3:3 b:2:2 a:1:1 ");
	cr_expect_str_eq(files_of(table, 7), "c:3:3 b:2:2 a:1:1 ");
	cr_expect_str_eq(files_of(table, 8), "c:3:3 b:2:2 a:1:1 ");
	cr_expect_str_eq(files_of(table, 9), "c:3:3 b:2:2 a:1:1 e:7:7 f:6:6 ");
	cr_expect_str_eq(files_of(table, 10), "f:6:6 ");
	cr_expect_str_eq(files_of(table, 11), "g:1:1 ");
	cr_expect_str_eq(files_of(table, 12), "a:9:8 b:2:2 c:3:3 ");
	cr_expect_str_eq(files_of(table, 13), "a:9:8 c:3:3 b:5:5 ");
	tdl_table_free(table);
}

/* Paths are compared byte for byte. */
Test(history, spellings_are_different_paths)
{
	tdl_table *table;

	commit(0, add("part-a.jsonl", 1, 1), add("part%20a", 1, 1), add("x/y", 1, 1), "");
	commit(1, remove_line("./part-a.jsonl"), remove_line("part a"), remove_line("x//y"),
	       remove_line("X/y"));
	commit(2, "{\"remove\":{\"path\":\"\\u0078\\/y\"}}\n", "", "", "");
	table = open_table("t");
	cr_assert_str_eq(files_of(table, 1), "part-a.jsonl:1:1 part%20a:1:1 x/y:1:1 ");
	cr_assert_str_eq(files_of(table, 2), "part-a.jsonl:1:1 part%20a:1:1 ");
	tdl_table_free(table);
}

Test(history, what_versions_say)
{
	tdl_version_info info;
	tdl_table *table;

	put_commit("t", 0, add("a", 1, 1));
	put(commit_path("t", 1), "{\"commitInfo\":{\"timestamp\":-5,\"operation\":\"\\u00e4\"}}\n");
	commit(2,
	       "{\"metaData\":{\"id\":\"i2\",\"schema\":[{\"name\":\"x\",\"type\":\"bool\"}]}}\n",
	       add("b", 2, 5), "", "");
	commit(3, FOREIGN_META, "", "", "");
	table = open_table("t");
	/* Without metadata a version says nothing; later ones do. */
	for (int64_t version = 0; version < 2; version++) {
		cr_assert_eq(tdl_table_version_info(table, version, &info, &error),
			     TDL_ERR_CORRUPT);
		cr_assert_eq(error.version, version);
		cr_assert_not_null(strstr(error.message, "no metaData"), "%s", error.message);
	}
	cr_assert_eq(tdl_table_version_info(table, 2, &info, &error), 0);
	cr_assert_eq(tdl_schema_count(info.schema), 1);
	cr_assert_str_eq(info.table_id, "i2");
	cr_assert_eq(info.files, 2);
	cr_assert_eq(info.num_records, 6);
	cr_assert_eq(info.bytes, 3);
	cr_assert_eq(info.read_version, 1);
	cr_assert_eq(tdl_table_version_info(table, TDL_LATEST, &info, &error), 0);
	cr_assert_eq(info.version, 3);
	cr_assert_eq(tdl_schema_count(info.schema), 2);
	tdl_table_free(table);
}

Test(history, limits)
{
	static const char huge[] = "{\"add\":{\"path\":\"%c\",\"size\":%s,\"numRecords\":%s,"
				   "\"crc32c\":1}}\n";
	char a[200], b[200];
	tdl_table *table;

	snprintf(a, sizeof a, huge, 'a', "9223372036854775807", "1");
	snprintf(b, sizeof b, huge, 'b', "1", "1");
	commit(0, a, "", "", "");
	commit(1, b, "", "", "");
	table = open_table("t");
	cr_assert_eq(tdl_table_head(table), 0);
	cr_assert_eq(tdl_table_damage(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 1);
	cr_assert_not_null(strstr(error.message, "2^63 bytes"), "%s", error.message);
	tdl_table_free(table);
	remove_tree("t");

	/* In place of, not beside. */
	commit(0, a, "", "", "");
	commit(1, remove_line("a"), b, "", "");
	snprintf(b, sizeof b, huge, 'b', "1", "9223372036854775807");
	commit(2, b, "", "", "");
	commit(3, add("c", 1, 1), "", "", "");
	table = open_table("t");
	cr_assert_eq(tdl_table_head(table), 2);
	cr_assert_eq(tdl_table_damage(table, &error), TDL_ERR_CORRUPT);
	tdl_table_free(table);
}

static void expect_damage(tdl_table *table, int64_t head, int64_t first_bad, const char *what)
{
	tdl_snapshot *snapshot;

	cr_assert_eq(tdl_table_refresh(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, first_bad);
	cr_assert_not_null(strstr(error.message, what), "%s", error.message);
	cr_assert_eq(tdl_table_damage(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(tdl_table_head(table), head);
	for (int64_t version = 0; version <= head; version++) {
		cr_assert_eq(tdl_snapshot_open(table, version, &snapshot, &error), 0);
		tdl_snapshot_unref(snapshot);
	}
	/* Never an older one in its place. */
	cr_assert_eq(tdl_snapshot_open(table, TDL_LATEST, &snapshot, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(tdl_snapshot_open(table, first_bad, &snapshot, &error), TDL_ERR_CORRUPT);
}

/* A few bytes that remove one of many files cost as much memory as all of these. */
Test(history, lists_are_not_copied_without_end)
{
	tdl_table *table;

	commit(0, "", "", "", "");
	commit(1, add("a", 1, 1), add("b", 1, 1), add("c", 1, 1), add("d", 1, 1));
	table = open_table("t");
	table->history.copies_max = 10;
	commit(2, remove_line("a"), "", "", ""); /* 4 files and 3 */
	commit(3, remove_line("b"), "", "", ""); /* and 2 */
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	commit(4, remove_line("c"), remove_line("d"), add("e", 1, 1), ""); /* not copied */
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	commit(5, add("f", 1, 1), "", "", "");
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	commit(6, remove_line("e"), "", "", "");
	cr_assert_eq(tdl_table_refresh(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 6);
	cr_assert_eq(tdl_table_head(table), 5);
	cr_expect_str_eq(files_of(table, 5), "e:1:1 f:1:1 ");
	tdl_table_free(table);
}

Test(history, a_gap)
{
	tdl_snapshot *snapshot;
	tdl_table *table;
	int64_t version;

	commit(0, "", "", "", "");
	commit(1, add("a", 1, 1), "", "", "");
	commit(3, add("b", 1, 1), "", "", "");
	commit(5, add("c", 1, 1), "", "", "");
	table = open_table("t");
	expect_damage(table, 1, 2, "gap in the log");
	cr_assert_not_null(strstr(error.message, "no version 2, but version 3"), "%s",
			   error.message);
	cr_assert_eq(tdl_snapshot_open(table, 3, &snapshot, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(tdl_snapshot_open(table, 6, &snapshot, &error), TDL_ERR_NOT_FOUND);
	/* What exists is listed. */
	cr_assert_eq(tdl_table_next_version(table, -1), 0);
	cr_assert_eq(tdl_table_next_version(table, 0), 1);
	cr_assert_eq(tdl_table_next_version(table, 1), 3);
	cr_assert_eq(tdl_table_next_version(table, 3), 5);
	cr_assert_eq(tdl_table_next_version(table, 5), -1);
	/* No writer fills it. */
	cr_assert_eq(try_write(table, TDL_APPEND, "{\"id\":1,\"name\":\"x\"}\n", &version, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_not(is_there(commit_path("t", 2)));
	/* Filled by its owner, the log goes on. */
	commit(2, add("d", 1, 1), "", "", "");
	expect_damage(table, 3, 4, "no version 4, but version 5");
	/* A look that fails does not make it whole. */
	put_raw_commit("t", 4, "x", 1);
	expect_damage(table, 3, 4, "not valid JSON");
	unlink(commit_path("t", 4));
	faults_fail_op(TDL__OP_OPEN, 1, 1, EMFILE);
	cr_assert_eq(tdl_table_refresh(table, &error), TDL_ERR_IO);
	faults_off();
	expect_damage(table, 3, 4, "no version 4, but version 5");
	commit(4, "", "", "", "");
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	cr_assert_eq(tdl_table_head(table), 5);
	cr_assert_str_eq(files_of(table, 5), "a:1:1 d:1:1 b:1:1 c:1:1 ");
	/* So does it where what is behind the gap is taken away. */
	commit(8, "", "", "", "");
	cr_assert_eq(tdl__history_find_gap(&table->history, &error), TDL_ERR_CORRUPT);
	expect_damage(table, 5, 6, "no version 6, but version 8");
	unlink(commit_path("t", 8));
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	tdl_table_free(table);
}

Test(history, a_number_past_all_numbers)
{
	tdl_table *table;

	commit(0, "", "", "", "");
	put("t/_delta_log/99999999999999999999.json", "{}\n");
	table = open_table("t");
	expect_damage(table, 0, 1, "whose number is too large");
	cr_assert_eq(tdl_table_next_version(table, 0), -1);
	unlink(in_scratch("t/_delta_log/99999999999999999999.json"));
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	tdl_table_free(table);
}

Test(history, damage_and_repair_are_noticed)
{
	static const char torn[] = "{\"commitInfo\":{\"timest";
	tdl_table *table;

	commit(0, "", "", "", "");
	commit(1, add("a", 1, 1), "", "", "");
	table = open_table("t");
	put_raw_commit("t", 2, torn, sizeof torn - 1);
	expect_damage(table, 1, 2, "00000000000000000002.json:1: not valid JSON");
	cr_assert_eq(error.line, 1);
	/* As long as nothing changes, it costs a look, and two at the log's folder. */
	faults_count();
	cr_assert_eq(tdl_table_refresh(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(faults_off(), 3);
	cr_assert_eq(error.version, 2);
	cr_assert_eq(error.line, 1);
	/* Other damage in its place. */
	usleep(20000);
	put_raw_commit("t", 2, "", 0);
	expect_damage(table, 1, 2, "is empty");
	usleep(20000);
	commit(2, add("b", 1, 1), "", "", "");
	commit(3, add("c", 1, 1), "", "", "");
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	cr_assert_eq(tdl_table_head(table), 3);
	cr_assert_eq(tdl_table_damage(table, &error), 0);
	tdl_table_free(table);
}

Test(history, what_is_no_file_is_damage)
{
	tdl_table *table;
	int64_t version;

	commit(0, "", "", "", "");
	table = open_table("t");
	cr_assert_eq(mkdir(commit_path("t", 1), 0755), 0);
	expect_damage(table, 0, 1, "is not a regular file");
	cr_assert_eq(try_write(table, TDL_APPEND, "{\"id\":1,\"name\":\"x\"}\n", &version, &error),
		     TDL_ERR_CORRUPT);
	rmdir(commit_path("t", 1));
	cr_assert_eq(symlink("nowhere", commit_path("t", 1)), 0);
	expect_damage(table, 0, 1, "is not a regular file");
	unlink(commit_path("t", 1));
	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	tdl_table_free(table);
}

Test(history, commits_of_others_are_noticed)
{
	tdl_table *table, *other;

	make_table("t");
	table = open_table("t");
	other = open_table("t");
	for (int64_t version = 1; version <= 20; version++) {
		cr_assert_eq(append_rows(other, "{\"id\":1,\"name\":\"x\"}\n"), version);
		cr_assert_eq(tdl_table_head(table), version - 1);
		cr_assert_eq(tdl_table_refresh(table, &error), 0);
		cr_assert_eq(tdl_table_head(table), version);
	}
	/* Nothing new costs four system calls: the next one, whether the newest is what it was, and
	 * whether the log's folder still has its name. */
	cr_assert_eq(tdl_table_refresh(table, &error), 0);
	faults_count();
	cr_assert_eq(tdl_table_refresh(table, &error), 0);
	cr_assert_eq(faults_off(), 4);
	tdl_table_free(other);
	tdl_table_free(table);
}

/* A head that was shown does not go away silently. */
Test(history, a_vanished_head)
{
	tdl_table *table;
	int64_t version;
	char *bytes;

	make_table("t");
	table = open_table("t");
	append_rows(table, "{\"id\":1,\"name\":\"x\"}\n");
	append_rows(table, "{\"id\":2,\"name\":\"y\"}\n");
	unlink(commit_path("t", 2));
	cr_assert_eq(try_read(table, TDL_LATEST, &bytes, NULL, &error), TDL_ERR_CORRUPT);
	cr_assert_not_null(strstr(error.message, "was rewritten"), "%s", error.message);
	cr_assert_eq(error.version, 2);
	cr_assert_eq(try_read(table, 2, &bytes, NULL, &error), TDL_ERR_CORRUPT);
	bytes = read_version(table, 1, NULL);
	cr_assert_str_eq(bytes, "{\"id\":1,\"name\":\"x\"}\n");
	free(bytes);
	cr_assert_eq(try_write(table, TDL_APPEND, "{\"id\":3,\"name\":\"z\"}\n", &version, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_not(is_there(commit_path("t", 3)));
	tdl_table_free(table);
}

static int reason;

static int fourth_fails(enum tdl__op op, const char *name)
{
	return op == TDL__OP_OPEN && strcmp(name, "00000000000000000004.json") == 0 ? reason : 0;
}

/* One commit on a bad sector, or not for this user, takes those behind it along, and no other. */
Test(history, a_commit_that_cannot_be_read)
{
	static const int reasons[] = { EIO, EACCES, ESTALE };
	tdl_table *table;
	char *bytes;

	make_table("t");
	table = open_table("t");
	for (int i = 1; i <= 5; i++)
		append_rows(table, "{\"id\":1,\"name\":\"x\"}\n");
	tdl_table_free(table);
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		reason = reasons[i];
		tdl__sys_hook = fourth_fails;
		cr_assert_eq(tdl_table_open(in_scratch("t"), 0, &table, &error), 0, "%s",
			     error.message);
		for (int again = 0; again < 2; again++) {
			cr_assert_eq(tdl_table_damage(table, &error), TDL_ERR_CORRUPT);
			cr_assert_eq(error.version, 4);
			cr_assert_eq(tdl_table_head(table), 3);
			cr_assert_eq(tdl_table_next_version(table, 3), 4);
			cr_assert_eq(tdl_table_next_version(table, 4), 5);
			free(read_version(table, 3, NULL));
			cr_assert_eq(try_read(table, 4, &bytes, NULL, &error), TDL_ERR_CORRUPT);
			cr_assert_eq(try_read(table, TDL_LATEST, &bytes, NULL, &error),
				     TDL_ERR_CORRUPT);
		}
		/* It may pass. */
		tdl__sys_hook = NULL;
		free(read_version(table, TDL_LATEST, NULL));
		cr_assert_eq(tdl_table_damage(table, &error), 0);
		cr_assert_eq(tdl_table_head(table), 5);
		tdl_table_free(table);
		/* And who has not enough of something does not call that damage. */
		reason = i == 0 ? EMFILE : i == 1 ? ENFILE : ENOMEM;
		tdl__sys_hook = fourth_fails;
		cr_assert_eq(tdl_table_open(in_scratch("t"), 0, &table, &error),
			     i < 2 ? TDL_ERR_IO : TDL_ERR_NOMEM);
		tdl__sys_hook = NULL;
	}
}

/* Set back, and grown again: what was shown never mixes with what is there now. */
Test(history, a_log_that_was_set_back)
{
	tdl_table *table, *other;
	int64_t version;
	char *bytes;

	make_table("t");
	table = open_table("t");
	for (int i = 1; i <= 5; i++)
		append_rows(table, "{\"id\":1,\"name\":\"x\"}\n");
	for (int64_t grown = 3; grown <= 7; grown++) {
		unlink(commit_path("t", 4));
		unlink(commit_path("t", 5));
		other = open_table("t");
		while (tdl_table_head(other) < grown)
			append_rows(other, "{\"id\":2,\"name\":\"y\"}\n");
		tdl_table_free(other);
		cr_assert_eq(try_read(table, TDL_LATEST, &bytes, NULL, &error), TDL_ERR_CORRUPT);
		cr_assert_not_null(strstr(error.message, "was rewritten"), "%s", error.message);
		cr_assert_eq(error.version, 4);
		cr_assert_eq(tdl_table_head(table), 3);
		cr_assert_eq(try_read(table, 4, &bytes, NULL, &error), TDL_ERR_CORRUPT);
		cr_assert_eq(try_read(table, 5, &bytes, NULL, &error), TDL_ERR_CORRUPT);
		cr_assert_eq(try_write(table, TDL_APPEND, "{\"id\":3,\"name\":\"z\"}\n", &version,
				       &error),
			     TDL_ERR_CORRUPT);
		free(read_version(table, 3, NULL));
		/* Who comes anew sees what there is. */
		tdl_table_free(table);
		table = open_table("t");
		cr_assert_eq(tdl_table_head(table), grown);
		for (int64_t i = tdl_table_head(table); i < 5; i++)
			append_rows(table, "{\"id\":1,\"name\":\"x\"}\n");
		for (int64_t i = 6; i <= grown; i++)
			unlink(commit_path("t", i));
		tdl_table_free(table);
		table = open_table("t");
	}
	tdl_table_free(table);
}

__attribute__((format(printf, 1, 2))) static int run(const char *format, ...)
{
	char command[16384];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof command, format, args);
	va_end(args);
	return system(command);
}

/* A log whose folder was put aside, for a copy or for nothing: what was known stays, and nothing is
 * committed where nobody will ever look. */
Test(history, a_log_that_was_put_aside)
{
	const char *log = in_scratch("t/_delta_log"), *aside = in_scratch("aside");
	static const char row[] = "{\"id\":3,\"name\":\"z\"}\n";
	tdl_table *table, *other;
	int64_t version;
	char *bytes;

	for (int copied = 0; copied <= 1; copied++) {
		make_table("t");
		table = open_table("t");
		append_rows(table, "{\"id\":1,\"name\":\"x\"}\n");
		cr_assert_eq(rename(log, aside), 0);
		if (copied) {
			cr_assert_eq(run("cp -a %s %s", aside, log), 0);
			other = open_table("t");
			append_rows(other, row);
			tdl_table_free(other);
		}
		cr_assert_eq(try_write(table, TDL_APPEND, row, &version, &error), TDL_ERR_CORRUPT);
		cr_assert_not_null(strstr(error.message, "was replaced"), "%s", error.message);
		cr_assert_not(is_there(in_scratch("aside/%020d.json", 2)));
		cr_assert_eq(try_read(table, TDL_LATEST, &bytes, NULL, &error), TDL_ERR_CORRUPT);
		bytes = read_version(table, 1, NULL);
		cr_assert_str_eq(bytes, "{\"id\":1,\"name\":\"x\"}\n");
		free(bytes);
		/* Back in its place it is the log again. */
		cr_assert_eq(run("rm -rf %s && mv %s %s", log, aside, log), 0);
		append_rows(table, row);
		cr_assert_eq(tdl_table_head(table), 2);
		tdl_table_free(table);
		cr_assert_eq(run("rm -rf %s", in_scratch("t")), 0);
	}
}

/* The same bytes under another inode are the same commit: a backup that was put back. */
Test(history, a_commit_that_was_put_back)
{
	tdl_table *table;

	make_table("t");
	table = open_table("t");
	append_rows(table, "{\"id\":1,\"name\":\"x\"}\n");
	for (int64_t version = 0; version <= 1; version++) {
		size_t n;
		char *bytes = get_bytes(commit_path("t", version), &n);

		unlink(commit_path("t", version));
		put_bytes(commit_path("t", version), bytes, n);
		free(bytes);
	}
	cr_assert_eq(append_rows(table, "{\"id\":1,\"name\":\"x\"}\n"), 2);
	tdl_table_free(table);
}

/* A commit in the middle that was exchanged: the next one says that it was built on another. */
Test(history, a_commit_that_was_exchanged)
{
	tdl_table *table;
	char *bytes;
	size_t n;

	make_table("t");
	table = open_table("t");
	for (int i = 1; i <= 5; i++)
		append_rows(table, "{\"id\":1,\"name\":\"x\"}\n");
	tdl_table_free(table);
	/* By another program, which makes no promise. */
	bytes = get_bytes(commit_path("t", 3), &n);
	put_commit("t", 3, strchr(bytes, '\n') + 1);
	free(bytes);
	cr_assert_eq(tdl_table_open(in_scratch("t"), 0, &table, &error), 0);
	cr_assert_eq(tdl_table_damage(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 3);
	cr_assert_not_null(strstr(error.message, "version 4 was built on another"), "%s",
			   error.message);
	cr_assert_eq(tdl_table_head(table), 2);
	tdl_table_free(table);
}

Test(history, failures_to_look_are_not_damage)
{
	tdl_snapshot *snapshot;
	tdl_table *table;

	make_table("t");
	table = open_table("t");
	faults_fail_op(TDL__OP_OPEN, 1, 1, EMFILE);
	cr_assert_eq(tdl_snapshot_open(table, TDL_LATEST, &snapshot, &error), TDL_ERR_IO);
	faults_off();
	cr_assert_eq(error.os_error, EMFILE);
	cr_assert_eq(tdl_table_damage(table, &error), 0);
	cr_assert_eq(tdl_snapshot_open(table, TDL_LATEST, &snapshot, &error), 0);
	tdl_snapshot_unref(snapshot);
	tdl_table_free(table);
}

/* ---- Against a plain list ------------------------------------------------------------------ */

enum {
	COMMITS = 10000,
	PATHS = 60
};

struct live {
	unsigned path, size, records;
};

static struct live model[PATHS];
static unsigned model_count;

static void model_remove(unsigned path)
{
	for (unsigned i = 0; i < model_count; i++) {
		if (model[i].path == path) {
			memmove(model + i, model + i + 1, (model_count - i - 1) * sizeof *model);
			model_count--;
			return;
		}
	}
}

static void model_add(struct live file)
{
	for (unsigned i = 0; i < model_count; i++) {
		if (model[i].path == file.path) {
			model[i] = file;
			return;
		}
	}
	model[model_count++] = file;
}

/* Every third one is of the usual form. */
static void path_of(unsigned path, char out[64])
{
	if (path % 3 == 0)
		snprintf(out, 64, "part-%032x.jsonl", path);
	else
		snprintf(out, 64, "d/%u", path);
}

/* Makes up a commit, and does to the model what it says. */
static void random_commit(int64_t version)
{
	char lines[8192] = "", path[64];
	unsigned kind = (unsigned)rand() % 20, count = kind < 12 ? 1 : (unsigned)rand() % 6;
	size_t n = 0;

	if (version == 0)
		n = (size_t)snprintf(lines, sizeof lines, "%s", FOREIGN_META);
	if (kind == 19) {
		/* All of it away, as an overwrite does. */
		while (model_count > 0) {
			path_of(model[0].path, path);
			n += (size_t)snprintf(lines + n, sizeof lines - n, "%s", remove_line(path));
			model_remove(model[0].path);
		}
	}
	for (unsigned i = 0; i < count; i++) {
		struct live file = { (unsigned)rand() % PATHS, (unsigned)rand() % 1000,
				     (unsigned)rand() % 10 };

		path_of(file.path, path);
		if (kind > 14 && rand() % 2 == 0) {
			n += (size_t)snprintf(lines + n, sizeof lines - n, "%s", remove_line(path));
			model_remove(file.path);
		} else {
			n += (size_t)snprintf(lines + n, sizeof lines - n, "%s",
					      add(path, file.size, file.records));
			model_add(file);
		}
	}
	put_commit("t", version, lines);
}

static void compare(tdl_table *table, int64_t version, const struct live *live, unsigned count)
{
	const tdl_version_info *info;
	tdl_snapshot *snapshot;
	uint64_t offset = 0, records = 0;

	cr_assert_eq(tdl_snapshot_open(table, version, &snapshot, &error), 0, "%s", error.message);
	info = tdl_snapshot_info(snapshot);
	cr_assert_eq(info->files, count, "version %ld", (long)version);
	cr_assert_eq(info->timestamp, 1700000000000 + version);
	cr_assert_eq(info->read_version, version - 1);
	for (unsigned i = 0; i < count; i++) {
		tdl_file file;
		char path[64];

		path_of(live[i].path, path);
		cr_assert_eq(tdl_snapshot_file(snapshot, i, &file, &error), 0);
		if (strcmp(file.path, path) != 0 || file.size != live[i].size ||
		    file.num_records != live[i].records || file.offset != offset)
			cr_assert_fail("version %ld, file %u: %s", (long)version, i, file.path);
		offset += file.size;
		records += file.num_records;
	}
	cr_assert_eq(info->bytes, offset);
	cr_assert_eq(info->num_records, records);
	tdl_snapshot_unref(snapshot);
}

Test(history, random_commits_against_a_plain_list, .timeout = 60)
{
	struct live *all = malloc((size_t)COMMITS * PATHS * sizeof *all);
	unsigned *counts = malloc(COMMITS * sizeof *counts);
	tdl_table *grown = NULL, *fresh;

	srand(20260701);
	for (int64_t version = 0; version < COMMITS; version++) {
		random_commit(version);
		memcpy(all + version * PATHS, model, sizeof model);
		counts[version] = model_count;
		/* One table follows the log in steps, another reads it at once. */
		if (version == 0)
			grown = open_table("t");
		else if (rand() % 50 == 0)
			cr_assert_eq(tdl_table_refresh(grown, &error), 0, "%s", error.message);
	}
	cr_assert_eq(tdl_table_refresh(grown, &error), 0);
	fresh = open_table("t");
	cr_assert_eq(tdl_table_head(fresh), COMMITS - 1);
	for (int64_t version = 0; version < COMMITS; version++) {
		compare(fresh, version, all + version * PATHS, counts[version]);
		compare(grown, version, all + version * PATHS, counts[version]);
	}
	tdl_table_free(fresh);
	tdl_table_free(grown);
	free(all);
	free(counts);
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* A sanitizer has memory of its own. */
#ifndef SANITIZED
/* What is allocated, of all threads: what they have given back, and how much of it the C library
 * keeps for later, is another matter. */
static size_t allocated(void)
{
	struct mallinfo2 all = mallinfo2();

	return all.uordblks + all.hblkhd;
}

Test(history, memory_of_a_version, .timeout = 60)
{
	enum {
		VERSIONS = 60000
	};
	size_t before;
	double each;
	tdl_table *table;

	commit(0, "", "", "", "");
	for (int64_t version = 1; version <= VERSIONS; version++) {
		char path[64];

		snprintf(path, sizeof path, "part-%032lx.jsonl", (long)version * 7919);
		commit(version, add(path, 100, 1), "", "", "");
	}
	before = allocated();
	table = open_table("t");
	each = (double)(allocated() - before) / VERSIONS;
	cr_assert_eq(tdl_table_head(table), VERSIONS);
	cr_assert_lt(each, 96, "%.1f bytes a version", each);
	cr_log_info("%.1f bytes a version", each);
	tdl_table_free(table);
}
#endif
