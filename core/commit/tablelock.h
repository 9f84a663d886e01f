/* SPDX-License-Identifier: MIT */
#ifndef TDL_TABLELOCK_H
#define TDL_TABLELOCK_H

#include "table/table.h"

/*
 * Keeps a table's writers and its vacuum apart: a part that no commit names yet is an orphan to a
 * vacuum, and so is a commit that is not published. The lock is flock() on a regular file in the
 * log, since shared file systems have locks of files that all their clients see, but seldom of
 * directories; only who may write to the table can open it, so no reader can hold writers up.
 * Beside it the table's directory is locked, which is what earlier releases do, but nobody waits
 * for that: it is open to readers.
 */
#define TDL__LOCK_NAME "_writers.lock"

struct tdl__table_lock {
	int file; /* the lock file; -1: not held */
	int why;  /* file -1: the errno, as this file system has no locks, or none for this user */
	int dir;  /* the table's directory, locked too; -1: not */
	bool asked; /* others were asked to give way */
};
#define TDL__TABLE_UNLOCKED ((struct tdl__table_lock){ -1, 0, -1, false })

/*
 * Takes the lock: writers, who commit with `options`, share it, a vacuum has it alone. Waits for
 * others for a while, and then says who they are. Where it cannot be had at all, because the file
 * system has no locks or the file is closed to this user, it succeeds without; the dates of what is
 * being published (tdl__table_set_future_mtime()) then have to do. Errors: IO (EAGAIN: others had
 * it all the time), STOPPED.
 */
int tdl__table_lock(tdl_table *table, const tdl_commit_options *options,
		    struct tdl__table_lock *lock, tdl_error *error);
int tdl__table_lock_alone(tdl_table *table, struct tdl__table_lock *lock, tdl_error *error);
void tdl__table_unlock(struct tdl__table_lock *lock);

/* What lies where the lock belongs and is no regular file, "a directory", so that nobody can commit
 * or vacuum; or NULL. */
const char *tdl__table_lock_obstacle(const tdl_table *table);

/* The process that holds a flock() on a file or directory, as this kernel lists it, or 0. */
pid_t tdl__lock_holder(const struct stat *st);

/* How long to wait, in ms; tests make it shorter. */
extern unsigned tdl__table_lock_wait;

#endif
