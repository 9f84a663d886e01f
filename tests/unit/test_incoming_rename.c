/* SPDX-License-Identifier: MIT */
/*
 * Names in incoming/, recent names, what comes after a commit, two at once, and the ends of a
 * mount.
 */
#include "fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proc/process.h"

TestSuite(incoming_names, .init = fake_setup, .fini = fake_teardown, .timeout = 60);

static pthread_t thread;
static int second_answer;

/* ---- Names -------------------------------------------------------------------------------- */

Test(incoming_names, temporary_names_commit_on_rename)
{
	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(write_staged(7, ".a", "x\n"), 0);
	cr_expect_eq(rename_it(8, ".a", "a"), EINVAL);
	cr_expect_str_eq(listing(), ".a .a.error");
	world.code = TDL_OK;
	cr_expect_eq(rename_it(8, ".a", "a"), 0);
	cr_expect_str_eq(world.source, "a");
	cr_expect_str_eq(listing(), "");
	cr_expect_neq(lookup(8, "a", NULL), 0, "who renamed it finds it");
	cr_expect_eq(lookup(9, "a", NULL), 0);
}

/* As sed -i.bak and patch -b do: the old file goes aside, a good one comes under its name. */
Test(incoming_names, what_was_refused_can_be_put_aside)
{
	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(write_staged(7, "a", "bad\n"), EINVAL);
	cr_expect_eq(write_staged(7, "a.bak", "old\n"), 0);
	world.code = TDL_OK;
	cr_expect_eq(write_staged(7, "new", "x\n"), 0);
	cr_expect_eq(rename_it(7, "a", "a.bak"), 0);
	cr_expect_str_eq(listing(), "a.bak a.bak.error");
	cr_expect_str_eq(error_text("a.bak.error"), "a:1: bad\n");
	cr_expect_eq(rename_it(7, "new", "a"), 0);
	cr_expect_eq(world.commits, 1);
	/* Under an ordinary name it is tried again, wherever it was meanwhile. */
	cr_expect_eq(rename_it(7, "a.bak", ".b"), 0);
	cr_expect_str_eq(listing(), ".b .b.error");
	cr_expect_eq(world.commits, 1);
	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(rename_it(7, ".b", "b"), EINVAL);
	cr_expect_str_eq(listing(), ".b .b.error");
	world.code = TDL_OK;
	cr_expect_eq(rename_it(7, ".b", "b"), 0);
	cr_expect_eq(world.commits, 2);
	cr_expect_str_eq(listing(), "");
}

Test(incoming_names, what_was_changed_is_not_what_was_refused)
{
	struct tdfs_handle *handle;

	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(write_staged(7, "a", "bad\n"), EINVAL);
	world.code = TDL_OK;
	handle = reopen(7, "a", O_WRONLY);
	write_at(7, handle, "y\ny", 0);
	cr_expect_eq(rename_it(7, "a", "a~"), 0);
	cr_expect_str_eq(listing(), "a~", "its reason is out of date");
	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	cr_expect_eq(world.commits, 0);
}

static void write_more(pid_t tid, const char *name, uint64_t at, size_t n)
{
	static char rows[4096];
	struct tdfs_handle *handle = reopen(tid, name, O_WRONLY);

	memset(rows, 'x', n);
	rows[n] = '\0';
	write_at(tid, handle, rows, at);
	flush(tid, handle);
	cr_expect_eq(world.n_jobs, 0, "while it may be written to");
	release(handle);
}

Test(incoming_names, what_a_rename_needs_is_prepared_when_a_temporary_name_is_released)
{
	write_more(7, "a.tmp", 0, 10);
	cr_expect_eq(world.n_jobs, 1);
	run_jobs();
	cr_expect_eq(world.prepared, 1);
	cr_expect_eq(rename_it(7, "a.tmp", "a"), 0);
	cr_expect_eq(world.commits, 1);
	cr_expect(world.renames);
	/* An ordinary name is committed when it is closed; so is nothing that cannot be. */
	cr_expect_eq(write_staged(7, "b", "x\n"), 0);
	cr_expect_not(world.renames);
	release(create(7, ".empty", O_WRONLY));
	cr_expect_eq(world.n_jobs, 0);
	/* What has changed by then is left for then. */
	write_more(7, ".c", 0, 10);
	cr_expect_eq(rename_it(7, ".c", "c"), 0);
	run_jobs();
	write_more(7, ".d", 0, 10);
	cr_expect_eq(unlink_it(7, ".d"), 0);
	run_jobs();
	write_more(7, ".e", 0, 10);
	tdfs_incoming_close(in);
	run_jobs();
	cr_expect_eq(world.prepared, 1);
}

