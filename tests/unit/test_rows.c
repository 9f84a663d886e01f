/* SPDX-License-Identifier: MIT */
/*
 * Rows as a stream: where errors are, what messages say, what the sink gets, limits and chunks.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows_run.h"

static const char *const id_year[] = { "id:int", "year:int", NULL };
static const char *const all_types[] = { "i:int", "f:float", "s:str", "b:bool", NULL };

static void check_refused(const char *const *columns, const char *in, size_t n, int code,
			  uint64_t line, uint64_t column, const char *message)
{
	tdl_schema *schema = schema_of(columns);
	struct outcome whole, cut;

	cr_assert(rows_run(schema, in, n, 0, n + 1, &whole));
	cr_assert_eq(whole.code, code, "%s", in);
	cr_assert_eq(whole.error.code, code);
	cr_assert_str_eq(whole.error.message, message);
	cr_assert_eq(whole.error.line, line, "%s: line %zu", in, (size_t)whole.error.line);
	cr_assert_eq(whole.error.column, column, "%s: column %zu", in, (size_t)whole.error.column);
	cr_assert_eq(whole.error.version, -1);
	for (size_t first = 0; first < n; first++) {
		cr_assert(rows_run(schema, in, n, first, 1, &cut));
		cr_assert(outcome_same(&whole, &cut), "%s: cut at %zu", in, first);
		outcome_clear(&cut);
	}
	outcome_clear(&whole);
	tdl_schema_free(schema);
}

#define REFUSED(columns, in, line, column, message)                             \
	check_refused(columns, in, sizeof in - 1, TDL_ERR_SCHEMA, line, column, \
		      "new.jsonl:" message)

static void check_taken(const char *const *columns, const char *in, const char *wanted,
			uint64_t count)
{
	tdl_schema *schema = schema_of(columns);
	struct outcome o;

	for (size_t first = 0; first <= strlen(in); first++) {
		cr_assert(rows_run(schema, in, strlen(in), first, strlen(in), &o));
		cr_assert_eq(o.code, 0, "%s", o.error.message);
		cr_assert_str_eq(o.out, wanted);
		cr_assert_eq(o.count, count);
		cr_assert_eq(o.verbatim, strcmp(in, wanted) == 0);
		outcome_clear(&o);
	}
	tdl_schema_free(schema);
}

Test(rows, values_keep_their_characters)
{
	check_taken(
		all_types,
		"{\"i\":12345678901234567890,\"f\":1.10,\"s\":\"\\/\\u00e9\xc3\xa9\",\"b\":true}\n"
		"{\"i\":-1,\"f\":1E+5,\"s\":\"\",\"b\":false}\n"
		"{\"i\":null,\"f\":null,\"s\":null,\"b\":null}\n",
		"{\"i\":12345678901234567890,\"f\":1.10,\"s\":\"\\/\\u00e9\xc3\xa9\",\"b\":true}\n"
		"{\"i\":-1,\"f\":1E+5,\"s\":\"\",\"b\":false}\n"
		"{\"i\":null,\"f\":null,\"s\":null,\"b\":null}\n",
		3);
}

Test(rows, rewritten_and_stored_ones_keep_their_order)
{
	check_taken(all_types,
		    "{\"i\":1,\"f\":1.0,\"s\":\"a\",\"b\":true}\n"
		    "\n"
		    "{\"b\":false, \"s\":\"\xe2\x80\xa8\", \"f\":-0, \"i\":-0}\r\n"
		    "{\"i\":2,\"f\":2.5,\"s\":\"b\",\"b\":null}\n"
		    " \t\n"
		    "{\"i\":3,\"f\":7,\"s\":\"\xc2\x85"
		    "c\xe2\x80\xa9\",\"b\":null}\n"
		    "{\"i\":4,\"f\":-0.0,\"s\":\"d\",\"b\":null}",
		    "{\"i\":1,\"f\":1.0,\"s\":\"a\",\"b\":true}\n"
		    "{\"i\":0,\"f\":0.0,\"s\":\"\\u2028\",\"b\":false}\n"
		    "{\"i\":2,\"f\":2.5,\"s\":\"b\",\"b\":null}\n"
		    "{\"i\":3,\"f\":7.0,\"s\":\"\\u0085c\\u2029\",\"b\":null}\n"
		    "{\"i\":4,\"f\":-0.0,\"s\":\"d\",\"b\":null}\n",
		    5);
}

Test(rows, wrong_types)
{
	REFUSED(id_year, "{\"id\":1,\"year\":2}\n{\"id\":1,\"year\":\"x\"}\n", 2, 16,
		"2: \"year\" expected int, got string \"x\"");
	REFUSED(id_year, "\n\n {\"year\":1.5,\"id\":null}", 3, 10,
		"3: \"year\" expected int, got number 1.5");
	REFUSED(all_types, "{\"i\":1,\"f\":true,\"s\":1,\"b\":1}", 1, 12,
		"1: \"f\" expected float, got bool true");
	REFUSED(all_types, "{\"i\":1,\"f\":1,\"s\":[1, {}],\"b\":1}", 1, 18,
		"1: \"s\" expected str, got array [1, {}]");
	REFUSED(all_types, "{\"i\":1,\"f\":1,\"s\":{\"a\":[]},\"b\":1}", 1, 18,
		"1: \"s\" expected str, got object {\"a\":[]}");
	REFUSED(all_types, "{\"i\":1,\"f\":1,\"s\":\"\",\"b\":0}", 1, 25,
		"1: \"b\" expected bool, got number 0");
	REFUSED(id_year,
		"{\"id\":\"0123456789012345678901234567890123456789012345678901234567890\","
		"\"year\":1}",
		1, 7,
		"1: \"id\" expected int, got string \"012345678901234567890123456789012345678...");
	REFUSED(id_year, "{\"id\":\"\\u001b\x7f\xc2\x85\",\"year\":1}", 1, 7,
		"1: \"id\" expected int, got string \"\\u001b\\x7f\\xc2\\x85\"");
}

Test(rows, numbers_out_of_range)
{
	char in[5000], message[100];

	REFUSED(all_types, "{\"i\":1,\"f\":1e400,\"s\":\"\",\"b\":null}", 1, 12,
		"1: \"f\" is out of the range of a float: 1e400");
	memset(in, '7', sizeof in);
	memcpy(in, "{\"id\":-", 7);
	memcpy(in + 7 + TDL__DIGITS_MAX + 1, ",\"year\":1}", 11);
	snprintf(message, sizeof message,
		 "new.jsonl:1: \"id\" has 4301 digits; an int may have 4300");
	check_refused(id_year, in, strlen(in), TDL_ERR_SCHEMA, 1, 7, message);
}

Test(rows, columns_unknown_repeated_missing)
{
	REFUSED(id_year, "{\"id\":1,\"yeer\":2}", 1, 9, "1: unknown column \"yeer\"");
	/* Unknown ones come first, sorted; then repeated, missing, types. */
	REFUSED(id_year, "{\"z\":1,\"id\":true,\"id\":\"x\",\"a\\u0000\":[2]}", 1, 2,
		"1: unknown columns \"a\\u0000\", \"z\"");
	REFUSED(id_year, "{\"id\":true,\"id\":1}", 1, 12, "1: column \"id\" is there twice");
	REFUSED(id_year, "{\"id\":true}", 1, 0, "1: missing column \"year\"");
	REFUSED(id_year, "{}", 1, 0, "1: missing columns \"id\", \"year\"");
	REFUSED(id_year, "{\"ID\":1,\"year\":1}", 1, 2, "1: unknown column \"ID\"");
	REFUSED(id_year, "{\"id\":1,\"year\":1,\"\":null}", 1, 18, "1: unknown column \"\"");
	/* Syntax comes before all of them. */
	REFUSED(id_year, "{\"z\":1,\"id\":true,}", 1, 18, "1: byte 18: expected a key, got }");
}

