/* SPDX-License-Identifier: MIT */
#ifndef TDFS_PLACE_H
#define TDFS_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tdfs_place {
	char *table, *mountpoint; /* absolute */
	int claim;		  /* on the mount point until it is mounted; -1: none */
};

/*
 * Finds the absolute paths of a table and a mount point, and refuses what could not work: a mount
 * point that is not a directory, that is inside, over or above the table (the daemon would wait for
 * itself), that has a tinydeltafs already, or a dead mount. While another process mounts there it
 * waits for that one. Returns 0, or -1 with one line in `why`.
 */
int tdfs_place_find(const char *table, const char *mountpoint, struct tdfs_place *place, char *why,
		    size_t size);
/* It is mounted: others may look. */
void tdfs_place_release(struct tdfs_place *place);
void tdfs_place_clear(struct tdfs_place *place);

/*
 * The device number of the file system that was just mounted at `path` through the connection `fd`,
 * over a directory of the file system `below`. 0: it cannot be told, since the mount is gone again.
 * To be called while the claim keeps others of this program away. The file system is not asked.
 */
dev_t tdfs_place_device(int fd, const char *path, dev_t below);

/* Whether the file system with this device number is what one gets at the absolute path `path`. The
 * file system itself is not asked. */
bool tdfs_place_shows(const char *path, dev_t device);

/* Takes the file system with this device number away from wherever it is mounted by now, open or
 * not, as far as it can be seen. */
void tdfs_place_unmount(dev_t device);

/* Sets how far the kernel reads ahead in the file system with this device number. Returns 0 or an
 * errno: only root may. */
int tdfs_place_read_ahead(dev_t device, unsigned kib);

#endif
