/* SPDX-License-Identifier: MIT */
/*
 * Staged files: folders, names, commits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commit/staging.h"
#include "faults.h"
#include "scratch.h"
#include "tables.h"

#define ROW_1	"{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2	"{\"id\":2,\"name\":\"b\"}\n"
#define ROW_RAW "{ \"name\":\"r\", \"id\":3 }\n"
#define ROW_3	"{\"id\":3,\"name\":\"r\"}\n"

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

TestSuite(staging, .init = begin, .fini = end);

static tdl_staging *open_staging(void)
{
	tdl_staging *staging;

	cr_assert_eq(tdl_staging_open(table, &staging, &error), 0, "%s", error.message);
	return staging;
}

static tdl_staged *stage(tdl_staging *staging, const char *name, const char *rows)
{
	tdl_staged *file;

	cr_assert_eq(tdl_staged_create(staging, name, &file, &error), 0, "%s", error.message);
	cr_assert_eq(write(tdl_staged_fd(file), rows, strlen(rows)), (ssize_t)strlen(rows));
	return file;
}

/* The names in this staging's folder. */
/* Without the lock, which comes first. */
static char *staged_names(const tdl_staging *staging)
{
	char *names = names_in(in_scratch("t/_incoming/%s", staging->name));

	cr_assert_eq(strncmp(names, ".lock\n", 6), 0, "%s", names);
	memmove(names, names + 6, strlen(names + 6) + 1);
	return names;
}

static void expect_nothing_staged(const tdl_staging *staging)
{
	char *names = staged_names(staging);

	cr_expect_str_eq(names, "");
	free(names);
}

