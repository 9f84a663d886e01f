/* SPDX-License-Identifier: MIT */
/* What /proc tells, of real children that hold an ordinary file. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proc/scan.h"

static int file = -1;
static uint64_t ino;

static void setup(void)
{
	struct stat st;

	file = memfd_create("held", 0);
	cr_assert(file >= 0 && fstat(file, &st) == 0);
	ino = st.st_ino;
}

TestSuite(holders, .init = setup, .timeout = 60);

/* Whoever outlives its test keeps the output open, and whoever waits for the end of that waits for
 * ever. The parent may have ended before this is said. */
static void end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

/* A child that runs act() and then waits to be told to end. */
struct child {
	pid_t pid;
	int tell, told;
};

static struct child start(void (*act)(void))
{
	pid_t self = getpid();
	int down[2], up[2];
	struct child child;

	cr_assert(pipe(down) == 0 && pipe(up) == 0);
	child.pid = fork();
	if (child.pid == 0) {
		char byte = 0;

		end_with(self);
		close(down[1]);
		close(up[0]);
		act();
		if (write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) < 0)
			_exit(9);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	child.tell = down[1];
	child.told = up[0];
	return child;
}

static void wait_ready(struct child *child)
{
	char byte;

	cr_assert(read(child->told, &byte, 1) == 1);
}

