/* SPDX-License-Identifier: MIT */
#ifndef TDFS_HOLDERS_H
#define TDFS_HOLDERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What /proc tells about the processes that have a file open for writing.
 *
 * A holder is a process with a descriptor whose fdinfo says `ino:` = the file and whose `flags:`
 * can write. Inode numbers of staged files are random and never used twice, so the number alone
 * is proof, in whatever mount namespace and through whatever bind mount it was opened.
 *
 * THE DEADLOCK. A process in execve() holds its exec_update_lock while it closes its O_CLOEXEC
 * descriptors, and waits for our answer to that close. /proc/PID/stat, fd/ and wchan want the
 * same lock: who reads them, waits for itself, and every `ps` on the machine behind it. So only
 * `status`, `fdinfo/` and `task/N/children` are read of a process that lives. A process without a
 * `VmSize:` line has given up its memory: it is exiting, cannot be in execve, and only of such a
 * one `stat` is read, for the signal that killed it.
 *
 * All functions here may block in the kernel: call them from a thread that can be given up.
 */

/* A thread group, by a descriptor of its folder in /proc: when the process is gone and its number
 * goes to another one, the folder stays that of the dead. Counted. */
struct tdfs_process;

/* The process that the thread `tid` belongs to; NULL where there is none to be seen. */
struct tdfs_process *tdfs_process_find(pid_t tid);
struct tdfs_process *tdfs_process_ref(struct tdfs_process *process);
void tdfs_process_unref(struct tdfs_process *process);
pid_t tdfs_process_id(const struct tdfs_process *process);

/* A process that opened the file, wrote to it or closed it. */
struct tdfs_suspect {
	pid_t tid;		      /* a thread of it */
	struct tdfs_process *process; /* owned; NULL: not found out yet; then look() fills it */
	bool clean; /* it left nothing behind when it closed the file, see below */
	bool ended; /* out: it is no more, or about to be */
};

#define TDFS_KILLED_MAX 8

struct tdfs_killed {
	pid_t process;
	int signal;
	char name[32]; /* of the program; printable */
};

/* One look at who holds a file. */
struct tdfs_look {
	uint64_t ino;  /* 0: look at the closer and the suspects, not for holders */
	pid_t closer;  /* the thread that closes; 0: it cannot be seen; -1: nobody closes */
	pid_t besides; /* a thread whose process does not count; 0: none */
	bool everyone; /* a process that held it has ended before: its children may be anywhere */
	size_t count;
	struct tdfs_suspect *suspects;

	atomic_uint steps; /* grows while it gets on; for whoever waits */

	/* What was seen. */
	pid_t closing; /* the closer's process; 0: unknown */
	pid_t aside;   /* that of `besides`; 0: unknown */
	bool aside_holds;
	bool held;	/* someone has it open for writing */
	bool till_exec; /* but every such descriptor is close-on-exec, in other processes */
	bool clean;	/* neither the closer nor a descendant has it: when the closer ends, nothing
			 * of it is left that would have to be looked for among everyone */
	bool blind;	/* something could not be seen */
	size_t n_killed;
	struct tdfs_killed killed[TDFS_KILLED_MAX]; /* exiting right now, because of a signal */
};

void tdfs_look(struct tdfs_look *look);
/* Whether /proc is there and counts processes as this one does: not that of another namespace. */
bool tdfs_proc_is_ours(void);
/* Frees the suspects' references and the array; not *look itself. */
void tdfs_look_clear(struct tdfs_look *look);

#endif
