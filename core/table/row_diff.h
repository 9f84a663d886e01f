/* SPDX-License-Identifier: MIT */
#ifndef TDL_ROW_DIFF_H
#define TDL_ROW_DIFF_H

#include <stddef.h>
#include <stdint.h>

#include "tinydelta.h"

/*
 * The rows that one sequence of data files has more than another, as multisets: each as often as
 * its side has more of it, the later ones of equal rows. Rows are lines; those of blanks alone are
 * none, and the last one of a file needs no newline.
 */

/* One side. What it points to is borrowed for the call. */
struct tdl__row_files {
	/* Reads up to `count` bytes at `offset` of file `index`; *got is less only at its end. */
	int (*read)(void *context, size_t index, void *buffer, size_t count, uint64_t offset,
		    size_t *got, tdl_error *error);
	void *context;
	const uint64_t *sizes; /* of the files, bytes */
	size_t count;
};

/*
 * Compares old and new. options->row, if any, gets the rows that are gone in the order of the old
 * side, then those that came in the order of the new one, without newlines. counts[0] and [1] get
 * how many these are. Both sides are read once, in blocks that begin at multiples of 1 MiB, and
 * then again where rows to be told of lie. Errors: IO (of a temporary file, too), NOMEM, STOPPED,
 * CORRUPT (rows are not what they were a moment ago) and what read() says.
 */
int tdl__row_diff(const struct tdl__row_files *old_files, const struct tdl__row_files *new_files,
		  const tdl_diff_options *options, uint64_t counts[2], tdl_error *error);

#endif
