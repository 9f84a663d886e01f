/* SPDX-License-Identifier: MIT */
#ifndef TDFS_GATE_H
#define TDFS_GATE_H

#include <stdbool.h>

/*
 * What the file system below can hold up, and for how long nobody knows: a snapshot freezes it, a
 * server is away, a disk hangs. Of the threads that answer requests some stay out of that, so that
 * whoever asks for what is in memory (names, attributes, sizes) is answered all the same.
 */
struct tdfs_gate;

/* Returns NULL when out of memory. Takes NULL. */
struct tdfs_gate *tdfs_gate_new(void);
void tdfs_gate_free(struct tdfs_gate *gate);
/* So many threads answer requests. */
void tdfs_gate_set(struct tdfs_gate *gate, unsigned threads);

/* Before a thread that answers requests may get stuck: false where then not `kept` of them were
 * left, or not one; true, and tdfs_gate_leave() follows. A single thread always gets in. */
bool tdfs_gate_enter(struct tdfs_gate *gate, unsigned kept);
void tdfs_gate_leave(struct tdfs_gate *gate);

/* Has run(argument) called by another thread. False: not possible. */
bool tdfs_gate_aside(struct tdfs_gate *gate, void (*run)(void *), void *argument);
/* After the last request: waits for those. */
void tdfs_gate_end(struct tdfs_gate *gate);

#endif
