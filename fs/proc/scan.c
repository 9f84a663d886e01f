/* SPDX-License-Identifier: MIT */
/*
 * Who holds a file open for writing, and which writers are being killed: whom to look at, in which
 * order, and when that is enough. Knows nothing of FUSE, of names or of commits.
 */
#include "proc/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "proc/process.h"

#define STRANGER_MS	1000 /* of processor time, for all processes of another user together */
#define SWALLOWED_MAX	64u
#define SWALLOWED_USER	16u /* by one user's processes; then no other of his is scanned */
#define SWALLOWED_OTHER 3u  /* nor for the sake of somebody else's file */

#define GIVEN_ONCE 300	/* smaller numbers the kernel gives in the first round only */
#define BEGUN_MS   1000 /* so old may the count of all that have begun be */

/* Whose descriptors are read, and what that process is to the file. */
enum kin {
	OWN,   /* it opened the file, wrote to it, or closes it */
	CHILD, /* or descends from one that did */
	ANYONE
};

/* What the processes of a user have cost who has nothing to do with the file. */
struct cost {
	uid_t uid;
	int64_t ms;
};

/* Whom one look has seen already, and whose children it has yet to see. */
struct sight {
	struct tdfs_look *look;
	size_t count, room, next; /* seen[next] and those behind: their children are to be seen */
	pid_t *seen;
	enum tdfs_hold most;
	struct cost costs[64];
	unsigned n_costs;
};

/* ---- Those that swallow ------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	unsigned count;
	struct swallowed {
		const struct tdfs_look *look; /* that does not come back */
		pid_t process;
		uint64_t unique;
		uid_t uid;
	} all[SWALLOWED_MAX];
} swallowed = { .lock = PTHREAD_MUTEX_INITIALIZER };

void tdfs_scan_lost(const struct tdfs_look *look)
{
	pid_t id = atomic_load(&look->at);
	struct swallowed one = { .look = look, .process = id };
	struct tdfs_status status;
	struct tdfs_process *process;

	if (id <= 0)
		return;
	process = tdfs_proc_find(id, &status);
	if (process) {
		one.unique = process->unique;
		one.uid = status.uid;
	}
	tdfs_process_unref(process);
	pthread_mutex_lock(&swallowed.lock);
	if (swallowed.count < SWALLOWED_MAX)
		swallowed.all[swallowed.count++] = one;
	pthread_mutex_unlock(&swallowed.lock);
}

void tdfs_scan_back(const struct tdfs_look *look)
{
	pthread_mutex_lock(&swallowed.lock);
	for (unsigned i = 0; i < swallowed.count; i++) {
		if (swallowed.all[i].look != look)
			continue;
		swallowed.all[i] = swallowed.all[--swallowed.count];
		break;
	}
	pthread_mutex_unlock(&swallowed.lock);
}

/* Whether it must not be scanned. */
static bool is_swallower(pid_t id, int dir, enum kin kin)
{
	unsigned n, of_user = 0;
	struct swallowed all[SWALLOWED_MAX];
	struct tdfs_status status;

	pthread_mutex_lock(&swallowed.lock);
	n = swallowed.count;
	memcpy(all, swallowed.all, n * sizeof *all);
	pthread_mutex_unlock(&swallowed.lock);
	for (unsigned i = 0; i < n; i++) {
		struct tdfs_process known = { .id = id, .unique = all[i].unique };
		int same CLEANUP(tdfs_close_fd) = -1;

		if (all[i].process != id)
			continue;
		same = tdfs_proc_open_same(&known);
		if (same >= 0)
			return true;
	}
	if (n < SWALLOWED_OTHER || !tdfs_proc_status(dir, &status))
		return false;
	for (unsigned i = 0; i < n; i++)
		of_user += all[i].uid == status.uid;
	return of_user >= (kin == ANYONE ? SWALLOWED_OTHER : SWALLOWED_USER);
}

/* ---- One process -------------------------------------------------------------------------- */

/* To see its children later, too. False: it was seen already. */
static bool see_first(struct sight *sight, pid_t process)
{
	if (process == sight->look->self)
		return false;
	for (size_t i = 0; i < sight->count; i++)
		if (sight->seen[i] == process)
			return false;
	if (sight->count == sight->room) {
		size_t room = sight->room ? 2 * sight->room : 64;
		pid_t *seen = realloc(sight->seen, room * sizeof *seen);

		if (!seen) {
			sight->look->blind = true;
			return false;
		}
		sight->seen = seen;
		sight->room = room;
	}
	sight->seen[sight->count++] = process;
	return true;
}

