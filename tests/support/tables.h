/* SPDX-License-Identifier: MIT */
#ifndef TEST_TABLES_H
#define TEST_TABLES_H

#include "tinydelta.h"

/*
 * Tables for tests, made and looked at through the public interface, or written by hand as other
 * programs do. All functions end the test where they cannot do what they say.
 */

#define COLUMNS_ID_NAME "id:int", "name:str"

/* A table in the scratch directory with the columns id:int and name:str. */
void make_table(const char *path);
tdl_table *open_table(const char *path);

/* For a suite about one such table: a scratch directory with it, opened; and the end of both, and
 * of all faults. */
tdl_table *begin_with_table(const char *path);
void end_with_table(tdl_table *table);

/* A descriptor that gives these bytes, to close(). */
int bytes_fd(const char *bytes, size_t n);

/* Commits rows; returns the version. */
int64_t append_rows(tdl_table *table, const char *rows);
int64_t overwrite_rows(tdl_table *table, const char *rows);
int64_t restore_version(tdl_table *table, int64_t target);
/* The same without ending the test: the code, and *version where it was a success. */
int try_write(tdl_table *table, enum tdl_operation operation, const char *rows, int64_t *version,
	      tdl_error *error);

/* All bytes of a version, a NUL behind them, to free(). */
char *read_version(tdl_table *table, int64_t version, size_t *n);
/* The same, or the code of what went wrong. */
int try_read(tdl_table *table, int64_t version, char **bytes, size_t *n, tdl_error *error);
/* Opens a table afresh and compares a version with a text. */
void expect_version(const char *path, int64_t version, const char *rows);

/* By hand: the lines of commit `version` (commitInfo is put before them), and a data file. */
void put_commit(const char *table, int64_t version, const char *lines);
void put_raw_commit(const char *table, int64_t version, const char *bytes, size_t n);
const char *commit_path(const char *table, int64_t version);
/* How many commits a log has, temporary ones included; what else is there does not count. */
unsigned commits_in(const char *table);
const char *add_line(const char *path, size_t size, unsigned records);
const char *remove_line(const char *path);
#define FOREIGN_META                                                      \
	"{\"metaData\":{\"id\":\"11111111-2222-4333-8444-555555555555\"," \
	"\"schema\":[{\"name\":\"id\",\"type\":\"int\"},{\"name\":\"name\",\"type\":\"str\"}]}}\n"

/* The golden data: the path of a table or of an expected file. */
const char *golden(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes all files of a table, its log and its staging folders look old: what a writer was about to
 * publish when it died is dated ahead, and spared by a vacuum until then. */
void age_all(const char *table);

/* All that vacuum finds, a path a line, to free(). */
char *vacuum(tdl_table *table, bool dry_run);

#endif
