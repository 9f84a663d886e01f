/* SPDX-License-Identifier: MIT */
/*
 * When a staged file is committed, what is refused, and writers that are killed.
 */
#include "fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In place of the system's, for all of this program: fails where a test says so. */
static bool no_copies;

char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = no_copies ? NULL : malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

TestSuite(incoming, .init = fake_setup, .fini = fake_teardown, .timeout = 60);

/* ---- When it commits ---------------------------------------------------------------------- */

Test(incoming, cp)
{
	cr_expect_eq(write_staged(7, "a", "x\n"), 0);
	cr_expect_eq(world.commits, 1);
	cr_expect_str_eq(world.committed, "x\n");
	cr_expect_str_eq(world.source, "a");
	cr_expect_eq(world.uid, 1000);
	cr_expect_str_eq(listing(), "");
}

Test(incoming, a_shell_flushes_before_the_first_byte)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(listing(), "a");
	write_at(8, handle, "x\n", 0);
	cr_expect_eq(flush(8, handle), 0);
	cr_expect_eq(world.commits, 1);
	cr_expect_eq(flush(7, handle), 0, "nothing new: the same answer");
	release(handle);
	cr_expect_eq(world.commits, 1);
}

Test(incoming, held_means_wait)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	world.held = true;
	write_at(7, handle, "x\n", 0);
	cr_expect_eq(flush(8, handle), 0);
	write_at(7, handle, "y\n", 2);
	cr_expect_eq(flush(9, handle), 0);
	cr_expect_eq(world.commits, 0);
	world.held = false;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming, release_publishes_what_is_left)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	world.held = true;
	write_at(7, handle, "x\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 0);
	release(handle);
	cr_expect_eq(world.commits, 1);
}

Test(incoming, release_tells_the_log)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.code = TDL_ERR_SCHEMA;
	release(handle);
	cr_expect_str_eq(world.logged, "a: a:1: bad");
	cr_expect_str_eq(listing(), "a a.error");
}

Test(incoming, a_descriptor_that_exec_closes_is_waited_for)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.held = world.till_exec = true;
	world.waits = 5;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming, but_not_for_ever)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.held = world.till_exec = true;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 0);
	cr_expect_leq(world.now, 110);
	world.held = false;
	release(handle);
	cr_expect_eq(world.commits, 1);
}

/* Between our answer to an open and the descriptor's appearance in /proc there is a moment. */
Test(incoming, a_handle_is_open_until_a_close_comes)
{
	struct tdfs_handle *one = create(7, "a", O_WRONLY), *two;

	write_at(7, one, "x\n", 0);
	cr_assert_eq(open_it(8, "a", O_WRONLY, &two), 0);
	cr_expect_eq(flush(7, one), 0);
	release(one);
	cr_expect_eq(world.commits, 0);
	write_at(8, two, "y\n", 2);
	cr_expect_eq(flush(8, two), 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(two);
}

static struct tdfs_handle *other;

static void write_meanwhile(void)
{
	world.during_scan = NULL;
	write_at(9, other, "y\n", 2);
}

Test(incoming, bytes_that_come_while_we_look_are_in)
{
	other = create(7, "a", O_WRONLY);
	write_at(7, other, "x\n", 0);
	world.during_scan = write_meanwhile;
	cr_expect_eq(flush(7, other), 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(other);
	cr_expect_eq(world.commits, 1);
}

Test(incoming, readers_do_not_matter)
{
	struct tdfs_handle *writer = create(7, "a", O_WRONLY), *reader;

	write_at(7, writer, "x\n", 0);
	cr_assert_eq(open_it(8, "a", O_RDONLY, &reader), 0);
	cr_expect_eq(flush(8, reader), 0);
	cr_expect_eq(world.commits, 0);
	cr_expect_eq(write_at(8, reader, "y", 0), EBADF);
	cr_expect_eq(flush(7, writer), 0);
	cr_expect_eq(world.commits, 1);
	release(writer);
	release(reader);
}

Test(incoming, two_handles_one_file)
{
	struct tdfs_handle *one = create(7, "a", O_WRONLY), *two;

	write_at(7, one, "x\n", 0);
	cr_assert_eq(open_it(8, "a", O_WRONLY | O_APPEND, &two), 0);
	append_at(8, two, "y\n", 2);
	world.held = true;
	cr_expect_eq(flush(8, two), 0);
	world.held = false;
	cr_expect_eq(flush(7, one), 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(one);
	release(two);
	cr_expect_eq(world.commits, 1);
}

/* After a write that failed the kernel may believe the file to be longer than it is. */
Test(incoming, appends_go_to_the_end_wherever_the_kernel_thinks_it_is)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY | O_APPEND);
	struct tdfs_caller caller = who(7);
	size_t done;

	cr_expect_eq(tdfs_incoming_write(in, &caller, handle, O_APPEND, (void *)8, 99, 0, &done),
		     EFAULT);
	cr_expect_eq(flush(7, handle), EFAULT);
	append_at(7, handle, "x\n", 99);
	append_at(7, handle, "y\n", 101);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(handle);
}

Test(incoming, a_handle_appends_as_long_as_its_flags_say_so)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY | O_APPEND);

	append_at(7, handle, "x\n", 0);
	write_at(7, handle, "y\n", 0);
	append_at(7, handle, "z\n", 2);
	/* Asked not to append, the kernel gives the offset that was asked for. */
	append_at(7, handle, "Z", 2);
	flush(7, handle);
	cr_expect_str_eq(world.committed, "y\nZ\n");
	release(handle);
}

