/* SPDX-License-Identifier: MIT */
#ifndef TDFS_INCOMING_H
#define TDFS_INCOMING_H

/*
 * incoming/: a file that is dropped there becomes the next version.
 *
 * THE CONTRACT
 *
 * Close. The close of the last writable descriptor of a file with an ordinary name commits its
 * rows, all or none. When that close returns 0 the commit is complete and durable, and the next
 * open of latest/ sees it. A close while somebody else still has the file open for writing, by
 * dup, fork or exec, in whatever process, returns 0 and commits nothing: (a; b) > f is one commit.
 *
 * What cannot be seen is not an acknowledgement. Where a process may still have the file and nobody
 * can tell, or there is nothing left to look with, the close is refused with EAGAIN. Of writers
 * into whom the daemon may not look, the one that opened the file is taken for the last; the close
 * of any other returns 0, as if somebody else had it, and a later close or the last release
 * commits.
 *
 * Refused. When rows are bad, or the disk is full, close fails (EINVAL, ENOSPC, EDQUOT, EAGAIN,
 * EIO), the table is as it was, and the file stays in incoming/ with NAME.error beside it, which
 * says why in one line. Rewriting the file, renaming it, or renaming something onto it tries
 * again; rm drops both, and for five seconds its user may remove NAME.error by its name, as
 * "rm incoming/NAME*" does, whose thread still sees it. So does a close after truncate(), which no
 * close follows by itself. The close of a descriptor through which nothing was changed since the
 * refusal says 0; the writer's own, and its duplicates', repeats the answer. Programs that hide a
 * failed close (echo > f) leave the reason there too. NAME.error can be read and removed, not
 * written; no staged file may have a name that ends in .error.
 *
 * Killed. When a process that opened the file for writing or wrote to it dies of a signal while it
 * has it open, the rows may be half of what was meant: nothing is committed, also not by another
 * process that has the file and ends well, until the file is truncated to 0, rewritten from its
 * beginning by someone who opens it anew, or renamed. A process that merely inherited the
 * descriptor may be killed. What cannot be known: a writer that ends normally half-way.
 *
 * Temporary names: .x, x~, x.tmp, x.bak and others (names.c). Their close neither commits nor
 * fails. Renaming one to an ordinary name commits, before rename returns and with its errno; a
 * refusal leaves the old name, with OLD.error, and what the new name named. The rename of a file
 * that is still open for writing does not commit; its last close does, under the new name. A
 * refused file that is renamed to a temporary name is only renamed, and its NAME.error with it.
 * What a rename would have to do is done in the background when the last handle is released.
 *
 * Empty. A file without rows commits nothing and is not an error; it stays until written or
 * removed.
 *
 * Committed. A name is unlisted at once. For five seconds the processes that wrote it still find
 * it, with its true size, and may stat, chmod, touch, read, rename or remove it (install, rsync
 * and copy2 do); none of that changes the version. Anybody who creates the name, or opens it for
 * writing, starts a fresh staged file; opened by its writer and closed with nothing done, it leaves
 * none. A committed file is never written again: bytes that come through a descriptor that was not
 * seen to be open (it was passed over a socket) go to a fresh file behind those committed, and form
 * a later commit; below them EPERM.
 *
 * Two writers. O_TRUNC on a file that another process has open for writing is EBUSY. Without
 * O_TRUNC they share the file, which is committed at the last close. Unlink while open: cancelled.
 * After a failed write the file has a hole: it is given up, and its close fails.
 *
 * Crash. What was in incoming/ is there again after a crash or a remount, with its owner, group and
 * mode, and never committed by itself: what was refused says
 * why once more, whatever else there is is marked incomplete. Only times are lost.
 *
 * HOW
 *
 * Everything here is free of FUSE and of /proc: who holds a file, the commit, the disk and the
 * time come from a backend, so that tests can play all of them. One lock guards the names and the
 * states; it is never held across a call of the backend that can wait. The functions may be called
 * from any thread. They return 0 or an errno; where a function would have to wait (for a look into
 * /proc, for a commit) and the caller may not, TDFS_LATER, with nothing done: it is called again,
 * with may_wait set, from a thread that may. Requests of the kernel come on threads that may not.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proc/scan.h"
#include "tinydelta.h"

#define TDFS_LATER (-1)

struct tdfs;
struct tdfs_incoming;
struct tdfs_handle;

/* ---- For the daemon ----------------------------------------------------------------------- */

/* Opens the staging folder. Starts no threads: may be called before the fork into the background.
 */
int tdfs_incoming_new(struct tdfs *tdfs, struct tdfs_incoming **incoming, tdl_error *error);
/* In the process that serves: starts the threads and takes over what dead daemons left. */
void tdfs_incoming_start(struct tdfs_incoming *incoming);
/* The mount is about to end, but requests may still come: nothing can be opened for writing any
 * more, commits that run finish, what is complete is committed, and what is not is said. */
