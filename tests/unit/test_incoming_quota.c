/* SPDX-License-Identifier: MIT */
/*
 * What one user may have of what all share.
 */
#include "fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define OTHER 2000

TestSuite(incoming_quota, .init = fake_setup, .fini = fake_teardown, .timeout = 60);

static int try_create(uid_t uid, const char *name, struct tdfs_handle **handle)
{
	struct tdfs_caller caller = who(7);
	struct stat st;

	caller.uid = uid;
	return tdfs_incoming_create(in, &caller, name, 0644, O_WRONLY, &st, handle);
}

static int touch(uid_t uid, const char *name)
{
	struct tdfs_handle *handle;
	int why = try_create(uid, name, &handle);

	if (why == 0)
		release(handle);
	return why;
}

Test(incoming_quota, files_that_wait)
{
	world.limits = (struct tdfs_limits){ .files = 3 };
	cr_expect_eq(touch(1000, "a"), 0);
	cr_expect_eq(touch(1000, "b"), 0);
	cr_expect_eq(touch(1000, "c"), 0);
	cr_expect_eq(touch(1000, "d"), EDQUOT);
	cr_expect_not_null(strstr(world.logged, "user 1000 has 3 files in incoming/"));
	cr_expect_eq(world.live, 3, "nothing is made of what is refused");
	cr_expect_eq(touch(OTHER, "d"), 0, "others have their own share");
	cr_expect_eq(touch(1000, "a"), 0, "what is there is opened");
	cr_expect_eq(unlink_it(7, "a"), 0);
	cr_expect_eq(touch(1000, "e"), 0);
	cr_expect_str_eq(listing(), "b c d e");
}

Test(incoming_quota, it_is_said_once_a_minute)
{
	world.limits = (struct tdfs_limits){ .files = 1 };
	world.now = 5;
	cr_expect_eq(touch(1000, "a"), 0);
	cr_expect_eq(touch(1000, "b"), EDQUOT);
	world.logged[0] = '\0';
	cr_expect_eq(touch(1000, "b"), EDQUOT);
	cr_expect_str_eq(world.logged, "");
	world.now += 60000;
	cr_expect_eq(touch(1000, "b"), EDQUOT);
	cr_expect_neq(world.logged[0], '\0');
}

Test(incoming_quota, what_is_committed_does_not_count)
{
	char name[16];

	world.limits = (struct tdfs_limits){ .files = 2, .opens = 2 };
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof name, "n%d", i);
		cr_expect_eq(write_staged(7, name, "x\n"), 0);
		cr_expect_eq(write_staged(7, ".aside", "x\n"), 0);
		cr_expect_eq(rename_it(7, ".aside", "aside"), 0);
		run_jobs();
	}
	cr_expect_eq(world.commits, 40);
	/* What is refused does, until it is removed. */
	world.code = TDL_ERR_SCHEMA;
	cr_expect_neq(write_staged(7, "bad", "y\n"), 0);
	cr_expect_neq(write_staged(7, "worse", "y\n"), 0);
	cr_expect_eq(touch(1000, "third"), EDQUOT);
	cr_expect_eq(unlink_it(7, "bad"), 0);
	cr_expect_eq(touch(1000, "third"), 0);
}

Test(incoming_quota, the_daemons_own_user_is_not_limited)
{
	world.limits = (struct tdfs_limits){ .files = 1, .opens = 1, .exempt = 1000 };
	cr_expect_eq(touch(1000, "a"), 0);
	cr_expect_eq(touch(1000, "b"), 0);
	cr_expect_eq(touch(OTHER, "c"), 0);
	cr_expect_eq(touch(OTHER, "d"), EDQUOT);
}

Test(incoming_quota, files_that_are_open)
{
	struct tdfs_handle *one, *two, *three;

	world.limits = (struct tdfs_limits){ .opens = 2 };
	cr_expect_eq(try_create(1000, "a", &one), 0);
	cr_expect_eq(try_create(1000, "b", &two), 0);
	cr_expect_eq(try_create(1000, "c", &three), EMFILE);
	cr_expect_eq(lookup(7, "c", NULL), 0, "nothing is made");
	cr_expect_eq(open_it(7, "a", O_RDONLY, &three), EMFILE);
	cr_expect_eq(try_create(OTHER, "c", &three), 0);
	release(three);
	release(two);
	cr_expect_eq(open_it(7, "a", O_RDONLY, &two), 0);
	release(two);
	release(one);
}

/* An adopted file counts, whatever it was adopted for. */
Test(incoming_quota, adopted_files_count)
{
	world.limits = (struct tdfs_limits){ .files = 1 };
	recover_leftovers("left", "x\n", NULL);
	cr_expect_eq(touch(1000, "a"), EDQUOT);
	cr_expect_eq(touch(OTHER, "a"), 0);
}

/* What is written to when it is committed goes on as another file of its owner's. */
Test(incoming_quota, what_goes_on_counts_again)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	world.limits = (struct tdfs_limits){ .files = 1 };
	cr_expect_eq(write_at(7, handle, "x\n", 0), 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(write_at(8, handle, "y\n", 2), 0);
	cr_expect_eq(touch(1000, "b"), EDQUOT);
	cr_expect_eq(flush(8, handle), 0);
	release(handle);
	cr_expect_eq(world.commits, 2);
	cr_expect_eq(touch(1000, "b"), 0);
}

/* ---- Who had to do with a file ------------------------------------------------------------ */

/* Many processes append to a temporary file, one after the other: the newest are remembered. */
Test(incoming_quota, clients_of_a_file_that_nobody_has_open)
{
	struct tdfs_handle *handle = create(100, ".log", O_WRONLY);

	release(handle);
	for (pid_t tid = 101; tid < 200; tid++) {
		cr_expect_eq(open_it(tid, ".log", O_WRONLY, &handle), 0);
		cr_expect_eq(append_at(tid, handle, "x\n", 2 * (uint64_t)(tid - 101)), 0);
		flush(tid, handle);
		release(handle);
		cr_expect_leq(world.candidates, 17);
	}
	cr_expect_eq(rename_it(300, ".log", "log"), 0);
	cr_expect_neq(lookup(199, "log", NULL), 0, "who wrote it last finds it");
	cr_expect_neq(lookup(300, "log", NULL), 0);
	cr_expect_eq(write_staged(400, "another", "x\n"), 0);
}

/* While they have it open all are, up to a limit for all files of a user; who is forgotten then may
 * be anywhere. */
Test(incoming_quota, clients_of_open_files)
{
	struct tdfs_handle *handles[40];

	world.limits = (struct tdfs_limits){ .clients = 30 };
	for (int i = 0; i < 40; i++) {
		handles[i] = i == 0 ? create(100, "a", O_WRONLY) : reopen(100 + i, "a", O_WRONLY);
		if (i == 20) {
			for (int j = 0; j <= i; j++)
				cr_expect_eq(flush(100 + j, handles[j]), 0);
			cr_expect_eq(write_at(100, handles[0], "x\n", 0), 0);
			world.held = true;
			cr_expect_eq(flush(100, handles[0]), 0);
			cr_expect_eq(world.candidates, 21);
			cr_expect_not(world.all_processes);
			world.held = false;
		}
	}
	for (int i = 21; i < 40; i++)
		cr_expect_eq(flush(100 + i, handles[i]), 0);
	cr_expect_eq(world.commits, 1);
	cr_expect_eq(world.candidates, 30);
	cr_expect(world.all_processes);
	for (int i = 0; i < 40; i++)
		release(handles[i]);
}
