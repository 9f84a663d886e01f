/* SPDX-License-Identifier: MIT */
/*
 * Hashes for tables in memory: names that differ in a little fall into slots of their own.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

#define COUNT (1u << 14)
#define MASK  (4 * COUNT - 1)

static unsigned fullest(const uint64_t *hashes)
{
	unsigned *slots = calloc(MASK + 1, sizeof *slots), most = 0;

	for (size_t i = 0; i < COUNT; i++) {
		unsigned there = ++slots[hashes[i] & MASK];

		most = there > most ? there : most;
	}
	free(slots);
	return most;
}

Test(hash, names_that_count_up)
{
	static uint64_t hashes[COUNT];

	/* 14 bits that count, wherever they stand in the 16 bytes of a data file's name. */
	for (size_t shift = 0; shift <= 14; shift++) {
		for (uint32_t i = 0; i < COUNT; i++) {
			unsigned char name[16] = { 0 };

			name[shift] = (unsigned char)(i >> 8);
			name[shift + 1] = (unsigned char)i;
			hashes[i] = tdl__hash(name, sizeof name);
		}
		cr_assert_lt(fullest(hashes), 10, "at %zu", shift);
	}
}

Test(hash, texts)
{
	static uint64_t hashes[COUNT];
	char text[32];

	for (unsigned i = 0; i < COUNT; i++) {
		int n = snprintf(text, sizeof text, "column_%u", i);

		hashes[i] = tdl__hash(text, (size_t)n);
		cr_assert_eq(hashes[i], tdl__hash(text, (size_t)n));
	}
	cr_assert_lt(fullest(hashes), 10);
}

Test(hash, length_counts)
{
	static const char zeros[40];

	for (size_t n = 0; n < sizeof zeros; n++)
		for (size_t k = 0; k < n; k++)
			cr_assert_neq(tdl__hash(zeros, n), tdl__hash(zeros, k));
}
