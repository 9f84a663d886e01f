/* SPDX-License-Identifier: MIT */
#ifndef ROWSORT_H
#define ROWSORT_H

#include <stddef.h>

/*
 * Any number of rows in the order of their bytes, in bounded memory: what does not fit goes,
 * sorted, to a temporary file without a name, and is merged when it is read back. A row has no
 * newline.
 */
struct rowsort;

/* Uses about so many bytes, and more only for a row that is longer. NULL: out of memory. */
struct rowsort *rowsort_new(size_t memory);
void rowsort_free(struct rowsort *sort);

/* Returns 0 or an errno. */
int rowsort_add(struct rowsort *sort, const char *row, size_t n);

/* After the last rowsort_add(): the next row, which is there until the next call. Returns 1, 0 at
 * the end, or a negative errno. */
int rowsort_next(struct rowsort *sort, const char **row, size_t *n);

/* As memcmp(), for rows of any length. */
int rowsort_compare(const char *a, size_t a_n, const char *b, size_t b_n);

#endif
