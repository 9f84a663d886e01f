/* SPDX-License-Identifier: MIT */
/*
 * What a refused line is told: one sentence with the input's name, the line, the place and as much
 * of the hostile text as is harmless. Checks nothing itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "row/parse.h"
#include "row/schema.h"
#include "row/stream.h"
#include "util/escape.h"
#include "util/simd.h"
#include "json/scan.h"

#define SHOWN 44  /* bytes of a value, at most */
#define NAMES 360 /* bytes of a list of columns, at most */

static const char one_object[] = "each line must hold one complete object";

/* A list of names as it grows; what does not fit is counted. */
struct list {
	char text[NAMES];
	size_t used, named, left_out;
};

static void list_add(struct list *list, const char *name, size_t n)
{
	char shown[SHOWN];

	tdl__printable(shown, sizeof shown, name, n);
	if (list->left_out > 0 || list->used + strlen(shown) + 3 > sizeof list->text) {
		list->left_out++;
		return;
	}
	list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
				       "%s%s", list->named > 0 ? ", " : "", shown);
	list->named++;
}

static int list_fail(struct list *list, const char *what, const char *where, uint64_t number,
		     uint64_t column, tdl_error *error)
{
	char more[40] = "";

	if (list->left_out > 0)
		snprintf(more, sizeof more, " and %zu more", list->left_out);
	return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column, "%s: %s column%s %s%s",
			    where, what, list->named + list->left_out > 1 ? "s" : "", list->text,
			    more);
}

static int by_bytes(const void *a, const void *b)
{
	const tdl__span *x = a, *y = b;
	int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

static int fail_unknown(const struct tdl__row *row, const char *where, uint64_t number,
			uint64_t column, tdl_error *error)
{
	tdl__span keys[TDL__UNKNOWN_SHOWN];
	struct list list = { .used = 0 };
	size_t n =
		row->unknown_count < TDL__UNKNOWN_SHOWN ? row->unknown_count : TDL__UNKNOWN_SHOWN;

	memcpy(keys, row->unknown, n * sizeof *keys);
	qsort(keys, n, sizeof *keys, by_bytes);
	for (size_t i = 0; i < n; i++)
		list_add(&list, keys[i].p, keys[i].n);
	list.left_out += row->unknown_count - n;
	return list_fail(&list, "unknown", where, number, column, error);
}

static int fail_missing(const struct tdl__row *row, const char *where, uint64_t number,
			tdl_error *error)
{
	struct list list = { .used = 0 };

	for (size_t i = 0; i < row->count; i++) {
		if (!row->values[i].p)
			list_add(&list, row->column_keys[i].whole + 1,
				 row->column_keys[i].length - 2);
	}
	return list_fail(&list, "missing", where, number, 0, error);
}

/* What kind of value starts with this byte. */
static const char *kind_of(char c)
{
	switch (c) {
	case '"':
		return "string";
	case '[':
		return "array";
	case '{':
		return "object";
	case 't':
	case 'f':
		return "bool";
	case 'n':
		return "null";
	default:
		return "number";
	}
}

/* Length of the word at p: what a mistyped number or literal looks like. */
static size_t word_length(const char *p, const char *end)
{
	const char *q = p;

	while (q < end && tdl__is_word(*q))
		q++;
	return (size_t)(q - p);
}

static bool is_text(const char *p, const char *end, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(end - p) >= n && memcmp(p, text, n) == 0;
}

/* What stands at p, where something else is due, in words. */
static void describe_text(char *out, size_t cap, const char *p, const char *end)
{
	char shown[SHOWN];
	size_t word = word_length(p, end);

	if (*p == '\0') {
		snprintf(out, cap, "a NUL byte");
	} else if (is_text(p, end, "\xef\xbb\xbf")) {
		snprintf(out, cap, "a byte order mark");
	} else if ((unsigned char)*p < 0x20 || *p == 0x7f) {
		snprintf(out, cap, "control byte 0x%02x", (unsigned char)*p);
	} else if ((unsigned char)*p >= 0x80) {
		/* Which character it is may be hard to see. */
		size_t len = tdl__utf8_length(p, (size_t)(end - p));

		snprintf(out, cap, "U+%04X", tdl__utf8_code(p, len));
	} else {
		snprintf(out, cap, "%s",
			 tdl__printable(shown, sizeof shown, p, word > 0 ? word : 1));
	}
}

static int fail_object(const char *p, const char *end, const char *where, uint64_t number,
		       uint64_t column, tdl_error *error)
{
	char got[80];
	const char *bad;

	if (*p == '[' || *p == '"' || *p == '-' || (*p >= '0' && *p <= '9')) {
		snprintf(got, sizeof got, "%s", kind_of(*p));
	} else {
		const char *behind = tdl__scan_literal(p, end, &bad);

		if (behind && !tdl__is_word(*behind))
			snprintf(got, sizeof got, "%s", kind_of(*p));
		else
			describe_text(got, sizeof got, p, end);
	}
	return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
			    "%s: expected an object, got %s; %s", where, got, one_object);
}

