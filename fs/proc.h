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

#include "holders.h"

struct tdfs_process {
	atomic_uint refs;
	pid_t id;
	int dir; /* O_PATH, /proc/ID */
};

/* The lines of /proc/PID/status that matter. */
struct tdfs_status {
	pid_t process;
	unsigned threads;
	char state;
	bool alive; /* has memory */
	char name[32];
};

enum tdfs_hold {
	TDFS_NOT_HELD,
	TDFS_HELD_TILL_EXEC,
	TDFS_HELD
};

static inline void tdfs_close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static inline void tdfs_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void tdfs_free_text(char **text)
{
	free(*text);
}

#define CLEANUP(function) __attribute__((cleanup(function)))

/* A positive number that is the whole of `text`, or 0. */
pid_t tdfs_parse_pid(const char *text);
/* Its folder, or -1. */
int tdfs_proc_open(pid_t pid);
/* All of a file, to be freed; NULL, with errno, where it cannot be read. */
char *tdfs_proc_text(int dir, const char *name);
DIR *tdfs_proc_dir(int dir, const char *name);
/* False where there is no such process (any more), or it cannot be seen. */
bool tdfs_proc_status(int dir, struct tdfs_status *status);
/* The process `id`, whose folder is *dir; takes that over. NULL: no memory. */
struct tdfs_process *tdfs_proc_of(pid_t id, int *dir);
/* The process that a thread is of, and its status at that moment. NULL: there is none (any more).
 */
struct tdfs_process *tdfs_proc_find(pid_t tid, struct tdfs_status *status);
/* The signal that an exiting thread dies of, or 0. Never for one that may be in execve. */
int tdfs_proc_signal(int dir);
/* What the descriptors in the folder `fdinfo` beneath `dir` say of the file looked for; *count gets
 * how many there are. */
enum tdfs_hold tdfs_proc_table(struct tdfs_look *look, int dir, const char *fdinfo, size_t *count);
/* What those of a process say. */
enum tdfs_hold tdfs_proc_holds(struct tdfs_look *look, int dir);

#endif
