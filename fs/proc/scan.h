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
 * THE SWALLOWED. fdinfo of an epoll descriptor waits for that one's lock, which whoever adds a file
 * of a FUSE mount of his own to it holds for as long as he likes. A scan for holders (`ino` not 0)
 * may therefore never return: call it from a thread that can be given up, and when one is, tell
 * tdfs_scan_lost(): the process that swallowed it is not scanned again as long as it does. What is
 * asked of a single process, and who is being killed (`ino` 0), comes from `status`, `stat` and
 * lists of names, which nobody can hold up.
 *
 * WHO MAY HAVE IT. A process that cannot be scanned (no permission, or it swallows) may have the
 * file only where it may have inherited it: it opened, wrote or closed the file itself; or it began
 * after the file was first opened, and descends from one of those, or is of the same user where
 * one of those has ended. Everybody else can only have been given it over a socket, and an
 * unrelated process must not decide about other people's files. Began before: process 1; those that
 * were there when the daemon began (tdfs_scan_begin()), where the kernel tells processes apart;
 * numbers below 300, which are given once only; and else by its number, for those are given in a
 * circle, and the last one given then and now tells, as long as fewer were begun since than would
 * go round. How much time has passed says nothing.
 */

/* A thread group. Where the kernel tells processes apart that had the same number one after the
 * other (6.9), so does this. Counted. */
struct tdfs_process;

/* The process that the thread `tid` belongs to; NULL where there is none to be seen. */
struct tdfs_process *tdfs_process_find(pid_t tid);
struct tdfs_process *tdfs_process_ref(struct tdfs_process *process);
void tdfs_process_unref(struct tdfs_process *process);
pid_t tdfs_process_id(const struct tdfs_process *process);

/* When something was, by the number that the newest process had then. */
struct tdfs_moment {
	pid_t last;	/* 0: not known; then everybody may have begun later */
	int64_t time;	/* ms, steady */
	uint64_t begun; /* so many threads since the machine began, at least; 0: not known */
};

/* Opens what tdfs_moment() reads; -1 where there is none. */
int tdfs_moment_open(void);
struct tdfs_moment tdfs_moment(int fd, int64_t now);

/* A process that opened the file, wrote to it or closed it. */
struct tdfs_candidate {
	pid_t tid;		      /* a thread of it */
	struct tdfs_process *process; /* owned; NULL: not found out yet, which the scan does */
	bool clean;		      /* as tdfs_scan.clean was when it last closed the file */
	bool ended;		      /* out: it has exited, or is about to */
};

/* A process as messages name it. */
struct tdfs_named_process {
	pid_t process; /* 0: none */
	char name[32]; /* of the program; printable */
};

#define TDFS_KILLED_MAX 8

#define TDFS_USERS_MAX 8

/* A process that is exiting because of a signal. */
struct tdfs_killed {
	pid_t process;
	int signal;    /* 0: some signal; -1: it cannot be seen whether it was one */
	char name[32]; /* of the program; printable */
};

/* One scan for who holds a file. */
struct tdfs_scan {
	/* In. */
	uint64_t ino;	    /* 0: only the closing process and the candidates, whether
			     * they are being killed */
	pid_t closing_tid;  /* the thread that closes; 0: not visible here; -1: none */
	pid_t exclude;	    /* a thread whose process does not count; 0: none */
	pid_t self;	    /* the caller's process, which is not scanned: it has thousands
			     * of descriptors, none of them in its own mount; 0: none */
	bool all_processes; /* in and out: a holder ended, whose children may be anywhere */
	size_t count;	    /* of candidates */
	struct tdfs_candidate *candidates; /* owned */
	struct tdfs_moment since;	   /* when the file was first opened */
	uid_t users[TDFS_USERS_MAX];	   /* who opened it */
	unsigned n_users;		   /* in `users`; TDFS_USERS_MAX + 1: more than fit */

	/* Meanwhile, for other threads. */
	atomic_uint steps; /* grows as the scan makes progress */
	atomic_int at;	   /* the process that is being scanned */

	/* Out. */
	pid_t closing_process; /* the process of closing_tid; 0: unknown */
	pid_t excluded;	       /* the process of `exclude`; 0: unknown */
	bool excluded_holds;   /* `excluded` has the file open for writing */
	bool held;	       /* somebody else has */
	bool till_exec;	       /* held: only by close-on-exec descriptors of others than
				* the closing process and the candidates */
	bool clean;	       /* neither the closing process nor a descendant has it: when
				* that ends, nothing of it is left to be looked for among
				* all processes */
	bool unwatched;	       /* the closing process cannot be inspected, or is in no
				* namespace of ours; nobody else was scanned then */
	bool incomplete;       /* the scan lacked descriptors or memory */
	struct tdfs_named_process holder; /* held: one of those that have it */
	struct tdfs_named_process hidden; /* one that may have it and cannot be inspected */
	size_t n_killed;		  /* in `killed`; there may be more */
	struct tdfs_killed killed[TDFS_KILLED_MAX];
};

void tdfs_scan_run(struct tdfs_scan *scan);
/* Before the first file is opened: whoever is there now, began before all of them. */
void tdfs_scan_begin(void);
/* A thread that scans: it gets descriptors of its own, so that how many the daemon has is not a
 * limit for it. */
void tdfs_scan_thread(void);
/* The scan is given up where it stands; it has come back after all (or never began). */
void tdfs_scan_lost(const struct tdfs_scan *scan);
void tdfs_scan_back(const struct tdfs_scan *scan);
/* Whether this daemon is shown the descriptors of other users' processes. */
bool tdfs_sees_others(void);
/* Whether /proc is there and counts processes as this one does: not that of another namespace. */
bool tdfs_proc_is_ours(void);
/* Frees the candidates' references and the array; not *scan itself. */
void tdfs_scan_clear(struct tdfs_scan *scan);

#endif
