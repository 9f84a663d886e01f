/* SPDX-License-Identifier: MIT */
#ifndef TDFS_PROC_H
#define TDFS_PROC_H

/*
 * What is read of one process in /proc; for holders.c alone. That file's header says what must
 * never be read, and of whom.
 */

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "proc/scan.h"
#include "util/util.h"

struct tdfs_process {
	atomic_uint refs;
	pid_t id;
	uint64_t unique; /* of all processes there ever were, where the kernel can tell */
};

/* The lines of /proc/PID/status that matter. */
struct tdfs_status {
	pid_t process;	  /* Tgid */
	uid_t uid;	  /* the real one */
	unsigned threads; /* that have not ended */
	char state;	  /* 'R', 'S', 'Z', ... */
	bool alive;	  /* has memory; else it is exiting, or a zombie */
	uint64_t pending; /* not alive: signals that nobody will take any more, bit N-1 for N */
	char name[32];	  /* of the program; printable */
};

enum tdfs_hold {
	TDFS_NOT_HELD,	     /* not open for writing */
	TDFS_HELD_TILL_EXEC, /* by close-on-exec descriptors only */
	TDFS_HELD
};

/* Why the descriptors of a process are not all known. */
enum tdfs_gap {
	TDFS_NO_GAP,	/* they are */
	TDFS_FORBIDDEN, /* permission denied */
	TDFS_SWALLOWS,	/* reading them never returns, or takes longer than it should */
	TDFS_SHORT	/* descriptors or memory ran out */
};

static inline void tdfs_close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* A positive number that is the whole of `text`, or 0. */
pid_t tdfs_parse_pid(const char *text);
/* Its folder, or -1. */
int tdfs_proc_open(pid_t pid);
/* The same, where it is still that process; -1 with errno ENOENT or ESRCH where it is not. */
int tdfs_proc_open_same(const struct tdfs_process *process);
/* Whether errno says that something was lacking here, not that something is not there. */
bool tdfs_proc_is_short(int err);
/* All of a file, to be freed; NULL, with errno, where it cannot be read. */
char *tdfs_proc_text(int dir, const char *name);
DIR *tdfs_proc_dir(int dir, const char *name);
/* False where there is no such process (any more), or it cannot be seen. */
bool tdfs_proc_status(int dir, struct tdfs_status *status);
/* A number that no other process has or had; 0 where there is none. Before Linux 6.9 all have the
 * same. */
uint64_t tdfs_proc_unique(pid_t id);
/* A process that is there now. NULL: no memory. */
struct tdfs_process *tdfs_proc_of(pid_t id);
/* The process that a thread is of, and its status at that moment. NULL: there is none (any more).
 */
struct tdfs_process *tdfs_proc_find(pid_t tid, struct tdfs_status *status);
/* As tdfs_killed.signal, of an exiting thread that does not end well; INT_MIN: it ends well. Never
 * for one that may be in execve. */
int tdfs_proc_signal(int dir, const struct tdfs_status *status);
/* How many descriptors it has; none of them is read. */
size_t tdfs_proc_count(int dir);
/* What the descriptors of a process say of the file that is looked for. */
enum tdfs_hold tdfs_proc_holds(struct tdfs_scan *scan, int dir, enum tdfs_gap *gap);

#endif
