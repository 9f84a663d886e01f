/* SPDX-License-Identifier: MIT */
/*
 * Where messages go, and what is kept out of them. Knows nothing of libfuse or of the tree. Its
 * state is the process's, as stderr and syslog are.
 */
#include "msg.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM	   "tinydeltafs"
#define LINE_MAX_  2048
#define QUIET_SECS 60

/* The failures told last, by hash. A full table forgets the oldest, which may then be told again:
 * too much is better than too little. */
#define FAULTS 64

struct fault {
	uint64_t hash; /* 0: free */
	time_t told;
	unsigned long again;
};

static struct {
	pthread_mutex_t lock; /* of all below */
	bool debug;
	bool detached;
	int log; /* a descriptor, or -1 */
	struct fault faults[FAULTS];
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .log = -1 };

void tdfs_msg_start(bool debug)
{
	pthread_mutex_lock(&state.lock);
	state.debug = debug;
	pthread_mutex_unlock(&state.lock);
}

int tdfs_msg_log(const char *path)
{
	/* It must not wait for somebody who reads a FIFO. */
	int fd =
		open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0640);
	struct stat st;

	if (fd < 0)
		return errno;
	if (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))) {
		close(fd);
		return EINVAL;
	}
	pthread_mutex_lock(&state.lock);
	state.log = fd;
	pthread_mutex_unlock(&state.lock);
	return 0;
}

void tdfs_msg_detach(void)
{
	pthread_mutex_lock(&state.lock);
	if (state.log < 0)
		openlog(PROGRAM, LOG_PID, LOG_DAEMON);
	state.detached = true;
	pthread_mutex_unlock(&state.lock);
}

/* The length of the well-formed UTF-8 character at `s`, 0 where there is none. */
static size_t character(const unsigned char *s)
{
	size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (length == 0 || s[0] > 0xf4)
		return 0;
	/* A NUL is no continuation byte, so this stops at the end of the text. */
	for (size_t i = 1; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return length;
}

/* C0 and C1 controls, U+2028 and U+2029, and the marks that turn the direction of text. */
static bool harmless(const unsigned char *s, size_t length)
{
	if (length == 1)
		return s[0] >= 0x20 && s[0] != 0x7f;
	if (length == 2)
		return s[0] != 0xc2 || s[1] >= 0xa0;
	if (length == 3 && s[0] == 0xe2 && s[1] == 0x80)
		return s[2] < 0xa8 || s[2] > 0xae;
	if (length == 3 && s[0] == 0xe2 && s[1] == 0x81)
		return s[2] < 0xa6 || s[2] > 0xa9;
	return true;
}

static void escape(char *out, size_t size, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t used = 0;

	while (*s != '\0') {
		size_t length = character(s);

		if (length > 0 && harmless(s, length)) {
			if (used + length >= size)
				break;
			memcpy(out + used, s, length);
			used += length;
			s += length;
			continue;
		}
		/* One byte at a time; what follows an escaped byte is judged anew. */
		if (used + 4 >= size)
			break;
		snprintf(out + used, size - used, "\\x%02x", (unsigned)*s++);
		used += 4;
	}
	out[used] = '\0';
}

/* One write a line, so that daemons can share a file. */
static void put_to(int fd, const char *head, const char *clean)
{
	char line[LINE_MAX_ + 128];
	int length = snprintf(line, sizeof line, "%s: %s\n", head, clean);
	ssize_t written = write(fd, line, (size_t)length);

	(void)written; /* nobody is left to be told */
}

static void put_to_log(const char *clean)
{
	char when[40] = "", head[120];
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (localtime_r(&now.tv_sec, &tm) != NULL)
		strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(head, sizeof head, "%s.%03ld " PROGRAM "[%ld]", when, now.tv_nsec / 1000000,
		 (long)getpid());
	put_to(state.log, head, clean);
}

/* Called with the lock held: lines come out whole, one after the other. */
static void put(int priority, const char *text)
{
	char clean[LINE_MAX_];

	escape(clean, sizeof clean, text);
	if (state.log >= 0)
		put_to_log(clean);
	else if (state.detached)
		syslog(priority, "%s", clean);
	if (!state.detached)
		put_to(STDERR_FILENO, PROGRAM, clean);
}

void tdfs_msg(int priority, const char *format, ...)
{
	char text[LINE_MAX_];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	pthread_mutex_lock(&state.lock);
	if (priority != LOG_DEBUG || state.debug)
		put(priority, text);
	pthread_mutex_unlock(&state.lock);
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037u;

	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	return hash == 0 ? 1 : hash;
}

void tdfs_msg_fault(const char *table, const char *where, const tdl_error *error)
{
	char text[LINE_MAX_ - 64];
	char counted[LINE_MAX_];
	struct fault *fault = NULL, *oldest = &state.faults[0];
	struct timespec now;
	uint64_t hash;

	snprintf(text, sizeof text, "%s: %s%s%s", table, where == NULL ? "" : where,
		 where == NULL ? "" : ": ", error->message);
	hash = hash_of(text);
	clock_gettime(CLOCK_MONOTONIC, &now);

	pthread_mutex_lock(&state.lock);
	for (size_t i = 0; i < FAULTS && fault == NULL; i++) {
		if (state.faults[i].hash == hash)
			fault = &state.faults[i];
		else if (state.faults[i].hash == 0 || state.faults[i].told < oldest->told)
			oldest = &state.faults[i];
	}
	if (fault != NULL && now.tv_sec - fault->told < QUIET_SECS) {
		fault->again++;
	} else if (fault != NULL && fault->again > 0) {
		snprintf(counted, sizeof counted, "%s (%lu times more)", text, fault->again);
		put(LOG_ERR, counted);
		*fault = (struct fault){ .hash = hash, .told = now.tv_sec };
	} else {
		put(LOG_ERR, text);
		fault = fault == NULL ? oldest : fault;
		*fault = (struct fault){ .hash = hash, .told = now.tv_sec };
	}
	pthread_mutex_unlock(&state.lock);
}
