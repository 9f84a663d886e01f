/* SPDX-License-Identifier: MIT */
/*
 * Reading one process in /proc: its status, the signal it dies of, its descriptors. Knows nothing
 * of who is asked about, or why.
 */
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define KERNEL_PF_EXITING  0x4u
#define KERNEL_PF_DUMPCORE 0x200u
#define KERNEL_PF_SIGNALED 0x400u

/* A descriptor that is read in so many ms was waited for, and a process may have so much of that:
 * who is slow with each of thousands would otherwise hold up a scan for hours. */
#define SLOW_MS	    5
#define SLOW_ALL_MS 500
/* Threads are told to share their descriptors by the names of those, up to so many of them; beyond
 * by how many they have. */
#define COMPARED_MAX 32u

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

bool tdfs_proc_is_short(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM;
}

uint64_t tdfs_proc_unique(pid_t id)
{
	int fd CLEANUP(tdl__close_at) = (int)syscall(SYS_pidfd_open, id, 0);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

int tdfs_proc_open_same(const struct tdfs_process *process)
{
	int dir = tdfs_proc_open(process->id);
	uint64_t unique = dir >= 0 && process->unique != 0 ? tdfs_proc_unique(process->id) : 0;

	if (unique == 0 || unique == process->unique)
		return dir;
	close(dir);
	errno = ESRCH;
	return -1;
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
	int fd CLEANUP(tdl__close_at) = openat(dir, name, O_RDONLY | O_CLOEXEC);
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
				errno = ENOMEM;
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

static void copy_name(char name[32], const char *value)
{
	size_t n = strcspn(value, "\n");

	if (n > 31)
		n = 31;
	for (size_t i = 0; i < n; i++)
		name[i] = value[i] >= ' ' && value[i] < 0x7f ? value[i] : '?';
	name[n] = '\0';
}

bool tdfs_proc_status(int dir, struct tdfs_status *status)
{
	char *text CLEANUP(tdl__free_at) = tdfs_proc_text(dir, "status");
	uint64_t own = 0, shared = 0, kept = 0;

	memset(status, 0, sizeof *status);
	if (!text)
		return false;
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *value;

		if ((value = value_of(line, "Name")))
			copy_name(status->name, value);
		else if ((value = value_of(line, "Tgid")))
			status->process = (pid_t)strtol(value, NULL, 10);
		else if ((value = value_of(line, "Uid")))
			status->uid = (uid_t)strtoul(value, NULL, 10);
		else if ((value = value_of(line, "State")))
			status->state = *value;
		else if ((value = value_of(line, "Threads")))
			status->threads = (unsigned)strtoul(value, NULL, 10);
		else if ((value = value_of(line, "SigPnd")))
			own = strtoull(value, NULL, 16);
		else if ((value = value_of(line, "ShdPnd")))
			shared = strtoull(value, NULL, 16);
		else if ((value = value_of(line, "SigBlk")) || (value = value_of(line, "SigIgn")) ||
			 (value = value_of(line, "SigCgt")))
			kept |= strtoull(value, NULL, 16);
		else if (value_of(line, "VmSize"))
			status->alive = true;
	}
	/* Of its own, a thread gets SIGKILL from another one that ends well, too. */
	status->pending = ((own & ~(UINT64_C(1) << 8)) | shared) & ~kept;
	return status->process > 0;
}

/* How a process ends whose exit code is not for us to read. Each thread that a signal ends carries
 * a flag that everybody may see; but so do those that another thread's exit() ends. */
static int guess_signal(unsigned long flags, const struct tdfs_status *status)
{
	int dir CLEANUP(tdl__close_at) = -1;
	char *text CLEANUP(tdl__free_at) = NULL;
	const char *at;

	if (!(flags & KERNEL_PF_SIGNALED))
		return INT_MIN;
	if (status->pending != 0)
		return __builtin_ctzll(status->pending) + 1;
	if (flags & KERNEL_PF_DUMPCORE)
		return 0;
	/* The first thread stays to the end: was it that one's exit()? */
	dir = tdfs_proc_open(status->process);
	text = dir >= 0 ? tdfs_proc_text(dir, "stat") : NULL;
	at = text ? strrchr(text, ')') : NULL;
	if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
	    flags & KERNEL_PF_EXITING && !(flags & KERNEL_PF_SIGNALED))
		return INT_MIN;
	return -1;
}

