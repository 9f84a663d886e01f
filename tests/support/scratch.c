/* SPDX-License-Identifier: MIT */
/*
 * The test's own directory, in memory where the system has such a place: tests sync a lot. Makes
 * its system calls itself, so that faults meant for the library do not hit it.
 */
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char root[64];

__attribute__((noreturn, format(printf, 1, 2))) static void give_up(const char *format, ...)
{
	int why = errno;
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(why));
	abort();
}

void scratch_begin(void)
{
	const char *where = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";

	snprintf(root, sizeof root, "%s/tinydelta-test-XXXXXX", where);
	if (!mkdtemp(root))
		give_up("cannot make %s", root);
}

void scratch_end(void)
{
	remove_tree(root);
}

const char *in_scratch(const char *format, ...)
{
	static char paths[64][4096];
	static unsigned next;
	char *path = paths[next++ % 64];
	size_t n = strlen(root) + 1;
	va_list args;

	memcpy(path, root, n - 1);
	path[n - 1] = '/';
	va_start(args, format);
	vsnprintf(path + n, sizeof paths[0] - n, format, args);
	va_end(args);
	if (path[n] == '/')
		memmove(path, path + n, strlen(path + n) + 1);
	return path;
}

void put_bytes(const char *path, const void *bytes, size_t n)
{
	const char *at = in_scratch("%s", path);
	int fd = open(at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	/* What the library published is writable for nobody. */
	if (fd < 0 && errno == EACCES && chmod(at, 0644) == 0)
		fd = open(at, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd) < 0)
		give_up("cannot write %s", at);
}

void put(const char *path, const char *format, ...)
{
	char *text;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		give_up("no memory");
	put_bytes(path, text, (size_t)n);
	free(text);
}

char *get_bytes(const char *path, size_t *n)
{
	const char *at = in_scratch("%s", path);
	int fd = open(at, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *bytes;

	if (fd < 0 || fstat(fd, &st) < 0 || !(bytes = malloc((size_t)st.st_size + 1)) ||
	    read(fd, bytes, (size_t)st.st_size) != st.st_size)
		give_up("cannot read %s", at);
	close(fd);
	bytes[st.st_size] = '\0';
	if (n)
		*n = (size_t)st.st_size;
	return bytes;
}

void cut_to(const char *path, uint64_t size)
{
	const char *at = in_scratch("%s", path);
	struct stat st;

	if (stat(at, &st) < 0 || chmod(at, 0644) < 0 || truncate(at, (off_t)size) < 0)
		give_up("cannot cut %s", at);
	utimensat(AT_FDCWD, at, (struct timespec[]){ st.st_atim, st.st_mtim }, 0);
}

void make_dir(const char *path)
{
	const char *at = in_scratch("%s", path);

	if (mkdir(at, 0755) < 0)
		give_up("cannot make %s", at);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void remove_tree(const char *path)
{
	const char *at = in_scratch("%s", path);

	if (nftw(at, remove_one, 16, FTW_DEPTH | FTW_PHYS) < 0 && errno != ENOENT)
		give_up("cannot remove %s", at);
}

static int list_names(const char *path, struct dirent ***list)
{
	int n = scandir(path, list, NULL, alphasort);
	int kept = 0;

	if (n < 0)
		give_up("cannot list %s", path);
	for (int i = 0; i < n; i++) {
		if (strcmp((*list)[i]->d_name, ".") == 0 || strcmp((*list)[i]->d_name, "..") == 0)
			free((*list)[i]);
		else
			(*list)[kept++] = (*list)[i];
	}
	return kept;
}

void copy_tree(const char *from, const char *to)
{
	const char *source = in_scratch("%s", from), *target = in_scratch("%s", to);
	struct dirent **list;
	int n = list_names(source, &list);

	if (mkdir(target, 0755) < 0)
		give_up("cannot make %s", target);
	for (int i = 0; i < n; i++) {
		char *a, *b;
		struct stat st;

		if (asprintf(&a, "%s/%s", source, list[i]->d_name) < 0 ||
		    asprintf(&b, "%s/%s", target, list[i]->d_name) < 0 || lstat(a, &st) < 0)
			give_up("cannot copy %s", source);
		if (S_ISDIR(st.st_mode)) {
			copy_tree(a, b);
		} else if (S_ISREG(st.st_mode)) {
			size_t size;
			char *bytes = get_bytes(a, &size);

			put_bytes(b, bytes, size);
			free(bytes);
		}
		free(a);
		free(b);
		free(list[i]);
	}
	free(list);
}

bool is_there(const char *path)
{
	struct stat st;

	return lstat(in_scratch("%s", path), &st) == 0;
}

char *names_in(const char *path)
{
	struct dirent **list;
	int n = list_names(in_scratch("%s", path), &list);
	char *names = NULL;
	size_t size;
	FILE *out = open_memstream(&names, &size);

	if (!out)
		give_up("no memory");
	for (int i = 0; i < n; i++) {
		fprintf(out, "%s\n", list[i]->d_name);
		free(list[i]);
	}
	free(list);
	fclose(out);
	return names;
}

unsigned count_in(const char *path)
{
	char *names = names_in(path);
	unsigned count = 0;

	for (const char *p = names; *p != '\0'; p++)
		count += *p == '\n';
	free(names);
	return count;
}

void age(const char *path, int seconds)
{
	struct timespec then;

	clock_gettime(CLOCK_REALTIME, &then);
	then.tv_sec -= seconds;
	if (utimensat(AT_FDCWD, in_scratch("%s", path), (struct timespec[]){ then, then },
		      AT_SYMLINK_NOFOLLOW) < 0)
		give_up("cannot age %s", path);
}

unsigned open_descriptors(void)
{
	/* One of them is that of the listing itself. */
	return count_in("/proc/self/fd") - 1;
}
