/* SPDX-License-Identifier: MIT */
/*
 * JSON strings. What else of JSON is printed comes from the library or is written out where it
 * is printed.
 */
#include "json.h"

#include <stddef.h>

#include "output.h"

/* The length of the well-formed UTF-8 character at `s`, 0 where there is none. A NUL is no
 * continuation byte, so nothing is read behind the end. */
static size_t character(const unsigned char *s)
{
	size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (length == 0 || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return length;
}

void output_json_string(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	output_bytes("\"", 1);
	while (*s != '\0') {
		size_t length = character(s);

		if (length == 0) {
			output_text("\\ufffd");
			length = 1;
		} else if (*s == '"' || *s == '\\') {
			output_text("\\%c", *s);
		} else if (*s < 0x20 || *s == 0x7f) {
			output_text("\\u%04x", *s);
		} else {
			output_bytes(s, length);
		}
		s += length;
	}
	output_bytes("\"", 1);
}
