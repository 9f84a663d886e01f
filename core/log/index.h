/* SPDX-License-Identifier: MIT */
#ifndef TDL_INDEX_H
#define TDL_INDEX_H

#include "log/history.h"

/*
 * The replayed history as a file, so that a table of a million versions opens at once: a cache,
 * never the truth. It is bound to its log by the device and inode of the folder, the table's id,
 * and the commits it covers: of each it has the checksum that its file had when it was replayed,
 * and a stamp of that file (inode, size, times). When it is read the newest commits are looked at,
 * and as many of the others as is quick; one with another stamp is read. It has checksums of its
 * own, and is read whole before any of it is believed; whatever is not as it should be is ignored,
 * and the log replayed.
 *
 *     header      struct header of index.c, 256 bytes, little-endian
 *     versions    48 bytes each: struct tdl__version
 *     lists       16 bytes each: first file, files settled
 *     ids         16 bytes a file
 *     ends        8 bytes a file: running sum of sizes
 *     records     8 bytes a file: running sum of rows
 *     crcs        4 bytes a file
 *     flags       1 byte a file
 *     no_eol      8 bytes each: files without a last newline
 *     named       8 bytes each: files with names of their own
 *     text        names and operations, each ending in NUL, then metadata as log lines
 *
 * Nothing in it depends on a process: where names are in a hash table is worked out anew.
 */
#define TDL__INDEX_NAME "_history.idx"

/* Fills an empty history from the index in directory `dir`, as far as that goes. Leaves it empty
 * where there is no index to be believed. The name is TDL__INDEX_NAME in a log. */
void tdl__index_load(tdl__history *history, int dir, const char *name);

/* How many versions the index there says it covers; 0 where there is none that could be read. */
uint64_t tdl__index_covers(int dir, const char *name);

/* Writes the index into directory `dir`, atomically. Failure is not a failure of anything else:
 * false. */
bool tdl__index_save(tdl__history *history, int dir, const char *name);

/* ".<32 hex>.idx": an index before it has its name. */
bool tdl__index_is_temp(const char *name);

#endif
