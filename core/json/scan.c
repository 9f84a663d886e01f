/* SPDX-License-Identifier: MIT */
/*
 * Tokens of strict JSON. Bytes in, positions out: knows nothing of rows, schemas or errors,
 * allocates nothing and never recurses.
 */
#include "json/scan.h"

#include <stdint.h>
#include <string.h>

#include "util/simd.h"

const char *tdl__skip_blank(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
		p++;
	return p;
}

/* The first byte that is a quote, a backslash, a control byte or not ASCII, or end. */
static inline const char *skip_plain(const char *p, const char *end)
{
	while (end - p >= 16) {
		unsigned n = tdl__plain16(p);

		p += n;
		if (n < 16)
			return p;
	}
	while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
	       *p != '\\')
		p++;
	return p;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* An escape, p at its backslash. */
static const char *scan_escape(const char *p, const char *end, const char **bad)
{
	p++;
	if (p == end)
		goto wrong;
	if (*p != 'u') {
		if (!memchr("\"\\/bfnrt", *p, 8))
			goto wrong;
		return p + 1;
	}
	p++;
	for (int i = 0; i < 4; i++, p++) {
		if (p == end || hex_value(*p) < 0)
			goto wrong;
	}
	return p;
wrong:
	*bad = p;
	return NULL;
}

const char *tdl__scan_string(const char *p, const char *end, unsigned *seen, const char **bad)
{
	bool splits = false;

	for (;;) {
		p = skip_plain(p, end);
		if (p == end)
			break;
		if (*p == '"')
			return p + 1;
		if (*p == '\\') {
			*seen |= TDL__SEEN_ESCAPE;
			p = scan_escape(p, end, bad);
			if (!p)
				return NULL;
			continue;
		}
		if ((unsigned char)*p < 0x20)
			break;
		p = tdl__utf8_skip(p, end, &splits, bad);
		if (!p)
			return NULL;
		if (splits)
			*seen |= TDL__SEEN_SEPARATOR;
	}
	*bad = p;
	return NULL;
}

static const char *skip_digits(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

const char *tdl__scan_number(const char *p, const char *end, bool *integer, const char **bad)
{
	const char *digits;

	if (p < end && *p == '-')
		p++;
	digits = p;
	p = skip_digits(p, end);
	if (p == digits)
		goto wrong;
	if (*digits == '0' && p > digits + 1) {
		p = digits + 1;
		goto wrong;
	}
	*integer = true;
	if (p < end && *p == '.') {
		*integer = false;
		digits = ++p;
		p = skip_digits(p, end);
		if (p == digits)
			goto wrong;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		*integer = false;
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		digits = p;
		p = skip_digits(p, end);
		if (p == digits)
			goto wrong;
	}
	return p;
wrong:
	*bad = p;
	return NULL;
}

const char *tdl__scan_literal(const char *p, const char *end, const char **bad)
{
	const char *word = "null";

	if (p < end && *p == 't')
		word = "true";
	else if (p < end && *p == 'f')
		word = "false";
	for (; *word != '\0'; word++, p++) {
		if (p == end || *p != *word) {
			*bad = p;
			return NULL;
		}
	}
	return p;
}

/* A key and its colon with the white space round it. */
static const char *scan_key(const char *p, const char *end, const char **bad)
{
	unsigned seen = 0;

	if (p == end || *p != '"') {
		*bad = p;
		return NULL;
	}
	p = tdl__scan_string(p + 1, end, &seen, bad);
	if (!p)
		return NULL;
	p = tdl__skip_blank(p, end);
	if (p == end || *p != ':') {
		*bad = p;
		return NULL;
	}
	return tdl__skip_blank(p + 1, end);
}

/* A value that holds no other. */
static const char *scan_scalar(const char *p, const char *end, const char **bad)
{
	unsigned seen = 0;
	bool integer;

	if (p < end && *p == '"')
		return tdl__scan_string(p + 1, end, &seen, bad);
	if (p < end && (*p == '-' || (*p >= '0' && *p <= '9')))
		return tdl__scan_number(p, end, &integer, bad);
	return tdl__scan_literal(p, end, bad);
}

const char *tdl__scan_value(const char *p, const char *end, unsigned max_depth, const char **bad)
{
	/* One bit a level: whether it is an object. */
	uint32_t objects[TDL__DEPTH_MAX / 32] = { 0 };
	unsigned depth = 0;

	for (;;) {
		/* Here a value is due. */
		if (p < end && (*p == '[' || *p == '{')) {
			bool object = *p == '{';

			if (depth >= max_depth || depth >= TDL__DEPTH_MAX) {
				*bad = p;
				return NULL;
			}
			if (object)
				objects[depth / 32] |= (uint32_t)1 << depth % 32;
			else
				objects[depth / 32] &= ~((uint32_t)1 << depth % 32);
			depth++;
			p = tdl__skip_blank(p + 1, end);
			if (p == end || *p != (object ? '}' : ']')) {
				if (object && !(p = scan_key(p, end, bad)))
					return NULL;
				continue;
			}
		} else {
			p = scan_scalar(p, end, bad);
			if (!p)
				return NULL;
			if (depth == 0)
				return p;
			p = tdl__skip_blank(p, end);
		}
		/* Here a value is complete. */
		for (;;) {
			bool object = objects[(depth - 1) / 32] >> (depth - 1) % 32 & 1;

			if (p < end && *p == ',') {
				p = tdl__skip_blank(p + 1, end);
				if (object && !(p = scan_key(p, end, bad)))
					return NULL;
				break;
			}
			if (p == end || *p != (object ? '}' : ']')) {
				*bad = p;
				return NULL;
			}
			p++;
			if (--depth == 0)
				return p;
			p = tdl__skip_blank(p, end);
		}
	}
}

static unsigned four_hex(const char *p)
{
	unsigned value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 4 | (unsigned)hex_value(p[i]);
	return value;
}

static char *put_utf8(char *out, unsigned c)
{
	if (c < 0x80) {
		*out++ = (char)c;
	} else if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
		*out++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*out++ = (char)(0xe0 | c >> 12);
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	} else {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
		*out++ = (char)(0x80 | (c & 0x3f));
	}
	return out;
}

size_t tdl__unescape(char *out, const char *text, size_t n)
{
	static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
	const char *p = text, *end = text + n;
	char *o = out;

	while (p < end) {
		if (*p != '\\') {
			*o++ = *p++;
			continue;
		}
		if (p[1] != 'u') {
			const char *letter = strchr(letters, p[1]);

			*o++ = letter ? meant[letter - letters] : p[1];
			p += 2;
			continue;
		}
		unsigned c = four_hex(p + 2);
		p += 6;
		if (c >= 0xd800 && c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
			unsigned low = four_hex(p + 2);

			if (low >= 0xdc00 && low < 0xe000) {
				c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
				p += 6;
			}
		}
		o = put_utf8(o, c);
	}
	return (size_t)(o - out);
}
