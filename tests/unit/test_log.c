/* SPDX-License-Identifier: MIT */
/*
 * The log on disk: which names are versions, and which files are commits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "log/log.h"
#include "scratch.h"
#include "tables.h"
#include "util/crc32c.h"

static tdl_error error;
static tdl__log log_;
static tdl__commit commit;

static void begin(void)
{
	scratch_begin();
	make_dir("t");
	make_dir("t/_delta_log");
	log_.dir = open(in_scratch("t/_delta_log"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	log_.table = "/T";
}

static void end(void)
{
	tdl__commit_free(&commit);
	close(log_.dir);
	scratch_end();
}

TestSuite(log, .init = begin, .fini = end);

static int read_commit(const char *bytes, size_t n)
{
	put_raw_commit("t", 7, bytes, n);
	tdl__commit_clear(&commit);
	error = (tdl_error){ 0 };
	return tdl__log_read(&log_, 7, &commit, &error);
}

#define FILE_7 "/T/_delta_log/00000000000000000007.json"
#define INFO   "{\"commitInfo\":{\"timestamp\":5,\"operation\":\"X\"}}"
#define ADD    "{\"add\":{\"path\":\"p\",\"size\":1,\"numRecords\":1}}"

Test(log, names)
{
	static const struct {
		const char *name;
		int64_t version;
	} cases[] = {
		{ "00000000000000000000.json", 0 },
		{ "00000000000000000001.json", 1 },
		{ "01000000000000000000.json", INT64_C(1000000000000000000) },
		{ "04611686018427387904.json", INT64_C(1) << 62 },
		{ "04611686018427387905.json", TDL__FAR_VERSION },
		{ "09223372036854775807.json", TDL__FAR_VERSION },
		{ "09223372036854775808.json", TDL__FAR_VERSION },
		{ "18446744073709551615.json", TDL__FAR_VERSION },
		{ "18446744073709551616.json", TDL__FAR_VERSION },
		{ "18446744073709551617.json", TDL__FAR_VERSION },
		{ "99999999999999999999.json", TDL__FAR_VERSION },
		{ "0000000000000000001.json", TDL__NO_VERSION },
		{ "000000000000000000001.json", TDL__NO_VERSION },
		{ "00000000000000000001.JSON", TDL__NO_VERSION },
		{ "00000000000000000001.jso", TDL__NO_VERSION },
		{ "00000000000000000001xjson", TDL__NO_VERSION },
		{ ".00000000000000000001.json", TDL__NO_VERSION },
		{ ".0000000000000000001.json", TDL__NO_VERSION },
		{ "._00000000000000000001.json", TDL__NO_VERSION },
		{ "00000000000000000001.json.crc", TDL__NO_VERSION },
		{ "00000000000000000001.json.bak", TDL__NO_VERSION },
		{ "00000000000000000001.checkpoint.json", TDL__NO_VERSION },
		{ "00000000000000000001 (copy).json", TDL__NO_VERSION },
		{ "+0000000000000000001.json", TDL__NO_VERSION },
		{ "-0000000000000000001.json", TDL__NO_VERSION },
		{ " 0000000000000000001.json", TDL__NO_VERSION },
		{ "0x000000000000000001.json", TDL__NO_VERSION },
		{ "1e000000000000000001.json", TDL__NO_VERSION },
		{ "", TDL__NO_VERSION },
		{ "_history.idx", TDL__NO_VERSION },
		{ ".nfs000000000000000100000001", TDL__NO_VERSION },
		{ "00000000000000000001.0123456789abcdef0123456789abcdef.json", TDL__NO_VERSION },
		{ "0000000000000000000\xc2\xb2.json", TDL__NO_VERSION },
		/* Twenty Arabic-Indic digits, and bytes enough for ten. */
		{ "\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0"
		  "\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa1"
		  ".json",
		  TDL__NO_VERSION },
		{ "\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa1"
		  ".json",
		  TDL__NO_VERSION },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_expect_eq(tdl__log_version(cases[i].name), cases[i].version, "%s: %ld",
			     cases[i].name, (long)tdl__log_version(cases[i].name));
}

Test(log, names_go_both_ways)
{
	static const int64_t versions[] = { 0, 1, 9, 10, 4294967296, INT64_C(1) << 62 };
	char name[TDL__LOG_NAME_MAX];

	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		tdl__log_name(name, versions[i]);
		cr_assert_eq(strlen(name), 25);
		cr_assert_eq(tdl__log_version(name), versions[i]);
	}
}

