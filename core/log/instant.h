/* SPDX-License-Identifier: MIT */
#ifndef TDL_INSTANT_H
#define TDL_INSTANT_H

#include <stddef.h>

#include "tinydelta.h"

/*
 * Points in time as people write them. Instants are milliseconds since 1970-01-01 UTC.
 *
 *     2026-11-29  20261129           the first instant of that day
 *     2026-11-29T18:40[:05[.123]]    a blank may stand for the T
 *     ...Z  ...+01:00  ...+0100      behind any of these; without one: the process's local time
 *     1795978989  1795978989788      10 digits: seconds, 13 digits: milliseconds since 1970
 *     -90s  -30m  -2h  -7d  -2w      before now
 *
 * A local time that a clock showed twice is the earlier one; one that no clock showed is the first
 * instant after the gap.
 */

/* The forms in one line, for messages. */
#define TDL__INSTANT_FORMS                                                                     \
	"2026-11-29, 2026-11-29T18:40[:05[.123]] (then nothing for local time, Z or +01:00), " \
	"1795978989 (seconds since 1970), 1795978989788 (milliseconds) or -2h (s m h d w ago)"

/* Reads all n bytes of a text. `now` is what "-2h" counts from. Errors: MISUSE. */
int tdl__instant_parse(const char *text, size_t n, int64_t now, int64_t *instant, tdl_error *error);

/* "2026-11-29T18:40:05.123+01:00" in local time, and a NUL. What no calendar of four digits has is
 * written as its milliseconds. */
#define TDL__INSTANT_MAX 40
void tdl__instant_format(char out[TDL__INSTANT_MAX], int64_t instant);

#endif