Test(incoming_names, what_grows_is_not_prepared_at_each_close)
{
	for (unsigned i = 0; i < 100; i++) {
		write_more(7, ".a", (uint64_t)i * 10, 10);
		run_jobs();
	}
	cr_expect_eq(world.prepared, 7, "%u", world.prepared);
	/* Written anew it is another file. */
	release(reopen(7, ".a", O_WRONLY | O_TRUNC));
	write_more(7, ".a", 0, 10);
	run_jobs();
	cr_expect_eq(world.prepared, 8);
}

static void *rename_meanwhile(void *argument)
{
	second_answer = rename_it(8, ".a", "a");
	return NULL;
}

static void rename_while_it_is_prepared(void)
{
	struct tdfs_handle *handle;

	/* Whoever opens and writes it does not wait. */
	handle = reopen(9, ".a", O_WRONLY);
	write_at(9, handle, "y\n", 2);
	release(handle);
	pthread_create(&thread, NULL, rename_meanwhile, NULL);
	usleep(10000);
	cr_expect_eq(world.commits, 0, "a commit does");
}

Test(incoming_names, a_commit_waits_for_its_preparation)
{
	cr_expect_eq(write_staged(7, ".a", "x\n"), 0);
	world.during_prepare = rename_while_it_is_prepared;
	second_answer = -99;
	run_jobs();
	pthread_join(thread, NULL);
	cr_expect_eq(second_answer, 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
}

Test(incoming_names, the_rename_of_an_open_file_does_not_commit)
{
	struct tdfs_handle *handle = create(7, "a.tmp", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	world.held = true;
	cr_expect_eq(rename_it(7, "a.tmp", "a"), 0);
	cr_expect_str_eq(listing(), "a");
	cr_expect_eq(world.commits, 0);
	world.held = false;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(world.source, "a");
	release(handle);
}

Test(incoming_names, a_release_that_is_late_does_not_keep_a_rename_from_committing)
{
	struct tdfs_handle *handle = create(7, ".a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	flush(7, handle);
	cr_expect_eq(rename_it(7, ".a", "a"), 0);
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming_names, rename_replaces)
{
	world.code = TDL_ERR_SCHEMA;
	write_staged(7, "a", "x\n");
	world.code = TDL_OK;
	write_staged(7, ".n", "y\n");
	cr_expect_eq(rename_it(7, ".n", "a"), 0);
	cr_expect_str_eq(world.committed, "y\n");
	cr_expect_str_eq(listing(), "");
	write_staged(7, ".p", "p");
	write_staged(7, ".q", "q");
	cr_expect_eq(rename_it(7, ".p", ".q"), 0);
	cr_expect_str_eq(listing(), ".q");
}

Test(incoming_names, flags_of_rename)
{
	struct tdfs_caller caller = who(7);

	write_staged(7, ".a", "x");
	write_staged(7, ".b", "y");
	cr_expect_eq(tdfs_incoming_rename(in, &caller, ".a", ".b", RENAME_NOREPLACE), EEXIST);
	cr_expect_eq(tdfs_incoming_rename(in, &caller, ".a", ".b", RENAME_EXCHANGE), EINVAL);
	cr_expect_eq(tdfs_incoming_rename(in, &caller, ".a", ".c", RENAME_NOREPLACE), 0);
	cr_expect_eq(tdfs_incoming_rename(in, &caller, ".x", ".c", 0), ENOENT);
	cr_expect_eq(tdfs_incoming_rename(in, &caller, ".c", ".c", 0), 0);
	cr_expect_str_eq(listing(), ".c .b");
}

Test(incoming_names, unlink_cancels)
{
	struct tdfs_handle *handle = create(7, "a", O_RDWR);
	char byte;
	size_t got;

	write_at(7, handle, "x\n", 0);
	cr_expect_eq(unlink_it(7, "a"), 0);
	cr_expect_eq(write_at(7, handle, "y\n", 2), 0);
	cr_expect_eq(tdfs_incoming_read(in, handle, &byte, 1, 2, &got), 0);
	cr_expect_eq(byte, 'y');
	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	cr_expect_eq(world.commits, 0);
}

Test(incoming_names, names_too_long)
{
	struct tdfs_caller caller = who(7);
	struct tdfs_handle *handle;
	struct stat st;
	char name[256];

	memset(name, 'n', sizeof name);
	name[223] = '\0';
	cr_expect_eq(tdfs_incoming_create(in, &caller, name, 0644, O_WRONLY, &st, &handle),
		     ENAMETOOLONG);
	write_staged(7, ".a", "x");
	cr_expect_eq(rename_it(7, ".a", name), ENAMETOOLONG);
	name[222] = '\0';
	cr_expect_eq(rename_it(7, ".a", name), 0);
}

/* ---- Recent names ------------------------------------------------------------------------- */

Test(incoming_names, a_recent_name_is_there_for_its_writer_only)
{
	struct stat st;

	write_staged(7, "a", "x\n");
	cr_expect_eq(lookup(8, "a", NULL), 0);
	cr_expect_neq(lookup(7, "a", &st), 0);
	cr_expect_eq(st.st_size, 2);
	cr_expect_eq(unlink_it(8, "a"), ENOENT);
	cr_expect_eq(rename_it(8, "a", "b"), ENOENT);
	cr_expect_eq(rename_it(7, "a", "b"), 0);
	cr_expect_neq(lookup(7, "b", NULL), 0);
	cr_expect_eq(unlink_it(7, "b"), 0);
	cr_expect_eq(lookup(7, "b", NULL), 0);
	cr_expect_eq(world.commits, 1);
}

Test(incoming_names, a_recent_name_opened_for_nothing_leaves_nothing)
{
	struct tdfs_handle *handle, *other;

	write_staged(7, "a", "x\n");
	handle = reopen(7, "a", O_WRONLY);
	other = reopen(7, "a", O_WRONLY);
	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	cr_expect_str_eq(listing(), "a");
	release(other);
	cr_expect_str_eq(listing(), "");
	cr_expect_eq(world.live, 0, "%u staged files", world.live);
	/* Emptied, it is what was asked for. */
	write_staged(7, "b", "x\n");
	handle = reopen(7, "b", O_WRONLY | O_TRUNC);
	release(handle);
	cr_expect_str_eq(listing(), "b");
	cr_expect_eq(write_staged(7, "b", "y\n"), 0);
	cr_expect_str_eq(listing(), "");
	cr_expect_eq(world.commits, 3);
}

/* Its inode number was asked for, not its name. */
Test(incoming_names, a_recent_name_opened_by_its_number_leaves_nothing_for_long)
{
	struct tdfs_caller caller = who(7);
	struct tdfs_handle *handle;
	uint64_t ino;

	write_staged(7, "a", "x\n");
	ino = lookup(7, "a", NULL);
	cr_expect_eq(tdfs_incoming_open(in, &caller, ino, O_WRONLY, &handle), ESTALE);
	cr_expect(tdfs_incoming_expire(in));
	cr_expect_str_eq(listing(), "a");
	world.now += 5000;
	cr_expect_not(tdfs_incoming_expire(in));
	cr_expect_str_eq(listing(), "");
}

Test(incoming_names, a_recent_name_ends)
{
	write_staged(7, "a", "x\n");
	world.now += 4999;
	cr_expect(tdfs_incoming_expire(in));
	cr_expect_neq(lookup(7, "a", NULL), 0);
	world.now += 1;
	cr_expect_not(tdfs_incoming_expire(in));
	cr_expect_eq(lookup(7, "a", NULL), 0);
}

Test(incoming_names, opened_for_writing_it_is_a_fresh_file)
{
	struct tdfs_handle *handle;

	write_staged(7, "a", "x\n");
	handle = reopen(7, "a", O_WRONLY | O_APPEND);
	cr_expect_str_eq(listing(), "a");
	append_at(7, handle, "y\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	cr_expect_eq(world.commits, 2);
	cr_expect_str_eq(world.committed, "x\ny\n", "no row twice");
}

Test(incoming_names, recent_names_are_not_hoarded)
{
	char name[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "a%d", i);
		write_staged(7, name, "x");
		tdfs_incoming_forget(in, FIRST + (uint64_t)i, 9);
	}
	cr_expect_lt(world.live, 100);
}

/* Whoever looks at his file a moment after its close finds it, whatever others drop meanwhile. */
Test(incoming_names, recent_names_last_as_long_beside_many_others)
{
	struct tdfs_handle *reader;
	char name[16], text[8];
	struct stat st;
	size_t got = 0;

	write_staged(7, "read", "xyz\n");
	cr_assert_eq(open_it(7, "read", O_RDONLY, &reader), 0);
	write_staged(7, "first", "xyz\n");
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "a%d", i);
		write_staged(8, name, "x");
	}
	world.now += 4999;
	cr_expect_neq(lookup(7, "first", &st), 0);
	cr_expect_eq(st.st_size, 4);
	cr_expect_eq(tdfs_incoming_read(in, reader, text, sizeof text, 0, &got), 0);
	cr_expect_eq(got, 4, "who has it open reads on");
	release(reader);
	cr_expect_lt(world.live, 100);
	cr_expect_neq(lookup(8, "a999", NULL), 0);
	cr_expect_eq(unlink_it(8, "a500"), 0);
	cr_expect_eq(lookup(8, "a500", NULL), 0);
	world.now++;
	cr_expect_eq(lookup(7, "first", NULL), 0);
	cr_expect_eq(lookup(8, "a999", NULL), 0);
	cr_expect_eq(world.live, 0);
}

Test(incoming_names, nor_is_what_the_kernel_remembers_of_them)
{
	struct tdfs_handle *handle = create(7, "a", O_RDWR);
	struct stat st;

	write_at(7, handle, "x\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	world.now += 5000;
	cr_expect_not(tdfs_incoming_expire(in));
	cr_expect_eq(lookup(7, "a", NULL), 0);
	cr_expect_eq(tdfs_incoming_getattr(in, NULL, FIRST, &st), 0, "it is open");
	release(handle);
	cr_expect_eq(tdfs_incoming_getattr(in, NULL, FIRST, &st), ESTALE);
	tdfs_incoming_forget(in, FIRST, 1);
}

Test(incoming_names, nor_the_writers_of_what_was_removed)
{
	struct tdfs_handle *handle = create(7, "a", O_RDWR);
	struct tdfs_process *writer = tdfs_process_find(getpid());

	cr_assert_not_null(writer);
	tdfs_incoming_found(in, FIRST, 7, tdfs_process_ref(writer));
	cr_expect_eq(atomic_load(&writer->refs), 2);
	cr_expect_eq(unlink_it(7, "a"), 0);
	cr_expect_eq(atomic_load(&writer->refs), 2, "it is open");
	release(handle);
	/* The kernel has not forgotten it. */
	cr_expect_eq(atomic_load(&writer->refs), 1);
	tdfs_incoming_forget(in, FIRST, 1);
	tdfs_process_unref(writer);
}

/* ---- After a commit ----------------------------------------------------------------------- */

Test(incoming_names, bytes_behind_a_publish_are_a_later_append)
{
	struct tdfs_handle *handle = create(7, "a", O_RDWR);
	struct stat st;

	write_at(7, handle, "x\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(write_at(8, handle, "z\n", 0), EPERM);
	cr_expect_eq(write_at(8, handle, "y\n", 2), 0);
	cr_expect_str_eq(listing(), "a");
	cr_expect_eq(lookup(9, "a", &st) != 0 && st.st_size == 4, 1);
	cr_expect_eq(flush(8, handle), 0);
	cr_expect_eq(world.commits, 2);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(handle);
	cr_expect_eq(world.commits, 2);
}

/* Not under the temporary one, which would never be committed. */
Test(incoming_names, they_are_listed_under_the_name_that_a_rename_gave)
{
	struct tdfs_handle *handle = create(7, ".a", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	flush(7, handle);
	cr_expect_eq(rename_it(7, ".a", "a"), 0);
	cr_expect_eq(world.commits, 1);
	world.now += 6000;
	tdfs_incoming_expire(in);
	cr_expect_eq(write_at(7, handle, "y\n", 2), 0);
	cr_expect_str_eq(listing(), "a");
	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	cr_expect_eq(world.commits, 2);
}

Test(incoming_names, they_are_listed_under_another_name_where_the_old_one_is_taken)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY), *fresh;

	write_at(7, handle, "x\n", 0);
	flush(7, handle);
	fresh = create(8, "a", O_WRONLY);
	write_at(7, handle, "y\n", 2);
	cr_expect_str_eq(listing(), "a.2 a");
	release(handle);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(fresh);
}

/* ---- Two at once -------------------------------------------------------------------------- */

Test(incoming_names, truncating_what_another_has_open)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY), *second;

	write_at(7, handle, "x\n", 0);
	world.held = true;
	cr_expect_eq(open_it(8, "a", O_WRONLY | O_TRUNC, &second), EBUSY);
	world.held = false;
	cr_expect_eq(open_it(8, "a", O_WRONLY | O_TRUNC, &second), EBUSY, "no close has come");
	world.held = true;
	cr_expect_eq(flush(7, handle), 0);
	world.held = false;
	cr_expect_eq(open_it(8, "a", O_WRONLY | O_TRUNC, &second), EBUSY, "a close must come");
	cr_expect_eq(flush(7, handle), 0);
	second = reopen(8, "a", O_WRONLY | O_TRUNC);
	write_at(8, second, "y\n", 0);
	cr_expect_eq(flush(8, second), 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(handle);
	release(second);
	cr_expect_eq(world.commits, 2);
}

static struct tdfs_handle *late;

static void is_held_now(void)
{
	world.held = true;
}

static void open_meanwhile(void)
{
	cr_expect_eq(open_it(9, "a", O_WRONLY, &late), 0);
	world.during_scan = is_held_now; /* this scan has not seen it */
}

Test(incoming_names, truncating_what_another_opens_meanwhile)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY), *second;

	write_at(7, handle, "x\n", 0);
	world.during_scan = open_meanwhile;
	cr_expect_eq(open_it(8, "a", O_WRONLY | O_TRUNC, &second), EBUSY);
	world.during_scan = NULL;
	world.held = false;
	release(late);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(world.committed, "x\n");
	release(handle);
}

