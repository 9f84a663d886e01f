/* SPDX-License-Identifier: MIT */
#ifndef TDFS_POOL_H
#define TDFS_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * A few threads that work off a queue. They are started as they are needed, stay, and take no
 * signals. Each job is somebody's: where a pool has a share, no user has more of its threads than
 * that at a time, however many jobs wait for him.
 */
struct tdfs_pool;

struct tdfs_pool_options {
	unsigned threads;    /* at most; each is started when a job finds none idle */
	unsigned share;	     /* threads that one user's jobs may have at once; 0: all */
	unsigned lost;	     /* threads given up by tdfs_pool_call() that are replaced, at most */
	void (*begin)(void); /* called first in each thread; NULL: nothing */
};

/* Starts no thread. Returns NULL when out of memory. */
struct tdfs_pool *tdfs_pool_new(const struct tdfs_pool_options *options);
/* Works off what is queued, then ends the threads. Nothing may be submitted any more. False: some
 * were stuck for longer than `limit` ms and are left behind, with the pool. Takes NULL. */
bool tdfs_pool_free(struct tdfs_pool *pool, unsigned limit);

/* Has run(argument) called by some thread, a user's jobs in their order. False: no memory, or not
 * one thread can be had; then it will not be called. */
bool tdfs_pool_submit(struct tdfs_pool *pool, uid_t user, void (*run)(void *), void *argument);

struct tdfs_call {
	uid_t user;			 /* whose share it counts in */
	void (*run)(void *argument);	 /* the job */
	void (*discard)(void *argument); /* frees the argument of a job that was given up, once
					  * run() has ended after all, or where it never began */
	void (*lost)(void *argument);	 /* called when run() is being given up; NULL: nothing */
	void *argument;			 /* the caller's again when tdfs_pool_call() returns true */
	const atomic_uint *steps;	 /* in *argument; grows as run() makes progress; or NULL */
	unsigned limit;			 /* ms without progress after which run() is given up */
};

/*
 * Waits for run(). Gives it up after `limit` ms without progress in *steps; time in the queue, and
 * time in which it was ready and only lacked a processor, do not count. Its thread is replaced.
 * False: it was given up or could not begin; then the pool owns `argument` and calls discard().
 */
bool tdfs_pool_call(struct tdfs_pool *pool, const struct tdfs_call *call);

#endif
