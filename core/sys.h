/* SPDX-License-Identifier: MIT */
#ifndef TDL_SYS_H
#define TDL_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * The only system calls that core/ makes on a table. Unlike the rest of the library they return 0
 * or the errno, since what it means is for the caller to say. All of them go on after EINTR and
 * short counts; descriptors are close-on-exec.
 */

enum tdl__op {
	TDL__OP_OPEN,
	TDL__OP_READ,
	TDL__OP_WRITE,
	TDL__OP_FSYNC,
	TDL__OP_LINK,
	TDL__OP_RENAME,
	TDL__OP_UNLINK,
	TDL__OP_MKDIR,
	TDL__OP_STAT,
	TDL__OP_LIST,
	TDL__OP_LOCK,
	TDL__OP_ATTR,
	TDL__OP_COUNT
};

/*
 * For tests: called before each system call, with the name it concerns ("" for descriptors). 0
 * lets it happen; a positive errno makes it fail without being made; TDL__SYS_SHORT makes a read
 * or write move one byte. NULL in production.
 */
#define TDL__SYS_SHORT (-1)
extern int (*tdl__sys_hook)(enum tdl__op op, const char *name);

/*
 * For tests too: told of each call that changed something, after it did. TDL__OP_OPEN, of a file
 * that may be new, WRITE and FSYNC give the descriptor as `fd`; MKDIR, UNLINK, LINK and RENAME that
 * of the directory that `name` is in, and OPEN as `to_dir`; LINK and RENAME give the new name as
 * `to` in `to_dir`. NULL in production.
 */
extern void (*tdl__sys_done)(enum tdl__op op, int fd, const char *name, int to_dir, const char *to);

int tdl__sys_open(int dir, const char *name, int flags, mode_t mode, int *fd);
/* Opens a regular file for reading beneath dir, no symbolic link followed, never waiting for a
 * FIFO. ELOOP or EXDEV: unsafe; EISDIR, ENXIO and the like come as they are; *st is its fstat. */
int tdl__sys_open_beneath(int dir, const char *path, int *fd, struct stat *st);
/* Opens a file without a name, to be written and read, in the folder for temporary files: TMPDIR,
 * or /tmp. *folder gets its name; borrowed. */
int tdl__sys_temporary(int *fd, const char **folder);
int tdl__sys_read(int fd, void *buffer, size_t n, size_t *got);
int tdl__sys_pread(int fd, void *buffer, size_t n, uint64_t offset, size_t *got);
int tdl__sys_write(int fd, const void *bytes, size_t n);
/* Makes n bytes (0: none) all that is in a small file, in place. */
int tdl__sys_put(int fd, const void *bytes, size_t n);
/* The first n bytes of one file to the start of another, in the kernel where it can. ENODATA: it
 * was shorter. Writes at and leaves the position behind them. */
int tdl__sys_copy(int from, int to, uint64_t n);
int tdl__sys_fsync(int fd);
/* The same for a directory, where "not supported" is not a failure. */
int tdl__sys_fsync_dir(int fd);
int tdl__sys_link(int from_dir, const char *from, int to_dir, const char *to);
int tdl__sys_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace);
int tdl__sys_unlink(int dir, const char *name);
int tdl__sys_rmdir(int dir, const char *name);
int tdl__sys_mkdir(int dir, const char *name, mode_t mode);
/* Of the name itself, no symbolic link followed. */
int tdl__sys_stat(int dir, const char *name, struct stat *st);
int tdl__sys_fstat(int fd, struct stat *st);
/* Whether a file of `size` bytes has a hole, where that can be told. */
bool tdl__sys_has_hole(int fd, uint64_t size);
/* Whether two are of one file. */
bool tdl__same_file(const struct stat *a, const struct stat *b);
/*
 * Gives the calling thread a table of descriptors of its own, with nothing in it but a directory,
 * and returns that one's new number: threads that open files by the million in one table hold each
 * other up. -1 where it cannot be had, and nothing has changed; or, rarely, all is closed.
 */
int tdl__sys_own_descriptors(int dir);
/* 0 where the process may read what has this name. */
int tdl__sys_readable(int dir, const char *name);
/* 0 where the process may write to what dir is. */
int tdl__sys_writable(int dir);
int tdl__sys_chmod(int fd, mode_t mode);
int tdl__sys_chown(int fd, uid_t uid, gid_t gid);
/* Sets the time of the last change, ms since 1970. */
int tdl__sys_set_mtime(int fd, int64_t ms);
/* flock(2). */
int tdl__sys_lock(int fd, int operation);
/* Calls each(context, name) for every name in dir but "." and "..", until it returns false. */
int tdl__sys_list(int dir, bool (*each)(void *context, const char *name), void *context);

#endif
