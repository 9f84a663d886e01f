/* SPDX-License-Identifier: MIT */
/*
 * Sorting more rows than fit into memory. Knows nothing of what is in a row.
 *
 * Rows gather in one buffer. A full buffer is sorted and appended to the temporary file as one run;
 * at the end the runs are merged by a heap of readers, each with a small buffer of its own.
 */
#include "extsort.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE  ((size_t)64 * 1024)
#define WRITE_SIZE ((size_t)256 * 1024)

struct row {
	size_t at, n; /* in the buffer */
};

/* A part of the temporary file, and how far it has been read. */
struct run {
	off_t at, end;
	char *buffer;
	size_t room, begin, filled; /* of the buffer; unread bytes lie between begin and filled */
	const char *row;	    /* the next one, in the buffer */
	size_t n;
};

struct rowsort {
	size_t memory;
	char *bytes;
	size_t used, room;
	struct row *rows;
	size_t count, rows_room;
	int fd; /* the temporary file; -1: everything has fitted so far */
	off_t written;
	struct run *runs;
	size_t run_count;
	bool merging;
	size_t at;	   /* the next row, where everything fitted */
	struct run **heap; /* runs that have a row, the least first */
	size_t heap_count;
	struct run *taken; /* whose row was given out last */
};

int rowsort_compare(const char *a, size_t a_n, const char *b, size_t b_n)
{
	int order = memcmp(a, b, a_n < b_n ? a_n : b_n);

	return order != 0 ? order : (a_n > b_n) - (a_n < b_n);
}

struct rowsort *rowsort_new(size_t memory)
{
	struct rowsort *sort = calloc(1, sizeof *sort);

	if (sort != NULL) {
		sort->memory = memory;
		sort->fd = -1;
	}
	return sort;
}

void rowsort_free(struct rowsort *sort)
{
	if (sort == NULL)
		return;
	for (size_t i = 0; i < sort->run_count; i++)
		free(sort->runs[i].buffer);
	if (sort->fd >= 0)
		close(sort->fd);
	free(sort->heap);
	free(sort->runs);
	free(sort->rows);
	free(sort->bytes);
	free(sort);
}

/* ---- Runs --------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b, void *bytes)
{
	const struct row *left = a, *right = b;
	const char *base = bytes;

	return rowsort_compare(base + left->at, left->n, base + right->at, right->n);
}

static void sort_buffer(struct rowsort *sort)
{
	if (sort->count > 0)
		qsort_r(sort->rows, sort->count, sizeof *sort->rows, by_bytes, sort->bytes);
}

static int open_temporary(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	int fd;

	if (folder == NULL || *folder == '\0')
		folder = "/tmp";
	fd = open(folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	/* Not every file system has files without a name. */
	if (snprintf(path, sizeof path, "%s/tinydelta-XXXXXX", folder) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static int write_all(struct rowsort *sort, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t put = pwrite(sort->fd, bytes, n, sort->written);

		if (put < 0 && errno != EINTR)
			return errno;
		if (put > 0) {
			bytes += put;
			n -= (size_t)put;
			sort->written += put;
		}
	}
	return 0;
}

/* Writes the sorted rows, each with its newline, in pieces worth a system call. */
static int write_rows(struct rowsort *sort)
{
	char *buffer = malloc(WRITE_SIZE);
	size_t filled = 0;
	int why = buffer == NULL ? ENOMEM : 0;

	for (size_t i = 0; i < sort->count && why == 0; i++) {
		const struct row *row = &sort->rows[i];

		if (filled + row->n + 1 > WRITE_SIZE) {
			why = write_all(sort, buffer, filled);
			filled = 0;
		}
		if (row->n + 1 > WRITE_SIZE) {
			if (why == 0)
				why = write_all(sort, sort->bytes + row->at, row->n);
			buffer[filled++] = '\n';
			continue;
		}
		memcpy(buffer + filled, sort->bytes + row->at, row->n);
		filled += row->n;
		buffer[filled++] = '\n';
	}
	if (why == 0)
		why = write_all(sort, buffer, filled);
	free(buffer);
	return why;
}

/* Makes a run of what is in the buffer, and empties that. */
static int spill(struct rowsort *sort)
{
	struct run *runs = reallocarray(sort->runs, sort->run_count + 1, sizeof *runs);
	off_t at = sort->written;
	int why;

	if (runs == NULL)
		return ENOMEM;
	sort->runs = runs;
	if (sort->fd < 0)
		sort->fd = open_temporary();
	if (sort->fd < 0)
		return errno;
	sort_buffer(sort);
	why = write_rows(sort);
	if (why != 0)
		return why;
	sort->runs[sort->run_count++] = (struct run){ .at = at, .end = sort->written };
	sort->used = sort->count = 0;
	return 0;
}

