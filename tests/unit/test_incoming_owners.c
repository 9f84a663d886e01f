/* SPDX-License-Identifier: MIT */
/*
 * Names that appear otherwise than by a request for them, which is nothing that the kernel could
 * have seen when it looked a name up for somebody else, and checked what he may do.
 */
#include "fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

TestSuite(owners, .init = fake_setup, .fini = fake_teardown, .timeout = 60);

/* Thread 8 is another user's than 7. */
static struct tdfs_caller ben(void)
{
	struct tdfs_caller caller = who(8);

	caller.uid = 1001;
	return caller;
}

static int ben_creates(const char *name, int flags)
{
	struct tdfs_caller caller = ben();
	struct tdfs_handle *handle = NULL;
	struct stat st;
	int why = tdfs_incoming_create(in, &caller, name, 0600, flags, &st, &handle);

	if (why == 0)
		release(handle);
	return why;
}

static uint64_t ben_looks_up(const char *name)
{
	struct tdfs_caller caller = ben();
	struct stat st;

	return tdfs_incoming_lookup(in, &caller, name, &st) == 0 ? st.st_ino : 0;
}

static int ben_renames(const char *from, const char *to)
{
	struct tdfs_caller caller = ben();

	return tdfs_incoming_rename(in, &caller, from, to, 0);
}

static int ben_removes(const char *name)
{
	struct tdfs_caller caller = ben();

	return tdfs_incoming_unlink(in, &caller, name);
}

/* Ways in which a file of thread 7's comes to be listed as "a", unseen. */

static void by_recovery(void)
{
	recover_leftovers("a", "x\n", NULL);
}

static void by_open_of_what_is_published(void)
{
	struct tdfs_handle *handle;

	cr_assert_eq(write_staged(7, "a", "x\n"), 0);
	cr_assert_eq(open_it(7, "a", O_WRONLY, &handle), ESTALE);
}

static struct tdfs_handle *kept;

static void by_write_after_the_publish(void)
{
	kept = create(7, "a", O_WRONLY);
	write_at(7, kept, "x\n", 0);
	cr_assert_eq(flush(7, kept), 0);
	cr_assert_eq(ben_looks_up("a"), 0, "it is committed");
	write_at(7, kept, "y\n", 2);
}

static void (*const ways[])(void) = { by_recovery, by_open_of_what_is_published,
				      by_write_after_the_publish };

#define FOR_EACH_WAY for (size_t way = 0; way < 3; fake_teardown(), fake_setup(), way++)

static void appear(size_t way)
{
	kept = NULL;
	ways[way]();
	cr_assert_neq(strstr(listing(), "a"), NULL, "way %zu", way);
}

static void leave(void)
{
	if (kept)
		release(kept);
	kept = NULL;
}

Test(owners, create_opens_no_file_of_another)
{
	FOR_EACH_WAY
	{
		appear(way);
		cr_expect_eq(ben_creates("a", O_RDWR), ESTALE, "way %zu", way);
		cr_expect_eq(ben_creates("a", O_RDWR | O_TRUNC), ESTALE);
		cr_expect_eq(ben_creates("a", O_RDWR | O_EXCL), EEXIST);
		/* A second try finds it, and opens it if the kernel lets it. */
		cr_expect_neq(ben_looks_up("a"), 0);
		release(create(7, "a", O_RDWR));
		leave();
	}
}

Test(owners, rename_replaces_no_file_of_another)
{
	FOR_EACH_WAY
	{
		struct stat st;
		uint64_t ino;

		cr_expect_eq(ben_creates(".b", O_WRONLY), 0);
		cr_expect_neq(ben_looks_up(".b"), 0);
		cr_expect_eq(ben_looks_up("a"), 0);
		appear(way);
		ino = lookup(7, "a", &st);
		cr_expect_eq(ben_renames(".b", "a"), ESTALE, "way %zu", way);
		cr_expect_eq(lookup(7, "a", NULL), ino);
		/* Where it was looked up it is the kernel that decides. */
		cr_expect_eq(ben_looks_up("a"), ino);
		cr_expect_eq(ben_renames(".b", "a"), 0);
		leave();
	}
}

