/* SPDX-License-Identifier: MIT */
/*
 * The same calls on a file in incoming/ and on a plain file beside it: same_bytes INCOMING PLAIN
 * SEED ROUNDS PROCESSES. Each process makes its files one after the other, by write, pwrite,
 * ftruncate, O_TRUNC, O_APPEND, fcntl, lseek and read in any order. Each call must have the same
 * outcome on both; and the last close 0 where the plain file has rows only, else EINVAL. For each
 * file that is accepted, one line on standard output: its name, and of what must be stored the
 * size and the crc32c. The table has one column, i:int.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/crc32c.h"

#define ROW	16	    /* {"i":123456789} and its newline */
#define LONG	(8 << 10)   /* rows: more than the daemon validates while they are written */
#define MOST	(256 << 10) /* rows in a file */
#define READ	(64 << 10)
#define OPEN	4 /* descriptors */
#define HISTORY 16

enum side {
	DROPPED,
	PLAIN,
	SIDES
};

static const char *folder[SIDES];
static char path[SIDES][4096];
static int fds[SIDES][OPEN];
static uint64_t state;
static unsigned number, told;
static bool is_long; /* this file may have many rows */
static char history[HISTORY][80];
static char buffer[SIDES][MOST * ROW], stored[MOST * ROW + 1];

static unsigned pick(unsigned limit)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(state >> 33) % limit;
}

