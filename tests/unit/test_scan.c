/* SPDX-License-Identifier: MIT */
/*
 * Tokens: what is taken, and where what is wrong is found. Every text is given in memory that ends
 * with it.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "json/scan.h"

enum what {
	STRING,
	NUMBER,
	LITERAL,
	VALUE
};

static unsigned seen;
static bool integer;

/* Scans n bytes; returns the length of the token, or -1 minus the offset of the wrong byte. */
static ptrdiff_t scan(enum what what, const char *text, size_t n, unsigned depth)
{
	char *exact = malloc(n > 0 ? n : 1);
	const char *bad = NULL, *behind = NULL, *end = exact + n;
	ptrdiff_t result;

	memcpy(exact, text, n);
	seen = 0;
	switch (what) {
	case STRING:
		behind = tdl__scan_string(exact, end, &seen, &bad);
		break;
	case NUMBER:
		behind = tdl__scan_number(exact, end, &integer, &bad);
		break;
	case LITERAL:
		behind = tdl__scan_literal(exact, end, &bad);
		break;
	case VALUE:
		behind = tdl__scan_value(exact, end, depth, &bad);
		break;
	}
	result = behind ? behind - exact : -1 - (bad - exact);
	free(exact);
	return result;
}

#define TAKES(what, text, length) \
	cr_assert_eq(scan(what, text, sizeof text - 1, 64), (ptrdiff_t)(length), "%s", text)
#define WRONG(what, text, at) \
	cr_assert_eq(scan(what, text, sizeof text - 1, 64), -1 - (ptrdiff_t)(at), "%s", text)

/* All strings here are without their opening quote. */
Test(scan, strings)
{
	TAKES(STRING, "\"", 1);
	TAKES(STRING, "abc\"def", 4);
	cr_assert_eq(seen, 0);
	TAKES(STRING, "\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\"", 29);
	cr_assert_eq(seen, TDL__SEEN_ESCAPE);
	TAKES(STRING, "Z\xc3\xbcrich\x7f\"", 9);
	cr_assert_eq(seen, 0);
	TAKES(STRING, "\xe2\x80\xa8\"", 4);
	cr_assert_eq(seen, TDL__SEEN_SEPARATOR);
	WRONG(STRING, "", 0);
	WRONG(STRING, "abc", 3);
	WRONG(STRING, "abc\\", 4);
	WRONG(STRING, "abc\\\"", 5);
	WRONG(STRING, "\\u12", 4);
	WRONG(STRING, "\\u", 2);
	WRONG(STRING, "\\u12G4\"", 4);
	WRONG(STRING, "\\u+123\"", 2);
	WRONG(STRING, "\\x41\"", 1);
	WRONG(STRING, "\\'\"", 1);
	WRONG(STRING, "\\\0\"", 1);
	WRONG(STRING, "\\U0041\"", 1);
	WRONG(STRING, "a\tb\"", 1);
	WRONG(STRING, "a\0b\"", 1);
	WRONG(STRING, "a\x1f\"", 1);
	WRONG(STRING, "a\xffz\"", 1);
	WRONG(STRING, "\xc0\xa2", 0);
	WRONG(STRING, "ab\xe2\x80", 2);
	WRONG(STRING, "ab\xe2\x80\"", 2);
}

Test(scan, strings_of_any_length_stop_where_they_should)
{
	static const char *const stops[] = { "\"", "\\", "\x1f", "\xff", "\n", "" };

	for (size_t before = 0; before < 70; before++) {
		for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
			for (size_t after = 0; after < 40; after += 13) {
				char text[128];
				size_t n = before + strlen(stops[i]);
				ptrdiff_t wanted;

				memset(text, 'x', sizeof text);
				memcpy(text + before, stops[i], strlen(stops[i]));
				if (*stops[i] == '\0')
					after = 39;
				else
					n += after;
				wanted = *stops[i] == '"'    ? (ptrdiff_t)before + 1
					 : *stops[i] == '\\' ? -1 - (ptrdiff_t)before - 1
							     : -1 - (ptrdiff_t)before;
				cr_assert_eq(scan(STRING, text, n, 0), wanted);
			}
		}
	}
}

Test(scan, numbers)
{
	TAKES(NUMBER, "0", 1);
	cr_assert(integer);
	TAKES(NUMBER, "-0", 2);
	TAKES(NUMBER, "-12345678901234567890,", 21);
	cr_assert(integer);
	TAKES(NUMBER, "1.5}", 3);
	cr_assert_not(integer);
	TAKES(NUMBER, "1e5", 3);
	cr_assert_not(integer);
	TAKES(NUMBER, "-0.0E-07x", 8);
	TAKES(NUMBER, "1E+5", 4);
	WRONG(NUMBER, "", 0);
	WRONG(NUMBER, "-", 1);
	WRONG(NUMBER, "--1", 1);
	WRONG(NUMBER, "+1", 0);
	WRONG(NUMBER, ".5", 0);
	WRONG(NUMBER, "01", 1);
	WRONG(NUMBER, "-00", 2);
	WRONG(NUMBER, "1.", 2);
	WRONG(NUMBER, "1.e5", 2);
	WRONG(NUMBER, "1e", 2);
	WRONG(NUMBER, "1e+", 3);
	WRONG(NUMBER, "1e+x", 3);
	/* What stands behind a number is for others. */
	TAKES(NUMBER, "1-2", 1);
	TAKES(NUMBER, "0x10", 1);
	TAKES(NUMBER, "1.2.3", 3);
}