/* ---- Writes and cuts come in the order in which they were answered ------------------------- */

struct cut {
	const char *how;
	int why;
};

static void *cut_it(void *argument)
{
	struct tdfs_caller caller = who(7);
	struct stat change = { .st_size = 0 }, st;
	struct tdfs_handle *handle;
	struct cut *cut = argument;

	if (strcmp(cut->how, "ftruncate") == 0) {
		cut->why = tdfs_incoming_setattr(in, &caller, lookup(7, "a", NULL), &change,
						 TDFS_SET_SIZE, &st);
	} else {
		cut->why = open_it(7, "a", O_WRONLY | O_TRUNC, &handle);
		if (cut->why == 0)
			release(handle);
	}
	return NULL;
}

/* The writer has its answer, and cuts the file before what it wrote is validated. */
static void cut_between_the_halves(const char *how)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY), *second;
	struct tdfs_caller caller = who(7);
	struct tdfs_written first = { 0 };
	struct cut cut = { .how = how };
	struct stat change = { .st_size = 0 }, st;
	uint64_t ino = lookup(7, "a", NULL);
	pthread_t thread;

	cr_assert_eq(tdfs_incoming_write_begin(in, &caller, handle, 0, "x\n", 2, 0, &first), 0);
	caller.may_wait = false;
	cr_expect_eq(tdfs_incoming_setattr(in, &caller, ino, &change, TDFS_SET_SIZE, &st),
		     TDFS_LATER);
	world.own = true;
	cr_expect_eq(tdfs_incoming_open(in, &caller, ino, O_WRONLY | O_TRUNC, &second), TDFS_LATER);
	cr_assert_eq(pthread_create(&thread, NULL, cut_it, &cut), 0);
	/* Until the file is frozen for it, and nobody can open it. */
	for (int i = 0; i < 10000 && tdfs_incoming_open(in, &caller, ino, O_WRONLY, &second) == 0;
	     i++) {
		release(second);
		usleep(1000);
	}
	tdfs_incoming_write_end(in, "x\n", &first);
	pthread_join(thread, NULL);
	cr_expect_eq(cut.why, 0);
	cr_expect_str_eq(world.told, "written 0, cut 0");
	write_at(7, handle, "y\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(world.committed, "y\n");
	release(handle);
}

Test(incoming, ftruncate_waits_for_what_is_being_validated)
{
	cut_between_the_halves("ftruncate");
}

Test(incoming, so_does_o_trunc)
{
	cut_between_the_halves("O_TRUNC");
}

/* ---- Refusals ----------------------------------------------------------------------------- */

Test(incoming, refused_and_mended)
{
	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(write_staged(7, "a", "x\n"), EINVAL);
	cr_expect_str_eq(listing(), "a a.error");
	cr_expect_str_eq(error_text("a.error"), "a:1: bad\n");
	world.code = TDL_OK;
	cr_expect_eq(write_staged(8, "a", "y\n"), 0);
	cr_expect_str_eq(world.committed, "y\n");
	cr_expect_str_eq(listing(), "");
}

/* What was answered with an error is not committed when the file is released. */
Test(incoming, a_commit_without_memory_for_a_name_is_refused)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	no_copies = true;
	cr_expect_eq(flush(7, handle), ENOMEM);
	no_copies = false;
	cr_expect_eq(flush(7, handle), ENOMEM);
	release(handle);
	cr_expect_eq(world.commits, 0);
	cr_expect_not_null(strstr(world.logged, "not committed: "));
}