Test(log, temporary_names)
{
	static const char *const others[] = {
		"",
		".tmp",
		"00000000000000000001.0123456789abcdef0123456789abcdef.tmp",
		".00000000000000000001.0123456789abcdef0123456789abcde.tmp",
		".00000000000000000001.0123456789ABCDEF0123456789abcdef.tmp",
		".00000000000000000001.0123456789abcdef0123456789abcdef.tmpx",
		".0000000000000000001x.0123456789abcdef0123456789abcdef.tmp",
		".00000000000000000001-0123456789abcdef0123456789abcdef.tmp",
		".00000000000000000001.0123456789abcdef0123456789abcdef.bak",
		".nfs000000000000000100000001",
	};
	char name[TDL__LOG_TEMP_MAX], other[TDL__LOG_TEMP_MAX];

	tdl__log_temp_name(name, 12);
	tdl__log_temp_name(other, 12);
	cr_assert_eq(strncmp(name, ".00000000000000000012.", 22), 0);
	cr_assert(tdl__log_is_temp(name));
	cr_assert_str_neq(name, other);
	cr_assert_eq(tdl__log_version(name), TDL__NO_VERSION);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		cr_assert_not(tdl__log_is_temp(others[i]), "%s", others[i]);
}

Test(log, accepts)
{
	static const char *const good[] = {
		INFO "\n",
		INFO,
		INFO "\n" ADD,
		INFO "\n" ADD "\n",
		INFO "\r\n" ADD "\r\n",
		"\n\n" INFO "\n \t\n" ADD "\n\n",
		ADD "\n" INFO "\n",
		INFO "\n{}\n[]\n{\"protocol\":1}\n" ADD "\n",
	};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		cr_assert_eq(read_commit(good[i], strlen(good[i])), 0, "%s: %s", good[i],
			     error.message);
		cr_assert_eq(commit.timestamp, 5);
		cr_assert_eq(commit.count, i < 2 ? 0 : 1);
	}
}

static void expect_damage(const char *bytes, size_t n, uint64_t line, const char *what)
{
	char message[TDL_MESSAGE_MAX];

	cr_assert_eq(read_commit(bytes, n), TDL_ERR_CORRUPT, "%s", bytes);
	cr_assert_eq(error.code, TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 7);
	cr_expect_eq(error.line, line, "%s: line %lu", bytes, (unsigned long)error.line);
	if (line > 0)
		snprintf(message, sizeof message, "version 7 is damaged: " FILE_7 ":%lu: %s",
			 (unsigned long)line, what);
	else
		snprintf(message, sizeof message, "version 7 is damaged: " FILE_7 ": %s", what);
	cr_expect_str_eq(error.message, message);
}

static void expect_damaged_text(const char *text, uint64_t line, const char *what)
{
	expect_damage(text, strlen(text), line, what);
}

Test(log, damage_names_file_and_line)
{
	static const char zeros[4096], tail[] = INFO "\n\0\0\0\0";

	expect_damage("", 0, 0, "is empty");
	expect_damaged_text("\n", 0, "has no commitInfo");
	expect_damaged_text(" \r\n\n", 0, "has no commitInfo");
	expect_damaged_text(ADD "\n", 0, "has no commitInfo");
	expect_damage(zeros, sizeof zeros, 1, "not valid JSON");
	cr_assert_eq(error.column, 1);
	expect_damage(tail, sizeof tail - 1, 2, "not valid JSON");
	cr_assert_eq(error.column, 1);
	expect_damaged_text(INFO "\n" ADD "\n{\"add\":{\"path\":\"q\",\"si", 3, "not valid JSON");
	cr_assert_eq(error.column, 23);
	expect_damaged_text(INFO "\n\n\n{\"add\":null}\n" ADD "\n", 4, "add is not an object");
	expect_damaged_text(INFO INFO "\n", 1, "not valid JSON");
	expect_damaged_text(INFO "\n{\"add\":{\"path\":\"../x\",\"size\":1,\"numRecords\":1}}\n", 2,
			    "unsafe path of a data file, \"../x\"");
	expect_damaged_text(INFO "\xe2\x80\xa8" ADD "\n", 1, "not valid JSON");
}

/* Every prefix of a commit is damage, but for those that end with a line. */
Test(log, torn_anywhere)
{
	static const char whole[] = INFO "\n" ADD "\n{\"remove\":{\"path\":\"q\"}}\n";
	static const size_t ends[] = { sizeof INFO - 1, sizeof INFO, sizeof INFO + sizeof ADD - 1,
				       sizeof INFO + sizeof ADD };

	for (size_t n = 0; n < sizeof whole - 2; n++) {
		bool is_end = false;

		for (size_t i = 0; i < 4; i++)
			is_end = is_end || n == ends[i];
		cr_expect_eq(read_commit(whole, n), is_end ? 0 : TDL_ERR_CORRUPT, "%zu", n);
	}
}

