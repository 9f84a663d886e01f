/* SPDX-License-Identifier: MIT */
/*
 * The one writer of standard output: a buffer, the first error, and what is written past the
 * buffer because it is large. Knows nothing of tables.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "command.h"

#define BUFFER	  (256 * 1024)
#define PIPE_SIZE (1024 * 1024)
/* Up to this size bytes are gathered in the buffer: they are not worth a call of their own. */
#define SMALL (64 * 1024)

static struct {
	char buffer[BUFFER];
	size_t used;
	int error;
	bool ready; /* begin_large() was called */
	bool pipe;  /* known once ready */
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

static void write_stdout(const char *bytes, size_t n)
{
	while (n > 0 && out.error == 0) {
		ssize_t done = write(STDOUT_FILENO, bytes, n);

		if (done >= 0) {
			bytes += done;
			n -= (size_t)done;
		} else if (!try_again()) {
			out.error = errno;
		}
	}
}

static void flush(void)
{
	write_stdout(out.buffer, out.used);
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

bool output_broken(void)
{
	return out.error == EPIPE;
}

void output_no_memory(void)
{
	if (out.error == 0)
		out.error = ENOMEM;
}

/* What is written in large pieces should not wait for the reader after each small one. */
static void begin_large(void)
{
	struct stat st;

	out.ready = true;
	/* A refusal (the user's limit for pipes is reached) costs speed only. */
	out.pipe = fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode);
	if (out.pipe && fcntl(STDOUT_FILENO, F_GETPIPE_SZ) < PIPE_SIZE)
		fcntl(STDOUT_FILENO, F_SETPIPE_SZ, PIPE_SIZE);
}

void output_large(const void *bytes, size_t n)
{
	if (n <= SMALL) {
		output_bytes(bytes, n);
		return;
	}
	if (!out.ready)
		begin_large();
	flush();
	write_stdout(bytes, n);
}

void *output_pages_new(size_t room)
{
	void *pages = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return NULL;
	/* Fewer of them to make; a refusal costs speed only. */
	madvise(pages, room, MADV_HUGEPAGE);
	return pages;
}

/* Lends pages to the pipe. What is left is written. */
static void give_pages(char *bytes, size_t n)
{
	while (n > 0 && out.error == 0) {
		struct iovec pages = { bytes, n };
		ssize_t done = vmsplice(STDOUT_FILENO, &pages, 1, 0);

		if (done > 0) {
			bytes += done;
			n -= (size_t)done;
		} else if (done == 0 || !try_again()) {
			break;
		}
	}
	write_stdout(bytes, n);
}

bool output_pages(void *pages, size_t room, size_t n)
{
	if (!out.ready)
		begin_large();
	if (!out.pipe || n <= SMALL) {
		output_large(pages, n);
		return false;
	}
	flush();
	give_pages(pages, n);
	/* The reader may have them for longer than this process lives: they are not written to any
	 * more, others take their place. */
	munmap(pages, room);
	return true;
}

int output_finish(const char *committed)
{
	flush();
	/* Some file systems tell only here that there was no room. */
	if (close(STDOUT_FILENO) != 0 && out.error == 0 && errno != EINTR)
		out.error = errno;
	if (out.error == 0)
		return STATUS_DONE;
	if (out.error == EPIPE && !committed)
		return STATUS_FAILED;
	if (committed)
		return report("standard output: %s; already %s: do not retry", strerror(out.error),
			      committed);
	return report("standard output: %s", strerror(out.error));
}
