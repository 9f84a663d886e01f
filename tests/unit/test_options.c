/* SPDX-License-Identifier: MIT */
/*
 * Structures of options of callers that were compiled with an older or a newer header.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"
#include "tables.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"

static tdl_table *table;
static tdl_error error;

static void begin(void)
{
	table = begin_with_table("t");
}

static void end(void)
{
	end_with_table(table);
}

TestSuite(options, .init = begin, .fini = end);

/* What each function that takes options says to some of this size. */
static int create(size_t size)
{
	tdl_commit_options how = { .size = size, .read_version = TDL_LATEST };
	static const char *const columns[] = { "id:int" };
	tdl_schema *schema;
	int r;

	cr_assert_eq(tdl_schema_parse(columns, 1, &schema, &error), 0);
	r = tdl_table_create(in_scratch("new"), schema, &how, &error);
	tdl_schema_free(schema);
	return r;
}

static int append(size_t size)
{
	tdl_commit_options how = { .size = size, .read_version = TDL_LATEST };
	int fd = bytes_fd(ROW_1, strlen(ROW_1));
	int64_t version;
	int r = tdl_table_write(table, TDL_APPEND, fd, "rows", &how, &version, &error);

	close(fd);
	return r;
}

static int restore(size_t size)
{
	tdl_commit_options how = { .size = size, .read_version = TDL_LATEST };
	int64_t version;

	return tdl_table_restore(table, 0, &how, &version, &error);
}

static int commit(size_t size)
{
	tdl_commit_options how = { .size = size, .read_version = TDL_LATEST };
	tdl_staging *staging;
	tdl_staged *file;
	int64_t version;
	int r;

	cr_assert_eq(tdl_staging_open(table, &staging, &error), 0);
	cr_assert_eq(tdl_staged_create(staging, "x", &file, &error), 0);
	cr_assert_eq(write(tdl_staged_fd(file), ROW_1, strlen(ROW_1)), (ssize_t)strlen(ROW_1));
	r = tdl_staged_commit(file, &how, &version, &error);
	if (r < 0)
		tdl_staged_remove(file, NULL);
	tdl_staged_free(file);
	tdl_staging_free(staging);
	return r;
}

static void found_path(void *context, const char *path)
{
}

static int vacuum_dry(size_t size)
{
	tdl_vacuum_options how = { .size = size, .dry_run = true };

	return tdl_table_vacuum(table, &how, found_path, NULL, &error);
}

static void found_problem(void *context, const tdl_problem *problem)
{
}

static int check(size_t size)
{
	tdl_check_options how = { .size = size, .version = -1 };

	return tdl_table_check(table, &how, found_problem, NULL, &error);
}

static int diff(size_t size)
{
	tdl_diff_options how = { .size = size };
	tdl_snapshot *old, *new;
	uint64_t removed, added;
	int r;

	cr_assert_eq(tdl_snapshot_open(table, 0, &old, &error), 0);
	cr_assert_eq(tdl_snapshot_open(table, TDL_LATEST, &new, &error), 0);
	r = tdl_snapshot_diff(old, new, &how, &removed, &added, &error);
	tdl_snapshot_unref(old);
	tdl_snapshot_unref(new);
	return r;
}

static const struct {
	const char *name;
	int (*call)(size_t size);
	size_t size;
	size_t oldest; /* that of version 0.1 */
} calls[] = {
	{ "create", create, sizeof(tdl_commit_options),
	  offsetof(tdl_commit_options, context) + sizeof(void *) },
	{ "append", append, sizeof(tdl_commit_options),
	  offsetof(tdl_commit_options, context) + sizeof(void *) },
	{ "restore", restore, sizeof(tdl_commit_options),
	  offsetof(tdl_commit_options, context) + sizeof(void *) },
	{ "commit", commit, sizeof(tdl_commit_options),
	  offsetof(tdl_commit_options, context) + sizeof(void *) },
	{ "vacuum", vacuum_dry, sizeof(tdl_vacuum_options),
	  offsetof(tdl_vacuum_options, dry_run) + sizeof(bool) },
	{ "check", check, sizeof(tdl_check_options),
	  offsetof(tdl_check_options, context) + sizeof(void *) },
	{ "diff", diff, sizeof(tdl_diff_options),
	  offsetof(tdl_diff_options, context) + sizeof(void *) },
};

Test(options, a_size_that_none_ever_had_is_refused)
{
	static const size_t sizes[] = { 1, sizeof(size_t), SIZE_MAX, 1 << 20 };

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
			error = (tdl_error){ 0 };
			cr_expect_eq(calls[i].call(sizes[k]), TDL_ERR_MISUSE, "%s", calls[i].name);
			cr_expect_not_null(strstr(error.message, "sizeof"), "%s", error.message);
		}
		cr_expect_eq(calls[i].call(calls[i].oldest - 1), TDL_ERR_MISUSE, "%s",
			     calls[i].name);
	}
	cr_expect_not(is_there("new"));
	cr_expect_eq(tdl_table_head(table), 0, "nothing was done");
}

Test(options, nothing_and_the_sizes_that_were_are_taken)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		cr_expect_eq(calls[i].call(0), 0, "%s: %s", calls[i].name, error.message);
		remove_tree("new");
		cr_expect_eq(calls[i].call(calls[i].oldest), 0, "%s: %s", calls[i].name,
			     error.message);
		remove_tree("new");
		cr_expect_eq(calls[i].call(calls[i].size), 0, "%s: %s", calls[i].name,
			     error.message);
		remove_tree("new");
	}
}

/* A header that is newer than the library has members behind those of today. */
Test(options, what_the_library_does_not_know_must_be_zero)
{
	struct {
		tdl_vacuum_options today;
		uint64_t later;
	} how = { .today = { .size = sizeof how, .dry_run = true } };

	cr_expect_eq(tdl_table_vacuum(table, &how.today, found_path, NULL, &error), 0, "%s",
		     error.message);
	how.later = 1;
	cr_expect_eq(tdl_table_vacuum(table, &how.today, found_path, NULL, &error), TDL_ERR_MISUSE);
	cr_expect_not_null(strstr(error.message, "does not know"), "%s", error.message);
}

Test(options, the_header_and_the_library_have_one_version)
{
	char text[40];

	snprintf(text, sizeof text, "%d.%d.%d", TDL_VERSION_MAJOR, TDL_VERSION_MINOR,
		 TDL_VERSION_PATCH);
	cr_expect_str_eq(tdl_library_version(), text);
}
