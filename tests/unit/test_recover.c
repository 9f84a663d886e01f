/* SPDX-License-Identifier: MIT */
/*
 * What the dead leave in _incoming/, who takes it over, and that the only copy of rows is never
 * removed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "commit/staging.h"
#include "faults.h"
#include "scratch.h"
#include "tables.h"

#define ROW_1	"{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2	"{\"id\":2,\"name\":\"b\"}\n"
#define ROW_RAW "{ \"name\":\"r\", \"id\":3 }\n"
#define ROW_3	"{\"id\":3,\"name\":\"r\"}\n"

static tdl_error error;
static tdl_table *table;

static void begin(void)
{
	table = begin_with_table("t");
}

static void end(void)
{
	end_with_table(table);
}

TestSuite(recover, .init = begin, .fini = end);

static tdl_staging *open_staging(void)
{
	tdl_staging *staging;

	cr_assert_eq(tdl_staging_open(table, &staging, &error), 0, "%s", error.message);
	return staging;
}

static tdl_staged *stage(tdl_staging *staging, const char *name, const char *rows)
{
	tdl_staged *file;

	cr_assert_eq(tdl_staged_create(staging, name, &file, &error), 0, "%s", error.message);
	cr_assert_eq(write(tdl_staged_fd(file), rows, strlen(rows)), (ssize_t)strlen(rows));
	return file;
}

static void die(void *context)
{
	_exit(77);
}

/* What was about to be published is writable for nobody; it is taken up all the same. */
static void leave_one_read_only(tdl_staging *staging)
{
	tdl_staged *file = stage(staging, "ready", ROW_1);

	if (fchmod(tdl_staged_fd(file), 0440) < 0)
		_exit(1);
}

/* ---- Adoption ------------------------------------------------------------------------------ */

static struct {
	tdl_staged *files[10];
	char names[10][256];
	int64_t times[10];
	tdl_left left[10];
	char *reasons[10];
	unsigned count;
} recovered;

static void note(void *context, tdl_staged *file, const tdl_left *left)
{
	recovered.left[recovered.count] = *left;
	recovered.reasons[recovered.count] = left->reason ? strdup(left->reason) : NULL;
	recovered.files[recovered.count] = file;
	recovered.times[recovered.count] = left->mtime;
	snprintf(recovered.names[recovered.count++], 256, "%s", left->name);
}

static unsigned recover_leftovers(tdl_staging *staging)
{
	unsigned busy = 99;

	memset(&recovered, 0, sizeof recovered);
	cr_assert_eq(tdl_staging_recover(staging, note, NULL, &busy, &error), 0, "%s",
		     error.message);
	return busy;
}

/* A process that stages, and dies as if killed. */
static void die_after(void (*work)(tdl_staging *staging))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		work(open_staging());
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

static void leave_two(tdl_staging *staging)
{
	tdl_staged *nameless;

	stage(staging, "half.jsonl", ROW_1 "{\"id\":2,");
	stage(staging, "other", ROW_2);
	tdl__staged_create_nameless(staging, NULL, &nameless, &error);
}

Test(recover, the_dead_leave_their_named_files)
{
	tdl_staging *staging;
	int64_t version;
	char *bytes;

	die_after(leave_two);
	cr_assert_eq(count_in("t/_incoming"), 1);
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 2);
	cr_assert_eq(count_in("t/_incoming"), 1, "only our own folder is left");
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_lt(tdl__now_ms() - recovered.times[i], 60000);
		if (strcmp(recovered.names[i], "half.jsonl") == 0) {
			cr_assert_eq(tdl_staged_commit(recovered.files[i], NULL, &version, &error),
				     TDL_ERR_SCHEMA);
			cr_assert_eq(tdl_staged_remove(recovered.files[i], &error), 0);
		} else {
			cr_assert_str_eq(recovered.names[i], "other");
			cr_assert_eq(tdl_staged_commit(recovered.files[i], NULL, &version, &error),
				     0);
		}
		tdl_staged_free(recovered.files[i]);
	}
	bytes = read_version(table, TDL_LATEST, NULL);
	cr_assert_str_eq(bytes, ROW_2);
	free(bytes);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

