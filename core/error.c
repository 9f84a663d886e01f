/* SPDX-License-Identifier: MIT */
/*
 * Filling a tdl_error: one line, bounded, safe to print. Knows nothing of tables.
 */
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/escape.h"

__attribute__((format(printf, 4, 0))) static void fill(tdl_error *error, int r, int os_error,
						       const char *format, va_list args)
{
	char text[2 * TDL_MESSAGE_MAX];
	int n = vsnprintf(text, sizeof text, format, args);
	size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;

	if (os_error != 0) {
		char buf[128];
		const char *why = strerror_r(os_error, buf, sizeof buf);

		/* The reason matters more than the end of a long name. */
		size_t reason = strlen(why) + 2;
		if (len + reason >= sizeof text)
			len = sizeof text - 1 - reason;
		len += (size_t)snprintf(text + len, sizeof text - len, ": %s", why);
	}
	error->code = r;
	error->os_error = os_error;
	error->version = -1;
	error->line = 0;
	error->column = 0;
	error->in_doubt = false;
	tdl__printable(error->message, sizeof error->message, text, len);
}

int tdl__fail(tdl_error *error, int r, const char *format, ...)
{
	va_list args;

	if (!error)
		return r;
	va_start(args, format);
	fill(error, r, 0, format, args);
	va_end(args);
	return r;
}

int tdl__fail_errno(tdl_error *error, int os_error, const char *format, ...)
{
	int r = os_error == ENOMEM ? TDL_ERR_NOMEM : TDL_ERR_IO;
	va_list args;

	if (!error)
		return r;
	va_start(args, format);
	fill(error, r, os_error, format, args);
	va_end(args);
	return r;
}

int tdl__fail_at(tdl_error *error, int r, int64_t version, uint64_t line, uint64_t column,
		 const char *format, ...)
{
	va_list args;

	if (!error)
		return r;
	va_start(args, format);
	fill(error, r, 0, format, args);
	va_end(args);
	error->version = version;
	error->line = line;
	error->column = column;
	return r;
}

int tdl__fail_nomem(tdl_error *error)
{
	return tdl__fail(error, TDL_ERR_NOMEM, "out of memory");
}

/* No structure of options will be as large; what says so was not set. */
#define TDL__OPTIONS_MAX ((size_t)1 << 16)

int tdl__options_take(void *own, size_t known, size_t oldest, const void *given, tdl_error *error)
{
	size_t size = oldest;

	memset(own, 0, known);
	if (!given)
		return 0;
	if (*(const size_t *)given != 0)
		size = *(const size_t *)given;
	if (size < oldest || size > TDL__OPTIONS_MAX)
		return tdl__fail(error, TDL_ERR_MISUSE,
				 "options of %zu bytes: set their size to sizeof", size);
	for (size_t i = known; i < size; i++) {
		if (((const char *)given)[i] != 0)
			return tdl__fail(error, TDL_ERR_MISUSE,
					 "an option is set that version " TINYDELTA_VERSION
					 " of the library does not know");
	}
	memcpy(own, given, size < known ? size : known);
	*(size_t *)own = known;
	return 0;
}