Test(staging, folders)
{
	tdl_staging *a = open_staging(), *b = open_staging();
	struct stat st;

	cr_assert_str_neq(a->name, b->name);
	cr_assert_eq(strncmp(a->name, b->name, 66), 0, "one machine, one boot");
	cr_assert_eq(stat(in_scratch("t/_incoming"), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 01755);
	cr_assert_eq(stat(in_scratch("t/_incoming/%s", a->name), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
	tdl_staging_free(a);
	cr_assert_eq(count_in("t/_incoming"), 1);
	tdl_staging_free(b);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

static void die(void *context)
{
	_exit(77);
}

/* Whoever is first, whatever becomes of it: _incoming is what it has to be as soon as it is there.
 */
Test(staging, the_first_folder_is_right_or_not_there)
{
	int status = 0;

	cr_assert_eq(chmod(in_scratch("t"), 02770), 0);
	for (unsigned nth = 1; WEXITSTATUS(status) != 1; nth++) {
		struct stat st;
		pid_t pid = fork();

		if (pid == 0) {
			tdl_staging *staging;

			umask(077);
			faults_do(nth, die, NULL);
			_exit(tdl_staging_open(table, &staging, &error) == 0 ? 1 : 2);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) != 2, "%x", (unsigned)status);
		if (stat(in_scratch("t/_incoming"), &st) == 0)
			cr_assert_eq(st.st_mode & 07777, 03770, "%u: %o", nth, st.st_mode);
		tdl_staging_free(open_staging());
		free(vacuum(table, false));
		cr_assert_eq(count_in("t"), 2, "%u", nth);
		remove_tree("t/_incoming");
	}
}

/* Two at once: one makes it, and both have it. */
static void make_incoming_too(void *context)
{
	tdl_staging **other = context;

	if (!*other && tdl_staging_open(table, other, &error) < 0)
		abort();
}

Test(staging, two_are_the_first)
{
	for (unsigned nth = 1; nth < 12; nth++) {
		tdl_staging *one, *two = NULL;

		faults_do(nth, make_incoming_too, &two);
		one = open_staging();
		faults_off();
		cr_assert_eq(count_in("t/_incoming"), 2, "%u", nth);
		cr_assert_eq(count_in("t"), 2, "%u", nth);
		tdl_staging_free(one);
		tdl_staging_free(two);
		remove_tree("t/_incoming");
	}
}

/* A vacuum that comes in between takes what has no name yet for what a dead process left. */
static void vacuum_between(void *context)
{
	bool *done = context;
	tdl_table *other;

	if (*done)
		return;
	*done = true;
	other = open_table(in_scratch("t"));
	free(vacuum(other, false));
	tdl_table_free(other);
}

Test(staging, a_vacuum_beside_the_first)
{
	for (unsigned nth = 1; nth < 16; nth++) {
		bool done = false;

		faults_do(nth, vacuum_between, &done);
		tdl_staging_free(open_staging());
		faults_off();
		remove_tree("t/_incoming");
		cr_assert_eq(count_in("t"), 1, "%u", nth);
	}
}

Test(staging, names)
{
	static const char *const refused[] = { "", "a/b", "/" };
	tdl_staging *staging = open_staging();
	char longest[NAME_MAX + 2], *names;
	tdl_staged *file, *other;
	struct stat st;

	memset(longest, 'n', sizeof longest);
	longest[NAME_MAX + 1] = '\0';
	cr_assert_eq(tdl_staged_create(staging, longest, &file, &error), TDL_ERR_LIMIT);
	cr_assert_eq(error.code, TDL_ERR_LIMIT);
	longest[TDL_STAGED_NAME_MAX] = '\0';
	file = stage(staging, longest, "");
	cr_assert_eq(fstat(tdl_staged_fd(file), &st), 0);
	cr_assert_eq(st.st_mode, S_IFREG | 0600);
	cr_assert_eq(tdl_staged_rename(file, "b\nc", &error), 0);
	names = staged_names(staging);
	cr_assert_str_eq(names + 32, "-b\nc\n");
	free(names);
	longest[TDL_STAGED_NAME_MAX] = 'n';
	cr_assert_eq(tdl_staged_rename(file, longest, &error), TDL_ERR_LIMIT);
	/* The middle of a long one is left out, between two characters. */
	longest[0] = '.';
	memcpy(longest + 189, "\xc3\xa4", 2);
	memcpy(longest + NAME_MAX - 33, "\xe2\x82\xac", 3);
	strcpy(longest + NAME_MAX - 4, ".tmp");
	cr_assert_eq(tdl_staged_rename(file, longest, &error), 0);
	names = staged_names(staging);
	cr_expect_eq(strlen(names), 32 + 1 + 189 + 30 + 1);
	cr_expect_eq(names[33], '.');
	cr_expect_eq(names[33 + 189], 'n');
	cr_expect_str_eq(names + strlen(names) - 5, ".tmp\n");
	free(names);
	cr_assert_eq(tdl_staged_rename(file, "b\nc", &error), 0);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		cr_assert_eq(tdl_staged_create(staging, refused[i], &other, &error),
			     TDL_ERR_MISUSE);
		cr_assert_eq(tdl_staged_rename(file, refused[i], &error), TDL_ERR_MISUSE);
	}
	/* The same name twice is two files. */
	other = stage(staging, "b\nc", "");
	names = staged_names(staging);
	cr_assert_eq(strlen(names), 2 * 37);
	free(names);
	cr_assert_eq(tdl_staged_remove(file, &error), 0);
	cr_assert_eq(tdl_staged_remove(file, &error), 0);
	cr_assert_eq(tdl_staged_rename(file, "x", &error), TDL_ERR_MISUSE);
	cr_assert_eq(tdl_staged_remove(other, &error), 0);
	tdl_staged_free(file);
	tdl_staged_free(other);
	tdl_staged_free(NULL);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

Test(staging, parsing_names)
{
	static const struct {
		const char *name, *staged_name;
	} cases[] = {
		{ "0123456789abcdef0123456789abcdef", "" },
		{ "0123456789abcdef0123456789abcdef-", "" },
		{ "0123456789abcdef0123456789abcdef-x", "x" },
		{ "0123456789abcdef0123456789abcdef-x-y", "x-y" },
		{ "0123456789abcdef0123456789abcdef--", "-" },
		{ "0123456789abcdef0123456789abcdefx", NULL },
		{ "0123456789abcdef0123456789abcde-x", NULL },
		{ "0123456789ABCDEF0123456789abcdef-x", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *staged_name = NULL;

		cr_assert_eq(tdl__staged_parse(cases[i].name, &staged_name),
			     cases[i].staged_name != NULL, "%s", cases[i].name);
		if (cases[i].staged_name)
			cr_assert_str_eq(staged_name, cases[i].staged_name);
	}
}

Test(staging, the_file_itself_becomes_the_data_file)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "new.jsonl", ROW_1 ROW_2);
	struct stat staged, part;
	int64_t version;

	fstat(tdl_staged_fd(file), &staged);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	cr_assert_eq(version, 1);
	cr_assert_eq(stat(in_scratch("t/part-%s.jsonl", file->hex), &part), 0);
	cr_assert_eq(part.st_ino, staged.st_ino);
	cr_assert_eq(part.st_nlink, 1);
	cr_assert_eq(part.st_mode & 07777, 0444);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_MISUSE);
	tdl_staged_free(file);
	expect_version("t", 1, ROW_1 ROW_2);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

/* ---- Done before the commit ---------------------------------------------------------------- */

static unsigned syncs, reads;

static int count_calls(enum tdl__op op, const char *name)
{
	syncs += op == TDL__OP_FSYNC;
	reads += op == TDL__OP_READ;
	return 0;
}

static int64_t commit_counted(tdl_staged *file)
{
	int64_t version = -1;

	syncs = reads = 0;
	tdl__sys_hook = count_calls;
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl__sys_hook = NULL;
	return version;
}

/* Its data is not read nor synced again; the log and the directories are. */
static void commit_prepared(const char *rows, const char *stored)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "x.tmp", rows), *plain = stage(staging, "y", ROW_1);
	unsigned plain_syncs, plain_reads;

	commit_counted(plain);
	plain_syncs = syncs;
	plain_reads = reads;
	tdl_staged_free(plain);
	tdl_staged_prepare(file);
	tdl_staged_prepare(file);
	cr_assert_eq(tdl_staged_rename(file, "x", &error), 0);
	cr_expect_eq(commit_counted(file), 2);
	cr_expect_eq(syncs, plain_syncs - 1);
	cr_expect_lt(reads, plain_reads);
	tdl_staged_free(file);
	expect_version("t", 2, stored);
	expect_nothing_staged(staging);
	tdl_staging_free(staging);
}

