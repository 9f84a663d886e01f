/* SPDX-License-Identifier: MIT */
#ifndef TDL_TIMES_H
#define TDL_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The times of versions, which grow strictly: that of version N is its timestamp, or one
 * millisecond after that of N-1 where a clock was set back and the timestamp is not later. Nearly
 * always it is the timestamp; only runs of versions of which it is not are kept, 24 bytes each.
 * Past INT64_MAX there is no later time, and it stays.
 *
 * Not locked: history does that.
 */
typedef struct tdl__times {
	struct tdl__late_run {
		uint64_t first; /* a version */
		uint64_t count; /* versions from there on, each 1 ms after the one before */
		int64_t time;	/* of the first */
	} * runs;		/* sorted */
	size_t count, cap;
} tdl__times;

/* Adds version `version`, the one after all that were added. False: no memory, nothing added. */
bool tdl__times_add(tdl__times *times, uint64_t version, int64_t before, int64_t timestamp);
/* Room for one more, so that the next tdl__times_add() cannot fail. False: no memory. */
bool tdl__times_reserve(tdl__times *times);
/* The time of a version with this timestamp. O(log runs). */
int64_t tdl__times_get(const tdl__times *times, uint64_t version, int64_t timestamp);
void tdl__times_clear(tdl__times *times);

#endif
