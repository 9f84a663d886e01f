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
	unsigned threads;
	unsigned share;	     /* of them, for one user at a time; 0: all */
	unsigned lost;	     /* so many threads that were given up are replaced, at most */
	void (*begin)(void); /* what each thread does first; may be NULL */
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
	uid_t user;
	void (*run)(void *argument);
	/* Called in place of an answer, by whoever is last to have the argument: when run() that
	 * was given up has ended after all, or when it never began. */
	void (*discard)(void *argument);
	void (*lost)(void *argument); /* called when run() is being given up; may be NULL */
	void *argument;
	const atomic_uint *steps; /* in *argument; grows while it gets on; may be NULL */
	unsigned limit;		  /* ms for one step */
};

/*
 * The same, and waits until it has run, however long that takes: as long as it gets on, or only
 * lacks a processor, or waits its turn. It is given up where it stands still for `limit` ms; its
 * thread is replaced. False: it was given up, or it could not begin.
 */
bool tdfs_pool_call(struct tdfs_pool *pool, const struct tdfs_call *call);

#endif
