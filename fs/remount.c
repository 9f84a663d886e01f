/* SPDX-License-Identifier: MIT */
/*
 * Remounting, for mount -t fuse.tinydeltafs: its helper runs this program for a remount too. Knows
 * nothing of the daemon that serves; that one is not told.
 */
#include "remount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "msg.h"

#define MOUNT "/bin/mount"

/* A daemon that was started read-only has no incoming/ to write to, whatever the kernel lets
 * through. */
static bool can_be_written(const char *mountpoint)
{
	char path[4096];
	struct stat st;
	int n = snprintf(path, sizeof path, "%s/incoming", mountpoint);

	return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && (st.st_mode & 0222) != 0;
}

/* With `complete` the list has all the flags there are to be; else those not in it stay. */
static int run_mount(const char *list, bool complete, const char *mountpoint)
{
	const char *const arguments[] = {
		"mount",
		"-i",
		"--options-mode",
		complete ? "ignore" : "prepend",
		"-o",
		list,
		"--",
		mountpoint,
		NULL,
	};
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		/* Of util-linux 2.39 and newer: by mount(2). The kernel refuses every option of a
		 * FUSE file system in a reconfiguration by fsconfig(2), those too that stay. */
		setenv("LIBMOUNT_FORCE_MOUNT2", "always", 1);
		execv(MOUNT, (char *const *)arguments);
		tdfs_msg(LOG_ERR, MOUNT ": %s", strerror(errno));
		_exit(EXIT_FAILURE);
	}
	if (child < 0) {
		tdfs_msg(LOG_ERR, "fork: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int tdfs_remount(const struct tdfs_options *options)
{
	char *list;
	int status;

	if (!options->read_only && !can_be_written(options->mountpoint)) {
		tdfs_msg(LOG_ERR,
			 "%s: not mounted, or mounted read-only; umount it and mount it again to "
			 "change that",
			 options->mountpoint);
		return EXIT_FAILURE;
	}
	if (asprintf(&list, "remount,%s%s%s", options->read_only ? "ro" : "rw",
		     options->remount_flags[0] != '\0' ? "," : "", options->remount_flags) < 0) {
		tdfs_msg(LOG_ERR, "out of memory");
		return EXIT_FAILURE;
	}
	/* mount(8) has made a list that has facts in it of what the mount has and what is asked. */
	status = run_mount(list, options->fact != NULL, options->mountpoint);
	free(list);
	return status;
}
