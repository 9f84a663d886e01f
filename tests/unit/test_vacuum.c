/* SPDX-License-Identifier: MIT */
/*
 * What vacuum deletes and, above all, what it does not.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"
#include "staging.h"
#include "tables.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"
#define HEX   "0123456789abcdef0123456789abcdef"
#define TEMP  "t/_delta_log/.00000000000000000009." HEX ".tmp"

static tdl_error error;
static tdl_table *table;

static void begin(void)
{
	table = begin_with_table("t");
}

static void end(void)
{
	end_with_table(table);
}

TestSuite(vacuum, .init = begin, .fini = end);

static void expect_found(const char *what)
{
	char *dry = vacuum(table, true), *found = vacuum(table, false), *again;

	cr_assert_str_eq(dry, what);
	cr_assert_str_eq(found, what);
	if (strstr(what, "_incoming/") != NULL)
		cr_assert_eq(count_in("t/_incoming"), 0, "nor is the folder left");
	again = vacuum(table, false);
	cr_assert_str_eq(again, "", "%s", again);
	free(dry);
	free(found);
	free(again);
}

static void note(void *context, const char *path)
{
	++*(unsigned *)context;
}

static int try_vacuum(int64_t older_than, unsigned *found)
{
	tdl_vacuum_options options = { .older_than = older_than };

	*found = 0;
	return tdl_table_vacuum(table, &options, note, found, &error);
}

static void leave_nameless(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		tdl_staging *staging;
		tdl_staged *file;

		tdl_staging_open(table, &staging, NULL);
		tdl__staged_create_nameless(staging, HEX, &file, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

Test(vacuum, orphans_temporary_commits_and_staged_files)
{
	char *folder, what[600];

	append_rows(table, ROW_1);
	put("t/part-ffffffffffffffffffffffffffffffff.jsonl", "x");
	put("t/part-00000000000000000000000000000bad.jsonl", "x");
	put(TEMP, "x");
	leave_nameless();
	folder = names_in("t/_incoming");
	folder[strlen(folder) - 1] = '\0';
	snprintf(what, sizeof what,
		 "part-00000000000000000000000000000bad.jsonl\n"
		 "part-ffffffffffffffffffffffffffffffff.jsonl\n%s\n_incoming/%s/" HEX "\n",
		 &TEMP[2], folder);
	expect_found(what);
	expect_version("t", 1, ROW_1);
	free(folder);
}

Test(vacuum, names_that_are_not_the_tables)
{
	static const char *const names[] = {
		"t/notes.txt",
		"t/part-x.jsonl",
		"t/part-0123456789ABCDEF0123456789abcdef.jsonl",
		"t/part-" HEX ".json",
		"t/part-" HEX ".jsonl.bak",
		"t/sub/part-" HEX ".jsonl",
		"t/_delta_log/.tmp",
		"t/_delta_log/00000000000000000001.json.bak",
		"t/_delta_log/.00000000000000000001." HEX ".tmp2",
		"t/_delta_log/part-" HEX ".jsonl",
		"t/_delta_log/_history.idx",
	};

	make_dir("t/sub");
	make_dir("t/part-" HEX ".jsonl");
	make_dir("t/_delta_log/.00000000000000000001." HEX ".tmp");
	cr_assert_eq(symlink("x", in_scratch("t/part-ffffffffffffffffffffffffffffffff.jsonl")), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		put(names[i], "x");
	expect_found("");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		cr_assert(is_there(names[i]), "%s", names[i]);
}

Test(vacuum, whatever_was_ever_added_stays)
{
	char lines[1000];

	append_rows(table, ROW_1);
	overwrite_rows(table, ROW_1);
	restore_version(table, 0);
	/* Removed in the very commit that added it, by other hands. */
	put("t/part-" HEX ".jsonl", "x");
	put_commit("t", 4, add_line("part-" HEX ".jsonl", 1, 1));
	put_commit("t", 5, remove_line("part-" HEX ".jsonl"));
	put("t/part-11111111111111111111111111111111.jsonl", "x");
	snprintf(lines, sizeof lines, "%s%s",
		 add_line("part-11111111111111111111111111111111.jsonl", 1, 1),
		 remove_line("part-11111111111111111111111111111111.jsonl"));
	put_commit("t", 6, lines);
	expect_found("");
	expect_version("t", 1, ROW_1);
	expect_version("t", 2, ROW_1);
}

/* We follow no links, but the writer of that commit may. */
Test(vacuum, what_was_added_by_way_of_a_folder_stays)
{
	put("t/part-" HEX ".jsonl", "x");
	cr_assert_eq(symlink(".", in_scratch("t/here")), 0);
	put_commit("t", 1, add_line("here/part-" HEX ".jsonl", 1, 1));
	expect_found("");
	put("t/part-ffffffffffffffffffffffffffffffff.jsonl", "x");
	expect_found("part-ffffffffffffffffffffffffffffffff.jsonl\n");
	cr_assert(is_there("t/part-" HEX ".jsonl"));
}

