/* SPDX-License-Identifier: MIT */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <stdbool.h>

/*
 * SIGINT, SIGTERM and SIGHUP in commands that commit, unless they are ignored from outside (as by
 * nohup). Until interrupt_hold() nothing is there to clean up: the handler says so and the process
 * ends at once. After it the work ends in order, at the latest just before the commit would be
 * published, and the command says what became of it. A second signal of the same kind always
 * kills.
 *
 * SIGPIPE is ignored: that nobody reads what is printed is not a reason not to say what is
 * committed.
 */
void interrupt_begin(void);

/*
 * From now on what is under way must be ended in order. Where `input` >= 0, a signal makes it a
 * duplicate of `instead` (a directory), so that a read of it ends, or never waits.
 */
void interrupt_hold(int input, int instead);

/* For tdl_commit_options.stop: holds, and tells whether a signal came. */
bool interrupt_stop(void *context);

/* Whether one came; its name, "SIGINT". */
bool interrupt_came(void);
const char *interrupt_name(void);

/* Ends the process by the signal that came, if one did, so that its parent sees why; else returns
 * `status`. */
int interrupt_exit(int status);

#endif