static void end(struct child *child)
{
	close(child->tell);
	close(child->told);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

static struct tdfs_scan scan_of(pid_t closing, const pid_t *candidates, size_t count)
{
	struct tdfs_scan scan = { .ino = ino, .closing_tid = closing, .count = count };

	scan.candidates = calloc(count + 1, sizeof *scan.candidates);
	for (size_t i = 0; i < count; i++)
		scan.candidates[i].tid = candidates[i];
	tdfs_scan_run(&scan);
	return scan;
}

/*
 * Has act() run as the first process of a namespace with a /proc of its own, and returns what it
 * ends with. A scan of all processes is for such a place: on the machine there may be processes
 * that hold up whoever scans them, and no signal ends that.
 */
static int alone(int (*act)(void))
{
	int status = 0;
	pid_t outer = fork();

	if (outer == 0) {
		pid_t inner;

		if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
			_exit(77);
		inner = fork();
		if (inner == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
			    mount("proc", "/proc", "proc", 0, NULL) != 0)
				_exit(77);
			_exit(act());
		}
		waitpid(inner, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
	waitpid(outer, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		cr_skip_test("no namespace of its own");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void keep(void)
{
}

static void close_it(void)
{
	close(file);
}

static void keep_for_reading(void)
{
	char path[64];
	int reader;

	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	reader = open(path, O_RDONLY);
	close(file);
	if (reader < 0)
		_exit(8);
}

static void keep_till_exec(void)
{
	fcntl(file, F_SETFD, FD_CLOEXEC);
}

Test(holders, the_process_itself)
{
	pid_t self = getpid();
	struct tdfs_scan scan = scan_of(self, &self, 1);

	cr_expect(scan.held && !scan.till_exec && !scan.clean);
	cr_expect_eq(scan.closing_process, self);
	cr_expect_not(scan.candidates[0].ended);
	tdfs_scan_clear(&scan);
	close(file);
	scan = scan_of(self, &self, 1);
	cr_expect(!scan.held && scan.clean && !scan.incomplete);
	tdfs_scan_clear(&scan);
}

Test(holders, close_on_exec_of_the_closer_or_a_suspect_is_held)
{
	pid_t self = getpid();
	struct tdfs_scan scan;

	keep_till_exec();
	scan = scan_of(self, NULL, 0);
	cr_expect(scan.held && !scan.till_exec);
	tdfs_scan_clear(&scan);
	scan = scan_of(-1, &self, 1);
	cr_expect(scan.held && !scan.till_exec);
	tdfs_scan_clear(&scan);
}

Test(holders, a_child)
{
	struct child child = start(keep);
	pid_t self = getpid();
	struct tdfs_scan scan;

	wait_ready(&child);
	close(file);
	scan = scan_of(self, &self, 1);
	cr_expect(scan.held && !scan.till_exec && !scan.clean);
	tdfs_scan_clear(&scan);
	end(&child);
	scan = scan_of(self, &self, 1);
	cr_expect_not(scan.held);
	tdfs_scan_clear(&scan);
}

Test(holders, a_child_on_its_way_to_exec)
{
	struct child child = start(keep_till_exec);
	pid_t self = getpid();
	struct tdfs_scan scan;

	wait_ready(&child);
	close(file);
	scan = scan_of(self, &self, 1);
	cr_expect(scan.held && scan.till_exec);
	tdfs_scan_clear(&scan);
	end(&child);
}

Test(holders, who_closed_it_or_only_reads)
{
	struct child closed = start(close_it), reads = start(keep_for_reading);
	pid_t self = getpid();
	struct tdfs_scan scan;

	wait_ready(&closed);
	wait_ready(&reads);
	close(file);
	scan = scan_of(self, &self, 1);
	cr_expect_not(scan.held);
	tdfs_scan_clear(&scan);
	end(&closed);
	end(&reads);
}

static void fork_a_grandchild(void)
{
	pid_t self = getpid();

	if (fork() == 0) {
		end_with(self);
		pause();
	}
	close(file);
}

Test(holders, a_grandchild)
{
	struct child child = start(fork_a_grandchild);
	pid_t self = getpid();
	struct tdfs_scan scan;

	wait_ready(&child);
	close(file);
	scan = scan_of(self, NULL, 0);
	cr_expect(scan.held);
	tdfs_scan_clear(&scan);
	end(&child);
}

static int look_for_an_orphan(void)
{
	pid_t self = getpid(), gone, orphan;
	int ids[2];
	struct tdfs_scan scan;

	if (pipe(ids) != 0)
		return 1;
	gone = fork();
	if (gone == 0) {
		orphan = fork();
		if (orphan == 0) {
			setsid();
			pause();
		}
		_exit(write(ids[1], &orphan, sizeof orphan) < 0);
	}
	if (read(ids[0], &orphan, sizeof orphan) != sizeof orphan)
		return 2;
	waitpid(gone, NULL, 0);
	close(file);
	/* As a child of its own, which it has become, it would be found in any case. */
	if (fork() == 0) {
		self = getpid();
		scan = scan_of(self, &self, 1);
		if (scan.held)
			_exit(3); /* nobody has ended that was known */
		tdfs_scan_clear(&scan);
		scan = scan_of(self, (pid_t[]){ self, gone }, 2);
		_exit(!scan.held ? 4 : !scan.candidates[1].ended ? 5 : 0);
	}
	for (int status; wait(&status) > 0;)
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
	return 6;
}

Test(holders, an_orphan_is_found_among_everyone)
{
	cr_expect_eq(alone(look_for_an_orphan), 0);
}

Test(holders, one_process_may_be_left_out)
{
	pid_t self = getpid();
	struct tdfs_scan scan = { .ino = ino, .closing_tid = -1, .exclude = self, .count = 1 };

	scan.candidates = calloc(1, sizeof *scan.candidates);
	scan.candidates[0].tid = self;
	tdfs_scan_run(&scan);
	cr_expect_not(scan.held);
	tdfs_scan_clear(&scan);
}

Test(holders, a_closer_who_cannot_be_seen)
{
	struct tdfs_scan scan = scan_of(0, NULL, 0);

	cr_expect(scan.unwatched && !scan.held && !scan.incomplete && scan.closing_process == 0);
	tdfs_scan_clear(&scan);
}

/* ---- Threads ------------------------------------------------------------------------------ */

static atomic_int worker_tid;

static void *work(void *argument)
{
	atomic_store(&worker_tid, (int)syscall(SYS_gettid));
	pause();
	return NULL;
}

static void thread_without_its_leader(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, work, NULL);
}

Test(holders, a_thread_belongs_to_its_process)
{
	pthread_t thread;
	struct tdfs_process *process;

	pthread_create(&thread, NULL, work, NULL);
	while (atomic_load(&worker_tid) == 0)
		sched_yield();
	process = tdfs_process_find(atomic_load(&worker_tid));
	cr_assert_not_null(process);
	cr_expect_eq(tdfs_process_id(process), getpid());
	tdfs_process_unref(tdfs_process_ref(process));
	tdfs_process_unref(process);
}

Test(holders, the_first_thread_has_ended)
{
	int ready[2];
	char byte = 0;
	pid_t pid;
	struct tdfs_scan scan;

	cr_assert(pipe(ready) == 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		thread_without_its_leader();
		if (write(ready[1], &byte, 1) < 0)
			_exit(1);
		pthread_exit(NULL);
	}
	cr_assert(read(ready[0], &byte, 1) == 1);
	close(file);
	for (int i = 0; i < 100; i++)
		sched_yield();
	usleep(20000);
	scan = scan_of(-1, &pid, 1);
	cr_expect(scan.held);
	cr_expect_not(scan.candidates[0].ended);
	tdfs_scan_clear(&scan);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- The dead ----------------------------------------------------------------------------- */

Test(holders, a_number_that_is_used_again_is_not_the_same_process)
{
	struct child child = start(keep);
	struct tdfs_process *process;
	struct tdfs_scan scan = { .ino = ino, .closing_tid = -1, .count = 1 };

	wait_ready(&child);
	process = tdfs_process_find(child.pid);
	cr_assert_not_null(process);
	end(&child);
	cr_expect_null(tdfs_process_find(child.pid));
	scan.candidates = calloc(1, sizeof *scan.candidates);
	scan.candidates[0].tid = getpid();
	scan.candidates[0].process = process;
	scan.candidates[0].clean = true;
	tdfs_scan_run(&scan);
	cr_expect(scan.candidates[0].ended, "the folder stays that of the dead");
	tdfs_scan_clear(&scan);
}

Test(holders, a_zombie_has_had_its_last_close)
{
	struct child child = start(keep);
	struct tdfs_scan scan;
	siginfo_t info;

	wait_ready(&child);
	kill(child.pid, SIGKILL);
	waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT);
	scan = (struct tdfs_scan){ .ino = ino, .closing_tid = -1, .count = 1 };
	scan.candidates = calloc(1, sizeof *scan.candidates);
	scan.candidates[0] = (struct tdfs_candidate){ .tid = child.pid, .clean = true };
	tdfs_scan_run(&scan);
	cr_expect(scan.candidates[0].ended);
	cr_expect_eq(scan.n_killed, 0);
	tdfs_scan_clear(&scan);
	end(&child);
}

Test(holders, a_clean_one_that_ended_needs_no_search)
{
	struct child child = start(close_it);
	struct tdfs_scan scan = { .ino = ino, .closing_tid = -1, .count = 1 };

	wait_ready(&child);
	scan.candidates = calloc(1, sizeof *scan.candidates);
	scan.candidates[0] = (struct tdfs_candidate){ .tid = child.pid, .clean = true };
	scan.candidates[0].process = tdfs_process_find(child.pid);
	end(&child);
	/* We hold it: a scan of all processes would find that. */
	tdfs_scan_run(&scan);
	cr_expect(scan.candidates[0].ended && !scan.all_processes && !scan.held);
	tdfs_scan_clear(&scan);
}

Test(holders, proc_counts_as_we_do)
{
	cr_expect(tdfs_proc_is_ours());
}

/* ---- Who cannot be scanned ---------------------------------------------------------------- */

Test(holders, who_asks_is_not_scanned)
{
	struct child child = start(keep);
	pid_t self = getpid();
	struct tdfs_scan scan = { .ino = ino, .closing_tid = self, .self = child.pid };

	wait_ready(&child);
	close(file);
	tdfs_scan_run(&scan);
	cr_expect(!scan.held && scan.clean);
	end(&child);
}

/* A child that swallowed a scan before; the file was opened at that moment. */
static struct tdfs_scan scan_beside(const struct child *child, struct tdfs_moment since)
{
	static struct tdfs_scan lost;
	struct tdfs_scan scan = { .ino = ino, .closing_tid = getpid(), .since = since };

	atomic_store(&lost.at, child->pid);
	tdfs_scan_lost(&lost);
	close(file);
	tdfs_scan_run(&scan);
	tdfs_scan_back(&lost);
	return scan;
}

static struct tdfs_moment moment(void)
{
	int fd = tdfs_moment_open();
	struct timespec now;
	struct tdfs_moment moment;

	clock_gettime(CLOCK_MONOTONIC, &now);
	moment = tdfs_moment(fd, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	close(fd);
	cr_assert_gt(moment.last, 0);
	return moment;
}

Test(holders, a_child_that_swallows_scans_may_have_inherited_it)
{
	struct tdfs_moment since = moment();
	struct child child = start(keep);
	struct tdfs_scan scan;

	wait_ready(&child);
	scan = scan_beside(&child, since);
	cr_expect(!scan.held && !scan.clean);
	cr_expect_eq(scan.hidden.process, child.pid);
	end(&child);
}

Test(holders, a_child_from_before_cannot_have_inherited_it)
{
	struct child child = start(keep);
	struct tdfs_scan scan;

	wait_ready(&child);
	scan = scan_beside(&child, moment());
	cr_expect(!scan.held);
	cr_expect_eq(scan.hidden.process, 0);
	end(&child);
}

Test(holders, it_is_scanned_again_when_the_scan_came_back)
{
	struct child child = start(keep);
	pid_t self = getpid();
	struct tdfs_scan scan;

	wait_ready(&child);
	scan = scan_beside(&child, moment());
	scan = scan_of(self, &self, 1);
	cr_expect(scan.held);
	cr_expect_eq(scan.holder.process, child.pid);
	tdfs_scan_clear(&scan);
	end(&child);
}

/* ---- Who cannot have it ------------------------------------------------------------------- */

/* The numbers have begun again at the bottom since: every small one may be new. */
static struct tdfs_moment before_the_turn(void)
{
	struct tdfs_moment since = moment();

	since.last += 1000;
	return since;
}

Test(holders, a_child_that_was_there_at_the_beginning_cannot_have_inherited_it)
{
	struct child child = start(keep);
	struct tdfs_scan scan;

	wait_ready(&child);
	tdfs_scan_begin();
	scan = scan_beside(&child, before_the_turn());
	cr_expect(!scan.held);
	cr_expect_eq(scan.hidden.process, 0);
	end(&child);
}

Test(holders, a_child_from_after_the_beginning_may_have_inherited_it)
{
	struct child child;
	struct tdfs_scan scan;

	tdfs_scan_begin();
	child = start(keep);
	wait_ready(&child);
	scan = scan_beside(&child, before_the_turn());
	cr_expect_eq(scan.hidden.process, child.pid);
	end(&child);
}

/* However long a file is being written. */
Test(holders, time_alone_makes_nothing_younger)
{
	struct child child = start(keep);
	struct tdfs_moment since = moment();
	struct tdfs_scan scan;

	wait_ready(&child);
	cr_assert_gt(since.begun, 0);
	since = moment();
	since.time -= INT64_C(7) * 24 * 3600 * 1000;
	scan = scan_beside(&child, since);
	cr_expect(!scan.held);
	cr_expect_eq(scan.hidden.process, 0);
	end(&child);
}

/* So many have begun since that numbers may have come round. */
Test(holders, numbers_that_may_have_come_round_tell_nothing)
{
	struct child child = start(keep);
	struct tdfs_moment since;
	struct tdfs_scan scan;

	wait_ready(&child);
	since = moment();
	since.begun = since.begun > 5000000 ? since.begun - 5000000 : 0;
	since.time -= INT64_C(7) * 24 * 3600 * 1000;
	scan = scan_beside(&child, since);
	cr_expect_eq(scan.hidden.process, child.pid);
	end(&child);
}

/* The first process of all, which nobody may look into, and whose user is the file's. */
static int look_past_the_first(void)
{
	pid_t pid;
	int status;

	close(file);
	pid = fork();
	if (pid == 0) {
		static struct tdfs_scan lost;
		struct tdfs_scan scan = { .ino = ino,
					  .closing_tid = getpid(),
					  .all_processes = true };

		scan.since = before_the_turn();
		scan.n_users = 1;
		scan.users[0] = getuid();
		atomic_store(&lost.at, 1);
		tdfs_scan_lost(&lost);
		tdfs_scan_run(&scan);
		_exit(scan.held ? 2 : scan.hidden.process != 0 ? 3 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

Test(holders, the_first_process_never_decides)
{
	cr_expect_eq(alone(look_past_the_first), 0);
}
