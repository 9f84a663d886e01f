/* SPDX-License-Identifier: MIT */
#ifndef TDFS_PLACE_H
#define TDFS_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Finds the absolute paths of a table and a mount point, and refuses what could not work: a mount
 * point that is no directory, that is inside, over or above the table (the daemon would wait for
 * itself), that has a tinydeltafs already, or a dead mount. Returns 0, or -1 with one line in
 * `why`. Free both paths.
 */
int tdfs_place_find(const char *table, const char *mountpoint, char **table_path,
		    char **mountpoint_path, char *why, size_t size);

/* Whether the file system with this device number is what one gets at the absolute path `path`, as
 * the list of mounts has it: the file system itself is not asked. */
bool tdfs_place_shows(const char *path, dev_t device);

/* Sets how far the kernel reads ahead in the file system with this device number. Returns 0 or an
 * errno: only root may. */
int tdfs_place_read_ahead(dev_t device, unsigned kib);

#endif
