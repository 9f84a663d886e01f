/* SPDX-License-Identifier: MIT */
#ifndef DIFFERENCE_H
#define DIFFERENCE_H

#include "command.h"

/* The data files that one of two versions has and the other has not: their rows are all that can
 * differ. Zero it before; free it with difference_clear(). */
struct difference {
	tdl_snapshot *side[2]; /* borrowed */
	uint64_t *files[2];    /* their indexes in that version, ascending */
	size_t count[2];
	uint64_t records[2]; /* rows in them, as the log says it */
	uint64_t bytes[2];
};

/* From the lists alone; no row is read. Returns 0 or a code with *error filled in. */
int difference_find(struct difference *difference, tdl_snapshot *a, tdl_snapshot *b,
		    tdl_error *error);
void difference_clear(struct difference *difference);

/*
 * Calls row(context, bytes, n) for each row of those files of one side, in their order and without
 * newlines; blank lines are no rows. It returns false, with the failure reported, to end it.
 * done(bytes), where it is not NULL, is called now and then. Returns false with the failure
 * reported.
 */
bool difference_rows(const struct difference *difference, unsigned side,
		     bool (*row)(void *context, const char *bytes, size_t n), void *context,
		     void (*done)(uint64_t bytes));

#endif
