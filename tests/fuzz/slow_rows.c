/* SPDX-License-Identifier: MIT */
/*
 * Rows by recursive descent into trees. Uses nothing of the library but the names and types of a
 * schema.
 */
#include "slow_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 1100

enum kind {
	OBJECT,
	ARRAY,
	STRING,
	INTEGER,
	REAL,
	TRUE,
	FALSE,
	NIL
};

struct node {
	enum kind kind;
	const char *start, *end; /* its text */
	uint32_t *chars;	 /* of a string: code points, lone surrogates among them */
	size_t char_count;
	struct node **items; /* of an array; of an object keys and values in turn */
	size_t item_count;
};

struct parser {
	const char *p, *end;
	unsigned depth, max_depth;
};

static void free_node(struct node *node)
{
	if (node == NULL)
		return;
	for (size_t i = 0; i < node->item_count; i++)
		free_node(node->items[i]);
	free(node->items);
	free(node->chars);
	free(node);
}

static void *grown(void *array, size_t count, size_t size)
{
	/* One more each time is slow, and simple. */
	array = realloc(array, (count + 1) * size);
	if (array == NULL)
		abort();
	return array;
}

static void add_char(struct node *node, uint32_t c)
{
	node->chars = grown(node->chars, node->char_count, sizeof *node->chars);
	node->chars[node->char_count++] = c;
}

static int peek(const struct parser *parser)
{
	return parser->p < parser->end ? (unsigned char)*parser->p : -1;
}

static bool accept(struct parser *parser, int c)
{
	if (peek(parser) != c)
		return false;
	parser->p++;
	return true;
}

static void blanks(struct parser *parser)
{
	while (accept(parser, ' ') || accept(parser, '\t') || accept(parser, '\r') ||
	       accept(parser, '\n'))
		;
}

/* A code point of UTF-8 by its value; false where it is none. */
static bool code_point(struct parser *parser, uint32_t *c)
{
	int first = peek(parser);
	int more = first < 0x80 ? 0 : first < 0xc0 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };

	if (first < 0 || more < 0 || first >= 0xf8)
		return false;
	*c = more == 0 ? (uint32_t)first : (uint32_t)first & (0x3fu >> more);
	parser->p++;
	for (int i = 0; i < more; i++) {
		int next = peek(parser);

		if (next < 0x80 || next >= 0xc0)
			return false;
		*c = *c * 64 + (uint32_t)(next - 0x80);
		parser->p++;
	}
	return *c >= least[more] && *c <= 0x10ffff && (*c < 0xd800 || *c > 0xdfff);
}

static bool hex4(struct parser *parser, uint32_t *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdefABCDEF";
		int c = peek(parser);
		const char *found = c > 0 ? strchr(digits, c) : NULL;
		uint32_t value;

		if (found == NULL)
			return false;
		value = (uint32_t)(found - digits);
		*unit = *unit * 16 + (value < 16 ? value : value - 6);
		parser->p++;
	}
	return true;
}

static bool string(struct parser *parser, struct node *node)
{
	node->kind = STRING;
	if (!accept(parser, '"'))
		return false;
	while (!accept(parser, '"')) {
		uint32_t c;

		if (accept(parser, '\\')) {
			static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
			int letter = peek(parser);
			const char *found = letter > 0 ? strchr(letters, letter) : NULL;

			if (accept(parser, 'u')) {
				if (!hex4(parser, &c))
					return false;
			} else if (found != NULL) {
				c = (uint32_t)meant[found - letters];
				parser->p++;
			} else {
				return false;
			}
		} else if (!code_point(parser, &c) || c < 0x20) {
			return false;
		}
		/* Two halves make one, whatever they are written as; raw ones do not exist. */
		if (c >= 0xdc00 && c < 0xe000 && node->char_count > 0 &&
		    node->chars[node->char_count - 1] >= 0xd800 &&
		    node->chars[node->char_count - 1] < 0xdc00)
			node->chars[node->char_count - 1] =
				0x10000 + (node->chars[node->char_count - 1] - 0xd800) * 0x400 +
				(c - 0xdc00);
		else
			add_char(node, c);
	}
	return true;
}

static bool digits(struct parser *parser)
{
	const char *start = parser->p;

	while (peek(parser) >= '0' && peek(parser) <= '9')
		parser->p++;
	return parser->p > start;
}

static bool number(struct parser *parser, struct node *node)
{
	node->kind = INTEGER;
	accept(parser, '-');
	if (!accept(parser, '0') && !digits(parser))
		return false;
	if (accept(parser, '.')) {
		node->kind = REAL;
		if (!digits(parser))
			return false;
	}
	if (accept(parser, 'e') || accept(parser, 'E')) {
		node->kind = REAL;
		if (!accept(parser, '+'))
			accept(parser, '-');
		if (!digits(parser))
			return false;
	}
	return true;
}

static bool word(struct parser *parser, const char *text)
{
	while (*text != '\0') {
		if (!accept(parser, *text++))
			return false;
	}
	return true;
}

