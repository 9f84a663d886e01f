/* SPDX-License-Identifier: MIT */
/*
 * Names that appear otherwise than by a request for them, which is nothing that the kernel could
 * have seen when it looked a name up for somebody else, and checked what he may do.
 */
#include "play.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

TestSuite(owners, .init = play_setup, .fini = play_teardown, .timeout = 60);

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

static void by_adoption(void)
{
	void *file;
	int fd;

	play_create(NULL, "a", &file, &fd);
	cr_assert_eq(ftruncate(fd, 2), 0);
	cr_assert_eq(fchown(fd, 1000, 100), 0);
	tdfs_incoming_adopt(in, file, fd, "a", 0);
}

static void by_open_of_what_is_published(void)
{
	struct tdfs_handle *handle;

	cr_assert_eq(drop(7, "a", "x\n"), 0);
	cr_assert_eq(open_it(7, "a", O_WRONLY, &handle), ESTALE);
}

static struct tdfs_handle *kept;

static void by_write_after_the_publish(void)
{
	kept = create(7, "a", O_WRONLY);
	write_at(7, kept, "x\n", 0);
	cr_assert_eq(flush(7, kept), 0);
	cr_assert_eq(ben_looks_up("a"), 0, "it is published");
	write_at(7, kept, "y\n", 2);
}

static void (*const ways[])(void) = { by_adoption, by_open_of_what_is_published,
				      by_write_after_the_publish };

#define FOR_EACH_WAY for (size_t way = 0; way < 3; play_teardown(), play_setup(), way++)

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
		cr_expect_eq(drop(7, ".b", "z\n"), 0);
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
