/* SPDX-License-Identifier: MIT */
/*
 * The fork, the pipe between the two processes, and leaving the terminal. Knows nothing of what
 * the daemon serves.
 */
#include "daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "msg.h"

/* Waits for the child's byte, or for its end. */
static int wait_for_child(pid_t child, int pipe_end)
{
	char byte;
	ssize_t got;
	int status;

	do
		got = read(pipe_end, &byte, 1);
	while (got < 0 && errno == EINTR);
	close(pipe_end);
	if (got == 1)
		return 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFEXITED(status)) /* and it has said why */
		return WEXITSTATUS(status) == 0 ? EXIT_FAILURE : WEXITSTATUS(status);
	tdfs_msg(LOG_ERR, "ended by signal %d before it served", WTERMSIG(status));
	return EXIT_FAILURE;
}

bool tdfs_background_fork(int *ready, int *status)
{
	int ends[2];
	pid_t child;

	*status = EXIT_FAILURE;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		tdfs_msg(LOG_ERR, "pipe: %s", strerror(errno));
		return false;
	}
	child = fork();
	if (child == 0) {
		close(ends[0]);
		*ready = ends[1];
		return true;
	}
	close(ends[1]);
	if (child < 0) {
		tdfs_msg(LOG_ERR, "fork: %s", strerror(errno));
		close(ends[0]);
		return false;
	}
	*status = wait_for_child(child, ends[0]);
	return false;
}

/* From `first` to `last`, or to the end of all (-1). */
static void close_between(int first, int last)
{
	if (last < 0 || first <= last)
		close_range((unsigned)first, last < 0 ? ~0U : (unsigned)last, 0);
}

void tdfs_background_close_others(int keep, int keep_too)
{
	int low = keep < keep_too ? keep : keep_too, high = keep < keep_too ? keep_too : keep;
	int first = STDERR_FILENO + 1;

	if (low >= first) {
		close_between(first, low - 1);
		first = low + 1;
	}
	if (high >= first) {
		close_between(first, high - 1);
		first = high + 1;
	}
	close_between(first, -1);
}

bool tdfs_background_detach(int ready)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool heard;

	tdfs_msg_detach();
	if (chdir("/") < 0)
		tdfs_msg(LOG_WARNING, "/: %s", strerror(errno));
	setsid();
	/* Whoever reads what we print must see its end, as in out=$(tinydeltafs ...). */
	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
	heard = write(ready, "", 1) == 1;
	close(ready);
	return heard;
}
