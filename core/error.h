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
 * One name each for what a call gave back, here and in fs/: `r` is 0 or a negative tdl_code, `err`
 * 0 or an errno. A pointer is tested as `p` or `!p`.
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

/*
 * Copies a caller's structure of options, which begins with its size, into *own, which is zeroed
 * and has `known` bytes; `oldest` is the size that 0 stands for. NULL: all zero. Errors: MISUSE (no
 * such size, or something is set that this library does not know).
 */
int tdl__options_take(void *own, size_t known, size_t oldest, const void *given, tdl_error *error);
/* `last` is the last member that version 0.1 had. */
#define TDL__OPTIONS_TAKE(own, last, given, error)                                           \
	tdl__options_take((own), sizeof *(own),                                              \
			  offsetof(__typeof__(*(own)), last) + sizeof((own)->last), (given), \
			  (error))

#endif