int tdfs_proc_signal(int dir, const struct tdfs_status *status)
{
	char *text CLEANUP(tdl__free_at) = tdfs_proc_text(dir, "stat");
	int fdinfo CLEANUP(tdl__close_at) = -1;
	unsigned long flags = 0, code = 0;
	char *at;

	if (!text)
		return errno == ENOENT || errno == ESRCH ? INT_MIN : -1;
	/* The program's name, in parentheses, may hold anything; behind it one letter, then
	 * numbers. */
	at = strrchr(text, ')');
	if (!at)
		return -1;
	at = strlen(at) > 3 ? at + 3 : at + strlen(at);
	for (int field = 4; field <= 52 && *at; field++) {
		char *end;
		unsigned long value;

		value = strtoul(at, &end, 10);
		if (end == at)
			return -1;
		if (field == 9)
			flags = value;
		if (field == 52)
			code = value;
		at = end;
	}
	if (!(flags & KERNEL_PF_EXITING))
		return INT_MIN;
	if (code & 0x7f)
		return (int)(code & 0x7f);
	/* A nought, or one in place of what we must not see: the same right is asked for here. */
	fdinfo = openat(dir, "fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fdinfo < 0 && (errno == EACCES || errno == EPERM))
		return guess_signal(flags, status);
	return INT_MIN;
}

struct tdfs_process *tdfs_proc_of(pid_t id)
{
	struct tdfs_process *process = malloc(sizeof *process);

	if (!process)
		return NULL;
	atomic_init(&process->refs, 1);
	process->id = id;
	process->unique = tdfs_proc_unique(id);
	return process;
}

struct tdfs_process *tdfs_proc_find(pid_t tid, struct tdfs_status *status)
{
	int dir CLEANUP(tdl__close_at) = tid > 0 ? tdfs_proc_open(tid) : -1;

	if (dir < 0 || !tdfs_proc_status(dir, status))
		return NULL;
	if (status->process != tid) {
		pid_t id = status->process;

		close(dir);
		dir = tdfs_proc_open(id);
		if (dir < 0 || !tdfs_proc_status(dir, status) || status->process != id)
			return NULL;
	}
	return tdfs_proc_of(status->process);
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
	free(process);
}

pid_t tdfs_process_id(const struct tdfs_process *process)
{
	return process->id;
}

/* ---- Descriptors -------------------------------------------------------------------------- */

/* How long one process makes us wait. */
struct pace {
	long switches;	/* that we asked for ourselves, by waiting */
	int64_t queued; /* ms for a processor; -1: not asked yet */
	int64_t waited;
};

static int64_t steady_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static long switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

/* How long this thread has waited for a processor in its life; 0 where the kernel does not count.
 */
static int64_t queued_ms(void)
{
	char *text CLEANUP(tdl__free_at) = tdfs_proc_text(AT_FDCWD, "/proc/thread-self/schedstat");
	uint64_t ran, queued;

	return text && sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &queued) == 2
		       ? (int64_t)(queued / 1000000)
		       : 0;
}

/* False: it has made us wait for too long. A thread that has no processor does not wait for it,
 * neither before a wait nor after. */
static bool keep_pace(struct pace *pace, int64_t began)
{
	int64_t took = steady_ms() - began, queued;
	long now;

	if (took < SLOW_MS)
		return true;
	now = switches();
	if (now == pace->switches)
		return true;
	pace->switches = now;
	queued = queued_ms();
	/* The first time there is nothing yet to compare with. */
	if (pace->queued >= 0 || queued == 0) {
		took -= pace->queued >= 0 ? queued - pace->queued : 0;
		pace->waited += took > 0 ? took : 0;
	}
	pace->queued = queued;
	return pace->waited < SLOW_ALL_MS;
}

/* On kernels of 32 bits inode numbers are folded into as many, and shown so. */
static bool is_ino(const char *text, uint64_t ino)
{
	uint64_t shown = strtoull(text, NULL, 10);

	return shown == ino || (sizeof(long) == 4 && shown == (uint32_t)(ino ^ ino >> 32));
}

/* What one line-wise fdinfo file says of the file `ino`. */
static enum tdfs_hold read_descriptor(int dir, const char *name, uint64_t ino, enum tdfs_gap *gap)
{
	int fd CLEANUP(tdl__close_at) = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	unsigned long flags;
	const char *at;

	if (n < 0 && tdfs_proc_is_short(errno))
		*gap = TDFS_SHORT;
	if (n <= 0)
		return TDFS_NOT_HELD;
	text[n] = '\0';
	at = strstr(text, "\nino:\t");
	if (!at || !is_ino(at + 6, ino))
		return TDFS_NOT_HELD;
	at = strstr(text, "flags:\t");
	flags = at ? strtoul(at + 7, NULL, 8) : O_RDWR;
	if ((flags & O_ACCMODE) == O_RDONLY || flags & O_PATH)
		return TDFS_NOT_HELD;
	return flags & O_CLOEXEC ? TDFS_HELD_TILL_EXEC : TDFS_HELD;
}

static enum tdfs_gap gap_of(int err)
{
	if (err == EACCES || err == EPERM)
		return TDFS_FORBIDDEN;
	return tdfs_proc_is_short(err) ? TDFS_SHORT : TDFS_NO_GAP;
}