Test(rows, many_columns_are_cut_and_counted)
{
	char in[4096] = "{", *p = in + 1;
	tdl_schema *schema = schema_of(id_year);
	struct outcome o;

	for (int i = 0; i < 100; i++)
		p += sprintf(p, "%s\"unknown%d\":%d", i > 0 ? "," : "", 199 - i, i);
	strcpy(p, "}\n");
	cr_assert(rows_run(schema, in, strlen(in), 0, sizeof in, &o));
	cr_assert_str_eq(
		o.error.message,
		"new.jsonl:1: unknown columns \"unknown192\", \"unknown193\", \"unknown194\", "
		"\"unknown195\", \"unknown196\", \"unknown197\", \"unknown198\", \"unknown199\""
		" and 92 more");
	outcome_clear(&o);
	tdl_schema_free(schema);
}

Test(rows, syntax)
{
	REFUSED(id_year, "{\n  \"id\": 1\n}\n", 1, 2,
		"1: the line ends inside the row; each line must hold one complete object");
	REFUSED(id_year, "[{\"id\":1}]", 1, 1,
		"1: expected an object, got array; each line must hold one complete object");
	REFUSED(id_year, "  null", 1, 3,
		"1: expected an object, got null; each line must hold one complete object");
	REFUSED(id_year, "nullify", 1, 1,
		"1: expected an object, got nullify; each line must hold one complete object");
	REFUSED(id_year, "{\"id\":1,\"year\":2}{\"id\":1,\"year\":2}", 1, 18,
		"1: byte 18: expected the end of the line, got {");
	REFUSED(id_year, "{\"id\" 1}", 1, 7, "1: byte 7: expected a colon, got 1");
	REFUSED(id_year, "{\"id\":1 \"year\":2}", 1, 9, "1: byte 9: expected a comma or }, got \"");
	REFUSED(id_year, "{\"id\":01}", 1, 8, "1: byte 8: 01 is not a number as JSON writes it");
	REFUSED(id_year, "{\"id\":NaN}", 1, 7, "1: byte 7: NaN and Infinity are not JSON");
	REFUSED(id_year, "{\"id\":-Infinity}", 1, 8, "1: byte 8: NaN and Infinity are not JSON");
	REFUSED(id_year, "{\"id\":None}", 1, 7, "1: byte 7: expected a value, got None");
	REFUSED(id_year,
		"{\"id\":\xc2\xa0"
		"1}",
		1, 7, "1: byte 7: expected a value, got U+00A0");
	REFUSED(id_year, "{\"id\":1}\0\n", 1, 9,
		"1: byte 9: expected the end of the line, got a NUL byte");
	REFUSED(id_year, "{\"id\":1}\f", 1, 9,
		"1: byte 9: expected the end of the line, got control byte 0x0c");
	REFUSED(id_year, "{\"i\x01", 1, 4,
		"1: byte 4: control byte 0x01 in a string must be an escape");
	REFUSED(id_year, "{\"i\\d", 1, 5, "1: byte 5: invalid escape in a string");
	REFUSED(id_year, "{\"i\xe9\"", 1, 4, "1: byte 4: invalid UTF-8 (byte 0xe9)");
	REFUSED(id_year, "\xe9\n", 1, 1, "1: byte 1: invalid UTF-8 (byte 0xe9)");
	REFUSED(id_year, "{\"id\":1,\"year\":2}\n\xef\xbb\xbf{}", 2, 1,
		"2: expected an object, got a byte order mark; "
		"each line must hold one complete object");
	/* The mark that is dropped counts as bytes of its line. */
	REFUSED(id_year, "\xef\xbb\xbf{\"id\":x}", 1, 10, "1: byte 10: expected a value, got x");
}

