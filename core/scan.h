/* SPDX-License-Identifier: MIT */
#ifndef TDL_SCAN_H
#define TDL_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Tokens of strict JSON and UTF-8 over bytes; no allocation, no state. rows and json build on it.
 */

/* Length (1 to 4) of the valid UTF-8 sequence at p, or 0; n > 0 bytes are there. */
size_t tdl__utf8_length(const char *p, size_t n);

/* Whether the valid UTF-8 character of `len` bytes at p is a control character (C0, DEL, C1) or
 * U+2028 or U+2029: what would break or forge a line when printed. */
bool tdl__breaks_line(const char *p, size_t len);

#endif
