/* SPDX-License-Identifier: MIT */
/*
 * The difference of two sequences of files against a plain one: every row of both sides sorted, and
 * the last ones of each kind left that the other side lacks.
 */
#include "table/row_diff.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "scratch.h"
#include "util/buf.h"
#include "util/util.h"

enum {
	FILES = 6
};

struct side {
	tdl__text files[FILES];
	uint64_t sizes[FILES];
	size_t count;
};

struct row {
	const char *bytes;
	size_t n, place;
};

struct rows {
	struct row *rows;
	size_t count, cap;
};

/* ---- The other way ------------------------------------------------------------------------ */

static bool blank(const char *p, size_t n)
{
	return strspn(p, " \t\r") >= n;
}

static void split(const struct side *side, struct rows *rows)
{
	for (size_t i = 0; i < side->count; i++) {
		const char *p = side->files[i].p, *end = p ? p + side->files[i].n : NULL;

		while (p < end) {
			const char *newline = memchr(p, '\n', (size_t)(end - p));
			size_t n = (size_t)((newline ? newline : end) - p);

			cr_assert(tdl__reserve(&rows->rows, &rows->cap, rows->count + 1,
					       sizeof *rows->rows));
			if (!blank(p, n)) {
				rows->rows[rows->count] = (struct row){ p, n, rows->count };
				rows->count++;
			}
			p += n + (newline != NULL);
		}
	}
}

static int by_bytes(const struct row *a, const struct row *b)
{
	int order = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);

	return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static int by_bytes_and_place(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	int order = by_bytes(left, right);

	return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

static int by_place(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return (left->place > right->place) - (left->place < right->place);
}

/* The rows of one side that the other has not, in order, each behind a sign. */
static void left_of(const struct rows *one, const struct rows *other, char sign, tdl__text *text,
		    uint64_t *count)
{
	struct row *a = calloc(one->count + 1, sizeof *a), *b = calloc(other->count + 1, sizeof *b);
	struct row *left = calloc(one->count + 1, sizeof *left);
	size_t j = 0, kept = 0;

	for (size_t i = 0; i < one->count; i++)
		a[i] = one->rows[i];
	for (size_t i = 0; i < other->count; i++)
		b[i] = other->rows[i];
	qsort(a, one->count, sizeof *a, by_bytes_and_place);
	qsort(b, other->count, sizeof *b, by_bytes_and_place);
	for (size_t i = 0; i < one->count; i++) {
		while (j < other->count && by_bytes(&b[j], &a[i]) < 0)
			j++;
		if (j < other->count && by_bytes(&b[j], &a[i]) == 0)
			j++; /* the first ones go */
		else
			left[kept++] = a[i];
	}
	qsort(left, kept, sizeof *left, by_place);
	for (size_t i = 0; i < kept; i++) {
		tdl__text_add(text, &sign, 1);
		tdl__text_add(text, left[i].bytes, left[i].n);
		tdl__text_add(text, "\n", 1);
	}
	*count = kept;
	free(a);
	free(b);
	free(left);
}

/* ---- Our way ------------------------------------------------------------------------------ */

static int read_side(void *context, size_t index, void *buffer, size_t count, uint64_t offset,
		     size_t *got, tdl_error *error)
{
	const struct side *side = context;
	size_t rest = side->files[index].n - (size_t)offset;

	*got = count < rest ? count : rest;
	if (*got > 0)
		memcpy(buffer, side->files[index].p + offset, *got);
	return 0;
}

struct found {
	tdl__text text;
	size_t stop_after;
};

static bool on_row(void *context, enum tdl_change change, const char *row, size_t n)
{
	struct found *found = context;

	tdl__text_add(&found->text, change == TDL_REMOVED ? "-" : "+", 1);
	tdl__text_add(&found->text, row, n);
	tdl__text_add(&found->text, "\n", 1);
	return found->stop_after == 0 || --found->stop_after > 0;
}

static int diff(struct side sides[2], uint64_t memory, struct found *found, uint64_t counts[2],
		tdl_error *error)
{
	struct tdl__row_files files[2];
	tdl_diff_options options = { .memory = memory, .context = found };

	if (found)
		options.row = on_row;
	for (unsigned i = 0; i < 2; i++) {
		for (size_t k = 0; k < sides[i].count; k++)
			sides[i].sizes[k] = sides[i].files[k].n;
		files[i] = (struct tdl__row_files){ read_side, &sides[i], sides[i].sizes,
						    sides[i].count };
	}
	return tdl__row_diff(&files[0], &files[1], &options, counts, error);
}

static void compare(struct side sides[2], uint64_t memory, const char *what)
{
	struct rows rows[2] = { 0 };
	tdl__text wanted = { 0 };
	struct found found = { 0 };
	uint64_t counts[2] = { 0 }, counts_wanted[2], only_counted[2] = { 0 };
	tdl_error error = { 0 };

	split(&sides[0], &rows[0]);
	split(&sides[1], &rows[1]);
	left_of(&rows[0], &rows[1], '-', &wanted, &counts_wanted[0]);
	left_of(&rows[1], &rows[0], '+', &wanted, &counts_wanted[1]);
	cr_assert_eq(diff(sides, memory, &found, counts, &error), 0, "%s: %s", what, error.message);
	cr_assert_eq(found.text.n, wanted.n, "%s: %zu bytes for %zu", what, found.text.n, wanted.n);
	cr_assert(wanted.n == 0 || memcmp(found.text.p, wanted.p, wanted.n) == 0, "%s", what);
	cr_assert_eq(diff(sides, memory, NULL, only_counted, &error), 0);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(counts[i], counts_wanted[i], "%s", what);
		cr_assert_eq(only_counted[i], counts_wanted[i], "%s", what);
		free(rows[i].rows);
	}
	tdl__text_free(&wanted);
	tdl__text_free(&found.text);
}