/* One that promises what follows is not taken without. */
Test(log, torn_at_a_line_is_found_by_the_promise)
{
	static const char lines[] = ADD "\n{\"remove\":{\"path\":\"q\"}}\n";
	char text[1000];
	int n = snprintf(text, sizeof text,
			 "{\"commitInfo\":{\"timestamp\":5,\"operation\":\"X\",\"actions\":2,"
			 "\"crc32c\":%u}}\n%s",
			 tdl__crc32c(0, lines, sizeof lines - 1), lines);

	cr_assert_eq(read_commit(text, (size_t)n), 0, "%s", error.message);
	for (int cut = 1; cut < n - 1; cut++)
		cr_assert_eq(read_commit(text, (size_t)(n - cut)), TDL_ERR_CORRUPT, "%d", cut);
	/* Anything behind it is not what was promised either. */
	strcat(text, "\n");
	expect_damaged_text(text, 0, "is not what its checksum says");
}

/* Our commits are built on the version before: one under another's name is noticed. */
Test(log, ours_is_of_its_own_version)
{
	static const char lines[] = ADD "\n";

	for (int read = 5; read <= 7; read++) {
		char text[1000];
		int n = snprintf(
			text, sizeof text,
			"{\"commitInfo\":{\"timestamp\":5,\"operation\":\"X\",\"readVersion\":%d,"
			"\"engineInfo\":\"tinydeltafs/1\",\"actions\":1,\"crc32c\":%u}}\n%s",
			read, tdl__crc32c(0, lines, sizeof lines - 1), lines);

		if (read == 6)
			cr_assert_eq(read_commit(text, (size_t)n), 0, "%s", error.message);
		else
			expect_damaged_text(text, 0, "is the commit of another version");
	}
}

Test(log, long_lines_and_many)
{
	char *text = malloc(3 << 20);
	size_t n;

	/* A line of a megabyte of unknown members, across all buffers. */
	memcpy(text, INFO "\n{\"x\":\"", sizeof INFO + 6);
	n = sizeof INFO + 6;
	memset(text + n, 'y', 1 << 20);
	n += 1 << 20;
	n += (size_t)sprintf(text + n, "\"}\n" ADD "\n");
	cr_assert_eq(read_commit(text, n), 0, "%s", error.message);
	cr_assert_eq(commit.count, 1);

	n = (size_t)sprintf(text, INFO "\n");
	for (int i = 0; i < 20000; i++)
		n += (size_t)sprintf(text + n, "%s", add_line("some/path", (size_t)i, 1));
	cr_assert_eq(read_commit(text, n), 0, "%s", error.message);
	cr_assert_eq(commit.count, 20000);
	for (size_t i = 0; i < 20000; i++)
		cr_assert_eq(commit.actions[i].size, i);
	free(text);
}

Test(log, not_there)
{
	cr_assert_eq(tdl__log_read(&log_, 3, &commit, &error), TDL_ERR_NOT_FOUND);
	cr_assert_eq(error.version, 3);
	cr_assert_not(tdl__log_exists(&log_, 3));
}