static struct tdfs_handle *other;
Test(incoming_names, truncating_ones_own)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY), *second;

	write_at(7, handle, "x\n", 0);
	world.own = true;
	cr_expect_eq(open_it(7, "a", O_WRONLY | O_TRUNC, &second), 0);
	write_at(7, second, "y\n", 0);
	cr_expect_eq(flush(7, second), 0, "the first is open");
	cr_expect_eq(world.commits, 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(world.committed, "y\n");
	release(handle);
	release(second);
}

static void *close_too(void *argument)
{
	second_answer = flush(8, other);
	return NULL;
}

static void close_meanwhile(void)
{
	struct tdfs_caller caller = who(9);
	struct tdfs_handle *handle;
	uint64_t ino = lookup(9, "a", NULL);
	size_t done;

	world.during_commit = NULL;
	caller.may_wait = false;
	cr_expect_eq(tdfs_incoming_open(in, &caller, ino, O_WRONLY, &handle), TDFS_LATER);
	cr_expect_eq(tdfs_incoming_write(in, &caller, other, 0, "z", 1, 5, &done), TDFS_LATER);
	cr_expect_eq(tdfs_incoming_unlink(in, &caller, "a"), TDFS_LATER);
	cr_expect_eq(tdfs_incoming_rename(in, &caller, "a", "b", 0), TDFS_LATER);
	pthread_create(&thread, NULL, close_too, NULL);
}

