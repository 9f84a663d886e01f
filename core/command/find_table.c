/* SPDX-License-Identifier: MIT */
/*
 * Which table is meant: the one at a path, the one that a mount shows, or the one around the
 * working directory.
 */
#include "find_table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/mountinfo.h"

char *find_table_behind(const char *path)
{
	FILE *mounts;
	char *line = NULL, *found = NULL;
	size_t size = 0;
	struct stat st;

	if (stat(path, &st) != 0)
		return NULL;
	mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && !found && getline(&line, &size, mounts) >= 0) {
		struct tdl__mount mount;

		/* Unless it was mounted under another name (-o fsname=), that is the table's. */
		if (tdl__mountinfo_read(line, &mount) && mount.device == st.st_dev &&
		    strcmp(mount.type, "fuse.tinydeltafs") == 0 && mount.source[0] == '/')
			found = strdup(mount.source);
	}
	free(line);
	if (mounts)
		fclose(mounts);
	return found;
}

static bool has_log(const char *path)
{
	char *log;
	struct stat st;
	bool has = false;

	if (asprintf(&log, "%s/_delta_log", path) < 0)
		return false;
	has = stat(log, &st) == 0 && S_ISDIR(st.st_mode);
	free(log);
	return has;
}

char *find_table_here(void)
{
	char *path = getcwd(NULL, 0), *table = path ? find_table_behind(path) : NULL;

	if (table) {
		free(path);
		return table;
	}
	while (path && !has_log(path)) {
		char *slash = strrchr(path, '/');

		if (!slash || slash[1] == '\0') {
			free(path);
			return NULL;
		}
		slash[slash == path ? 1 : 0] = '\0';
	}
	return path;
}

int find_table_open(const char *path, unsigned flags, tdl_table **table, tdl_error *error)
{
	int r = tdl_table_open(path, flags, table, error);
	char *behind = r < 0 ? find_table_behind(path) : NULL;

	if (behind)
		r = tdl_table_open(behind, flags, table, error);
	free(behind);
	return r;
}
