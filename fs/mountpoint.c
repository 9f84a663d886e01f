/* SPDX-License-Identifier: MIT */
/*
 * Where a table and its mount point lie, as the system sees it. Knows nothing of libfuse and
 * nothing of what is in a table.
 */
#include "mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/mountinfo.h"
#include "util/util.h"

#define FUSE_TYPE     "fuse.tinydeltafs"
#define CLAIM_MS      20000
#define CLAIM_STEP_MS 20

static int refuse_mountpoint(char *why, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse_mountpoint(char *why, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return -1;
}

/* ---- The list of mounts ------------------------------------------------------------------- */

/* A mount whose texts lie in its line. */
struct mount_line {
	char *text;
	struct tdl__mount mount;
};

/* The file system on top at `path`, as the mount table has it. Where it is true the caller frees
 * found->text. */
static bool mounted_at(const char *path, struct mount_line *found)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *text CLEANUP(tdl__free_at) = NULL;
	struct tdl__mount mount;
	size_t size = 0;

	*found = (struct mount_line){ 0 };
	/* Later lines lie over earlier ones. */
	while (mounts && getline(&text, &size, mounts) > 0) {
		if (!tdl__mountinfo_read(text, &mount) || strcmp(mount.at, path) != 0)
			continue;
		free(found->text);
		*found = (struct mount_line){ tdl__steal(text), mount };
		size = 0;
	}
	if (mounts)
		fclose(mounts);
	return found->text != NULL;
}

/* ---- Finding the two places --------------------------------------------------------------- */

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

/* Whether somebody has mounted over the directory `claim` since it was opened. */
static bool covered(const char *mountpoint, int claim)
{
	struct stat ours, there;

	return claim >= 0 && fstat(claim, &ours) == 0 && stat(mountpoint, &there) == 0 &&
	       (ours.st_dev != there.st_dev || ours.st_ino != there.st_ino);
}

static int check(const char *table, const char *mountpoint, int claim, char *why, size_t size)
{
	struct stat table_st, mount_st;
	struct mount_line line;
	bool taken;

	if (stat(table, &table_st) < 0)
		return refuse_mountpoint(why, size, "%s: %s", table, strerror(errno));
	if (stat(mountpoint, &mount_st) < 0)
		return refuse_mountpoint(why, size, "%s: %s", mountpoint, strerror(errno));
	if (!S_ISDIR(table_st.st_mode))
		return refuse_mountpoint(why, size, "%s: not a table, since it is not a directory",
					 table);
	if (!S_ISDIR(mount_st.st_mode))
		return refuse_mountpoint(why, size, "%s: a mount point must be a directory",
					 mountpoint);
	taken = mounted_at(mountpoint, &line) &&
		(strcmp(line.mount.type, FUSE_TYPE) == 0 || covered(mountpoint, claim));
	if (taken)
		refuse_mountpoint(why, size, "%s: already mounted (%s)", mountpoint,
				  line.mount.source);
	free(line.text);
	if (taken)
		return -1;
	if (table_st.st_dev == mount_st.st_dev && table_st.st_ino == mount_st.st_ino)
		return refuse_mountpoint(why, size, "%s: the mount point is the table itself",
					 mountpoint);
	if (within(mountpoint, table) || walks_up_to(mountpoint, &table_st))
		return refuse_mountpoint(why, size, "%s: the mount point is inside the table %s",
					 mountpoint, table);
	if (within(table, mountpoint) || walks_up_to(table, &mount_st))
		return refuse_mountpoint(why, size, "%s: the mount point would hide the table %s",
					 mountpoint, table);
	return 0;
}

/*
 * Of two that mount at one place at the same time the second waits until the first one serves, and
 * then sees it. Whoever else holds a lock there, and any user may, delays it a while.
 */
static int claim_mountpoint(const char *mountpoint)
{
	const struct timespec pause = { .tv_nsec = CLAIM_STEP_MS * 1000000 };
	int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);

	for (int ms = 0; fd >= 0 && ms < CLAIM_MS; ms += CLAIM_STEP_MS) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
			break;
		nanosleep(&pause, NULL);
	}
	return fd;
}

