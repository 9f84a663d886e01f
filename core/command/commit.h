/* SPDX-License-Identifier: MIT */
#ifndef COMMIT_H
#define COMMIT_H

#include "command.h"

/* append and overwrite: `done` is what is said of it, "appended". Returns the exit status. */
int commit_rows(const struct command *command, char **argv, enum tdl_operation operation,
		const char *done);

/* What the options say that every command that commits has. */
struct commit_words {
	const char *message, *read_version;
	bool json;
	char user[24]; /* room for a number */
};

#define COMMIT_OPTIONS(words)                                                          \
	{ .name = "message",                                                           \
	  .letter = 'm',                                                               \
	  .value = "TEXT",                                                             \
	  .help = "why, for the history",                                              \
	  .text = &(words)->message },                                                 \
	{                                                                              \
		.name = "json", .help = "as JSON, for programs: version, rows, bytes", \
		.set = &(words)->json                                                  \
	}
#define READ_VERSION_OPTION(words)                                                      \
	{                                                                               \
		.name = "read-version", .value = "N", .offers = OFFER_NUMBERS,          \
		.help = "refuse unless N is still the newest version", .integer = true, \
		.text = &(words)->read_version                                          \
	}

/* Fills in what every commit has: who makes it, why, and --read-version. Returns false with the
 * failure reported. */
bool commit_options(const char *table, struct commit_words *words, tdl_commit_options *options);

/*
 * Says what was committed as `version`, on stderr where standard output cannot be written or a
 * signal came: to a program `committed` and no more, as JSON where that is wanted, and on a
 * terminal also how many rows and bytes came or went. `table` may be NULL: it is a new one. Returns
 * the exit status.
 */
int commit_done(const struct commit_words *words, const char *committed, tdl_table *table,
		int64_t version);

#endif
