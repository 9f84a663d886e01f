/* SPDX-License-Identifier: MIT */
/*
 * Reading one process in /proc: its status, the signal it dies of, its descriptors. Knows nothing
 * of who is asked about, or why.
 */
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_PF_EXITING 0x4u

/* A positive number that is the whole of `text`, or 0. */
pid_t tdfs_parse_pid(const char *text)
{
	long value = 0;

	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9' || value > 100000000)
			return 0;
		value = value * 10 + (*p - '0');
	}
	return (pid_t)value;
}

int tdfs_proc_open(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

DIR *tdfs_proc_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !stream)
		close(fd);
	return stream;
}

char *tdfs_proc_text(int dir, const char *name)
{
	int fd CLEANUP(tdfs_close_fd) = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t size = 0, room = 0;
	ssize_t n;

	if (fd < 0)
		return NULL;
	do {
		if (size + 1 >= room) {
			char *larger = realloc(text, room = room ? 2 * room : 4096);

			if (!larger) {
				free(text);
				return NULL;
			}
			text = larger;
		}
		n = read(fd, text + size, room - size - 1);
		size += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	text[size] = '\0';
	if (n == 0)
		return text;
	free(text);
	return NULL;
}

/* What follows the name of a line of /proc/PID/status, or NULL where it is another's. */
static const char *value_of(const char *line, const char *name)
{
	size_t n = strlen(name);

	return strncmp(line, name, n) == 0 && line[n] == ':' && line[n + 1] == '\t' ? line + n + 2
										    : NULL;
}

/* False where there is no such process (any more), or it cannot be seen. */
bool tdfs_proc_status(int dir, struct tdfs_status *status)
{
	char *text CLEANUP(tdfs_free_text) = tdfs_proc_text(dir, "status");

	memset(status, 0, sizeof *status);
	if (!text)
		return false;
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *value;

		if ((value = value_of(line, "Name")) != NULL) {
			size_t n = strcspn(value, "\n");

			if (n >= sizeof status->name)
				n = sizeof status->name - 1;
			for (size_t i = 0; i < n; i++)
				status->name[i] =
					value[i] >= ' ' && value[i] < 0x7f ? value[i] : '?';
		} else if ((value = value_of(line, "Tgid")) != NULL) {
			status->process = (pid_t)strtol(value, NULL, 10);
		} else if ((value = value_of(line, "State")) != NULL) {
			status->state = *value;
		} else if ((value = value_of(line, "Threads")) != NULL) {
			status->threads = (unsigned)strtoul(value, NULL, 10);
		} else if (value_of(line, "VmSize") != NULL) {
			status->alive = true;
		}
	}
	return status->process > 0;
}

/* The signal that an exiting thread dies of, or 0. Never for one that may be in execve. */
int tdfs_proc_signal(int dir)
{
	char *text CLEANUP(tdfs_free_text) = tdfs_proc_text(dir, "stat");
	unsigned long flags = 0, code = 0;
	char *at;

	if (!text)
		return 0;
	/* The program's name, in parentheses, may hold anything; behind it one letter, then
	 * numbers. */
	at = strrchr(text, ')');
	if (!at)
		return 0;
	at = strlen(at) > 3 ? at + 3 : at + strlen(at);
	for (int field = 4; field <= 52 && *at; field++) {
		char *end;
		unsigned long value;

		value = strtoul(at, &end, 10);
		if (end == at)
			return 0;
		if (field == 9)
			flags = value;
		if (field == 52)
			code = value;
		at = end;
	}
	return flags & KERNEL_PF_EXITING ? (int)(code & 0x7f) : 0;
}

struct tdfs_process *tdfs_proc_of(pid_t id, int *dir)
{
	struct tdfs_process *process = malloc(sizeof *process);

	if (!process)
		return NULL;
	atomic_init(&process->refs, 1);
	process->id = id;
	process->dir = *dir;
	*dir = -1;
	return process;
}

