/* SPDX-License-Identifier: MIT */
/*
 * The one writer of standard output: a buffer, the first error, and copies from file to output
 * that the kernel makes where it can. Knows nothing of tables.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

#define BUFFER	  (256 * 1024)
#define PIPE_SIZE (1024 * 1024)
/* Files up to this size are gathered in the buffer: they are not worth a call of their own. */
#define SMALL (64 * 1024)
/* The most for one call of the kernel, so that progress is seen and a signal is heeded. */
#define STEP ((uint64_t)16 * 1024 * 1024)

/*
 * How the kernel copies. Each way ends in the next when it fails, whatever the reason; only the
 * last, with a buffer, tells failures to read from failures to write.
 */
enum way {
	UNKNOWN,
	COPY_FILE_RANGE, /* to a file: may share blocks, may stay on the server */
	SENDFILE,	 /* to a file or socket */
	SPLICE,		 /* to a pipe: hands over pages, several times faster than a copy */
	BUFFERED,
};

static struct {
	char buffer[BUFFER];
	size_t used;
	int error;
	enum way way;
} out;

/* Waits where standard output is not ready and does not block. */
static bool try_again(void)
{
	struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		return false;
	poll(&fd, 1, -1);
	return true;
}

static void flush(void)
{
	size_t at = 0;

	while (at < out.used && out.error == 0) {
		ssize_t n = write(STDOUT_FILENO, out.buffer + at, out.used - at);

		if (n >= 0)
			at += (size_t)n;
		else if (!try_again())
			out.error = errno;
	}
	out.used = 0;
}

void output_bytes(const void *bytes, size_t n)
{
	const char *from = bytes;

	while (n > 0 && out.error == 0) {
		size_t room = BUFFER - out.used, part = n < room ? n : room;

		memcpy(out.buffer + out.used, from, part);
		out.used += part;
		from += part;
		n -= part;
		if (out.used == BUFFER)
			flush();
	}
}

void output_text(const char *format, ...)
{
	va_list args;
	char *text = NULL;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n >= 0) {
		output_bytes(text, (size_t)n);
		free(text);
	} else {
		output_no_memory();
	}
}

int output_failed(void)
{
	return out.error != 0;
}

void output_no_memory(void)
{
	if (out.error == 0)
		out.error = ENOMEM;
}

static enum way first_way(void)
{
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) != 0)
		return BUFFERED;
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return COPY_FILE_RANGE;
	case S_IFSOCK:
		return SENDFILE;
	case S_IFIFO:
		/* A refusal (the user's limit for pipes is reached) costs speed only. */
		if (fcntl(STDOUT_FILENO, F_GETPIPE_SZ) < PIPE_SIZE)
			fcntl(STDOUT_FILENO, F_SETPIPE_SZ, PIPE_SIZE);
		return SPLICE;
	default:
		return BUFFERED;
	}
}

/* One call of the kernel; *at moves on. Returns what the call did. */
static ssize_t copy_some(int fd, off_t *at, size_t n)
{
	switch (out.way) {
	case COPY_FILE_RANGE:
		return copy_file_range(fd, at, STDOUT_FILENO, NULL, n, 0);
	case SENDFILE:
		return sendfile(STDOUT_FILENO, fd, at, n);
	case SPLICE:
		return splice(fd, at, STDOUT_FILENO, NULL, n, 0);
	default:
		return 0;
	}
}

/* Copies with the kernel for as long as that works. */
static void copy_in_kernel(int fd, off_t *at, off_t end, void (*done)(uint64_t bytes))
{
	while (*at < end && out.way != BUFFERED) {
		uint64_t left = (uint64_t)(end - *at);
		ssize_t n = copy_some(fd, at, (size_t)(left < STEP ? left : STEP));

		if (n > 0) {
			if (done != NULL)
				done((uint64_t)n);
		} else if (n == 0 || !try_again()) {
			out.way = out.way == COPY_FILE_RANGE ? SENDFILE : BUFFERED;
		}
	}
}

int output_file(int fd, uint64_t size, void (*done)(uint64_t bytes))
{
	off_t at = 0, end = (off_t)size;

	if (out.way == UNKNOWN)
		out.way = first_way();
	if (size > SMALL && out.way != BUFFERED) {
		flush();
		if (out.error == 0)
			copy_in_kernel(fd, &at, end, done);
	}
	while (at < end && out.error == 0) {
		uint64_t room = BUFFER - out.used, left = (uint64_t)(end - at);
		ssize_t n = pread(fd, out.buffer + out.used, left < room ? left : room, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n == 0 ? 0 : errno;
			return -1;
		}
		out.used += (size_t)n;
		at += n;
		if (out.used == BUFFER)
			flush();
		if (done != NULL)
			done((uint64_t)n);
	}
	return 0;
}

int output_finish(const char *committed)
{
	flush();
	/* Some file systems tell only here that there was no room. */
	if (close(STDOUT_FILENO) != 0 && out.error == 0 && errno != EINTR)
		out.error = errno;
	if (out.error == 0)
		return STATUS_DONE;
	if (out.error == EPIPE && committed == NULL)
		return STATUS_FAILED;
	if (committed != NULL)
		return report("standard output: %s; %s nevertheless: do not do it again",
			      strerror(out.error), committed);
	return report("standard output: %s", strerror(out.error));
}