Test(rows, nesting_costs_nothing)
{
	size_t n = 3000000;
	char *in = malloc(n);
	tdl_schema *schema = schema_of(id_year);
	struct outcome o;

	memset(in, '[', n);
	memcpy(in, "{\"id\":", 6);
	cr_assert(rows_run(schema, in, n, 0, n, &o));
	cr_assert_eq(o.code, TDL_ERR_SCHEMA);
	cr_assert_str_eq(o.error.message, "new.jsonl:1: \"id\" expected int, got array "
					  "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[...");
	outcome_clear(&o);
	memcpy(in, "{\"ix\":", 6);
	cr_assert(rows_run(schema, in, n, 0, n, &o));
	cr_assert_str_eq(o.error.message, "new.jsonl:1: unknown column \"ix\"");
	outcome_clear(&o);
	tdl_schema_free(schema);
	free(in);
}

Test(rows, files_given_by_mistake)
{
#define FOREIGN(in, message) REFUSED(id_year, in, 1, 0, "1: looks " message)
	FOREIGN("\x1f\x8b\x08\0\0\0\0\0\0\xff", "gzip-compressed; decompress it first");
	FOREIGN("\x28\xb5\x2f\xfd\0", "zstd-compressed; decompress it first");
	FOREIGN("\xfd"
		"7zXZ\0\0\x04",
		"xz-compressed; decompress it first");
	FOREIGN("BZh91AY&SY", "bzip2-compressed; decompress it first");
	FOREIGN("PK\x03\x04\x14\0", "like a zip archive; unpack it first");
	FOREIGN("PAR1\x15\x04", "like a Parquet file; convert it to JSON lines first");
	FOREIGN("\xff\xfe{\0\"\0", "like UTF-16; convert it to UTF-8 first");
	FOREIGN("\xfe\xff\0{\0\"", "like UTF-16; convert it to UTF-8 first");
	FOREIGN("{\0\"\0i\0", "like UTF-16; convert it to UTF-8 first");
	FOREIGN("\0{\0\"\0i", "like UTF-16; convert it to UTF-8 first");
	FOREIGN("\n\0{\0\"\0", "like UTF-16; convert it to UTF-8 first");
	FOREIGN("\xff\xfe\0\0{\0\0\0", "like UTF-32; convert it to UTF-8 first");
	FOREIGN("{\0\0\0\"\0\0\0", "like UTF-32; convert it to UTF-8 first");
	/* Not a mistake of that kind. */
	REFUSED(id_year, "{\0}", 1, 2, "1: byte 2: expected a key or }, got a NUL byte");
	REFUSED(id_year, "\0\0\0\0\0\0\0\0\0\0", 1, 1,
		"1: expected an object, got a NUL byte; each line must hold one complete object");
}

