/* SPDX-License-Identifier: MIT */
/*
 * From rows to versions: append, overwrite, restore, and what each refuses.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"
#include "tables.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2 "{\"id\":2,\"name\":\"b\"}\n"
#define ROW_3 "{\"id\":3,\"name\":\"c\"}\n"

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

TestSuite(write, .init = begin, .fini = end);

Test(write, append_overwrite_restore)
{
	cr_assert_eq(append_rows(table, ROW_1), 1);
	cr_assert_eq(append_rows(table, "{\"name\": \"b\", \"id\": 2}"), 2);
	cr_assert_eq(overwrite_rows(table, ROW_3), 3);
	cr_assert_eq(restore_version(table, 2), 4);
	cr_assert_eq(append_rows(table, ROW_3), 5);
	cr_assert_eq(restore_version(table, 0), 6);
	cr_assert_eq(restore_version(table, 6), 7, "one that changes nothing is still a commit");
	cr_assert_eq(overwrite_rows(table, ROW_1), 8);
	cr_assert_eq(restore_version(table, 5), 9);
	expect_version("t", 0, "");
	expect_version("t", 1, ROW_1);
	expect_version("t", 2, ROW_1 ROW_2);
	expect_version("t", 3, ROW_3);
	expect_version("t", 4, ROW_1 ROW_2);
	expect_version("t", 5, ROW_1 ROW_2 ROW_3);
	expect_version("t", 6, "");
	expect_version("t", 7, "");
	expect_version("t", 8, ROW_1);
	expect_version("t", 9, ROW_1 ROW_2 ROW_3);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

/* The bytes of the target, in its order, also where files were removed and added again. */
Test(write, restore_keeps_the_targets_order)
{
	tdl_version_info info;
	char *bytes;

	put_commit("t", 1, add_line("a", 4, 1));
	put_commit("t", 2, add_line("b", 3, 1));
	put_commit("t", 3, remove_line("a"));
	put_commit("t", 4, add_line("a", 4, 1));
	put_commit(
		"t", 5,
		"{\"metaData\":{\"id\":\"i\",\"schema\":[{\"name\":\"x\",\"type\":\"int\"}]}}\n");
	put("t/a", "aaa\n");
	put("t/b", "bbb");
	cr_assert_eq(restore_version(table, 4), 6);
	cr_assert_eq(restore_version(table, 2), 7);
	cr_assert_eq(restore_version(table, 5), 8);
	expect_version("t", 6, "bbb\naaa\n");
	expect_version("t", 7, "aaa\nbbb\n");
	expect_version("t", 8, "bbb\naaa\n");
	/* The schema comes back as well. */
	cr_assert_eq(tdl_table_version_info(table, 7, &info, &error), 0);
	cr_assert_eq(tdl_schema_count(info.schema), 2);
	cr_assert_eq(tdl_table_version_info(table, 8, &info, &error), 0);
	cr_assert_eq(tdl_schema_count(info.schema), 1);
	/* A checksum that a commit gave stays with its file. */
	append_rows(table, "{\"x\":1}\n");
	restore_version(table, 9);
	bytes = get_bytes(commit_path("t", 10), NULL);
	cr_assert_not_null(strstr(bytes, "\"numRecords\":1,\"crc32c\":"), "%s", bytes);
	free(bytes);
}

static void expect_refusal(int r, int code, uint64_t line)
{
	cr_assert_eq(r, code, "%d: %s", r, error.message);
	cr_assert_eq(error.code, code);
	cr_assert_eq(error.line, line);
	cr_assert_eq(tdl_table_refresh(table, NULL), 0);
	cr_assert_eq(tdl_table_head(table), 1);
	cr_assert_eq(count_in("t"), 3);
	cr_assert_eq(count_in("t/_incoming"), 0);
	cr_assert_eq(commits_in("t"), 2);
}

Test(write, refusals_change_nothing)
{
	int64_t version = -7;

	append_rows(table, ROW_1);
	expect_refusal(try_write(table, TDL_APPEND, ROW_2 "{\"id\":\"x\",\"name\":\"y\"}\n",
				 &version, &error),
		       TDL_ERR_SCHEMA, 2);
	cr_assert_str_eq(error.message, "rows:2: \"id\" expected int, got string \"x\"");
	expect_refusal(try_write(table, TDL_OVERWRITE, ROW_2 "\n\n{", &version, &error),
		       TDL_ERR_SCHEMA, 4);
	expect_refusal(try_write(table, TDL_APPEND, "", &version, &error), TDL_ERR_EMPTY, 0);
	expect_refusal(try_write(table, TDL_OVERWRITE, "\n\n", &version, &error), TDL_ERR_EMPTY, 0);
	expect_refusal(tdl_table_restore(table, 2, NULL, &version, &error), TDL_ERR_NOT_FOUND, 0);
	expect_refusal(tdl_table_restore(table, -1, NULL, &version, &error), TDL_ERR_NOT_FOUND, 0);
	expect_refusal(tdl_table_restore(table, INT64_MAX, NULL, &version, &error),
		       TDL_ERR_NOT_FOUND, 0);
	cr_assert_eq(version, -7);
}

