/* SPDX-License-Identifier: MIT */
/*
 * Logs so long that threads read them ahead: what is replayed is the same, up to where it ends.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/prefetch.h"
#include "scratch.h"
#include "tables.h"

#define LONG 4000

TestSuite(prefetch, .init = scratch_begin, .fini = scratch_end, .timeout = 60);

/* A table whose version N has N files of N rows in all, nothing of which is on the disk. */
static void make_long_table(int64_t head)
{
	make_dir("t");
	make_dir("t/_delta_log");
	put_commit("t", 0, FOREIGN_META);
	for (int64_t version = 1; version <= head; version++) {
		char path[64];

		snprintf(path, sizeof path, "part-%032jx.jsonl", (uintmax_t)version);
		put_commit("t", version, add_line(path, 10, 1));
	}
}

static tdl_version_info info_of(tdl_table *table, int64_t version)
{
	tdl_version_info info;
	tdl_error error;

	cr_assert_eq(tdl_table_version_info(table, version, &info, &error), 0, "%s", error.message);
	return info;
}

Test(prefetch, every_version_is_what_it_was)
{
	tdl_table *table;

	make_long_table(LONG);
	table = open_table("t");
	cr_assert_eq(tdl_table_head(table), LONG);
	for (int64_t version = 0; version <= LONG; version++) {
		tdl_version_info info = info_of(table, version);

		cr_assert_eq(info.files, (uint64_t)version);
		cr_assert_eq(info.num_records, (uint64_t)version);
		cr_assert_eq(info.bytes, (uint64_t)version * 10);
	}
	tdl_table_free(table);
}

static void expect_end(int64_t head)
{
	tdl_table *table = open_table("t");
	tdl_error error;

	cr_assert_eq(tdl_table_head(table), head);
	cr_assert_eq(info_of(table, head).files, (uint64_t)head);
	cr_assert_eq(tdl_table_damage(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, head + 1);
	tdl_table_free(table);
}

Test(prefetch, a_torn_commit_ends_it)
{
	make_long_table(LONG);
	put_raw_commit("t", 3333, "{\"commitInfo\"", 13);
	expect_end(3332);
}

Test(prefetch, a_gap_ends_it)
{
	make_long_table(LONG);
	cr_assert_eq(unlink(commit_path("t", 2600)), 0);
	expect_end(2599);
}

Test(prefetch, where_the_replay_finds_the_fault)
{
	const char large[] = "{\"add\":{\"path\":\"x\",\"size\":9223372036854775807,"
			     "\"numRecords\":1}}\n";

	make_long_table(LONG);
	put_commit("t", 2000, large);
	expect_end(1999);
}

Test(prefetch, a_short_log_is_not_worth_it)
{
	tdl__log log = { -1, "t" };
	struct stat st;

	make_long_table(10);
	log.dir = open(in_scratch("t/_delta_log"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(fstat(log.dir, &st), 0);
	cr_assert_null(tdl__prefetch_start(&log, 0));
	close(log.dir);
}

/* Who reads ahead keeps nothing open that the program closes meanwhile. */
Test(prefetch, holds_no_descriptors_of_others)
{
	int dir, ends[2];
	char byte;
	tdl__log log;
	tdl__prefetch *prefetch;
	tdl__commit commit = { 0 };

	make_long_table(LONG);
	dir = open(in_scratch("t/_delta_log"), O_RDONLY | O_DIRECTORY);
	cr_assert(dir >= 0);
	cr_assert_eq(pipe(ends), 0);
	log = (tdl__log){ dir, "t" };
	prefetch = tdl__prefetch_start(&log, 0);
	if (!prefetch)
		cr_skip_test("one processor");
	/* By now they read, and go on with it. */
	cr_assert(tdl__prefetch_take(prefetch, 0, &commit));
	tdl__commit_clear(&commit);
	close(ends[1]);
	cr_assert_eq(read(ends[0], &byte, 1), 0);
	for (int64_t version = 1; version <= LONG; version++) {
		cr_assert(tdl__prefetch_take(prefetch, version, &commit));
		tdl__commit_clear(&commit);
	}
	cr_assert_not(tdl__prefetch_take(prefetch, LONG + 1, &commit));
	cr_assert_geq(fcntl(dir, F_GETFD), 0);
	tdl__commit_free(&commit);
	tdl__prefetch_stop(prefetch);
	close(ends[0]);
	close(dir);
}