Test(owners, nor_is_it_renamed_or_removed_unseen)
{
	FOR_EACH_WAY
	{
		appear(way);
		cr_expect_eq(ben_removes("a"), ESTALE);
		cr_expect_eq(ben_renames("a", "b"), ESTALE);
		cr_expect_eq(lookup(7, "b", NULL), 0);
		cr_expect_neq(lookup(7, "a", NULL), 0);
		cr_expect_eq(ben_removes("a"), ESTALE, "7 has seen it, not 8");
		cr_expect_neq(ben_looks_up("a"), 0);
		cr_expect_eq(ben_removes("a"), 0);
		leave();
	}
}

Test(owners, the_owner_is_not_sent_back)
{
	FOR_EACH_WAY
	{
		appear(way);
		cr_expect_eq(write_staged(7, ".b", "z\n"), 0);
		cr_expect_eq(rename_it(9, ".b", "a"), 0);
		leave();
	}
}

static void write_meanwhile(void)
{
	world.during_commit = NULL;
	write_at(7, kept, "y\n", 2);
}

/* What is committed cannot be called stale any more: both are there, the other one's is listed. */
Test(owners, it_appears_while_a_rename_commits)
{
	struct tdfs_caller caller = ben();
	struct tdfs_handle *handle;
	struct stat st;
	size_t done;

	kept = create(7, "a", O_WRONLY);
	write_at(7, kept, "x\n", 0);
	cr_assert_eq(flush(7, kept), 0);
	cr_assert_eq(tdfs_incoming_create(in, &caller, ".b", 0600, O_WRONLY, &st, &handle), 0);
	cr_assert_eq(tdfs_incoming_write(in, &caller, handle, 0, "z\n", 2, 0, &done), 0);
	(void)flush(8, handle);
	release(handle);
	world.during_commit = write_meanwhile;
	cr_expect_eq(ben_renames(".b", "a"), 0);
	cr_expect_str_eq(world.committed, "x\nz\n");
	cr_expect_str_eq(listing(), "a");
	cr_expect_eq(flush(7, kept), 0);
	cr_expect_str_eq(world.committed, "x\nz\ny\n");
	leave();
}

/* ---- What is kept for the next mount ------------------------------------------------------ */

