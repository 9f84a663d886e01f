/* SPDX-License-Identifier: MIT */
/*
 * A file system for tests that shows another directory as it is but lacks hard links (not with
 * `links`), and where asked renameat2() flags too, takes its time to make files durable, or has a
 * quota: so many bytes may be in use on the file system of that directory, which nobody else should
 * fill. It serves only whom it is mounted by, so it changes nobody's identity; it knows nothing of
 * tables.
 *
 * Two of them over one directory are two clients of a shared file system: flock() on a file is
 * passed on (not with `locallocks`), so that each sees the other's; on a directory the kernel keeps
 * it to itself.
 *
 *     nolink DIRECTORY MOUNTPOINT [-o links] [-o noflags] [-o locallocks]
 *            [-o delay=MILLISECONDS] [-o quota=BYTES]
 */
#define FUSE_USE_VERSION 314

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static int root = -1;

static struct options {
	char *directory, *point;
	int no_flags, links, local_locks;
	int delay;
	unsigned long quota;
} options;

/* Paths come with a leading slash; the root is the directory itself. */
static const char *below(const char *path)
{
	return path[1] == '\0' ? "." : path + 1;
}

static int answer(int result)
{
	return result < 0 ? -errno : 0;
}

static void take_time(void)
{
	const struct timespec time = { options.delay / 1000, options.delay % 1000 * 1000000L };

	if (options.delay > 0)
		nanosleep(&time, NULL);
}

static void *start(struct fuse_conn_info *conn, struct fuse_config *config)
{
	config->use_ino = 1;
	config->hard_remove = 1;
	config->nullpath_ok = 1;
	config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
	return NULL;
}

static int get_attributes(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	if (fi)
		return answer(fstat((int)fi->fh, st));
	return answer(fstatat(root, below(path), st, AT_SYMLINK_NOFOLLOW));
}

static int change_mode(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	if (fi)
		return answer(fchmod((int)fi->fh, mode));
	return answer(fchmodat(root, below(path), mode, 0));
}

