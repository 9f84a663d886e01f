/* SPDX-License-Identifier: MIT */
/*
 * Every system call of every operation fails once, in every way: what is left must be the old
 * version or the new one, and the answer must say which.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "faults.h"
#include "scenario.h"
#include "scratch.h"

static const struct {
	int answer;
	const char *name;
} answers[] = {
	{ EIO, "EIO" },
	{ ENOSPC, "ENOSPC" },
	{ EDQUOT, "EDQUOT" },
	{ EINTR, "EINTR" },
	{ EMFILE, "EMFILE" },
	{ EACCES, "EACCES" },
	{ TDL__SYS_SHORT, "a short count" },
};

static void begin(void)
{
	scratch_begin();
	scenario_make_template();
}

TestSuite(faults, .init = begin, .fini = scratch_end);

static unsigned count_calls(const struct scenario *scenario)
{
	unsigned calls;
	int r;

	scenario_begin(scenario);
	faults_count();
	r = scenario->run(scenario);
	calls = faults_off();
	cr_assert_eq(r, 0, "%s: %s", scenario->name, scenario_error()->message);
	scenario_end();
	scenario_check(scenario, ENDED, r, scenario->name);
	return calls;
}

static void fail_everywhere(const struct scenario *scenario)
{
	unsigned calls = count_calls(scenario), before = open_descriptors(), failed = 0;

	for (unsigned nth = 1; nth <= calls; nth++) {
		for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
			char what[300];
			int r;

			scenario_begin(scenario);
			faults_fail_nth(nth, answers[i].answer);
			r = scenario->run(scenario);
			faults_off();
			snprintf(what, sizeof what, "%s, %s at %s", scenario->name, answers[i].name,
				 faults_hit_what());
			cr_assert(faults_hit(), "%s: call %u was not made", what, nth);
			scenario_end();
			cr_assert_eq(open_descriptors(), before, "%s: descriptors leak", what);
			scenario_check(scenario, ENDED, r, what);
			failed += r < 0;
		}
	}
	/* Where most faults did no harm, they were not faults. */
	cr_assert_gt(failed, calls, "%s: %u of %u calls failed", scenario->name, failed, calls);
}

#define FAIL_ANYWHERE(name, place)                  \
	Test(faults, name, .timeout = 60)           \
	{                                           \
		fail_everywhere(&scenarios[place]); \
	}
EACH_SCENARIO(FAIL_ANYWHERE)
