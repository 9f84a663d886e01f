/* SPDX-License-Identifier: MIT */
/*
 * Sorting rows in bounded memory, against qsort() of all of them.
 */
#include "extsort.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROWS = 3000
};

struct row {
	char *bytes;
	size_t n;
};

static int by_bytes(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return rowsort_compare(left->bytes, left->n, right->bytes, right->n);
}

/* Rows of every length up to `longest`, with NUL bytes in them, and many twice. */
static void make(struct row *rows, size_t longest)
{
	srand(7);
	for (size_t i = 0; i < ROWS; i++) {
		size_t n = i % 50 == 0 ? longest : (size_t)rand() % 40;

		if (i % 3 == 2) {
			n = rows[i - 2].n;
			rows[i] = (struct row){ malloc(n + 1), n };
			memcpy(rows[i].bytes, rows[i - 2].bytes, n);
			continue;
		}
		rows[i] = (struct row){ malloc(n + 1), n };
		for (size_t j = 0; j < n; j++)
			rows[i].bytes[j] = "abc\0\xff"[rand() % 5];
	}
}

static void check(size_t memory, size_t longest)
{
	struct rowsort *sort = rowsort_new(memory);
	struct row rows[ROWS];
	const char *bytes;
	size_t n;

	make(rows, longest);
	for (size_t i = 0; i < ROWS; i++)
		cr_assert_eq(rowsort_add(sort, rows[i].bytes, rows[i].n), 0);
	qsort(rows, ROWS, sizeof *rows, by_bytes);
	for (size_t i = 0; i < ROWS; i++) {
		cr_assert_eq(rowsort_next(sort, &bytes, &n), 1, "row %zu of %zu bytes", i, memory);
		cr_assert_eq(rowsort_compare(bytes, n, rows[i].bytes, rows[i].n), 0, "row %zu", i);
		free(rows[i].bytes);
	}
	cr_assert_eq(rowsort_next(sort, &bytes, &n), 0);
	cr_assert_eq(rowsort_next(sort, &bytes, &n), 0);
	rowsort_free(sort);
}

Test(rowsort, everything_fits)
{
	check((size_t)64 << 20, 1000);
}

Test(rowsort, in_many_runs)
{
	check(100, 40);
	check(4096, 1000);
	check(50000, 1000);
}

Test(rowsort, rows_longer_than_the_memory_and_than_any_buffer)
{
	check(20000, 70000);
	check(1 << 20, 300000);
}

Test(rowsort, nothing)
{
	struct rowsort *sort = rowsort_new(100);
	const char *bytes;
	size_t n;

	cr_assert_eq(rowsort_next(sort, &bytes, &n), 0);
	rowsort_free(sort);
	rowsort_free(NULL);
}

Test(rowsort, empty_rows)
{
	struct rowsort *sort = rowsort_new(1);
	const char *bytes;
	size_t n;

	for (int i = 0; i < 3; i++)
		cr_assert_eq(rowsort_add(sort, "", 0), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(rowsort_next(sort, &bytes, &n), 1);
		cr_assert_eq(n, 0);
	}
	cr_assert_eq(rowsort_next(sort, &bytes, &n), 0);
	rowsort_free(sort);
}

Test(rowsort, no_folder_for_what_does_not_fit)
{
	struct rowsort *sort = rowsort_new(10);

	/* Nothing can be in a file. */
	setenv("TMPDIR", "/dev/null/folder", 1);
	cr_assert_eq(rowsort_add(sort, "0123456789", 10), 0);
	cr_assert_eq(rowsort_add(sort, "0123456789", 10), ENOTDIR);
	rowsort_free(sort);
}
