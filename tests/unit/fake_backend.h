/* SPDX-License-Identifier: MIT */
#ifndef FAKE_BACKEND_H
#define FAKE_BACKEND_H

/* The fake backend of incoming/; fake_backend.c has it. Include it after criterion. */

#include <criterion/criterion.h>

#include "incoming/incoming.h"

#define FIRST (UINT64_C(1) << 62) /* the first inode number */

#define FAKE_JOBS 16

struct fake_job {
	void (*run)(void *);
	void *argument;
};

struct world {
	int64_t now;
	struct tdfs_limits limits;
	unsigned commits, creates, live;
	bool in_doubt;		   /* PUBLISHED: perhaps */
	unsigned lent;		   /* descriptors that incoming/ has */
	int code;		   /* what the next commits give */
	bool held;		   /* somebody holds every file */
	bool own;		   /* whoever opens has it open already */
	bool in_time;		   /* scans end */
	unsigned lost, incomplete; /* so many scans are given up; are not complete */
	bool unwatched;		   /* nobody can be seen */
	pid_t hidden;		   /* a process that may have every file, and cannot be seen */
	bool till_exec;
	unsigned waits; /* until this many waits have passed */
	pid_t killed;	/* a process that is being killed */
	int signal;	/* by this; 0: 9 */
	char committed[4096], source[256], logged[512];
	char told[256]; /* of writes and cuts, in the order in which the disk hears of them */
	char owned[320], reason[512]; /* what was last kept on disk */
	uid_t uid;
	void (*during_commit)(void), (*during_scan)(void), (*during_prepare)(void);
	size_t candidates;  /* of the last look */
	bool all_processes; /* it looked at */
	bool renames;	    /* the last commit did */
	unsigned prepared;
	struct fake_job jobs[FAKE_JOBS]; /* in the background: run_jobs() */
	unsigned n_jobs;
};

extern struct world world;
extern struct tdfs_incoming *in;

void run_jobs(void);
void fake_setup(void);
void fake_teardown(void);
/* A file that a dead daemon left; NULL: without a reason. */
void recover_leftovers(const char *name, const char *text, const char *reason);
int fake_create(void *context, const char *name, void **file, int *fd);

/* Requests of the thread `tid`, whose process has that number too. */
struct tdfs_caller who(pid_t tid);
struct tdfs_handle *create(pid_t tid, const char *name, int flags);
/* An inode number; 0 where the name is not there. `st` may be NULL. */
uint64_t lookup(pid_t tid, const char *name, struct stat *st);
int open_it(pid_t tid, const char *name, int flags, struct tdfs_handle **handle);
/* As the kernel does: a stale inode is looked up again, once; what is not there is created. */
struct tdfs_handle *reopen(pid_t tid, const char *name, int flags);
int write_at(pid_t tid, struct tdfs_handle *handle, const char *text, uint64_t offset);
/* With O_APPEND; the offset is the end as the kernel knows it. */
int append_at(pid_t tid, struct tdfs_handle *handle, const char *text, uint64_t offset);
int flush(pid_t tid, struct tdfs_handle *handle);
void release(struct tdfs_handle *handle);
int rename_it(pid_t tid, const char *from, const char *to);
int unlink_it(pid_t tid, const char *name);
/* As cp: open, write, close. The answer of close. */
int write_staged(pid_t tid, const char *name, const char *text);
/* The names listed, with blanks between. */
const char *listing(void);
/* The text of an error file. */
const char *error_text(const char *name);

#endif
