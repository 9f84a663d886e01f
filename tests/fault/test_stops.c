/* SPDX-License-Identifier: MIT */
/*
 * A process that ends at any system call, by itself or killed, leaves the old version or the new
 * one; and who looks at any moment sees just one of them.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"
#include "scenario.h"
#include "scratch.h"
#include "tables.h"

static void begin(void)
{
	scratch_begin();
	scenario_make_template();
}

TestSuite(stops, .init = begin, .fini = scratch_end);

static unsigned count_calls(const struct scenario *scenario)
{
	unsigned calls;

	scenario_begin(scenario);
	faults_count();
	cr_assert_eq(scenario->run(scenario), 0, "%s", scenario_error()->message);
	calls = faults_off();
	scenario_end();
	scenario_check(scenario, ENDED, 0, scenario->name);
	return calls;
}

static void stop(void *killed)
{
	if (killed)
		kill(getpid(), SIGKILL);
	_exit(77);
}

static void stop_everywhere(const struct scenario *scenario)
{
	unsigned calls = count_calls(scenario);

	for (unsigned nth = 1; nth <= calls; nth++) {
		char what[200];
		int status;
		pid_t pid;

		/* One or the other each time: they differ in what the kernel does, not in where. */
		snprintf(what, sizeof what, "%s, %s before call %u", scenario->name,
			 nth % 2 == 0 ? "killed" : "ended", nth);
		scenario_begin(scenario);
		pid = fork();
		cr_assert_geq(pid, 0);
		if (pid == 0) {
			faults_do(nth, stop, nth % 2 == 0 ? what : NULL);
			scenario->run(scenario);
			_exit(1);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert((WIFEXITED(status) && WEXITSTATUS(status) == 77) ||
				  (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
			  "%s: %x", what, (unsigned)status);
		/* Its locks are ours too. */
		scenario_stage();
		scenario_check(scenario, STOPPED, 0, what);
	}
}

#define STOP_ANYWHERE(name, place)                  \
	Test(stops, name, .timeout = 60)            \
	{                                           \
		stop_everywhere(&scenarios[place]); \
	}
EACH_SCENARIO(STOP_ANYWHERE)

/* ---- Onlookers ----------------------------------------------------------------------------- */

/* What another process sees of the table at this moment: the head, and its bytes. */
struct view {
	int code;
	int64_t head;
	char rows[400];
};

static int questions, answers;

/* Looks when asked, through a table that it keeps open and through one that it opens afresh. */
static void watch(int ask, int answer)
{
	tdl_table *kept = open_table("t");
	char c;

	while (read(ask, &c, 1) == 1) {
		struct view sights[2];

		memset(sights, 0, sizeof sights);
		for (int i = 0; i < 2; i++) {
			tdl_table *table = kept;
			tdl_error error;
			char *bytes;

			if (i == 1)
				table = open_table("t");
			sights[i].code = try_read(table, TDL_LATEST, &bytes, NULL, &error);
			sights[i].head = tdl_table_head(table);
			if (sights[i].code == 0) {
				snprintf(sights[i].rows, sizeof sights[i].rows, "%s", bytes);
				free(bytes);
			}
			if (i == 1)
				tdl_table_free(table);
		}
		if (write(answer, sights, sizeof sights) != sizeof sights)
			_exit(1);
	}
	_exit(0);
}

static int64_t seen;

static void ask(void *context)
{
	const struct scenario *scenario = context;
	struct view sights[2];

	cr_assert_eq(write(questions, "?", 1), 1);
	cr_assert_eq(read(answers, sights, sizeof sights), (ssize_t)sizeof sights);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(sights[i].code, 0, "%s: an onlooker is told %d", scenario->name,
			     sights[i].code);
		cr_assert(sights[i].head == 4 || sights[i].head == scenario->makes);
		cr_assert_eq(sights[i].head, sights[0].head, "all see the same");
		cr_assert_geq(sights[i].head, seen, "what was seen stays");
		if (sights[i].head == scenario->makes)
			cr_assert_str_eq(sights[i].rows, scenario->rows);
		seen = sights[i].head;
	}
}

static void watch_all(const struct scenario *scenario)
{
	int to[2], from[2], status;
	pid_t pid;

	scenario_begin(scenario);
	cr_assert(pipe(to) == 0 && pipe(from) == 0);
	pid = fork();
	if (pid == 0) {
		close(to[1]);
		close(from[0]);
		watch(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	questions = to[1];
	answers = from[0];
	seen = 0;
	faults_do(0, ask, (void *)scenario);
	cr_assert_eq(scenario->run(scenario), 0);
	faults_off();
	ask((void *)scenario);
	if (scenario->makes >= 0)
		cr_assert_eq(seen, scenario->makes);
	close(questions);
	close(answers);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	scenario_end();
	scenario_check(scenario, ENDED, 0, scenario->name);
}

Test(stops, onlookers_see_one_version_or_the_other, .timeout = 60)
{
	for (unsigned i = 1; i <= 10; i++) {
		if (i != 8)
			watch_all(&scenarios[i]);
	}
}
