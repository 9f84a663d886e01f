/* SPDX-License-Identifier: MIT */
/*
 * Execs with a dropped file open, over and over: what can lock up a file system that reads /proc
 * in a close.
 *
 *     exec_loop MODE COUNT FILE
 *
 * self: drops a row by the exec that closes its descriptor, and goes on in the new program.
 * thread: the same, from a thread that is not the first, while others run.
 * spawn: starts a program by posix_spawn before each close.
 * vfork: starts one by vfork, which waits in the exec for our answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char **arguments;

static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static int drop_row(void)
{
	char row[32];
	int fd = open(arguments[3], O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
	int n = snprintf(row, sizeof row, "{\"id\":%s}\n", arguments[2]);

	if (fd < 0)
		fail("open");
	if (write(fd, row, (size_t)n) != n)
		fail("write");
	return fd;
}

static void *go_on(void *unused)
{
	char count[16];

	snprintf(count, sizeof count, "%d", atoi(arguments[2]) - 1);
	(void)drop_row();
	arguments[2] = count;
	execv("/proc/self/exe", arguments);
	fail("exec");
	return unused;
}

static void *wait_for_ever(void *unused)
{
	pause();
	return unused;
}

static void go_on_in_a_thread(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
			fail("pthread_create");
	if (pthread_create(&thread, NULL, go_on, NULL) != 0)
		fail("pthread_create");
	pause();
}

static void run_true(int by_vfork)
{
	char name[] = "true";
	char *program[] = { name, NULL };
	pid_t child;
	int status;

	if (by_vfork) {
		child = vfork();
		if (child == 0) {
			execv("/bin/true", program);
			_exit(127);
		}
	} else if (posix_spawn(&child, "/bin/true", NULL, NULL, program, environ) != 0) {
		child = -1;
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fail("child");
}

int main(int argc, char **argv)
{
	const char *mode = argc == 4 ? argv[1] : "";
	int count = argc == 4 ? atoi(argv[2]) : 0;
	int by_vfork = strcmp(mode, "vfork") == 0;

	arguments = argv;
	if (count == 0)
		return argc == 4 ? 0 : 2;
	if (strcmp(mode, "self") == 0)
		(void)go_on(NULL);
	if (strcmp(mode, "thread") == 0)
		go_on_in_a_thread();
	for (; count > 0; count--) {
		int fd = drop_row();

		run_true(by_vfork);
		if (close(fd) != 0)
			fail("close");
	}
	return 0;
}