Test(rows, none)
{
	static const char *const none[] = { "", "\n", " \r\n\n\t", "\xef\xbb\xbf",
					    "\xef\xbb\xbf\n" };

	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		check_refused(id_year, none[i], strlen(none[i]), TDL_ERR_EMPTY, 0, 0,
			      "new.jsonl: no rows");
}

Test(rows, hostile_name_of_the_input)
{
	tdl_schema *schema = schema_of(id_year);
	char name[3000];
	tdl_error error;
	size_t bytes = 0;

	for (size_t i = 0; i < sizeof name - 1; i++)
		name[i] = i % 2 ? '\n' : '\xff';
	name[sizeof name - 1] = '\0';
	tdl__rows *rows = tdl__rows_new(schema, name, NULL, &bytes);
	cr_assert_eq(tdl__rows_feed(rows, "{\"id\":[], \"year\":1}\n", 20, &error), TDL_ERR_SCHEMA);
	cr_assert_not_null(strstr(error.message, "...:1: \"id\" expected int, got array []"));
	tdl__rows_free(rows);
	tdl__rows_free(NULL);
	tdl_schema_free(schema);
}

static int full(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	error->os_error = 28;
	return error->code = TDL_ERR_IO;
}

Test(rows, the_sinks_error_is_passed_on)
{
	static const char *const inputs[] = { "{\"id\":1,\"year\":2}\n", "{\"year\":1, \"id\":2}\n",
					      "{\"id\":1,\"year\":2}" };
	tdl_schema *schema = schema_of(id_year);

	for (size_t i = 0; i < 3; i++) {
		tdl_error error = { 0 };
		tdl__rows *rows = tdl__rows_new(schema, "x", full, NULL);
		int code = tdl__rows_feed(rows, inputs[i], strlen(inputs[i]), &error);

		if (code == 0)
			code = tdl__rows_finish(rows, &error);
		cr_assert_eq(code, TDL_ERR_IO);
		cr_assert_eq(error.os_error, 28);
		tdl__rows_free(rows);
	}
	tdl_schema_free(schema);
}