/* -1 where it is not there (any more), or where descriptors are short, which is noted. */
static int open_process(struct tdfs_look *look, pid_t id)
{
	int dir = tdfs_proc_open(id);

	if (dir < 0 && tdfs_proc_is_short(errno))
		look->blind = true;
	return dir;
}

static int open_same(struct tdfs_look *look, const struct tdfs_process *process)
{
	int dir = tdfs_proc_open_same(process);

	if (dir < 0 && tdfs_proc_is_short(errno))
		look->blind = true;
	return dir;
}

static bool is_user(const struct tdfs_look *look, uid_t uid)
{
	for (unsigned i = 0; i < look->n_users && i < TDFS_USERS_MAX; i++)
		if (look->users[i] == uid)
			return true;
	return look->n_users > TDFS_USERS_MAX;
}

static int64_t steady_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- What began before -------------------------------------------------------------------- */

/* Those that were there at the beginning; constant from then on. */
static struct {
	size_t count;
	struct first {
		pid_t process;
		uint64_t unique;
	} * all;
} firsts;

static int compare_first(const void *left, const void *right)
{
	const struct first *a = left, *b = right;

	return (a->process > b->process) - (a->process < b->process);
}

void tdfs_scan_begin(void)
{
	DIR *proc CLEANUP(tdfs_close_dir) = tdfs_proc_dir(AT_FDCWD, "/proc");
	struct dirent *entry;
	size_t room = 0;

	firsts.count = 0;
	while (proc && (entry = readdir(proc))) {
		struct first one = { .process = tdfs_parse_pid(entry->d_name) };

		one.unique = one.process > 0 ? tdfs_proc_unique(one.process) : 0;
		if (one.unique == 0)
			continue;
		if (firsts.count == room) {
			struct first *all = realloc(firsts.all, (room + 256) * sizeof *all);

			if (!all)
				break;
			firsts.all = all;
			room += 256;
		}
		firsts.all[firsts.count++] = one;
	}
	/* A kernel that has one number for all does not tell them apart. */
	if (firsts.count < 2 || firsts.all[0].unique == firsts.all[1].unique)
		firsts.count = 0;
	if (firsts.count > 0)
		qsort(firsts.all, firsts.count, sizeof *firsts.all, compare_first);
}

static bool is_first(pid_t id)
{
	struct first key = { .process = id };
	const struct first *first = firsts.count == 0 ? NULL
						      : bsearch(&key, firsts.all, firsts.count,
								sizeof key, compare_first);

	return first && tdfs_proc_unique(id) == first->unique;
}

/* How many threads were ever begun, each of which has taken a number; 0: not known. */
static uint64_t count_begun(void)
{
	char *text CLEANUP(tdfs_free_text) = tdfs_proc_text(AT_FDCWD, "/proc/stat");
	const char *at = text ? strstr(text, "\nprocesses ") : NULL;

	return at ? strtoull(at + 11, NULL, 10) : 0;
}

/* Numbers are given in a circle, leaving out those in use. Where the kernel does not count: nothing
 * forks more than some twenty times in a ms. */
static bool may_have_come_round(const struct tdfs_moment *then, const struct tdfs_moment *now)
{
	char *text CLEANUP(tdfs_free_text) = tdfs_proc_text(AT_FDCWD, "/proc/sys/kernel/pid_max");
	uint64_t round = text ? strtoull(text, NULL, 10) : 0;

	if (then->begun > 0 && now->begun >= then->begun)
		return now->begun - then->begun >= round / 2;
	return now->time - then->time >= (int64_t)round / 20;
}

static bool may_have_begun_since(const struct tdfs_look *look, pid_t id)
{
	int fd CLEANUP(tdfs_close_fd) = -1;
	struct tdfs_moment now;
	pid_t then = look->since.last;

	if (id == 1 || (id < GIVEN_ONCE && then >= GIVEN_ONCE) || is_first(id))
		return false;
	fd = tdfs_moment_open();
	now = tdfs_moment(fd, steady_ms());
	now.begun = count_begun();
	if (then <= 0 || now.last <= 0 || may_have_come_round(&look->since, &now))
		return true;
	return then <= now.last ? then < id && id <= now.last : then < id || id <= now.last;
}

/* ---- Gaps --------------------------------------------------------------------------------- */

static void name_process(struct tdfs_seen *seen, pid_t id, int dir)
{
	struct tdfs_status status;

	if (seen->process != 0)
		return;
	seen->process = id;
	if (tdfs_proc_status(dir, &status))
		memcpy(seen->name, status.name, sizeof seen->name);
}

