/* SPDX-License-Identifier: MIT */
#ifndef TDFS_SINK_H
#define TDFS_SINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/*
 * Where lines go: to stderr in the foreground, to syslog behind, and to a file in both, if there is
 * one. For one thread at a time; only what is atomic may be set by others meanwhile.
 */
struct tdfs_sink {
	int log;	  /* a descriptor, or -1 */
	char *log_path;	  /* absolute */
	bool log_is_link; /* it was a symbolic link at the start, and may be one again */
	bool torn;	  /* the log's last line has no end */
	atomic_bool detached;
	atomic_bool hurry;  /* who cannot take a line at once gets none any more */
	atomic_bool reopen; /* the log, whatever is at its path */
};

/* Opens the log. Returns 0, or an errno (EINVAL: it is neither a regular file nor a device). */
int tdfs_sink_open_log(struct tdfs_sink *sink, const char *path);

/* Opens the log anew where its path names another file by now, or none. */
void tdfs_sink_follow(struct tdfs_sink *sink);

/* Puts out one line, and waits for as long as it takes. False: it is lost, as far as is known. */
bool tdfs_sink_put(struct tdfs_sink *sink, int priority, const struct timespec *when,
		   const char *text);

#endif