Test(recover, what_was_made_readable_to_all_is_taken_up)
{
	tdl_staging *staging;
	int64_t version;
	struct stat st;

	die_after(leave_one_read_only);
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 1);
	cr_assert_eq(fstat(tdl_staged_fd(recovered.files[0]), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(tdl_staged_commit(recovered.files[0], NULL, &version, &error), 0);
	tdl_staged_free(recovered.files[0]);
	expect_version("t", 1, ROW_1);
	tdl_staging_free(staging);
}

/* ---- What is known about a file ------------------------------------------------------------ */

static void leave_refused(tdl_staging *staging)
{
	tdl_staged *closed = stage(staging, "closed", ROW_1 "bad");
	tdl_staged *changed = stage(staging, "changed", "bad");
	tdl_staged *wide = stage(staging, "wide", ROW_1);

	cr_assert_eq(tdl_staged_own(closed, 5, 6, 0, &error), 0);
	close(tdl_staged_detach(closed));
	cr_assert_eq(tdl_staged_fd(closed), -1);
	cr_assert_eq(tdl_staged_refused(closed, "closed:2: no", &error), 0);
	close(tdl_staged_detach(closed));
	cr_assert_eq(tdl_staged_refused(changed, "changed:1: no", &error), 0);
	cr_assert_eq(tdl_staged_own(changed, 7, 8, 0640, &error), 0);
	cr_assert_eq(write(tdl_staged_fd(changed), "x", 1), 1);
	cr_assert_eq(tdl_staged_refused(wide, "wide:1: no", &error), 0);
	cr_assert_eq(tdl_staged_own(wide, 4000000000u, 9, 04777, &error), 0);
	stage(staging, "unknown", "bad");
}

Test(recover, the_dead_leave_owners_and_reasons)
{
	tdl_staging *staging;

	die_after(leave_refused);
	/* More than once: who took it over may die, too. */
	for (int round = 0; round < 2; round++) {
		staging = open_staging();
		cr_assert_eq(recover_leftovers(staging), 0);
		cr_assert_eq(recovered.count, 4);
		cr_assert_eq(count_in("t/_incoming"), 1);
		for (unsigned i = 0; i < 4; i++) {
			const char *name = recovered.names[i], *reason = recovered.reasons[i];
			const tdl_left *left = &recovered.left[i];

			if (strcmp(name, "closed") == 0) {
				cr_expect(left->uid == 5 && left->gid == 6 && left->mode == 0);
				cr_expect(reason && strcmp(reason, "closed:2: no") == 0);
			} else if (strcmp(name, "wide") == 0) {
				cr_expect(left->uid == 4000000000u && left->gid == 9);
				cr_expect_eq(left->mode, 0777);
				cr_expect(reason && strcmp(reason, "wide:1: no") == 0);
			} else if (strcmp(name, "changed") == 0) {
				cr_expect(left->uid == 7 && left->gid == 8 && left->mode == 0640);
				cr_expect_null(reason);
			} else {
				cr_expect(left->uid == getuid() && left->mode == 0600);
				cr_expect_null(reason);
			}
			if (round == 1)
				cr_assert_eq(tdl_staged_remove(recovered.files[i], &error), 0);
			tdl_staged_free(recovered.files[i]);
			free(recovered.reasons[i]);
		}
		tdl_staging_free(staging);
	}
	cr_assert_eq(count_in("t/_incoming"), 0, "nothing about them is left");
}

static void leave_odd(tdl_staging *staging)
{
	tdl_staged *file = stage(staging, "odd", ROW_1);
	char path[400];

	cr_assert_eq(tdl_staged_own(file, 5, 6, 0777, &error), 0);
	snprintf(path, sizeof path, "%s",
		 in_scratch("t/_incoming/%s/%.32s.about", staging->name, file->hex));
	cr_assert_eq(truncate(path, 3), 0);
	put(in_scratch("t/_incoming/%s/0123456789abcdef0123456789abcdef.about", staging->name),
	    "x");
}

Test(recover, what_cannot_be_read_about_a_file_is_nothing)
{
	tdl_staging *staging;

	die_after(leave_odd);
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 1);
	cr_expect(recovered.left[0].uid == getuid() && recovered.left[0].mode == 0600);
	cr_assert_eq(tdl_staged_remove(recovered.files[0], &error), 0);
	tdl_staged_free(recovered.files[0]);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

Test(recover, a_commit_opens_what_was_closed)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "a", ROW_1);
	int64_t version;

	cr_assert_eq(tdl_staged_own(file, 5, 6, 0600, &error), 0);
	close(tdl_staged_detach(file));
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), 0, "%s", error.message);
	tdl_staged_free(file);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

