/* SPDX-License-Identifier: MIT */
/*
 * What a check says of a problem. Knows nothing of how it was found.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "commit/check.h"
#include "log/action.h"
#include "util/escape.h"

void tdl__check_problem(struct tdl__check *check, enum tdl_severity severity, int64_t version,
			const char *path, uint64_t line, const char *format, ...)
{
	char text[TDL_MESSAGE_MAX], raw[2 * TDL_MESSAGE_MAX], name[2 * TDL_MESSAGE_MAX];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(raw, sizeof raw, format, args);
	va_end(args);
	tdl__printable(text, sizeof text, raw,
		       n < 0			? 0
		       : (size_t)n < sizeof raw ? (size_t)n
						: sizeof raw - 1);
	tdl__printable(name, sizeof name, path, strlen(path));
	check->found(check->context, &(tdl_problem){ .severity = severity,
						     .version = version,
						     .path = name,
						     .line = line,
						     .text = text });
}

const char *tdl__check_without(const char *message, const char *before)
{
	char plain[4 * TDL__PATH_MAX];
	size_t n = strlen(tdl__printable(plain, sizeof plain, before, strlen(before)));

	return strncmp(message, plain, n) == 0 ? message + n : message;
}
