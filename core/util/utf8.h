/* SPDX-License-Identifier: MIT */
#ifndef TDL_UTF8_H
#define TDL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Strict UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF. */

/* Length (1 to 4) of the valid UTF-8 sequence at p, or 0; n > 0 bytes are there. */
size_t tdl__utf8_length(const char *p, size_t n);

/* The code point of the valid character of `len` bytes at p. */
unsigned tdl__utf8_code(const char *p, size_t len);

/* Whether all n bytes are valid UTF-8. */
bool tdl__utf8_valid(const char *p, size_t n);

/* Whether the valid UTF-8 character of `len` bytes at p is a control character (C0, DEL, C1) or
 * U+2028 or U+2029, or one of the marks that turn the direction of text: what would break or forge
 * a line when printed. */
bool tdl__breaks_line(const char *p, size_t len);

/* Whether the valid UTF-8 character of `len` bytes at p is U+0085, U+2028 or U+2029: what a Python
 * reader takes for the end of a line. */
bool tdl__splits_line(const char *p, size_t len);

/*
 * From a character beyond ASCII at p past it and as much text as is handy, up to the next quote,
 * backslash or control byte at most. *splits becomes true where there is one that
 * tdl__splits_line(). NULL: the bytes at *bad are not UTF-8.
 */
const char *tdl__utf8_skip(const char *p, const char *end, bool *splits, const char **bad);

#endif
