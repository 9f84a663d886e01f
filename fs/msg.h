/* SPDX-License-Identifier: MIT */
#ifndef TDFS_MSG_H
#define TDFS_MSG_H

#include <stdbool.h>
#include <sys/types.h>
#include <syslog.h>

#include "tinydelta.h"

/*
 * What the daemon has to say: one line a message, to stderr in the foreground and to syslog behind,
 * or to a file in both.
 * Control bytes, line breaks and bytes that are not UTF-8 are escaped, so that no file name can
 * forge a line. Priorities are syslog's; LOG_DEBUG is dropped unless asked for. Thread-safe.
 */
void tdfs_msg_start(bool debug);
/* From now on to this file as well, at its end, with the time before each line; where the path
 * names another file later, or none, that is made and gone on with. Returns 0, or an errno (EINVAL:
 * it is neither a regular file nor a device). */
int tdfs_msg_log(const char *path);
int tdfs_msg_log_fd(void); /* -1: there is none */

/*
 * In the process that serves, once: from now on a message is queued, and a thread of its own waits
 * for those who read it. Nobody who has something to say ever waits; what does not fit any more is
 * counted, and the count is told when there is room again. Returns 0 or an errno.
 */
int tdfs_msg_thread(void);
/* From now on no more to stderr; to syslog, unless there is a file. */
void tdfs_msg_detach(void);
/* Opens the log file anew. */
void tdfs_msg_reopen(void);
/* Before the process ends: waits for what is queued, but not for long. */
void tdfs_msg_end(void);

void tdfs_msg(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The same, because of something that a user did. Nobody but this process's own user has more than
 * a hundred of these a minute, nor more than a quarter of what can be queued: neither the disk
 * under the log nor the place of others' messages is his. How many were left out is said.
 */
void tdfs_msg_user(uid_t user, int priority, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A request failed: "TABLE: WHERE: REASON". The same text again within a minute is only counted,
 * so that a loop of reads on a damaged version does not flood the log. `where` is the path in the
 * mount, NULL for the table as a whole.
 */
void tdfs_msg_fault(const char *table, const char *where, const tdl_error *error);

#endif
