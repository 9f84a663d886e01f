/* SPDX-License-Identifier: MIT */
/*
 * Schemas: NAME:TYPE texts, lookup, the form in the log and the stored form of keys.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "row/schema.h"
#include "util/escape.h"

static tdl_error error;

static tdl_schema *parse(const char *const *columns, size_t count)
{
	tdl_schema *schema = NULL;

	cr_assert_eq(tdl_schema_parse(columns, count, &schema, &error), 0, "%s", error.message);
	return schema;
}

static void check_refused(const char *column, int code, const char *message)
{
	const char *columns[] = { "ok:int", column };
	tdl_schema *schema = NULL;

	cr_assert_eq(tdl_schema_parse(columns, 2, &schema, &error), code, "%s", column);
	cr_assert_eq(error.code, code);
	cr_assert_str_eq(error.message, message);
	cr_assert_null(schema);
}

Test(schema, names_and_types)
{
	static const char *const columns[] = { "id:int", " b c : float ", "d\t:\n str", "e:bool\r",
					       ("\xe3\x80\x80"
						"f\xe2\x80\xa8g\xc2\xa0: int\xc2\x85") };
	tdl_schema *schema = parse(columns, 5);
	size_t length;

	cr_assert_eq(tdl_schema_count(schema), 5);
	cr_assert_str_eq(tdl_schema_name(schema, 0, NULL), "id");
	cr_assert_str_eq(tdl_schema_name(schema, 1, &length), "b c");
	cr_assert_eq(length, 3);
	cr_assert_str_eq(tdl_schema_name(schema, 2, NULL), "d");
	cr_assert_str_eq(tdl_schema_name(schema, 3, NULL), "e");
	cr_assert_str_eq(tdl_schema_name(schema, 4, NULL), "f\xe2\x80\xa8g");
	cr_assert_eq(tdl_schema_type(schema, 0), TDL_INT);
	cr_assert_eq(tdl_schema_type(schema, 1), TDL_FLOAT);
	cr_assert_eq(tdl_schema_type(schema, 2), TDL_STR);
	cr_assert_eq(tdl_schema_type(schema, 3), TDL_BOOL);
	cr_assert_eq(tdl_schema_type(schema, 4), TDL_INT);
	cr_assert_str_eq(tdl_type_name(TDL_FLOAT), "float");
	tdl_schema_free(schema);
	tdl_schema_free(NULL);
}

Test(schema, refused)
{
	tdl_schema *schema = NULL;

	check_refused("a", TDL_ERR_SCHEMA, "\"a\" is not NAME:TYPE");
	check_refused(":int", TDL_ERR_SCHEMA, "a column needs a name");
	check_refused(" \xc2\xa0 :int", TDL_ERR_SCHEMA, "a column needs a name");
	check_refused("a:INT", TDL_ERR_SCHEMA,
		      "column \"a\" has the unknown type \"INT\" (did you mean int?); types are "
		      "int, float, str, bool");
	check_refused("a:", TDL_ERR_SCHEMA,
		      "column \"a\" has the unknown type \"\"; types are int, float, str, bool");
	check_refused(
		"a:int:x", TDL_ERR_SCHEMA,
		"column \"a\" has the unknown type \"int:x\"; types are int, float, str, bool");
	check_refused("ok : str", TDL_ERR_SCHEMA, "the column name \"ok\" is repeated");
	check_refused("\xff:int", TDL_ERR_SCHEMA, "the column name \"\\xff\" is not UTF-8");
	check_refused("", TDL_ERR_SCHEMA, "\"\" is not NAME:TYPE");
	check_refused(
		"a\nb:x", TDL_ERR_SCHEMA,
		"column \"a\\x0ab\" has the unknown type \"x\"; types are int, float, str, bool");
	cr_assert_eq(tdl_schema_parse(NULL, 0, &schema, &error), TDL_ERR_SCHEMA);
	cr_assert_str_eq(error.message, "a table needs at least one column");
	cr_assert_eq(tdl_schema_parse(NULL, 0, &schema, NULL), TDL_ERR_SCHEMA);
}

Test(schema, limits)
{
	tdl_schema *schema = NULL;
	char *name = malloc(TDL__NAME_MAX + 1);
	char number[16];

	memset(name, 'n', TDL__NAME_MAX + 1);
	cr_assert_eq(tdl__schema_add(&schema, name, TDL__NAME_MAX + 1, TDL_INT, &error),
		     TDL_ERR_LIMIT);
	cr_assert_null(schema);
	cr_assert_eq(tdl__schema_add(&schema, name, TDL__NAME_MAX, TDL_INT, &error), 0);
	for (int i = 1; i < TDL__COLUMNS_MAX; i++) {
		int n = snprintf(number, sizeof number, "c%d", i);

		cr_assert_eq(tdl__schema_add(&schema, number, (size_t)n, TDL_STR, &error), 0);
	}
	cr_assert_eq(tdl__schema_add(&schema, "one", 3, TDL_STR, &error), TDL_ERR_LIMIT);
	cr_assert_str_eq(error.message, "too many columns; the limit is 10000");
	cr_assert_eq(schema->count, TDL__COLUMNS_MAX);
	for (int i = 1; i < TDL__COLUMNS_MAX; i++) {
		int n = snprintf(number, sizeof number, "c%d", i);

		cr_assert_eq(tdl__schema_find(schema, number, (size_t)n), i);
	}
	cr_assert_eq(tdl__schema_find(schema, name, TDL__NAME_MAX), 0);
	cr_assert_eq(tdl__schema_find(schema, name, TDL__NAME_MAX - 1), -1);
	tdl_schema_free(schema);
	free(name);
}

Test(schema, names_are_bytes)
{
	tdl_schema *schema = NULL;

	cr_assert_eq(tdl__schema_add(&schema, "a", 1, TDL_INT, &error), 0);
	cr_assert_eq(tdl__schema_add(&schema, "A", 1, TDL_INT, &error), 0);
	cr_assert_eq(tdl__schema_add(&schema, "a\0b", 3, TDL_INT, &error), 0);
	cr_assert_eq(tdl__schema_add(&schema, "a\0b", 3, TDL_INT, &error), TDL_ERR_SCHEMA);
	cr_assert_str_eq(error.message, "the column name \"a\\x00b\" is repeated");
	cr_assert_eq(tdl__schema_find(schema, "a", 1), 0);
	cr_assert_eq(tdl__schema_find(schema, "A", 1), 1);
	cr_assert_eq(tdl__schema_find(schema, "a\0b", 3), 2);
	cr_assert_eq(tdl__schema_find(schema, "a\0", 2), -1);
	cr_assert_eq(tdl__schema_find(schema, "", 0), -1);
	cr_assert_str_eq(schema->columns[2].key, "\"a\\u0000b\":");
	tdl_schema_free(schema);
}

static void check_key(const char *name, const char *key)
{
	tdl_schema *schema = NULL;

	cr_assert_eq(tdl__schema_add(&schema, name, strlen(name), TDL_INT, &error), 0);
	cr_assert_str_eq(schema->columns[0].key, key);
	cr_assert_eq(schema->columns[0].key_length, strlen(key));
	tdl_schema_free(schema);
}

Test(schema, stored_keys)
{
	check_key("a", "\"a\":");
	check_key("quo\"te\\", "\"quo\\\"te\\\\\":");
	check_key("\b\f\n\r\t\x01\x1f\x7f/", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f/\":");
	check_key("\xc3\xa9t\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9t\xc3\xa9\xf0\x9f\x98\x80\":");
	check_key("x\xe2\x80\xa8y\xe2\x80\xa9\xc2\x85", "\"x\\u2028y\\u2029\\u0085\":");
}

static void check_quote(const char *text, const char *wanted)
{
	char out[64], small[8];
	size_t n = tdl__json_quote(out, sizeof out, text, strlen(text));

	cr_assert_eq(n, strlen(wanted));
	cr_assert_eq(memcmp(out, wanted, n), 0, "%s", wanted);
	memset(small, 'X', sizeof small);
	cr_assert_eq(tdl__json_quote(small, 5, text, strlen(text)), n);
	cr_assert_eq(memcmp(small, wanted, n < 5 ? n : 5), 0);
	cr_assert_eq(small[5], 'X');
}

Test(schema, quoted_as_python_does)
{
	check_quote("", "\"\"");
	check_quote("plain /~", "\"plain /~\"");
	check_quote("\"\\\b\f\n\r\t\x1f", "\"\\\"\\\\\\b\\f\\n\\r\\t\\u001f\"");
	check_quote("\xc3\xa9\xe2\x82\xac", "\"\\u00e9\\u20ac\"");
	check_quote("\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", "\"\\ud83d\\ude00\\udbff\\udfff\"");
	check_quote("\xff\xc3", "\"\\udcff\\udcc3\"");
	check_quote("\x7f", "\"\x7f\"");
}

Test(schema, as_the_log_has_it)
{
	static const char *const columns[] = { "id:int", "r\xc3\xa9gion\":str", "x:float",
					       "ok:bool" };
	tdl_schema *schema = parse(columns, 4);
	size_t length;
	char *json = tdl__schema_json(schema, &length);

	cr_assert_str_eq(json, "[{\"name\":\"id\",\"type\":\"int\"},"
			       "{\"name\":\"r\\u00e9gion\\\"\",\"type\":\"str\"},"
			       "{\"name\":\"x\",\"type\":\"float\"},"
			       "{\"name\":\"ok\",\"type\":\"bool\"}]");
	cr_assert_eq(length, strlen(json));
	free(json);
	tdl_schema_free(schema);
}

Test(schema, equal)
{
	static const char *const first[] = { "a:int", "b:str" };
	static const char *const others[][2] = { { "b:str", "a:int" },
						 { "a:int", "b:bool" },
						 { "a:int", "bb:str" } };
	tdl_schema *a = parse(first, 2), *b = parse(first, 2);

	cr_assert(tdl__schema_equal(a, b));
	tdl_schema_free(b);
	b = parse(first, 1);
	cr_assert_not(tdl__schema_equal(a, b));
	tdl_schema_free(b);
	for (size_t i = 0; i < 3; i++) {
		b = parse(others[i], 2);
		cr_assert_not(tdl__schema_equal(a, b));
		tdl_schema_free(b);
	}
	tdl_schema_free(a);
}

Test(schema, types_by_exact_bytes)
{
	enum tdl_type type;

	cr_assert(tdl__type_parse("int", 3, &type) && type == TDL_INT);
	cr_assert(tdl__type_parse("bool", 4, &type) && type == TDL_BOOL);
	cr_assert_not(tdl__type_parse("int", 2, &type));
	cr_assert_not(tdl__type_parse("int\0", 4, &type));
	cr_assert_not(tdl__type_parse("Int", 3, &type));
	cr_assert_not(tdl__type_parse("", 0, &type));
}