static void sides_free(struct side sides[2])
{
	for (unsigned i = 0; i < 2; i++)
		for (size_t k = 0; k < FILES; k++)
			tdl__text_free(&sides[i].files[k]);
}

/* ---- Histories ---------------------------------------------------------------------------- */

static size_t below(size_t n)
{
	return (size_t)random() % n;
}

/* A row of `kinds`, or blanks; sometimes none at all ends it. */
static void put_row(tdl__text *text, size_t kinds)
{
	static const char *const blanks[] = { "", "  ", "\r", " \t" };

	if (below(30) == 0)
		tdl__text_format(text, "%s\n", blanks[below(4)]);
	else
		tdl__text_format(text, "{\"k\":%zu,\"s\":\"%.*s\"}\n", below(kinds), (int)below(3),
				 "xyz");
}

/* Two sides of which the new one is the old one after some edits. */
static void make_sides(struct side sides[2], size_t rows, size_t kinds, unsigned edits_in_100)
{
	memset(sides, 0, 2 * sizeof *sides);
	for (unsigned i = 0; i < 2; i++)
		sides[i].count = 1 + below(FILES);
	for (size_t i = 0; i < rows; i++) {
		tdl__text row = { 0 };
		size_t a = i * sides[0].count / rows, b = i * sides[1].count / rows;

		put_row(&row, kinds);
		/* Some rows move far. */
		if (below(100) < edits_in_100 / 2)
			b = below(sides[1].count);
		if (below(100) >= edits_in_100 / 2)
			tdl__text_add(&sides[0].files[a], row.p, row.n);
		if (below(100) >= edits_in_100 / 2)
			tdl__text_add(&sides[1].files[b], row.p, row.n);
		if (below(100) < edits_in_100)
			put_row(&sides[1].files[b], kinds);
		tdl__text_free(&row);
	}
	/* Some files lack their last newline. */
	for (unsigned i = 0; i < 2; i++)
		for (size_t k = 0; k < sides[i].count; k++)
			if (sides[i].files[k].n > 0 && below(3) == 0)
				sides[i].files[k].n--;
}

static unsigned rounds(void)
{
	const char *more = getenv("TDL_ROW_DIFF_ROUNDS");

	return more ? (unsigned)atoi(more) : 300;
}

Test(row_diff, random_histories)
{
	static const size_t kinds[] = { 1, 3, 40, 5000, 1000000 };
	static const uint64_t memory[] = { 1, 20000, 0 };

	for (unsigned seed = 1; seed <= rounds(); seed++) {
		struct side sides[2];
		char what[64];

		srandom(seed);
		make_sides(sides, 1 + below(seed % 10 == 0 ? 6000 : 400), kinds[below(5)],
			   (unsigned)below(101));
		for (unsigned i = 0; i < 3; i++) {
			snprintf(what, sizeof what, "seed %u memory %u", seed, i);
			compare(sides, memory[i], what);
		}
		sides_free(sides);
	}
}

/* Rows that are dealt more than once, and one kind of row that no dealing takes apart. */
Test(row_diff, far_more_than_fits)
{
	struct side sides[2] = { { .count = 2 }, { .count = 1 } };

	for (unsigned i = 0; i < 20000; i++) {
		tdl__text_format(&sides[0].files[i / 10000], "{\"id\":%u}\n", i);
		tdl__text_format(&sides[1].files[0], "{\"id\":%u}\n", 25000 - i);
	}
	compare(sides, 1, "reversed");
	for (unsigned i = 0; i < 5000; i++)
		tdl__text_format(&sides[1].files[0], "{\"id\":1}\n{\"id\":2}\n");
	compare(sides, 1, "one kind");
	sides_free(sides);
}

