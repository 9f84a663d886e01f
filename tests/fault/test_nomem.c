/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of every operation fails once: NOMEM or success, never a crash, a leak or half
 * a commit. malloc() and its kin are replaced for the whole process, the C library's own calls and
 * those of other libraries included; so no sanitizer goes with it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"
#include "scratch.h"

static struct {
	bool armed;
	unsigned calls, nth;
	bool failed;
	long live; /* blocks that were made and not freed */
} plan;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static bool refuse(void)
{
	if (!plan.armed || ++plan.calls != plan.nth)
		return false;
	plan.failed = true;
	errno = ENOMEM;
	return true;
}

static void *made(void *p)
{
	if (p)
		plan.live++;
	return p;
}

__attribute__((visibility("default"))) void *malloc(size_t n)
{
	return refuse() ? NULL : made(__libc_malloc(n));
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t n)
{
	return refuse() ? NULL : made(__libc_calloc(count, n));
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t n)
{
	if (refuse())
		return NULL;
	return !p ? made(__libc_malloc(n)) : __libc_realloc(p, n);
}

__attribute__((visibility("default"))) void *reallocarray(void *p, size_t count, size_t n)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, n, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

__attribute__((visibility("default"))) void free(void *p)
{
	if (p)
		plan.live--;
	__libc_free(p);
}

static void begin(void)
{
	scratch_begin();
	scenario_make_template();
}

TestSuite(nomem, .init = begin, .fini = scratch_end);

/* Runs it with the nth allocation failing. What lives after all was closed and looked at, and did
 * not before, leaked. */
static int run(const struct scenario *scenario, unsigned nth, const char *what)
{
	unsigned descriptors = open_descriptors();
	long before = plan.live;
	int r;

	scenario_begin(scenario);
	plan.calls = 0;
	plan.nth = nth;
	plan.failed = false;
	plan.armed = true;
	r = scenario->run(scenario);
	plan.armed = false;
	scenario_end();
	cr_assert_eq(open_descriptors(), descriptors, "%s: descriptors leak", what);
	scenario_check(scenario, ENDED, r, what);
	if (nth != 0)
		cr_assert_eq(plan.live, before, "%s: %ld blocks leak", what, plan.live - before);
	return r;
}

static void starve(const struct scenario *scenario)
{
	unsigned failed = 0;

	/* The first run makes what lives for ever, in the library and in others. */
	run(scenario, 0, scenario->name);
	for (unsigned nth = 1;; nth++) {
		char what[200];
		int r;

		snprintf(what, sizeof what, "%s, no memory at allocation %u", scenario->name, nth);
		r = run(scenario, nth, what);
		if (!plan.failed)
			break;
		failed += r < 0;
	}
	cr_assert_gt(failed, 2, "%s: %u", scenario->name, failed);
}

#define STARVE(name, place)                \
	Test(nomem, name, .timeout = 60)   \
	{                                  \
		starve(&scenarios[place]); \
	}
EACH_SCENARIO(STARVE)
