/* SPDX-License-Identifier: MIT */
/*
 * One line a message, whatever is in it, and no floods.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "msg.h"

static int said;
static char text[65536];

static void begin(void)
{
	char name[] = "/tmp/test_msg.XXXXXX";

	said = mkstemp(name);
	cr_assert_geq(said, 0);
	unlink(name);
	dup2(said, STDERR_FILENO);
}

static const char *caught(void)
{
	ssize_t length = pread(said, text, sizeof text - 1, 0);

	cr_assert_geq(length, 0);
	text[length] = '\0';
	return text;
}

TestSuite(msg, .init = begin);

Test(msg, one_line)
{
	tdfs_msg(LOG_ERR, "%s: %d", "a b", 1);
	cr_assert_str_eq(caught(), "tinydeltafs: a b: 1\n");
}

Test(msg, names_forge_nothing)
{
	tdfs_msg(LOG_ERR, "%s", "a\nb\r\t\x1b[2J\x7f|\xc2\x85|\xe2\x80\xa8|\xe2\x80\xae|");
	cr_assert_str_eq(caught(), "tinydeltafs: a\\x0ab\\x0d\\x09\\x1b[2J\\x7f|\\xc2\\x85|"
				   "\\xe2\\x80\\xa8|\\xe2\\x80\\xae|\n");
}

Test(msg, utf8_stays_and_the_rest_does_not)
{
	tdfs_msg(LOG_ERR, "%s",
		 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80|\xff\xc3|\xed\xa0\x80|\xe2\x82");
	cr_assert_str_eq(caught(), "tinydeltafs: \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80|"
				   "\\xff\\xc3|\\xed\\xa0\\x80|\\xe2\\x82\n");
}

Test(msg, a_long_one_is_cut)
{
	char longer[10000];

	memset(longer, '\n', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	tdfs_msg(LOG_ERR, "%s", longer);
	cr_assert_lt(strlen(caught()), 2200);
	cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1);
}

Test(msg, debug_only_when_asked_for)
{
	tdfs_msg(LOG_DEBUG, "one");
	tdfs_msg_start(true);
	tdfs_msg(LOG_DEBUG, "two");
	cr_assert_str_eq(caught(), "tinydeltafs: two\n");
}

Test(msg, the_same_fault_is_told_once)
{
	tdl_error error = { .code = TDL_ERR_CORRUPT, .message = "part-1.jsonl: too short" };

	for (int i = 0; i < 1000; i++) {
		tdfs_msg_fault("/t", "v1/data.jsonl", &error);
		tdfs_msg_fault("/t", "v2/data.jsonl", &error);
		tdfs_msg_fault("/t", NULL, &error);
	}
	cr_assert_str_eq(caught(), "tinydeltafs: /t: v1/data.jsonl: part-1.jsonl: too short\n"
				   "tinydeltafs: /t: v2/data.jsonl: part-1.jsonl: too short\n"
				   "tinydeltafs: /t: part-1.jsonl: too short\n");
}

Test(msg, more_faults_than_are_kept)
{
	tdl_error error = { .code = TDL_ERR_CORRUPT };
	size_t lines = 0;

	for (int i = 0; i < 200; i++) {
		snprintf(error.message, sizeof error.message, "fault %d", i);
		tdfs_msg_fault("/t", NULL, &error);
	}
	for (const char *at = caught(); (at = strchr(at, '\n')); at++)
		lines++;
	cr_assert_eq(lines, 200);
}

static size_t count(const char *what)
{
	size_t found = 0;

	for (const char *at = caught(); (at = strstr(at, what)); at++)
		found++;
	return found;
}

Test(msg, one_user_cannot_flood_it)
{
	uid_t own = geteuid();

	for (int i = 0; i < 300; i++) {
		tdfs_msg_user(own + 1, LOG_WARNING, "first %d.", i);
		tdfs_msg_user(own, LOG_WARNING, "own %d.", i);
		tdfs_msg_user((uid_t)-1, LOG_WARNING, "nobody %d.", i);
	}
	tdfs_msg_user(own + 2, LOG_WARNING, "second %d.", 0);
	cr_expect_eq(count("first "), 100);
	cr_expect_eq(count("100 messages because of user"), 1);
	cr_expect_eq(count("own "), 300);
	cr_expect_eq(count("nobody "), 300);
	cr_expect_eq(count("second "), 1);
	tdfs_msg_end();
	cr_expect_eq(count(": 200 more messages because of user"), 1);
}

/* More users than are remembered: each is told of, and what was left out of the others' too. */
Test(msg, many_users)
{
	uid_t own = geteuid();

	for (int i = 0; i < 101; i++)
		tdfs_msg_user(own + 1, LOG_WARNING, "first %d.", i);
	for (uid_t user = 2; user < 102; user++)
		tdfs_msg_user(own + user, LOG_WARNING, "other %u.", (unsigned)user);
	cr_expect_eq(count("first "), 100);
	cr_expect_eq(count("other "), 100);
	cr_expect_eq(count("1 more messages because of user"), 1);
}