/* Rows longer than what is read at once. */
Test(row_diff, long_rows)
{
	struct side sides[2] = { { .count = 1 }, { .count = 2 } };
	char *row = malloc(3 << 20);

	memset(row, 'x', 3 << 20);
	for (unsigned i = 0; i < 2; i++) {
		tdl__text_add(&sides[i].files[0], row, (3 << 20) - 1);
		tdl__text_format(&sides[i].files[0], "%u\nshort%u\n", i, i);
	}
	tdl__text_add(&sides[1].files[1], row, 3 << 20);
	compare(sides, 0, "long rows");
	free(row);
	sides_free(sides);
}

Test(row_diff, nothing_on_one_side)
{
	struct side sides[2] = { { .count = 0 }, { .count = 2 } };

	compare(sides, 0, "nothing");
	tdl__text_format(&sides[1].files[1], "b\n\na\nb");
	compare(sides, 0, "only new");
	sides[0].count = 3;
	compare(sides, 0, "old ones are empty");
	sides_free(sides);
}

Test(row_diff, ends_when_told)
{
	struct side sides[2] = { { .count = 1 }, { .count = 1 } };
	struct found found = { .stop_after = 2 };
	uint64_t counts[2];
	tdl_error error = { 0 };

	tdl__text_format(&sides[0].files[0], "a\nb\nc\n");
	tdl__text_format(&sides[1].files[0], "d\n");
	cr_expect_eq(diff(sides, 0, &found, counts, &error), TDL_ERR_STOPPED);
	cr_expect_eq(error.code, TDL_ERR_STOPPED);
	cr_expect_str_eq(found.text.p, "-a\n-b\n");
	tdl__text_free(&found.text);
	sides_free(sides);
}

/* Bytes that are not what they were, when they are read again. */
static int read_changing(void *context, size_t index, void *buffer, size_t count, uint64_t offset,
			 size_t *got, tdl_error *error)
{
	static unsigned calls;

	memset(buffer, ++calls <= 2 ? 'a' + (int)calls : 'z', count);
	*got = count;
	return 0;
}

Test(row_diff, changed_meanwhile)
{
	static const uint64_t size = 5;
	struct tdl__row_files files = { read_changing, NULL, &size, 1 };
	struct found found = { 0 };
	tdl_diff_options options = { .row = on_row, .context = &found };
	uint64_t counts[2];
	tdl_error error = { 0 };

	cr_expect_eq(tdl__row_diff(&files, &files, &options, counts, &error), TDL_ERR_CORRUPT);
	cr_expect_eq(found.text.n, 0);
}

TestSuite(row_diff_files, .init = scratch_begin, .fini = scratch_end);

Test(row_diff_files, where_they_lie)
{
	struct side sides[2] = { { .count = 1 }, { .count = 1 } };
	tdl_error error = { 0 };
	uint64_t counts[2];

	for (unsigned i = 0; i < 100; i++)
		tdl__text_format(&sides[i % 2].files[0], "a%u\n", i);
	make_dir("tmp");
	setenv("TMPDIR", in_scratch("tmp"), 1);
	cr_expect_eq(diff(sides, 1, NULL, counts, &error), 0, "%s", error.message);
	cr_expect_eq(count_in("tmp"), 0);
	setenv("TMPDIR", in_scratch("nowhere"), 1);
	cr_expect_eq(diff(sides, 1, NULL, counts, &error), TDL_ERR_IO);
	cr_expect_not_null(strstr(error.message, in_scratch("nowhere")), "%s", error.message);
	/* With memory enough there is none. */
	cr_expect_eq(diff(sides, 0, NULL, counts, &error), 0);
	sides_free(sides);
}

/* Every call on a temporary file fails once, or moves one byte. */
Test(row_diff, temporary_files_fail)
{
	static const int answers[] = { ENOSPC, EIO, TDL__SYS_SHORT };
	struct side sides[2] = { { .count = 1 }, { .count = 1 } };
	struct found first = { .stop_after = 1 };
	unsigned calls;
	uint64_t counts[2];

	for (unsigned i = 0; i < 100; i++) {
		tdl__text_format(&sides[0].files[0], "a%u\n", i);
		tdl__text_format(&sides[1].files[0], "b%u\n", i);
	}
	faults_count();
	cr_assert_eq(diff(sides, 1, &first, counts, NULL), TDL_ERR_STOPPED);
	calls = faults_off();
	tdl__text_free(&first.text);
	cr_assert_gt(calls, 5);
	for (unsigned nth = 1; nth <= calls; nth++) {
		for (unsigned i = 0; i < 3; i++) {
			struct found found = { 0 };
			tdl_error error = { 0 };
			int r;

			faults_fail_nth(nth, answers[i]);
			r = diff(sides, 1, &found, counts, &error);
			faults_off();
			if (answers[i] == TDL__SYS_SHORT) {
				cr_expect_eq(r, 0, "call %u: %s", nth, error.message);
				cr_expect_eq(counts[0], 100);
			} else {
				cr_expect_eq(r, TDL_ERR_IO, "call %u", nth);
				cr_expect_eq(error.os_error, answers[i]);
			}
			tdl__text_free(&found.text);
		}
	}
	sides_free(sides);
}
