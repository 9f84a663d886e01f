/* SPDX-License-Identifier: MIT */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdint.h>

/*
 * One line on stderr that says how far a long piece of work is: only on a terminal, only in the
 * foreground, and only from one second on. `doing` is what is done, "appending";
 * `total` is in bytes, 0 where it is unknown.
 */
void progress_begin(const char *doing, uint64_t total);
/* All the bytes done so far; the shape of tdl_commit_options.progress. */
void progress_at(void *context, uint64_t bytes);
/* Bytes done since the last call. */
void progress_add(uint64_t bytes);
/* Clears the line. Call it before anything else is written to stderr. */
void progress_end(void);

#endif