Test(recover, the_living_keep_theirs)
{
	tdl_staging *living = open_staging(), *staging = open_staging();
	tdl_staged *file = stage(living, "mine", ROW_1);

	cr_assert_eq(recover_leftovers(staging), 1);
	cr_assert_eq(recovered.count, 0);
	tdl_staged_free(file);
	tdl_staging_free(living);
	/* Closed and left behind: now it is to be had. */
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 1);
	tdl_staged_remove(recovered.files[0], NULL);
	tdl_staged_free(recovered.files[0]);
	tdl_staging_free(staging);
}

/* As through another client of a shared file system. */
Test(recover, a_lock_of_the_folder_that_is_not_seen)
{
	tdl_staging *living = open_staging(), *staging = open_staging();
	tdl_staged *file = stage(living, "mine", ROW_1);

	cr_assert_eq(flock(living->dir, LOCK_UN), 0);
	cr_assert_eq(recover_leftovers(staging), 1);
	cr_assert_eq(recovered.count, 0);
	tdl_staged_remove(file, NULL);
	tdl_staged_free(file);
	tdl_staging_free(living);
	/* Made by one that died before it had a lock. */
	cr_assert_eq(mkdir(in_scratch("t/_incoming/%.66s%016x", staging->name, 7), 0700), 0);
	cr_assert_eq(recover_leftovers(staging), 0);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

/* A container has no machine id, or another each time; but it is the same kernel. */
Test(recover, another_machine_with_this_boot_is_this_one)
{
	tdl_staging *staging;
	char *folder, other[128];

	die_after(leave_two);
	folder = names_in("t/_incoming");
	folder[strlen(folder) - 1] = '\0';
	snprintf(other, sizeof other, "00112233445566778899aabbccddeeff%s", folder + 32);
	cr_assert_eq(
		rename(in_scratch("t/_incoming/%s", folder), in_scratch("t/_incoming/%s", other)),
		0);
	free(folder);
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 2);
	for (unsigned i = 0; i < 2; i++) {
		tdl_staged_remove(recovered.files[i], NULL);
		tdl_staged_free(recovered.files[i]);
	}
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

static void date(int fd, int64_t ago)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = time(NULL) - ago } };

	cr_assert_eq(futimens(fd, times), 0);
}

/* Two copies of a virtual machine have one machine id, and boot ids of their own; over some file
 * systems neither sees what the other has locked. */
