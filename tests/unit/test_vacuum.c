/* SPDX-License-Identifier: MIT */
/*
 * What vacuum deletes and, above all, what it does not.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commit/staging.h"
#include "commit/tablelock.h"
#include "faults.h"
#include "scratch.h"
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
	if (strstr(what, "_incoming/"))
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
	/* What is dated in the future somebody may be about to publish, whatever age is asked for.
	 */
	put(TEMP, "x");
	age(TEMP, -7200);
	age("t/part-" HEX ".jsonl", -7200);
	cr_assert_eq(try_vacuum(0, &found), 0);
	cr_assert_eq(found, 0);
	cr_assert_eq(try_vacuum(1, &found), 0);
	cr_assert_eq(found, 0);
	cr_assert_eq(try_vacuum(-1, &found), TDL_ERR_MISUSE);
	cr_assert_eq(try_vacuum(INT64_MAX, &found), 0);
	cr_assert_eq(found, 0);
	age(TEMP, 0);
	age("t/part-" HEX ".jsonl", 0);
	cr_assert_eq(try_vacuum(0, &found), 0);
	cr_assert_eq(found, 2);
}

#define LOCK "t/_delta_log/_writers.lock"

/* Through another client of a shared file system the locks of directories are not seen. */
static void is_locked(void *context)
{
	int fd = open(in_scratch(LOCK), O_RDONLY | O_CLOEXEC);

	if (flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		++*(unsigned *)context;
	close(fd);
}

static void is_locked_shared(void *context)
{
	int fd = open(in_scratch(LOCK), O_RDONLY | O_CLOEXEC);

	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK &&
	    flock(fd, LOCK_SH | LOCK_NB) == 0)
		++*(unsigned *)context;
	close(fd);
}

Test(vacuum, writers_and_vacuum_keep_each_other_out)
{
	unsigned locked = 0, found;
	int64_t version;

	append_rows(table, ROW_1);
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

/* ---- The lock ------------------------------------------------------------------------------ */

static struct stat stat_of(const char *path)
{
	struct stat st;

	cr_assert_eq(lstat(in_scratch("%s", path), &st), 0, "%s", path);
	return st;
}

Test(vacuum, only_who_may_write_may_open_the_lock)
{
	static const struct {
		mode_t table, lock;
	} cases[] = { { 0700, 0600 },  { 0750, 0600 },	{ 0755, 0600 },	 { 0770, 0660 },
		      { 0775, 0660 },  { 02770, 0660 }, { 02775, 0660 }, { 0777, 0666 },
		      { 01777, 0666 }, { 0757, 0606 } };
	static const mode_t masks[] = { 022, 077, 0, 0777 };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		/* Also where it is there already, of another mode. */
		if (i % 2 == 0)
			unlink(in_scratch(LOCK));
		cr_assert_eq(chmod(in_scratch("t"), cases[i].table), 0);
		umask(masks[i % 4]);
		append_rows(table, ROW_1);
		umask(022);
		cr_assert_eq(stat_of(LOCK).st_mode & 07777, cases[i].lock, "%zu", i);
	}
}

/* A reader can hold the lock of the directory for ever: nobody waits for it. */
Test(vacuum, a_reader_stops_neither_writers_nor_vacuum, .timeout = 20)
{
	int fd = open(in_scratch("t"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned found;

	cr_assert_eq(flock(fd, LOCK_EX), 0);
	append_rows(table, ROW_1);
	put("t/part-" HEX ".jsonl", "x");
	cr_assert_eq(try_vacuum(0, &found), 0, "%s", error.message);
	cr_assert_eq(found, 1);
	close(fd);
}

Test(vacuum, who_has_the_lock_is_told_in_the_end, .timeout = 20)
{
	char me[64];
	unsigned found;
	int64_t version;
	int fd;

	append_rows(table, ROW_1);
	put("t/part-" HEX ".jsonl", "x");
	snprintf(me, sizeof me, "process %ld (", (long)getpid());
	fd = open(in_scratch(LOCK), O_RDWR | O_CLOEXEC);
	tdl__table_lock_wait = 50;
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_1, &version, &error), TDL_ERR_IO);
	cr_assert_eq(error.os_error, EAGAIN);
	cr_assert_not_null(strstr(error.message, me), "%s", error.message);
	cr_assert_not_null(strstr(error.message, "_writers.lock"), "%s", error.message);
	cr_assert_eq(tdl_table_head(table), 1);
	cr_assert_eq(count_in("t/_incoming"), 0);
	cr_assert_eq(flock(fd, LOCK_SH), 0);
	cr_assert_eq(try_vacuum(0, &found), TDL_ERR_IO);
	cr_assert_eq(error.os_error, EAGAIN);
	cr_assert_eq(found, 0);
	/* Looking takes no lock, and what is not to be deleted needs none. */
	free(vacuum(table, true));
	unlink(in_scratch("t/part-" HEX ".jsonl"));
	cr_assert_eq(try_vacuum(0, &found), 0);
	close(fd);
	cr_assert_eq(stat_of(LOCK).st_size, 0, "nobody is asked to give way any more");
}

