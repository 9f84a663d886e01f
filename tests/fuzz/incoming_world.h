/* SPDX-License-Identifier: MIT */
#ifndef INCOMING_WORLD_H
#define INCOMING_WORLD_H

#include "incoming/incoming.h"

/*
 * The machine round incoming/ for the sequence fuzzer: processes with descriptors, /proc as the
 * daemon sees it, a clock, a disk, a commit.
 */

#define DESCRIPTORS 8
#define FIRST	    (UINT64_C(1) << 62)

/* An open file description. */
struct open_file {
	struct tdfs_handle *handle;
	uint64_t ino;
	int flags;
	uint64_t position;
	unsigned serial;      /* grows with each */
	unsigned descriptors; /* those on their way between processes included */
	unsigned flushing;    /* closes that have no answer */
	bool closed;	      /* once, at least */
	bool releasing, gone;
	bool passed; /* over a socket, where nobody sees it */
	struct open_file *next;
};

struct process {
	pid_t id, parent;
	struct open_file *table[DESCRIPTORS];
	int signal;   /* that is killing it */
	bool exiting; /* and its table is gone */
	bool leaving; /* as soon as all its closes are answered */
	bool dead;
	unsigned closing; /* closes that have no answer */
	bool busy;	  /* waits for an answer */
};

struct world {
	int64_t now;
	unsigned live;				/* staged files */
	int code;				/* what commits give while `failing` */
	unsigned failing;			/* that many */
	unsigned slow;				/* so many scans do not end in time */
	uint64_t slows;				/* there were so many */
	unsigned incomplete, hidden, unwatched; /* so many scans will be: see play_scan() */
	uint64_t doubts;    /* scans that left it open whether somebody has the file */
	uint64_t nested;    /* operations that came in between */
	uint64_t finishing; /* the file of the close, release or rename that may commit now */
	bool committing, closing;
	unsigned count; /* of processes */
};

extern struct world world;
extern struct tdfs_incoming *in;

void world_begin(void);
void world_end(void);

/* The parts of both that concern processes. */
void world_processes_begin(void);
void world_processes_end(void);

/* One that is not dead, or NULL. */
struct process *world_by_id(pid_t id);
/* Whether it has the file open for writing; whether it or a descendant has, one of them left out.
 */
bool world_process_holds(const struct process *process, uint64_t ino);
bool world_family_holds(const struct process *process, uint64_t ino, pid_t exclude);

/* One of the living that have nothing else to do, or NULL. */
struct process *world_process(unsigned nth);
struct process *world_process_at(unsigned index);
void world_fork(const struct process *parent);
/* Takes away those that are gone for good. */
void world_reap(void);

/* No more descriptors. */
bool world_full(const struct process *process);
struct open_file *world_open(struct process *process, struct tdfs_handle *handle, uint64_t ino,
			     int flags);
struct open_file *world_nth(struct process *process, unsigned nth);
void world_dup(struct process *process, struct open_file *file);
/* Takes a descriptor out of the table; true also for one whose table is gone. */
bool world_take(struct process *process, struct open_file *file);
/* The table of a process that exits, a file as often as it is there. */
unsigned world_table(struct process *process, struct open_file *files[DESCRIPTORS]);
void world_released(struct open_file *file);
/* Over a socket. */
void world_send(struct process *process, unsigned nth);
void world_receive(struct process *process);
/* A socket is closed with a descriptor in it: no FLUSH tells of that, in these tests. */
bool world_lose(void);

/* Whether a living process has the file open for writing; `exclude` does not count. */
bool world_holds(uint64_t ino, pid_t exclude);
/* The same, but for descriptors that were passed over a socket. */
bool world_holds_unpassed(uint64_t ino, pid_t exclude);
/* Whether a close of one of its open files is still to come. */
bool world_is_unclosed(uint64_t ino);
/* Whether it is open for writing at all, descriptors on their way included. */
bool world_is_open(uint64_t ino);

/* The disk takes no more for one of the files. */
void world_fill(unsigned nth);
/* Delivers what the daemon asked to be found. */
void world_find(void);
/* What was put off is done. */
void world_background(void);

/* Of fuzz_incoming.c. */
void between(void);
void lost(struct open_file *file);

#endif
