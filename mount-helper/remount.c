/* SPDX-License-Identifier: MIT */
/*
 * mount -o remount,...: the kernel's part of it, which is all there is for a FUSE file system.
 */
#include "remount.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* As statfs(2) tells it; libc has no name for it. */
#define SHOWN_NOSYMFOLLOW 0x2000

#define ACCESS_TIMES ((unsigned long)(MS_NOATIME | MS_RELATIME | MS_STRICTATIME))

/* The flags that the mount has now; a remount replaces all of them. */
static unsigned long current_flags(unsigned long st)
{
	static const struct {
		unsigned long st, ms;
	} flags[] = {
		{ ST_NOSUID, MS_NOSUID },	    { ST_NODEV, MS_NODEV },
		{ ST_NOEXEC, MS_NOEXEC },	    { ST_NOATIME, MS_NOATIME },
		{ ST_NODIRATIME, MS_NODIRATIME },   { ST_RELATIME, MS_RELATIME },
		{ ST_SYNCHRONOUS, MS_SYNCHRONOUS }, { SHOWN_NOSYMFOLLOW, MS_NOSYMFOLLOW },
	};
	unsigned long ms = 0;

	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
		if (st & flags[i].st)
			ms |= flags[i].ms;
	if (!(st & (ST_NOATIME | ST_RELATIME)))
		ms |= MS_STRICTATIME;
	return ms;
}

/* A daemon that was started read-only has no incoming/ to write to, whatever the kernel lets
 * through. */
static bool daemon_is_read_only(const char *directory)
{
	char path[4096];
	struct stat st;
	int n = snprintf(path, sizeof path, "%s/incoming", directory);

	return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && (st.st_mode & 0222) == 0;
}

int remount(const char *directory, const struct mountopts *options, char *why, size_t size)
{
	struct statvfs st;
	unsigned long flags;

	if (statvfs(directory, &st) != 0) {
		snprintf(why, size, "%s: %s", directory, strerror(errno));
		return -1;
	}
	if (!options->read_only && daemon_is_read_only(directory)) {
		snprintf(why, size,
			 "%s: was mounted read-only, or its table cannot be written; "
			 "umount it and mount it again to change that",
			 directory);
		return -1;
	}
	flags = (current_flags(st.f_flag) & ~options->clear) | options->set;
	/* One of the three ways to keep access times; with none of them the kernel would leave what
	 * it has. */
	if (options->set & ACCESS_TIMES)
		flags = (flags & ~ACCESS_TIMES) | (options->set & ACCESS_TIMES);
	else if (!(flags & ACCESS_TIMES))
		flags |= options->clear & MS_RELATIME ? MS_STRICTATIME : MS_RELATIME;
	if (options->read_only)
		flags |= MS_RDONLY;
	if (mount(NULL, directory, NULL, MS_REMOUNT | flags, NULL) != 0) {
		snprintf(why, size, "%s: cannot remount: %s", directory, strerror(errno));
		return -1;
	}
	return 0;
}