/* Somebody took the file away while it was waited for: a lock on it keeps nobody out. */
static void replace_lock(void *context)
{
	unlink(in_scratch(LOCK));
}

Test(vacuum, a_lock_that_was_taken_away_is_none)
{
	unsigned locked = 0;

	append_rows(table, ROW_1);
	faults_do_at(TDL__OP_LOCK, 3, replace_lock, NULL); /* two are of the staging folder */
	append_rows(table, ROW_1);
	cr_assert(faults_hit());
	faults_do_at(TDL__OP_LINK, 1, is_locked_shared, &locked);
	append_rows(table, ROW_1);
	faults_off();
	cr_assert_eq(locked, 1);
}

/* What may not be a lock, put there by a member of the group. */
Test(vacuum, a_lock_that_is_none_is_refused)
{
	int64_t version;

	make_dir("away");
	make_dir(LOCK);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_1, &version, &error), TDL_ERR_IO);
	cr_assert_not_null(strstr(error.message,
				  "is a directory where the lock of the table's writers belongs"),
			   "%s", error.message);
	rmdir(in_scratch(LOCK));
	cr_assert_eq(symlink(in_scratch("away/file"), in_scratch(LOCK)), 0);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_1, &version, &error), TDL_ERR_IO);
	cr_assert_eq(count_in("away"), 0);
	unlink(in_scratch(LOCK));
	cr_assert_eq(mkfifo(in_scratch(LOCK), 0600), 0);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_1, &version, &error), TDL_ERR_IO);
}

/* Each batch of deletions is short, and writers come between: here they would wait for ever. */
static void append_beside(void *context)
{
	tdl_table *other = open_table("t");

	append_rows(other, ROW_1);
	tdl_table_free(other);
	++*(unsigned *)context;
}

Test(vacuum, writers_have_their_turn_between_deletions, .timeout = 60)
{
	unsigned appended = 0, found;

	append_rows(table, ROW_1);
	for (int i = 0; i < 50; i++)
		put(in_scratch("t/part-%032x.jsonl", i), "x");
	faults_do_at(TDL__OP_LIST, 1, append_beside, &appended);
	cr_assert_eq(try_vacuum(0, &found), 0);
	faults_off();
	cr_assert_eq(appended, 1, "while it lists it keeps nobody out");
	cr_assert_eq(found, 50);
}