Test(incoming_names, a_second_close_waits_for_the_first)
{
	other = create(7, "a", O_WRONLY);
	write_at(7, other, "x\n", 0);
	world.during_commit = close_meanwhile;
	second_answer = -99;
	cr_expect_eq(flush(7, other), 0);
	pthread_join(thread, NULL);
	cr_expect_eq(second_answer, 0);
	cr_expect_eq(world.commits, 1);
	release(other);
}

/* ---- The ends of a mount ------------------------------------------------------------------ */

Test(incoming_names, leftovers)
{
	for (int i = 0; i < 2; i++)
		recover_leftovers("a", "x\n", NULL);
	cr_expect_str_eq(listing(), "a a.error a.2 a.2.error");
	cr_expect_not_null(strstr(error_text("a.error"), "incomplete"));
	tdfs_incoming_commit_remaining(in);
	cr_expect_eq(world.commits, 0, "never committed by itself");
	cr_expect_eq(rename_it(7, "a", "b"), 0);
	cr_expect_eq(world.commits, 1);
}

Test(incoming_names, at_the_end)
{
	struct tdfs_handle *closed = create(7, "a", O_WRONLY), *open = create(7, "b", O_WRONLY);
	struct tdfs_handle *temporary = create(7, ".c", O_WRONLY),
			   *twice = create(7, "d", O_WRONLY);

	/* One of two descriptors was closed; the close of the other lies in the kernel's queue, and
	 * nobody has the file open. */
	world.held = true;
	cr_expect_eq(flush(7, twice), 0);
	write_at(7, twice, "d\n", 0);
	world.held = false;
	write_at(7, closed, "x\n", 0);
	write_at(7, open, "y\n", 0);
	write_at(7, temporary, "z\n", 0);
	tdfs_incoming_close(in);
	release(closed);
	cr_expect_eq(flush(7, open), EIO, "nobody may hear the answer");
	tdfs_incoming_commit_remaining(in);
	cr_expect_str_eq(world.committed, "x\n");
	cr_expect_not_null(strstr(world.logged, "d: not committed"));
	release(twice);
	release(open);
	release(temporary);
}

