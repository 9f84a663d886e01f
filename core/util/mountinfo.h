/* SPDX-License-Identifier: MIT */
#ifndef TDL_MOUNTINFO_H
#define TDL_MOUNTINFO_H

#include <stdbool.h>
#include <sys/types.h>

/* A line of /proc/self/mountinfo. Its texts lie in the line that was read. */
struct tdl__mount {
	dev_t device;
	char *at;     /* the mount point, absolute */
	char *type;   /* "fuse.tinydeltafs" */
	char *source; /* as the file system names it; may be empty */
};

/*
 * Reads a line, with or without its newline, and undoes its octal escapes in place: all of them,
 * where getmntent() of some releases of glibc leaves "\043" (a "#" that would begin a comment in
 * fstab) as it is written. False where it is not such a line.
 */
bool tdl__mountinfo_read(char *line, struct tdl__mount *mount);

#endif
