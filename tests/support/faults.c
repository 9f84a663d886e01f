/* SPDX-License-Identifier: MIT */
/*
 * A hook that counts the library's system calls and fails the one that a test chose.
 */
#include "faults.h"

#include <stdio.h>
#include <string.h>

static struct {
	unsigned calls, of_kind[TDL__OP_COUNT];
	unsigned nth;
	bool by_op;
	enum tdl__op op;
	unsigned from, times;
	int answer;
	bool has_other;
	enum tdl__op other;
	int other_answer;
	void (*action)(void *context);
	void *context;
	bool hit, inside;
	char what[128];
} plan;

const char *op_name(enum tdl__op op)
{
	static const char *const names[] = { "open",   "read",	"write", "fsync", "link", "rename",
					     "unlink", "mkdir", "stat",	 "list",  "lock", "attr" };

	return op < TDL__OP_COUNT ? names[op] : "?";
}

static int hook(enum tdl__op op, const char *name)
{
	bool mine;

	/* What an action does is not part of what is tested. */
	if (plan.inside)
		return 0;
	plan.calls++;
	plan.of_kind[op]++;
	if (plan.by_op)
		mine = op == plan.op && plan.of_kind[op] >= plan.from &&
		       plan.of_kind[op] - plan.from < plan.times;
	else
		mine = plan.calls == plan.nth || (plan.nth == 0 && plan.action);
	if (!mine && plan.has_other && op == plan.other)
		return plan.other_answer;
	if (!mine)
		return 0;
	if (!plan.hit)
		snprintf(plan.what, sizeof plan.what, "call %u: %s %.80s", plan.calls, op_name(op),
			 name);
	plan.hit = true;
	if (plan.action) {
		plan.inside = true;
		plan.action(plan.context);
		plan.inside = false;
		return 0;
	}
	return plan.answer;
}

static void start(void)
{
	memset(&plan, 0, sizeof plan);
	tdl__sys_hook = hook;
}

void faults_count(void)
{
	start();
	plan.nth = ~0u;
}

void faults_fail_nth(unsigned nth, int answer)
{
	start();
	plan.nth = nth;
	plan.answer = answer;
}

void faults_fail_op(enum tdl__op op, unsigned from, unsigned times, int answer)
{
	start();
	plan.by_op = true;
	plan.op = op;
	plan.from = from;
	plan.times = times;
	plan.answer = answer;
}

void faults_and_op(enum tdl__op op, int answer)
{
	plan.has_other = true;
	plan.other = op;
	plan.other_answer = answer;
}

void faults_do(unsigned nth, void (*action)(void *context), void *context)
{
	start();
	plan.nth = nth;
	plan.action = action;
	plan.context = context;
}

void faults_do_at(enum tdl__op op, unsigned nth, void (*action)(void *context), void *context)
{
	start();
	plan.by_op = true;
	plan.op = op;
	plan.from = nth;
	plan.times = 1;
	plan.action = action;
	plan.context = context;
}

unsigned faults_off(void)
{
	tdl__sys_hook = NULL;
	return plan.calls;
}

bool faults_hit(void)
{
	return plan.hit;
}

const char *faults_hit_what(void)
{
	return plan.what;
}