void tdfs_incoming_stop(struct tdfs_incoming *incoming);
/* After the last request: the same, if it was not done yet, and the threads end. */
void tdfs_incoming_end(struct tdfs_incoming *incoming);
void tdfs_incoming_free(struct tdfs_incoming *incoming);
/* A listing begins. */
void tdfs_incoming_listed(struct tdfs_incoming *incoming);

/* What waits has threads of its own by what it is. */
enum tdfs_queue {
	TDFS_QUEUE_WAITS,
	TDFS_QUEUE_CLOSES, /* they commit */
	TDFS_QUEUE_RENAMES /* they may, with the folder locked: one at a time, and everybody waits
			    */
};

/* Has run(argument) called from a thread that may wait, for a user; those that commit have threads
 * of their own. False: not possible. */
/* Has run(argument) called from a thread that may wait, for a user. False: not possible. */
bool tdfs_incoming_later(struct tdfs_incoming *incoming, uid_t uid, enum tdfs_queue queue,
			 void (*run)(void *), void *argument);

/* ---- The backend -------------------------------------------------------------------------- */

/* Of what all users share, one may have so much; 0: any. */
struct tdfs_limits {
	unsigned files; /* that are not committed */
	unsigned opens; /* at a time */
	size_t clients; /* processes that are remembered with these files */
	uid_t exempt;	/* but for this user */
};

#define TDFS_NOBODY ((uid_t)-1)

struct tdfs_backend {
	void *context;
	const struct tdfs_limits *limits; /* NULL: there are none */
	int64_t (*now)(void *context);	  /* ms, steady */
	/* The staged file on disk. create() returns an errno and fills *file and *fd. */
	int (*create)(void *context, const char *name, void **file, int *fd);
	int (*rename)(void *context, void *file, const char *name);
	void (*remove)(void *context, void *file); /* from the disk */
	/* As tdl_staged_detach() and tdl_staged_open(): what waits costs no descriptor. NULL: it
	 * may. open() returns an errno. */
	int (*detach)(void *context, void *file);
	int (*open)(void *context, void *file, int *fd);
	/* What tdfs_incoming_recover() will be told by the next daemon. */
	void (*own)(void *context, void *file, uid_t uid, gid_t gid, mode_t mode);
	void (*reason)(void *context, void *file, const char *reason);
	void (*free)(void *context, void *file);
	/* The file's bytes have changed: as tdl_staged_begin(), tdl_staged_written() and
	 * tdl_staged_cut(). NULL: nobody wants to know. */
	uint64_t (*generation)(void *context, void *file);
	void (*written)(void *context, void *file, uint64_t generation, const void *bytes,
			size_t size, uint64_t at);
	void (*cut)(void *context, void *file, uint64_t size);
	/* As tdl_staged_commit(); `uid` is the writer's. `renames`: the folder is locked meanwhile,
	 * and others' commits are not waited for. */
	int (*commit)(void *context, void *file, const char *source, uid_t uid, bool renames,
		      tdl_error *error);
	/* Has run(argument) called when there is time. False: it will not be. NULL: there is none.
	 */
	bool (*background)(void *context, uid_t uid, void (*run)(void *), void *argument);
	/* As tdl_staged_prepare(). */
	void (*prepare)(void *context, void *file);
	/* tdfs_look(), for a file of this user's, for as long as it gets on. False: it was given
	 * up, and *scan is no more the caller's; the next one may end, since whom it stood still at
	 * is known now. */
	bool (*scan)(void *context, uid_t uid, struct tdfs_scan *scan);
	/* tdfs_moment(); NULL: not to be had. Never waits. */
	struct tdfs_moment (*moment)(void *context);
	/* Asks that tdfs_incoming_found() be called soon, from elsewhere. */
	void (*find)(void *context, uint64_t ino, uid_t uid, pid_t tid);
	void (*wait)(void *context, unsigned ms); /* sleeps */
	/* There is something that tdfs_incoming_expire() is for. */
	void (*needs_expiry)(void *context);
	/* One line for the log, because of something that this user did, or TDFS_NOBODY. */
	void (*log)(void *context, uid_t uid, const char *name, const char *text);
	int (*to_errno)(const tdl_error *error);
};

/* With inode numbers from `first` on. Returns NULL when out of memory. */
struct tdfs_incoming *tdfs_incoming_make(const struct tdfs_backend *backend, uint64_t first);
void tdfs_incoming_unmake(struct tdfs_incoming *incoming);

/* The process that the thread `tid`, which opened or wrote file `ino`, belongs to. Takes over the
 * reference; NULL: it is gone. */
void tdfs_incoming_found(struct tdfs_incoming *incoming, uint64_t ino, pid_t tid,
			 struct tdfs_process *process);
/* A file that a dead daemon left. Where there is no reason that backend.reason was told, it is
 * incomplete. Takes over `file`. */
void tdfs_incoming_recover(struct tdfs_incoming *incoming, void *file, int fd,
			   const tdl_left *left);
