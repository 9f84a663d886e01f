/* SPDX-License-Identifier: MIT */
/*
 * One line a message, whatever is in it, and no floods.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
	for (const char *at = caught(); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	cr_assert_eq(lines, 200);
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

	cr_assert_eq(tdfs_msg_log("/nonexistent/log"), ENOENT);
	cr_assert_eq(tdfs_msg_log("/tmp"), EISDIR);
	cr_assert_not_null(mkdtemp(name));
	rmdir(name);
	cr_assert_eq(mkfifo(name, 0600), 0);
	cr_assert_eq(tdfs_msg_log(name), ENXIO, "it does not wait for a reader");
	unlink(name);
	tdfs_msg(LOG_ERR, "still");
	cr_assert_str_eq(caught(), "tinydeltafs: still\n");
}
