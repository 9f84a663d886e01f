/* SPDX-License-Identifier: MIT */
/*
 * JSON texts as the log has them: strictness, members by their bytes, integers.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "json/json.h"

static tdl__span span(const char *text)
{
	return (tdl__span){ text, strlen(text) };
}

static bool valid(const char *text, size_t n, size_t *at)
{
	char *exact = malloc(n > 0 ? n : 1);
	size_t object_at = SIZE_MAX;
	tdl__span value;
	bool result;

	memcpy(exact, text, n);
	result = tdl__json_valid((tdl__span){ exact, n }, 8, at);
	cr_assert_eq(result, tdl__json_object((tdl__span){ exact, n }, 8, (const char *[]){ "a" },
					      1, &value, &object_at));
	cr_assert(result || object_at == *at, "%s: %zu", text, object_at);
	free(exact);
	return result;
}

Test(json, valid)
{
	static const char *const good[] = {
		"{}",
		" \t\r\n{ } \n",
		"1",
		"\"x\"",
		"null",
		"-0.5e-7",
		"[[[[[[[[]]]]]]]]",
		"{\"add\":{\"path\":\"p\",\"size\":12,\"numRecords\":3}}",
		"{\"a\":1,\"a\":2}",
		"\"\\ud800\"",
		"[1,2,{\"x\":[]}]",
	};
	size_t at;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		cr_assert(valid(good[i], strlen(good[i]), &at), "%s", good[i]);
}

Test(json, invalid)
{
	static const struct {
		const char *text;
		size_t at;
	} bad[] = {
		{ "", 0 },
		{ "  ", 2 },
		{ "{", 1 },
		{ "{}x", 2 },
		{ "{} {}", 3 },
		{ "{\"a\":1", 6 },
		{ "{\"a\":01}", 6 },
		{ "[1,]", 3 },
		{ "nullx", 4 },
		{ "NaN", 0 },
		{ "{'a':1}", 1 },
		{ "[[[[[[[[[]]]]]]]]]", 8 },
		{ "\xef\xbb\xbf{}", 0 },
		{ "\"\xff\"", 1 },
		{ "\"a\nb\"", 2 },
		{ "// c", 0 },
		{ "{\"a\":1}\v", 7 },
		{ "{\"a\" 1}", 5 },
		{ "{\"a\":1 \"b\":2}", 7 },
		{ "{\"a\":1,}", 7 },
		{ "{\"a\":1,\"\\x\":2}", 9 },
		{ "{\"a\":", 5 },
		{ "{\"a\":[[[[[[[[0]]]]]]]]}", 12 },
	};
	size_t at;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		cr_assert_not(valid(bad[i].text, strlen(bad[i].text), &at), "%s", bad[i].text);
		cr_assert_eq(at, bad[i].at, "%s: %zu", bad[i].text, at);
	}
	cr_assert_not(valid("{}\0", 3, &at));
	cr_assert_eq(at, 2);
}

static void next_is(tdl__span *rest, const char *key, const char *value)
{
	tdl__span k, v;

	cr_assert(tdl__json_next(rest, &k, &v));
	cr_assert(k.n == strlen(key) && memcmp(k.p, key, k.n) == 0, "%s", key);
	cr_assert(v.n == strlen(value) && memcmp(v.p, value, v.n) == 0, "%s", value);
}

Test(json, members_in_order)
{
	tdl__span rest = span(" {\"a\" : 1 , \"b\\\"}\":[1,{\"c\":\"]\"} ],\"\":{\"x\":{}}"
			      ",\"s\":\"\\\\\",\"n\":-1.5e3 } ");
	tdl__span key, value;

	next_is(&rest, "\"a\"", "1");
	next_is(&rest, "\"b\\\"}\"", "[1,{\"c\":\"]\"} ]");
	next_is(&rest, "\"\"", "{\"x\":{}}");
	next_is(&rest, "\"s\"", "\"\\\\\"");
	next_is(&rest, "\"n\"", "-1.5e3");
	cr_assert_not(tdl__json_next(&rest, &key, &value));
	cr_assert_not(tdl__json_next(&rest, &key, &value));
}

Test(json, no_members)
{
	static const char *const none[] = { "{}", " { } ", "[1,2]", "\"x\"", "5", "null", "" };
	tdl__span key, value;

	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		tdl__span rest = span(none[i]);

		cr_assert_not(tdl__json_next(&rest, &key, &value), "%s", none[i]);
	}
}

static const char *member(const char *object, const char *name)
{
	static char found[64];
	tdl__span value;

	if (!tdl__json_member(span(object), name, &value))
		return NULL;
	memcpy(found, value.p, value.n);
	found[value.n] = '\0';
	return found;
}

Test(json, checked_members)
{
	static const char *const names[] = { "a", "", "b\"", "none" };
	const tdl__span text =
		span(" {\"a\":1,\"\":{\"a\":2},\"b\\u0022\":[ ],\"ab\":3,\"a\" : \"4\"} ");
	tdl__span values[4];
	size_t at;

	cr_assert(tdl__json_object(text, 2, names, 4, values, &at));
	cr_assert(values[0].n == 3 && memcmp(values[0].p, "\"4\"", 3) == 0);
	cr_assert(values[1].n == 7 && memcmp(values[1].p, "{\"a\":2}", 7) == 0);
	cr_assert(values[2].n == 3 && memcmp(values[2].p, "[ ]", 3) == 0);
	cr_assert_null(values[3].p);
	cr_assert_not(tdl__json_object(text, 1, names, 4, values, &at));
	cr_assert_eq(at, 11);
	cr_assert_not(tdl__json_object(text, 0, names, 4, values, &at));
	cr_assert_eq(at, 1);
	/* A list has no members. */
	cr_assert(tdl__json_object(span("[{\"a\":1}]"), 2, names, 4, values, &at));
	cr_assert_null(values[0].p);
}