Test(staging, what_is_prepared_is_only_committed)
{
	commit_prepared(ROW_2, ROW_1 ROW_2);
}

Test(staging, so_is_what_was_rewritten)
{
	commit_prepared(ROW_RAW, ROW_1 ROW_3);
}

/* Whatever is done to the file after it was prepared, what it holds is committed. */
Test(staging, what_is_changed_is_not_prepared)
{
	static const char *const first[] = { ROW_2 ROW_2, ROW_RAW };
	tdl_staging *staging = open_staging();

	for (int i = 0; i < 4; i++) {
		tdl_staged *file = stage(staging, "x", first[i / 2]);

		tdl_staged_prepare(file);
		if (i % 2 == 0) {
			cr_assert_eq(ftruncate(tdl_staged_fd(file), 0), 0);
			tdl_staged_cut(file, 0);
		}
		uint64_t generation = tdl_staged_begin(file);
		cr_assert_eq(ftruncate(tdl_staged_fd(file), (off_t)strlen(ROW_1)), 0);
		cr_assert_eq(pwrite(tdl_staged_fd(file), ROW_1, strlen(ROW_1), 0),
			     (ssize_t)strlen(ROW_1));
		tdl_staged_written(file, generation, ROW_1, strlen(ROW_1), 0);
		cr_expect_eq(commit_counted(file), i + 1);
		tdl_staged_free(file);
	}
	expect_version("t", 4, ROW_1 ROW_1 ROW_1 ROW_1);
	expect_nothing_staged(staging);
	tdl_staging_free(staging);
}

/* A reason that was found then is told when it matters, of the file as it is called then. */
Test(staging, what_cannot_be_prepared_is_refused_at_the_commit)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "x.tmp", ROW_1 "{\"id\":1}\n");
	int64_t version;

	tdl_staged_prepare(file);
	cr_assert_eq(tdl_staged_rename(file, "x", &error), 0);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_SCHEMA);
	cr_expect_eq(strncmp(error.message, "x:2: ", 5), 0, "%s", error.message);
	tdl_staged_remove(file, NULL);
	tdl_staged_free(file);
	/* A failed fsync is for good. */
	file = stage(staging, "x.tmp", ROW_1);
	faults_fail_op(TDL__OP_FSYNC, 1, 1, EIO);
	tdl_staged_prepare(file);
	faults_off();
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_IO);
	tdl_staged_remove(file, NULL);
	tdl_staged_free(file);
	expect_nothing_staged(staging);
	tdl_staging_free(staging);
}

