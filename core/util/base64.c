/* SPDX-License-Identifier: MIT */
/*
 * Bytes as characters, and back. Strict, so that one value has one text.
 */
#include "util/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void tdl__text_base64(tdl__text *text, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	char group[4];

	for (; n >= 3; n -= 3, p += 3) {
		group[0] = digits[p[0] >> 2];
		group[1] = digits[(p[0] & 3) << 4 | p[1] >> 4];
		group[2] = digits[(p[1] & 15) << 2 | p[2] >> 6];
		group[3] = digits[p[2] & 63];
		tdl__text_add(text, group, 4);
	}
	if (n == 0)
		return;
	group[0] = digits[p[0] >> 2];
	group[1] = digits[(p[0] & 3) << 4 | (n == 2 ? p[1] >> 4 : 0)];
	group[2] = n == 2 ? digits[(p[1] & 15) << 2] : '=';
	group[3] = '=';
	tdl__text_add(text, group, 4);
}

/* The value of a digit, or something beyond 63. */
static unsigned value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	return c == '+' ? 62 : c == '/' ? 63 : 64;
}

bool tdl__base64_decode(const char *text, size_t length, void *out, size_t n)
{
	unsigned char *p = out;

	if (length != tdl__base64_length(n))
		return false;
	while (n > 0) {
		size_t bytes = n < 3 ? n : 3;
		unsigned long bits = 0;

		for (size_t i = 0; i < 4; i++) {
			unsigned digit = i <= bytes ? value(text[i]) : text[i] == '=' ? 0 : 64;

			if (digit > 63)
				return false;
			bits = bits << 6 | digit;
		}
		/* What the padding stands for is nothing. */
		if ((bits & ((1UL << 8 * (3 - bytes)) - 1)) != 0)
			return false;
		for (size_t i = 0; i < bytes; i++)
			*p++ = (unsigned char)(bits >> (16 - 8 * i));
		text += 4;
		n -= bytes;
	}
	return true;
}
