/* SPDX-License-Identifier: MIT */
/*
 * Points in time: every form, what is refused, and local times at both ends of daylight saving,
 * each asked in both orders, since mktime() would remember.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log/instant.h"

#define NOW INT64_C(1795978989788) /* 2026-11-29T19:03:09.788Z */

static void set_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

static void expect(const char *text, int64_t wanted)
{
	tdl_error error = { 0 };
	int64_t got = -1;

	cr_assert_eq(tdl__instant_parse(text, strlen(text), NOW, &got, &error), 0, "%s: %s", text,
		     error.message);
	cr_assert_eq(got, wanted, "%s: %" PRId64 ", not %" PRId64, text, got, wanted);
}

static void refuse(const char *text)
{
	tdl_error error = { 0 };
	int64_t got = -7;

	cr_assert_eq(tdl__instant_parse(text, strlen(text), NOW, &got, &error), TDL_ERR_MISUSE,
		     "\"%s\" is %" PRId64, text, got);
	cr_assert(strstr(error.message, "2026-11-29T18:40") != NULL, "%s", error.message);
}

Test(instant, every_form)
{
	set_zone("UTC0");
	expect("2026-11-29", 1795910400000);
	expect("20261129", 1795910400000);
	expect("2026-11-29Z", 1795910400000);
	expect("2026-11-29T18:40", 1795977600000);
	expect("2026-11-29 18:40", 1795977600000);
	expect("2026-11-29T18:40:05", 1795977605000);
	expect("2026-11-29 18:40:05.1", 1795977605100);
	expect("2026-11-29T18:40:05.123", 1795977605123);
	expect("2026-11-29T18:40:05.123987654", 1795977605123);
	expect("2026-11-29T18:40Z", 1795977600000);
	expect("2026-11-29T18:40+01:00", 1795974000000);
	expect("2026-11-29T18:40:05.123+0100", 1795974005123);
	expect("2026-11-29T18:40-0930", 1796011800000);
	expect("2026-11-29+01:00", 1795906800000);
	expect("1795978989", 1795978989000);
	expect("1795978989788", 1795978989788);
	expect("0000000000", 0);
	expect("1970-01-01", 0);
	expect("1969-12-31T23:59:59.999", -1);
	expect("0001-01-01", -62135596800000);
	expect("9999-12-31T23:59:59.999", 253402300799999);
	expect("2024-02-29", 1709164800000);
	expect("2000-02-29", 951782400000);
	expect("-90s", NOW - 90000);
	expect("-30m", NOW - 30 * 60000);
	expect("-2h", NOW - 2 * 3600000);
	expect("-7d", NOW - 7 * INT64_C(86400000));
	expect("-2w", NOW - 14 * INT64_C(86400000));
	expect("-0s", NOW);
	expect("-000000000000001s", NOW - 1000);
}

Test(instant, everything_else_is_refused)
{
	static const char *const texts[] = {
		"",
		" ",
		"T",
		"now",
		"yesterday",
		"Monday",
		"v7",
		"7",
		"2026",
		"2026-11",
		"202611",
		"2026-1-29",
		"2026-13-01",
		"2026-00-01",
		"2026-11-00",
		"2026-11-31",
		"2025-02-29",
		"1900-02-29",
		"0000-01-01",
		"26-11-29",
		"2026/11/29",
		"29.11.2026",
		"2026-1129",
		"202611-29",
		"2026-11-29T",
		"2026-11-29 ",
		" 2026-11-29",
		"2026-11-29T18",
		"2026-11-29T1840",
		"2026-11-29T24:00",
		"2026-11-29T18:60",
		"2026-11-29T18:40:60",
		"2026-11-29T18:40:5",
		"2026-11-29T18:40:05.",
		"2026-11-29T18:40:05,123",
		"2026-11-29T18:40:05.1234567890",
		"2026-11-29T18:40.5",
		"2026-11-29t18:40",
		"2026-11-29T18:40z",
		"2026-11-29T18:40 Z",
		"2026-11-29T18:40UTC",
		"2026-11-29T18:40+1",
		"2026-11-29T18:40+01",
		"2026-11-29T18:40+01:0",
		"2026-11-29T18:40+24:00",
		"2026-11-29T18:40+01:60",
		"2026-11-29T18:40-+01:00",
		"2026-11-29T18:40ZZ",
		"2026-11-29  18:40",
		"179597898",
		"17959789891",
		"179597898978",
		"17959789897881",
		"-1795978989",
		"-5",
		"-s",
		"-5y",
		"-5 s",
		"-5S",
		"-5ss",
		"--5s",
		"5s",
		"+5s",
		"-9999999999999999s",
		"-999999999999999w",
		"\xff",
	};

	set_zone("UTC0");
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		refuse(texts[i]);
}

