/* SPDX-License-Identifier: MIT */
/*
 * Lines of /proc/self/mountinfo, with what the kernel escapes in them.
 */
#include "util/mountinfo.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/sysmacros.h>

static bool read_line(const char *text, struct tdl__mount *mount)
{
	static char line[512];

	snprintf(line, sizeof line, "%s", text);
	return tdl__mountinfo_read(line, mount);
}

static void expect(const char *text, const char *at, const char *type, const char *source)
{
	struct tdl__mount mount;

	cr_assert(read_line(text, &mount), "%s", text);
	cr_expect_str_eq(mount.at, at);
	cr_expect_str_eq(mount.type, type);
	cr_expect_str_eq(mount.source, source);
	cr_expect_eq(mount.device, makedev(7, 50));
}

Test(mountinfo, optional_fields)
{
	expect("40 22 7:50 / /mnt rw - fuse.x /srv/a rw\n", "/mnt", "fuse.x", "/srv/a");
	expect("40 22 7:50 / /mnt rw shared:2 master:1 - fuse.x /srv/a rw", "/mnt", "fuse.x",
	       "/srv/a");
}

/* What mount tables escape: blank, tab, newline, backslash; and "#", which begins a comment where
 * such a line is kept in a file. */
Test(mountinfo, escapes)
{
	expect("40 22 7:50 / /a\\040b\\011c\\012d\\134e\\043f rw - fuse.x "
	       "/a\\040b\\011c\\012d\\134e\\043f rw",
	       "/a b\tc\nd\\e#f", "fuse.x", "/a b\tc\nd\\e#f");
	/* Once, and only three octal digits of a byte. */
	expect("40 22 7:50 / /a\\134040\\9\\08 rw - fuse.x \\477 rw", "/a\\040\\9\\08", "fuse.x",
	       "\\477");
}

/* A source without a name leaves its field empty. */
Test(mountinfo, no_source)
{
	expect("40 22 7:50 / /mnt rw - fuse.x  rw", "/mnt", "fuse.x", "");
}

Test(mountinfo, not_a_line)
{
	static const char *const lines[] = { "",
					     "\n",
					     "broken",
					     "40 22 7:50 / /mnt rw\n",
					     "40 22 7 / /mnt rw - a b rw",
					     "40 22 7:50 / /mnt rw - a",
					     "40 22 7:50 / /mnt rw -" };
	struct tdl__mount mount;

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		cr_expect_not(read_line(lines[i], &mount), "%s", lines[i]);
}
