/* SPDX-License-Identifier: MIT */
#ifndef TDFS_OPTS_H
#define TDFS_OPTS_H

#include <stdbool.h>
#include <stddef.h>

enum tdfs_access {
	TDFS_OWNER_ONLY,  /* as FUSE has it: only who mounted */
	TDFS_ALLOW_OTHER, /* everyone whom the modes let */
	TDFS_ALLOW_ROOT,
};

/* What the command line asks for. Strings are owned. */
struct tdfs_options {
	char *table;	  /* as given */
	char *mountpoint; /* as given */
	bool help;
	bool show_version;
	bool foreground;
	bool debug;
	bool single_threaded;
	bool read_only;
	bool auto_unmount;
	enum tdfs_access access;
	unsigned max_threads;	 /* at least 1 */
	unsigned max_read;	 /* bytes in one read request */
	unsigned read_ahead_kib; /* 0: as the kernel has it */
	char *fsname;		 /* NULL: the table's absolute path */
	char *subtype;		 /* NULL: tinydeltafs */
	char *flags; /* generic mount flags, separated by commas, escaped for libfuse; "" none */
};

#define TDFS_MAX_READ (1u << 20) /* of one request; a buffer's size */

/*
 * Reads the arguments after the program's name. Options may stand anywhere before a "--". With
 * help or show_version set the rest may be missing. Returns 0, or -1 with one line in `why`; free
 * *options with tdfs_options_clear() in both cases.
 */
int tdfs_options_parse(struct tdfs_options *options, int count, char *const *arguments, char *why,
		       size_t size);
void tdfs_options_clear(struct tdfs_options *options);

/* Appends ",name=value" (",name" where value is NULL) to the option list *list, with commas and
 * backslashes of the value escaped as libfuse wants it. Returns 0, or -1 when out of memory. */
int tdfs_options_append(char **list, const char *name, const char *value);

#endif
