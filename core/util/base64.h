/* SPDX-License-Identifier: MIT */
#ifndef TDL_BASE64_H
#define TDL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "util/buf.h"

/* Base64 as in RFC 4648, section 4: with padding, without line breaks. */

/* How many characters n bytes are. */
static inline size_t tdl__base64_length(size_t n)
{
	return n / 3 * 4 + (n % 3 != 0 ? 4 : 0);
}

void tdl__text_base64(tdl__text *text, const void *bytes, size_t n);

/*
 * Reads exactly n bytes into `out`, which may be where the text begins. False where the text is not
 * just what tdl__text_base64() makes of some n bytes; then `out` holds anything.
 */
bool tdl__base64_decode(const char *text, size_t length, void *out, size_t n);

#endif