Test(recover, a_copy_of_this_machine_that_lives)
{
	tdl_staging *living = open_staging(), *staging = open_staging();
	tdl_staged *file = stage(living, "mine", ROW_1);
	char other[128];

	snprintf(other, sizeof other, "%.33s%s%s", living->name, "00112233445566778899aabbccddeeff",
		 living->name + 65);
	cr_assert_eq(rename(in_scratch("t/_incoming/%s", living->name),
			    in_scratch("t/_incoming/%s", other)),
		     0);
	memcpy(living->name, other, strlen(other));
	cr_assert_eq(flock(living->dir, LOCK_UN), 0);
	cr_assert_eq(flock(living->lock, LOCK_UN), 0);
	cr_assert_eq(recover_leftovers(staging), 1, "it was made just now");
	date(living->lock, 601);
	cr_assert_eq(tdl_staging_touch(living), 0);
	cr_assert_eq(recover_leftovers(staging), 1, "it shows that it lives");
	/* A lock counts, whatever its date. */
	date(living->lock, 601);
	cr_assert_eq(flock(living->lock, LOCK_EX), 0);
	cr_assert_eq(recover_leftovers(staging), 1);
	cr_assert_eq(recovered.count, 0);
	cr_assert_eq(flock(living->lock, LOCK_UN), 0);
	cr_assert_eq(recover_leftovers(staging), 0, "this machine before it booted");
	cr_assert_eq(recovered.count, 1);
	cr_assert_eq(tdl_staged_remove(recovered.files[0], NULL), 0);
	tdl_staged_free(recovered.files[0]);
	tdl_staged_free(file);
	tdl_staging_free(living);
	tdl_staging_free(staging);
}

Test(recover, other_machines_and_other_things_are_left_alone)
{
	static const char foreign[] = "t/_incoming/00112233445566778899aabbccddeeff-"
				      "00112233445566778899aabbccddeeff-0011223344556677";
	tdl_staging *staging = open_staging();
	char *names;

	make_dir(foreign);
	put(in_scratch("%s/0123456789abcdef0123456789abcdef-x", foreign), ROW_1);
	make_dir("t/_incoming/notes");
	put("t/_incoming/notes/0123456789abcdef0123456789abcdef-x", ROW_1);
	put("t/_incoming/README", "x");
	cr_assert_eq(symlink(in_scratch("%s", foreign), in_scratch("t/_incoming/link")), 0);
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 0);
	names = vacuum(table, false);
	cr_assert_str_eq(names, "");
	free(names);
	cr_assert(is_there(in_scratch("%s/0123456789abcdef0123456789abcdef-x", foreign)));
	cr_assert(is_there("t/_incoming/notes/0123456789abcdef0123456789abcdef-x"));
	cr_assert(is_there("t/_incoming/README"));
	tdl_staging_free(staging);
}

static void leave_odd_things(tdl_staging *staging)
{
	static const char hex[] = "0123456789abcdef0123456789abcdef";

	make_dir(in_scratch("t/_incoming/%s/%s-dir", staging->name, hex));
	if (symlink("/etc/passwd", in_scratch("t/_incoming/%s/%s-link", staging->name, hex)) < 0 ||
	    mkfifo(in_scratch("t/_incoming/%s/%s-fifo", staging->name, hex), 0600) < 0)
		_exit(1);
	put(in_scratch("t/_incoming/%s/unknown", staging->name), "x");
	put(in_scratch("t/_incoming/%s/%s-good", staging->name, hex), ROW_1);
}

Test(recover, only_regular_files_are_taken, .timeout = 10)
{
	tdl_staging *staging;

	die_after(leave_odd_things);
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 1);
	cr_assert_str_eq(recovered.names[0], "good");
	cr_assert_eq(count_in("t/_incoming"), 2, "what is unknown is not thrown away");
	tdl_staged_free(recovered.files[0]);
	tdl_staging_free(staging);
}

/* Publishes, and dies before it removes the staged name. */
static void publish_and_die(tdl_staging *staging)
{
	tdl_staged *file = stage(staging, "published", ROW_1);
	int64_t version;

	faults_fail_op(TDL__OP_UNLINK, 1, 100, EIO);
	if (tdl_staged_commit(file, NULL, &version, &error) < 0)
		_exit(1);
	_exit(0);
}

