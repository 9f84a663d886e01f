/* SPDX-License-Identifier: MIT */
#ifndef TEST_CRASH_H
#define TEST_CRASH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What a loss of power may leave of a directory. While it records, every change that the library
 * makes beneath the directory "live" is noted, with the syncs in between and what was acknowledged
 * when. Afterwards the states that a crash at each moment may leave are made, by what POSIX
 * promises and no more: a file's bytes are there once the file was synced, a name once its
 * directory was; what was not synced may be there or not, each by itself, bytes also cut short or
 * as zeros.
 */

void crash_record(void);
/* Notes an acknowledgement, which states from here on are told of. */
void crash_acknowledge(int64_t acknowledged);
void crash_stop_recording(void);

unsigned crash_syncs(void);
/* Says which sync that was: "file NAME" or "directory NAME". */
const char *crash_sync_name(unsigned sync);

/*
 * Makes the states in the directory "crash", each once, and calls check() for it with the last
 * acknowledgement before the crash, until it returns false. The sync number `without` (-1: none)
 * is taken as if it had not been. Returns how many states there were.
 */
unsigned crash_each_state(int without, bool (*check)(int64_t acknowledged));

/* The moment of the last state, for messages. */
const char *crash_moment(void);

void crash_free(void);

#endif
