/* SPDX-License-Identifier: MIT */
#ifndef TDL_JSON_H
#define TDL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The guard before cJSON: strict validity, and members by their bytes, so that numbers keep
 * their digits. Nothing here recurses or allocates.
 */

typedef struct tdl__span {
	const char *p;
	size_t n;
} tdl__span;

/*
 * Whether text is one RFC 8259 value in valid UTF-8, with white space (20 09 0A 0D) round it, no
 * deeper than `max_depth` (at most 1024) arrays and objects. On false *at is the offset of the
 * first byte that is wrong (text.n where the text ends too early).
 */
bool tdl__json_valid(tdl__span text, unsigned max_depth, size_t *at);

/*
 * Iterates over the members of an object in a text that tdl__json_valid() accepted. Start with
 * *rest = the object's text (white space round it is fine). True: *key (with its quotes) and
 * *value are the next member; false at the end, or where the text is not an object.
 */
bool tdl__json_next(tdl__span *rest, tdl__span *key, tdl__span *value);

/* The same for the values of an array. */
bool tdl__json_item(tdl__span *rest, tdl__span *value);

/* Whether a key or another string of a valid text, with its quotes, means `name`. */
bool tdl__json_is(tdl__span string, const char *name);

/* The value of member `name` of a valid object, the last where it is repeated, names compared
 * after unescaping. False where there is none. */
bool tdl__json_member(tdl__span object, const char *name, tdl__span *value);

/* The same for `count` names in one pass; values[i].p is NULL where names[i] is missing. */
void tdl__json_members(tdl__span object, const char *const *names, size_t count, tdl__span *values);

/*
 * tdl__json_valid(), and where the text is an object tdl__json_members(), in one pass. Where it is
 * none or not valid, no value counts.
 */
bool tdl__json_object(tdl__span text, unsigned max_depth, const char *const *names, size_t count,
		      tdl__span *values, size_t *at);

/* The first byte of the value behind white space: '{' '[' '"' 't' 'f' 'n' '-' or a digit. */
char tdl__json_kind(tdl__span value);

/* A valid value as an integer: exactly -?(0|[1-9][0-9]*) within range. */
bool tdl__json_int64(tdl__span value, int64_t *out);

#endif
