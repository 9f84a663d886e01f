/* SPDX-License-Identifier: MIT */
/*
 * The stream round the rows: cuts chunks into lines, keeps the beginning of a line until its end
 * comes, counts, and puts out what is stored. Rows that are in stored form go to the sink from
 * where they are; rewritten ones by way of a buffer. What a row may look like is row.h's.
 */
#include "row/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "row/magic.h"
#include "row/parse.h"
#include "util/escape.h"
#include "util/simd.h"
#include "json/scan.h"

/* Rewritten rows are gathered to this many bytes; so are shorter runs of stored ones between. */
#define OUT_SIZE ((size_t)64 << 10)
#define RUN_MIN	 ((size_t)8 << 10)

/* After this many bytes the line's start is checked, so that hopeless input is refused before it is
 * buffered. */
#define REJECT_AFTER ((size_t)4096)

/* After so many rows in a row that were not in stored form, only one in so many is tried. */
#define FAST_PATH_MISSES_MAX 8
#define FAST_PATH_TRY_EVERY  32

struct tdl__rows {
	struct tdl__row row;
	const char *name;
	tdl__rows_sink *sink;
	void *context;

	char head[TDL__SNIFF_MAX]; /* the first bytes of the input until there are enough */
	size_t head_used;
	bool started;
	size_t bom_size; /* bytes of the byte order mark that was dropped */

	char *partial; /* a line whose end is yet to come; TDL__ROW_SLACK bytes of room behind */
	size_t partial_used, partial_size;

	char *out; /* OUT_SIZE bytes and TDL__ROW_SLACK of room behind */
	size_t out_used;

	uint64_t lines; /* complete ones */
	uint64_t count; /* rows */
	unsigned fast_path_misses;
	bool verbatim;
};

tdl__rows *tdl__rows_new(const tdl_schema *schema, const char *name, tdl__rows_sink *sink,
			 void *context)
{
	tdl__rows *rows = calloc(1, sizeof *rows);

	if (!rows)
		return NULL;
	rows->name = name;
	rows->sink = sink;
	rows->context = context;
	rows->verbatim = true;
	rows->partial_size = REJECT_AFTER;
	rows->partial = malloc(rows->partial_size + TDL__ROW_SLACK);
	rows->out = malloc(OUT_SIZE + TDL__ROW_SLACK);
	if (!rows->partial || !rows->out || !tdl__row_init(&rows->row, schema)) {
		tdl__rows_free(rows);
		return NULL;
	}
	return rows;
}

void tdl__rows_free(tdl__rows *rows)
{
	if (!rows)
		return;
	tdl__row_clear(&rows->row);
	free(rows->partial);
	free(rows->out);
	free(rows);
}

size_t tdl__rows_memory(const tdl__rows *rows)
{
	return OUT_SIZE + rows->partial_size;
}

uint64_t tdl__rows_count(const tdl__rows *rows)
{
	return rows->count;
}

bool tdl__rows_verbatim(const tdl__rows *rows)
{
	return rows->verbatim;
}

/* ---- Putting out -------------------------------------------------------------------------- */

static int flush_out(tdl__rows *rows, tdl_error *error)
{
	size_t n = rows->out_used;

	rows->out_used = 0;
	return n == 0 ? 0 : rows->sink(rows->context, rows->out, n, rows->verbatim, error);
}

/* Any number of bytes, which need not be whole rows. */
static int put_bytes(tdl__rows *rows, const char *p, size_t n, tdl_error *error)
{
	int r;

	if (n > OUT_SIZE - rows->out_used) {
		r = flush_out(rows, error);
		if (r < 0)
			return r;
		if (n > OUT_SIZE)
			return rows->sink(rows->context, p, n, rows->verbatim, error);
	}
	memcpy(rows->out + rows->out_used, p, n);
	rows->out_used += n;
	return 0;
}

