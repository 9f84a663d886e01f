/* SPDX-License-Identifier: MIT */
#ifndef COMMIT_H
#define COMMIT_H

#include "command.h"

/* append and overwrite: `done` is what is said of it, "appended". Returns the exit status. */
int commit_rows(const struct command *command, char **argv, enum tdl_operation operation,
		const char *done);

/* Fills in what every commit has: who makes it, and --read-version where `read_version` is not
 * NULL. `user` is room for a number. Returns false with the failure reported. */
bool commit_options(const char *table, const char *read_version, char user[static 24],
		    tdl_commit_options *options);

/* Says what was committed, on stderr where standard output cannot be written or a signal came.
 * Returns the exit status. */
int commit_done(const char *committed);

#define READ_VERSION_HELP "refuse unless N is still the newest version"

#endif
