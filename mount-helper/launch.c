/* SPDX-License-Identifier: MIT */
/*
 * Finding tinydeltafs and running it until it serves. No shell, no search along PATH.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "status.h"

/* For the daemon, which looks for fusermount3; mount(8) leaves its helpers no PATH. */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* How the daemon says that an option has a value that it cannot take. */
#define DAEMON_MISUSE 2

static int try_path(struct program *program, const char *folder, const char *rest)
{
	int n = snprintf(program->path, sizeof program->path, "%s%s", folder, rest);

	return n > 0 && (size_t)n < sizeof program->path ? access(program->path, X_OK) : -1;
}

/* "/a/b" becomes "/a", "/a" becomes "". */
static void cut_last(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
}

int launch_find(struct program *program, char *why, size_t size)
{
	char folder[2048], parent[2048];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder);

	program->fd = -1;
	folder[n > 0 && (size_t)n < sizeof folder ? n : 0] = '\0';
	cut_last(folder);
	strcpy(parent, folder);
	cut_last(parent);
	/* In a build directory, the one built with this helper; once installed there is no such
	 * folder. */
	if (*parent != '\0' && try_path(program, parent, "/fs/tinydeltafs") == 0)
		return 0;
	if (try_path(program, TDL_BINDIR, "/tinydeltafs") == 0)
		return 0;
	if (*folder != '\0' && try_path(program, folder, "/tinydeltafs") == 0)
		return 0;
	snprintf(why, size, "cannot find %s/tinydeltafs", TDL_BINDIR);
	return -1;
}

int launch_pin(struct program *program, char *why, size_t size)
{
	program->fd = open(program->path, O_PATH | O_CLOEXEC);
	if (program->fd >= 0)
		return 0;
	snprintf(why, size, "%s: %s", program->path, strerror(errno));
	return -1;
}

/* In the child. Returns only where the program cannot be run, with errno. */
static void become(const struct program *program, const char *options, const char *table,
		   const char *directory)
{
	const char *argv[7];
	size_t n = 0;

	argv[n++] = program->path;
	if (*options != '\0') {
		argv[n++] = "-o";
		argv[n++] = options;
	}
	argv[n++] = "--";
	argv[n++] = table;
	argv[n++] = directory;
	argv[n] = NULL;
	if (!getenv("PATH") && setenv("PATH", DEFAULT_PATH, 1) != 0)
		return;
	/* Run by its descriptor, ps would show that as its name: only where it has to be. */
	if (program->fd >= 0)
		fexecve(program->fd, (char **)argv, environ);
	else
		execv(program->path, (char **)argv);
}

/* Starts it. *failure gets the errno that kept the child from becoming the daemon, or 0. */
static pid_t start_program(const struct program *program, const char *options, const char *table,
			   const char *directory, int *failure)
{
	int ends[2];
	pid_t child;

	/* The pipe's end in the child closes when it has become the daemon. */
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		become(program, options, table, directory);
		*failure = errno;
		if (write(ends[1], failure, sizeof *failure) < 0)
			_exit(STATUS_MOUNT);
		_exit(STATUS_SYSTEM);
	}
	close(ends[1]);
	if (child < 0 || read(ends[0], failure, sizeof *failure) != sizeof *failure)
		*failure = 0;
	close(ends[0]);
	return child;
}

int launch_run(const struct program *program, const char *options, const char *table,
	       const char *directory, char *why, size_t size)
{
	int failure, status;
	pid_t child = start_program(program, options, table, directory, &failure);

	*why = '\0';
	if (child < 0) {
		snprintf(why, size, "cannot start a process: %s", strerror(errno));
		return STATUS_SYSTEM;
	}
	while (waitpid(child, &status, 0) < 0) {
		if (errno == EINTR)
			continue;
		snprintf(why, size, "cannot wait for a process: %s", strerror(errno));
		return STATUS_SYSTEM;
	}
	if (failure != 0) {
		snprintf(why, size, "cannot run %s: %s", program->path, strerror(failure));
		return STATUS_SYSTEM;
	}
	if (WIFSIGNALED(status)) {
		snprintf(why, size, "tinydeltafs was ended by signal %d", WTERMSIG(status));
		return STATUS_MOUNT;
	}
	switch (WEXITSTATUS(status)) {
	case 0:
		return STATUS_DONE;
	case DAEMON_MISUSE:
		return STATUS_USAGE;
	default:
		return STATUS_MOUNT;
	}
}