/* Rows in stored form. As long as everything was, they are not copied. */
static int put_run(tdl__rows *rows, const char *p, const char *end, tdl_error *error)
{
	size_t n = (size_t)(end - p);
	int r;

	if (n == 0)
		return 0;
	if (!rows->verbatim && n < RUN_MIN)
		return put_bytes(rows, p, n, error);
	r = flush_out(rows, error);
	return r < 0 ? r : rows->sink(rows->context, p, n, rows->verbatim, error);
}

/* A string with the characters that a Python reader takes for ends of lines as escapes. */
static int put_splits(tdl__rows *rows, const char *p, size_t n, tdl_error *error)
{
	const char *end = p + n, *from = p;
	int r;

	while (p < end) {
		size_t len = tdl__utf8_length(p, (size_t)(end - p));

		if (tdl__splits_line(p, len)) {
			const char *escape = len == 2	      ? "\\u0085"
					     : p[2] == '\xa8' ? "\\u2028"
							      : "\\u2029";

			r = put_bytes(rows, from, (size_t)(p - from), error);
			if (r < 0 || (r = put_bytes(rows, escape, 6, error)) < 0)
				return r;
			from = p + len;
		}
		p += len;
	}
	return put_bytes(rows, from, (size_t)(end - from), error);
}

static int put_value(tdl__rows *rows, const struct tdl__value *value, tdl_error *error)
{
	int r;

	switch (value->rewrite) {
	case TDL__SPLITS:
		return put_splits(rows, value->p, value->n, error);
	case TDL__ZERO_INT:
		return put_bytes(rows, "0", 1, error);
	case TDL__ZERO_FLOAT:
		return put_bytes(rows, "0.0", 3, error);
	case TDL__WHOLE_FLOAT:
		r = put_bytes(rows, value->p, value->n, error);
		return r < 0 ? r : put_bytes(rows, ".0", 2, error);
	case TDL__AS_WRITTEN:
		break;
	}
	return put_bytes(rows, value->p, value->n, error);
}

/* Copies n bytes where there is room, and slack behind both ends. */
static inline char *copy_bytes(char *out, const char *p, size_t n)
{
	memcpy(out, p, 16);
	if (n > 16)
		memcpy(out + 16, p + 16, n - 16);
	return out + n;
}

/* The row parsed last where there is room for all of it. */
static void copy_row(tdl__rows *rows)
{
	const struct tdl__row *row = &rows->row;
	char *out = rows->out + rows->out_used;

	for (size_t i = 0; i < row->count; i++) {
		const struct tdl__value *value = &row->values[i];
		const struct tdl__column_key *column_key = &row->column_keys[i];

		memcpy(out, column_key->lead, 16);
		if (column_key->length > 16)
			memcpy(out + 16, column_key->whole + 16, column_key->length - 16);
		out += column_key->length;
		if (value->rewrite == TDL__ZERO_INT || value->rewrite == TDL__ZERO_FLOAT)
			*out++ = '0';
		else
			out = copy_bytes(out, value->p, value->n);
		if (value->rewrite == TDL__ZERO_FLOAT || value->rewrite == TDL__WHOLE_FLOAT) {
			*out++ = '.';
			*out++ = '0';
		}
	}
	memcpy(out, "}\n", 2);
	rows->out_used = (size_t)(out + 2 - rows->out);
}

/* The row parsed last, whose line has n bytes, as it is stored. */
static int put_row(tdl__rows *rows, size_t n, tdl_error *error)
{
	const struct tdl__row *row = &rows->row;
	/* An upper bound, if no character becomes an escape: a value grows by two bytes. */
	size_t most = n + row->texts_length + 2 * row->count + 2;
	int r = 0;

	if (!row->splits && most <= OUT_SIZE) {
		if (most > OUT_SIZE - rows->out_used)
			r = flush_out(rows, error);
		if (r == 0)
			copy_row(rows);
		return r;
	}
	for (size_t i = 0; i < row->count && r == 0; i++) {
		r = put_bytes(rows, row->column_keys[i].whole, row->column_keys[i].length, error);
		if (r == 0)
			r = put_value(rows, &row->values[i], error);
	}
	return r < 0 ? r : put_bytes(rows, "}\n", 2, error);
}

