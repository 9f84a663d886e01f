/* SPDX-License-Identifier: MIT */
#ifndef SLOW_JSON_H
#define SLOW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A reader of JSON that shares nothing with the library's: it recurses and builds trees, decodes
 * every string, and is slow, simple and meant to be checked by eye.
 */
enum slow_kind {
	SLOW_OBJECT,
	SLOW_ARRAY,
	SLOW_STRING,
	SLOW_INTEGER,
	SLOW_REAL,
	SLOW_TRUE,
	SLOW_FALSE,
	SLOW_NIL
};

struct slow_node {
	enum slow_kind kind;
	const char *start, *end; /* its text */
	uint32_t *chars;	 /* of a string: code points, lone surrogates among them */
	size_t char_count;
	struct slow_node **items; /* of an array; of an object keys and values in turn */
	size_t item_count;
};

/* NULL: it is not JSON, or has more than `max_depth` arrays and objects within one another. */
struct slow_node *slow_parse(const char *text, size_t n, unsigned max_depth);
void slow_free(struct slow_node *node);

/* Whether a text is JSON. */
bool slow_json(const char *text, size_t n, unsigned max_depth);

/* Whether a string means this text. */
bool slow_is_text(const struct slow_node *string, const char *text, size_t length);
/* What a string means, to free(); NULL where C has no text for it: a NUL, half a surrogate. */
char *slow_text(const struct slow_node *string);
/* The last member of an object that has this name, or NULL. */
const struct slow_node *slow_member(const struct slow_node *object, const char *name);
/* A whole number that fits. */
bool slow_int64(const struct slow_node *node, int64_t *out);

#endif
