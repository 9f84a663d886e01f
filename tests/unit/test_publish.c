/* SPDX-License-Identifier: MIT */
/*
 * The publish point: races lost and won, file systems without links, answers that were lost, data
 * files taken away at the wrong moment, and what is said where durability is unknown.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "log/log.h"
#include "scratch.h"
#include "tables.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2 "{\"id\":2,\"name\":\"b\"}\n"
#define ROW_3 "{\"id\":3,\"name\":\"c\"}\n"

/* An append links its data file first, then its commit. */
#define LINK_OF_COMMIT 2

static tdl_error error;
static tdl_table *table;

static void begin(void)
{
	table = begin_with_table("t");
	append_rows(table, ROW_1);
}

static void end(void)
{
	end_with_table(table);
}

TestSuite(publish, .init = begin, .fini = end);

/* Nothing but the data files and commits of this many versions is there. */
static void expect_clean(unsigned parts, unsigned versions)
{
	char *names = names_in("t/_delta_log");

	cr_assert_null(strstr(names, ".tmp"), "%s", names);
	free(names);
	cr_assert_eq(commits_in("t"), versions);
	cr_assert_eq(count_in("t/_incoming"), 0);
	cr_assert_eq(count_in("t"), parts + 2);
}

static void other_appends(void *context)
{
	tdl_table *other = open_table("t");

	append_rows(other, context);
	tdl_table_free(other);
}

Test(publish, an_append_goes_behind_who_was_faster)
{
	tdl_version_info info;
	int64_t version;

	faults_do_at(TDL__OP_LINK, LINK_OF_COMMIT, other_appends, (void *)ROW_2);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_3, &version, &error), 0, "%s", error.message);
	faults_off();
	cr_assert_eq(version, 3);
	cr_assert_eq(tdl_table_version_info(table, 3, &info, &error), 0);
	cr_assert_eq(info.read_version, 2);
	expect_version("t", 3, ROW_1 ROW_2 ROW_3);
	expect_clean(3, 4);
}

static void expect_conflict(int r, int64_t version)
{
	cr_assert_eq(r, TDL_ERR_CONFLICT, "%d", r);
	cr_assert_eq(error.code, TDL_ERR_CONFLICT);
	cr_assert_eq(error.version, version);
	cr_assert_not_null(strstr(error.message, "another writer committed first"), "%s",
			   error.message);
}

Test(publish, everything_else_loses)
{
	tdl_commit_options exact = { .read_version = 1 };
	int64_t version = -7;
	int fd;

	faults_do_at(TDL__OP_LINK, LINK_OF_COMMIT, other_appends, (void *)ROW_2);
	expect_conflict(try_write(table, TDL_OVERWRITE, ROW_3, &version, &error), 2);
	cr_assert_str_eq(error.message, "commit 2 already exists; another writer committed first");
	expect_clean(2, 3);
	faults_do_at(TDL__OP_LINK, 1, other_appends, (void *)ROW_2);
	expect_conflict(tdl_table_restore(table, 0, NULL, &version, &error), 3);
	expect_clean(3, 4);
	fd = bytes_fd(ROW_3, strlen(ROW_3));
	expect_conflict(tdl_table_write(table, TDL_APPEND, fd, "rows", &exact, &version, &error),
			2);
	close(fd);
	exact.read_version = 3;
	fd = bytes_fd(ROW_3, strlen(ROW_3));
	faults_do_at(TDL__OP_LINK, LINK_OF_COMMIT, other_appends, (void *)ROW_2);
	expect_conflict(tdl_table_write(table, TDL_APPEND, fd, "rows", &exact, &version, &error),
			4);
	close(fd);
	faults_off();
	exact.read_version = 9;
	cr_assert_eq(tdl_table_restore(table, 0, &exact, &version, &error), TDL_ERR_NOT_FOUND);
	cr_assert_eq(version, -7);
	expect_clean(4, 5);
	expect_version("t", 4, ROW_1 ROW_2 ROW_2 ROW_2);
}