Test(vacuum, with_a_damaged_log_it_deletes_nothing)
{
	unsigned found;

	append_rows(table, ROW_1);
	put("t/part-" HEX ".jsonl", "x");
	put(TEMP, "x");
	leave_nameless();
	put_raw_commit("t", 2, "{", 1);
	cr_assert_eq(try_vacuum(0, &found), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 2);
	cr_assert_eq(found, 0);
	unlink(commit_path("t", 2));
	/* Behind a gap there may be commits that name it. */
	put_commit("t", 3, add_line("part-" HEX ".jsonl", 1, 1));
	cr_assert_eq(try_vacuum(0, &found), TDL_ERR_CORRUPT);
	cr_assert_eq(found, 0);
	unlink(commit_path("t", 3));
	/* A head that vanished. */
	rename(commit_path("t", 1), in_scratch("away"));
	cr_assert_eq(try_vacuum(0, &found), TDL_ERR_CORRUPT);
	cr_assert_eq(found, 0);
	rename(in_scratch("away"), commit_path("t", 1));
	/* Who has seen that believes this log no more; another may. */
	cr_assert_eq(try_vacuum(0, &found), TDL_ERR_CORRUPT);
	tdl_table_free(table);
	table = open_table("t");
	/* An unsafe path, which may be another spelling of the file. */
	put_commit("t", 2, add_line("./part-" HEX ".jsonl", 1, 1));
	cr_assert_eq(try_vacuum(0, &found), TDL_ERR_CORRUPT);
	cr_assert_eq(found, 0);
	unlink(commit_path("t", 2));
	cr_assert(is_there("t/part-" HEX ".jsonl"));
	cr_assert(is_there(TEMP));
	cr_assert_eq(count_in("t/_incoming"), 1);
	cr_assert_eq(try_vacuum(0, &found), 0, "%s", error.message);
	cr_assert_eq(found, 3);
}

Test(vacuum, ages)
{
	unsigned found;

	put("t/part-" HEX ".jsonl", "x");
	put(TEMP, "x");
	age(TEMP, 7200);
	cr_assert_eq(try_vacuum(3600000, &found), 0);
	cr_assert_eq(found, 1);
	cr_assert_not(is_there(TEMP));
	cr_assert(is_there("t/part-" HEX ".jsonl"));
	/* A clock that is ahead makes nothing old; asked for any age, it goes. */
	age("t/part-" HEX ".jsonl", -7200);
	cr_assert_eq(try_vacuum(1, &found), 0);
	cr_assert_eq(found, 0);
	cr_assert_eq(try_vacuum(-1, &found), TDL_ERR_MISUSE);
	cr_assert_eq(try_vacuum(INT64_MAX, &found), 0);
	cr_assert_eq(found, 0);
	cr_assert_eq(try_vacuum(0, &found), 0);
	cr_assert_eq(found, 1);
}

static void is_locked(void *context)
{
	int fd = open(in_scratch("t"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		++*(unsigned *)context;
	close(fd);
}

static void is_locked_shared(void *context)
{
	int fd = open(in_scratch("t"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK &&
	    flock(fd, LOCK_SH | LOCK_NB) == 0)
		++*(unsigned *)context;
	close(fd);
}

Test(vacuum, writers_and_vacuum_keep_each_other_out)
{
	unsigned locked = 0, found;
	int64_t version;

	put("t/part-" HEX ".jsonl", "x");
	faults_do_at(TDL__OP_UNLINK, 1, is_locked, &locked);
	cr_assert_eq(try_vacuum(0, &found), 0);
	cr_assert_eq(locked, 1, "while it deletes");
	/* From the link of the part to the publish point. */
	for (unsigned link = 1; link <= 2; link++) {
		locked = 0;
		faults_do_at(TDL__OP_LINK, link, is_locked_shared, &locked);
		append_rows(table, ROW_1);
		cr_assert_eq(locked, 1);
	}
	locked = 0;
	faults_do_at(TDL__OP_LINK, 1, is_locked_shared, &locked);
	cr_assert_eq(tdl_table_restore(table, 0, NULL, &version, &error), 0);
	cr_assert_eq(locked, 1, "a restore has a temporary commit to lose");
	faults_off();
}

Test(vacuum, without_locks_an_age_is_needed)
{
	static const int reasons[] = { EOPNOTSUPP, ENOSYS, EINVAL, ENOLCK };
	tdl_vacuum_options dry = { .dry_run = true };
	unsigned found = 0;

	put("t/part-" HEX ".jsonl", "x");
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		faults_fail_op(TDL__OP_LOCK, 1, 100, reasons[i]);
		cr_assert_eq(try_vacuum(0, &found), TDL_ERR_UNSUPPORTED);
		cr_assert_not_null(strstr(error.message, "--older-than"), "%s", error.message);
		cr_assert_eq(found, 0);
		cr_assert_eq(tdl_table_vacuum(table, &dry, note, &found, &error), 0);
		cr_assert_eq(found, 1);
		cr_assert_eq(try_vacuum(60000, &found), 0);
		cr_assert_eq(found, 0);
	}
	age("t/part-" HEX ".jsonl", 3600);
	cr_assert_eq(try_vacuum(60000, &found), 0);
	cr_assert_eq(found, 1);
	faults_off();
}

static void vanish(void *context)
{
	unlink(in_scratch("t/part-" HEX ".jsonl"));
}

Test(vacuum, what_vanishes_meanwhile)
{
	unsigned found;

	put("t/part-" HEX ".jsonl", "x");
	faults_do_at(TDL__OP_UNLINK, 1, vanish, NULL);
	cr_assert_eq(try_vacuum(0, &found), 0);
	faults_off();
	cr_assert_eq(found, 0);
}

Test(vacuum, a_reader_may_only_look)
{
	tdl_vacuum_options options = { .dry_run = false };
	tdl_table *reader;
	unsigned found = 0;

	put("t/part-" HEX ".jsonl", "x");
	cr_assert_eq(tdl_table_open(in_scratch("t"), TDL_OPEN_READ_ONLY, &reader, &error), 0);
	cr_assert_eq(tdl_table_vacuum(reader, &options, note, &found, &error), TDL_ERR_MISUSE);
	options.dry_run = true;
	cr_assert_eq(tdl_table_vacuum(reader, &options, note, &found, &error), 0);
	cr_assert_eq(found, 1);
	tdl_table_free(reader);
	cr_assert(is_there("t/part-" HEX ".jsonl"));
}