static void expect_no_file(int64_t version)
{
	cr_assert_eq(tdl__log_read(&log_, version, &commit, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, version);
	cr_assert_not_null(strstr(error.message, ": is not a regular file"), "%s", error.message);
	cr_assert(tdl__log_exists(&log_, version));
}

Test(log, only_regular_files_are_commits, .timeout = 10)
{
	put("elsewhere", INFO "\n");
	cr_assert_eq(mkdir(commit_path("t", 1), 0755), 0);
	cr_assert_eq(symlink("../../elsewhere", commit_path("t", 2)), 0);
	cr_assert_eq(symlink("nowhere", commit_path("t", 3)), 0);
	cr_assert_eq(mkfifo(commit_path("t", 4), 0644), 0);
	cr_assert_eq(mknod(commit_path("t", 5), S_IFSOCK | 0644, 0), 0);
	for (int64_t version = 1; version <= 5; version++)
		expect_no_file(version);
	/* A FIFO that someone writes to, too. */
	cr_assert_geq(open(commit_path("t", 4), O_RDWR | O_CLOEXEC), 0);
	expect_no_file(4);
}

Test(log, failures_of_the_system_are_not_damage)
{
	put_raw_commit("t", 7, INFO "\n", sizeof INFO);
	faults_fail_op(TDL__OP_OPEN, 1, 1, EACCES);
	cr_assert_eq(tdl__log_read(&log_, 7, &commit, &error), TDL_ERR_IO);
	faults_off();
	cr_assert_eq(error.os_error, EACCES);
	cr_assert_eq(error.version, 7);
	faults_fail_op(TDL__OP_READ, 1, 1, EIO);
	cr_assert_eq(tdl__log_read(&log_, 7, &commit, &error), TDL_ERR_IO);
	faults_off();
	cr_assert_eq(error.os_error, EIO);
	/* Short reads and interrupted ones are nothing. */
	faults_fail_op(TDL__OP_READ, 1, 5, TDL__SYS_SHORT);
	cr_assert_eq(tdl__log_read(&log_, 7, &commit, &error), 0);
	faults_fail_op(TDL__OP_READ, 1, 1, EINTR);
	tdl__commit_clear(&commit);
	cr_assert_eq(tdl__log_read(&log_, 7, &commit, &error), 0);
	faults_off();
}

Test(log, info)
{
	static const char text[] =
		ADD "\n{\"x\":1, \"commitInfo\" : {\"timestamp\":6 ,\"operation\":\"Y\","
		    "\"more\":[1]}}\n";
	char *info;
	size_t n;

	read_commit(text, sizeof text - 1);
	cr_assert_eq(tdl__log_read_info(&log_, 7, tdl__crc32c(0, text, sizeof text - 1), &info, &n,
					&error),
		     0, "%s", error.message);
	cr_assert_str_eq(info, "{\"timestamp\":6 ,\"operation\":\"Y\",\"more\":[1]}");
	cr_assert_eq(n, strlen(info));
	free(info);
	read_commit(ADD "\n", sizeof ADD);
	cr_assert_eq(tdl__log_read_info(&log_, 7, tdl__crc32c(0, ADD "\n", sizeof ADD), &info, &n,
					&error),
		     TDL_ERR_CORRUPT);
	/* It was changed since it was replayed. */
	read_commit(text, sizeof text - 1);
	cr_assert_eq(tdl__log_read_info(&log_, 7, 5, &info, &n, &error), TDL_ERR_CORRUPT);
}

Test(log, listing)
{
	static const int64_t there[] = { 12, 0, 3, 2, 1000000000000, 11 };
	static const int64_t above[] = { 3, 11, 12, 1000000000000 };
	int64_t *versions;
	size_t count;
	bool far;

	for (size_t i = 0; i < sizeof there / sizeof *there; i++)
		put_raw_commit("t", there[i], "", 0);
	put("t/_delta_log/.00000000000000000020.0123456789abcdef0123456789abcdef.tmp", "x");
	put("t/_delta_log/0000000000000000021.json", "x");
	make_dir("t/_delta_log/.tmp");
	put("t/_delta_log/.tmp/00000000000000000022.json", "x");
	cr_assert_eq(tdl__log_list(&log_, 2, &versions, &count, &far, &error), 0);
	cr_assert_eq(count, 4);
	cr_assert_eq(memcmp(versions, above, sizeof above), 0);
	cr_assert_not(far);
	free(versions);
	put("t/_delta_log/18446744073709551617.json", "x");
	cr_assert_eq(tdl__log_list(&log_, 1000000000000, &versions, &count, &far, &error), 0);
	cr_assert_eq(count, 0);
	cr_assert(far);
	free(versions);
	faults_fail_op(TDL__OP_LIST, 1, 1, EIO);
	cr_assert_eq(tdl__log_list(&log_, 0, &versions, &count, &far, &error), TDL_ERR_IO);
	faults_off();
}

static int64_t beyond_gap(void)
{
	int64_t found;

	cr_assert_eq(tdl__log_probe_past_gap(&log_, 10, NULL, &found, &error), 0);
	return found;
}

Test(log, probes_beyond_a_gap)
{
	int64_t found;

	for (int64_t far = 2; far <= INT64_C(1) << 40; far = far < 4 ? far + 1 : far * 2) {
		put_raw_commit("t", 10 + far, "", 0);
		cr_assert_eq(beyond_gap(), 10 + far);
		unlink(commit_path("t", 10 + far));
	}
	faults_count();
	cr_assert_eq(beyond_gap(), -1);
	cr_assert_lt(faults_off(), 60);
	/* Whoever looks often looks far in turns, and still finds everything. */
	for (int64_t far = 2; far <= INT64_C(1) << 40; far = far < 4 ? far + 1 : far * 2) {
		unsigned turn = 7, looks = 0;

		put_raw_commit("t", 10 + far, "", 0);
		do {
			faults_count();
			cr_assert_eq(tdl__log_probe_past_gap(&log_, 10, &turn, &found, &error), 0);
			cr_assert_leq(faults_off(), 4);
		} while (found < 0 && ++looks < 100);
		cr_assert_eq(found, 10 + far);
		cr_assert(far > 4 || looks == 0);
		unlink(commit_path("t", 10 + far));
	}
	/* Who cannot look has found nothing. */
	faults_fail_op(TDL__OP_STAT, 3, 1, EIO);
	cr_assert_eq(tdl__log_probe_past_gap(&log_, 10, NULL, &found, &error), TDL_ERR_IO);
	faults_off();
	cr_assert_eq(error.os_error, EIO);
}
