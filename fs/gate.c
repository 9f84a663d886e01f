/* SPDX-License-Identifier: MIT */
/*
 * Counts the threads that may be stuck. Knows nothing of what they do.
 */
#include "gate.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "pool.h"

#define ASIDE_THREADS 16u

struct tdfs_gate {
	atomic_uint threads, inside;
	struct tdfs_pool *aside;
};

struct tdfs_gate *tdfs_gate_new(void)
{
	struct tdfs_gate *gate = calloc(1, sizeof *gate);

	if (!gate)
		return NULL;
	atomic_init(&gate->threads, 1);
	gate->aside = tdfs_pool_new(&(struct tdfs_pool_options){ .threads = ASIDE_THREADS });
	if (!gate->aside) {
		free(gate);
		return NULL;
	}
	return gate;
}

void tdfs_gate_end(struct tdfs_gate *gate)
{
	tdfs_pool_free(gate->aside, UINT_MAX / 2);
	gate->aside = NULL;
}

void tdfs_gate_free(struct tdfs_gate *gate)
{
	if (gate)
		tdfs_gate_end(gate);
	free(gate);
}

void tdfs_gate_set(struct tdfs_gate *gate, unsigned threads)
{
	atomic_store(&gate->threads, threads);
}

bool tdfs_gate_enter(struct tdfs_gate *gate, unsigned kept)
{
	unsigned threads = atomic_load(&gate->threads);
	unsigned most = threads > kept ? threads - kept : 1;

	if (atomic_fetch_add(&gate->inside, 1) < most)
		return true;
	atomic_fetch_sub(&gate->inside, 1);
	return false;
}

void tdfs_gate_leave(struct tdfs_gate *gate)
{
	atomic_fetch_sub(&gate->inside, 1);
}

bool tdfs_gate_aside(struct tdfs_gate *gate, void (*run)(void *), void *argument)
{
	return tdfs_pool_submit(gate->aside, 0, run, argument);
}
