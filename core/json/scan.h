/* SPDX-License-Identifier: MIT */
#ifndef TDL_SCAN_H
#define TDL_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "util/utf8.h"

/*
 * Tokens of strict JSON over bytes; no allocation, no state. rows and json build on it.
 *
 * The tdl__scan_ functions take a token at p in [p, end) and return the byte behind it. Where it
 * is wrong they return NULL and *bad is the first wrong byte (a sequence that is not UTF-8 counts
 * from its first), or `end` where the text ends inside the token. They never read at `end`.
 */

/* The first byte that is not white space (20 09 0A 0D), or end. */
const char *tdl__skip_blank(const char *p, const char *end);

/* What a string holds. */
#define TDL__SEEN_ESCAPE    1u /* a backslash */
#define TDL__SEEN_SEPARATOR 2u /* a raw character that tdl__splits_line() */

/* A string from behind its opening quote (or from any character inside) to behind its closing
 * one. Adds to *seen. */
const char *tdl__scan_string(const char *p, const char *end, unsigned *seen, const char **bad);

/* A number. *integer: it has neither fraction nor exponent. */
const char *tdl__scan_number(const char *p, const char *end, bool *integer, const char **bad);

/* true, false or null. The byte behind it is not looked at. */
const char *tdl__scan_literal(const char *p, const char *end, const char **bad);

/* Any value, whole, with no more than `max_depth` (at most TDL__DEPTH_MAX) arrays and objects
 * inside each other; the first that is too deep is the wrong byte. */
#define TDL__DEPTH_MAX 1024
const char *tdl__scan_value(const char *p, const char *end, unsigned max_depth, const char **bad);

/*
 * What the n bytes between the quotes of a valid string mean, into out, which has room for n
 * bytes (never more are needed). Surrogates without a partner become three bytes that are no
 * UTF-8. Returns the length.
 */
size_t tdl__unescape(char *out, const char *text, size_t n);

#endif
