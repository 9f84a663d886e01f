/* SPDX-License-Identifier: MIT */
/*
 * Who holds a file open for writing, and which writers are being killed: which processes to scan,
 * in which order, and when that is enough. Knows nothing of FUSE, of names or of commits.
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

#define UNRELATED_MS	1000 /* of processor time, for all processes of another user together */
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

/* The processes that one scan has seen already, and those whose children it has yet to scan. */
struct search {
	struct tdfs_scan *scan;
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
		const struct tdfs_scan *scan; /* that does not come back */
		pid_t process;
		uint64_t unique;
		uid_t uid;
	} all[SWALLOWED_MAX];
} swallowed = { .lock = PTHREAD_MUTEX_INITIALIZER };

void tdfs_scan_lost(const struct tdfs_scan *scan)
{
	pid_t id = atomic_load(&scan->at);
	struct swallowed one = { .scan = scan, .process = id };
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

void tdfs_scan_back(const struct tdfs_scan *scan)
{
	pthread_mutex_lock(&swallowed.lock);
	for (unsigned i = 0; i < swallowed.count; i++) {
		if (swallowed.all[i].scan != scan)
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
		int same CLEANUP(tdl__close_at) = -1;

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
static bool mark_seen(struct search *search, pid_t process)
{
	if (process == search->scan->self)
		return false;
	for (size_t i = 0; i < search->count; i++)
		if (search->seen[i] == process)
			return false;
	if (search->count == search->room) {
		size_t room = search->room ? 2 * search->room : 64;
		pid_t *seen = realloc(search->seen, room * sizeof *seen);

		if (!seen) {
			search->scan->incomplete = true;
			return false;
		}
		search->seen = seen;
		search->room = room;
	}
	search->seen[search->count++] = process;
	return true;
}

/* -1 where it is not there (any more), or where descriptors are short, which is noted. */
static int open_process(struct tdfs_scan *scan, pid_t id)
{
	int dir = tdfs_proc_open(id);

	if (dir < 0 && tdfs_proc_is_short(errno))
		scan->incomplete = true;
	return dir;
}

static int open_same(struct tdfs_scan *scan, const struct tdfs_process *process)
{
	int dir = tdfs_proc_open_same(process);

	if (dir < 0 && tdfs_proc_is_short(errno))
		scan->incomplete = true;
	return dir;
}

static bool is_user(const struct tdfs_scan *scan, uid_t uid)
{
	for (unsigned i = 0; i < scan->n_users && i < TDFS_USERS_MAX; i++)
		if (scan->users[i] == uid)
			return true;
	return scan->n_users > TDFS_USERS_MAX;
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
	char *text CLEANUP(tdl__free_at) = tdfs_proc_text(AT_FDCWD, "/proc/stat");
	const char *at = text ? strstr(text, "\nprocesses ") : NULL;

	return at ? strtoull(at + 11, NULL, 10) : 0;
}

/* Numbers are given in a circle, leaving out those in use. Where the kernel does not count: nothing
 * forks more than some twenty times in a ms. */
static bool may_have_come_round(const struct tdfs_moment *then, const struct tdfs_moment *now)
{
	char *text CLEANUP(tdl__free_at) = tdfs_proc_text(AT_FDCWD, "/proc/sys/kernel/pid_max");
	uint64_t round = text ? strtoull(text, NULL, 10) : 0;

	if (then->begun > 0 && now->begun >= then->begun)
		return now->begun - then->begun >= round / 2;
	return now->time - then->time >= (int64_t)round / 20;
}

static bool may_have_begun_since(const struct tdfs_scan *scan, pid_t id)
{
	int fd CLEANUP(tdl__close_at) = -1;
	struct tdfs_moment now;
	pid_t then = scan->since.last;

	if (id == 1 || (id < GIVEN_ONCE && then >= GIVEN_ONCE) || is_first(id))
		return false;
	fd = tdfs_moment_open();
	now = tdfs_moment(fd, steady_ms());
	now.begun = count_begun();
	if (then <= 0 || now.last <= 0 || may_have_come_round(&scan->since, &now))
		return true;
	return then <= now.last ? then < id && id <= now.last : then < id || id <= now.last;
}

/* ---- Gaps --------------------------------------------------------------------------------- */

static void name_process(struct tdfs_named_process *seen, pid_t id, int dir)
{
	struct tdfs_status status;

	if (seen->process != 0)
		return;
	seen->process = id;
	if (tdfs_proc_status(dir, &status))
		memcpy(seen->name, status.name, sizeof seen->name);
}

/* Its descriptors are not all known: does that matter? */
static void add_gap(struct tdfs_scan *scan, pid_t id, int dir, enum kin kin, enum tdfs_gap gap)
{
	struct tdfs_status status;

	if (gap == TDFS_SHORT) {
		scan->incomplete = true;
		return;
	}
	if (id == scan->closing_process && gap == TDFS_FORBIDDEN) {
		scan->unwatched = true;
		return;
	}
	if (kin != OWN && !may_have_begun_since(scan, id))
		return;
	if (kin == ANYONE && (!tdfs_proc_status(dir, &status) || !is_user(scan, status.uid)))
		return;
	name_process(&scan->hidden, id, dir);
}

/* Of kin OWN a descriptor that an exec will close counts like any other: the closing process cannot
 * go on before it has our answer, and who opened or wrote a file is not on its way to exec with a
 * descriptor it merely inherited. */
static void scan_process(struct search *search, pid_t process, int dir, enum kin kin)
{
	struct tdfs_scan *scan = search->scan;
	enum tdfs_hold one = TDFS_NOT_HELD;
	enum tdfs_gap gap = TDFS_SWALLOWS;

	if (!is_swallower(process, dir, kin)) {
		atomic_store(&scan->at, process);
		one = tdfs_proc_holds(scan, dir, &gap);
		atomic_store(&scan->at, 0);
	}
	if (process == scan->excluded) {
		scan->excluded_holds = one != TDFS_NOT_HELD;
		return;
	}
	if (one != TDFS_HELD && gap != TDFS_NO_GAP)
		add_gap(scan, process, dir, kin, gap);
	if (one != TDFS_NOT_HELD)
		name_process(&scan->holder, process, dir);
	if (one == TDFS_HELD_TILL_EXEC && kin == OWN)
		one = TDFS_HELD;
	if (one > search->most)
		search->most = one;
}

/* ---- Families ----------------------------------------------------------------------------- */

static bool is_done(const struct search *search)
{
	return search->most == TDFS_HELD || search->scan->unwatched;
}

static void scan_child(struct search *search, pid_t child)
{
	int dir CLEANUP(tdl__close_at) = -1;

	if (child <= 0 || !mark_seen(search, child))
		return;
	dir = open_process(search->scan, child);
	if (dir >= 0)
		scan_process(search, child, dir, CHILD);
}

/* The children that one thread has begun. */
static void scan_children_of_thread(struct search *search, int tasks, const char *tid)
{
	char path[300];
	char *text CLEANUP(tdl__free_at) = NULL;

	snprintf(path, sizeof path, "%s/children", tid);
	text = tdfs_proc_text(tasks, path);
	atomic_fetch_add(&search->scan->steps, 1);
	if (!text && tdfs_proc_is_short(errno))
		search->scan->incomplete = true;
	else if (!text && errno == ENOENT && faccessat(tasks, tid, F_OK, 0) == 0)
		search->scan->all_processes = true; /* a kernel that keeps no such list */
	for (char *at = text, *end; at && !is_done(search); at = end) {
		pid_t child = (pid_t)strtol(at, &end, 10);

		if (end == at)
			break;
		scan_child(search, child);
	}
}

static void scan_children(struct search *search, pid_t process)
{
	int dir CLEANUP(tdl__close_at) = open_process(search->scan, process);
	DIR *tasks CLEANUP(tdfs_close_dir) = dir < 0 ? NULL : tdfs_proc_dir(dir, "task");
	struct dirent *entry;

	if (dir >= 0 && !tasks && tdfs_proc_is_short(errno))
		search->scan->incomplete = true;
	while (tasks && !is_done(search) && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			scan_children_of_thread(search, dirfd(tasks), entry->d_name);
}

/* The children of all that have been seen, and theirs. */
static void scan_descendants(struct search *search)
{
	while (search->next < search->count && !is_done(search))
		scan_children(search, search->seen[search->next++]);
}

/* ---- All processes -----------------------------------------------------------------------------
 */

/* NULL: for a user's own file no effort is too much. */
static struct cost *cost_of(struct search *search, int dir)
{
	struct tdfs_status status;
	struct stat st;

	if (fstat(dir, &st) != 0 || is_user(search->scan, st.st_uid))
		return NULL;
	/* Of those who hide it is root's. */
	if (st.st_uid == 0 && (!tdfs_proc_status(dir, &status) || status.uid == 0))
		return NULL;
	if (st.st_uid == 0)
		st.st_uid = status.uid;
	for (unsigned i = 0; i < search->n_costs; i++)
		if (search->costs[i].uid == st.st_uid)
			return &search->costs[i];
	if (search->n_costs < sizeof search->costs / sizeof *search->costs)
		search->costs[search->n_costs++] = (struct cost){ .uid = st.st_uid };
	return &search->costs[search->n_costs - 1];
}

static int64_t processor_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void scan_unrelated(struct search *search, pid_t process)
{
	int dir CLEANUP(tdl__close_at) = open_process(search->scan, process);
	struct cost *cost = dir < 0 ? NULL : cost_of(search, dir);
	int64_t began = processor_ms();

	if (dir < 0 || (cost && cost->ms >= UNRELATED_MS))
		return;
	scan_process(search, process, dir, ANYONE);
	if (cost)
		cost->ms += processor_ms() - began;
}

static void scan_all_processes(struct search *search)
{
	DIR *proc CLEANUP(tdfs_close_dir) = tdfs_proc_dir(AT_FDCWD, "/proc");
	struct dirent *entry;

	if (!proc)
		search->scan->incomplete = true;
	while (proc && !is_done(search) && (entry = readdir(proc))) {
		pid_t process = tdfs_parse_pid(entry->d_name);

		atomic_fetch_add(&search->scan->steps, 1);
		if (process > 0 && mark_seen(search, process))
			scan_unrelated(search, process);
	}
}

/* ---- The closing process and the candidates
 * ---------------------------------------------------------- */

static void add_killed(struct tdfs_scan *scan, const struct tdfs_status *status, int dir)
{
	int signal = tdfs_proc_signal(dir, status);

	if (signal == INT_MIN || scan->n_killed == TDFS_KILLED_MAX)
		return;
	for (size_t i = 0; i < scan->n_killed; i++)
		if (scan->killed[i].process == status->process)
			return;
	scan->killed[scan->n_killed].process = status->process;
	scan->killed[scan->n_killed].signal = signal;
	memcpy(scan->killed[scan->n_killed].name, status->name, sizeof status->name);
	scan->n_killed++;
}

/* Its process, and whether that is being killed. */
static void read_closing_process(struct tdfs_scan *scan, struct tdfs_status *status)
{
	int dir CLEANUP(tdl__close_at) =
		scan->closing_tid > 0 ? open_process(scan, scan->closing_tid) : -1;

	if (dir < 0 || !tdfs_proc_status(dir, status)) {
		if (dir >= 0 && tdfs_proc_is_short(errno))
			scan->incomplete = true;
		scan->unwatched = !scan->incomplete;
		return;
	}
	scan->closing_process = status->process;
	if (!status->alive)
		add_killed(scan, status, dir);
}

/* Whether it is no more, or so near its end that it has no descriptors. */
static bool is_over(struct tdfs_scan *scan, struct tdfs_candidate *candidate,
		    const struct tdfs_status *closing)
{
	struct tdfs_status status;
	int dir CLEANUP(tdl__close_at) = -1;

	if (!candidate->process) {
		candidate->process = tdfs_proc_find(candidate->tid, &status);
		if (!candidate->process) {
			scan->incomplete |= tdfs_proc_is_short(errno);
			return true;
		}
	}
	dir = open_same(scan, candidate->process);
	if (dir < 0)
		return true;
	if (candidate->process->id == scan->closing_process)
		status = *closing;
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
	add_killed(scan, &status, dir);
	return true;
}

static void check_candidate(struct tdfs_scan *scan, struct tdfs_candidate *candidate,
			    const struct tdfs_status *closing)
{
	candidate->ended = is_over(scan, candidate, closing);
	if (candidate->ended && !candidate->clean &&
	    !(candidate->process && candidate->process->id == scan->closing_process))
		scan->all_processes = true;
}

/*
 * The closing process and what descends from it, first. When it exits, it still has its children
 * while it closes its files, so even then this is all there is to see of it; only where it had
 * several threads may those that ended before have left children to init.
 */
static void scan_closing_family(struct search *search, const struct tdfs_status *closing)
{
	struct tdfs_scan *scan = search->scan;
	int dir CLEANUP(tdl__close_at) = -1;

	if (scan->closing_process <= 0 || !mark_seen(search, scan->closing_process))
		return;
	dir = open_process(scan, scan->closing_process);
	if (dir >= 0) {
		scan_process(search, scan->closing_process, dir, OWN);
		scan_descendants(search);
	}
	scan->clean = dir >= 0 && search->most == TDFS_NOT_HELD && !scan->incomplete &&
		      scan->hidden.process == 0 &&
		      (closing->alive ||
		       (closing->threads == 1 && scan->closing_tid == scan->closing_process));
	if (!closing->alive && !scan->clean)
		scan->all_processes = true;
}

static void scan_candidates(struct search *search, const struct tdfs_status *closing)
{
	struct tdfs_scan *scan = search->scan;

	for (size_t i = 0; i < scan->count && !is_done(search); i++) {
		struct tdfs_candidate *one = &scan->candidates[i];
		int dir CLEANUP(tdl__close_at) = -1;

		if (one->ended || !mark_seen(search, one->process->id))
			continue;
		dir = open_same(scan, one->process);
		if (dir >= 0)
			scan_process(search, one->process->id, dir, OWN);
		/* It has nothing, or had already begun to close what it has. */
		if (search->most < TDFS_HELD)
			check_candidate(scan, one, closing);
	}
	scan_descendants(search);
}

/* Whoever opens it now; none of its family is asked for its sake. */
static void scan_excluded(struct search *search)
{
	struct tdfs_scan *scan = search->scan;
	struct tdfs_process *exclude = scan->exclude > 0 ? tdfs_process_find(scan->exclude) : NULL;
	int dir CLEANUP(tdl__close_at) = exclude ? open_same(scan, exclude) : -1;

	if (exclude)
		scan->excluded = exclude->id;
	if (dir >= 0 && scan->ino != 0 && mark_seen(search, exclude->id)) {
		scan_process(search, exclude->id, dir, OWN);
		search->next = search->count;
	}
	tdfs_process_unref(exclude);
}

void tdfs_scan_run(struct tdfs_scan *scan)
{
	struct search search = { .scan = scan };
	struct tdfs_status closing = { 0 };

	if (scan->closing_tid >= 0)
		read_closing_process(scan, &closing);
	for (size_t i = 0; i < scan->count; i++)
		check_candidate(scan, &scan->candidates[i], &closing);
	scan_excluded(&search);
	if (scan->ino == 0) {
		free(search.seen);
		return;
	}
	/* Those nearest first: whoever is found to hold it ends the search. */
	if (!is_done(&search))
		scan_closing_family(&search, &closing);
	if (!is_done(&search))
		scan_candidates(&search, &closing);
	if (scan->all_processes && !is_done(&search))
		scan_all_processes(&search);
	free(search.seen);
	scan->held = search.most != TDFS_NOT_HELD;
	scan->till_exec = search.most == TDFS_HELD_TILL_EXEC;
}

void tdfs_scan_clear(struct tdfs_scan *scan)
{
	for (size_t i = 0; i < scan->count; i++)
		tdfs_process_unref(scan->candidates[i].process);
	free(scan->candidates);
	scan->candidates = NULL;
	scan->count = 0;
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
	char *text CLEANUP(tdl__free_at) = tdfs_proc_text(AT_FDCWD, "/proc/self/status");
	const char *at = text ? strstr(text, "\nCapEff:\t") : NULL;

	return at && strtoull(at + 9, NULL, 16) >> 19 & 1;
}