/* ---- Lines -------------------------------------------------------------------------------- */

static int fail_row(tdl__rows *rows, const char *line, size_t n, tdl_error *error)
{
	uint64_t number = rows->lines + 1;

	return tdl__row_fail(&rows->row, line, n, rows->name, number,
			     number == 1 ? rows->bom_size : 0, error);
}

/* The beginning of a line, n bytes of it with a newline set behind them: refuses it where no row
 * starts like that, before the rest is waited for. Decided from its first REJECT_AFTER bytes. */
static int reject_early(tdl__rows *rows, const char *line, size_t n, tdl_error *error)
{
	size_t blank = 0;

	while (blank < REJECT_AFTER && tdl__is_blank(line[blank]))
		blank++;
	/* Leave enough behind it for a message that does not depend on where the chunk ends. */
	if (blank >= REJECT_AFTER - TDL__ROW_SLACK || line[blank] == '{')
		return 0;
	tdl__row_parse(&rows->row, line, n);
	return fail_row(rows, line, n, error);
}

static int fail_long(tdl__rows *rows, tdl_error *error)
{
	char name[256];
	uint64_t number = rows->lines + 1;

	tdl__printable(name, sizeof name, rows->name, strlen(rows->name));
	return tdl__fail_at(error, TDL_ERR_LIMIT, -1, number, 0,
			    "%s:%" PRIu64 ": the row is longer than %zu MiB", name, number,
			    TDL__ROW_MAX >> 20);
}

/* Whether to try the fast way for the next row. */
static inline bool tries_fast_path(tdl__rows *rows)
{
	return rows->fast_path_misses < FAST_PATH_MISSES_MAX ||
	       ++rows->fast_path_misses % FAST_PATH_TRY_EVERY == 0;
}

/* Takes the lines from p on; the last byte before `end` is a newline, TDL__ROW_SLACK more may be
 * looked at. */
static int take_lines(tdl__rows *rows, const char *p, const char *end, tdl_error *error)
{
	const char *run = p; /* rows in stored form, not yet put out, from here to p */
	int r;

	while (p < end) {
		const char *line, *newline;
		bool blank;
		size_t n;

		if (tries_fast_path(rows)) {
			uint64_t taken = 0;

			p = tdl__row_match(&rows->row, p, end, &taken);
			rows->count += taken;
			rows->lines += taken;
			if (taken > 0)
				rows->fast_path_misses = 0;
			if (p == end)
				break;
		}
		line = p;
		newline = memchr(p, '\n', (size_t)(end - p));
		n = (size_t)(newline - line);
		if (n > TDL__ROW_MAX) {
			r = reject_early(rows, line, n, error);
			return r < 0 ? r : fail_long(rows, error);
		}
		p = newline + 1;
		blank = (unsigned char)*line <= ' ' && tdl__skip_blank(line, newline) == newline;
		if (!blank) {
			if (!tdl__row_parse(&rows->row, line, n))
				return fail_row(rows, line, n, error);
			rows->count++;
		}
		rows->lines++;
		if (!blank && rows->row.stored_form)
			continue;
		r = put_run(rows, run, line, error);
		rows->verbatim = false;
		if (r < 0 || (!blank && (r = put_row(rows, n, error)) < 0))
			return r;
		rows->fast_path_misses += rows->fast_path_misses < FAST_PATH_MISSES_MAX && !blank;
		run = p;
	}
	return put_run(rows, run, end, error);
}

/* ---- Chunks ------------------------------------------------------------------------------- */

static int reserve_partial(tdl__rows *rows, size_t need, tdl_error *error)
{
	size_t size = rows->partial_size;
	char *partial;

	if (need <= size)
		return 0;
	/* Half more each time; what is not used of it costs no memory. */
	while (size < need)
		size += size / 2;
	partial = realloc(rows->partial, size + TDL__ROW_SLACK);
	if (!partial)
		return tdl__fail_nomem(error);
	rows->partial = partial;
	rows->partial_size = size;
	return 0;
}

