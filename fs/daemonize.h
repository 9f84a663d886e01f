/* SPDX-License-Identifier: MIT */
#ifndef TDFS_BACKGROUND_H
#define TDFS_BACKGROUND_H

#include <stdbool.h>

/*
 * Becoming a daemon. The fork comes before everything that a fork would break (threads, locks, the
 * session); the parent stays until the child serves, and ends with its status otherwise.
 */

/* Returns true in the child, with the end of a pipe in *ready; false in the parent, with what it
 * is to exit with in *status. */
bool tdfs_background_fork(int *ready, int *status);

/* Closes what was inherited: a daemon keeps nobody's lock, pipe or file open. All from 3 on goes
 * but those two, each -1 where there is none. */
void tdfs_background_close_others(int keep, int keep_too);

/* The child serves: leaves the terminal and lets the parent end. Messages go to syslog from here.
 * False where the parent is gone, since whoever waited has given up. */
bool tdfs_background_detach(int ready);

#endif
