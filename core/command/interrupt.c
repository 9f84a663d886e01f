/* SPDX-License-Identifier: MIT */
/*
 * Signals that end a command which commits. Knows nothing of tables.
 */
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const struct {
	int number;
	const char *name;
	const char *said; /* before anything was begun */
} signals[] = {
	{ SIGINT, "SIGINT", "error: stopped by SIGINT: nothing was committed\n" },
	{ SIGTERM, "SIGTERM", "error: stopped by SIGTERM: nothing was committed\n" },
	{ SIGHUP, "SIGHUP", "error: stopped by SIGHUP: nothing was committed\n" },
};

#define SIGNALS (sizeof signals / sizeof signals[0])

static volatile sig_atomic_t came, holding;
static volatile sig_atomic_t held_input = -1, held_instead = -1;

static void end_by(int number)
{
	sigset_t set;

	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + number);
}

static void on_signal(int number)
{
	int saved = errno;

	if (!holding) {
		for (size_t i = 0; i < SIGNALS; i++)
			if (signals[i].number == number &&
			    write(STDERR_FILENO, signals[i].said, strlen(signals[i].said)) < 0)
				break;
		end_by(number);
	}
	came = number;
	if (held_input >= 0)
		dup2(held_instead, held_input);
	errno = saved;
}

void interrupt_begin(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND }, old;

	sigemptyset(&action.sa_mask);
	/* One at a time, so that the first one is the one that is told of. */
	for (size_t i = 0; i < SIGNALS; i++)
		sigaddset(&action.sa_mask, signals[i].number);
	for (size_t i = 0; i < SIGNALS; i++)
		if (sigaction(signals[i].number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i].number, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

void interrupt_hold(int input, int instead)
{
	held_instead = instead;
	held_input = input;
	holding = 1;
}

bool interrupt_stop(void *context)
{
	(void)context;
	holding = 1;
	return came != 0;
}

bool interrupt_came(void)
{
	return came != 0;
}

const char *interrupt_name(void)
{
	for (size_t i = 0; i < SIGNALS; i++)
		if (signals[i].number == came)
			return signals[i].name;
	return "a signal";
}

int interrupt_exit(int status)
{
	if (came != 0)
		end_by(came);
	return status;
}