static void other_changes_columns(void *context)
{
	put_commit("t", 2, FOREIGN_META);
	put_commit(
		"t", 3,
		"{\"metaData\":{\"id\":\"i\",\"schema\":[{\"name\":\"x\",\"type\":\"int\"}]}}\n");
}

Test(publish, rows_of_other_columns_are_not_committed)
{
	int64_t version;

	faults_do_at(TDL__OP_LINK, LINK_OF_COMMIT, other_changes_columns, NULL);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error), TDL_ERR_CONFLICT);
	faults_off();
	cr_assert_not_null(strstr(error.message, "changed the columns"), "%s", error.message);
	expect_clean(1, 4);
}

/* An answer that says "exists" for ever, with nothing there, ends too. */
Test(publish, conflicts_without_progress_end, .timeout = 20)
{
	int64_t version;

	faults_fail_op(TDL__OP_LINK, LINK_OF_COMMIT, 100000, EEXIST);
	expect_conflict(try_write(table, TDL_APPEND, ROW_2, &version, &error), 2);
	faults_off();
	expect_clean(1, 2);
	cr_assert_eq(append_rows(table, ROW_2), 2);
}

/* Does what the library is about to do, as a server that got the request twice. */
static void link_it(void *context)
{
	const char *log = in_scratch("t/_delta_log");
	DIR *dir = opendir(log);
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		if (tdl__log_is_temp(entry->d_name))
			cr_assert_eq(linkat(dirfd(dir), entry->d_name, dirfd(dir),
					    strrchr(commit_path("t", 2), '/') + 1, 0),
				     0);
	}
	closedir(dir);
}

Test(publish, exists_may_be_our_own_success)
{
	int64_t version;

	faults_do_at(TDL__OP_LINK, LINK_OF_COMMIT, link_it, NULL);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error), 0, "%s", error.message);
	faults_off();
	cr_assert_eq(version, 2);
	expect_version("t", 2, ROW_1 ROW_2);
	expect_clean(2, 3);
}

/* The same for one that must not try again. */
Test(publish, exists_may_be_our_own_success_for_an_overwrite)
{
	int64_t version;

	faults_do_at(TDL__OP_LINK, LINK_OF_COMMIT, link_it, NULL);
	cr_assert_eq(try_write(table, TDL_OVERWRITE, ROW_2, &version, &error), 0, "%s",
		     error.message);
	faults_off();
	expect_version("t", 2, ROW_2);
	expect_clean(2, 3);
}

/* Answers that were lost on the way: the link is there, and an error says that it is not. */
static int lost_answer, lost_stat;

static int lie(enum tdl__op op, const char *name)
{
	static bool linked;
	int answer = 0;

	if (op == TDL__OP_LINK && strstr(name, ".json") && strncmp(name, "part-", 5) != 0) {
		tdl__sys_hook = NULL;
		link_it(NULL);
		tdl__sys_hook = lie;
		linked = true;
		return lost_answer;
	}
	if (op == TDL__OP_STAT && linked) {
		answer = lost_stat;
		linked = false;
	}
	return answer;
}

Test(publish, an_error_may_hide_our_own_success)
{
	static const int reasons[] = { EIO, ETIMEDOUT, ESTALE, EEXIST };

	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		int64_t version;
		int r;

		lost_answer = reasons[i];
		tdl__sys_hook = lie;
		r = try_write(table, TDL_OVERWRITE, ROW_2, &version, &error);
		tdl__sys_hook = NULL;
		cr_assert_eq(r, 0, "%s", error.message);
		expect_version("t", 2, ROW_2);
		expect_clean(2, 3);
		/* For the next reason. */
		cr_assert_eq(unlink(commit_path("t", 2)), 0);
		tdl_table_free(table);
		table = open_table("t");
		age_all("t");
		free(vacuum(table, false));
	}
}