Test(json, member_by_name)
{
	static const char object[] =
		"{\"a\":1,\"\\u0062\":2,\"\\u00e9\":3,\"\\ud83d\\ude00\":4,"
		"\"x\\u0000y\":5,\"a\":6,\"\":7,\"n\\n\":8,\"\\u0061b\\u0063\":9,"
		"\"\\ud83d\":10,\"z\\u005a\\ud83d\\ude00\":11}";

	cr_assert_str_eq(member(object, "a"), "6");
	cr_assert_str_eq(member(object, "b"), "2");
	cr_assert_str_eq(member(object, "\xc3\xa9"), "3");
	cr_assert_str_eq(member(object, "\xf0\x9f\x98\x80"), "4");
	cr_assert_str_eq(member(object, ""), "7");
	cr_assert_str_eq(member(object, "n\n"), "8");
	cr_assert_str_eq(member(object, "abc"), "9");
	cr_assert_str_eq(member(object, "zZ\xf0\x9f\x98\x80"), "11");
	cr_assert_null(member(object, "x"));
	cr_assert_null(member(object, "A"));
	cr_assert_null(member(object, "ab"));
	cr_assert_null(member("[\"a\",1]", "a"));
	cr_assert_null(member("{\"b\":{\"a\":1}}", "a"));
}

Test(json, kind)
{
	cr_assert_eq(tdl__json_kind(span(" {}")), '{');
	cr_assert_eq(tdl__json_kind(span("\t\"x\"")), '"');
	cr_assert_eq(tdl__json_kind(span("-1")), '-');
	cr_assert_eq(tdl__json_kind(span("  ")), '\0');
}

Test(json, integers)
{
	static const struct {
		const char *text;
		int64_t value;
	} good[] = {
		{ "0", 0 },
		{ "-0", 0 },
		{ " 12 ", 12 },
		{ "9007199254740993", 9007199254740993 },
		{ "9223372036854775807", INT64_MAX },
		{ "-9223372036854775808", INT64_MIN },
	};
	static const char *const bad[] = {
		"",
		"9223372036854775808",
		"-9223372036854775809",
		"18446744073709551616",
		"100000000000000000000000",
		"1.0",
		"1e3",
		"\"1\"",
		"true",
		"null",
		"[1]",
		"1 2",
		"+1",
	};
	int64_t value;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		cr_assert(tdl__json_int64(span(good[i].text), &value), "%s", good[i].text);
		cr_assert_eq(value, good[i].value, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		cr_assert_not(tdl__json_int64(span(bad[i]), &value), "%s", bad[i]);
}
