/* SPDX-License-Identifier: MIT */
#ifndef TDL_ESCAPE_H
#define TDL_ESCAPE_H

#include <stddef.h>

#include "util/buf.h"

/*
 * Writes up to `n` bytes of hostile text into `out` (size `cap`, always NUL-terminated): invalid
 * UTF-8 and control bytes, U+0085, U+2028 and U+2029 become \xNN; what does not fit ends in "...".
 * Returns out.
 */
char *tdl__printable(char *out, size_t cap, const char *text, size_t n);

/*
 * Text as a JSON string. Quotes, backslashes and control bytes are escaped in each; they differ in
 * what becomes of characters beyond ASCII and of bytes that are not UTF-8.
 */
enum tdl__quoting {
	TDL__QUOTE_ASCII,  /* all as \u escapes, lower-case hex, as Python's json writes it; such a
			      byte as \udcNN, as Python writes file names */
	TDL__QUOTE_STORED, /* kept, but for those that tdl__splits_line(); such a byte as \udcNN */
	TDL__QUOTE_SHOWN   /* kept, but for those that tdl__breaks_line(), DEL being one of them;
			      such a byte as U+FFFD */
};

/* Writes the string for n bytes, quotes included and without a NUL, into out as far as its `cap`
 * bytes go. Returns the bytes needed. */
size_t tdl__json_quote_as(enum tdl__quoting quoting, char *out, size_t cap, const char *text,
			  size_t n);
/* The same with TDL__QUOTE_ASCII, as the log has it. */
size_t tdl__json_quote(char *out, size_t cap, const char *text, size_t n);

/* Adds bytes as a JSON string in ASCII: exactly where they are UTF-8; else made printable before.
 */
void tdl__text_quote(tdl__text *text, const char *bytes, size_t n);

#endif
