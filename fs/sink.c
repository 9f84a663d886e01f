/* SPDX-License-Identifier: MIT */
/*
 * The places that messages go to, each of which can make its writer wait: a terminal, a pipe that
 * nobody reads, a syslog daemon that hangs, a disk. Knows nothing of who has something to say.
 */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#define PROGRAM	 "tinydeltafs"
#define ROUND_MS 50 /* how often one that waits looks whether it should go on waiting */

/* ---- The log file ------------------------------------------------------------------------- */

/* The descriptor, or a negative errno. */
static int open_log(const char *path, int flags)
{
	/* It must not wait for somebody who reads a FIFO. */
	int fd = open(path,
		      O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags,
		      0640);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

/* The daemon leaves the directory it was started in. */
static char *absolute(const char *path)
{
	char *here, *whole = NULL;

	if (path[0] == '/')
		return strdup(path);
	here = getcwd(NULL, 0);
	if (here && asprintf(&whole, "%s/%s", here, path) < 0)
		whole = NULL;
	free(here);
	return whole;
}

int tdfs_sink_open_log(struct tdfs_sink *sink, const char *path)
{
	int fd = open_log(path, 0);
	struct stat st;

	if (fd < 0)
		return -fd;
	sink->log = fd;
	sink->log_path = absolute(path);
	sink->log_is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
	return 0;
}

static bool is_elsewhere(const struct tdfs_sink *sink)
{
	struct stat ours, there;

	if (stat(sink->log_path, &there) < 0)
		return errno == ENOENT;
	return fstat(sink->log, &ours) == 0 &&
	       (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino);
}

void tdfs_sink_follow(struct tdfs_sink *sink)
{
	bool asked = atomic_exchange(&sink->reopen, false);
	int fd;

	if (sink->log < 0 || !sink->log_path || (!asked && !is_elsewhere(sink)))
		return;
	/* A link that appears later could lead a privileged daemon anywhere. */
	fd = open_log(sink->log_path, sink->log_is_link ? 0 : O_NOFOLLOW);
	if (fd < 0)
		return; /* better the old file than none */
	close(sink->log);
	sink->log = fd;
	sink->torn = false;
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* One write a line, so that daemons can share a file. *rest: what of it is not written. */
static bool put_to(int fd, const char *line, size_t length, size_t *rest)
{
	ssize_t written;

	do
		written = write(fd, line, length);
	while (written < 0 && errno == EINTR);
	*rest = length - (written > 0 ? (size_t)written : 0);
	return *rest == 0;
}

static bool put_to_log(struct tdfs_sink *sink, const struct timespec *when, const char *text)
{
	char time[40] = "", *line = NULL;
	struct tm tm;
	size_t rest;
	int length;
	bool put;

	if (localtime_r(&when->tv_sec, &tm))
		strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &tm);
	length = asprintf(&line, "%s%s.%03ld " PROGRAM "[%ld]: %s\n", sink->torn ? "\n" : "", time,
			  when->tv_nsec / 1000000, (long)getpid(), text);
	if (length < 0)
		return false;
	put = put_to(sink->log, line, (size_t)length, &rest);
	if (rest < (size_t)length)
		sink->torn = !put;
	free(line);
	return put;
}

/* Waits until stderr takes a line, for as long as it is where lines go to. */
static bool stderr_is_free(const struct tdfs_sink *sink)
{
	struct pollfd on = { .fd = STDERR_FILENO, .events = POLLOUT };
	/* Those who read the log need not wait for those who do not read this. */
	int limit = sink->log < 0 ? ROUND_MS : 0, found;

	do
		found = poll(&on, 1, limit);
	while ((found == 0 && limit > 0 && !atomic_load(&sink->detached) &&
		!atomic_load(&sink->hurry)) ||
	       (found < 0 && errno == EINTR));
	return found > 0;
}

static bool put_to_stderr(const struct tdfs_sink *sink, const char *text)
{
	char *line = NULL;
	size_t rest;
	int length;
	bool put;

	if (!stderr_is_free(sink))
		return false;
	length = asprintf(&line, PROGRAM ": %s\n", text);
	if (length < 0)
		return false;
	put = put_to(STDERR_FILENO, line, (size_t)length, &rest);
	free(line);
	return put;
}

bool tdfs_sink_put(struct tdfs_sink *sink, int priority, const struct timespec *when,
		   const char *text)
{
	bool put = true;

	if (sink->log >= 0)
		put = put_to_log(sink, when, text);
	if (!atomic_load(&sink->detached)) {
		bool shown = put_to_stderr(sink, text);

		if (sink->log < 0)
			put = shown;
	}
	/* Also what stderr was not free for until there was none any more. */
	if (sink->log < 0 && atomic_load(&sink->detached)) {
		syslog(priority, "%s", text);
		put = true;
	}
	return put;
}
