/* SPDX-License-Identifier: MIT */
/*
 * Tables: what creating makes and refuses, what can be opened, what is told of versions.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"
#include "tables.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"

static tdl_error error;
static tdl_schema *schema;

static void begin(void)
{
	static const char *const columns[] = { COLUMNS_ID_NAME };

	scratch_begin();
	umask(022);
	cr_assert_eq(tdl_schema_parse(columns, 2, &schema, &error), 0);
}

static void end(void)
{
	faults_off();
	tdl_schema_free(schema);
	scratch_end();
}

TestSuite(table, .init = begin, .fini = end);

static int create(const char *path)
{
	error = (tdl_error){ 0 };
	return tdl_table_create(in_scratch("%s", path), schema, NULL, &error);
}

Test(table, creating)
{
	tdl_version_info info;
	tdl_table *table;

	cr_assert_eq(create("a/b//c/t"), 0, "%s", error.message);
	table = open_table("a/b/c/t");
	cr_assert_str_eq(tdl_table_path(table), in_scratch("a/b/c/t"));
	cr_assert_eq(strlen(tdl_table_id(table)), 36);
	cr_assert_eq(tdl_table_head(table), 0);
	cr_assert_eq(tdl_table_version_info(table, 0, &info, &error), 0);
	cr_assert_str_eq(info.operation, "CREATE");
	cr_assert_str_eq(info.table_id, tdl_table_id(table));
	cr_assert_eq(info.read_version, -1);
	cr_assert_eq(info.files, 0);
	cr_assert_eq(tdl_schema_count(info.schema), 2);
	cr_assert_eq(count_in("a/b/c/t"), 1);
	cr_assert_eq(commits_in("a/b/c/t"), 1);
	tdl_table_free(table);
	cr_assert_eq(create("with/slash/"), 0, "%s", error.message);
	expect_version("with/slash", 0, "");
}

Test(table, what_is_there_is_not_touched)
{
	make_dir("dir");
	put("file", "x");
	cr_assert_eq(symlink("nowhere", in_scratch("link")), 0);
	cr_assert_eq(create("dir"), TDL_ERR_EXISTS);
	cr_assert_eq(create("file"), TDL_ERR_EXISTS);
	cr_assert_eq(create("link"), TDL_ERR_EXISTS);
	cr_assert_eq(count_in("dir"), 0);
	cr_assert_eq(create("file/t"), TDL_ERR_IO);
	cr_assert_eq(error.os_error, ENOTDIR);
	cr_assert_eq(tdl_table_create("", schema, NULL, &error), TDL_ERR_MISUSE);
}

static void other_creates(void *context)
{
	make_dir("t");
	put("t/theirs", "x");
}

Test(table, a_race_to_create_is_lost_without_harm)
{
	faults_do_at(TDL__OP_MKDIR, 1, other_creates, NULL);
	cr_assert_eq(tdl_table_create(in_scratch("t"), schema, NULL, &error), TDL_ERR_EXISTS, "%s",
		     error.message);
	faults_off();
	cr_assert_eq(count_in("t"), 1);
}

Test(table, creating_that_failed_leaves_nothing)
{
	unsigned calls;

	faults_count();
	cr_assert_eq(create("x/t"), 0);
	calls = faults_off();
	remove_tree("x");
	for (unsigned i = 1; i <= calls; i++) {
		int r;

		faults_fail_nth(i, ENOSPC);
		r = create("x/t");
		faults_off();
		if (r == TDL_ERR_PUBLISHED)
			expect_version("x/t", 0, "");
		else if (r < 0)
			cr_assert_not(is_there("x/t"), "%s", faults_hit_what());
		if (is_there("x/t"))
			expect_version("x/t", 0, "");
		if (is_there("x"))
			remove_tree("x");
	}
}

static void expect_none(const char *path, int code, const char *what)
{
	tdl_table *table = NULL;

	cr_assert_eq(tdl_table_open(in_scratch("%s", path), 0, &table, &error), code, "%s", path);
	cr_assert_eq(error.code, code);
	cr_assert_not_null(strstr(error.message, what), "%s", error.message);
	cr_assert_null(table);
}

Test(table, what_is_no_table)
{
	unsigned before = open_descriptors();

	make_dir("empty");
	put("file", "x");
	make_dir("bare");
	make_dir("bare/_delta_log");
	make_dir("later");
	make_dir("later/_delta_log");
	put_commit("later", 1, FOREIGN_META);
	make_dir("link");
	cr_assert_eq(symlink("../bare/_delta_log", in_scratch("link/_delta_log")), 0);
	put_raw_commit("torn", 0, "{\"commitInfo\"", 13);
	expect_none("missing", TDL_ERR_NOT_FOUND, "no such directory");
	expect_none("empty", TDL_ERR_NOT_FOUND, "it has no _delta_log");
	expect_none("file", TDL_ERR_NOT_FOUND, "not a directory");
	expect_none("link", TDL_ERR_NOT_FOUND, "it has no _delta_log");
	expect_none("bare", TDL_ERR_NOT_FOUND, "it has no version 0");
	expect_none("later", TDL_ERR_CORRUPT, "gap in the log");
	cr_assert_eq(error.version, 0);
	expect_none("torn", TDL_ERR_CORRUPT, "00000000000000000000.json:1: not valid JSON");
	cr_assert_eq(error.version, 0);
	cr_assert_eq(error.line, 1);
	cr_assert_eq(open_descriptors(), before);
}

Test(table, opened_by_any_path)
{
	tdl_table *table;

	make_table("t");
	cr_assert_eq(symlink("t", in_scratch("link")), 0);
	table = open_table("link");
	cr_assert_str_eq(tdl_table_path(table), in_scratch("t"));
	tdl_table_free(table);
	cr_assert_eq(chdir(in_scratch("t")), 0);
	cr_assert_eq(tdl_table_open(".", 0, &table, &error), 0);
	cr_assert_str_eq(tdl_table_path(table), in_scratch("t"));
	/* The directory may be renamed under it. */
	cr_assert_eq(rename(in_scratch("t"), in_scratch("u")), 0);
	cr_assert_eq(append_rows(table, ROW_1), 1);
	expect_version("u", 1, ROW_1);
	tdl_table_free(table);
}

