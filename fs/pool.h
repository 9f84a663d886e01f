/* SPDX-License-Identifier: MIT */
#ifndef TDFS_POOL_H
#define TDFS_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * A few threads that work off a queue. They are started as they are needed, stay, and take no
 * signals. Two pools serve incoming/: one commits and answers the requests that have to wait, one
 * reads /proc, where a thread may get stuck.
 */
struct tdfs_pool;

/* Starts no thread. Returns NULL when out of memory. */
struct tdfs_pool *tdfs_pool_new(unsigned threads);
/* Works off what is queued, then ends the threads. Nothing may be submitted any more. False: some
 * were stuck for longer than `limit` ms and are left behind, with the pool. Takes NULL. */
bool tdfs_pool_free(struct tdfs_pool *pool, unsigned limit);

/* Has run(argument) called by some thread, first come first served. False: no memory, or not one
 * thread can be had; then it will not be called. */
bool tdfs_pool_submit(struct tdfs_pool *pool, void (*run)(void *), void *argument);

/*
 * The same, and waits until it has run for up to `limit` ms, and before that for up to ten times as
 * long until a thread is free: only who is stuck is given up, not who has to wait his turn. Where
 * it counts `steps` (or NULL), the limit is for one of them, and ten times as long for all; a
 * thread that could run and only has no processor is not stuck either, for as long. False: it has
 * not ended. It may still run; drop(argument) is called when it has, or, where it never
 * began, instead.
 */
bool tdfs_pool_call(struct tdfs_pool *pool, void (*run)(void *), void (*drop)(void *),
		    void *argument, unsigned limit, const atomic_uint *steps);

#endif
