/* SPDX-License-Identifier: MIT */
/*
 * Where a table and its mount point lie, as the system sees it. Knows nothing of libfuse and
 * nothing of what is in a table.
 */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FUSE_TYPE "fuse.tinydeltafs"

static int refuse(char *why, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(char *why, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return -1;
}

/* The file system on top at `path`, as the mount table has it. */
static bool mounted_at(const char *path, char *source, size_t source_size, char *type,
		       size_t type_size)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	char buffer[16384];
	struct mntent entry;
	bool found = false;

	if (mounts == NULL)
		return false;
	/* Later lines lie over earlier ones. */
	while (getmntent_r(mounts, &entry, buffer, sizeof buffer) != NULL) {
		if (strcmp(entry.mnt_dir, path) != 0)
			continue;
		snprintf(source, source_size, "%s", entry.mnt_fsname);
		snprintf(type, type_size, "%s", entry.mnt_type);
		found = true;
	}
	endmntent(mounts);
	return found;
}

/* Whether `path` is `above` or lies in it, as far as the names tell. Both are absolute. */
static bool within(const char *path, const char *above)
{
	size_t length = strlen(above);

	if (length > 0 && above[length - 1] == '/')
		length--;
	return strncmp(path, above, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* The same by what the directories are, which bind mounts do not hide. */
static bool walks_up_to(const char *path, const struct stat *above)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat here, last = { 0 };
	bool found = false;

	while (fd >= 0 && fstat(fd, &here) == 0) {
		int up;

		found = here.st_dev == above->st_dev && here.st_ino == above->st_ino;
		if (found || (here.st_dev == last.st_dev && here.st_ino == last.st_ino))
			break;
		last = here;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = up;
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static int check(const char *table, const char *mountpoint, char *why, size_t size)
{
	struct stat table_st, mount_st;
	char source[4096], type[256];

	if (stat(table, &table_st) < 0)
		return refuse(why, size, "%s: %s", table, strerror(errno));
	if (stat(mountpoint, &mount_st) < 0)
		return refuse(why, size, "%s: %s", mountpoint, strerror(errno));
	if (!S_ISDIR(table_st.st_mode))
		return refuse(why, size, "%s: not a table, since it is no directory", table);
	if (!S_ISDIR(mount_st.st_mode))
		return refuse(why, size, "%s: a mount point must be a directory", mountpoint);
	if (mounted_at(mountpoint, source, sizeof source, type, sizeof type) &&
	    strcmp(type, FUSE_TYPE) == 0)
		return refuse(why, size, "%s: already mounted (%s)", mountpoint, source);
	if (table_st.st_dev == mount_st.st_dev && table_st.st_ino == mount_st.st_ino)
		return refuse(why, size, "%s: the mount point is the table itself", mountpoint);
	if (within(mountpoint, table) || walks_up_to(mountpoint, &table_st))
		return refuse(why, size, "%s: the mount point is inside the table %s", mountpoint,
			      table);
	if (within(table, mountpoint) || walks_up_to(table, &mount_st))
		return refuse(why, size, "%s: the mount point would hide the table %s", mountpoint,
			      table);
	return 0;
}

static int unresolved(const char *path, int error, char *why, size_t size)
{
	if (error == ENOTCONN || error == ECONNABORTED)
		return refuse(why, size, "%s: the mount there is dead; first run: umount %s", path,
			      path);
	return refuse(why, size, "%s: %s", path, strerror(error));
}

static char *resolve(const char *path, int *error)
{
	char *resolved = realpath(path, NULL);
	struct statfs st;

	/* The attributes of a dead mount may still be known; this is always asked. */
	if (resolved == NULL) {
		*error = errno;
	} else if (statfs(resolved, &st) < 0) {
		*error = errno;
		free(resolved);
		resolved = NULL;
	}
	return resolved;
}

int tdfs_place_find(const char *table, const char *mountpoint, char **table_path,
		    char **mountpoint_path, char *why, size_t size)
{
	char *resolved_table, *resolved_mountpoint;
	int error;

	resolved_table = resolve(table, &error);
	if (resolved_table == NULL)
		return unresolved(table, error, why, size);
	resolved_mountpoint = resolve(mountpoint, &error);
	if (resolved_mountpoint == NULL) {
		free(resolved_table);
		return unresolved(mountpoint, error, why, size);
	}
	if (check(resolved_table, resolved_mountpoint, why, size) < 0) {
		free(resolved_table);
		free(resolved_mountpoint);
		return -1;
	}
	*table_path = resolved_table;
	*mountpoint_path = resolved_mountpoint;
	return 0;
}

/* Undoes the octal escapes of the list of mounts, in place. */
static void unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in != '\0'; out++) {
		if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
		    in[3] >= '0' && in[3] <= '7') {
			*out = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
			in += 4;
		} else {
			*out = *in++;
		}
	}
	*out = '\0';
}

bool tdfs_place_shows(const char *path, dev_t device)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	unsigned above = 0, below = 0;
	char *line = NULL, *at = NULL;
	size_t size = 0;

	if (mounts == NULL)
		return false;
	/* "ID PARENT MAJOR:MINOR ROOT MOUNTPOINT ..."; later lines lie over earlier ones. */
	while (getline(&line, &size, mounts) > 0) {
		unsigned major_number, minor_number;

		free(at);
		at = NULL;
		if (sscanf(line, "%*s %*s %u:%u %*s %ms", &major_number, &minor_number, &at) != 3)
			continue;
		unescape(at);
		if (strcmp(at, path) == 0) {
			above = major_number;
			below = minor_number;
		}
	}
	free(at);
	free(line);
	fclose(mounts);
	return makedev(above, below) == device;
}

int tdfs_place_read_ahead(dev_t device, unsigned kib)
{
	char path[128];
	int fd, result;

	snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(device),
		 minor(device));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	result = dprintf(fd, "%u\n", kib) < 0 ? errno : 0;
	close(fd);
	return result;
}