/* The descriptors that a folder lists, without a word of what they are. */
struct listing {
	size_t count;
	uint64_t names;
};

static void list_name(struct listing *listing, const char *name)
{
	listing->count++;
	listing->names += (strtoull(name, NULL, 10) + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* `fdinfo` is the path of a folder beneath `dir`. */
static enum tdfs_hold read_table(struct tdfs_scan *scan, int dir, const char *fdinfo,
				 struct listing *listing, enum tdfs_gap *gap)
{
	DIR *stream CLEANUP(tdfs_close_dir) = tdfs_proc_dir(dir, fdinfo);
	struct pace pace = { .switches = switches(), .queued = -1 };
	enum tdfs_hold most = TDFS_NOT_HELD;
	struct dirent *entry;

	*listing = (struct listing){ 0 };
	if (!stream) {
		*gap = gap_of(errno);
		return TDFS_NOT_HELD;
	}
	while (most < TDFS_HELD && (errno = 0, entry = readdir(stream))) {
		int64_t began = steady_ms();
		enum tdfs_hold one;

		if (entry->d_name[0] == '.')
			continue;
		list_name(listing, entry->d_name);
		one = read_descriptor(dirfd(stream), entry->d_name, scan->ino, gap);
		if (one > most)
			most = one;
		atomic_fetch_add(&scan->steps, 1);
		if (!keep_pace(&pace, began)) {
			*gap = TDFS_SWALLOWS;
			break;
		}
	}
	if (!entry && errno != 0 && *gap == TDFS_NO_GAP)
		*gap = gap_of(errno);
	return most;
}

static bool list_table(int dir, const char *fdinfo, struct listing *listing)
{
	DIR *stream CLEANUP(tdfs_close_dir) = tdfs_proc_dir(dir, fdinfo);
	struct dirent *entry;

	*listing = (struct listing){ 0 };
	while (stream && (entry = readdir(stream)))
		if (entry->d_name[0] != '.')
			list_name(listing, entry->d_name);
	return stream != NULL;
}

size_t tdfs_proc_count(int dir)
{
	struct listing listing;

	(void)list_table(dir, "fdinfo", &listing);
	return listing.count;
}

/* Whether the thread has a table of its own. The kernel says so to nobody who could ask; but two
 * tables seldom have the same numbers in use, and never while one lacks a file that the other has
 * kept under its number. */
static bool has_own_table(int tasks, const char *tid, unsigned threads,
			  const struct listing *leader)
{
	char path[300];
	struct listing listing;
	struct stat st;

	if (threads > COMPARED_MAX) {
		/* Since 6.2 the size of the folder tells how many. */
		snprintf(path, sizeof path, "%s/fd", tid);
		return fstatat(tasks, path, &st, 0) == 0 && st.st_size > 0 &&
		       (size_t)st.st_size != leader->count;
	}
	snprintf(path, sizeof path, "%s/fdinfo", tid);
	return list_table(tasks, path, &listing) && listing.count > 0 &&
	       (listing.count != leader->count || listing.names != leader->names);
}

/*
 * The threads of a process share its descriptors, unless one has taken a table of its own
 * (unshare), or the first one has ended before the others and has none.
 */
enum tdfs_hold tdfs_proc_holds(struct tdfs_scan *scan, int dir, enum tdfs_gap *gap)
{
	struct listing leader, other;
	struct stat st;
	enum tdfs_hold most;
	DIR *tasks CLEANUP(tdfs_close_dir) = NULL;
	struct dirent *entry;
	unsigned threads;

	*gap = TDFS_NO_GAP;
	atomic_fetch_add(&scan->steps, 1);
	most = read_table(scan, dir, "fdinfo", &leader, gap);
	if (most == TDFS_HELD || *gap != TDFS_NO_GAP)
		return most;
	/* A folder has one link for each folder in it, and two. */
	if (fstatat(dir, "task", &st, 0) != 0 || st.st_nlink <= 3)
		return most;
	threads = (unsigned)st.st_nlink - 2;
	tasks = tdfs_proc_dir(dir, "task");
	if (!tasks)
		*gap = gap_of(errno);
	while (tasks && most < TDFS_HELD && *gap == TDFS_NO_GAP && (entry = readdir(tasks))) {
		char path[300];
		enum tdfs_hold one;

		if (entry->d_name[0] == '.')
			continue;
		atomic_fetch_add(&scan->steps, 1);
		if (leader.count > 0 &&
		    !has_own_table(dirfd(tasks), entry->d_name, threads, &leader))
			continue;
		snprintf(path, sizeof path, "task/%s/fdinfo", entry->d_name);
		one = read_table(scan, dir, path, &other, gap);
		if (one > most)
			most = one;
		/* Those that are left of a process whose first thread has ended share one. */
		if (leader.count == 0 && other.count > 0)
			leader = other;
	}
	return most;
}
