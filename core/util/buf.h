/* SPDX-License-Identifier: MIT */
#ifndef TDL_BUF_H
#define TDL_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "util/util.h"

/* A text that grows. Failure to allocate is remembered: check `failed` once, at the end. */
typedef struct tdl__text {
	char *p;
	size_t n, cap;
	bool failed;
} tdl__text;

void tdl__text_add(tdl__text *text, const char *bytes, size_t n);
/* Puts bytes before all that is there. */
void tdl__text_put_before(tdl__text *text, const char *bytes, size_t n);
void tdl__text_format(tdl__text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void tdl__text_free(tdl__text *text);

#endif
