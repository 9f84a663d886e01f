/* SPDX-License-Identifier: MIT */
#ifndef TDL_PREFETCH_H
#define TDL_PREFETCH_H

#include "log/log.h"

/*
 * Reading a long log ahead of who replays it, on several cores: opening and parsing a commit is
 * most of the work and needs nothing of those before it. Only commits that are whole are handed
 * over; read any other commit again to get its error.
 */
typedef struct tdl__prefetch tdl__prefetch;

/* Starts to read from version `from` on. NULL where it would not pay, or cannot be done. */
tdl__prefetch *tdl__prefetch_start(const tdl__log *log, int64_t from);

/*
 * Hands over a commit in place of a cleared one, or false: then it has to be read. To be asked for
 * one version after the other, from the first, by one thread.
 */
bool tdl__prefetch_take(tdl__prefetch *prefetch, int64_t version, tdl__commit *commit);

/* Ends the threads; takes NULL. */
void tdl__prefetch_stop(tdl__prefetch *prefetch);

#endif
