/* SPDX-License-Identifier: MIT */
/* What cannot be seen in /proc is not an acknowledgement: closes whose scan fails, or shows
 * nothing. */
#include "fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

TestSuite(incoming_unseen, .init = fake_setup, .fini = fake_teardown, .timeout = 60);

/* A close that could not be judged: refused, listed with its reason, and not committed behind the
 * writer's back afterwards. */
static void expect_refused(struct tdfs_handle *handle, const char *why)
{
	cr_expect_eq(flush(7, handle), EAGAIN);
	cr_expect_eq(world.commits, 0);
	cr_expect_str_eq(listing(), "a a.error");
	cr_expect_not_null(strstr(error_text("a.error"), why), "%s", error_text("a.error"));
	cr_expect_not_null(strstr(world.logged, why));
	cr_expect_eq(flush(7, handle), EAGAIN, "and so it is for whoever closes it again");
	release(handle);
	cr_expect_eq(world.commits, 0);
}

static struct tdfs_handle *written(void)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	cr_assert_eq(write_at(7, handle, "x\n", 0), 0);
	return handle;
}

Test(incoming_unseen, a_scan_that_never_ends)
{
	struct tdfs_handle *handle = written();

	world.in_time = false;
	expect_refused(handle, "cannot be seen");
	world.in_time = true;
	cr_expect_eq(rename_it(7, "a", "b"), 0);
	cr_expect_str_eq(world.committed, "x\n");
	cr_expect_str_eq(listing(), "");
}

Test(incoming_unseen, a_scan_that_is_swallowed_is_done_again)
{
	struct tdfs_handle *handle = written();

	world.lost = 5;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming_unseen, a_lack_of_descriptors_is_waited_for)
{
	struct tdfs_handle *handle = written();

	world.incomplete = 5;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming_unseen, a_lack_of_descriptors_that_lasts)
{
	struct tdfs_handle *handle = written();

	world.incomplete = 1000;
	expect_refused(handle, "lack of descriptors");
}

Test(incoming_unseen, a_process_that_may_have_it)
{
	struct tdfs_handle *handle = written();

	world.hidden = 42;
	expect_refused(handle, "process 42 (h)");
	world.hidden = 0;
	cr_expect_eq(write_staged(7, "a", "y\n"), 0);
	cr_expect_str_eq(world.committed, "y\n");
}

Test(incoming_unseen, a_rename_is_refused_like_a_close)
{
	struct tdfs_handle *handle = create(7, "a.tmp", O_WRONLY);

	write_at(7, handle, "x\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	world.hidden = 42;
	cr_expect_eq(rename_it(7, "a.tmp", "a"), EAGAIN);
	cr_expect_str_eq(listing(), "a.tmp a.tmp.error");
	/* Nobody has it open any more. */
	release(handle);
	cr_expect_eq(rename_it(7, "a.tmp", "a"), 0);
	cr_expect_eq(world.commits, 1);
}

Test(incoming_unseen, nothing_is_cut_under_who_may_write)
{
	struct tdfs_handle *handle = written(), *other = NULL;

	world.hidden = 42;
	cr_expect_eq(flush(7, handle), EAGAIN);
	cr_expect_eq(open_it(8, "a", O_WRONLY | O_TRUNC, &other), EBUSY);
	release(handle);
}

/* ---- Writers of whom nothing can be seen --------------------------------------------------- */

Test(incoming_unseen, the_opener_closes)
{
	struct tdfs_handle *handle = written();

	world.unwatched = true;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 1);
	release(handle);
}

Test(incoming_unseen, a_group_is_one_commit)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);

	world.unwatched = true;
	cr_expect_eq(flush(7, handle), 0);
	write_at(8, handle, "x\n", 0);
	cr_expect_eq(flush(8, handle), 0);
	cr_expect_eq(world.commits, 0);
	write_at(9, handle, "y\n", 2);
	cr_expect_eq(flush(9, handle), 0);
	cr_expect_eq(world.commits, 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_str_eq(world.committed, "x\ny\n");
	release(handle);
	cr_expect_eq(world.commits, 1);
}

Test(incoming_unseen, another_table_that_wrote_has_it)
{
	struct tdfs_handle *handle = written();

	world.unwatched = true;
	write_at(8, handle, "y\n", 2);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.commits, 0);
	cr_expect_eq(flush(8, handle), 0);
	cr_expect_eq(world.commits, 0, "the opener may have closed a copy");
	release(handle);
	cr_expect_str_eq(world.committed, "x\ny\n");
}

Test(incoming_unseen, a_refusal_without_a_witness_is_told_by_the_note)
{
	struct tdfs_handle *handle = written();

	world.unwatched = true;
	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(flush(8, handle), 0);
	release(handle);
	cr_expect_eq(world.commits, 0);
	cr_expect_str_eq(listing(), "a a.error");
}

Test(incoming_unseen, how_a_writer_ended_may_not_be_seen)
{
	struct tdfs_handle *handle = written();

	world.unwatched = true;
	world.killed = 7;
	world.signal = -1;
	cr_expect_eq(flush(7, handle), EIO);
	cr_expect_eq(world.commits, 0);
	cr_expect_not_null(strstr(error_text("a.error"), "may have been killed"));
	release(handle);
	cr_expect_eq(world.commits, 0);
}

/* ---- Whom a file waits for ----------------------------------------------------------------- */

Test(incoming_unseen, the_log_says_once_who_has_a_file_that_waits)
{
	struct tdfs_handle *handle = written();

	world.held = true;
	cr_expect_eq(flush(7, handle), 0);
	cr_expect(tdfs_incoming_expire(in));
	cr_expect_str_eq(world.logged, "");
	world.now += 11000;
	cr_expect(tdfs_incoming_expire(in));
	cr_expect_str_eq(world.logged, "a: still open in process 4711 (agent), not committed yet");
	world.logged[0] = '\0';
	world.now += 11000;
	(void)tdfs_incoming_expire(in);
	cr_expect_str_eq(world.logged, "");
	world.held = false;
	cr_expect_eq(flush(7, handle), 0);
	release(handle);
	world.now += 11000;
	cr_expect_not(tdfs_incoming_expire(in), "nothing waits any more");
}
