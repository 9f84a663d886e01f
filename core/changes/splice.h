/* SPDX-License-Identifier: MIT */
#ifndef TDL_SPLICE_H
#define TDL_SPLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tinydelta.h"

/*
 * A data file as it reads with a text put behind the '{' of every row. Its size follows from the
 * file's size and its number of rows, so nothing is read for it; any byte of it is found by reading
 * one block, where the rows before each block are known, and else by counting them once from the
 * nearer end.
 *
 * A row is a line whose first byte other than a blank is '{'; every other line stays as it is. That
 * there are as many rows as the log says is checked while they are read: nothing else could be at
 * the offset it was promised at.
 *
 * Not thread-safe.
 */

typedef struct tdl__splice_source {
	/* Reads all n bytes at an offset. Returns 0 or a code with *error filled in. */
	int (*read)(void *context, void *buffer, size_t n, uint64_t offset, tdl_error *error);
	void *context;
	size_t block;	    /* bytes read at once: of those that data files have checksums of */
	uint64_t size;	    /* bytes of the file */
	uint64_t rows;	    /* as the log says it */
	bool lacks_newline; /* one more byte, a newline, is behind the file */
	const uint32_t *newlines; /* in each block; NULL: not known. Borrowed */
	const char *text;	  /* to be put in; borrowed */
	size_t text_length;	  /* at most a block */
} tdl__splice_source;

typedef struct tdl__splice tdl__splice;

/* Errors: CORRUPT (the newlines are not as many as the rows), NOMEM. */
int tdl__splice_new(const tdl__splice_source *source, tdl__splice **splice, tdl_error *error);
void tdl__splice_free(tdl__splice *splice);

/* Of what it reads as, in bytes; false where that is more than 2^63 - 1. */
bool tdl__splice_size(const tdl__splice_source *source, uint64_t *size);

/* Reads exactly n bytes, all within the size. Errors: those of the source, CORRUPT (there are more
 * or fewer rows than the log says). */
int tdl__splice_read(tdl__splice *splice, void *buffer, size_t n, uint64_t offset,
		     tdl_error *error);

#endif
