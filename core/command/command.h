/* SPDX-License-Identifier: MIT */
#ifndef COMMAND_H
#define COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "tinydelta.h"
#include "util/util.h"

/* Exit statuses: 0 done, 1 refused or failed, 2 wrong use. */
enum {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2
};

/*
 * A subcommand. Its usage line and its help are made of this and of the options that it gives to
 * arguments_parse(), so that they cannot differ from what it takes.
 */
struct command {
	const char *name;
	const char *operands; /* "TABLE NAME:TYPE..." */
	unsigned min_operands, max_operands;
	const char *summary; /* one sentence */
	const char *example; /* a line to type */
	bool table_here;     /* TABLE may be left out: the one that the working directory is in */
	/* argv holds what follows the name. Returns the exit status. */
	int (*run)(const struct command *command, char **argv);
};

extern const struct command command_create, command_append, command_overwrite, command_read,
	command_describe, command_history, command_diff, command_restore, command_vacuum,
	command_check, command_recover, command_changes, command_status, command_tag, command_tags;

/* Failures are reported once, as one line "error: ..." on stderr; each returns STATUS_FAILED. */
int report(const char *format, ...) __attribute__((format(printf, 1, 2)));
int report_error(const tdl_error *error);
/* The same for a command that commits: one that did, but perhaps not durably, is not to be done
 * again. */
int report_commit_error(const struct command *command, const tdl_error *error);

/*
 * A version given on the command line, digits as arguments_parse() lets through. Returns false,
 * with the failure reported, for a number that no version can have.
 */
bool parse_version(const char *table, const char *text, int64_t *version);
/* The same for the value of --older-than, an age as arguments_parse() lets through: gives
 * milliseconds. */
bool parse_age(const char *text, int64_t *age);
/* Reports that the table at `path` has no version of this name; returns false. */
bool report_no_version(const char *path, const char *text);

/* The version that a text names, in any form there is. Returns STATUS_DONE, or the exit status with
 * the failure reported. */
int find_version(tdl_table *table, const char *text, int64_t *version);
#define VERSION_FORMS "7, v7, latest, @TIME, NAME of a tag; ~K behind it: K versions before"

/* For `tdl_table *table CLEANUP(free_table) = NULL`. */
static inline void free_table(tdl_table **table)
{
	tdl_table_free(*table);
}

static inline void unref_snapshot(tdl_snapshot **snapshot)
{
	tdl_snapshot_unref(*snapshot);
}

#endif