/* Its descriptors are not all known: does that matter? */
static void note_gap(struct tdfs_look *look, pid_t id, int dir, enum kin kin, enum tdfs_gap gap)
{
	struct tdfs_status status;

	if (gap == TDFS_SHORT) {
		look->blind = true;
		return;
	}
	if (id == look->closing && gap == TDFS_FORBIDDEN) {
		look->unwatched = true;
		return;
	}
	if (kin != OWN && !may_have_begun_since(look, id))
		return;
	if (kin == ANYONE && (!tdfs_proc_status(dir, &status) || !is_user(look, status.uid)))
		return;
	name_process(&look->hidden, id, dir);
}

/* Of kin OWN a descriptor that an exec will close counts like any other: the closer cannot go on
 * before it has our answer, and who opened or wrote a file is not on its way to exec with a
 * descriptor it merely inherited. */
static void see_process(struct sight *sight, pid_t process, int dir, enum kin kin)
{
	struct tdfs_look *look = sight->look;
	enum tdfs_hold one = TDFS_NOT_HELD;
	enum tdfs_gap gap = TDFS_SWALLOWS;

	if (!is_swallower(process, dir, kin)) {
		atomic_store(&look->at, process);
		one = tdfs_proc_holds(look, dir, &gap);
		atomic_store(&look->at, 0);
	}
	if (process == look->aside) {
		look->aside_holds = one != TDFS_NOT_HELD;
		return;
	}
	if (one != TDFS_HELD && gap != TDFS_NO_GAP)
		note_gap(look, process, dir, kin, gap);
	if (one != TDFS_NOT_HELD)
		name_process(&look->holder, process, dir);
	if (one == TDFS_HELD_TILL_EXEC && kin == OWN)
		one = TDFS_HELD;
	if (one > sight->most)
		sight->most = one;
}

/* ---- Families ----------------------------------------------------------------------------- */

static bool is_done(const struct sight *sight)
{
	return sight->most == TDFS_HELD || sight->look->unwatched;
}

static void see_child(struct sight *sight, pid_t child)
{
	int dir CLEANUP(tdfs_close_fd) = -1;

	if (child <= 0 || !see_first(sight, child))
		return;
	dir = open_process(sight->look, child);
	if (dir >= 0)
		see_process(sight, child, dir, CHILD);
}

/* The children that one thread has begun. */
static void see_children_of(struct sight *sight, int tasks, const char *tid)
{
	char path[300];
	char *text CLEANUP(tdfs_free_text) = NULL;

	snprintf(path, sizeof path, "%s/children", tid);
	text = tdfs_proc_text(tasks, path);
	atomic_fetch_add(&sight->look->steps, 1);
	if (!text && tdfs_proc_is_short(errno))
		sight->look->blind = true;
	else if (!text && errno == ENOENT && faccessat(tasks, tid, F_OK, 0) == 0)
		sight->look->everyone = true; /* a kernel that keeps no such list */
	for (char *at = text, *end; at && !is_done(sight); at = end) {
		pid_t child = (pid_t)strtol(at, &end, 10);

		if (end == at)
			break;
		see_child(sight, child);
	}
}

