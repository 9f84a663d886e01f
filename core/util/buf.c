/* SPDX-License-Identifier: MIT */
/*
 * Texts that grow. Knows nothing of what is written into them.
 */
#include "util/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/util.h"

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

void tdl__text_free(tdl__text *text)
{
	free(text->p);
	*text = (tdl__text){ 0 };
}