static int fail_syntax(const struct tdl__row_error *row_error, const char *end, const char *where,
		       uint64_t number, uint64_t column, tdl_error *error)
{
	const char *at = row_error->at;
	char got[80];

	if (at == end)
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: the line ends inside the row; %s", where, one_object);
	if ((unsigned char)*at >= 0x80 && tdl__utf8_length(at, (size_t)(end - at)) == 0)
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: byte %" PRIu64 ": invalid UTF-8 (byte 0x%02x)", where,
				    column, (unsigned char)*at);
	if (is_text(at, end, "NaN") || is_text(at, end, "Infinity"))
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: byte %" PRIu64 ": NaN and Infinity are not JSON", where,
				    column);
	if (row_error->kind == TDL__ROW_ERROR_STRING) {
		/* Only what may not stand in a string, or not behind a backslash, stops one. */
		if ((unsigned char)*at < 0x20)
			return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
					    "%s: byte %" PRIu64
					    ": control byte 0x%02x in a string must be an escape",
					    where, column, (unsigned char)*at);
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: byte %" PRIu64 ": invalid escape in a string", where,
				    column);
	}
	if (row_error->kind == TDL__ROW_ERROR_NUMBER) {
		char shown[SHOWN];

		tdl__printable(shown, sizeof shown, row_error->value,
			       word_length(row_error->value, end));
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: byte %" PRIu64 ": %s is not a number as JSON writes it",
				    where, column, shown);
	}
	if (row_error->expected == tdl__row_end && *at == '{' && at[-1] == '\r')
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: byte %" PRIu64 ": a CR alone does not end a line; "
				    "convert the file with: tr '\\r' '\\n'",
				    where, column);
	describe_text(got, sizeof got, at, end);
	return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
			    "%s: byte %" PRIu64 ": expected %s, got %s", where, column,
			    row_error->expected, got);
}

int tdl__row_fail(const struct tdl__row *row, const char *line, size_t n, const char *name,
		  uint64_t number, size_t skipped, tdl_error *error)
{
	const struct tdl__row_error *row_error = &row->error;
	const char *end = line + n;
	uint64_t column = (uint64_t)(row_error->at - line) + skipped + 1;
	char printable_name[256], where[288], key[SHOWN], value[SHOWN];

	tdl__printable(printable_name, sizeof printable_name, name, strlen(name));
	snprintf(where, sizeof where, "%s:%" PRIu64, printable_name, number);
	tdl__printable(key, sizeof key, row->column_keys[row_error->column].whole + 1,
		       row->column_keys[row_error->column].length - 2);
	tdl__printable(value, sizeof value, row_error->at, row_error->n);
	switch (row_error->kind) {
	case TDL__ROW_ERROR_OBJECT:
		if ((unsigned char)*row_error->at < 0x80 ||
		    tdl__utf8_length(row_error->at, (size_t)(end - row_error->at)) > 0)
			return fail_object(row_error->at, end, where, number, column, error);
		break;
	case TDL__ROW_ERROR_TYPE:
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: %s expected %s, got %s %s", where, key,
				    tdl_type_name(row->column_keys[row_error->column].type),
				    kind_of(*row_error->at), value);
	case TDL__ROW_ERROR_RANGE:
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: %s is out of the range of a float: %s", where, key, value);
	case TDL__ROW_ERROR_DIGITS:
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: %s has %zu digits; an int may have %d", where, key,
				    row_error->n - (*row_error->at == '-'), TDL__DIGITS_MAX);
	case TDL__ROW_ERROR_UNKNOWN:
		return fail_unknown(row, where, number, column, error);
	case TDL__ROW_ERROR_DUPLICATE:
		return tdl__fail_at(error, TDL_ERR_SCHEMA, -1, number, column,
				    "%s: column %s is there twice", where, key);
	case TDL__ROW_ERROR_MISSING:
		return fail_missing(row, where, number, error);
	case TDL__ROW_ERROR_SYNTAX:
	case TDL__ROW_ERROR_NUMBER:
	case TDL__ROW_ERROR_STRING:
		break;
	}
	return fail_syntax(row_error, end, where, number, column, error);
}