Test(owners, attributes_are_kept)
{
	struct tdfs_handle *handle = create(7, "a", O_WRONLY);
	struct stat change = { .st_mode = 0100640, .st_uid = 1000, .st_gid = 5 }, st;
	struct tdfs_caller caller = who(7);

	cr_expect_str_eq(world.owned, "a 1000:100 644");
	cr_assert_neq(lookup(7, "a", &st), 0);
	cr_assert_eq(tdfs_incoming_setattr(in, &caller, st.st_ino, &change, TDFS_SET_MODE, &st), 0);
	cr_expect_str_eq(world.owned, "a 1000:100 640");
	cr_assert_eq(tdfs_incoming_setattr(in, &caller, st.st_ino, &change, TDFS_SET_GID, &st), 0);
	cr_expect_str_eq(world.owned, "a 1000:5 640");
	/* What is published is the table's: nobody changes that. */
	write_at(7, handle, "x\n", 0);
	cr_assert_eq(flush(7, handle), 0);
	change.st_mode = 0600;
	cr_assert_eq(tdfs_incoming_setattr(in, &caller, st.st_ino, &change, TDFS_SET_MODE, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
	cr_expect_str_eq(world.owned, "a 1000:5 640");
	release(handle);
}

static struct tdfs_handle *other;
static uint64_t other_ino;

static void chmod_meanwhile(void)
{
	struct stat change = { .st_mode = 0400 }, st;
	struct tdfs_caller caller = who(7);

	world.during_commit = NULL;
	cr_assert_eq(tdfs_incoming_setattr(in, &caller, other_ino, &change, TDFS_SET_MODE, &st), 0);
	cr_expect_str_eq(world.owned, "a 1000:100 644", "not while it may become the table's");
}

Test(owners, a_mode_that_is_set_during_a_commit_that_fails)
{
	other = create(7, "a", O_WRONLY);
	other_ino = lookup(7, "a", NULL);
	write_at(7, other, "x\n", 0);
	world.code = TDL_ERR_SCHEMA;
	world.during_commit = chmod_meanwhile;
	cr_expect_eq(flush(7, other), EINVAL);
	cr_expect_str_eq(world.owned, "a 1000:100 400");
	cr_expect_str_eq(world.reason, "22 a:1: bad");
	release(other);
}

Test(owners, what_was_said_is_said_again)
{
	struct stat st;

	recover_leftovers("refused", "x\n", "22 refused:1: bad");
	recover_leftovers("killed", "x\n", "5 incomplete: its writer p was killed");
	recover_leftovers("hole", "", "28 not committed: a write failed");
	recover_leftovers("half", "x\n", NULL);
	recover_leftovers("odd", "x\n", "nonsense");
	recover_leftovers("empty", "", NULL);
	cr_expect_str_eq(error_text("refused.error"), "refused:1: bad\n");
	cr_expect_str_eq(error_text("killed.error"), "incomplete: its writer p was killed\n");
	cr_expect_str_eq(error_text("hole.error"), "not committed: a write failed\n");
	cr_expect_eq(strncmp(error_text("half.error"), "incomplete: the mount ended", 27), 0);
	cr_expect_eq(strncmp(error_text("odd.error"), "incomplete: the mount ended", 27), 0);
	cr_expect_eq(lookup(7, "empty.error", NULL), 0);
	cr_assert_neq(lookup(7, "refused", &st), 0);
	cr_expect_eq(st.st_mode, S_IFREG | 0640);
	cr_expect_eq(st.st_uid, 1000);
	cr_assert_neq(lookup(7, "refused.error", &st), 0);
	cr_expect_eq(st.st_mode, S_IFREG | 0440);
	/* What is all there is tried again by whoever adds to it; what is half is not. */
	world.now += 10000;
	(void)tdfs_incoming_expire(in);
	cr_expect_eq(world.commits, 0);
	tdfs_incoming_commit_remaining(in);
	cr_expect_eq(world.commits, 0);
}

Test(owners, what_waits_has_no_descriptor)
{
	struct tdfs_handle *handle = create(7, "a.tmp", O_RDWR);
	char text[8];
	size_t got;

	write_at(7, handle, "x\n", 0);
	cr_expect_eq(flush(7, handle), 0);
	cr_expect_eq(world.lent, 1);
	release(handle);
	run_jobs();
	cr_expect_eq(world.lent, 0);
	cr_assert_eq(open_it(7, "a.tmp", O_RDWR | O_APPEND, &handle), 0);
	cr_expect_eq(world.lent, 1);
	append_at(7, handle, "y\n", 2);
	cr_expect_eq(tdfs_incoming_read(in, handle, text, sizeof text, 0, &got), 0);
	cr_expect(got == 4 && memcmp(text, "x\ny\n", 4) == 0);
	(void)flush(7, handle);
	release(handle);
	run_jobs();
	cr_expect_eq(world.lent, 0);
	/* Not open, it is cut, renamed and committed. */
	{
		struct stat change = { .st_size = 2 }, st;
		struct tdfs_caller caller = who(7);

		cr_assert_neq(lookup(7, "a.tmp", &st), 0);
		cr_assert_eq(
			tdfs_incoming_setattr(in, &caller, st.st_ino, &change, TDFS_SET_SIZE, &st),
			0);
		cr_expect_eq(st.st_size, 2);
		run_jobs();
		cr_expect_eq(world.lent, 0);
	}
	world.code = TDL_ERR_SCHEMA;
	cr_expect_eq(rename_it(7, "a.tmp", "a"), EINVAL);
	run_jobs();
	cr_expect_eq(world.lent, 0);
	world.code = 0;
	cr_expect_eq(rename_it(7, "a.tmp", "a"), 0);
	cr_expect_str_eq(world.committed, "x\n");
	/* By mknod, too. */
	{
		struct tdfs_caller caller = who(7);
		struct stat st;
		unsigned before = world.lent;

		cr_assert_eq(tdfs_incoming_create(in, &caller, "b", 0600, 0, &st, NULL), 0);
		cr_expect_eq(world.lent, before);
	}
}