static void see_children(struct sight *sight, pid_t process)
{
	int dir CLEANUP(tdfs_close_fd) = open_process(sight->look, process);
	DIR *tasks CLEANUP(tdfs_close_dir) = dir < 0 ? NULL : tdfs_proc_dir(dir, "task");
	struct dirent *entry;

	if (dir >= 0 && !tasks && tdfs_proc_is_short(errno))
		sight->look->blind = true;
	while (tasks && !is_done(sight) && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			see_children_of(sight, dirfd(tasks), entry->d_name);
}

/* The children of all that have been seen, and theirs. */
static void see_descendants(struct sight *sight)
{
	while (sight->next < sight->count && !is_done(sight))
		see_children(sight, sight->seen[sight->next++]);
}

/* ---- Everyone ----------------------------------------------------------------------------- */

/* NULL: for a user's own file no effort is too much. */
static struct cost *cost_of(struct sight *sight, int dir)
{
	struct tdfs_status status;
	struct stat st;

	if (fstat(dir, &st) != 0 || is_user(sight->look, st.st_uid))
		return NULL;
	/* Of those who hide it is root's. */
	if (st.st_uid == 0 && (!tdfs_proc_status(dir, &status) || status.uid == 0))
		return NULL;
	if (st.st_uid == 0)
		st.st_uid = status.uid;
	for (unsigned i = 0; i < sight->n_costs; i++)
		if (sight->costs[i].uid == st.st_uid)
			return &sight->costs[i];
	if (sight->n_costs < sizeof sight->costs / sizeof *sight->costs)
		sight->costs[sight->n_costs++] = (struct cost){ .uid = st.st_uid };
	return &sight->costs[sight->n_costs - 1];
}

static int64_t processor_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void see_anyone(struct sight *sight, pid_t process)
{
	int dir CLEANUP(tdfs_close_fd) = open_process(sight->look, process);
	struct cost *cost = dir < 0 ? NULL : cost_of(sight, dir);
	int64_t began = processor_ms();

	if (dir < 0 || (cost && cost->ms >= STRANGER_MS))
		return;
	see_process(sight, process, dir, ANYONE);
	if (cost)
		cost->ms += processor_ms() - began;
}

static void see_everyone(struct sight *sight)
{
	DIR *proc CLEANUP(tdfs_close_dir) = tdfs_proc_dir(AT_FDCWD, "/proc");
	struct dirent *entry;

	if (!proc)
		sight->look->blind = true;
	while (proc && !is_done(sight) && (entry = readdir(proc))) {
		pid_t process = tdfs_parse_pid(entry->d_name);

		atomic_fetch_add(&sight->look->steps, 1);
		if (process > 0 && see_first(sight, process))
			see_anyone(sight, process);
	}
}

/* ---- The closer and the suspects ---------------------------------------------------------- */

static void note_killed(struct tdfs_look *look, const struct tdfs_status *status, int dir)
{
	int signal = tdfs_proc_signal(dir, status);

	if (signal == INT_MIN || look->n_killed == TDFS_KILLED_MAX)
		return;
	for (size_t i = 0; i < look->n_killed; i++)
		if (look->killed[i].process == status->process)
			return;
	look->killed[look->n_killed].process = status->process;
	look->killed[look->n_killed].signal = signal;
	memcpy(look->killed[look->n_killed].name, status->name, sizeof status->name);
	look->n_killed++;
}

/* Its process, and whether that is being killed. */
static void see_closer(struct tdfs_look *look, struct tdfs_status *status)
{
	int dir CLEANUP(tdfs_close_fd) = look->closer > 0 ? open_process(look, look->closer) : -1;

	if (dir < 0 || !tdfs_proc_status(dir, status)) {
		if (dir >= 0 && tdfs_proc_is_short(errno))
			look->blind = true;
		look->unwatched = !look->blind;
		return;
	}
	look->closing = status->process;
	if (!status->alive)
		note_killed(look, status, dir);
}

/* Whether it is no more, or so near its end that it has no descriptors. */
static bool is_over(struct tdfs_look *look, struct tdfs_suspect *suspect,
		    const struct tdfs_status *closer)
{
	struct tdfs_status status;
	int dir CLEANUP(tdfs_close_fd) = -1;

	if (!suspect->process) {
		suspect->process = tdfs_proc_find(suspect->tid, &status);
		if (!suspect->process) {
			look->blind |= tdfs_proc_is_short(errno);
			return true;
		}
	}
	dir = open_same(look, suspect->process);
	if (dir < 0)
		return true;
	if (suspect->process->id == look->closing)
		status = *closer;
	else if (!tdfs_proc_status(dir, &status))
		return true;
	/* A first thread that has ended is a zombie while the others live. */
	if (status.alive || (status.state == 'Z' && status.threads > 1))
		return false;
	if (status.state == 'Z' || status.state == 'X')
		return true; /* it has had its last FLUSH */
	/* On its way out. As long as it has descriptors they tell, as those of any other do; after
	 * that, a FLUSH of it may be about to come that makes all the difference. */
	if (tdfs_proc_count(dir) > 0)
		return false;
	note_killed(look, &status, dir);
	return true;
}

static void see_suspect(struct tdfs_look *look, struct tdfs_suspect *suspect,
			const struct tdfs_status *closer)
{
	suspect->ended = is_over(look, suspect, closer);
	if (suspect->ended && !suspect->clean &&
	    !(suspect->process && suspect->process->id == look->closing))
		look->everyone = true;
}

/*
 * The closer and what descends from it, first. When it exits, it still has its children while it
 * closes its files, so even then this is all there is to see of it; only where it had several
 * threads may those that ended before have left children to init.
 */
static void see_nearest(struct sight *sight, const struct tdfs_status *closer)
{
	struct tdfs_look *look = sight->look;
	int dir CLEANUP(tdfs_close_fd) = -1;

	if (look->closing <= 0 || !see_first(sight, look->closing))
		return;
	dir = open_process(look, look->closing);
	if (dir >= 0) {
		see_process(sight, look->closing, dir, OWN);
		see_descendants(sight);
	}
	look->clean = dir >= 0 && sight->most == TDFS_NOT_HELD && !look->blind &&
		      look->hidden.process == 0 &&
		      (closer->alive || (closer->threads == 1 && look->closer == look->closing));
	if (!closer->alive && !look->clean)
		look->everyone = true;
}

static void see_suspects(struct sight *sight, const struct tdfs_status *closer)
{
	struct tdfs_look *look = sight->look;

	for (size_t i = 0; i < look->count && !is_done(sight); i++) {
		struct tdfs_suspect *one = &look->suspects[i];
		int dir CLEANUP(tdfs_close_fd) = -1;

		if (one->ended || !see_first(sight, one->process->id))
			continue;
		dir = open_same(look, one->process);
		if (dir >= 0)
			see_process(sight, one->process->id, dir, OWN);
		/* It has nothing, or had already begun to close what it has. */
		if (sight->most < TDFS_HELD)
			see_suspect(look, one, closer);
	}
	see_descendants(sight);
}

/* Whoever opens it now; none of its family is asked for its sake. */
static void see_besides(struct sight *sight)
{
	struct tdfs_look *look = sight->look;
	struct tdfs_process *besides = look->besides > 0 ? tdfs_process_find(look->besides) : NULL;
	int dir CLEANUP(tdfs_close_fd) = besides ? open_same(look, besides) : -1;

	if (besides)
		look->aside = besides->id;
	if (dir >= 0 && look->ino != 0 && see_first(sight, besides->id)) {
		see_process(sight, besides->id, dir, OWN);
		sight->next = sight->count;
	}
	tdfs_process_unref(besides);
}

void tdfs_look(struct tdfs_look *look)
{
	struct sight sight = { .look = look };
	struct tdfs_status closer = { 0 };

	if (look->closer >= 0)
		see_closer(look, &closer);
	for (size_t i = 0; i < look->count; i++)
		see_suspect(look, &look->suspects[i], &closer);
	see_besides(&sight);
	if (look->ino == 0) {
		free(sight.seen);
		return;
	}
	/* Those nearest first: whoever is found to hold it ends the search. */
	if (!is_done(&sight))
		see_nearest(&sight, &closer);
	if (!is_done(&sight))
		see_suspects(&sight, &closer);
	if (look->everyone && !is_done(&sight))
		see_everyone(&sight);
	free(sight.seen);
	look->held = sight.most != TDFS_NOT_HELD;
	look->till_exec = sight.most == TDFS_HELD_TILL_EXEC;
}

void tdfs_look_clear(struct tdfs_look *look)
{
	for (size_t i = 0; i < look->count; i++)
		tdfs_process_unref(look->suspects[i].process);
	free(look->suspects);
	look->suspects = NULL;
	look->count = 0;
}

/* ---- What this machine shows -------------------------------------------------------------- */

bool tdfs_proc_is_ours(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof text - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return tdfs_parse_pid(text) == getpid();
}

int tdfs_moment_open(void)
{
	return open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
}

/* Counting takes longer than the rest, above all where there are many processors: what was counted
 * a little earlier will do, for it makes nothing seem older than it is. */
static uint64_t counted_begun(int64_t now)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int64_t time;
	static uint64_t begun;
	uint64_t counted;

	pthread_mutex_lock(&lock);
	if (begun == 0 || now < time || now - time > BEGUN_MS) {
		begun = count_begun();
		time = now;
	}
	counted = begun;
	pthread_mutex_unlock(&lock);
	return counted;
}

struct tdfs_moment tdfs_moment(int fd, int64_t now)
{
	struct tdfs_moment moment = { .time = now, .begun = counted_begun(now) };
	char text[128];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
	const char *last;

	text[n > 0 ? n : 0] = '\0';
	last = strrchr(text, ' ');
	if (last)
		moment.last = (pid_t)strtol(last, NULL, 10);
	return moment;
}

/* ThreadSanitizer takes the same number in two tables for the same file. */
#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define ONE_TABLE
#endif
#elif defined __SANITIZE_THREAD__
#define ONE_TABLE
#endif

void tdfs_scan_thread(void)
{
#ifndef ONE_TABLE
	(void)close_range(3, ~0u, CLOSE_RANGE_UNSHARE);
#endif
}

/* CAP_SYS_PTRACE, which a root that has given it up lacks. */
bool tdfs_sees_others(void)
{
	char *text CLEANUP(tdfs_free_text) = tdfs_proc_text(AT_FDCWD, "/proc/self/status");
	const char *at = text ? strstr(text, "\nCapEff:\t") : NULL;

	return at && strtoull(at + 9, NULL, 16) >> 19 & 1;
}
