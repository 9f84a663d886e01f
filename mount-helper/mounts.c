/* SPDX-License-Identifier: MIT */
/*
 * What is mounted where. Knows nothing of what that is.
 */
#include "mounts.h"

#include <stdlib.h>
#include <string.h>

#include "util/mountinfo.h"

bool mounts_find(FILE *table, const char *directory, struct mounted *mounted)
{
	char *line = NULL;
	size_t size = 0;

	*mounted = (struct mounted){ 0 };
	while (getline(&line, &size, table) > 0) {
		struct tdl__mount mount;

		if (!tdl__mountinfo_read(line, &mount) || strcmp(mount.at, directory) != 0)
			continue;
		/* A later one lies over an earlier one. */
		mounted_clear(mounted);
		mounted->type = strdup(mount.type);
		mounted->source = strdup(mount.source);
	}
	free(line);
	if (mounted->type && mounted->source)
		return true;
	mounted_clear(mounted);
	return false;
}

void mounted_clear(struct mounted *mounted)
{
	free(mounted->type);
	free(mounted->source);
	*mounted = (struct mounted){ 0 };
}