Test(incoming, a_further_close_repeats_the_answer)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(flush(7, handle), EINVAL);
	world.code = TDL_OK;
	cr_expect_eq(flush(7, handle), EINVAL);
	cr_expect_eq(world.commits, 0);
	write_at(7, handle, "y", 0);
	cr_expect_eq(flush(7, handle), 0);
	release(handle);
}

Test(incoming, who_changed_nothing_since_the_refusal_hears_nothing_of_it)
{
	struct tdfs_handle *handle;

	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(write_staged(7, "a", "x\n"), EINVAL);
	for (pid_t tid = 7; tid <= 8; tid++) {
		handle = reopen(tid, "a", O_RDWR);
		cr_expect_eq(flush(tid, handle), 0);
		cr_expect_eq(flush(tid, handle), 0);
		release(handle);
		cr_expect_str_eq(listing(), "a a.error");
	}
	/* Whoever changes it does. */
	handle = reopen(8, "a", O_RDWR);
	write_at(8, handle, "y", 0);
	cr_expect_eq(flush(8, handle), EINVAL);
	cr_expect_eq(flush(8, handle), EINVAL);
	release(handle);
	world.code = TDL_OK;
	handle = reopen(8, "a", O_RDWR);
	cr_expect_eq(flush(8, handle), 0);
	cr_expect_eq(world.commits, 0, "it was not tried again");
	write_at(8, handle, "z", 0);
	cr_expect_eq(flush(8, handle), 0);
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming, truncated_by_name_it_is_tried_at_the_next_close)
{
	struct tdfs_caller caller = who(8);
	struct stat change = { .st_size = 2 }, st;
	struct tdfs_handle *handle;

	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(write_staged(7, "a", "x\nbad\n"), EINVAL);
	cr_expect_eq(tdfs_incoming_setattr(in, &caller, lookup(8, "a", NULL), &change,
					   TDFS_SET_SIZE, &st),
		     0);
	cr_expect_str_eq(listing(), "a a.error");
	cr_expect(strstr(error_text("a.error"), "changed after it was refused"), "%s",
		  error_text("a.error"));
	world.code = TDL_OK;
	handle = reopen(8, "a", O_RDWR);
	cr_expect_eq(flush(8, handle), 0);
	release(handle);
	cr_expect_str_eq(world.committed, "x\n");
	cr_expect_str_eq(listing(), "");
}

Test(incoming, rm_removes_both)
{
	world.code = TDL_ERR_SCHEMA;
	write_staged(7, "a", "x\n");
	cr_expect_eq(unlink_it(7, "a"), 0);
	cr_expect_str_eq(listing(), "");
	write_staged(7, "a", "x\n");
	cr_expect_eq(unlink_it(7, "a.error"), 0);
	cr_expect_str_eq(listing(), "a");
	cr_expect_eq(rename_it(7, "a", "b"), EINVAL);
	cr_expect_str_eq(listing(), "a a.error");
}

Test(incoming, a_note_that_went_with_its_file_is_removed_already)
{
	struct tdfs_caller rm = who(7), another = who(8), stranger = who(9);
	struct stat st;
	uint64_t ino;

	stranger.uid = 4711;
	world.code = TDL_ERR_SCHEMA;
	write_staged(7, "a", "x\n");
	cr_expect_eq(unlink_it(7, "a"), 0);
	cr_expect_str_eq(listing(), "");
	/* Who removes both asks for it first; to everybody else it has gone. */
	cr_assert_eq(tdfs_incoming_lookup(in, &rm, "a.error", &st), 0);
	ino = st.st_ino;
	cr_expect_eq(st.st_nlink, 0);
	cr_expect_eq(tdfs_incoming_getattr(in, &rm, ino, &st), 0);
	cr_expect_eq(tdfs_incoming_getattr(in, &another, ino, &st), ENOENT);
	cr_expect_eq(tdfs_incoming_lookup(in, &stranger, "a.error", &st), ENOENT);
	cr_expect_eq(tdfs_incoming_unlink(in, &stranger, "a.error"), ENOENT);
	cr_expect_eq(unlink_it(8, "a.error"), 0);
	cr_expect_eq(unlink_it(7, "a.error"), ENOENT);
	tdfs_incoming_forget(in, ino, 1);
	/* It is in nobody's way, */
	for (int i = 0; i < 2; i++) {
		write_staged(7, "a", "x\n");
		cr_expect_str_eq(listing(), "a a.error");
		cr_expect_str_eq(error_text("a.error"), "a:1: bad\n");
		cr_expect_eq(unlink_it(7, "a"), 0);
	}
	write_staged(7, "b", "x\n");
	cr_expect_eq(rename_it(7, "b", "a.tmp"), 0);
	cr_expect_str_eq(listing(), "a.tmp a.tmp.error");
	cr_expect_eq(unlink_it(7, "a.tmp"), 0);
	/* and is for a moment only. */
	world.now += 4900;
	cr_expect(tdfs_incoming_expire(in));
	cr_expect_eq(unlink_it(7, "a.error"), 0);
	world.now += 200;
	cr_expect_not(tdfs_incoming_expire(in));
	cr_expect_eq(unlink_it(7, "a.tmp.error"), ENOENT);
}