/* Where the name cannot be looked at either, nothing is taken back. */
Test(publish, an_error_that_may_hide_a_success_is_no_failure)
{
	int64_t version;
	int r;

	lost_answer = ETIMEDOUT;
	lost_stat = ETIMEDOUT;
	tdl__sys_hook = lie;
	r = try_write(table, TDL_APPEND, ROW_2, &version, &error);
	tdl__sys_hook = NULL;
	cr_assert_eq(r, TDL_ERR_PUBLISHED);
	cr_assert_eq(error.version, 2);
	cr_assert_not_null(strstr(error.message, "do not drop again"), "%s", error.message);
	expect_version("t", 2, ROW_1 ROW_2);
	expect_clean(2, 3);
}

Test(publish, without_links_by_rename)
{
	static const int reasons[] = { EPERM, EOPNOTSUPP, ENOSYS, EXDEV, EMLINK };
	int64_t version;

	for (unsigned i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		faults_fail_op(TDL__OP_LINK, 1, 100, reasons[i]);
		cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error), 0, "%s",
			     error.message);
		cr_assert_eq(version, i + 2);
		expect_clean(i + 2, i + 3);
	}
	/* It is as exclusive. */
	faults_fail_op(TDL__OP_LINK, 1, 100, EPERM);
	cr_assert_eq(tdl_table_refresh(table, &error), 0);
	faults_do_at(TDL__OP_RENAME, 2, other_appends, (void *)ROW_3);
	faults_and_op(TDL__OP_LINK, EPERM);
	expect_conflict(try_write(table, TDL_OVERWRITE, ROW_2, &version, &error), 7);
	faults_off();
	expect_version("t", 7, ROW_1 ROW_2 ROW_2 ROW_2 ROW_2 ROW_2 ROW_3);
	expect_clean(7, 8);
}

Test(publish, without_both_it_is_refused)
{
	static const int reasons[] = { EINVAL, ENOSYS };
	int64_t version;

	for (unsigned i = 0; i < 2; i++) {
		faults_fail_op(TDL__OP_LINK, 1, 100, EPERM);
		faults_and_op(TDL__OP_RENAME, reasons[i]);
		cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error),
			     TDL_ERR_UNSUPPORTED, "%s", error.message);
		cr_assert_eq(error.code, TDL_ERR_UNSUPPORTED);
		cr_assert_eq(tdl_table_restore(table, 0, NULL, &version, &error),
			     TDL_ERR_UNSUPPORTED);
		cr_assert_not_null(strstr(error.message, "renameat2(RENAME_NOREPLACE)"), "%s",
				   error.message);
		faults_off();
		expect_clean(1, 2);
	}
}

/* What a vacuum that knows no locks may do: delete every part that no commit names. */
static void foreign_vacuum(void *context)
{
	char *names = names_in("t"), *name;
	char *first = get_bytes(commit_path("t", 1), NULL);

	for (name = strtok(names, "\n"); name; name = strtok(NULL, "\n")) {
		if (strncmp(name, "part-", 5) == 0 && !strstr(first, name))
			unlink(in_scratch("t/%s", name));
	}
	free(names);
	free(first);
}

Test(publish, a_part_that_was_taken_for_an_orphan_is_linked_again)
{
	int64_t version;

	faults_do_at(TDL__OP_LINK, LINK_OF_COMMIT, foreign_vacuum, NULL);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error), 0, "%s", error.message);
	faults_off();
	expect_version("t", 2, ROW_1 ROW_2);
	expect_clean(2, 3);
}

/* Where the part cannot be brought back, nobody is told that all is well. */
Test(publish, a_part_that_is_lost_is_said_to_be)
{
	int64_t version;

	faults_fail_op(TDL__OP_LINK, 1, 100, EPERM);
	faults_do_at(TDL__OP_RENAME, 2, foreign_vacuum, NULL);
	faults_and_op(TDL__OP_LINK, EPERM);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error), TDL_ERR_PUBLISHED);
	faults_off();
	cr_assert_eq(error.version, 2);
	cr_assert_not_null(strstr(error.message, "its data file is gone"), "%s", error.message);
}

