/* SPDX-License-Identifier: MIT */
#ifndef TEST_SCENARIO_H
#define TEST_SCENARIO_H

#include <stdbool.h>

#include "tinydelta.h"

/*
 * The operations that are interrupted, starved and stopped, each on a table of its own that begins
 * the same every time; and the one question asked afterwards, whatever happened: is the table
 * whole, is it at the version it should be at, and can it go on?
 */

struct scenario {
	const char *name;
	/* Does it, on what scenario_begin() has set up; returns what the library said. */
	int (*run)(const struct scenario *scenario);
	/* The version that it makes, -1 for none, and the bytes of it. */
	int64_t makes;
	const char *rows;
};

extern const struct scenario scenarios[];

/* A test for each: X(name of the test, its place in scenarios). */
#define EACH_SCENARIO(X)         \
	X(create, 0)             \
	X(append, 1)             \
	X(overwrite, 2)          \
	X(restore, 3)            \
	X(vacuum, 4)             \
	X(commit_as_it_is, 5)    \
	X(commit_rewritten, 6)   \
	X(recover, 7)            \
	X(open_and_read, 8)      \
	X(written_as_it_is, 9)   \
	X(written_raw, 10)       \
	X(prepared_as_it_is, 11) \
	X(prepared_raw, 12)

/* Makes the starting state, once a process. */
void scenario_make_template(void);
/* Sets it up anew: the table "t", opened, and what the scenario needs. */
void scenario_begin(const struct scenario *scenario);
/* Closes all that is open. */
void scenario_end(void);
/* The same without tidying up, as when a process dies. */
void scenario_stage(void);
/* The last error that run() was given. */
const tdl_error *scenario_error(void);

/* How a scenario ended. */
enum ending {
	ENDED,	 /* it returned `result` */
	STOPPED, /* its process did not live to see it */
};

/*
 * Looks at what is left, with everything closed and no faults: every version that was there, and
 * the one that was made where it was (or, after a stop, may have been). Then cleans up with vacuum,
 * commits once more and looks again. Ends the test where anything is not as it should be; `what`
 * says in its message what had happened.
 */
void scenario_check(const struct scenario *scenario, enum ending ending, int result,
		    const char *what);

#endif