Test(msg, to_a_file)
{
	char name[] = "/tmp/test_msg.XXXXXX", line[256];
	FILE *log;

	close(mkstemp(name));
	cr_assert_eq(tdfs_msg_log(name), 0);
	tdfs_msg(LOG_ERR, "one");
	cr_assert_str_eq(caught(), "tinydeltafs: one\n", "stderr as well");
	tdfs_msg_detach();
	tdfs_msg(LOG_ERR, "two\n");
	cr_assert_str_eq(caught(), "tinydeltafs: one\n");
	log = fopen(name, "r");
	for (int i = 0; i < 2; i++) {
		int year, month, day, hour, minute, second, ms, pid;
		char word[16];

		cr_assert_not_null(fgets(line, sizeof line, log));
		cr_assert_eq(sscanf(line, "%4d-%2d-%2d %2d:%2d:%2d.%3d tinydeltafs[%d]: %15s",
				    &year, &month, &day, &hour, &minute, &second, &ms, &pid, word),
			     9, "%s", line);
		cr_assert_eq(pid, getpid());
		cr_assert_str_eq(word, i == 0 ? "one" : "two\\x0a");
	}
	cr_assert_null(fgets(line, sizeof line, log));
	fclose(log);
	unlink(name);
}

Test(msg, no_file_to_log_to)
{
	char name[] = "/tmp/test_msg.XXXXXX";
	char inside[sizeof name + 4];

	cr_assert_eq(tdfs_msg_log("/tmp"), EISDIR);
	cr_assert_not_null(mkdtemp(name));
	snprintf(inside, sizeof inside, "%s/log", name);
	rmdir(name);
	cr_assert_eq(tdfs_msg_log(inside), ENOENT);
	cr_assert_eq(mkfifo(name, 0600), 0);
	cr_assert_eq(tdfs_msg_log(name), ENXIO, "it does not wait for a reader");
	unlink(name);
	tdfs_msg(LOG_ERR, "still");
	cr_assert_str_eq(caught(), "tinydeltafs: still\n");
}

/* ---- With a thread that waits for those who read ------------------------------------------ */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A pipe in the place of stderr, which nobody reads yet; the end for reading. */
static int stuck(void)
{
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	return ends[0];
}

/* Reads a pipe until `all` messages are there or told to be lost. Returns how many are there. */
static unsigned long read_until(int pipe, unsigned long all, unsigned long *lost)
{
	FILE *lines = fdopen(pipe, "r");
	unsigned long count = 0, n;
	char line[4096];

	*lost = 0;
	while (count + *lost < all && fgets(line, sizeof line, lines)) {
		cr_assert_not_null(strchr(line, '\n'), "a whole line");
		if (sscanf(line, "tinydeltafs: %lu message", &n) == 1 && strstr(line, " lost"))
			*lost += n;
		else
			count++;
	}
	return count;
}

static void *say_many(void *argument)
{
	for (int i = 0; i < 5000; i++)
		tdfs_msg(LOG_ERR, "%s %d %0200d", (const char *)argument, i, 0);
	return NULL;
}