Test(recover, what_was_published_is_removed_silently)
{
	tdl_staging *staging;

	die_after(publish_and_die);
	cr_assert_eq(count_in("t/_incoming"), 1);
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 0);
	cr_assert_eq(count_in("t/_incoming"), 1);
	expect_version("t", 1, ROW_1);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
}

/* ---- What may be the only copy ------------------------------------------------------------- */

static unsigned stop_at;

static void commit_without_links(tdl_staging *staging)
{
	tdl_staged *file = stage(staging, "drop", ROW_1);
	int64_t version;

	faults_do(stop_at, die, NULL);
	faults_and_op(TDL__OP_LINK, EPERM);
	if (tdl_staged_commit(file, NULL, &version, &error) < 0)
		_exit(2);
	_exit(1);
}

/* Without hard links the staged file itself is renamed before it is published. */
Test(recover, a_staged_file_is_never_lost_where_there_are_no_links, .timeout = 60)
{
	int status = 0;

	for (stop_at = 1; WEXITSTATUS(status) != 1; stop_at++) {
		int64_t head = tdl_table_head(table);
		char bytes[64] = "";
		tdl_staging *staging;
		pid_t pid = fork();

		if (pid == 0)
			commit_without_links(open_staging());
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) != 2, "%x", (unsigned)status);
		/* Even if somebody cleans up before the next mount. */
		age_all("t");
		if (stop_at % 2 == 0)
			free(vacuum(table, false));
		staging = open_staging();
		cr_assert_eq(recover_leftovers(staging), 0);
		cr_assert_eq(tdl_table_refresh(table, &error), 0);
		cr_assert_eq(recovered.count, tdl_table_head(table) > head ? 0 : 1, "stopped at %u",
			     stop_at);
		if (recovered.count == 1) {
			cr_assert_str_eq(recovered.names[0], "drop");
			cr_assert_gt(pread(tdl_staged_fd(recovered.files[0]), bytes, 63, 0), 0);
			cr_assert_str_eq(bytes, ROW_1);
			tdl_staged_remove(recovered.files[0], NULL);
			tdl_staged_free(recovered.files[0]);
		}
		tdl_staging_free(staging);
		cr_assert_eq(count_in("t/_incoming"), 0, "%u", stop_at);
	}
	cr_assert_gt(stop_at, 20);
}

/* The link of the commit fails, and so does the look whether it did. */
static bool blind;

static int in_doubt(enum tdl__op op, const char *name)
{
	bool commit = strstr(name, ".json") && strncmp(name, "part-", 5) != 0;

	if (op == TDL__OP_LINK && commit && !blind) {
		blind = true;
		return EIO;
	}
	return op == TDL__OP_STAT && commit && blind ? EIO : 0;
}

Test(recover, a_commit_in_doubt_keeps_the_staged_file)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "drop", ROW_1);
	int64_t version;
	int r;

	blind = false;
	tdl__sys_hook = in_doubt;
	r = tdl_staged_commit(file, NULL, &version, &error);
	tdl__sys_hook = NULL;
	cr_assert_eq(r, TDL_ERR_PUBLISHED);
	cr_assert(error.in_doubt);
	cr_assert_eq(strncmp(error.message, "may be committed as version 1", 29), 0, "%s",
		     error.message);
	cr_assert_not_null(strstr(error.message, "do not drop again"), "%s", error.message);
	tdl_staged_free(file);
	tdl_staging_free(staging);
	/* It was not: the rows are there for the next mount, whatever a vacuum does before. */
	age_all("t");
	free(vacuum(table, false));
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 1);
	cr_assert_eq(tdl_staged_commit(recovered.files[0], NULL, &version, &error), 0);
	cr_assert_eq(version, 1);
	tdl_staged_free(recovered.files[0]);
	tdl_staging_free(staging);
	expect_version("t", 1, ROW_1);
}

/* Told again while the first commit may be there: no row is there twice, and none is lost where
 * the second try fails. */
