/* SPDX-License-Identifier: MIT */
#ifndef TDL_HASH_H
#define TDL_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A hash of n bytes, for tables in memory: another one in every process, so that nobody can choose
 * names that all fall into one slot. Never to be written to a disk. */
uint64_t tdl__hash(const void *bytes, size_t n);

/* The same in 128 bits: n bytes that have the hash of others are the same bytes, but for a chance
 * of 2^-64 among billions of them. */
void tdl__hash128(uint64_t hash[2], const void *bytes, size_t n);

/* For tests: hashes from now on as another process would; called again, as before. */
void tdl__hash_rekey(void);

#endif
