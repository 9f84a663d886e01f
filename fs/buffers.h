/* SPDX-License-Identifier: MIT */
#ifndef TDFS_BUFFERS_H
#define TDFS_BUFFERS_H

/*
 * Buffers for answers, each TDFS_BUFFER_SIZE bytes. The one given back last is taken first, since
 * it is still in the processor's cache: with one for each thread, requests that wander from thread
 * to thread would find theirs cold. There are as many as were ever in use at once.
 */
#define TDFS_BUFFER_SIZE (1u << 20)

struct tdfs_buffers;

struct tdfs_buffers *tdfs_buffers_new(void);
void tdfs_buffers_free(struct tdfs_buffers *buffers);
/* NULL when out of memory. */
void *tdfs_buffers_get(struct tdfs_buffers *buffers);
void tdfs_buffers_put(struct tdfs_buffers *buffers, void *buffer);

#endif
