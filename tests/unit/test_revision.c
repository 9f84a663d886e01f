/* SPDX-License-Identifier: MIT */
/*
 * The grammar of versions: what each form means, what is refused, which names a tag may have.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log/revision.h"

#define NOW INT64_C(1795978989788)

static tdl__revision parse(const char *text)
{
	tdl__revision revision = { .number = -7 };
	tdl_error error = { 0 };

	cr_assert_eq(tdl__revision_parse(text, NOW, &revision, &error), 0, "%s: %s", text,
		     error.message);
	return revision;
}

static void expect_number(const char *text, int64_t number, int64_t back)
{
	tdl__revision got = parse(text);

	cr_assert(got.kind == TDL__REVISION_NUMBER && got.number == number && got.back == back,
		  "%s: %" PRId64 "~%" PRId64, text, got.number, got.back);
}

Test(revision, numbers)
{
	expect_number("0", 0, 0);
	expect_number("7", 7, 0);
	expect_number("v7", 7, 0);
	expect_number("007", 7, 0);
	expect_number("v007", 7, 0);
	expect_number("7~0", 7, 0);
	expect_number("7~3", 7, 3);
	expect_number("v7~12", 7, 12);
	expect_number("9223372036854775806", INT64_MAX - 1, 0);
	expect_number("99999999999999999999", INT64_MAX, 0);
	expect_number("v99999999999999999999999999999999999", INT64_MAX, 0);
	expect_number("7~99999999999999999999", 7, INT64_MAX);
}

Test(revision, the_newest)
{
	cr_assert_eq(parse("latest").kind, TDL__REVISION_LATEST);
	cr_assert_eq(parse("latest~1").kind, TDL__REVISION_LATEST);
	cr_assert_eq(parse("latest~1").back, 1);
}

Test(revision, times)
{
	setenv("TZ", "UTC0", 1);
	tzset();
	cr_assert_eq(parse("@2026-11-29").kind, TDL__REVISION_INSTANT);
	cr_assert_eq(parse("@2026-11-29").instant, 1795910400000);
	cr_assert_eq(parse("@2026-11-29 18:40~2").instant, 1795977600000);
	cr_assert_eq(parse("@2026-11-29 18:40~2").back, 2);
	cr_assert_eq(parse("@-2h").instant, NOW - 7200000);
	cr_assert_eq(parse("@1795978989").instant, 1795978989000);
}

Test(revision, tags)
{
	static const char *const names[] = {
		"july", "before-import",     "v7a",	"v",  "V7", "Latest", "7th", "release_1.2",
		"a b",	"\xc3\xa9t\xc3\xa9", "latest2", "+1", "a-", "a.",     "#1",  "2026-11-29"
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char text[64];
		tdl__revision got;

		snprintf(text, sizeof text, "%s~4", names[i]);
		got = parse(text);
		cr_assert_eq(got.kind, TDL__REVISION_TAG, "%s", text);
		cr_assert_eq(got.tag_length, strlen(names[i]));
		cr_assert_eq(memcmp(got.tag, names[i], got.tag_length), 0);
		cr_assert_eq(got.back, 4);
	}
}

Test(revision, everything_else_is_refused)
{
	static const char *const texts[] = {
		"",	"~",	  "~1",	   "7~",    "7~x",	"7~-1",	     "7~1~1",
		"-1",	"+7~",	  "head",  "now",   "all",	"first",     "newest",
		"next", "head~1", "a..b",  ".a",    "-a",	"a/b",	     "a:b",
		"a@b",	"a^",	  "a\nb",  "a\x7f", "\xff\xfe", "a\xc2\x85", "a\xe2\x80\xa8",
		"@",	"@~1",	  "@july", "@7",
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		tdl__revision got = { .number = -7 };
		tdl_error error = { 0 };

		cr_assert_eq(tdl__revision_parse(texts[i], NOW, &got, &error), TDL_ERR_MISUSE,
			     "\"%s\"", texts[i]);
		cr_assert_eq(got.number, -7);
		cr_assert_neq(strstr(error.message, "2026-11-29") ||
				      strstr(error.message, "latest"),
			      0, "%s", error.message);
	}
}

Test(revision, names_of_tags)
{
	char name[TDL__TAG_MAX + 2];

	memset(name, 'x', sizeof name);
	cr_assert(tdl__tag_name_valid(name, TDL__TAG_MAX));
	cr_assert_not(tdl__tag_name_valid(name, TDL__TAG_MAX + 1));
	cr_assert_not(tdl__tag_name_valid("", 0));
	cr_assert_not(tdl__tag_name_valid("12", 2));
	cr_assert_not(tdl__tag_name_valid("v12", 3));
	cr_assert(tdl__tag_name_valid("v12x", 4));
	cr_assert_not(tdl__tag_name_valid("a\0b", 3));
	cr_assert_not(tdl__tag_name_valid("\xe2\x80\xae"
					  "x",
					  4)); /* turns the text round */
}