/* Writers that hold the lock one after the other let a vacuum through. */
Test(vacuum, writers_give_way, .timeout = 60)
{
	unsigned found, writers = 3;
	pid_t pids[3];

	append_rows(table, ROW_1);
	for (unsigned i = 0; i < writers; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			tdl_table *other = open_table("t");

			for (;;)
				append_rows(other, ROW_1);
		}
	}
	for (unsigned i = 0; i < 5; i++) {
		put("t/part-" HEX ".jsonl", "x");
		cr_assert_eq(try_vacuum(0, &found), 0, "%s", error.message);
		cr_assert_eq(found, 1);
	}
	for (unsigned i = 0; i < writers; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

/* The files that a vacuum has seen are not those that it deletes, if they were taken up since. */
static void commit_the_orphan(void *context)
{
	put_commit("t", 1, add_line("part-" HEX ".jsonl", strlen(ROW_1), 1));
}

static void date_the_orphan(void *context)
{
	age("t/part-" HEX ".jsonl", -600);
}

Test(vacuum, what_was_committed_since_it_was_seen_stays)
{
	unsigned found;

	put("t/part-" HEX ".jsonl", ROW_1);
	faults_do_at(TDL__OP_LOCK, 1, date_the_orphan, NULL);
	cr_assert_eq(try_vacuum(0, &found), 0);
	cr_assert_eq(found, 0);
	age("t/part-" HEX ".jsonl", 5);
	faults_do_at(TDL__OP_LOCK, 1, commit_the_orphan, NULL);
	cr_assert_eq(try_vacuum(0, &found), 0);
	faults_off();
	cr_assert_eq(found, 0);
	expect_version("t", 1, ROW_1);
}

/* ---- Folders that are not what they were -------------------------------------------------- */

static char folder_name[128];

/* Puts a link to another folder in the place of the dead one that was looked at. */
static void swap_folder(void *context)
{
	if (rename(in_scratch("t/_incoming/%s", folder_name), in_scratch("swapped")) == 0 &&
	    symlink(in_scratch("victim"), in_scratch("t/_incoming/%s", folder_name)) < 0)
		abort();
}

Test(vacuum, it_follows_no_link_out_of_the_table)
{
	char *folder;
	unsigned calls, found;

	make_dir("victim");
	for (unsigned nth = 1;; nth++) {
		put("victim/" HEX, "x");
		leave_nameless();
		folder = names_in("t/_incoming");
		snprintf(folder_name, sizeof folder_name, "%.*s", (int)strlen(folder) - 1, folder);
		free(folder);
		faults_do(nth, swap_folder, NULL);
		cr_assert_eq(try_vacuum(0, &found), 0, "%u: %s", nth, error.message);
		calls = faults_off();
		cr_assert(is_there("victim/" HEX), "swapped before call %u of %u", nth, calls);
		unlink(in_scratch("t/_incoming/%s", folder_name));
		if (is_there("swapped"))
			remove_tree("swapped");
		if (nth > calls)
			break;
	}
	cr_assert_gt(calls, 15);
}

Test(vacuum, folders_of_others_are_left_alone)
{
	unsigned found;
	char *folder;

	leave_nameless();
	folder = names_in("t/_incoming");
	folder[strlen(folder) - 1] = '\0';
	/* Others may write to it, so what is in it need not be ours. */
	cr_assert_eq(chmod(in_scratch("t/_incoming/%s", folder), 0770), 0);
	cr_assert_eq(try_vacuum(0, &found), 0);
	cr_assert_eq(found, 0);
	chmod(in_scratch("t/_incoming/%s", folder), 0700);
	if (geteuid() == 0) {
		cr_assert_eq(chown(in_scratch("t/_incoming/%s", folder), 1234, 1234), 0);
		cr_assert_eq(try_vacuum(0, &found), 0);
		cr_assert_eq(found, 0);
		cr_assert_eq(chown(in_scratch("t/_incoming/%s", folder), 0, 0), 0);
	}
	cr_assert_eq(try_vacuum(0, &found), 0);
	cr_assert_eq(found, 1);
	free(folder);
}

/* A log that says nothing of a table is not a ground for deleting what is in it. */
Test(vacuum, a_log_without_metadata)
{
	static const char info[] = "{\"commitInfo\":{\"timestamp\":1,\"operation\":\"CREATE\","
				   "\"readVersion\":null}}\n";
	tdl_table *other;
	unsigned found = 0;

	make_dir("m");
	make_dir("m/_delta_log");
	put_raw_commit("m", 0, info, sizeof info - 1);
	put("m/part-" HEX ".jsonl", "x");
	if (tdl_table_open(in_scratch("m"), 0, &other, &error) < 0)
		return;
	cr_assert_eq(tdl_table_vacuum(other, &(tdl_vacuum_options){ 0 }, note, &found, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_eq(found, 0);
	tdl_table_free(other);
}

/* A copy of the table has the same id and newest commit, and so had its index: only the log itself
 * says what may be deleted, all of it. */
Test(vacuum, it_believes_no_index)
{
	unsigned found;

	tdl__index_worth = 7;
	for (int i = 0; i < 20; i++)
		append_rows(table, ROW_1);
	tdl_table_free(table);
	table = open_table("t");
	cr_assert(is_there("t/_delta_log/_history.idx"));
	/* A gap right behind what the index covers, with data that only the commits behind it hold.
	 */
	for (int i = 0; i < 7; i++)
		append_rows(table, ROW_1);
	tdl_table_free(table);
	for (int i = 21; i < 26; i++)
		rename(commit_path("t", i), in_scratch("lost%d", i));
	table = open_table("t");
	cr_assert_eq(try_vacuum(0, &found), TDL_ERR_CORRUPT, "%d", tdl_table_head(table) > 0);
	cr_assert_eq(found, 0);
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
