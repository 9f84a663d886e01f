/* SPDX-License-Identifier: MIT */
/*
 * System calls on a table, one thin function each, with a hook for tests. Knows no names and no
 * formats, and decides nothing but what every caller would.
 */
#include "sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/util.h"

int (*tdl__sys_hook)(enum tdl__op op, const char *name);
void (*tdl__sys_done)(enum tdl__op op, int fd, const char *name, int to_dir, const char *to);

/* How long a lease is waited for: longer than its holder may keep it by default. */
#define LEASE_MS 50000

static int call_hook(enum tdl__op op, const char *name)
{
	int answer = tdl__sys_hook ? tdl__sys_hook(op, name) : 0;

	return answer > 0 ? answer : 0;
}

/* Tells of a call that worked, and says so. */
static int tell_hook(enum tdl__op op, int fd, const char *name, int to_dir, const char *to)
{
	if (tdl__sys_done)
		tdl__sys_done(op, fd, name, to_dir, to);
	return 0;
}

/* The count that a read or write may move, 0 with *why where it must fail. */
static size_t allowed(enum tdl__op op, size_t n, int *why)
{
	int answer = tdl__sys_hook ? tdl__sys_hook(op, "") : 0;
	/* Larger requests are cut by the kernel anyway. */
	const size_t most = (size_t)1 << 30;

	*why = answer > 0 ? answer : 0;
	if (answer > 0)
		return 0;
	if (answer == TDL__SYS_SHORT)
		return 1;
	return n < most ? n : most;
}

/*
 * Whether to open once more. EAGAIN from an open that does not wait: somebody has a lease of the
 * file (Samba takes them), is being told, and has to give it up within 45 seconds, or what
 * fs.lease-break-time says; or a directory above it was just moved.
 */
static bool must_open_again(unsigned *tries)
{
	const struct timespec pause = { .tv_nsec = *tries < 20 ? 1000000 : 50000000 };

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN || ++*tries > 20 + LEASE_MS / 50)
		return false;
	nanosleep(&pause, NULL);
	errno = EAGAIN;
	return true;
}

int tdl__sys_open(int dir, const char *name, int flags, mode_t mode, int *fd)
{
	int err = call_hook(TDL__OP_OPEN, name), got;
	unsigned tries = 0;

	if (err == EINTR)
		err = 0;
	if (err != 0)
		return err;
	do {
		got = openat(dir, name, flags | O_CLOEXEC, mode);
	} while (got < 0 && must_open_again(&tries));
	if (got < 0)
		return errno;
	*fd = got;
	return (flags & O_CREAT) != 0 ? tell_hook(TDL__OP_OPEN, got, name, dir, NULL) : 0;
}

