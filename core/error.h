/* SPDX-License-Identifier: MIT */
#ifndef TDL_ERROR_H
#define TDL_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include "tinydelta.h"

/*
 * Filling a tdl_error. Each returns `code`, so that a failing function can
 *
 *     return tdl__fail(error, TDL_ERR_CORRUPT, "%s: ...", path);
 *
 * The text is cut to fit, bytes that are not UTF-8 and control bytes are escaped (a name with a
 * newline cannot forge a second line). version is set to -1, line and column to 0.
 */
int tdl__fail(tdl_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same for a system call that failed with `os_error`; ": <its text>" is appended. The code is
 * IO, NOMEM for ENOMEM. */
int tdl__fail_errno(tdl_error *error, int os_error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with a position. */
int tdl__fail_at(tdl_error *error, int code, int64_t version, uint64_t line, uint64_t column,
		 const char *format, ...) __attribute__((format(printf, 6, 7)));

int tdl__fail_nomem(tdl_error *error);

#endif
