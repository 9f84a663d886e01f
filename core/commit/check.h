/* SPDX-License-Identifier: MIT */
#ifndef TDL_CHECK_H
#define TDL_CHECK_H

#include "table/table.h"

/* Where it is not 0, this is the time (ms) and not the clock's: for tests. */
extern int64_t tdl__check_now;

/* A check while it runs. */
struct tdl__check {
	tdl_table *table;
	const tdl_check_options *options;
	int64_t head; /* the last version that is looked at */
	void (*found)(void *context, const tdl_problem *problem);
	void *context;
	uint64_t bytes, total; /* of data files: done, and all */
	unsigned told;	       /* problems of data files */
	int64_t broken;	       /* the first version whose commit cannot be followed, or -1 */
	tdl_error *error;
};

/* Tells of a problem; the text is made safe to print. */
void tdl__check_problem(struct tdl__check *check, enum tdl_severity severity, int64_t version,
			const char *path, uint64_t line, const char *format, ...)
	__attribute__((format(printf, 6, 7)));

/* A message without the words at its beginning that say where, which a problem says in its own
 * way. */
const char *tdl__check_without(const char *message, const char *before);

/* Reads every data file that the versions up to the head (or just the one asked for) hold. Errors:
 * IO, NOMEM. */
int tdl__check_data(struct tdl__check *check);

#endif
