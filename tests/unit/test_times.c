/* SPDX-License-Identifier: MIT */
/*
 * Times of versions and which version a text names, against the plain rule, with clocks that step
 * back, stand still and end.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log/times.h"
#include "scratch.h"
#include "tables.h"

TestSuite(times, .init = scratch_begin, .fini = scratch_end);

/* The rule, as it is written. */
static int64_t later(int64_t before, int64_t timestamp)
{
	int64_t next = before < INT64_MAX ? before + 1 : INT64_MAX;

	return timestamp > next ? timestamp : next;
}

static void compare(const int64_t *timestamps, size_t count)
{
	tdl__times times = { 0 };
	int64_t *wanted = calloc(count, sizeof *wanted);

	for (size_t i = 0; i < count; i++) {
		wanted[i] = i == 0 ? timestamps[0] : later(wanted[i - 1], timestamps[i]);
		cr_assert(tdl__times_add(&times, i, i == 0 ? 0 : wanted[i - 1], timestamps[i]));
	}
	for (size_t i = 0; i < count; i++)
		cr_assert_eq(tdl__times_get(&times, i, timestamps[i]), wanted[i], "%zu", i);
	free(wanted);
	tdl__times_clear(&times);
}

Test(times, against_the_rule)
{
	static const int64_t edges[] = { INT64_MIN,	INT64_MIN, -5,	      -5,	 -4, 0,
					 INT64_MAX - 1, 3,	   INT64_MAX, INT64_MAX, 7 };
	int64_t timestamps[300];

	compare(edges, sizeof edges / sizeof *edges);
	srand(20261129);
	for (int round = 0; round < 500; round++) {
		int64_t clock = 1000;
		int spread = 1 + rand() % 20;

		for (int i = 0; i < 300; i++) {
			clock += rand() % spread - (rand() % 8 == 0 ? rand() % (8 * spread) : 0);
			timestamps[i] = clock;
		}
		compare(timestamps, 300);
	}
}

/* ---- In a table --------------------------------------------------------------------------- */

static void put_at(int64_t version, int64_t timestamp)
{
	char text[400];
	int n = snprintf(text, sizeof text,
			 "{\"commitInfo\":{\"timestamp\":%" PRId64
			 ",\"operation\":\"APPEND\",\"readVersion\":null}}\n%s",
			 timestamp, version == 0 ? FOREIGN_META : "");

	put_raw_commit("t", version, text, (size_t)n);
}

static int find(tdl_table *table, const char *text, int64_t *version)
{
	tdl_error error = { 0 };
	int r = tdl_table_find_version(table, text, version, &error);

	if (r < 0)
		cr_assert_neq(error.message[0], '\0');
	return r;
}

static void expect(tdl_table *table, const char *text, int64_t wanted)
{
	int64_t got = -7;

	cr_assert_eq(find(table, text, &got), 0, "%s", text);
	cr_assert_eq(got, wanted, "%s: %" PRId64, text, got);
}

static void refuse(tdl_table *table, const char *text, int code)
{
	int64_t got = -7;

	cr_assert_eq(find(table, text, &got), code, "%s", text);
	cr_assert_eq(got, -7);
}

Test(times, versions_by_name)
{
	/* The clock is set back by two minutes behind version 2. */
	static const int64_t clock[] = { 1606608000000, 1606608060000, 1606608120000, 1606608000000,
					 1606608120001, 1606608120002, 1606608200000 };
	tdl_version_info info;
	tdl_table *table;
	int64_t before = 0;

	setenv("TZ", "UTC0", 1);
	tzset();
	make_dir("t");
	make_dir("t/_delta_log");
	for (int i = 0; i < 7; i++)
		put_at(i, clock[i]);
	table = open_table("t");
	for (int i = 0; i < 7; i++) {
		cr_assert_eq(tdl_table_version_info(table, i, &info, NULL), 0);
		cr_assert_eq(info.timestamp, clock[i]);
		cr_assert_gt(info.time, before);
		before = info.time;
	}
	expect(table, "3", 3);
	expect(table, "v6", 6);
	expect(table, "6~6", 0);
	expect(table, "latest", 6);
	expect(table, "latest~2", 4);
	expect(table, "@2020-11-29", 0);
	expect(table, "@2020-11-29T00:00:59.999", 0);
	expect(table, "@2020-11-29 00:01", 1);
	expect(table, "@2020-11-29T00:02", 2);
	expect(table, "@1606608120001", 3);
	expect(table, "@1606608120002", 4);
	expect(table, "@1606608120003", 5);
	expect(table, "@1606608199999", 5);
	expect(table, "@1606608200", 6);
	expect(table, "@1606608200~1", 5);
	refuse(table, "7", TDL_ERR_NOT_FOUND);
	refuse(table, "v99999999999999999999", TDL_ERR_NOT_FOUND);
	refuse(table, "6~7", TDL_ERR_NOT_FOUND);
	refuse(table, "latest~99999999999999999999", TDL_ERR_NOT_FOUND);
	refuse(table, "@2020-11-28T23:59:59.999", TDL_ERR_NOT_FOUND);
	refuse(table, "@9999-01-01", TDL_ERR_NOT_FOUND);
	refuse(table, "july", TDL_ERR_NOT_FOUND);
	refuse(table, "head", TDL_ERR_MISUSE);
	refuse(table, "@yesterday", TDL_ERR_MISUSE);
	/* New ones are seen. */
	put_at(7, 1606608300000);
	expect(table, "7", 7);
	put_at(8, 1606608300000);
	expect(table, "latest", 8);
	/* From here on nobody can say what was the newest. */
	put_raw_commit("t", 9, "x", 1);
	refuse(table, "latest", TDL_ERR_CORRUPT);
	refuse(table, "@1606608400", TDL_ERR_CORRUPT);
	expect(table, "@1606608120001", 3);
	tdl_table_free(table);
}

/* Where the next version is dated later than now, its clock was ahead, and what was the newest at
 * a time before that is not known. */
Test(times, a_clock_that_was_ahead)
{
	tdl_table *table;

	make_dir("t");
	make_dir("t/_delta_log");
	put_at(0, 1000);
	put_at(1, 2000);
	put_at(2, INT64_C(253370764800000));
	table = open_table("t");
	expect(table, "@1970-01-01T00:00:01.999Z", 0);
	refuse(table, "@1970-01-01T00:00:02Z", TDL_ERR_NOT_FOUND);
	refuse(table, "@-0s", TDL_ERR_NOT_FOUND);
	expect(table, "latest", 2);
	tdl_table_free(table);
}
