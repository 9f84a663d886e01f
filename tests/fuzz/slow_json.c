/* SPDX-License-Identifier: MIT */
/*
 * JSON by recursive descent into trees. Uses nothing of the library.
 */
#include "slow_json.h"

#include <stdlib.h>
#include <string.h>

struct parser {
	const char *p, *end;
	unsigned depth, max_depth;
};

void slow_free(struct slow_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->item_count; i++)
		slow_free(node->items[i]);
	free(node->items);
	free(node->chars);
	free(node);
}

static void *grown(void *array, size_t count, size_t size)
{
	/* One more each time is slow, and simple. */
	array = realloc(array, (count + 1) * size);
	if (!array)
		abort();
	return array;
}

static void add_char(struct slow_node *node, uint32_t c)
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

		if (!found)
			return false;
		value = (uint32_t)(found - digits);
		*unit = *unit * 16 + (value < 16 ? value : value - 6);
		parser->p++;
	}
	return true;
}

static bool string(struct parser *parser, struct slow_node *node)
{
	node->kind = SLOW_STRING;
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
			} else if (found) {
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

static bool number(struct parser *parser, struct slow_node *node)
{
	node->kind = SLOW_INTEGER;
	accept(parser, '-');
	if (!accept(parser, '0') && !digits(parser))
		return false;
	if (accept(parser, '.')) {
		node->kind = SLOW_REAL;
		if (!digits(parser))
			return false;
	}
	if (accept(parser, 'e') || accept(parser, 'E')) {
		node->kind = SLOW_REAL;
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

static struct slow_node *value(struct parser *parser);

static bool add_item(struct parser *parser, struct slow_node *node)
{
	struct slow_node *item = value(parser);

	if (!item)
		return false;
	node->items = grown(node->items, node->item_count, sizeof *node->items);
	node->items[node->item_count++] = item;
	return true;
}

static bool members(struct parser *parser, struct slow_node *node, int closing)
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

static bool fill(struct parser *parser, struct slow_node *node)
{
	switch (peek(parser)) {
	case '{':
	case '[':
		if (++parser->depth > parser->max_depth)
			return false;
		node->kind = *parser->p++ == '{' ? SLOW_OBJECT : SLOW_ARRAY;
		if (!members(parser, node, node->kind == SLOW_OBJECT ? '}' : ']'))
			return false;
		parser->depth--;
		return true;
	case '"':
		return string(parser, node);
	case 't':
		node->kind = SLOW_TRUE;
		return word(parser, "true");
	case 'f':
		node->kind = SLOW_FALSE;
		return word(parser, "false");
	case 'n':
		node->kind = SLOW_NIL;
		return word(parser, "null");
	default:
		return number(parser, node);
	}
}

static struct slow_node *value(struct parser *parser)
{
	struct slow_node *node = calloc(1, sizeof *node);

	if (!node)
		abort();
	node->start = parser->p;
	if (!fill(parser, node)) {
		slow_free(node);
		return NULL;
	}
	node->end = parser->p;
	return node;
}

struct slow_node *slow_parse(const char *text, size_t n, unsigned max_depth)
{
	struct parser parser = { text, text + n, 0, max_depth };
	struct slow_node *node;

	blanks(&parser);
	node = value(&parser);
	blanks(&parser);
	if (parser.p == parser.end)
		return node;
	slow_free(node);
	return NULL;
}

bool slow_json(const char *text, size_t n, unsigned max_depth)
{
	struct slow_node *node = slow_parse(text, n, max_depth);

	slow_free(node);
	return node != NULL;
}

bool slow_is_text(const struct slow_node *string, const char *text, size_t length)
{
	struct parser parser = { text, text + length, 0, 0 };
	uint32_t c;

	for (size_t i = 0; i < string->char_count; i++) {
		if (!code_point(&parser, &c) || c != string->chars[i])
			return false;
	}
	return parser.p == parser.end;
}

static void put_utf8(char **at, uint32_t c)
{
	static const uint32_t most[] = { 0x80, 0x800, 0x10000 };
	static const unsigned char marks[] = { 0, 0xc0, 0xe0, 0xf0 };
	int more = 0;

	while (more < 3 && c >= most[more])
		more++;
	*(*at)++ = (char)(marks[more] | c >> 6 * more);
	while (more-- > 0)
		*(*at)++ = (char)(0x80 | (c >> 6 * more & 0x3f));
}

char *slow_text(const struct slow_node *string)
{
	char *text = malloc(4 * string->char_count + 1), *at = text;

	if (!text)
		abort();
	for (size_t i = 0; i < string->char_count; i++) {
		uint32_t c = string->chars[i];

		if (c == 0 || (c >= 0xd800 && c < 0xe000)) {
			free(text);
			return NULL;
		}
		put_utf8(&at, c);
	}
	*at = '\0';
	return text;
}

const struct slow_node *slow_member(const struct slow_node *object, const char *name)
{
	for (size_t i = object->item_count; i > 0; i -= 2) {
		if (slow_is_text(object->items[i - 2], name, strlen(name)))
			return object->items[i - 1];
	}
	return NULL;
}

bool slow_int64(const struct slow_node *node, int64_t *out)
{
	const char *p = node->start;
	bool negative = *p == '-';
	__int128 sum = 0;

	if (node->kind != SLOW_INTEGER)
		return false;
	for (p += negative; p < node->end; p++) {
		sum = sum * 10 + (*p - '0');
		if (sum > (__int128)INT64_MAX + 1)
			return false;
	}
	sum = negative ? -sum : sum;
	*out = (int64_t)sum;
	return sum <= INT64_MAX;
}
