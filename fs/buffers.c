/* SPDX-License-Identifier: MIT */
/*
 * A stack of buffers that are free. Knows nothing of what is in them.
 */
#include "buffers.h"

#include <pthread.h>
#include <stdlib.h>

/* The head of a free buffer, in its own first bytes. */
struct unused {
	struct unused *next;
};

struct tdfs_buffers {
	pthread_mutex_t lock;
	struct unused *top; /* under the lock */
};

struct tdfs_buffers *tdfs_buffers_new(void)
{
	struct tdfs_buffers *buffers = calloc(1, sizeof *buffers);

	if (buffers)
		pthread_mutex_init(&buffers->lock, NULL);
	return buffers;
}

void tdfs_buffers_free(struct tdfs_buffers *buffers)
{
	struct unused *next;

	if (!buffers)
		return;
	for (struct unused *at = buffers->top; at; at = next) {
		next = at->next;
		free(at);
	}
	pthread_mutex_destroy(&buffers->lock);
	free(buffers);
}

void *tdfs_buffers_get(struct tdfs_buffers *buffers)
{
	struct unused *unused;
	void *fresh;

	pthread_mutex_lock(&buffers->lock);
	unused = buffers->top;
	if (unused)
		buffers->top = unused->next;
	pthread_mutex_unlock(&buffers->lock);
	if (unused)
		return unused;
	/* The kernel copies best from whole pages. */
	return posix_memalign(&fresh, 4096, TDFS_BUFFER_SIZE) == 0 ? fresh : NULL;
}

void tdfs_buffers_put(struct tdfs_buffers *buffers, void *buffer)
{
	struct unused *unused = buffer;

	pthread_mutex_lock(&buffers->lock);
	unused->next = buffers->top;
	buffers->top = unused;
	pthread_mutex_unlock(&buffers->lock);
}
