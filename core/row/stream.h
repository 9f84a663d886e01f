/* SPDX-License-Identifier: MIT */
#ifndef TDL_ROWS_H
#define TDL_ROWS_H

#include "tinydelta.h"

/*
 * Rows, checked and rewritten from their bytes: strict JSON and UTF-8, one object a line, checked
 * against a schema; what comes out is the stored form (columns in schema order, no white space,
 * values as they were written, one newline a row). Streaming: memory is bounded by the longest
 * row.
 */
typedef struct tdl__rows tdl__rows;

/* A row, blank or not, may be this long, its newline not counted. */
#define TDL__ROW_MAX ((size_t)256 << 20)
/* An int may have this many digits; the Python reader refuses more. */
#define TDL__DIGITS_MAX 4300

/*
 * Called with stored bytes, in order; a call may end in the middle of a row. `verbatim` says that
 * all bytes put out so far, these included, are exactly the first bytes of the input; once false it
 * stays false. `bytes` is borrowed for the call. A negative tdl_code (with *error filled) stops the
 * scan.
 */
typedef int tdl__rows_sink(void *context, const char *bytes, size_t n, bool verbatim,
			   tdl_error *error);

/* `name` is what messages call the input; schema and name must outlive the scanner. The schema has
 * at least one column. NULL: no memory. */
tdl__rows *tdl__rows_new(const tdl_schema *schema, const char *name, tdl__rows_sink *sink,
			 void *context);
void tdl__rows_free(tdl__rows *rows);

/*
 * Takes the next bytes of the input. Errors: SCHEMA with line and column (messages as in
 * `new.jsonl:3: "year" expected int, got string "x"`), LIMIT, NOMEM, and the sink's. After an
 * error only tdl__rows_free() may follow.
 */
int tdl__rows_feed(tdl__rows *rows, const char *bytes, size_t n, tdl_error *error);

/* The end of the input: takes a last row without newline and calls the sink with what is left.
 * Errors: as tdl__rows_feed(), and EMPTY where there was no row. */
int tdl__rows_finish(tdl__rows *rows, tdl_error *error);

/* The memory it has, which the longest row decides. */
size_t tdl__rows_memory(const tdl__rows *rows);
/* Rows taken so far. */
uint64_t tdl__rows_count(const tdl__rows *rows);
/* Whether the output so far is the input so far, byte for byte (after finish: all of it). */
bool tdl__rows_verbatim(const tdl__rows *rows);

#endif