/* Ends what outlived its time. True: it is to be called again, within a second or so. */
bool tdfs_incoming_expire(struct tdfs_incoming *incoming);
/* Once it is closed: waits for commits, commits what nobody holds, says what is left. */
void tdfs_incoming_commit_remaining(struct tdfs_incoming *incoming);
/* From now on nothing that waits starts to commit, and nothing is opened for writing (EROFS). */
void tdfs_incoming_close(struct tdfs_incoming *incoming);

/* ---- Requests ----------------------------------------------------------------------------- */

struct tdfs_caller {
	pid_t tid; /* 0: in a namespace that cannot be seen */
	uid_t uid;
	gid_t gid;
	uint64_t owner; /* of a WRITE or FLUSH: whose table of descriptors; 0: not known */
	bool may_wait;
};

/* Those that fill *st for the kernel to remember count one lookup, which forget() takes back. */
int tdfs_incoming_lookup(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			 const char *name, struct stat *st);
int tdfs_incoming_again(struct tdfs_incoming *incoming, uint64_t ino, struct stat *st);
void tdfs_incoming_forget(struct tdfs_incoming *incoming, uint64_t ino, uint64_t count);

/* Makes and opens (mknod where `handle` is NULL). An existing file is opened, or EEXIST. */
int tdfs_incoming_create(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			 const char *name, mode_t mode, int flags, struct stat *st,
			 struct tdfs_handle **handle);
int tdfs_incoming_open(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
		       uint64_t ino, int flags, struct tdfs_handle **handle);
/* RELEASE. 0: *handle is gone. */
int tdfs_incoming_release(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			  struct tdfs_handle *handle);
bool tdfs_handle_writes(const struct tdfs_handle *handle);

int tdfs_incoming_read(struct tdfs_incoming *incoming, struct tdfs_handle *handle, void *buffer,
		       size_t size, uint64_t offset, size_t *got);
/* `flags` are the descriptor's at this moment: O_APPEND comes and goes by fcntl(). */
int tdfs_incoming_write(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			struct tdfs_handle *handle, int flags, const void *buffer, size_t size,
			uint64_t offset, size_t *done);
/*
 * The same in two halves: after the first, `done` bytes are written and the writer can be answered
 * (unless it failed); the second, which must follow whatever the first returned, has their rows
 * validated, which takes about as long again. The handle may be gone by then. Whoever cuts the file
 * waits for both.
 */
struct tdfs_written {
	struct tdfs_staged *staged; /* NULL: nothing was begun */
	size_t done;
	uint64_t at; /* in the staged file */
	uint64_t generation;
};
int tdfs_incoming_write_begin(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			      struct tdfs_handle *handle, int flags, const void *buffer,
			      size_t size, uint64_t offset, struct tdfs_written *written);
void tdfs_incoming_write_end(struct tdfs_incoming *incoming, const void *buffer,
			     const struct tdfs_written *written);
/* To the disk, without committing. */
int tdfs_incoming_sync(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
		       struct tdfs_handle *handle);
/* FLUSH: one descriptor is being closed. flush_begin() never waits: it returns the answer; or,
 * after TDFS_LATER, flush() is called, exactly once, from a thread that may wait. */
int tdfs_incoming_flush_begin(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			      struct tdfs_handle *handle);
int tdfs_incoming_flush(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			struct tdfs_handle *handle);
/* What flush() returned did not reach whoever closes: says so where it was a commit. */
void tdfs_incoming_untold(struct tdfs_incoming *incoming, struct tdfs_handle *handle);

/* `caller`: NULL where it is nobody in particular. */
int tdfs_incoming_getattr(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			  uint64_t ino, struct stat *st);

enum {
	TDFS_SET_MODE = 1,
	TDFS_SET_UID = 2,
	TDFS_SET_GID = 4,
	TDFS_SET_SIZE = 8,
	TDFS_SET_ATIME = 16,
	TDFS_SET_MTIME = 32,
	TDFS_SET_ATIME_NOW = 64,
	TDFS_SET_MTIME_NOW = 128,
};

/* `change` holds what `what` names; *st gets the outcome. */
int tdfs_incoming_setattr(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			  uint64_t ino, const struct stat *change, unsigned what, struct stat *st);

int tdfs_incoming_rename(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			 const char *from, const char *to, unsigned flags);
int tdfs_incoming_unlink(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			 const char *name);

/* The first listed name behind `offset`, which is moved behind it: 1, with its inode number and a
 * copy in `name` (256 bytes); 0: no more. Offsets are from 1 on, and stable. */
int tdfs_incoming_list(struct tdfs_incoming *incoming, uint64_t *offset, char *name, uint64_t *ino);
/* Programs that copy a folder (rsync -a, cp -a) give the target its mode and owner too, some before
 * its files: they have set its times just before, or opened it and listed nothing (`copies`; what
 * else is done to it ends that), or else their user has dropped a file in the last seconds. */
void tdfs_incoming_copying(struct tdfs_incoming *incoming, const struct tdfs_caller *caller,
			   bool copies);
bool tdfs_incoming_copies(struct tdfs_incoming *incoming, const struct tdfs_caller *caller);
/* When the listing last changed. */
struct timespec tdfs_incoming_changed(struct tdfs_incoming *incoming);

#endif
