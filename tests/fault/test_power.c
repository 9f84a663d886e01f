/* SPDX-License-Identifier: MIT */
/*
 * Loss of power at any moment: what was acknowledged is there, whole; what was not is there whole
 * or not at all. And every sync that the library makes is needed for that: without any one of them
 * a state is found where it does not hold.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash.h"
#include "faults.h"
#include "scratch.h"
#include "tables.h"

#define ROW_1	"{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2	"{\"id\":2,\"name\":\"b\"}\n"
#define ROW_3	"{\"id\":3,\"name\":\"c\"}\n"
#define ROW_RAW "{\"name\":\"c\",\"id\":3}"

static const char *const rows[] = {
	"",
	ROW_1,
	ROW_1 ROW_2 ROW_2,
	ROW_3,
	ROW_3 ROW_1,
	ROW_3 ROW_1 ROW_3,
	ROW_1 ROW_2 ROW_2,
	ROW_1 ROW_2 ROW_2 ROW_1,
	ROW_1 ROW_2 ROW_2 ROW_1 ROW_2,
	ROW_1 ROW_2 ROW_2 ROW_1 ROW_2 ROW_3,
};
enum {
	VERSIONS = sizeof rows / sizeof *rows
};

/* Deep enough for directories that creating makes. */
#define PATH "live/a/b/t"

TestSuite(power, .init = scratch_begin, .fini = scratch_end);

/* Rows that are told of are judged while they are written. */
static void commit(tdl_staging *staging, const char *bytes, bool told, bool prepared)
{
	tdl_staged *file;
	tdl_error error;
	int64_t version;

	cr_assert_eq(tdl_staged_create(staging, "drop", &file, &error), 0);
	cr_assert_eq(tdl__sys_write(tdl_staged_fd(file), bytes, strlen(bytes)), 0);
	if (told)
		tdl_staged_written(file, tdl_staged_begin(file), bytes, strlen(bytes), 0);
	if (prepared)
		tdl_staged_prepare(file);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(file);
	crash_acknowledge(version);
}

static void work(void)
{
	tdl_staging *staging;
	tdl_table *table;

	crash_record();
	make_table(PATH);
	crash_acknowledge(0);
	table = open_table(PATH);
	crash_acknowledge(append_rows(table, ROW_1));
	crash_acknowledge(append_rows(table, ROW_2 ROW_2));
	crash_acknowledge(overwrite_rows(table, ROW_3));
	cr_assert_eq(tdl_staging_open(table, &staging, NULL), 0);
	commit(staging, ROW_1, false, false);
	commit(staging, ROW_RAW, true, false);
	tdl_staging_free(staging);
	crash_acknowledge(restore_version(table, 2));
	free(vacuum(table, false));
	crash_acknowledge(append_rows(table, ROW_1));
	cr_assert_eq(tdl_staging_open(table, &staging, NULL), 0);
	commit(staging, ROW_2, false, true);
	commit(staging, ROW_RAW, true, true);
	tdl_staging_free(staging);
	tdl_table_free(table);
	crash_stop_recording();
}

static char wrong[1000];

static bool say(const char *what)
{
	snprintf(wrong, sizeof wrong, "%s: %s", crash_moment(), what);
	return false;
}

/* Whether a table in "crash" is as it has to be. */
static bool is_whole(int64_t acknowledged)
{
	tdl_error error = { 0 };
	tdl_table *table;
	int64_t head;
	int r = tdl_table_open(in_scratch("crash/a/b/t"), 0, &table, &error);
	bool good = true;

	if (r == TDL_ERR_NOT_FOUND && acknowledged < 0)
		return true;
	if (r < 0)
		return say(error.message);
	head = tdl_table_head(table);
	if (tdl_table_damage(table, &error) < 0)
		good = say(error.message);
	else if (head < acknowledged || head >= VERSIONS)
		good = say("a version is missing");
	for (int64_t version = 0; version <= head && good; version++) {
		char *bytes;

		if (try_read(table, version, &bytes, NULL, &error) < 0) {
			good = say(error.message);
			break;
		}
		if (strcmp(bytes, rows[version]) != 0)
			good = say("rows are not what they were");
		free(bytes);
	}
	tdl_table_free(table);
	return good;
}

/* And goes on: what is left over is cleaned up, and the next commit is made. */
static bool is_whole_and_goes_on(int64_t acknowledged)
{
	static unsigned count;
	tdl_table *table;
	int64_t head;

	if (!is_whole(acknowledged))
		return false;
	if (++count % 5 != 0 || tdl_table_open(in_scratch("crash/a/b/t"), 0, &table, NULL) < 0)
		return true;
	head = tdl_table_head(table);
	free(vacuum(table, false));
	if (append_rows(table, ROW_1) != head + 1)
		cr_assert_fail("the next commit is not the next version");
	tdl_table_free(table);
	return true;
}

static void lose_power_everywhere(void)
{
	unsigned states;

	wrong[0] = '\0';
	states = crash_each_state(-1, is_whole_and_goes_on);
	cr_assert_str_eq(wrong, "");
	cr_assert_gt(states, 500);
	cr_log_info("%u states", states);
}

Test(power, lost_at_any_moment, .timeout = 300)
{
	work();
	lose_power_everywhere();
	crash_free();
}

/* Where there are no links, a rename publishes. */
Test(power, lost_at_any_moment_without_links, .timeout = 300)
{
	faults_fail_op(TDL__OP_LINK, 1, 1000000, EPERM);
	work();
	faults_off();
	lose_power_everywhere();
	crash_free();
}

Test(power, no_sync_can_be_done_without, .timeout = 300)
{
	work();
	cr_assert_gt(crash_syncs(), 20);
	for (unsigned sync = 0; sync < crash_syncs(); sync++) {
		wrong[0] = '\0';
		crash_each_state((int)sync, is_whole);
		cr_expect_str_neq(wrong, "", "%s is not needed", crash_sync_name(sync));
	}
	crash_free();
}
