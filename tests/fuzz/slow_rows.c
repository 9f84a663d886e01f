/* SPDX-License-Identifier: MIT */
/*
 * Rows from the trees of slow_json.c. Uses nothing of the library but the names and types of a
 * schema.
 */
#include "slow_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "slow_json.h"

#define DEEPEST 1100

static void put(struct slow *result, const char *text, size_t n)
{
	result->out = realloc(result->out, result->n + n + 1);
	if (!result->out)
		abort();
	memcpy(result->out + result->n, text, n);
	result->n += n;
	result->out[result->n] = '\0';
}

static void put_text(struct slow *result, const char *text)
{
	put(result, text, strlen(text));
}

static bool is_finite(const struct slow_node *node)
{
	size_t n = (size_t)(node->end - node->start);
	char *copy = malloc(n + 1);
	bool result;

	if (!copy)
		abort();
	memcpy(copy, node->start, n);
	copy[n] = '\0';
	result = isfinite(strtod(copy, NULL));
	free(copy);
	return result;
}

static bool fits(const struct slow_node *node, enum tdl_type type)
{
	size_t n = (size_t)(node->end - node->start);

	if (node->kind == SLOW_NIL)
		return true;
	switch (type) {
	case TDL_INT:
		return node->kind == SLOW_INTEGER && n - (*node->start == '-') <= 4300;
	case TDL_FLOAT:
		return (node->kind == SLOW_INTEGER || node->kind == SLOW_REAL) && is_finite(node);
	case TDL_STR:
		return node->kind == SLOW_STRING;
	default:
		return node->kind == SLOW_TRUE || node->kind == SLOW_FALSE;
	}
}

static void put_node(struct slow *result, const struct slow_node *node, enum tdl_type type)
{
	size_t n = (size_t)(node->end - node->start);

	if (node->kind == SLOW_INTEGER && n == 2 && memcmp(node->start, "-0", 2) == 0) {
		put_text(result, "0");
	} else if (node->kind == SLOW_STRING) {
		for (const char *p = node->start; p < node->end; p++) {
			size_t left = (size_t)(node->end - p);

			if (left >= 2 && memcmp(p, "\xc2\x85", 2) == 0) {
				put_text(result, "\\u0085");
				p += 1;
			} else if (left >= 3 && memcmp(p, "\xe2\x80\xa8", 3) == 0) {
				put_text(result, "\\u2028");
				p += 2;
			} else if (left >= 3 && memcmp(p, "\xe2\x80\xa9", 3) == 0) {
				put_text(result, "\\u2029");
				p += 2;
			} else {
				put(result, p, 1);
			}
		}
	} else {
		put(result, node->start, n);
	}
	if (node->kind == SLOW_INTEGER && type == TDL_FLOAT)
		put_text(result, ".0");
}

/* The stored form of a name, from what rows.jsonl says of keys. */
static void put_name(struct slow *result, const char *name, size_t length)
{
	put_text(result, "\"");
	for (size_t i = 0; i < length; i++) {
		if (name[i] == '"' || name[i] == '\\')
			put_text(result, "\\");
		if (name[i] == '\t') {
			put_text(result, "\\t");
		} else if (length - i >= 3 && memcmp(name + i, "\xe2\x80\xa8", 3) == 0) {
			put_text(result, "\\u2028");
			i += 2;
		} else {
			put(result, name + i, 1);
		}
	}
	put_text(result, "\":");
}

static bool put_row(struct slow *result, const struct slow_node *row, const tdl_schema *schema)
{
	size_t count = tdl_schema_count(schema);

	/* Each member is a column's, each column has one member. */
	if (row->kind != SLOW_OBJECT || row->item_count != 2 * count)
		return false;
	for (size_t column = 0; column < count; column++) {
		size_t length, found = 0;
		const char *name = tdl_schema_name(schema, column, &length);
		const struct slow_node *node = NULL;

		for (size_t i = 0; i < row->item_count; i += 2) {
			if (slow_is_text(row->items[i], name, length)) {
				node = row->items[i + 1];
				found++;
			}
		}
		if (found != 1 || !fits(node, tdl_schema_type(schema, column)))
			return false;
		put_text(result, column == 0 ? "{" : ",");
		put_name(result, name, length);
		put_node(result, node, tdl_schema_type(schema, column));
	}
	put_text(result, "}\n");
	return true;
}

static bool is_blank(const char *line, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
			return false;
	}
	return true;
}

void slow_rows(const tdl_schema *schema, const char *in, size_t n, struct slow *result)
{
	size_t at = n >= 3 && memcmp(in, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	memset(result, 0, sizeof *result);
	put_text(result, "");
	for (size_t line = 1; at < n; line++) {
		size_t length = 0;

		while (at + length < n && in[at + length] != '\n')
			length++;
		if (!is_blank(in + at, length)) {
			struct slow_node *row = slow_parse(in + at, length, DEEPEST);
			bool good = row && put_row(result, row, schema);

			slow_free(row);
			if (!good) {
				result->line = line;
				return;
			}
			result->rows++;
		}
		at += length + 1;
	}
	result->good = result->rows > 0;
}

void slow_clear(struct slow *result)
{
	free(result->out);
	memset(result, 0, sizeof *result);
}
