/* SPDX-License-Identifier: MIT */
#ifndef ROWS_RUN_H
#define ROWS_RUN_H

#include "row/stream.h"

/*
 * Rows in, what became of them out; for the tests of rows. Each chunk is given in memory that ends
 * with it, and whatever the sink is promised is checked.
 */
struct outcome {
	int code;	 /* 0 or a negative tdl_code */
	tdl_error error; /* where it is not 0 */
	char *out;	 /* NUL-terminated */
	size_t n;
	uint64_t count;
	bool verbatim;
};

/* Gives the input in chunks: one of `first` bytes (0: none), then as many of `chunk` bytes as it
 * takes. Returns false, with a line on stderr, where a promise was broken. */
bool rows_run(const tdl_schema *schema, const char *in, size_t n, size_t first, size_t chunk,
	      struct outcome *outcome);
void outcome_clear(struct outcome *outcome);

/* Whether two outcomes are the same to the byte, messages and positions included. */
bool outcome_same(const struct outcome *a, const struct outcome *b);

/* A schema from texts that end with NULL. */
tdl_schema *schema_of(const char *const *columns);

#endif