Test(publish, unknown_durability_is_said_and_nothing_taken_back)
{
	unsigned syncs;
	int64_t version = -7;

	/* The last one of a commit is that of the log directory. */
	faults_fail_op(TDL__OP_FSYNC, 4, 1, EIO);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error), TDL_ERR_PUBLISHED);
	faults_off();
	cr_assert_eq(error.code, TDL_ERR_PUBLISHED);
	cr_assert_eq(error.version, 2);
	cr_assert_eq(error.os_error, EIO);
	cr_assert_eq(strncmp(error.message, "committed as version 2, durability unknown", 42), 0,
		     "%s", error.message);
	cr_assert_not_null(strstr(error.message, "do not drop again"));
	cr_assert_eq(tdl_table_head(table), 2);
	expect_version("t", 2, ROW_1 ROW_2);
	expect_clean(2, 3);
	/* A directory that cannot be synced at all is not a failure. */
	for (syncs = 1; syncs <= 4; syncs++) {
		faults_fail_op(TDL__OP_FSYNC, syncs, 1, EINVAL);
		cr_assert_eq(try_write(table, TDL_APPEND, ROW_3, &version, &error),
			     syncs == 2 || syncs == 4 ? 0 : TDL_ERR_IO, "%u: %s", syncs,
			     error.message);
		faults_off();
	}
	expect_clean(4, 5);
}

/* The second fsync of a file says that all is well, whatever became of its bytes. */
Test(publish, a_failed_sync_is_not_tried_again)
{
	int64_t version;

	for (unsigned sync = 1; sync <= 4; sync++) {
		faults_fail_op(TDL__OP_FSYNC, sync, 1, EIO);
		cr_assert_eq(try_write(table, TDL_OVERWRITE, ROW_2, &version, &error),
			     sync < 4 ? TDL_ERR_IO : TDL_ERR_PUBLISHED, "%u", sync);
		faults_off();
		cr_assert_eq(error.os_error, EIO);
		expect_clean(sync < 4 ? 1 : 2, sync < 4 ? 2 : 3);
	}
	expect_version("t", 2, ROW_2);
}

/* What nobody could replay is refused, and the table is as it was. */
Test(publish, what_nobody_could_read_is_not_committed)
{
	tdl_schema *schema;
	int64_t version;
	char **columns;

	put("t/part-0123456789abcdef0123456789abcdef.jsonl", "{}\n");
	put_commit("t", 2,
		   "{\"add\":{\"path\":\"part-0123456789abcdef0123456789abcdef.jsonl\",\"size\":3,"
		   "\"numRecords\":9223372036854775806}}\n");
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_2, &version, &error), TDL_ERR_LIMIT);
	cr_assert_not_null(strstr(error.message, "2^63 rows"), "%s", error.message);
	expect_clean(2, 3);
	/* In their place they are no problem. */
	cr_assert_eq(try_write(table, TDL_OVERWRITE, ROW_2, &version, &error), 0, "%s",
		     error.message);
	expect_version("t", 3, ROW_2);

	/* The limits of reading are limits of writing: a line of 64 MiB. */
	columns = calloc(10000, sizeof *columns);
	for (int i = 0; i < 10000; i++)
		cr_assert_geq(asprintf(&columns[i], "%07000d:int", i), 0);
	cr_assert_eq(tdl_schema_parse((const char *const *)columns, 10000, &schema, &error), 0);
	cr_assert_eq(tdl_table_create(in_scratch("large"), schema, NULL, &error), TDL_ERR_LIMIT);
	cr_assert_not_null(strstr(error.message, "longer than 64 MiB"), "%s", error.message);
	cr_assert_not(is_there("large"));
	tdl_schema_free(schema);
	for (int i = 0; i < 10000; i++)
		free(columns[i]);
	free(columns);
}

