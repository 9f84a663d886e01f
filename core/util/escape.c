/* SPDX-License-Identifier: MIT */
/*
 * Text made safe to print, and JSON strings. Knows nothing of where text comes from or goes to.
 */
#include "util/escape.h"

#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"
#include "util/util.h"

char *tdl__printable(char *out, size_t cap, const char *text, size_t n)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0, used = 0, whole = 0;

	if (cap == 0)
		return out;
	/* `whole` is the last end that leaves room for the dots. */
	while (at < n) {
		size_t len = tdl__utf8_length(text + at, n - at);
		bool plain = len > 0 && !tdl__breaks_line(text + at, len);
		size_t need = plain ? len : 4;

		if (len == 0 || !plain)
			len = 1;
		if (used + need >= cap)
			break;
		if (used + 3 < cap)
			whole = used;
		if (plain) {
			memcpy(out + used, text + at, len);
		} else {
			unsigned char c = (unsigned char)text[at];

			memcpy(out + used, "\\x", 2);
			out[used + 2] = hex[c >> 4];
			out[used + 3] = hex[c & 15];
		}
		used += need;
		at += len;
		if (used + 3 < cap)
			whole = used;
	}
	if (at < n) {
		used = whole;
		for (int i = 0; i < 3 && used + 1 < cap; i++)
			out[used++] = '.';
	}
	out[used] = '\0';
	return out;
}

/* ---- Strings in JSON ---------------------------------------------------------------------- */

/* An output that counts what does not fit, so that one pass measures and the next writes. */
struct text {
	char *out;
	size_t cap;
	size_t used;
};

static void put_text(struct text *text, const char *bytes, size_t n)
{
	if (text->used < text->cap) {
		size_t room = text->cap - text->used;

		memcpy(text->out + text->used, bytes, n < room ? n : room);
	}
	text->used += n;
}

static void put_unit(struct text *text, unsigned unit)
{
	static const char hex[] = "0123456789abcdef";
	char escape[6] = { '\\', 'u' };

	for (int i = 0; i < 4; i++)
		escape[2 + i] = hex[unit >> (12 - 4 * i) & 15];
	put_text(text, escape, sizeof escape);
}

/* An ASCII character inside a string. False where it needs no escape. */
static bool put_escaped(struct text *text, char c, enum tdl__quoting quoting)
{
	static const char meant[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *found = c != '\0' ? strchr(meant, c) : NULL;

	if (found) {
		char escape[2] = { '\\', letters[found - meant] };

		put_text(text, escape, sizeof escape);
	} else if ((unsigned char)c < 0x20 || (c == 0x7f && quoting == TDL__QUOTE_SHOWN)) {
		put_unit(text, (unsigned char)c);
	} else {
		return false;
	}
	return true;
}

/* The character of `len` bytes at p as one or two \u escapes. */
static void put_units(struct text *text, const char *p, size_t len)
{
	unsigned c = tdl__utf8_code(p, len);

	if (c >= 0x10000) {
		put_unit(text, 0xd800 + ((c - 0x10000) >> 10));
		c = 0xdc00 + ((c - 0x10000) & 0x3ff);
	}
	put_unit(text, c);
}

/* Whether a character beyond ASCII is kept as it is. */
static bool is_kept(const char *p, size_t len, enum tdl__quoting quoting)
{
	switch (quoting) {
	case TDL__QUOTE_STORED:
		return !tdl__splits_line(p, len);
	case TDL__QUOTE_SHOWN:
		return !tdl__breaks_line(p, len);
	case TDL__QUOTE_ASCII:
		break;
	}
	return false;
}

size_t tdl__json_quote_as(enum tdl__quoting quoting, char *out, size_t cap, const char *p, size_t n)
{
	struct text t = { out, cap, 0 }, *text = &t;
	const char *end = p + n;

	put_text(text, "\"", 1);
	while (p < end) {
		size_t len = tdl__utf8_length(p, (size_t)(end - p));

		if (len == 0) {
			len = 1;
			put_unit(text, quoting == TDL__QUOTE_SHOWN ? 0xfffd
								   : 0xdc00u + (unsigned char)*p);
		} else if (len == 1) {
			if (!put_escaped(text, *p, quoting))
				put_text(text, p, 1);
		} else if (is_kept(p, len, quoting)) {
			put_text(text, p, len);
		} else {
			put_units(text, p, len);
		}
		p += len;
	}
	put_text(text, "\"", 1);
	return t.used;
}

size_t tdl__json_quote(char *out, size_t cap, const char *text, size_t n)
{
	return tdl__json_quote_as(TDL__QUOTE_ASCII, out, cap, text, n);
}

void tdl__text_quote(tdl__text *text, const char *bytes, size_t n)
{
	char *plain CLEANUP(tdl__free_at) = NULL;
	size_t need;

	if (!tdl__utf8_valid(bytes, n)) {
		plain = malloc(4 * n + 1);
		if (!plain) {
			text->failed = true;
			return;
		}
		bytes = tdl__printable(plain, 4 * n + 1, bytes, n);
		n = strlen(bytes);
	}
	need = tdl__json_quote(NULL, 0, bytes, n);
	if (text->failed || !tdl__reserve(&text->p, &text->cap, text->n + need + 1, 1)) {
		text->failed = true;
		return;
	}
	tdl__json_quote(text->p + text->n, need, bytes, n);
	text->n += need;
	text->p[text->n] = '\0';
}