Test(incoming_names, stable_offsets)
{
	uint64_t offset = 0, ino;
	char name[256];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof name, ".f%d", i);
		release(create(7, name, O_WRONLY));
	}
	cr_assert(tdfs_incoming_list(in, &offset, name, &ino));
	cr_assert(tdfs_incoming_list(in, &offset, name, &ino));
	cr_expect_str_eq(name, ".f1");
	unlink_it(7, ".f0");
	unlink_it(7, ".f2");
	rename_it(7, ".f3", ".g");
	cr_assert(tdfs_incoming_list(in, &offset, name, &ino));
	cr_expect_str_eq(name, ".g");
	cr_assert(tdfs_incoming_list(in, &offset, name, &ino));
	cr_expect_str_eq(name, ".f4");
	cr_expect_not(tdfs_incoming_list(in, &offset, name, &ino));
}

Test(incoming_names, what_was_removed_is_not_cut)
{
	struct tdfs_caller caller = who(7);
	struct stat st = { .st_size = 0 };
	struct tdfs_handle *handle = create(7, ".a", O_RDWR);
	uint64_t ino = lookup(7, ".a", NULL);

	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	/* truncate() by name has found it when somebody else removes it. */
	unlink_it(8, ".a");
	cr_expect_eq(tdfs_incoming_setattr(in, &caller, ino, &st, TDFS_SET_SIZE, &st), ESTALE);
}