Test(table, a_readers_table_is_not_written_to)
{
	tdl_table *table;
	int64_t version;

	make_table("t");
	cr_assert_eq(tdl_table_open(in_scratch("t"), TDL_OPEN_READ_ONLY, &table, &error), 0);
	cr_assert_eq(tdl_table_writable(table, &error), TDL_ERR_MISUSE);
	cr_assert_eq(try_write(table, TDL_APPEND, ROW_1, &version, &error), TDL_ERR_MISUSE);
	cr_assert_eq(tdl_table_restore(table, 0, NULL, &version, &error), TDL_ERR_MISUSE);
	cr_assert_eq(count_in("t"), 1);
	tdl_table_free(table);
}

Test(table, writable)
{
	tdl_table *table;

	make_table("t");
	table = open_table("t");
	cr_assert_eq(tdl_table_writable(table, &error), 0);
	faults_fail_op(TDL__OP_STAT, 1, 1, EROFS);
	cr_assert_eq(tdl_table_writable(table, &error), TDL_ERR_IO);
	cr_assert_eq(error.os_error, EROFS);
	faults_fail_op(TDL__OP_STAT, 2, 1, EACCES);
	cr_assert_eq(tdl_table_writable(table, &error), TDL_ERR_IO);
	cr_assert_eq(error.os_error, EACCES);
	faults_off();
	cr_assert_eq(count_in("t"), 1, "looking creates nothing");
	tdl_table_free(table);
}

