/* SPDX-License-Identifier: MIT */
/*
 * Reading /proc: which processes hold a file open for writing, and which of them are being killed.
 * Knows nothing of FUSE, of names or of commits. The header says what must never be read.
 */
#include "holders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_PF_EXITING 0x4u

struct tdfs_process {
	atomic_uint refs;
	pid_t id;
	int dir; /* O_PATH, /proc/ID */
};

/* The lines of /proc/PID/status that matter. */
struct status {
	pid_t process;
	unsigned threads;
	char state;
	bool alive; /* has memory */
	char name[32];
};

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static void close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define CLEANUP(function) __attribute__((cleanup(function)))

/* A positive number that is the whole of `text`, or 0. */
static pid_t parse_pid(const char *text)
{
	long value = 0;

	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9' || value > 100000000)
			return 0;
		value = value * 10 + (*p - '0');
	}
	return (pid_t)value;
}

static int open_process(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static FILE *open_text(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		close(fd);
	return file;
}

static DIR *open_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !stream)
		close(fd);
	return stream;
}

/* False where there is no such process (any more), or it cannot be seen. */
static bool read_status(int dir, struct status *status)
{
	FILE *file CLEANUP(close_file) = open_text(dir, "status");
	char *line = NULL;
	size_t size = 0;
	long number;

	memset(status, 0, sizeof *status);
	if (!file)
		return false;
	while (getline(&line, &size, file) > 0) {
		if (strncmp(line, "Name:\t", 6) == 0) {
			size_t n = strcspn(line + 6, "\n");

			if (n >= sizeof status->name)
				n = sizeof status->name - 1;
			for (size_t i = 0; i < n; i++)
				status->name[i] = line[6 + i] >= ' ' && line[6 + i] < 0x7f
							  ? line[6 + i]
							  : '?';
		} else if (sscanf(line, "Tgid: %ld", &number) == 1) {
			status->process = (pid_t)number;
		} else if (strncmp(line, "State:\t", 7) == 0) {
			status->state = line[7];
		} else if (sscanf(line, "Threads: %ld", &number) == 1) {
			status->threads = (unsigned)number;
		} else if (strncmp(line, "VmSize:", 7) == 0) {
			status->alive = true;
		}
	}
	free(line);
	return status->process > 0;
}

