/* SPDX-License-Identifier: MIT */
#ifndef MOUNTS_H
#define MOUNTS_H

#include <stdbool.h>
#include <stdio.h>

/* What is mounted on a directory. Both texts are owned; free(). */
struct mounted {
	char *type;   /* "fuse.tinydeltafs" */
	char *source; /* as the file system names it */
};

/*
 * Finds the uppermost mount on `directory`, an absolute path without links, in `table`, text as in
 * /proc/self/mountinfo. Returns false where there is none.
 */
bool mounts_find(FILE *table, const char *directory, struct mounted *mounted);
void mounted_clear(struct mounted *mounted);

#endif
