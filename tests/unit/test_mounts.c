/* SPDX-License-Identifier: MIT */
/*
 * What is mounted where, from text as in /proc/self/mountinfo.
 */
#include "mounts.h"

#include <criterion/criterion.h>
#include <string.h>

static const char table[] =
	"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
	"40 22 0:50 / /mnt/a rw,nosuid,nodev shared:2 master:1 - fuse.tinydeltafs /srv/a "
	"rw,user_id=0\n"
	"41 22 0:51 / /mnt/with\\040blank\\134 rw - fuse.tinydeltafs /srv/a\\040b\\012 rw\n"
	"42 22 0:52 / /mnt/twice rw - fuse.tinydeltafs /srv/below rw\n"
	"43 42 0:53 / /mnt/twice rw - autofs systemd-1 rw\n"
	"44 22 0:54 / /mnt/odd\\9 rw - tmpfs none rw\n"
	"broken\n"
	"\n"
	"45 22 0:55 / /mnt/cut rw\n";

static bool find(const char *directory, struct mounted *mounted)
{
	FILE *text = fmemopen((void *)table, strlen(table), "r");
	bool found = mounts_find(text, directory, mounted);

	fclose(text);
	return found;
}

static void expect(const char *directory, const char *type, const char *source)
{
	struct mounted mounted;

	cr_assert(find(directory, &mounted), "%s is not found", directory);
	cr_expect_str_eq(mounted.type, type);
	cr_expect_str_eq(mounted.source, source);
	mounted_clear(&mounted);
}

Test(mounts, found)
{
	expect("/", "ext4", "/dev/vda");
	expect("/mnt/a", "fuse.tinydeltafs", "/srv/a");
	expect("/mnt/odd\\9", "tmpfs", "none");
}

Test(mounts, escapes)
{
	expect("/mnt/with blank\\", "fuse.tinydeltafs", "/srv/a b\n");
}

Test(mounts, the_uppermost_counts)
{
	expect("/mnt/twice", "autofs", "systemd-1");
}

Test(mounts, not_found)
{
	struct mounted mounted;

	cr_expect_not(find("/mnt", &mounted));
	cr_expect_not(find("/mnt/a/", &mounted));
	cr_expect_not(find("/mnt/cut", &mounted));
	cr_expect_not(find("", &mounted));
	cr_expect_null(mounted.type);
	cr_expect_null(mounted.source);
}