struct tdfs_process *tdfs_proc_find(pid_t tid, struct tdfs_status *status)
{
	int dir CLEANUP(tdfs_close_fd) = tid > 0 ? tdfs_proc_open(tid) : -1;

	if (dir < 0 || !tdfs_proc_status(dir, status))
		return NULL;
	if (status->process != tid) {
		pid_t id = status->process;

		close(dir);
		dir = tdfs_proc_open(id);
		if (dir < 0 || !tdfs_proc_status(dir, status) || status->process != id)
			return NULL;
	}
	return tdfs_proc_of(status->process, &dir);
}

struct tdfs_process *tdfs_process_find(pid_t tid)
{
	struct tdfs_status status;

	return tdfs_proc_find(tid, &status);
}

struct tdfs_process *tdfs_process_ref(struct tdfs_process *process)
{
	if (process)
		atomic_fetch_add(&process->refs, 1);
	return process;
}

void tdfs_process_unref(struct tdfs_process *process)
{
	if (!process || atomic_fetch_sub(&process->refs, 1) > 1)
		return;
	close(process->dir);
	free(process);
}

pid_t tdfs_process_id(const struct tdfs_process *process)
{
	return process->id;
}

/* ---- Descriptors -------------------------------------------------------------------------- */

/* What one line-wise fdinfo file says of the file `ino`. */
static enum tdfs_hold read_descriptor(int dir, const char *name, uint64_t ino)
{
	int fd CLEANUP(tdfs_close_fd) = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	unsigned long flags;
	const char *at;

	if (n <= 0)
		return TDFS_NOT_HELD;
	text[n] = '\0';
	at = strstr(text, "\nino:\t");
	if (!at || strtoull(at + 6, NULL, 10) != ino)
		return TDFS_NOT_HELD;
	at = strstr(text, "flags:\t");
	flags = at ? strtoul(at + 7, NULL, 8) : O_RDWR;
	if ((flags & O_ACCMODE) == O_RDONLY || flags & O_PATH)
		return TDFS_NOT_HELD;
	return flags & O_CLOEXEC ? TDFS_HELD_TILL_EXEC : TDFS_HELD;
}

/* `fdinfo` is a path of a folder beneath `dir`. *count gets the number of descriptors there. */
enum tdfs_hold tdfs_proc_table(struct tdfs_look *look, int dir, const char *fdinfo, size_t *count)
{
	DIR *stream CLEANUP(tdfs_close_dir) = tdfs_proc_dir(dir, fdinfo);
	enum tdfs_hold most = TDFS_NOT_HELD;
	struct dirent *entry;

	*count = 0;
	atomic_fetch_add(&look->steps, 1);
	if (!stream) {
		if (errno == EACCES || errno == EPERM || errno == EMFILE || errno == ENFILE)
			look->blind = true;
		return TDFS_NOT_HELD;
	}
	errno = 0;
	while (most < TDFS_HELD && (entry = readdir(stream))) {
		enum tdfs_hold one;

		if (entry->d_name[0] == '.')
			continue;
		++*count;
		one = read_descriptor(dirfd(stream), entry->d_name, look->ino);
		if (one > most)
			most = one;
	}
	if (errno == EACCES || errno == EPERM)
		look->blind = true;
	return most;
}

/*
 * The threads of a process share its descriptors. Where its first thread has none, that thread may
 * have ended before the others: then they are asked.
 */
enum tdfs_hold tdfs_proc_holds(struct tdfs_look *look, int dir)
{
	size_t count;
	enum tdfs_hold most = tdfs_proc_table(look, dir, "fdinfo", &count);
	DIR *tasks CLEANUP(tdfs_close_dir) = NULL;
	struct dirent *entry;

	if (count > 0 || most != TDFS_NOT_HELD)
		return most;
	tasks = tdfs_proc_dir(dir, "task");
	while (tasks && most == TDFS_NOT_HELD && (entry = readdir(tasks))) {
		char path[300];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "task/%s/fdinfo", entry->d_name);
		most = tdfs_proc_table(look, dir, path, &count);
	}
	return most;
}
