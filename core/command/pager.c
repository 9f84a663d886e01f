/* SPDX-License-Identifier: MIT */
/*
 * The pager: finding it, starting it, and waiting for its end. Knows nothing of what is shown.
 */
#include "pager.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "output.h"

static pid_t child; /* 0: none */

/* Whether a folder of $PATH has the program that a command line begins with. What has characters of
 * the shell's in it is left to the shell. */
static bool is_installed(const char *command)
{
	size_t n = strcspn(command, " \t");
	const char *path = getenv("PATH");
	char file[4096];

	if (strcspn(command, "\"'`$\\;|&<>(){}*?[]~#=") < n)
		return true;
	if (memchr(command, '/', n)) {
		snprintf(file, sizeof file, "%.*s", (int)n, command);
		return access(file, X_OK) == 0;
	}
	for (; path && *path != '\0'; path += strspn(path, ":")) {
		size_t length = strcspn(path, ":");

		snprintf(file, sizeof file, "%.*s/%.*s", (int)length, path, (int)n, command);
		if (access(file, X_OK) == 0)
			return true;
		path += length;
	}
	return false;
}

static const char *find_pager(void)
{
	const char *pager = getenv("PAGER"), *term = getenv("TERM");

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !term || strcmp(term, "dumb") == 0)
		return NULL;
	if (!pager)
		pager = "less";
	pager += strspn(pager, " \t");
	if (*pager == '\0' || strcmp(pager, "cat") == 0 || !is_installed(pager))
		return NULL;
	return pager;
}

void pager_begin(void)
{
	const char *pager = find_pager();
	int ends[2];

	if (!pager || pipe(ends) != 0)
		return;
	child = fork();
	if (child == 0) {
		/* One screen is shown and left there, colours are, long lines are cut by nobody. */
		setenv("LESS", "FRX", 0);
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl("/bin/sh", "sh", "-c", pager, (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	if (child > 0) {
		dup2(ends[1], STDOUT_FILENO);
		/* Whoever closes the pager has seen enough; and Ctrl-C is for it to act on. */
		signal(SIGPIPE, SIG_IGN);
		signal(SIGINT, SIG_IGN);
	} else {
		child = 0;
	}
	close(ends[1]);
}

int pager_end(int status)
{
	if (child == 0)
		return status;
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return status == STATUS_FAILED && output_broken() ? STATUS_DONE : status;
}