static int unresolved(const char *path, int err, char *why, size_t size)
{
	if (err == ENOTCONN || err == ECONNABORTED)
		return refuse_mountpoint(
			why, size, "%s: the mount there is dead; first run: umount %s", path, path);
	return refuse_mountpoint(why, size, "%s: %s", path, strerror(err));
}

static char *resolve(const char *path, int *error)
{
	char *resolved = realpath(path, NULL);
	struct statfs st;

	/* The attributes of a dead mount may still be known; this is always asked. */
	if (!resolved) {
		*error = errno;
	} else if (statfs(resolved, &st) < 0) {
		*error = errno;
		free(resolved);
		resolved = NULL;
	}
	return resolved;
}

int tdfs_place_find(const char *table, const char *mountpoint, struct tdfs_place *place, char *why,
		    size_t size)
{
	int err;

	*place = (struct tdfs_place){ .claim = -1 };
	place->table = resolve(table, &err);
	if (!place->table)
		return unresolved(table, err, why, size);
	place->mountpoint = resolve(mountpoint, &err);
	if (!place->mountpoint) {
		unresolved(mountpoint, err, why, size);
	} else {
		place->claim = claim_mountpoint(place->mountpoint);
		if (check(place->table, place->mountpoint, place->claim, why, size) == 0)
			return 0;
	}
	tdfs_place_clear(place);
	return -1;
}

void tdfs_place_release(struct tdfs_place *place)
{
	if (place->claim < 0)
		return;
	/* Also for the parent, which has it too. */
	flock(place->claim, LOCK_UN);
	close(place->claim);
	place->claim = -1;
}

void tdfs_place_clear(struct tdfs_place *place)
{
	tdfs_place_release(place);
	free(place->table);
	free(place->mountpoint);
	*place = (struct tdfs_place){ .claim = -1 };
}

/* ---- The mount, wherever it is ------------------------------------------------------------ */

/* 0: nothing is there. Nobody is asked, neither a daemon nor a server. */
static dev_t device_at(const char *path)
{
	struct statx st;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_TYPE, &st) < 0)
		return 0;
	return makedev(st.stx_dev_major, st.stx_dev_minor);
}

bool tdfs_place_shows(const char *path, dev_t device)
{
	return device_at(path) == device;
}

/* Newer kernels know it of the descriptor, wherever the mount is by now. 0: this one does not. */
static dev_t device_of_connection(int fd)
{
	char path[64], *text = NULL;
	unsigned number = 0;
	size_t size = 0;
	FILE *info;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info && number == 0 && getline(&text, &size, info) > 0)
		(void)sscanf(text, "fuse_connection: %u", &number);
	free(text);
	if (info)
		fclose(info);
	/* Its device has no major number. */
	return makedev(0, number);
}

dev_t tdfs_place_device(int fd, const char *path, dev_t below)
{
	dev_t device = device_of_connection(fd);
	struct mount_line line;

	if (device != 0)
		return device;
	/* Else it is what is there now, where that is one of ours. */
	device = device_at(path);
	if (device == below || !mounted_at(path, &line))
		return 0;
	if (line.mount.device != device || strncmp(line.mount.type, "fuse.", 5) != 0)
		device = 0;
	free(line.text);
	return device;
}

/* As an ordinary user, who needs help for it. */
static bool run_fusermount(const char *path)
{
	const char *const arguments[] = { "fusermount3", "-u", "-q", "-z", "--", path, NULL };
	pid_t child;
	int status = 0;

	if (posix_spawnp(&child, arguments[0], NULL, NULL, (char *const *)arguments, environ) != 0)
		return false;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Takes away one mount of the file system that can be reached. False: there is none. */
static bool unmount_one(dev_t device)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	bool unmounted = false;
	char *text = NULL;
	size_t size = 0;

	while (!unmounted && mounts && getline(&text, &size, mounts) > 0) {
		struct tdl__mount mount;

		/* What lies over it is not ours to take away. */
		if (tdl__mountinfo_read(text, &mount) && mount.device == device &&
		    tdfs_place_shows(mount.at, device))
			unmounted = umount2(mount.at, MNT_DETACH | UMOUNT_NOFOLLOW) == 0 ||
				    run_fusermount(mount.at);
	}
	free(text);
	if (mounts)
		fclose(mounts);
	return unmounted;
}

void tdfs_place_unmount(dev_t device)
{
	while (unmount_one(device))
		;
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
