/* SPDX-License-Identifier: MIT */
/*
 * Small helpers without a subject of their own: growing arrays and texts, time, random names.
 */
#include "util/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uuid/uuid.h>

#include "error.h"
#include "row/schema.h"
#include "util/utf8.h"

#define LARGE ((size_t)256 << 10)

bool tdl__reserve(void *array, size_t *cap, size_t need, size_t size)
{
	/* By half; what is large by an eighth, since it is moved by its pages. */
	size_t grown = *cap + (*cap > LARGE / size ? *cap / 8 : *cap / 2) + 8;
	void **at = array, *p;

	if (need <= *cap)
		return true;
	if (grown < need)
		grown = need;
	p = reallocarray(*at, grown, size);
	if (p == NULL)
		return false;
	*at = p;
	*cap = grown;
	return true;
}

void tdl__trim(void *array, size_t *cap, size_t count, size_t size)
{
	void **at = array, *p = count > 0 ? reallocarray(*at, count, size) : NULL;

	if (p == NULL)
		return;
	*at = p;
	*cap = count;
}

void tdl__text_add(tdl__text *text, const char *bytes, size_t n)
{
	if (text->failed || !tdl__reserve(&text->p, &text->cap, text->n + n + 1, 1)) {
		text->failed = true;
		return;
	}
	memcpy(text->p + text->n, bytes, n);
	text->n += n;
	text->p[text->n] = '\0';
}

void tdl__text_put_before(tdl__text *text, const char *bytes, size_t n)
{
	if (text->failed || !tdl__reserve(&text->p, &text->cap, text->n + n + 1, 1)) {
		text->failed = true;
		return;
	}
	memmove(text->p + n, text->p, text->n);
	memcpy(text->p, bytes, n);
	text->n += n;
	text->p[text->n] = '\0';
}

void tdl__text_format(tdl__text *text, const char *format, ...)
{
	char buf[512];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf, sizeof buf, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof buf)
		text->failed = true;
	else
		tdl__text_add(text, buf, (size_t)n);
}

void tdl__text_quote(tdl__text *text, const char *bytes, size_t n)
{
	_cleanup_free_ char *plain = NULL;
	size_t need;

	if (!tdl__utf8_valid(bytes, n)) {
		plain = malloc(4 * n + 1);
		if (plain == NULL) {
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

void tdl__text_free(tdl__text *text)
{
	free(text->p);
	*text = (tdl__text){ 0 };
}

int64_t tdl__now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void tdl__hex(char out[TDL__HEX_MAX], const uint8_t bytes[16])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 16; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[32] = '\0';
}

/* 1 + the value of a digit, 0 for what is none. A log has two of these texts a commit, so digits
 * are looked up. */
static const uint8_t digits[256] = {
	['0'] = 1,  ['1'] = 2,	['2'] = 3,  ['3'] = 4,	['4'] = 5,  ['5'] = 6,
	['6'] = 7,  ['7'] = 8,	['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
	['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

bool tdl__unhex(uint8_t bytes[16], const char *hex)
{
	const uint8_t *p = (const uint8_t *)hex;

	for (int i = 0; i < 16; i++, p += 2) {
		/* A text that is too short ends in a NUL, which is no digit either. */
		unsigned high = digits[p[0]], low = high != 0 ? digits[p[1]] : 0;

		if (low == 0)
			return false;
		bytes[i] = (uint8_t)((high - 1) << 4 | (low - 1));
	}
	return true;
}

void tdl__random_hex(char out[TDL__HEX_MAX])
{
	uuid_t id;

	uuid_generate_random(id);
	tdl__hex(out, id);
}