/* ---- Memory ------------------------------------------------------------------------------- */

static void write_piece(tdl_staged *file, const char *bytes, size_t n, uint64_t at)
{
	uint64_t generation = tdl_staged_begin(file);

	cr_assert_eq(pwrite(tdl_staged_fd(file), bytes, n, (off_t)at), (ssize_t)n);
	tdl_staged_written(file, generation, bytes, n, at);
}

/* Files that are not committed have only so much, however many there are and long their rows. */
Test(staging, memory_of_what_is_written, .timeout = 60)
{
	enum {
		FILES = 1200,
		PIECE = 128 << 10
	};
	static tdl_staged *files[FILES];
	static char piece[PIECE];
	tdl_staging *staging = open_staging();
	unsigned validator = 0;
	int64_t version;
	size_t n = 0;

	memset(piece, 'x', sizeof piece);
	memcpy(piece, "{\"id\":1,\"name\":\"", 16);
	files[0] = stage(staging, "long", "");
	for (uint64_t at = 0; at < 4 << 20; at += PIECE) {
		write_piece(files[0], piece, PIECE, at);
		memset(piece, 'x', 16);
	}
	cr_expect_null(files[0]->validator);
	cr_expect_eq(staging->validator_memory, 0);
	write_piece(files[0], "\"}\n", 3, 4 << 20);
	cr_expect_eq(tdl_staged_commit(files[0], NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(files[0]);
	while (n + strlen(ROW_1) <= PIECE) {
		memcpy(piece + n, ROW_1, strlen(ROW_1));
		n += strlen(ROW_1);
	}
	for (int i = 0; i < FILES; i++) {
		files[i] = stage(staging, "many", "");
		write_piece(files[i], piece, n, 0);
		cr_assert_leq(staging->validator_memory, TDL__VALIDATOR_MEMORY);
		validator += files[i]->validator != NULL;
	}
	cr_expect_gt(validator, 500);
	cr_expect_lt(validator, FILES);
	for (int i = 0; i < FILES; i++) {
		if (i % 400 == 0 || i == FILES - 1)
			cr_expect_eq(tdl_staged_commit(files[i], NULL, &version, &error), 0);
		tdl_staged_remove(files[i], NULL);
		tdl_staged_free(files[i]);
	}
	cr_expect_eq(staging->validator_memory, 0);
	tdl_staging_free(staging);
}

/* What has to be rewritten is, from where it has to. */
Test(staging, other_spellings_are_rewritten)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ ROW_1 ROW_RAW ROW_2, ROW_1 ROW_3 ROW_2 },
		{ ROW_RAW, ROW_3 },
		{ "\n" ROW_1, ROW_1 },
		{ ROW_1 "\n", ROW_1 },
		{ "{\"id\":1,\"name\":\"a\"}", ROW_1 },
		{ "{\"id\":1,\"name\":\"a\"}\r\n", ROW_1 },
		{ "\xef\xbb\xbf" ROW_1, ROW_1 },
	};
	tdl_staging *staging = open_staging();
	char all[4096] = "";

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tdl_staged *file = stage(staging, "x", cases[i].in);
		int64_t version;

		cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s",
			     error.message);
		tdl_staged_free(file);
		strcat(all, cases[i].out);
		expect_version("t", version, all);
	}
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

Test(staging, a_refused_file_stays_and_can_be_mended)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "bad.jsonl", ROW_1 "{\"id\":\"x\"}\n");
	int64_t version = -7;
	struct stat st;

	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_SCHEMA);
	cr_assert_eq(error.line, 2);
	cr_assert_eq(strncmp(error.message, "bad.jsonl:2: ", 13), 0, "%s", error.message);
	cr_assert_eq(version, -7);
	cr_assert_eq(fstat(tdl_staged_fd(file), &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(tdl_table_head(table), 0);
	cr_assert_eq(count_in("t"), 2);
	cr_assert_eq(ftruncate(tdl_staged_fd(file), 0), 0);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_EMPTY);
	cr_assert_eq(pwrite(tdl_staged_fd(file), ROW_RAW, strlen(ROW_RAW), 0),
		     (ssize_t)strlen(ROW_RAW));
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(file);
	expect_version("t", 1, ROW_3);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

/* A failed commit that could not tidy up after itself does not stand in the way of the next. */
static void commit_after_failures(const char *rows, const char *stored)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "x", rows);
	int64_t version;

	/* The commit's file cannot be synced, and nothing can be unlinked. */
	faults_fail_op(TDL__OP_FSYNC, 3, 1, EIO);
	faults_and_op(TDL__OP_UNLINK, EIO);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_IO);
	faults_off();
	cr_assert_eq(tdl_table_refresh(table, &error), 0);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(file);
	expect_version("t", version, stored);
	tdl_staging_free(staging);
}