Test(recover, what_is_in_doubt_can_be_told_again)
{
	char name[64];
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "drop", ROW_1);
	int64_t version;

	blind = false;
	tdl__sys_hook = in_doubt;
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_PUBLISHED);
	tdl__sys_hook = NULL;
	snprintf(name, sizeof name, "part-%s.jsonl", file->hex);
	put_commit("t", 1, add_line(name, strlen(ROW_1), 1));
	faults_fail_op(TDL__OP_FSYNC, 3, 1, EIO);
	cr_assert_eq(tdl_staged_commit(file, NULL, &version, &error), TDL_ERR_IO);
	faults_off();
	expect_version("t", 1, ROW_1);
	tdl_staged_free(file);
	tdl_staging_free(staging);
}

/* A vacuum that knows no lock takes the part, and there is no room to link it again. */
static int lose_part(enum tdl__op op, const char *name)
{
	static bool gone;
	bool part = strncmp(name, "part-", 5) == 0;

	if (op == TDL__OP_LINK && !part && strstr(name, ".json")) {
		char *names = names_in("t"), *taken = strstr(names, "part-");

		taken[strcspn(taken, "\n")] = '\0';
		if (unlink(in_scratch("t/%s", taken)) < 0)
			abort();
		free(names);
		gone = true;
	}
	return op == TDL__OP_LINK && part && gone ? ENOSPC : 0;
}

static void lose_the_part(const char *rows, const char *stored)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "drop", rows);
	int64_t version;
	char *names;
	int r;

	tdl__sys_hook = lose_part;
	r = tdl_staged_commit(file, NULL, &version, &error);
	tdl__sys_hook = NULL;
	cr_assert_eq(r, TDL_ERR_PUBLISHED);
	cr_assert_not(error.in_doubt);
	cr_assert_eq(
		strncmp(error.message, "committed as version 1, but its data file is gone", 49), 0,
		"%s", error.message);
	cr_assert_not_null(strstr(error.message, "its rows are still in "), "%s", error.message);
	cr_assert_eq(tdl_staged_remove(file, &error), 0, "it is not this process's any more");
	tdl_staged_free(file);
	tdl_staging_free(staging);
	names = vacuum(table, false);
	cr_assert_str_eq(names, "", "%s", names);
	free(names);
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 0);
	tdl_staging_free(staging);
	cr_assert_eq(count_in("t/_incoming"), 0);
	expect_version("t", 1, stored);
}

Test(recover, a_data_file_that_was_lost_comes_back)
{
	lose_the_part(ROW_1, ROW_1);
}

Test(recover, a_data_file_that_was_lost_comes_back_rewritten)
{
	lose_the_part(ROW_RAW, ROW_3);
}

/* Bytes that are not those of the commit are no data file: they are listed. */
Test(recover, another_file_does_not_come_back)
{
	tdl_staging *staging = open_staging();
	tdl_staged *file = stage(staging, "drop", ROW_2);
	char hex[TDL__HEX_MAX], name[64];

	memcpy(hex, file->hex, sizeof hex);
	tdl_staged_free(file);
	tdl_staging_free(staging);
	snprintf(name, sizeof name, "part-%s.jsonl", hex);
	put_commit("t", 1, add_line(name, strlen(ROW_2) + 1, 1));
	staging = open_staging();
	cr_assert_eq(recover_leftovers(staging), 0);
	cr_assert_eq(recovered.count, 1);
	tdl_staged_remove(recovered.files[0], NULL);
	tdl_staged_free(recovered.files[0]);
	tdl_staging_free(staging);
	cr_assert_not(is_there(in_scratch("t/%s", name)));
}

Test(recover, behind_damage_nothing_is_touched)
{
	tdl_staging *staging;
	unsigned busy;

	die_after(leave_two);
	put_raw_commit("t", 1, "x", 1);
	staging = open_staging();
	cr_assert_eq(tdl_staging_recover(staging, note, NULL, &busy, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(count_in("t/_incoming"), 2);
	tdl_staging_free(staging);
}