/* Long rows, long runs of both kinds: whatever passes a buffer's size. */
Test(rows, of_all_lengths_and_chunks)
{
	static const size_t chunks[] = { 1000, 4095, 4096, 4097, 65535, 65536, 1 << 20 };
	static const size_t lengths[] = { 0, 1, 20, 500, 4090, 9000, 65000, 66000, 300000 };
	static const char *const id_body[] = { "id:int", "body:str", NULL };
	tdl_schema *schema = schema_of(id_body);
	size_t room = 8 << 20, n = 0, wanted_size = 0;
	char *in = malloc(room), *wanted = malloc(2 * room);

	srand(3);
	while (n + 700000 < room) {
		size_t length = lengths[(size_t)rand() % 9];
		bool reorder = rand() % 3 == 0, split = rand() % 5 == 0;
		char *body = malloc(length + 1);
		int repeat = length < 500 ? rand() % 300 : 1;

		memset(body, 'b', length);
		body[length] = '\0';
		while (repeat-- > 0) {
			n += (size_t)sprintf(in + n,
					     reorder ? "{\"body\":\"%s%s\",\"id\":%d}\n"
						     : "{\"id\":%3$d,\"body\":\"%1$s%2$s\"}\n",
					     body, split ? "\xe2\x80\xa8" : "", repeat);
			wanted_size += (size_t)sprintf(wanted + wanted_size,
						       "{\"id\":%d,\"body\":\"%s%s\"}\n", repeat,
						       body, split ? "\\u2028" : "");
		}
		free(body);
	}
	for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
		struct outcome o;

		cr_assert(rows_run(schema, in, n, 0, chunks[i], &o));
		cr_assert_eq(o.code, 0, "%s", o.error.message);
		cr_assert(o.n == wanted_size && memcmp(o.out, wanted, wanted_size) == 0);
		outcome_clear(&o);
	}
	free(in);
	free(wanted);
	tdl_schema_free(schema);
}

static int count_bytes(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	*(size_t *)context += n;
	return 0;
}

/* Feeds a row whose line has n bytes. */
static int feed_long(const char *start, char fill, size_t n, size_t chunk, tdl_error *error)
{
	static const char *const body[] = { "body:str", NULL };
	tdl_schema *schema = schema_of(body);
	size_t bytes = 0, left = n - strlen(start) - 2;
	char *filler = malloc(chunk);
	tdl__rows *rows = tdl__rows_new(schema, "long", count_bytes, &bytes);
	int code = tdl__rows_feed(rows, start, strlen(start), error);

	memset(filler, fill, chunk);
	while (code == 0 && left > 0) {
		size_t take = left < chunk ? left : chunk;

		code = tdl__rows_feed(rows, filler, take, error);
		left -= take;
	}
	if (code == 0)
		code = tdl__rows_feed(rows, "\"}\n", 3, error);
	if (code == 0)
		code = tdl__rows_finish(rows, error);
	if (code == 0)
		cr_assert_eq(bytes, n + 1);
	tdl__rows_free(rows);
	free(filler);
	tdl_schema_free(schema);
	return code;
}

Test(rows, as_long_as_the_limit_and_no_longer)
{
	tdl_error error;

	cr_assert_eq(feed_long("{\"body\":\"", 'x', TDL__ROW_MAX, 1 << 20, &error), 0);
	cr_assert_eq(feed_long("\n{\"body\":\"", 'x', TDL__ROW_MAX + 2, 1 << 20, &error),
		     TDL_ERR_LIMIT);
	cr_assert_str_eq(error.message, "long:2: the row is longer than 256 MiB");
	cr_assert_eq(error.line, 2);
	/* In one piece. */
	cr_assert_eq(feed_long("{\"body\":\"", 'x', TDL__ROW_MAX + 1, TDL__ROW_MAX, &error),
		     TDL_ERR_LIMIT);
}

Test(rows, what_is_no_row_is_not_waited_for)
{
	static char zeros[8192], blanks[8192];
	tdl_schema *schema = schema_of(id_year);
	tdl_error error;
	size_t bytes = 0;
	tdl__rows *rows = tdl__rows_new(schema, "zero", count_bytes, &bytes);

	cr_assert_eq(tdl__rows_feed(rows, zeros, sizeof zeros, &error), TDL_ERR_SCHEMA);
	cr_assert_str_eq(error.message, "zero:1: expected an object, got a NUL byte; "
					"each line must hold one complete object");
	tdl__rows_free(rows);
	rows = tdl__rows_new(schema, "blank", count_bytes, &bytes);
	memset(blanks, ' ', sizeof blanks);
	cr_assert_eq(tdl__rows_feed(rows, blanks, sizeof blanks, &error), 0);
	cr_assert_eq(tdl__rows_feed(rows, NULL, 0, &error), 0);
	cr_assert_eq(tdl__rows_feed(rows, "{\"id\":1,\"year\":null}", 20, &error), 0);
	cr_assert_eq(tdl__rows_finish(rows, &error), 0);
	cr_assert_eq(bytes, 21);
	tdl__rows_free(rows);
	tdl_schema_free(schema);
}