/* After a failed fsync the kernel may have dropped the bytes, and the next one says yes. */
Test(staging, what_could_not_be_synced_is_written_anew)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "x", ROW_1);
	int64_t version;

	faults_fail_op(TDL__OP_FSYNC, 1, 1, EIO);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_IO);
	faults_off();
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_IO);
		cr_assert_eq(error.os_error, EIO);
		cr_assert_not_null(strstr(error.message, "has to be written anew"), "%s",
				   error.message);
		cr_assert_eq(tdl_staged_rename(file, "y", &error), 0);
	}
	tdl_staged_cut(file, 3);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_IO);
	cr_assert_eq(ftruncate(tdl_staged_fd(file), 0), 0);
	tdl_staged_cut(file, 0);
	cr_assert_eq(pwrite(tdl_staged_fd(file), ROW_2, strlen(ROW_2), 0), (ssize_t)strlen(ROW_2));
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(file);
	expect_version("t", 1, ROW_2);
	tdl_staging_free(staging);
}

Test(staging, the_next_try_works)
{
	commit_after_failures(ROW_1, ROW_1);
	cr_assert_eq(count_in("t/_incoming"), 0);
	commit_after_failures(ROW_RAW, ROW_1 ROW_3);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

Test(staging, a_reader_cannot_stage)
{
	tdl_staging *staging;
	tdl_table *reader;

	cr_assert_eq(tdl_table_open(in_scratch("t"), TDL_OPEN_READ_ONLY, &reader, &error), 0);
	cr_assert_eq(tdl_staging_open(reader, &staging, &error), TDL_ERR_MISUSE);
	cr_assert_not(is_there("t/_incoming"));
	tdl_table_free(reader);
}

/* ---- Folders that are taken away ---------------------------------------------------------- */

static void take_folder(void *context)
{
	const tdl_staging *staging = context;

	if (is_there(in_scratch("t/_incoming/%s", staging->name)))
		remove_tree(in_scratch("t/_incoming/%s", staging->name));
}

/* By another machine that does not see our locks, or by hand: it is made anew, and no commit fails
 * for it. */
Test(staging, a_folder_that_is_taken_away_is_made_anew)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file;
	char first[128];
	int64_t version;
	struct stat st;

	snprintf(first, sizeof first, "%s", staging->name);
	take_folder(staging);
	file = stage(staging, "one", ROW_1);
	cr_assert_str_neq(staging->name, first);
	cr_assert_eq(count_in("t/_incoming"), 1);
	cr_assert_eq(stat(in_scratch("t/_incoming/%s", staging->name), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
	/* With what is in it: the bytes are still to be had. */
	take_folder(staging);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(file);
	/* All of _incoming; a file whose rows are rewritten. */
	file = stage(staging, "two", ROW_RAW);
	remove_tree("t/_incoming");
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(file);
	tdl_staging_free(staging);
	expect_version("t", 2, ROW_1 ROW_3);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

Test(staging, a_folder_is_taken_away_at_any_moment, .timeout = 60)
{
	unsigned committed = 0;

	for (unsigned nth = 1; nth < 60; nth++) {
		tdl_staging *staging = open_staging();
		tdl_staged *file = stage(staging, "x", ROW_1);
		int64_t version, head = tdl_table_head(table);
		int r;

		faults_do(nth, take_folder, staging);
		r = tdl_staged_commit(file, NULL, &version, &error);
		faults_off();
		cr_assert_eq(tdl_table_refresh(table, &error), 0);
		cr_assert_eq(tdl_table_head(table), head + (r == 0), "%u", nth);
		committed += r == 0;
		tdl_staged_remove(file, NULL);
		tdl_staged_free(file);
		tdl_staging_free(staging);
		cr_assert_eq(count_in("t/_incoming"), 0, "%u", nth);
	}
	cr_assert_eq(committed, 59, "%u", committed);
}