static size_t dated(char *line, size_t cap, int64_t timestamp)
{
	return (size_t)snprintf(line, cap,
				"{\"commitInfo\":{\"timestamp\":%" PRId64
				",\"operation\":\"A\",\"readVersion\":1}}\n",
				timestamp);
}

Test(publish, time_does_not_go_back)
{
	const int64_t hour = 3600 * INT64_C(1000);
	char line[200];
	tdl_version_info before, after;

	cr_assert_eq(tdl_table_version_info(table, 1, &before, &error), 0);
	for (int i = 0; i < 20; i++) {
		append_rows(table, ROW_2);
		cr_assert_eq(tdl_table_version_info(table, TDL_LATEST, &after, &error), 0);
		cr_assert_gt(after.timestamp, before.timestamp);
		cr_assert_eq(after.read_version, before.version);
		before = after;
	}
	/* A clock that is ahead is followed, one that went astray is not. */
	before.timestamp = tdl__now_ms() + 23 * hour;
	put_raw_commit("t", 22, line, dated(line, sizeof line, before.timestamp));
	append_rows(table, ROW_2);
	cr_assert_eq(tdl_table_version_info(table, 23, &after, &error), 0);
	cr_assert_eq(after.timestamp, before.timestamp + 1);
	for (int64_t version = 24; version < 28; version += 2) {
		put_raw_commit("t", version, line,
			       dated(line, sizeof line,
				     version == 24 ? INT64_MAX : tdl__now_ms() + 25 * hour));
		append_rows(table, ROW_2);
		cr_assert_eq(tdl_table_version_info(table, version + 1, &after, &error), 0);
		cr_assert_lt(llabs(after.timestamp - tdl__now_ms()), hour);
	}
}

Test(publish, the_commit_says_who_and_what)
{
	static const char info[] = ",\"operation\":\"APPEND\",\"readVersion\":1,\"userName\":"
				   "\"j\\u00f6rg \\\"x\\\"\",\"source\":\"a\\nb\",\"engineInfo\":"
				   "\"tinydeltafs/",
			  first[] = ",\"operation\":\"CREATE\",\"readVersion\":null,";
	tdl_commit_options options = { .read_version = TDL_LATEST,
				       .user_name = "j\xc3\xb6rg \"x\"",
				       .source = "a\nb" };
	int fd = bytes_fd(ROW_2, strlen(ROW_2));
	int64_t version;
	char *text;

	cr_assert_eq(tdl_table_write(table, TDL_APPEND, fd, "rows", &options, &version, &error), 0);
	close(fd);
	text = get_bytes(commit_path("t", 2), NULL);
	cr_assert_eq(strncmp(text, "{\"commitInfo\":{\"timestamp\":", 27), 0);
	cr_assert_eq(strncmp(text + 40, info, sizeof info - 1), 0, "%s", text);
	free(text);
	text = get_bytes(commit_path("t", 0), NULL);
	cr_assert_not_null(strstr(text, first));
	free(text);
}

/* ---- Gaps ---------------------------------------------------------------------------------- */

Test(publish, a_gap_is_looked_for_far_away_only_where_another_was)
{
	unsigned first, next;
	tdl_table *fresh = open_table("t");

	faults_count();
	append_rows(fresh, ROW_2);
	first = faults_off();
	faults_count();
	append_rows(fresh, ROW_3);
	next = faults_off();
	cr_assert_lt(next + 30, first, "%u calls, then %u", first, next);
	tdl_table_free(fresh);
}

Test(publish, no_gap_is_filled_that_came_after_our_own_commit)
{
	int64_t version;

	append_rows(table, ROW_2);
	usleep(20000); /* older kernels give a folder the time of their last tick */
	put_raw_commit("t", 2 + (1 << 20), "", 0);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_3, &version, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(access(commit_path("t", 3), F_OK), -1);
}