/* A NUL is a byte like any other, and what lies behind the length is not looked at. */
Test(instant, exactly_its_bytes)
{
	int64_t got;

	set_zone("UTC0");
	cr_assert_eq(tdl__instant_parse("2026-11-29T18:40", 10, NOW, &got, NULL), 0);
	cr_assert_eq(got, 1795910400000);
	cr_assert_eq(tdl__instant_parse("2026-11-29\0", 11, NOW, &got, NULL), TDL_ERR_MISUSE);
}

Test(instant, local_time)
{
	set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
	expect("2026-11-29", 1795910400000 - 3600000);
	expect("2026-07-01", 1782864000000 - 7200000);
	expect("2026-07-01Z", 1782864000000);
	set_zone("<-1130>11:30");
	expect("2026-11-29T18:40", 1795977600000 + 41400000);
}

/* 2026-10-25 03:00 CEST is 02:00 CET: 02:30 is there twice, and the first one counts. */
Test(instant, an_hour_that_comes_twice)
{
	set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
	for (int round = 0; round < 2; round++) {
		expect("2026-10-25T02:30", 1792888200000);
		expect("2026-10-25T02:00", 1792886400000);
		expect("2026-10-25T03:00", 1792893600000);
		expect("2026-10-25T01:59:59.999", 1792886399999);
		expect("2026-12-25T02:30", 1798162200000);
		expect("2026-10-25T02:30+01:00", 1792891800000);
	}
}

/* 2026-03-29 02:00 CET is 03:00 CEST: 02:30 never was. */
Test(instant, an_hour_that_never_was)
{
	set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
	for (int round = 0; round < 2; round++) {
		expect("2026-03-29T02:00", 1774746000000);
		expect("2026-03-29T02:30", 1774746000000);
		expect("2026-03-29T02:59:59", 1774746000000);
		expect("2026-03-29T03:00", 1774746000000);
		expect("2026-03-29T01:59:59", 1774745999000);
		expect("2026-08-29T02:30", 1787963400000);
	}
	set_zone("EST5EDT,M3.2.0,M11.1.0");
	expect("2026-03-08T02:30", 1772953200000);
	expect("2026-11-01T01:30", 1793511000000);
}

Test(instant, written_and_read_again)
{
	static const char *const zones[] = { "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3",
					     "<-0330>3:30<-0230>,M3.2.0,M11.1.0" };
	static const int64_t instants[] = {
		0, -1, 1795978989788, 1792888200000, 1792891800000, 1774746000000, 253370764800000
	};
	char text[TDL__INSTANT_MAX];

	for (size_t z = 0; z < 3; z++) {
		set_zone(zones[z]);
		for (size_t i = 0; i < sizeof instants / sizeof *instants; i++) {
			tdl__instant_format(text, instants[i]);
			expect(text, instants[i]);
		}
	}
	tdl__instant_format(text, INT64_MAX);
	cr_assert_str_eq(text, "9223372036854775807");
	tdl__instant_format(text, INT64_MIN);
	cr_assert_str_eq(text, "-9223372036854775808");
}