int rowsort_add(struct rowsort *sort, const char *row, size_t n)
{
	size_t needed = sort->used + n + (sort->count + 1) * sizeof(struct row);
	int why;

	if (needed > sort->memory && sort->count > 0) {
		why = spill(sort);
		if (why != 0)
			return why;
	}
	/* Not even a row without bytes is put nowhere. */
	if (n >= sort->room - sort->used) {
		size_t room = sort->room < 4096 ? 4096 : 2 * sort->room;
		char *bytes;

		if (room > sort->memory)
			room = sort->memory;
		if (room < sort->used + n + 1)
			room = sort->used + n + 1;
		bytes = realloc(sort->bytes, room);
		if (bytes == NULL)
			return ENOMEM;
		sort->bytes = bytes;
		sort->room = room;
	}
	if (sort->count == sort->rows_room) {
		size_t room = sort->rows_room < 256 ? 256 : sort->rows_room + sort->rows_room / 2;
		struct row *rows = reallocarray(sort->rows, room, sizeof *rows);

		if (rows == NULL)
			return ENOMEM;
		sort->rows = rows;
		sort->rows_room = room;
	}
	memcpy(sort->bytes + sort->used, row, n);
	sort->rows[sort->count++] = (struct row){ sort->used, n };
	sort->used += n;
	return 0;
}

/* ---- Merging ------------------------------------------------------------------------------ */

/* Reads more of a run, behind what is unread. Returns 0 or an errno. */
static int fill(const struct rowsort *sort, struct run *run)
{
	size_t unread = run->filled - run->begin, want;
	ssize_t got;

	if (unread == run->room) {
		size_t room = run->room == 0 ? READ_SIZE : 2 * run->room;
		char *buffer = realloc(run->buffer, room);

		if (buffer == NULL)
			return ENOMEM;
		run->buffer = buffer;
		run->room = room;
	}
	memmove(run->buffer, run->buffer + run->begin, unread);
	run->begin = 0;
	run->filled = unread;
	want = run->room - unread;
	if ((off_t)want > run->end - run->at)
		want = (size_t)(run->end - run->at);
	do
		got = pread(sort->fd, run->buffer + unread, want, run->at);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got < 0 ? errno : EIO; /* nobody else can have made it shorter */
	run->filled += (size_t)got;
	run->at += got;
	return 0;
}

/* Goes to the next row of a run. Returns 1, 0 at its end, or a negative errno. */
static int advance(const struct rowsort *sort, struct run *run)
{
	size_t looked = 0; /* unread bytes without a newline among them */

	for (;;) {
		size_t unread = run->filled - run->begin;
		int why;

		if (unread > looked) {
			const char *from = run->buffer + run->begin;
			const char *end = memchr(from + looked, '\n', unread - looked);

			if (end != NULL) {
				run->row = from;
				run->n = (size_t)(end - from);
				run->begin += run->n + 1;
				return 1;
			}
		}
		if (run->at == run->end)
			return 0; /* a run ends with a newline */
		looked = unread;
		why = fill(sort, run);
		if (why != 0)
			return -why;
	}
}

static bool before(const struct run *a, const struct run *b)
{
	return rowsort_compare(a->row, a->n, b->row, b->n) < 0;
}

/* Moves the run at `i` down to where it belongs. */
static void sink(struct rowsort *sort, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1, least = i;
		struct run *run = sort->heap[i];

		for (size_t c = child; c < child + 2 && c < sort->heap_count; c++)
			if (before(sort->heap[c], sort->heap[least]))
				least = c;
		if (least == i)
			return;
		sort->heap[i] = sort->heap[least];
		sort->heap[least] = run;
		i = least;
	}
}

/* Turns from adding to reading. Returns 0 or an errno. */
static int begin(struct rowsort *sort)
{
	int why;

	sort->merging = true;
	if (sort->run_count == 0) {
		sort_buffer(sort);
		return 0;
	}
	why = sort->count > 0 ? spill(sort) : 0;
	free(sort->bytes);
	free(sort->rows);
	sort->bytes = NULL;
	sort->rows = NULL;
	if (why != 0)
		return why;
	sort->heap = calloc(sort->run_count, sizeof(*sort->heap));
	if (sort->heap == NULL)
		return ENOMEM;
	for (size_t i = 0; i < sort->run_count; i++) {
		int got = advance(sort, &sort->runs[i]);

		if (got < 0)
			return -got;
		if (got > 0)
			sort->heap[sort->heap_count++] = &sort->runs[i];
	}
	for (size_t i = sort->heap_count / 2; i-- > 0;)
		sink(sort, i);
	return 0;
}

int rowsort_next(struct rowsort *sort, const char **row, size_t *n)
{
	int why = sort->merging ? 0 : begin(sort);

	if (why != 0)
		return -why;
	if (sort->run_count == 0) {
		if (sort->at == sort->count)
			return 0;
		*row = sort->bytes + sort->rows[sort->at].at;
		*n = sort->rows[sort->at++].n;
		return 1;
	}
	/* Only now: the row given out last lies in its buffer. */
	if (sort->taken != NULL) {
		int got = advance(sort, sort->taken);

		if (got < 0)
			return got;
		if (got == 0)
			sort->heap[0] = sort->heap[--sort->heap_count];
		if (sort->heap_count > 0)
			sink(sort, 0);
	}
	sort->taken = NULL;
	if (sort->heap_count == 0)
		return 0;
	sort->taken = sort->heap[0];
	*row = sort->taken->row;
	*n = sort->taken->n;
	return 1;
}