/* The signal that an exiting thread dies of, or 0. Never for one that may be in execve. */
static int killing_signal(int dir)
{
	FILE *file CLEANUP(close_file) = open_text(dir, "stat");
	char text[2048];
	size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
	unsigned long flags = 0, code = 0;
	char *at;

	text[n] = '\0';
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

struct tdfs_process *tdfs_process_find(pid_t tid)
{
	int dir CLEANUP(close_fd) = tid > 0 ? open_process(tid) : -1;
	struct tdfs_process *process;
	struct status status;

	if (dir < 0 || !read_status(dir, &status))
		return NULL;
	if (status.process != tid) {
		pid_t id = status.process;

		close(dir);
		dir = open_process(id);
		if (dir < 0 || !read_status(dir, &status) || status.process != id)
			return NULL;
	}
	process = malloc(sizeof *process);
	if (!process)
		return NULL;
	atomic_init(&process->refs, 1);
	process->id = status.process;
	process->dir = dir;
	dir = -1;
	return process;
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

enum hold {
	NOT_HELD,
	HELD_TILL_EXEC,
	HELD
};

/* What one line-wise fdinfo file says of the file `ino`. */
static enum hold read_descriptor(int dir, const char *name, uint64_t ino)
{
	int fd CLEANUP(close_fd) = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	unsigned long flags;
	const char *at;

	if (n <= 0)
		return NOT_HELD;
	text[n] = '\0';
	at = strstr(text, "\nino:\t");
	if (!at || strtoull(at + 6, NULL, 10) != ino)
		return NOT_HELD;
	at = strstr(text, "flags:\t");
	flags = at ? strtoul(at + 7, NULL, 8) : O_RDWR;
	if ((flags & O_ACCMODE) == O_RDONLY || flags & O_PATH)
		return NOT_HELD;
	return flags & O_CLOEXEC ? HELD_TILL_EXEC : HELD;
}

/* `fdinfo` is a path of a folder beneath `dir`. *count gets the number of descriptors there. */
static enum hold read_table(struct tdfs_look *look, int dir, const char *fdinfo, size_t *count)
{
	DIR *stream CLEANUP(close_dir) = open_dir(dir, fdinfo);
	enum hold most = NOT_HELD;
	struct dirent *entry;

	*count = 0;
	atomic_fetch_add(&look->steps, 1);
	if (!stream) {
		if (errno == EACCES || errno == EPERM || errno == EMFILE || errno == ENFILE)
			look->blind = true;
		return NOT_HELD;
	}
	errno = 0;
	while (most < HELD && (entry = readdir(stream))) {
		enum hold one;

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
static enum hold process_holds(struct tdfs_look *look, int dir)
{
	size_t count;
	enum hold most = read_table(look, dir, "fdinfo", &count);
	DIR *tasks CLEANUP(close_dir) = NULL;
	struct dirent *entry;

	if (count > 0 || most != NOT_HELD)
		return most;
	tasks = open_dir(dir, "task");
	while (tasks && most == NOT_HELD && (entry = readdir(tasks))) {
		char path[300];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "task/%s/fdinfo", entry->d_name);
		most = read_table(look, dir, path, &count);
	}
	return most;
}

/* ---- Looking ------------------------------------------------------------------------------ */

/* Whom one look has seen already. */
struct sight {
	struct tdfs_look *look;
	size_t count, room;
	pid_t *seen;
	enum hold most;
};

static bool see_first(struct sight *sight, pid_t process)
{
	for (size_t i = 0; i < sight->count; i++)
		if (sight->seen[i] == process)
			return false;
	if (sight->count == sight->room) {
		size_t room = sight->room ? 2 * sight->room : 64;
		pid_t *seen = realloc(sight->seen, room * sizeof *seen);

		if (!seen)
			return true;
		sight->seen = seen;
		sight->room = room;
	}
	sight->seen[sight->count++] = process;
	return true;
}

/* `near`: a process that is not on its way to exec with a descriptor it merely inherited: one that
 * opened the file or wrote to it, or the closer, which cannot go on before it has our answer. */
static void see_process(struct sight *sight, pid_t process, int dir, bool near)
{
	struct tdfs_look *look = sight->look;
	enum hold one;

	one = process_holds(look, dir);
	if (process == look->aside) {
		look->aside_holds = one != NOT_HELD;
		return;
	}
	if (one == HELD_TILL_EXEC && near)
		one = HELD;
	if (one > sight->most)
		sight->most = one;
}

static void see_children(struct sight *sight, int dir)
{
	DIR *tasks CLEANUP(close_dir) = open_dir(dir, "task");
	struct dirent *entry;

	while (tasks && sight->most < HELD && (entry = readdir(tasks))) {
		char path[300];
		FILE *file CLEANUP(close_file) = NULL;
		int child;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/children", entry->d_name);
		file = open_text(dirfd(tasks), path);
		if (!file) {
			/* A kernel that keeps no such list. */
			if (errno == ENOENT && faccessat(dirfd(tasks), entry->d_name, F_OK, 0) == 0)
				sight->look->everyone = true;
			continue;
		}
		while (sight->most < HELD && fscanf(file, "%d", &child) == 1) {
			int fd CLEANUP(close_fd) = -1;

			if (child <= 0 || !see_first(sight, child))
				continue;
			fd = open_process(child);
			if (fd < 0)
				continue;
			see_process(sight, child, fd, false);
			see_children(sight, fd);
		}
	}
}

static void see_everyone(struct sight *sight)
{
	DIR *proc CLEANUP(close_dir) = open_dir(AT_FDCWD, "/proc");
	struct dirent *entry;

	bool blind = sight->look->blind;

	if (!proc)
		blind = true;
	while (proc && sight->most < HELD && (entry = readdir(proc))) {
		pid_t process = parse_pid(entry->d_name);
		int dir CLEANUP(close_fd) = -1;

		if (process <= 0 || !see_first(sight, process))
			continue;
		dir = open_process(process);
		if (dir >= 0)
			see_process(sight, process, dir, false);
	}
	/* Strangers that hide are no news: where the daemon is not root, most do. */
	sight->look->blind = blind;
}

static void note_killed(struct tdfs_look *look, const struct status *status, int dir)
{
	int signal = killing_signal(dir);

	if (signal == 0 || look->n_killed == TDFS_KILLED_MAX)
		return;
	for (size_t i = 0; i < look->n_killed; i++)
		if (look->killed[i].process == status->process)
			return;
	look->killed[look->n_killed].process = status->process;
	look->killed[look->n_killed].signal = signal;
	memcpy(look->killed[look->n_killed].name, status->name, sizeof status->name);
	look->n_killed++;
}

/* The thread that closes: its process, and whether that is being killed. */
static void see_closer(struct tdfs_look *look, struct status *status)
{
	int dir CLEANUP(close_fd) = look->closer > 0 ? open_process(look->closer) : -1;

	if (dir < 0 || !read_status(dir, status)) {
		look->blind = true;
		return;
	}
	look->closing = status->process;
	if (!status->alive)
		note_killed(look, status, dir);
}

/* Whether it is no more, or so near its end that it has no descriptors. */
static bool is_over(struct tdfs_look *look, struct tdfs_suspect *suspect)
{
	struct status status;
	size_t count;
	int dir;

	if (!suspect->process)
		suspect->process = tdfs_process_find(suspect->tid);
	if (!suspect->process || !read_status(suspect->process->dir, &status))
		return true;
	/* A first thread that has ended is a zombie while the others live. */
	if (status.alive || (status.state == 'Z' && status.threads > 1))
		return false;
	if (status.state == 'Z' || status.state == 'X')
		return true; /* it has had its last FLUSH */
	/* On its way out. As long as it has descriptors they tell, as those of any other do; after
	 * that, a FLUSH of it may be about to come that makes all the difference. */
	dir = suspect->process->dir;
	(void)read_table(look, dir, "fdinfo", &count);
	if (count > 0)
		return false;
	note_killed(look, &status, dir);
	return true;
}

static void see_suspect(struct tdfs_look *look, struct tdfs_suspect *suspect)
{
	suspect->ended = is_over(look, suspect);
	if (suspect->ended && !suspect->clean &&
	    !(suspect->process && suspect->process->id == look->closing))
		look->everyone = true;
}

/*
 * The closer and what descends from it, first. When it exits, it still has its children while it
 * closes its files, so even then this is all there is to see of it; only where it had several
 * threads may those that ended before have left children to init.
 */
static void see_nearest(struct sight *sight, const struct status *closer)
{
	struct tdfs_look *look = sight->look;
	int dir CLEANUP(close_fd) = -1;

	if (look->closing <= 0 || !see_first(sight, look->closing))
		return;
	dir = open_process(look->closing);
	if (dir >= 0) {
		see_process(sight, look->closing, dir, true);
		see_children(sight, dir);
	}
	look->clean = dir >= 0 && sight->most == NOT_HELD &&
		      (closer->alive || (closer->threads == 1 && look->closer == look->closing));
	if (!closer->alive && !look->clean)
		look->everyone = true;
}

bool tdfs_proc_is_ours(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof text - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return parse_pid(text) == getpid();
}

void tdfs_look(struct tdfs_look *look)
{
	struct sight sight = { .look = look };
	struct status closer = { 0 };
	struct tdfs_process *besides;

	if (look->closer >= 0)
		see_closer(look, &closer);
	besides = look->besides > 0 ? tdfs_process_find(look->besides) : NULL;
	if (besides)
		look->aside = besides->id;
	for (size_t i = 0; i < look->count; i++)
		see_suspect(look, &look->suspects[i]);
	if (besides && look->ino != 0 && see_first(&sight, besides->id))
		see_process(&sight, besides->id, besides->dir, true);
	tdfs_process_unref(besides);
	if (look->ino == 0)
		return;

	/* Those nearest first: whoever is found to hold it ends the search. */
	see_nearest(&sight, &closer);
	for (size_t i = 0; i < look->count && sight.most < HELD; i++) {
		struct tdfs_suspect *one = &look->suspects[i];

		if (one->ended || !see_first(&sight, one->process->id))
			continue;
		see_process(&sight, one->process->id, one->process->dir, true);
		/* It has nothing, or had already begun to close what it has. */
		if (sight.most < HELD)
			see_suspect(look, one);
	}
	for (size_t i = 0; i < look->count && sight.most < HELD; i++)
		if (!look->suspects[i].ended)
			see_children(&sight, look->suspects[i].process->dir);
	if (look->everyone && sight.most < HELD)
		see_everyone(&sight);
	free(sight.seen);
	look->held = sight.most != NOT_HELD;
	look->till_exec = sight.most == HELD_TILL_EXEC;
}

void tdfs_look_clear(struct tdfs_look *look)
{
	for (size_t i = 0; i < look->count; i++)
		tdfs_process_unref(look->suspects[i].process);
	free(look->suspects);
	look->suspects = NULL;
	look->count = 0;
}