Test(incoming_names, attributes)
{
	struct tdfs_caller caller = who(7);
	struct stat st = { .st_mode = 04755, .st_uid = 5, .st_gid = 6, .st_size = 3 };
	struct tdfs_handle *handle = create(7, "a", O_RDWR);
	uint64_t ino = lookup(7, "a", NULL);

	st.st_mtim.tv_sec = 77;
	cr_expect_eq(tdfs_incoming_setattr(in, &caller, ino, &st,
					   TDFS_SET_MODE | TDFS_SET_UID | TDFS_SET_GID |
						   TDFS_SET_SIZE | TDFS_SET_MTIME,
					   &st),
		     0);
	cr_expect_eq(tdfs_incoming_getattr(in, NULL, ino, &st), 0);
	cr_expect_eq(st.st_mode, (mode_t)(S_IFREG | 0755));
	cr_expect(st.st_uid == 5 && st.st_gid == 6 && st.st_size == 3 && st.st_mtim.tv_sec == 77);
	cr_expect_eq(st.st_nlink, 1);
	st.st_size = 0;
	cr_expect_eq(tdfs_incoming_setattr(in, &caller, ino, &st, TDFS_SET_SIZE, &st), 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 0);
	release(handle);
	cr_expect_eq(tdfs_incoming_getattr(in, NULL, 1, &st), ESTALE);
}
