/* SPDX-License-Identifier: MIT */
/*
 * The operations that tests of faults run, and what has to hold of a table after each.
 */
#include "scenario.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commit/staging.h"
#include "scratch.h"
#include "tables.h"

#define ROW(n, name) "{\"id\":" #n ",\"name\":\"" name "\"}\n"
#define OLD_1	     ROW(1, "a")
#define OLD_2	     ROW(2, "b")
#define OLD_3	     ROW(3, "c")
#define NEW_1	     ROW(8, "new")
#define NEW_2	     ROW(9, "rows")
#define AGAIN	     ROW(7, "again")
#define NEW_RAW	     "\n{\"name\":\"new\",\"id\":8}\r\n { \"id\" : 9, \"name\" : \"rows\" }"

/* What the table begins with. */
static const char *const versions[] = { "", OLD_1, OLD_1 OLD_2, OLD_3, OLD_1 OLD_2 };
enum {
	HEAD = 4,
	PARTS = 3
};

static struct {
	tdl_table *table;
	tdl_staging *staging;
	tdl_staged *file;
	tdl_schema *schema;
	tdl_error error;
	int rows;
	char *read; /* what was read, where reading is the scenario */
} now = { .rows = -1 };

__attribute__((noreturn, format(printf, 2, 3))) static void fail(const char *what,
								 const char *format, ...)
{
	va_list args;

	fprintf(stderr, "after %s: ", what);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

/* ---- Setting up ---------------------------------------------------------------------------- */

static void stage(tdl_staging *staging, const char *name, const char *rows)
{
	if (tdl_staged_create(staging, name, &now.file, NULL) < 0 ||
	    write(tdl_staged_fd(now.file), rows, strlen(rows)) != (ssize_t)strlen(rows))
		abort();
}

/* What a killed process leaves: two named files and one without a name. */
static void leave_a_dead_folder(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		tdl_staging *staging;
		tdl_staged *nameless;

		if (tdl_staging_open(now.table, &staging, NULL) < 0)
			_exit(1);
		stage(staging, "one", NEW_1);
		stage(staging, "two", NEW_2);
		if (tdl__staged_create_nameless(staging, NULL, &nameless, NULL) < 0)
			_exit(1);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		abort();
}

void scenario_make_template(void)
{
	make_table("template");
	now.table = open_table("template");
	append_rows(now.table, OLD_1);
	append_rows(now.table, OLD_2);
	overwrite_rows(now.table, OLD_3);
	restore_version(now.table, 2);
	leave_a_dead_folder();
	put("template/part-00000000000000000000000000000bad.jsonl", "orphan");
	put("template/_delta_log/.00000000000000000003.0123456789abcdef0123456789abcdef.tmp", "x");
	tdl_table_free(now.table);
	now.table = NULL;
}

static int run_create(const struct scenario *scenario)
{
	return tdl_table_create(in_scratch("new/t"), now.schema, NULL, &now.error);
}

static int write_rows(enum tdl_operation operation)
{
	int64_t version;

	return tdl_table_write(now.table, operation, now.rows, "rows", NULL, &version, &now.error);
}

static int run_append(const struct scenario *scenario)
{
	return write_rows(TDL_APPEND);
}

static int run_overwrite(const struct scenario *scenario)
{
	return write_rows(TDL_OVERWRITE);
}

static int run_restore(const struct scenario *scenario)
{
	int64_t version;

	return tdl_table_restore(now.table, 1, NULL, &version, &now.error);
}

static void forget(void *context, const char *path)
{
}

static int run_vacuum(const struct scenario *scenario)
{
	return tdl_table_vacuum(now.table, &(tdl_vacuum_options){ 0 }, forget, NULL, &now.error);
}

static int run_commit(const struct scenario *scenario)
{
	int64_t version;

	return tdl_staged_commit(now.file, NULL, &version, &now.error);
}

/* A staged file that is told of while it is written, in two pieces that split a row. */
static int run_written(const struct scenario *scenario)
{
	const char *rows = strcmp(scenario->name, "written as it is") == 0 ? NEW_1 NEW_2 : NEW_RAW;
	size_t n = strlen(rows), first = n / 3;

	for (size_t at = 0; at < n; at = at == 0 ? first : n) {
		size_t piece = at == 0 ? first : n - first;

		if (pwrite(tdl_staged_fd(now.file), rows + at, piece, (off_t)at) != (ssize_t)piece)
			abort();
		tdl_staged_written(now.file, tdl_staged_begin(now.file), rows + at, piece, at);
	}
	return run_commit(scenario);
}

/* What can be done before is. */
static int run_prepared(const struct scenario *scenario)
{
	tdl_staged_prepare(now.file);
	return run_commit(scenario);
}

static void take(void *context, tdl_staged *file, const tdl_left *left)
{
	tdl_staged_free(file);
}

static int run_recover(const struct scenario *scenario)
{
	unsigned busy;

	return tdl_staging_recover(now.staging, take, NULL, &busy, &now.error);
}

static int run_read(const struct scenario *scenario)
{
	tdl_table *table;
	int r = tdl_table_open(in_scratch("t"), 0, &table, &now.error);

	if (r < 0)
		return r;
	r = tdl_table_damage(table, &now.error);
	if (r == 0)
		r = try_read(table, TDL_LATEST, &now.read, NULL, &now.error);
	tdl_table_free(table);
	return r;
}

const struct scenario scenarios[] = {
	{ "create", run_create, 0, "" },
	{ "append", run_append, HEAD + 1, OLD_1 OLD_2 NEW_1 NEW_2 },
	{ "overwrite", run_overwrite, HEAD + 1, NEW_1 NEW_2 },
	{ "restore", run_restore, HEAD + 1, OLD_1 },
	{ "vacuum", run_vacuum, -1, NULL },
	{ "commit as it is", run_commit, HEAD + 1, OLD_1 OLD_2 NEW_1 NEW_2 },
	{ "commit rewritten", run_commit, HEAD + 1, OLD_1 OLD_2 NEW_1 NEW_2 },
	{ "adopt", run_recover, -1, NULL },
	{ "open and read", run_read, -1, NULL },
	{ "written as it is", run_written, HEAD + 1, OLD_1 OLD_2 NEW_1 NEW_2 },
	{ "written to be rewritten", run_written, HEAD + 1, OLD_1 OLD_2 NEW_1 NEW_2 },
	{ "prepared as it is", run_prepared, HEAD + 1, OLD_1 OLD_2 NEW_1 NEW_2 },
	{ "prepared to be rewritten", run_prepared, HEAD + 1, OLD_1 OLD_2 NEW_1 NEW_2 },
};

void scenario_begin(const struct scenario *scenario)
{
	static const char *const columns[] = { COLUMNS_ID_NAME };
	const char *rows = strstr(scenario->name, "as it is") ? NEW_1 NEW_2 : NEW_RAW;

	if (is_there("t"))
		remove_tree("t");
	if (is_there("new"))
		remove_tree("new");
	copy_tree("template", "t");
	now.error = (tdl_error){ 0 };
	now.table = open_table("t");
	if (scenario->run == run_create)
		tdl_schema_parse(columns, 2, &now.schema, NULL);
	if (scenario->run == run_append || scenario->run == run_overwrite)
		now.rows = bytes_fd(NEW_RAW, strlen(NEW_RAW));
	if (scenario->run == run_recover || scenario->run == run_commit ||
	    scenario->run == run_written || scenario->run == run_prepared) {
		if (tdl_staging_open(now.table, &now.staging, NULL) < 0)
			abort();
	}
	if (scenario->run == run_commit || scenario->run == run_prepared)
		stage(now.staging, "drop", rows);
	if (scenario->run == run_written)
		stage(now.staging, "drop", "");
}

void scenario_end(void)
{
	tdl_staged_free(now.file);
	tdl_staging_free(now.staging);
	tdl_table_free(now.table);
	tdl_schema_free(now.schema);
	if (now.rows >= 0)
		close(now.rows);
	now.file = NULL;
	now.staging = NULL;
	now.table = NULL;
	now.schema = NULL;
	now.rows = -1;
}

void scenario_stage(void)
{
	tdl_staging *staging = now.staging;

	now.staging = NULL;
	scenario_end();
	if (staging) {
		close(staging->dir);
		close(staging->lock);
		close(staging->incoming);
		free(staging->name);
		free(staging);
	}
}

const tdl_error *scenario_error(void)
{
	return &now.error;
}

/* ---- Afterwards ---------------------------------------------------------------------------- */

static void expect_rows(tdl_table *table, int64_t version, const char *rows, const char *what)
{
	tdl_error error;
	char *bytes;

	if (try_read(table, version, &bytes, NULL, &error) < 0)
		fail(what, "version %" PRId64 " cannot be read: %s", version, error.message);
	if (strcmp(bytes, rows) != 0)
		fail(what, "version %" PRId64 " is\n%snot\n%s", version, bytes, rows);
	free(bytes);
}

/* What the library said must be an error of the system, and fit what is to be seen. */
static void check_answer(const struct scenario *scenario, int result, int64_t head,
			 const char *what)
{
	bool made = scenario->makes >= 0 && head == scenario->makes;

	if (result == 0)
		return;
	if (result != now.error.code || now.error.message[0] == '\0')
		fail(what, "answer %d, but error %d: %s", result, now.error.code,
		     now.error.message);
	/* A commit that cannot be read is damage; that it was so but once nobody can know. */
	if (result != TDL_ERR_CORRUPT && result != TDL_ERR_IO && result != TDL_ERR_NOMEM &&
	    result != TDL_ERR_PUBLISHED)
		fail(what, "answer %d: %s", result, now.error.message);
	if ((result == TDL_ERR_PUBLISHED) != made)
		fail(what, "answer %d (%s), and the commit is%s visible", result, now.error.message,
		     made ? "" : " not");
	if (made && now.error.version != head)
		fail(what, "version %" PRId64 " in the error, not %" PRId64, now.error.version,
		     head);
}

/* Whether the rows of both drops are in the dead folders once more, each once. */
static int found_one, found_two;

static void look_at(void *context, tdl_staged *file, const tdl_left *left)
{
	char bytes[64] = "";
	bool one = strcmp(left->name, "one") == 0;

	if (pread(tdl_staged_fd(file), bytes, sizeof bytes - 1, 0) < 0 ||
	    strcmp(bytes, one				   ? NEW_1
			  : strcmp(left->name, "two") == 0 ? NEW_2
							   : bytes) != 0)
		fail(context, "a staged file holds\n%s", bytes);
	found_one += one;
	found_two += strcmp(left->name, "two") == 0;
	tdl_staged_remove(file, NULL);
	tdl_staged_free(file);
}

static void check_staged(tdl_table *table, const char *what)
{
	tdl_staging *staging;
	unsigned busy;

	found_one = found_two = 0;
	if (tdl_staging_open(table, &staging, NULL) < 0 ||
	    tdl_staging_recover(staging, look_at, (void *)what, &busy, NULL) < 0)
		fail(what, "nothing can be adopted");
	if (busy != 0 || found_one != 1 || found_two != 1)
		fail(what, "%u busy, drops found %d and %d times", busy, found_one, found_two);
	tdl_staging_free(staging);
}

/* Vacuum names what is left over before it deletes it; then nothing is. */
static void clean(tdl_table *table, unsigned parts, const char *what)
{
	char *dry = vacuum(table, true), *found = vacuum(table, false), *names;

	if (strcmp(dry, found) != 0)
		fail(what, "vacuum said it would delete\n%sand deleted\n%s", dry, found);
	free(dry);
	free(found);
	check_staged(table, what);
	names = names_in("t");
	if (count_in("t") != parts + 2 || commits_in("t") != tdl_table_head(table) + 1 ||
	    count_in("t/_incoming") != 0)
		fail(what, "left over: %s%s", names, names_in("t/_incoming"));
	free(names);
}

static void check_created(enum ending ending, int result, const char *what)
{
	tdl_error error;
	tdl_table *table;
	int r = tdl_table_open(in_scratch("new/t"), 0, &table, &error);

	if (ending == ENDED)
		check_answer(&scenarios[0], result, r == 0 ? 0 : -1, what);
	if (r == TDL_ERR_NOT_FOUND) {
		if (ending == ENDED && (result == 0 || is_there("new/t")))
			fail(what, "answer %d, and half a table", result);
		return;
	}
	if (r < 0)
		fail(what, "the table cannot be opened: %s", error.message);
	expect_rows(table, 0, "", what);
	age_all("new/t");
	free(vacuum(table, false));
	if (commits_in("new/t") != 1)
		fail(what, "a temporary commit is left");
	append_rows(table, AGAIN);
	tdl_table_free(table);
}

void scenario_check(const struct scenario *scenario, enum ending ending, int result,
		    const char *what)
{
	unsigned parts = PARTS;
	tdl_error error;
	tdl_table *table;
	int64_t head;
	char *all;

	if (now.read && strcmp(now.read, versions[HEAD]) != 0)
		fail(what, "read\n%s", now.read);
	free(now.read);
	now.read = NULL;
	if (scenario->run == run_create) {
		check_created(ending, result, what);
		return;
	}
	if (tdl_table_open(in_scratch("t"), 0, &table, &error) < 0 ||
	    tdl_table_damage(table, &error) < 0)
		fail(what, "the table is damaged: %s", error.message);
	head = tdl_table_head(table);
	if (head != HEAD && head != scenario->makes)
		fail(what, "the table is at version %" PRId64, head);
	if (ending == ENDED && result == 0 && scenario->makes >= 0 && head != scenario->makes)
		fail(what, "success, and nothing is committed");
	if (ending == ENDED)
		check_answer(scenario, result, head, what);
	for (int64_t version = 0; version <= HEAD; version++)
		expect_rows(table, version, versions[version], what);
	if (head > HEAD) {
		expect_rows(table, head, scenario->rows, what);
		parts += scenario->run != run_restore;
	}
	/* Afresh: cleaning sets the dates of files that this one has open. */
	tdl_table_free(table);
	age_all("t");
	table = open_table("t");
	clean(table, parts, what);
	/* And it goes on. */
	if (asprintf(&all, "%s%s", head > HEAD ? scenario->rows : versions[HEAD], AGAIN) < 0)
		abort();
	if (append_rows(table, AGAIN) != head + 1)
		fail(what, "the next commit is not the next version");
	expect_rows(table, head + 1, all, what);
	for (int64_t version = 0; version <= HEAD; version++)
		expect_rows(table, version, versions[version], what);
	free(all);
	tdl_table_free(table);
}
