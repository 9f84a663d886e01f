/* SPDX-License-Identifier: MIT */
#ifndef TDFS_PLACE_H
#define TDFS_PLACE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Finds the absolute paths of a table and a mount point, and refuses what could not work: a mount
 * point that is no directory, that is inside, over or above the table (the daemon would wait for
 * itself), that has a tinydeltafs already, or a dead mount. Returns 0, or -1 with one line in
 * `why`. Free both paths.
 */
int tdfs_place_find(const char *table, const char *mountpoint, char **table_path,
		    char **mountpoint_path, char *why, size_t size);

/* Sets how far the kernel reads ahead in the file system with device number `device`. Returns 0
 * or an errno: only root may. */
int tdfs_place_read_ahead(uint64_t device, unsigned kib);

#endif