int tdl__sys_temporary(int *fd, const char **folder)
{
	const char *where = secure_getenv("TMPDIR");
	char *path CLEANUP(tdl__free_at) = NULL;
	int err, got;

	*folder = where && *where != '\0' ? where : "/tmp";
	err = call_hook(TDL__OP_OPEN, *folder);
	if (err != 0)
		return err;
	got = open(*folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	/* Not every file system has files without a name. */
	if (got < 0 && asprintf(&path, "%s/tinydelta-XXXXXX", *folder) >= 0) {
		got = mkostemp(path, O_CLOEXEC);
		if (got >= 0)
			unlink(path);
	}
	if (got < 0)
		return errno;
	*fd = got;
	return 0;
}

/* openat2() is of Linux 5.6, and some sandboxes refuse it: one component after the other does the
 * same, since no component is ".." and none may be a link. */
static int open_by_component(int dir, const char *path, int flags)
{
	int at CLEANUP(tdl__close_at) = -1;
	char name[256];

	for (;;) {
		const char *slash = strchrnul(path, '/');
		size_t n = (size_t)(slash - path);
		int fd;

		if (n >= sizeof name) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(name, path, n);
		name[n] = '\0';
		if (*slash == '\0')
			return openat(at >= 0 ? at : dir, name, flags);
		fd = openat(at >= 0 ? at : dir, name,
			    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -1;
		if (at >= 0)
			close(at);
		at = fd;
		path = slash + 1;
	}
}

int tdl__sys_open_beneath(int dir, const char *path, int *fd, struct stat *st)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct open_how how = {
		.flags = (uint64_t)flags,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int got CLEANUP(tdl__close_at) = -1;
	int err = call_hook(TDL__OP_OPEN, path);
	unsigned tries = 0;

	if (err == EINTR)
		err = 0;
	if (err != 0)
		return err;
	do {
		got = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
		if (got < 0 && (errno == ENOSYS || errno == EPERM))
			got = open_by_component(dir, path, flags);
	} while (got < 0 && must_open_again(&tries));
	if (got < 0)
		return errno;
	if (fstat(got, st) < 0)
		return errno;
	*fd = tdl__steal_fd(&got);
	return 0;
}

/* Moves all n bytes, or to the end of what is read: from or to the position, or reads at `at`. */
static int move(enum tdl__op op, int fd, char *buffer, size_t n, const uint64_t *at, size_t *done)
{
	*done = 0;
	while (*done < n) {
		int err;
		size_t most = allowed(op, n - *done, &err);
		ssize_t moved;

		if (err == EINTR)
			continue;
		if (err != 0)
			return err;
		if (op == TDL__OP_WRITE)
			moved = write(fd, buffer + *done, most);
		else if (at)
			moved = pread(fd, buffer + *done, most, (off_t)(*at + *done));
		else
			moved = read(fd, buffer + *done, most);
		if (moved < 0 && errno == EINTR)
			continue;
		if (moved < 0)
			return errno;
		if (moved == 0 && op == TDL__OP_READ)
			break;
		*done += (size_t)moved;
	}
	return 0;
}

int tdl__sys_read(int fd, void *buffer, size_t n, size_t *got)
{
	size_t done;
	int err = move(TDL__OP_READ, fd, buffer, n, NULL, &done);

	if (err == 0)
		*got = done;
	return err;
}

int tdl__sys_pread(int fd, void *buffer, size_t n, uint64_t offset, size_t *got)
{
	size_t done;
	int err = move(TDL__OP_READ, fd, buffer, n, &offset, &done);

	if (err == 0)
		*got = done;
	return err;
}

int tdl__sys_write(int fd, const void *bytes, size_t n)
{
	size_t done;
	int err = move(TDL__OP_WRITE, fd, (char *)(uintptr_t)bytes, n, NULL, &done);

	if (err != 0)
		return err;
	return tell_hook(TDL__OP_WRITE, fd, "", -1, NULL);
}

int tdl__sys_put(int fd, const void *bytes, size_t n)
{
	int err = call_hook(TDL__OP_WRITE, "");

	if (err != 0)
		return err;
	if ((n > 0 && pwrite(fd, bytes, n, 0) != (ssize_t)n) || ftruncate(fd, (off_t)n) < 0)
		return errno != 0 ? errno : EIO;
	return tell_hook(TDL__OP_WRITE, fd, "", -1, NULL);
}

int tdl__sys_copy(int from, int to, uint64_t n)
{
	char *buffer CLEANUP(tdl__free_at) = NULL;
	const size_t piece = (size_t)1 << 20;
	off_t at = 0;

	while ((uint64_t)at < n) {
		uint64_t left = n - (uint64_t)at;
		size_t most = left < piece * 64 ? (size_t)left : piece * 64, got;
		ssize_t moved = -1;
		int err = call_hook(TDL__OP_WRITE, "");

		if (err != 0 && err != EINTR)
			return err;
		if (!buffer)
			moved = copy_file_range(from, &at, to, NULL, most, 0);
		if (moved > 0) {
			tell_hook(TDL__OP_WRITE, to, "", -1, NULL);
			continue;
		}
		/* Whatever it disliked, plain reads and writes tell what is really wrong. */
		if (!buffer && !(buffer = malloc(piece)))
			return ENOMEM;
		err = tdl__sys_pread(from, buffer, most < piece ? most : piece, (uint64_t)at, &got);
		if (err == 0 && got == 0)
			err = ENODATA;
		if (err == 0)
			err = tdl__sys_write(to, buffer, got);
		if (err != 0)
			return err;
		at += (off_t)got;
	}
	return 0;
}

int tdl__sys_fsync(int fd)
{
	int err = call_hook(TDL__OP_FSYNC, "");

	/* Not repeated after any error but EINTR: the kernel forgets what it could not write. */
	while (err == EINTR)
		err = call_hook(TDL__OP_FSYNC, "");
	if (err != 0)
		return err;
	while (fsync(fd) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return tell_hook(TDL__OP_FSYNC, fd, "", -1, NULL);
}

int tdl__sys_fsync_dir(int fd)
{
	int err = tdl__sys_fsync(fd);

	return err == EINVAL || err == ENOTSUP || err == EBADF || err == ENOSYS ? 0 : err;
}

int tdl__sys_link(int from_dir, const char *from, int to_dir, const char *to)
{
	int err = call_hook(TDL__OP_LINK, to);

	if (err != 0)
		return err;
	return linkat(from_dir, from, to_dir, to, 0) < 0
		       ? errno
		       : tell_hook(TDL__OP_LINK, from_dir, from, to_dir, to);
}

int tdl__sys_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace)
{
	int err = call_hook(TDL__OP_RENAME, to);

	if (err != 0)
		return err;
	return renameat2(from_dir, from, to_dir, to, replace ? 0 : RENAME_NOREPLACE) < 0
		       ? errno
		       : tell_hook(TDL__OP_RENAME, from_dir, from, to_dir, to);
}

int tdl__sys_unlink(int dir, const char *name)
{
	int err = call_hook(TDL__OP_UNLINK, name);

	if (err != 0)
		return err;
	return unlinkat(dir, name, 0) < 0 ? errno : tell_hook(TDL__OP_UNLINK, dir, name, -1, NULL);
}

int tdl__sys_rmdir(int dir, const char *name)
{
	int err = call_hook(TDL__OP_UNLINK, name);

	if (err != 0)
		return err;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0
		       ? errno
		       : tell_hook(TDL__OP_UNLINK, dir, name, -1, NULL);
}

int tdl__sys_mkdir(int dir, const char *name, mode_t mode)
{
	int err = call_hook(TDL__OP_MKDIR, name);

	if (err != 0)
		return err;
	return mkdirat(dir, name, mode) < 0 ? errno : tell_hook(TDL__OP_MKDIR, dir, name, -1, NULL);
}

int tdl__sys_stat(int dir, const char *name, struct stat *st)
{
	int err = call_hook(TDL__OP_STAT, name);

	if (err != 0)
		return err;
	return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
}

bool tdl__sys_has_hole(int fd, uint64_t size)
{
	off_t hole = lseek(fd, 0, SEEK_HOLE);

	lseek(fd, 0, SEEK_SET);
	return hole >= 0 && (uint64_t)hole < size;
}

bool tdl__same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int tdl__sys_fstat(int fd, struct stat *st)
{
	int err = call_hook(TDL__OP_STAT, "");

	if (err != 0)
		return err;
	return fstat(fd, st) < 0 ? errno : 0;
}

/* ThreadSanitizer takes the same number in two tables for the same file. */
#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define ONE_TABLE
#endif
#elif defined __SANITIZE_THREAD__
#define ONE_TABLE
#endif

int tdl__sys_own_descriptors(int dir)
{
#ifdef ONE_TABLE
	return -1;
#else
	char path[32];
	struct stat st, there;

	/* What /proc/self shows is the table of the first thread. */
	snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
	if (fstat(dir, &st) != 0 || stat(path, &there) != 0 || !tdl__same_file(&st, &there) ||
	    close_range(0, ~0u, CLOSE_RANGE_UNSHARE) != 0)
		return -1;
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0 && (fstat(dir, &there) != 0 || !tdl__same_file(&st, &there))) {
		close(dir);
		dir = -1;
	}
	return dir;
#endif
}

int tdl__sys_readable(int dir, const char *name)
{
	int err = call_hook(TDL__OP_STAT, name);

	if (err != 0)
		return err;
	return faccessat(dir, name, R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
}

int tdl__sys_writable(int dir)
{
	int err = call_hook(TDL__OP_STAT, ".");

	if (err != 0)
		return err;
	return faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) < 0 ? errno : 0;
}

int tdl__sys_chmod(int fd, mode_t mode)
{
	int err = call_hook(TDL__OP_ATTR, "");

	if (err != 0)
		return err;
	return fchmod(fd, mode) < 0 ? errno : 0;
}

int tdl__sys_chown(int fd, uid_t uid, gid_t gid)
{
	int err = call_hook(TDL__OP_ATTR, "");

	if (err != 0)
		return err;
	return fchown(fd, uid, gid) < 0 ? errno : 0;
}

int tdl__sys_set_mtime(int fd, int64_t ms)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
				     { ms / 1000, ms % 1000 * 1000000 } };
	int err = call_hook(TDL__OP_ATTR, "");

	if (err != 0)
		return err;
	return futimens(fd, times) < 0 ? errno : 0;
}

int tdl__sys_lock(int fd, int operation)
{
	int err = call_hook(TDL__OP_LOCK, "");

	if (err == EINTR)
		err = 0;
	if (err != 0)
		return err;
	while (flock(fd, operation) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

int tdl__sys_list(int dir, bool (*each)(void *context, const char *name), void *context)
{
	DIR *stream CLEANUP(close_dir) = NULL;
	int fd CLEANUP(tdl__close_at) = -1;
	int err = call_hook(TDL__OP_LIST, ".");

	if (err != 0)
		return err;
	/* A descriptor of its own: the position of the caller's is shared with everyone. */
	err = tdl__sys_open(dir, ".", O_RDONLY | O_DIRECTORY, 0, &fd);
	if (err != 0)
		return err;
	stream = fdopendir(fd);
	if (!stream)
		return errno;
	tdl__steal_fd(&fd);
	for (;;) {
		struct dirent *entry;

		errno = 0;
		entry = readdir(stream);
		if (!entry)
			return errno;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (!each(context, entry->d_name))
			return 0;
	}
}
