/* SPDX-License-Identifier: MIT */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stddef.h>

/* Where tinydeltafs is. */
struct program {
	char path[4096];
	int fd; /* set by launch_pin(), else -1 */
};

/* Finds it. Returns 0, or -1 with one line in `why` (size bytes). */
int launch_find(struct program *program, char *why, size_t size);

/* Holds on to the program found, for a change of the mount namespace, in which its path may be
 * another file or none. Returns as launch_find() does. */
int launch_pin(struct program *program, char *why, size_t size);

/*
 * Runs it for `table` and `directory` with an option list ("": none) and waits until it serves.
 * Returns an exit status of mount(8): 0; 2 where it could not be run, with one line in `why`; 1
 * where it did not like an option, 32 where the mount failed. That the daemon has reported itself,
 * and `why` is "", unless a signal ended it.
 */
int launch_run(const struct program *program, const char *options, const char *table,
	       const char *directory, char *why, size_t size);

#endif