Test(incoming, whoever_copies_a_folder)
{
	struct tdfs_caller cp = who(7), another = who(8);

	another.uid = 4711;
	cr_expect_not(tdfs_incoming_copies(in, &cp));
	tdfs_incoming_copying(in, &cp, true);
	cr_expect(tdfs_incoming_copies(in, &cp));
	cr_expect_not(tdfs_incoming_copies(in, &another));
	tdfs_incoming_copying(in, &cp, false);
	cr_expect_not(tdfs_incoming_copies(in, &cp));
	tdfs_incoming_copying(in, &cp, true);
	for (int tid = 10; tid < 17; tid++) {
		struct tdfs_caller one = who(tid);

		tdfs_incoming_copying(in, &one, true);
	}
	cr_expect(tdfs_incoming_copies(in, &cp));
	world.now += 2100;
	cr_expect_not(tdfs_incoming_copies(in, &cp));
	/* Its files are there, committed or not. */
	write_staged(7, "a", "x\n");
	cr_expect(tdfs_incoming_copies(in, &cp));
	cr_expect_not(tdfs_incoming_copies(in, &another));
	world.now += 6000;
	cr_expect_not(tdfs_incoming_copies(in, &cp));
	write_staged(7, ".a", "x\n");
	cr_expect(tdfs_incoming_copies(in, &cp));
}

Test(incoming, error_files_are_not_written)
{
	struct tdfs_handle *handle;
	struct tdfs_caller caller = who(7);
	struct stat st = { .st_mode = 0600 };

	world.code = TDL_ERR_SCHEMA;
	write_staged(7, "a", "x\n");
	cr_expect_eq(open_it(7, "a.error", O_WRONLY, &handle), EPERM);
	cr_expect_eq(open_it(7, "a.error", O_RDONLY | O_TRUNC, &handle), EPERM);
	cr_expect_eq(tdfs_incoming_setattr(in, &caller, lookup(7, "a.error", NULL), &st,
					   TDFS_SET_MODE, &st),
		     EPERM);
	cr_expect_eq(rename_it(7, "a.error", "b"), EPERM);
	cr_expect_eq(rename_it(7, "a", "b.error"), EPERM);
	cr_expect_eq(tdfs_incoming_create(in, &caller, "c.error", 0644, O_WRONLY, &st, &handle),
		     EPERM);
}

Test(incoming, empty_is_no_error)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	world.code = TDL_ERR_EMPTY;
	cr_expect_eq(write_staged(7, "b", "\n\n"), 0);
	cr_expect_str_eq(listing(), "a b");
	cr_expect_eq(world.commits, 0);
}

Test(incoming, committed_but_perhaps_not_durable)
{
	world.code = TDL_ERR_PUBLISHED;
	cr_expect_eq(write_staged(7, "a", "x\n"), EIO);
	cr_expect_str_eq(listing(), "", "it is not to be dropped again");
	cr_expect_eq(world.commits, 1);
}

/* Nobody can say: it stays, with a word about it, and is not committed again by itself. */
Test(incoming, committed_or_not)
{
	world.code = TDL_ERR_PUBLISHED;
	world.in_doubt = true;
	cr_expect_eq(write_staged(7, "a", "x\n"), EIO);
	cr_expect_str_eq(listing(), "a a.error");
	cr_expect_eq(world.commits, 1);
	tdfs_incoming_commit_remaining(in);
	cr_expect_eq(world.commits, 1);
}

Test(incoming, a_failed_write_is_never_committed)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);
	struct tdfs_caller caller = who(7);
	struct stat st;
	size_t done;

	write_at(7, handle, "x\n", 0);
	/* A buffer that is not there: the write fails as on a full disk. */
	cr_expect_eq(tdfs_incoming_write(in, &caller, handle, 0, (void *)8, 4096, 2, &done),
		     EFAULT);
	cr_expect_eq(tdfs_incoming_write(in, &caller, handle, 0, (void *)8, 4096, 50, &done),
		     EFAULT);
	cr_expect(lookup(7, "a", &st) != 0 && st.st_size == 2, "what was not written has no size");
	write_at(7, handle, "y\n", 4098);
	cr_expect_eq(flush(7, handle), EFAULT);
	release(handle);
	cr_expect_eq(world.commits, 0);
	cr_expect_str_eq(listing(), "a a.error");
	cr_expect_eq(rename_it(7, "a", "b"), 0, "empty now");
	cr_expect_eq(world.commits, 0);
}

