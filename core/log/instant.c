/* SPDX-License-Identifier: MIT */
/*
 * Points in time, read and written. Knows calendars and the local zone, not versions.
 */
#include "log/instant.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "util/escape.h"
#include "util/util.h"

#define MS_A_DAY   INT64_C(86400000)
#define SECS_A_DAY INT64_C(86400)

/* A reader of a text: each take_*() moves `at` only where it finds what it wants. */
struct reader {
	const char *at, *end;
};

static bool take_char(struct reader *reader, char wanted)
{
	if (reader->at == reader->end || *reader->at != wanted)
		return false;
	reader->at++;
	return true;
}

static size_t count_digits(const struct reader *reader)
{
	size_t n = 0;

	while (reader->at + n < reader->end && reader->at[n] >= '0' && reader->at[n] <= '9')
		n++;
	return n;
}

/* Exactly `width` digits, as a number from `low` to `high`. */
static bool take_number(struct reader *reader, size_t width, int low, int high, int *out)
{
	int number = 0;

	if (count_digits(reader) < width)
		return false;
	for (size_t i = 0; i < width; i++)
		number = number * 10 + (reader->at[i] - '0');
	if (number < low || number > high)
		return false;
	reader->at += width;
	*out = number;
	return true;
}

/* ---- The calendar -------------------------------------------------------------------------- */

static int days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* Days from 1970-01-01 to a date of the Gregorian calendar; years from 1. */
static int64_t days_since_1970(int year, int month, int day)
{
	int64_t before = year - 1;
	int64_t days = before * 365 + before / 4 - before / 100 + before / 400;

	for (int m = 1; m < month; m++)
		days += days_in_month(year, m);
	return days + day - 1 - 719162;
}

/* The zone's distance from UTC at an instant in seconds; false where the C library has none. */
static bool offset_at(int64_t instant, int64_t *offset)
{
	time_t time = (time_t)instant;
	struct tm tm;

	if (!localtime_r(&time, &tm))
		return false;
	*offset = tm.tm_gmtoff;
	return true;
}