static int change_owner(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	if (fi)
		return answer(fchown((int)fi->fh, uid, gid));
	return answer(fchownat(root, below(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int set_times(const char *path, const struct timespec times[2], struct fuse_file_info *fi)
{
	if (fi)
		return answer(futimens((int)fi->fh, times));
	return answer(utimensat(root, below(path), times, AT_SYMLINK_NOFOLLOW));
}

static int cut(const char *path, off_t size, struct fuse_file_info *fi)
{
	int fd, result;

	if (fi)
		return answer(ftruncate((int)fi->fh, size));
	fd = openat(root, below(path), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	result = answer(ftruncate(fd, size));
	close(fd);
	return result;
}

static int open_at(const char *path, int flags, mode_t mode, struct fuse_file_info *fi)
{
	int fd = openat(root, below(path), flags | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd < 0)
		return -errno;
	fi->fh = (uint64_t)fd;
	return 0;
}

static int open_file(const char *path, struct fuse_file_info *fi)
{
	return open_at(path, fi->flags, 0, fi);
}

static int create_file(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	return open_at(path, fi->flags, mode, fi);
}

static int close_file(const char *path, struct fuse_file_info *fi)
{
	return answer(close((int)fi->fh));
}

static int read_file(const char *path, char *bytes, size_t count, off_t at,
		     struct fuse_file_info *fi)
{
	ssize_t done = pread((int)fi->fh, bytes, count, at);

	return done < 0 ? -errno : (int)done;
}

/* Bytes that the quota still leaves. */
static size_t left(void)
{
	struct statvfs st;
	uint64_t used;

	if (options.quota == 0)
		return SIZE_MAX;
	if (fstatvfs(root, &st) != 0)
		return 0;
	used = (uint64_t)(st.f_blocks - st.f_bfree) * st.f_frsize;
	return used < options.quota ? options.quota - used : 0;
}

static int write_file(const char *path, const char *bytes, size_t count, off_t at,
		      struct fuse_file_info *fi)
{
	size_t room = left();
	ssize_t done;

	if (room == 0)
		return -EDQUOT;
	done = pwrite((int)fi->fh, bytes, count < room ? count : room, at);
	return done < 0 ? -errno : (int)done;
}

static int sync_file(const char *path, int data_only, struct fuse_file_info *fi)
{
	take_time();
	return answer(data_only ? fdatasync((int)fi->fh) : fsync((int)fi->fh));
}

/* At once: the kernel lets nobody look up a name in a directory that is being synced. */
static int sync_directory(const char *path, int data_only, struct fuse_file_info *fi)
{
	return answer(data_only ? fdatasync((int)fi->fh) : fsync((int)fi->fh));
}

static int open_directory(const char *path, struct fuse_file_info *fi)
{
	return open_at(path, O_RDONLY | O_DIRECTORY, 0, fi);
}

static int list(const char *path, void *buffer, fuse_fill_dir_t fill, off_t at,
		struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	/* A stream of its own for each listing, from the beginning: libfuse keeps the whole. */
	int fd = openat((int)fi->fh, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (!stream)
		return -errno;
	while ((entry = readdir(stream))) {
		struct stat st = { .st_ino = entry->d_ino };

		st.st_mode = (mode_t)entry->d_type << 12;
		fill(buffer, entry->d_name, &st, 0, 0);
	}
	closedir(stream);
	return 0;
}

static int may(const char *path, int mode)
{
	return answer(faccessat(root, below(path), mode, AT_EACCESS));
}

static int make_directory(const char *path, mode_t mode)
{
	return answer(mkdirat(root, below(path), mode));
}

static int remove_directory(const char *path)
{
	return answer(unlinkat(root, below(path), AT_REMOVEDIR));
}

static int remove_file(const char *path)
{
	return answer(unlinkat(root, below(path), 0));
}

static int add_link(const char *from, const char *to)
{
	return options.links ? answer(linkat(root, below(from), root, below(to), 0)) : -EPERM;
}

static int lock_file(const char *path, struct fuse_file_info *fi, int operation)
{
	return answer(flock((int)fi->fh, operation));
}

static int move(const char *from, const char *to, unsigned flags)
{
	if (flags != 0 && options.no_flags)
		return -EINVAL;
	return answer(renameat2(root, below(from), root, below(to), flags));
}

static int space(const char *path, struct statvfs *st)
{
	return answer(fstatvfs(root, st));
}

static struct fuse_operations operations = {
	.init = start,
	.getattr = get_attributes,
	.chmod = change_mode,
	.chown = change_owner,
	.utimens = set_times,
	.truncate = cut,
	.open = open_file,
	.create = create_file,
	.release = close_file,
	.read = read_file,
	.write = write_file,
	.fsync = sync_file,
	.opendir = open_directory,
	.readdir = list,
	.releasedir = close_file,
	.fsyncdir = sync_directory,
	.access = may,
	.mkdir = make_directory,
	.rmdir = remove_directory,
	.unlink = remove_file,
	.link = add_link,
	.rename = move,
	.statfs = space,
	.flock = lock_file,
};

/* The words that are not options are the directory and the mount point; the rest is libfuse's. */
static int each(void *data, const char *word, int key, struct fuse_args *args)
{
	char **place = !options.directory ? &options.directory : &options.point;

	if (key != FUSE_OPT_KEY_NONOPT || *place)
		return 1;
	*place = strdup(word);
	return *place ? 0 : -1;
}

/* Until it is unmounted or told to end. */
static int serve(struct fuse *fuse)
{
	struct fuse_session *session = fuse_get_session(fuse);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int status = fuse_set_signal_handlers(session);

	/* So many may take their time at once. */
	fuse_loop_cfg_set_max_threads(config, 64);
	if (status == 0 && (status = fuse_mount(fuse, options.point)) == 0) {
		status = fuse_loop_mt(fuse, config);
		fuse_unmount(fuse);
	}
	fuse_loop_cfg_destroy(config);
	fuse_remove_signal_handlers(session);
	return status;
}

int main(int argc, char **argv)
{
	static const struct fuse_opt known[] = {
		{ "noflags", offsetof(struct options, no_flags), 1 },
		{ "links", offsetof(struct options, links), 1 },
		{ "locallocks", offsetof(struct options, local_locks), 1 },
		{ "delay=%d", offsetof(struct options, delay), 0 },
		{ "quota=%lu", offsetof(struct options, quota), 0 },
		FUSE_OPT_END,
	};
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fuse *fuse;
	int status = 1;

	if (fuse_opt_parse(&args, &options, known, each) < 0 || !options.point) {
		fprintf(stderr, "usage: nolink DIRECTORY MOUNTPOINT [-o OPTION]...\n");
		return 2;
	}
	root = open(options.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		perror(options.directory);
		return 1;
	}
	umask(0);
	if (options.local_locks)
		operations.flock = NULL;
	fuse = fuse_new(&args, &operations, sizeof operations, NULL);
	if (fuse) {
		status = serve(fuse) != 0;
		fuse_destroy(fuse);
	}
	fuse_opt_free_args(&args);
	free(options.directory);
	free(options.point);
	close(root);
	return status;
}