Test(msg, nobody_waits_for_who_reads, .timeout = 60)
{
	unsigned long lines, lost;
	int pipe = stuck();
	double begun = seconds();
	static char names[4][2] = { "a", "b", "c", "d" };
	pthread_t others[4];

	cr_assert_eq(tdfs_msg_thread(), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_create(&others[i], NULL, say_many, names[i]);
	for (size_t i = 0; i < 4; i++)
		pthread_join(others[i], NULL);
	cr_assert_lt(seconds() - begun, 20, "saying something does not wait");
	/* What is not told is counted, the last one too. */
	lines = read_until(pipe, 20000, &lost);
	cr_assert_gt(lines, 100);
	cr_assert_gt(lost, 100);
	cr_assert_eq(lines + lost, 20000, "%lu and %lu", lines, lost);
}

Test(msg, the_end_waits_a_second, .timeout = 60)
{
	int pipe = stuck();
	double begun;

	cr_assert_eq(tdfs_msg_thread(), 0);
	for (int i = 0; i < 1000; i++)
		tdfs_msg(LOG_ERR, "%0500d", i);
	begun = seconds();
	tdfs_msg_end();
	cr_assert_gt(seconds() - begun, 0.9);
	cr_assert_lt(seconds() - begun, 10);
	close(pipe);
}

Test(msg, the_end_has_all_of_it)
{
	size_t lines = 0;

	cr_assert_eq(tdfs_msg_thread(), 0);
	for (int i = 0; i < 300; i++)
		tdfs_msg(LOG_ERR, "%d", i);
	tdfs_msg_end();
	for (const char *at = caught(); (at = strchr(at, '\n')); at++)
		lines++;
	cr_assert_eq(lines, 300);
	cr_assert_not_null(strstr(text, "tinydeltafs: 299\n"));
}

/* The terminal goes while the thread waits for it: what is left goes to syslog or nowhere. */
Test(msg, leaving_a_terminal_that_is_stopped, .timeout = 60)
{
	int pipe = stuck();

	cr_assert_eq(tdfs_msg_thread(), 0);
	for (int i = 0; i < 300; i++)
		tdfs_msg(LOG_DEBUG, "%0500d", i);
	tdfs_msg_start(true);
	for (int i = 0; i < 300; i++)
		tdfs_msg(LOG_DEBUG, "%0500d", i);
	tdfs_msg_detach();
	tdfs_msg(LOG_DEBUG, "behind");
	tdfs_msg_end();
	close(pipe);
}

static bool holds(const char *path, const char *word)
{
	FILE *file = fopen(path, "r");
	char line[4096];
	bool found = false;

	while (file && !found && fgets(line, sizeof line, file))
		found = strstr(line, word) != NULL;
	if (file)
		fclose(file);
	return found;
}

Test(msg, a_log_that_was_moved_is_made_anew)
{
	char name[] = "/tmp/test_msg.XXXXXX", old[64];

	close(mkstemp(name));
	snprintf(old, sizeof old, "%s.1", name);
	cr_assert_eq(tdfs_msg_log(name), 0);
	cr_assert_eq(tdfs_msg_thread(), 0);
	tdfs_msg(LOG_ERR, "first");
	tdfs_msg_end();
	cr_assert_eq(rename(name, old), 0);
	tdfs_msg(LOG_ERR, "second");
	tdfs_msg_end();
	cr_assert(holds(old, "first") && !holds(old, "second"));
	cr_assert(holds(name, "second") && !holds(name, "first"));
	/* Removed; and what is not a file any more is not written to. */
	unlink(name);
	tdfs_msg_reopen();
	for (int i = 0; i < 2000 && access(name, F_OK) != 0; i++)
		poll(NULL, 0, 5);
	cr_assert_eq(access(name, F_OK), 0, "at once, without a message");
	unlink(name);
	cr_assert_eq(symlink(old, name), 0);
	tdfs_msg(LOG_ERR, "third");
	tdfs_msg_end();
	cr_assert_not(holds(old, "third"), "a link that appears is not followed");
	unlink(name);
	unlink(old);
}

Test(msg, what_a_full_disk_swallows_is_counted)
{
	char name[] = "/tmp/test_msg.XXXXXX", file[64];

	close(mkstemp(name));
	snprintf(file, sizeof file, "%s.log", name);
	cr_assert_eq(symlink("/dev/full", file), 0);
	cr_assert_eq(tdfs_msg_log(file), 0);
	cr_assert_eq(tdfs_msg_thread(), 0);
	for (int i = 0; i < 17; i++)
		tdfs_msg(LOG_ERR, "swallowed");
	tdfs_msg_end();
	cr_assert_eq(rename(name, file), 0);
	tdfs_msg(LOG_ERR, "there is room again");
	tdfs_msg_end();
	cr_assert(holds(file, "17 messages were lost"));
	cr_assert(holds(file, "there is room again"));
	unlink(file);
}