Test(write, a_target_that_is_not_whole_is_not_restored)
{
	int64_t version;
	char *names;

	append_rows(table, ROW_1);
	overwrite_rows(table, ROW_2);
	names = get_bytes(commit_path("t", 1), NULL);
	unlink(in_scratch("t/%.43s", strstr(names, "part-")));
	free(names);
	cr_assert_eq(tdl_table_restore(table, 1, NULL, &version, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 1);
	cr_assert_not_null(strstr(error.message, "is missing"), "%s", error.message);
	cr_assert_eq(tdl_table_head(table), 2);
}

static uint64_t last;

static void progress(void *context, uint64_t bytes)
{
	cr_assert_geq(bytes, last);
	last = bytes;
}

Test(write, progress_and_large_inputs)
{
	tdl_commit_options options = { .read_version = TDL_LATEST, .progress = progress };
	char *rows = malloc(5 << 20), *bytes;
	size_t n = 0, got;
	int64_t version;
	int fd;

	for (int i = 0; n < 4 << 20; i++)
		n += (size_t)sprintf(rows + n, "{\"id\":%d,\"name\":\"n\"}\n", i);
	fd = bytes_fd(rows, n);
	cr_assert_eq(tdl_table_write(table, TDL_APPEND, fd, "rows", &options, &version, &error), 0);
	close(fd);
	cr_assert_eq(last, n);
	bytes = read_version(table, version, &got);
	cr_assert_eq(got, n);
	cr_assert_eq(memcmp(bytes, rows, n), 0);
	free(bytes);
	free(rows);
}

Test(write, from_a_pipe)
{
	int64_t version;
	int ends[2];
	pid_t pid;

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		for (const char *p = ROW_1 ROW_2; *p != '\0'; p++) {
			if (write(ends[1], p, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(ends[1]);
	cr_assert_eq(tdl_table_write(table, TDL_APPEND, ends[0], "-", NULL, &version, &error), 0);
	close(ends[0]);
	waitpid(pid, NULL, 0);
	expect_version("t", 1, ROW_1 ROW_2);
}

/* ---- Many at once -------------------------------------------------------------------------- */

enum {
	WRITERS = 6,
	EACH = 15
};

static void *write_some(void *context)
{
	tdl_table *mine = context;

	for (int i = 0; i < EACH; i++)
		append_rows(mine, ROW_1);
	return NULL;
}

static void expect_all(void)
{
	tdl_version_info info;

	cr_assert_eq(tdl_table_refresh(table, &error), 0, "%s", error.message);
	cr_assert_eq(tdl_table_head(table), WRITERS * EACH);
	cr_assert_eq(tdl_table_version_info(table, TDL_LATEST, &info, &error), 0);
	cr_assert_eq(info.num_records, WRITERS * EACH);
	cr_assert_eq(count_in("t"), WRITERS * EACH + 2);
	cr_assert_eq(commits_in("t"), WRITERS * EACH + 1);
	cr_assert_eq(count_in("t/_incoming"), 0);
	for (int64_t version = 1; version <= tdl_table_head(table); version++) {
		cr_assert_eq(tdl_table_version_info(table, version, &info, &error), 0);
		cr_assert_eq(info.num_records, (uint64_t)version);
		cr_assert_eq(info.read_version, version - 1);
	}
}

Test(write, threads_of_one_table, .timeout = 30)
{
	pthread_t threads[WRITERS];

	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, write_some, table);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	expect_all();
}

Test(write, processes, .timeout = 30)
{
	for (int i = 0; i < WRITERS; i++) {
		if (fork() == 0) {
			tdl_table *mine = open_table("t");

			write_some(mine);
			tdl_table_free(mine);
			_exit(0);
		}
	}
	for (int i = 0; i < WRITERS; i++) {
		int status;

		cr_assert_gt(wait(&status), 0);
		cr_assert_eq(status, 0);
	}
	expect_all();
}