/* The first instant after `low` at which the zone is no longer `offset`; by `high` it is not. */
static int64_t end_of_offset(int64_t low, int64_t high, int64_t offset)
{
	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2, found;

		if (offset_at(middle, &found) && found == offset)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * Seconds since 1970 for a local time, which is given as if it were UTC. mktime() is not asked: its
 * answer in an hour that comes twice depends on what it was asked before. The zone's offsets of a
 * day before and a day after are tried; the earlier instant at which such an offset holds counts.
 */
static bool local_to_utc(int64_t local, int64_t *utc)
{
	int64_t before, after;

	if (!offset_at(local - SECS_A_DAY, &before) || !offset_at(local + SECS_A_DAY, &after))
		return false;
	for (int i = 0; i < 2; i++) {
		/* The larger offset makes the earlier instant. */
		int64_t offset = (i == 0) == (before > after) ? before : after, holds;

		if (offset_at(local - offset, &holds) && holds == offset) {
			*utc = local - offset;
			return true;
		}
	}
	*utc = end_of_offset(local - after, local - before, before);
	return true;
}

/* ---- Reading ------------------------------------------------------------------------------- */

static bool take_date(struct reader *reader, int64_t *days)
{
	struct reader r = *reader;
	int year, month, day;
	bool dashes;

	if (!take_number(&r, 4, 1, 9999, &year))
		return false;
	dashes = take_char(&r, '-');
	if (!take_number(&r, 2, 1, 12, &month) || (dashes && !take_char(&r, '-')) ||
	    !take_number(&r, 2, 1, days_in_month(year, month), &day))
		return false;
	*days = days_since_1970(year, month, day);
	*reader = r;
	return true;
}

/* ".123": milliseconds; what is finer is cut off. */
static bool take_fraction(struct reader *reader, int64_t *ms)
{
	size_t n = count_digits(reader);
	int64_t value = 0;

	if (n == 0 || n > 9)
		return false;
	for (size_t i = 0; i < 3; i++)
		value = value * 10 + (i < n ? reader->at[i] - '0' : 0);
	reader->at += n;
	*ms = value;
	return true;
}

/* "18:40[:05[.123]]" in milliseconds of the day. */
static bool take_time_of_day(struct reader *reader, int64_t *ms)
{
	struct reader r = *reader;
	int hour, minute, second = 0;
	int64_t fraction = 0;

	if (!take_number(&r, 2, 0, 23, &hour) || !take_char(&r, ':') ||
	    !take_number(&r, 2, 0, 59, &minute))
		return false;
	if (take_char(&r, ':')) {
		if (!take_number(&r, 2, 0, 59, &second))
			return false;
		if (take_char(&r, '.') && !take_fraction(&r, &fraction))
			return false;
	}
	*ms = ((hour * 60 + minute) * 60 + second) * INT64_C(1000) + fraction;
	*reader = r;
	return true;
}

/* "Z", "+01:00" or "+0100" in seconds. */
static bool take_zone(struct reader *reader, int64_t *offset)
{
	struct reader r = *reader;
	int sign = take_char(&r, '-') ? -1 : 1, hours = 0, minutes = 0;

	if (sign > 0 && take_char(&r, 'Z')) {
		*offset = 0;
		*reader = r;
		return true;
	}
	if ((sign > 0 && !take_char(&r, '+')) || !take_number(&r, 2, 0, 23, &hours))
		return false;
	take_char(&r, ':');
	if (!take_number(&r, 2, 0, 59, &minutes))
		return false;
	*offset = sign * (hours * 60 + minutes) * 60;
	*reader = r;
	return true;
}

/* A date, and what may stand behind it, to the text's end. */
static bool read_calendar(struct reader reader, int64_t *instant)
{
	int64_t days, ms = 0, offset, seconds;

	if (!take_date(&reader, &days))
		return false;
	if ((take_char(&reader, 'T') || take_char(&reader, ' ')) && !take_time_of_day(&reader, &ms))
		return false;
	seconds = days * SECS_A_DAY + ms / 1000;
	if (reader.at == reader.end) {
		if (!local_to_utc(seconds, &seconds))
			return false;
	} else {
		if (!take_zone(&reader, &offset) || reader.at != reader.end)
			return false;
		seconds -= offset;
	}
	*instant = seconds * 1000 + ms % 1000;
	return true;
}

/* "-90s": so long before `now`. */
static bool read_ago(struct reader reader, int64_t now, int64_t *instant)
{
	static const char units[] = "smhdw";
	static const int64_t lengths[] = { 1000, 60000, 3600000, MS_A_DAY, 7 * MS_A_DAY };
	const char *unit;
	size_t digits;
	int64_t count = 0, ms;

	if (!take_char(&reader, '-'))
		return false;
	digits = count_digits(&reader);
	if (digits == 0 || digits > 15 || reader.at + digits + 1 != reader.end)
		return false;
	for (size_t i = 0; i < digits; i++)
		count = count * 10 + (*reader.at++ - '0');
	unit = memchr(units, *reader.at, sizeof units - 1);
	if (!unit || __builtin_mul_overflow(count, lengths[unit - units], &ms) ||
	    __builtin_sub_overflow(now, ms, instant))
		return false;
	return true;
}

/* 10 digits: seconds; 13: milliseconds. */
static bool read_count(struct reader reader, int64_t *instant)
{
	size_t digits = count_digits(&reader);
	int64_t count = 0;

	if (reader.at + digits != reader.end || (digits != 10 && digits != 13))
		return false;
	for (size_t i = 0; i < digits; i++)
		count = count * 10 + (reader.at[i] - '0');
	*instant = digits == 10 ? count * 1000 : count;
	return true;
}

int tdl__instant_parse(const char *text, size_t n, int64_t now, int64_t *instant, tdl_error *error)
{
	struct reader reader = { text, text + n };
	char shown[160];

	if (read_count(reader, instant) || read_ago(reader, now, instant) ||
	    read_calendar(reader, instant))
		return 0;
	return tdl__fail(error, TDL_ERR_MISUSE, "not a time: \"%s\"; times are " TDL__INSTANT_FORMS,
			 tdl__printable(shown, sizeof shown, text, n));
}

void tdl__instant_format(char out[TDL__INSTANT_MAX], int64_t instant)
{
	int64_t ms = (instant % 1000 + 1000) % 1000;
	time_t seconds = (time_t)(instant / 1000 - (instant % 1000 < 0));
	struct tm tm;
	unsigned long minutes;
	size_t n;

	if (instant < -30610224000000 + 2 * MS_A_DAY || instant > 253402300799999 - 2 * MS_A_DAY ||
	    !localtime_r(&seconds, &tm)) {
		snprintf(out, TDL__INSTANT_MAX, "%" PRId64, instant);
		return;
	}
	n = strftime(out, TDL__INSTANT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	minutes = (unsigned long)labs(tm.tm_gmtoff) / 60 % 6000;
	snprintf(out + n, TDL__INSTANT_MAX - n, ".%03u%c%02lu:%02lu", (unsigned)ms % 1000,
		 tm.tm_gmtoff < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

int tdl_time_parse(const char *text, int64_t *time, tdl_error *error)
{
	return tdl__instant_parse(text, strlen(text), tdl__now_ms(), time, error);
}