Test(scan, literals)
{
	TAKES(LITERAL, "true", 4);
	TAKES(LITERAL, "false,", 5);
	TAKES(LITERAL, "nullx", 4);
	WRONG(LITERAL, "", 0);
	WRONG(LITERAL, "tru", 3);
	WRONG(LITERAL, "trUe", 2);
	WRONG(LITERAL, "True", 0);
	WRONG(LITERAL, "NaN", 0);
	WRONG(LITERAL, "falsy", 4);
}

Test(scan, values)
{
	TAKES(VALUE, "1", 1);
	TAKES(VALUE, "\"x\" ", 3);
	TAKES(VALUE, "[]", 2);
	TAKES(VALUE, "{ }x", 3);
	TAKES(VALUE, "[1, [2,{\"a\" : null }],\r\n\t{}] ", 28);
	TAKES(VALUE, "{\"a\":{\"b\":[true,false]},\"a\":\"}\"}", 32);
	WRONG(VALUE, "", 0);
	WRONG(VALUE, "[", 1);
	WRONG(VALUE, "[1", 2);
	WRONG(VALUE, "[1,", 3);
	WRONG(VALUE, "[1,]", 3);
	WRONG(VALUE, "[,1]", 1);
	WRONG(VALUE, "[1 2]", 3);
	WRONG(VALUE, "[1}", 2);
	WRONG(VALUE, "{\"a\":1]", 6);
	WRONG(VALUE, "{\"a\"}", 4);
	WRONG(VALUE, "{\"a\":}", 5);
	WRONG(VALUE, "{\"a\":1,}", 7);
	WRONG(VALUE, "{a:1}", 1);
	WRONG(VALUE, "{1:1}", 1);
	WRONG(VALUE, "[\f1]", 1);
	WRONG(VALUE, "[\xc2\xa0]", 1);
	WRONG(VALUE, "]", 0);
}

Test(scan, values_of_any_depth)
{
	size_t depth = 100000;
	char *text = malloc(2 * depth);

	memset(text, '[', depth);
	memset(text + depth, ']', depth);
	cr_assert_eq(scan(VALUE, text, 2 * depth, TDL__DEPTH_MAX), -1 - TDL__DEPTH_MAX);
	/* More than the most is the most. */
	cr_assert_eq(scan(VALUE, text, 2 * depth, 1000000), -1 - TDL__DEPTH_MAX);
	cr_assert_eq(scan(VALUE, text + depth - TDL__DEPTH_MAX, 2 * TDL__DEPTH_MAX, TDL__DEPTH_MAX),
		     2 * TDL__DEPTH_MAX);
	cr_assert_eq(scan(VALUE, text + depth - 3, 6, 3), 6);
	cr_assert_eq(scan(VALUE, text + depth - 3, 6, 2), -1 - 2);
	cr_assert_eq(scan(VALUE, text + depth - 1, 2, 0), -1);
	free(text);
}

static void check_unescape(const char *text, const char *wanted, size_t n)
{
	char *out = malloc(strlen(text) + 1);

	cr_assert_eq(tdl__unescape(out, text, strlen(text)), n, "%s", text);
	cr_assert_eq(memcmp(out, wanted, n), 0, "%s", text);
	free(out);
}

Test(scan, unescape)
{
	check_unescape("", "", 0);
	check_unescape("plain \xc3\xa9", "plain \xc3\xa9", 8);
	check_unescape("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8);
	check_unescape("\\u0000\\u0041\\u00e9\\u20AC", "\0A\xc3\xa9\xe2\x82\xac", 7);
	check_unescape("\\ud83d\\ude00", "\xf0\x9f\x98\x80", 4);
	check_unescape("\\ud83d", "\xed\xa0\xbd", 3);
	check_unescape("\\ude00\\ud83d", "\xed\xb8\x80\xed\xa0\xbd", 6);
	check_unescape("\\ud83dx\\ude00", "\xed\xa0\xbdx\xed\xb8\x80", 7);
	check_unescape("\\ud83d\\u0041",
		       "\xed\xa0\xbd"
		       "A",
		       4);
	check_unescape("\\ud83d\\n", "\xed\xa0\xbd\n", 4);
}

Test(scan, blanks)
{
	static const char text[] = " \t\r\n\fx";

	cr_assert_eq(tdl__skip_blank(text, text + 6), text + 4);
	cr_assert_eq(tdl__skip_blank(text, text + 3), text + 3);
	cr_assert_eq(tdl__skip_blank(text + 5, text + 6), text + 5);
}