/* ---- Killed writers ----------------------------------------------------------------------- */

Test(incoming, a_killed_writer_publishes_nothing)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.killed = 7;
	flush(7, handle);
	release(handle);
	cr_expect_eq(world.commits, 0);
	cr_expect_str_eq(listing(), "a a.error");
	cr_expect_not_null(strstr(error_text("a.error"), "killed by signal 9"));
}

Test(incoming, also_what_it_wrote_long_after_a_publish)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	world.now += 6000;
	cr_expect_not(tdfs_incoming_expire(in));
	/* A descriptor that was on its way meanwhile. */
	cr_expect_eq(write_at(7, handle, "y\n", 2), 0);
	world.killed = 7;
	flush(7, handle);
	release(handle);
	cr_expect_eq(world.commits, 1);
}

Test(incoming, also_not_by_a_child_that_ends_well)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(8, handle, "x\n", 0);
	world.killed = 7;
	world.held = true;
	cr_expect_eq(flush(7, handle), 0);
	world.killed = 0;
	world.held = false;
	cr_expect_eq(flush(8, handle), EIO);
	release(handle);
	cr_expect_eq(world.commits, 0);
}

Test(incoming, who_only_inherited_may_be_killed)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.killed = 9;
	world.held = true;
	cr_expect_eq(flush(9, handle), 0);
	world.killed = 0;
	world.held = false;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming, a_close_that_waits_for_its_look_decides)
{
	struct tdfs_handle *one = create(7, "a", O_WRONLY), *two;
	struct tdfs_caller caller = who(8);

	write_at(7, one, "x\n", 0);
	cr_assert_eq(open_it(8, "a", O_WRONLY, &two), 0);
	write_at(8, two, "y\n", 2);
	cr_assert_eq(tdfs_incoming_flush_begin(in, &caller, two), TDFS_LATER);
	cr_expect_eq(flush(7, one), 0);
	cr_expect_eq(world.commits, 0, "the other may have been killed");
	world.killed = 8;
	cr_expect_eq(tdfs_incoming_flush(in, &caller, two), EIO);
	cr_expect_eq(world.commits, 0);
	release(one);
	release(two);
}

static void kill_one(const char *name)
{
	struct tdfs_handle *handle = create(7, name, O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.killed = 7;
	flush(7, handle);
	release(handle);
	world.killed = 0;
	cr_assert_eq(world.commits, 0);
}

Test(incoming, appending_does_not_make_it_good)
{
	struct tdfs_handle *handle;

	kill_one("a");
	handle = reopen(8, "a", O_WRONLY | O_APPEND);
	append_at(8, handle, "y\n", 2);
	cr_expect_eq(flush(8, handle), EIO);
	release(handle);
	cr_expect_eq(world.commits, 0);
}

Test(incoming, rewriting_does)
{
	struct tdfs_handle *handle;

	kill_one("a");
	handle = reopen(8, "a", O_WRONLY);
	write_at(8, handle, "y\n", 0);
	cr_expect_eq(flush(8, handle), 0);
	release(handle);
	cr_expect_str_eq(world.committed, "y\n");
}

Test(incoming, but_not_where_a_write_has_failed)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY), *second;
	struct tdfs_caller caller = who(7);
	size_t done;

	write_at(7, handle, "x\n", 0);
	cr_expect_eq(tdfs_incoming_write(in, &caller, handle, 0, (void *)8, 4096, 2, &done),
		     EFAULT);
	world.killed = 7;
	world.held = true;
	cr_expect_eq(flush(7, handle), 0);
	world.killed = 0;
	world.held = false;
	second = reopen(8, "a", O_WRONLY);
	write_at(8, second, "y\n", 0);
	cr_expect_eq(flush(8, second), EFAULT);
	cr_expect_eq(world.commits, 0);
	release(handle);
	release(second);
}

Test(incoming, truncating_does)
{
	kill_one("a");
	cr_expect_eq(write_staged(8, "a", "y\n"), 0);
}

Test(incoming, renaming_does)
{
	kill_one("a");
	cr_expect_eq(rename_it(8, "a", "b"), 0);
	cr_expect_str_eq(world.committed, "x\n");
	cr_expect_str_eq(listing(), "");
}
