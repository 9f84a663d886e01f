/* SPDX-License-Identifier: MIT */
/*
 * The loops that benchmarks time, and those that they are compared with. Each prints the seconds
 * it took, without the time to start. Knows nothing of the library.
 *
 *     loops open PREFIX SUFFIX FIRST COUNT	open, read and close PREFIX<number>SUFFIX
 *     loops log DIR COUNT PROCESSES		the same with the first COUNT commit files of a log
 *     loops drop DIR COUNT PROCESSES FILE	write COUNT copies of FILE to new names, close each
 *     loops commit DIR COUNT FILE		what a durable commit of FILE costs at the least
 *     loops fill BYTES				write so much to memory that nothing was in before
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *content;
static size_t content_size;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", path);
	content_size = (size_t)st.st_size;
	content = malloc(content_size + 1);
	if (!content || read(fd, content, content_size) != (ssize_t)content_size)
		err(1, "%s", path);
	close(fd);
}

static void read_file(int dir, const char *path)
{
	char buffer[4096];
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, buffer, sizeof buffer) < 0 || close(fd) < 0)
		err(1, "%s", path);
}

static void write_file(int dir, const char *path, int sync)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, content, content_size) != (ssize_t)content_size ||
	    (sync && fsync(fd) < 0) || close(fd) < 0)
		err(1, "%s", path);
}

static double open_files(const char *prefix, const char *suffix, int64_t first, int64_t count)
{
	double start = now();

	for (int64_t i = first; i < first + count; i++) {
		char path[4096];

		snprintf(path, sizeof path, "%s%" PRId64 "%s", prefix, i, suffix);
		read_file(AT_FDCWD, path);
	}
	return now() - start;
}

/* The work of one of several processes: every step-th piece from `from` on. */
struct share {
	int dir, from, step;
	int64_t count;
};

static void read_log(const struct share *share)
{
	for (int64_t i = share->from; i < share->count; i += share->step) {
		char name[32];

		snprintf(name, sizeof name, "%020" PRId64 ".json", i);
		read_file(share->dir, name);
	}
}

static void drop(const struct share *share)
{
	for (int64_t i = share->from; i < share->count; i += share->step) {
		char name[64];

		snprintf(name, sizeof name, "drop-%d-%" PRId64, (int)getpid(), i);
		write_file(share->dir, name, 0);
	}
}

static double in_parallel(void (*work)(const struct share *), const char *path, int64_t count,
			  int processes)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status;
	double start = now();

	if (dir < 0)
		err(1, "%s", path);
	for (int i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid == 0) {
			work(&(struct share){ dir, i, processes, count });
			_exit(0);
		}
	}
	while (wait(&status) > 0) {
		if (status != 0)
			errx(1, "a process failed");
	}
	return now() - start;
}

static void sync_dir(int dir)
{
	if (fsync(dir) < 0)
		err(1, "fsync");
}

static void give_name(int from, const char *old, int to, const char *name)
{
	if (linkat(from, old, to, name, 0) < 0)
		err(1, "%s", name);
}

static int make_dir(int above, const char *name)
{
	int dir;

	if (mkdirat(above, name, 0755) < 0 && errno != EEXIST)
		err(1, "%s", name);
	dir = openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		err(1, "%s", name);
	return dir;
}

/* Data file and commit file, each written, made durable and given its name durably. */
static double commit(const char *path, int64_t count)
{
	int dir = make_dir(AT_FDCWD, path), log = make_dir(dir, "log");
	int staging = make_dir(dir, "staging");
	double start = now();

	for (int64_t i = 0; i < count; i++) {
		char name[64];

		snprintf(name, sizeof name, "%d-%" PRId64, (int)getpid(), i);
		write_file(staging, "data", 1);
		write_file(log, "commit", 1);
		give_name(staging, "data", dir, name);
		sync_dir(dir);
		give_name(log, "commit", log, name);
		sync_dir(log);
		if (unlinkat(staging, "data", 0) < 0 || unlinkat(log, "commit", 0) < 0)
			err(1, "unlink");
	}
	return now() - start;
}

/* What the page cache costs whoever fills it, wherever the bytes come from. */
static double fill(int64_t bytes)
{
	static char piece[128 << 10];
	int fd = memfd_create("fill", MFD_CLOEXEC);
	double start = now();

	for (int64_t done = 0; done < bytes; done += (int64_t)sizeof piece) {
		if (write(fd, piece, sizeof piece) != (ssize_t)sizeof piece)
			err(1, "write to memory");
	}
	return now() - start;
}

static int64_t number(const char *text)
{
	return strtoll(text, NULL, 10);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	double seconds;

	if (strcmp(what, "open") == 0 && argc == 6) {
		seconds = open_files(argv[2], argv[3], number(argv[4]), number(argv[5]));
	} else if (strcmp(what, "log") == 0 && argc == 5) {
		seconds = in_parallel(read_log, argv[2], number(argv[3]), (int)number(argv[4]));
	} else if (strcmp(what, "drop") == 0 && argc == 6) {
		load(argv[5]);
		seconds = in_parallel(drop, argv[2], number(argv[3]), (int)number(argv[4]));
	} else if (strcmp(what, "commit") == 0 && argc == 5) {
		load(argv[4]);
		seconds = commit(argv[2], number(argv[3]));
	} else if (strcmp(what, "fill") == 0 && argc == 3) {
		seconds = fill(number(argv[2]));
	} else {
		errx(2, "usage: loops open|log|drop|commit|fill ...");
	}
	printf("%.9f\n", seconds);
	return 0;
}
