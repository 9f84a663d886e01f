/* SPDX-License-Identifier: MIT */
#ifndef TDFS_OPTS_H
#define TDFS_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum tdfs_access {
	TDFS_OWNER_ONLY,  /* as FUSE has it: only who mounted */
	TDFS_ALLOW_OTHER, /* everyone whom the modes let */
	TDFS_ALLOW_ROOT,
};

/* Attributes that are shown instead of those of the table's directory. */
struct tdfs_shown {
	bool has_uid;	/* `uid` is shown */
	bool has_gid;	/* `gid` is shown */
	bool has_umask; /* `umask` is taken off 0555 and 0444 */
	uid_t uid;
	gid_t gid;
	mode_t umask;
};

/* What the command line asks for. Strings are owned. */
struct tdfs_options {
	char *table;	      /* as given */
	char *mountpoint;     /* as given */
	bool help;	      /* only print the usage */
	bool show_version;    /* only print the versions */
	bool foreground;      /* do not detach */
	bool debug;	      /* libfuse prints every request; implies foreground */
	bool single_threaded; /* one thread answers requests */
	bool read_only;	      /* incoming/ is empty, nothing is created */
	bool auto_unmount;    /* fusermount3 unmounts when the daemon dies */
	bool remount;	      /* change the flags of what is mounted */
	const char *fact; /* the first of the kernel's own words in /proc/mounts (fd=, rootmode=),
			   * which are allowed with remount only; NULL: none */
	char *version;	  /* show this one alone, which makes it read_only; NULL: all of them */
	struct tdfs_shown shown;
	bool has_list; /* no more versions than `list` are listed, the newest */
	uint64_t list;
	bool no_passthrough;
	enum tdfs_access access;
	unsigned max_threads;	 /* at least 1 */
	unsigned max_read;	 /* bytes in one read request */
	unsigned read_ahead_kib; /* 0: as the kernel has it */
	char *fsname;		 /* NULL: the table's absolute path */
	char *subtype;		 /* NULL: tinydeltafs */
	char *log;		 /* the file for messages; NULL: syslog */
	char *flags; /* generic mount flags, separated by commas, escaped for libfuse; "": none */
	char *remount_flags; /* remount: all flags, also those that libfuse does not know */
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