static struct node *value(struct parser *parser);

static bool add_item(struct parser *parser, struct node *node)
{
	struct node *item = value(parser);

	if (item == NULL)
		return false;
	node->items = grown(node->items, node->item_count, sizeof *node->items);
	node->items[node->item_count++] = item;
	return true;
}

static bool members(struct parser *parser, struct node *node, int closing)
{
	blanks(parser);
	if (accept(parser, closing))
		return true;
	do {
		blanks(parser);
		if (closing == '}') {
			if (peek(parser) != '"' || !add_item(parser, node))
				return false;
			blanks(parser);
			if (!accept(parser, ':'))
				return false;
			blanks(parser);
		}
		if (!add_item(parser, node))
			return false;
		blanks(parser);
	} while (accept(parser, ','));
	return accept(parser, closing);
}

static bool fill(struct parser *parser, struct node *node)
{
	switch (peek(parser)) {
	case '{':
	case '[':
		if (++parser->depth > parser->max_depth)
			return false;
		node->kind = *parser->p++ == '{' ? OBJECT : ARRAY;
		if (!members(parser, node, node->kind == OBJECT ? '}' : ']'))
			return false;
		parser->depth--;
		return true;
	case '"':
		return string(parser, node);
	case 't':
		node->kind = TRUE;
		return word(parser, "true");
	case 'f':
		node->kind = FALSE;
		return word(parser, "false");
	case 'n':
		node->kind = NIL;
		return word(parser, "null");
	default:
		return number(parser, node);
	}
}

static struct node *value(struct parser *parser)
{
	struct node *node = calloc(1, sizeof *node);

	if (node == NULL)
		abort();
	node->start = parser->p;
	if (!fill(parser, node)) {
		free_node(node);
		return NULL;
	}
	node->end = parser->p;
	return node;
}

static struct node *parse(const char *text, size_t n, unsigned max_depth)
{
	struct parser parser = { text, text + n, 0, max_depth };
	struct node *node;

	blanks(&parser);
	node = value(&parser);
	blanks(&parser);
	if (parser.p == parser.end)
		return node;
	free_node(node);
	return NULL;
}

bool slow_json(const char *text, size_t n, unsigned max_depth)
{
	struct node *node = parse(text, n, max_depth);

	free_node(node);
	return node != NULL;
}

/* ---- Rows --------------------------------------------------------------------------------- */

static void put(struct slow *result, const char *text, size_t n)
{
	result->out = realloc(result->out, result->n + n + 1);
	if (result->out == NULL)
		abort();
	memcpy(result->out + result->n, text, n);
	result->n += n;
	result->out[result->n] = '\0';
}

static void put_text(struct slow *result, const char *text)
{
	put(result, text, strlen(text));
}

static bool is_named(const struct node *key, const char *name, size_t length)
{
	struct parser parser = { name, name + length, 0, 0 };
	uint32_t c;

	for (size_t i = 0; i < key->char_count; i++) {
		if (!code_point(&parser, &c) || c != key->chars[i])
			return false;
	}
	return parser.p == parser.end;
}

static bool is_finite(const struct node *node)
{
	size_t n = (size_t)(node->end - node->start);
	char *copy = malloc(n + 1);
	bool result;

	if (copy == NULL)
		abort();
	memcpy(copy, node->start, n);
	copy[n] = '\0';
	result = isfinite(strtod(copy, NULL));
	free(copy);
	return result;
}

static bool fits(const struct node *node, enum tdl_type type)
{
	size_t n = (size_t)(node->end - node->start);

	if (node->kind == NIL)
		return true;
	switch (type) {
	case TDL_INT:
		return node->kind == INTEGER && n - (*node->start == '-') <= 4300;
	case TDL_FLOAT:
		return (node->kind == INTEGER || node->kind == REAL) && is_finite(node);
	case TDL_STR:
		return node->kind == STRING;
	default:
		return node->kind == TRUE || node->kind == FALSE;
	}
}

static void put_node(struct slow *result, const struct node *node, enum tdl_type type)
{
	size_t n = (size_t)(node->end - node->start);

	if (node->kind == INTEGER && n == 2 && memcmp(node->start, "-0", 2) == 0) {
		put_text(result, "0");
	} else if (node->kind == STRING) {
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
	if (node->kind == INTEGER && type == TDL_FLOAT)
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

static bool put_row(struct slow *result, const struct node *row, const tdl_schema *schema)
{
	size_t count = tdl_schema_count(schema);

	/* Each member is a column's, each column has one member. */
	if (row->kind != OBJECT || row->item_count != 2 * count)
		return false;
	for (size_t column = 0; column < count; column++) {
		size_t length, found = 0;
		const char *name = tdl_schema_name(schema, column, &length);
		const struct node *node = NULL;

		for (size_t i = 0; i < row->item_count; i += 2) {
			if (is_named(row->items[i], name, length)) {
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
			struct node *row = parse(in + at, length, DEEPEST);
			bool good = row != NULL && put_row(result, row, schema);

			free_node(row);
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