/* Sets the newline behind the partial line, and defined bytes behind that. */
static void partial_close(tdl__rows *rows)
{
	rows->partial[rows->partial_used] = '\n';
	memset(rows->partial + rows->partial_used + 1, 0, TDL__ROW_SLACK - 1);
}

/* Adds to the line whose end is yet to come. */
static int partial_add(tdl__rows *rows, const char *p, size_t n, tdl_error *error)
{
	size_t before = rows->partial_used, most = TDL__ROW_MAX - before;
	bool too_long = n > most;
	int r;

	if (too_long)
		n = most;
	r = reserve_partial(rows, before + n + 1, error);
	if (r < 0)
		return r;
	memcpy(rows->partial + before, p, n);
	rows->partial_used = before + n;
	if (before < REJECT_AFTER && rows->partial_used >= REJECT_AFTER) {
		partial_close(rows);
		r = reject_early(rows, rows->partial, rows->partial_used, error);
		if (r < 0)
			return r;
	}
	return too_long ? fail_long(rows, error) : 0;
}

/* The end of the partial line. */
static int partial_end(tdl__rows *rows, tdl_error *error)
{
	size_t n = rows->partial_used;

	partial_close(rows);
	rows->partial_used = 0;
	return take_lines(rows, rows->partial, rows->partial + n + 1, error);
}

static int take_chunk(tdl__rows *rows, const char *p, size_t n, tdl_error *error)
{
	const char *end = p + n;
	int r = 0;

	while (p < end && r == 0) {
		const char *newline = NULL;

		n = (size_t)(end - p);
		/* All whole lines that have enough bytes behind them are taken where they are. */
		if (rows->partial_used == 0 && n > TDL__ROW_SLACK)
			newline = memrchr(p, '\n', n - TDL__ROW_SLACK);
		if (newline) {
			r = take_lines(rows, p, newline + 1, error);
			p = newline + 1;
			continue;
		}
		newline = memchr(p, '\n', n);
		r = partial_add(rows, p, (size_t)((newline ? newline : end) - p), error);
		if (r < 0 || !newline)
			break;
		r = partial_end(rows, error);
		p = newline + 1;
	}
	return r;
}

/* The first bytes are there, all of them or enough. */
static int start_input(tdl__rows *rows, tdl_error *error)
{
	const char *foreign = tdl__sniff(rows->head, rows->head_used);
	char name[256];

	rows->started = true;
	if (foreign) {
		tdl__printable(name, sizeof name, rows->name, strlen(rows->name));
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, 1, 0, "%s:1: %s", name, foreign);
	}
	if (rows->head_used >= 3 && memcmp(rows->head, "\xef\xbb\xbf", 3) == 0) {
		rows->bom_size = 3;
		rows->verbatim = false;
	}
	return take_chunk(rows, rows->head + rows->bom_size, rows->head_used - rows->bom_size,
			  error);
}

int tdl__rows_feed(tdl__rows *rows, const char *bytes, size_t n, tdl_error *error)
{
	if (n == 0)
		return 0;
	if (!rows->started) {
		size_t take = sizeof rows->head - rows->head_used;
		int r;

		if (take > n)
			take = n;
		memcpy(rows->head + rows->head_used, bytes, take);
		rows->head_used += take;
		bytes += take;
		n -= take;
		if (rows->head_used < sizeof rows->head)
			return 0;
		r = start_input(rows, error);
		if (r < 0)
			return r;
	}
	return take_chunk(rows, bytes, n, error);
}

int tdl__rows_finish(tdl__rows *rows, tdl_error *error)
{
	char name[256];
	int r = 0;

	if (!rows->started)
		r = start_input(rows, error);
	if (r == 0 && rows->partial_used > 0) {
		/* The newline put out behind it is not in the input. */
		rows->verbatim = false;
		r = partial_end(rows, error);
	}
	if (r == 0)
		r = flush_out(rows, error);
	if (r < 0 || rows->count > 0)
		return r;
	tdl__printable(name, sizeof name, rows->name, strlen(rows->name));
	return tdl__fail(error, TDL_ERR_EMPTY, "%s: no rows", name);
}