static void __attribute__((format(printf, 1, 2))) tell(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(history[told++ % HISTORY], sizeof *history, format, args);
	va_end(args);
}

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:", path[DROPPED]);
	for (unsigned i = 0; i < told; i++)
		fprintf(stderr, " %s;", history[i]);
	fputc(' ', stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* The outcome of one call on both sides. */
struct both {
	long result[SIDES];
	int error[SIDES];
};

static void must_agree(const struct both *both)
{
	if (both->result[DROPPED] != both->result[PLAIN] ||
	    (both->result[PLAIN] < 0 && both->error[DROPPED] != both->error[PLAIN]))
		fail("%ld (%s) and %ld (%s) beside it", both->result[DROPPED],
		     strerror(both->error[DROPPED]), both->result[PLAIN],
		     strerror(both->error[PLAIN]));
}

#define BOTH(call)                                         \
	do {                                               \
		struct both both = { 0 };                  \
		for (int side = 0; side < SIDES; side++) { \
			int fd = fds[side][n];             \
			(void)fd;                          \
			both.result[side] = call;          \
			both.error[side] = errno;          \
		}                                          \
		must_agree(&both);                         \
	} while (0)

static void make_rows(unsigned rows)
{
	for (unsigned i = 0; i < rows; i++) {
		char row[ROW + 1];

		snprintf(row, sizeof row, "{\"i\":%09u}\n", 100000000 + number++ % 800000000);
		memcpy(buffer[DROPPED] + i * ROW, row, ROW);
	}
}

/* A few, or enough that they are validated on the way. */
static unsigned some_rows(void)
{
	return is_long && pick(2) == 0 ? LONG + pick(LONG) : 1 + pick(3);
}

/* Mostly where a row begins. */
static off_t some_place(void)
{
	off_t place = (off_t)(is_long && pick(3) == 0 ? pick(2 * LONG) : pick(8)) * ROW;

	return pick(8) == 0 ? place + pick(ROW) : place;
}

static void open_one(unsigned n, int flags)
{
	tell("%u = open %o", n, (unsigned)flags);
	for (int side = 0; side < SIDES; side++) {
		fds[side][n] = open(path[side], flags | O_CREAT | O_CLOEXEC, 0644);
		if (fds[side][n] < 0)
			fail("%s: %s", folder[side], strerror(errno));
	}
}

static void operation(unsigned n)
{
	struct iovec row = { buffer[DROPPED], ROW };
	unsigned rows;
	off_t place;
	int flags;

	switch (pick(11)) {
	case 0:
	case 1:
		rows = some_rows();
		make_rows(rows);
		tell("%u write %u", n, rows * ROW);
		BOTH(write(fd, buffer[DROPPED], rows * ROW));
		break;
	case 2:
		rows = some_rows();
		place = some_place();
		make_rows(rows);
		tell("%u pwrite %u at %ld", n, rows * ROW, (long)place);
		BOTH(pwrite(fd, buffer[DROPPED], rows * ROW, place));
		break;
	case 3:
		place = some_place();
		tell("%u ftruncate %ld", n, (long)place);
		BOTH(ftruncate(fd, place));
		break;
	case 4:
		tell("%u ftruncate 0", n);
		BOTH(ftruncate(fd, 0));
		break;
	case 5:
		place = some_place();
		tell("%u lseek %ld", n, (long)place);
		BOTH(lseek(fd, place, SEEK_SET));
		break;
	case 6:
		flags = pick(2) ? O_APPEND : 0;
		tell("%u fcntl %o", n, (unsigned)flags);
		BOTH(fcntl(fd, F_SETFL, flags));
		break;
	case 7:
		for (unsigned other = 0; other < OPEN; other++) {
			if (fds[PLAIN][other] >= 0)
				continue;
			open_one(other,
				 O_RDWR | (pick(2) ? O_TRUNC : 0) | (pick(4) ? 0 : O_APPEND));
			break;
		}
		break;
	case 8:
		place = some_place();
		tell("%u pread at %ld", n, (long)place);
		memset(buffer[DROPPED], 0, READ);
		memset(buffer[PLAIN], 0, READ);
		BOTH(pread(fd, buffer[side], READ, place));
		if (memcmp(buffer[DROPPED], buffer[PLAIN], READ) != 0)
			fail("other bytes are read");
		break;
	case 9:
		place = some_place();
		tell("%u pwrite 16 at %ld, not appended", n, (long)place);
		make_rows(1);
		/* From Linux 6.9 on. */
		BOTH(pwritev2(fd, &row, 1, place, 0x20));
		break;
	default:
		flags = pick(2) ? SEEK_END : SEEK_CUR;
		tell("%u lseek %d", n, flags);
		BOTH(lseek(fd, 0, flags));
		break;
	}
}

/* What is stored of n bytes; negative where they are not rows. */
static long rows_of(const char *bytes, size_t n)
{
	const char *end = bytes + n;
	size_t size = 0;

	while (bytes < end) {
		const char *line = bytes, *stop = memchr(bytes, '\n', (size_t)(end - bytes));
		size_t length;

		if (!stop)
			stop = end;
		bytes = stop + 1;
		length = (size_t)(stop - line);
		if (length == 0)
			continue;
		if (length < 7 || memcmp(line, "{\"i\":", 5) != 0 || stop[-1] != '}')
			return -1;
		for (const char *digit = line + 5; digit < stop - 1; digit++) {
			if (*digit < '0' || *digit > '9' ||
			    (*digit == '0' && digit == line + 5 && length > 7))
				return -1;
		}
		memcpy(stored + size, line, length);
		stored[size + length] = '\n';
		size += length + 1;
	}
	return (long)size;
}

static void one_file(unsigned process, unsigned round)
{
	unsigned left = 3 + pick(8);
	struct stat st;
	long size;

	told = 0;
	is_long = pick(8) == 0;
	for (int side = 0; side < SIDES; side++)
		snprintf(path[side], sizeof path[side], "%s/%u-%u", folder[side], process, round);
	memset(fds, -1, sizeof fds);
	open_one(0, O_RDWR | (pick(4) ? 0 : O_APPEND));
	while (left > 0) {
		unsigned n = pick(OPEN);

		if (fds[PLAIN][n] < 0)
			continue;
		if (told == HISTORY)
			break;
		operation(n);
		left--;
	}
	if (pread(fds[PLAIN][0], buffer[PLAIN], sizeof buffer[PLAIN], 0) < 0 ||
	    fstat(fds[PLAIN][0], &st) != 0)
		fail("cannot be read");
	size = rows_of(buffer[PLAIN], (size_t)st.st_size);
	tell("close");
	for (unsigned n = OPEN; n-- > 0;) {
		int answer, want = n == 0 && size < 0 ? EINVAL : 0;

		if (fds[PLAIN][n] < 0)
			continue;
		close(fds[PLAIN][n]);
		answer = close(fds[DROPPED][n]) == 0 ? 0 : errno;
		if (answer != want)
			fail("close %u of %ld bytes: %s, not %s", n, (long)st.st_size,
			     strerror(answer), strerror(want));
	}
	unlink(path[PLAIN]);
	if (size <= 0)
		unlink(path[DROPPED]);
	else
		printf("%u-%u %ld %u\n", process, round, size,
		       tdl__crc32c(0, stored, (size_t)size));
}

int main(int argc, char **argv)
{
	unsigned long seed, rounds, processes;
	int status, worst = 0;

	if (argc != 6)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0); /* several write to it, whole lines */
	folder[DROPPED] = argv[1];
	folder[PLAIN] = argv[2];
	seed = strtoul(argv[3], NULL, 10);
	rounds = strtoul(argv[4], NULL, 10);
	processes = strtoul(argv[5], NULL, 10);
	for (unsigned process = 0; process < processes; process++) {
		if (fork() != 0)
			continue;
		state = seed * 1000 + process;
		number = process * 200000000;
		for (unsigned round = 0; round < rounds / processes; round++)
			one_file(process, round);
		exit(fflush(stdout) == 0 ? 0 : 1);
	}
	while (wait(&status) > 0)
		worst = status != 0 ? 1 : worst;
	return worst;
}
