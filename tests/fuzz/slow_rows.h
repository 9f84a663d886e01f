/* SPDX-License-Identifier: MIT */
#ifndef SLOW_ROWS_H
#define SLOW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tinydelta.h"

/*
 * Rows once more, written for the fuzz target only: slow, plain, and built differently from the
 * library (each line becomes a tree, which is then written out), so that a mistake in one is not a
 * mistake in both.
 */
struct slow {
	bool good;
	size_t line; /* that was refused, 0: no rows at all */
	size_t rows;
	char *out;
	size_t n;
};

void slow_rows(const tdl_schema *schema, const char *in, size_t n, struct slow *result);
void slow_clear(struct slow *result);

#endif