Test(table, modes_and_owners_are_the_tables)
{
	struct stat st;
	tdl_table *table;
	char *names;

	make_table("t");
	cr_assert_eq(chmod(in_scratch("t"), 0770), 0);
	table = open_table("t");
	if (geteuid() == 0)
		cr_assert_eq(chown(in_scratch("t"), 1234, 2345), 0);
	append_rows(table, ROW_1);
	tdl_table_free(table);
	cr_assert_eq(stat(commit_path("t", 1), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0440);
	if (geteuid() == 0)
		cr_assert(st.st_uid == 1234 && st.st_gid == 2345);
	names = names_in("t");
	names[strcspn(strstr(names, "part-"), "\n") + (size_t)(strstr(names, "part-") - names)] = 0;
	cr_assert_eq(stat(in_scratch("t/%s", strstr(names, "part-")), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0440);
	if (geteuid() == 0)
		cr_assert(st.st_uid == 1234 && st.st_gid == 2345);
	free(names);
	cr_assert_eq(stat(in_scratch("t/_incoming"), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 01770);
}

/* The umask of who creates it is the table's; those of who writes later are not. */
Test(table, umasks)
{
	static const mode_t masks[] = { 022, 002, 077 };

	for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
		mode_t before = umask(masks[i]);
		struct stat st;
		tdl_table *table;
		char *names, *part;

		cr_assert_eq(create("t"), 0, "%s", error.message);
		cr_assert_eq(stat(in_scratch("t"), &st), 0);
		cr_assert_eq(st.st_mode & 07777, 0777 & ~masks[i]);
		umask(027);
		table = open_table("t");
		append_rows(table, ROW_1);
		for (int64_t version = 0; version < 2; version++) {
			cr_assert_eq(stat(commit_path("t", version), &st), 0);
			cr_assert_eq(st.st_mode & 07777, 0444 & ~masks[i]);
		}
		names = names_in("t");
		part = strstr(names, "part-");
		part[strcspn(part, "\n")] = '\0';
		cr_assert_eq(stat(in_scratch("t/%s", part), &st), 0);
		cr_assert_eq(st.st_mode & 07777, 0444 & ~masks[i]);
		free(names);
		tdl_table_free(table);
		remove_tree("t");
		umask(before);
	}
}

Test(table, versions_as_json)
{
	tdl_table *table;
	char *json;
	size_t n;

	put_raw_commit("t", 0, "", 0);
	put(commit_path("t", 0), "%s",
	    FOREIGN_META "{\"commitInfo\":{\"x\":9007199254740993,\"timestamp\":5,"
			 "\"operation\":\"CR\\u0022\","
			 "\"files\":77,\"\\u0066iles\":78,\"readVersion\":null,\"y\" : [1, 2]}}\n");
	table = open_table("t");
	cr_assert_eq(tdl_table_version_json(table, 0, &json, &n, &error), 0, "%s", error.message);
	cr_assert_eq(strlen(json), n);
	cr_assert_str_eq(
		json,
		"{\"version\":0,\"operation\":\"CR\\\"\",\"timestamp\":5,\"readVersion\":null,"
		"\"files\":0,\"numRecords\":0,\"size\":0,\"schema\":[{\"name\":\"id\",\"type\":"
		"\"int\"},{\"name\":\"name\",\"type\":\"str\"}],\"x\":9007199254740993,\"y\":[1,"
		" 2]}\n");
	free(json);
	cr_assert_eq(tdl_table_version_json(table, 1, &json, &n, &error), TDL_ERR_NOT_FOUND);
	tdl_table_free(table);
}

/* Of every version, and from every offset, history.jsonl is what the versions' objects are. */
Test(table, history_is_the_objects_one_after_the_other)
{
	static char whole[8192], got[8192];
	size_t length = 0, n, filled;
	tdl_table *table;
	char *json;

	put_raw_commit("t", 0, "", 0);
	put(commit_path("t", 0), "%s",
	    FOREIGN_META
	    "{\"commitInfo\":{\"timestamp\":-5,\"operation\":\"\\u00e4\\n\","
	    "\"\\u0063rc32c\":1,\"cr\\u0063\":[ 1 ,{\"a\":\"}\"}],\"cr\\u0063\":2}}\n");
	put(commit_path("t", 1), "%s",
	    "{\"commitInfo\":{\"timestamp\":9223372036854775807,\"operation\":\"\","
	    "\"readVersion\":0}}\n{\"add\":{\"path\":\"gone\",\"size\":99,\"numRecords\":7}}");
	put(commit_path("t", 2), "%s",
	    "\n{\"metaData\":{\"id\":\"x\",\"schema\":[{\"name\":\"\\u20ac\",\"type\":"
	    "\"float\"}]}}\n{ \"commitInfo\" : { \"z\" : null , \"timestamp\" : 0,"
	    "\"operation\":\"a/b\", \"\":\"\" } }\n");
	table = open_table("t");
	for (int64_t version = 0; version < 3; version++) {
		cr_assert_eq(tdl_table_version_json(table, version, &json, &n, &error), 0, "%s",
			     error.message);
		memcpy(whole + length, json, n);
		length += n;
		free(json);
	}
	cr_assert_eq(tdl_table_history_size(table), length);
	for (size_t at = 0; at <= length; at++) {
		cr_assert_eq(tdl_table_history_read(table, got, sizeof got, at, &filled, &error),
			     0);
		cr_assert_eq(filled, length - at);
		cr_assert_eq(memcmp(got, whole + at, filled), 0);
		cr_assert_eq(tdl_table_history_read(table, got, 1, at, &filled, &error), 0);
		cr_assert_eq(filled, at < length);
	}
	cr_assert_eq(tdl_table_history_read(table, got, 9, UINT64_MAX, &filled, &error), 0);
	cr_assert_eq(filled, 0);
	tdl_table_free(table);
}

Test(table, null_is_fine_where_it_says_so)
{
	tdl_table *table = NULL;

	tdl_table_free(NULL);
	tdl_snapshot_unref(NULL);
	tdl_staging_free(NULL);
	tdl_schema_free(NULL);
	cr_assert_eq(tdl_table_open(in_scratch("none"), 0, &table, NULL), TDL_ERR_NOT_FOUND);
	make_table("t");
	table = open_table("t");
	cr_assert_eq(tdl_table_refresh(table, NULL), 0);
	cr_assert_eq(tdl_table_damage(table, NULL), 0);
	cr_assert_eq(tdl_table_version_info(table, 5, &(tdl_version_info){ 0 }, NULL),
		     TDL_ERR_NOT_FOUND);
	tdl_table_free(table);
}
