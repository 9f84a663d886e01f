/* SPDX-License-Identifier: MIT */
/*
 * The fast way through a row against the general one: what the first takes the second finds to be
 * in stored form, and the other way round, over rows made and then damaged at random.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "row/parse.h"
#include "row/schema.h"
#include "rows_run.h"

static const char *const names[] = { "a",
				     "id",
				     "a_name_of_16_by",
				     "a_name_of_16_byt",
				     "a_name_of_16_byte",
				     "a name that is longer than thirty-two bytes",
				     "\xe6\x97\xa5\xe6\x9c\xac",
				     "quo\"te" };
static const char *const ints[] = { "0",
				    "-0",
				    "7",
				    "-7",
				    "123456789012345",
				    "-123456789012345",
				    "1234567890123456",
				    "12345678901234567890123456789012345678901",
				    "00",
				    "01",
				    "-01",
				    "1.0",
				    "-",
				    "12e3",
				    "null",
				    "nul",
				    "\"1\"",
				    "true" };
static const char *const floats[] = {
	"0.0",
	"-0.0",
	"1.5",
	"-12.25",
	"0.30000000000000004",
	"123456789012345.5",
	"1234567890.12345678901234567890123456789",
	"12345678901234567890123456789012345.5",
	"1e5",
	"1.5e-7",
	"-1E+300",
	"1e308",
	"1.7976931348623157e308",
	"1.7976931348623159e308",
	"1e309",
	"0",
	"-0",
	"12",
	"01.5",
	"-00.5",
	"1.",
	".5",
	"1.e5",
	"1e",
	"-",
	"null",
	"nulll",
	"1.5.5",
	"1..5",
};
static const char *const strings[] = {
	"\"\"",
	"\"x\"",
	"\"fifteen bytes .\"",
	"\"sixteen bytes ..\"",
	"\"seventeen bytes .\"",
	"\"a string that takes more than thirty-two bytes\"",
	"\"\\n\\u00e9\\\"\"",
	"\"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80\"",
	"\"\xe2\x80\xa7\"",
	"null",
	"\"\xe2\x80\xa8\"",
	"\"\xc2\x85\"",
	"\"\\x\"",
	"\"\\u12\"",
	"\"\xff\"",
	"\"\xe2\x80\"",
	"\"\t\"",
	"\"\x01\"",
	"\"open",
	"x",
	"1",
};
static const char *const bools[] = { "true", "false", "null", "tru", "fals", "TRUE", "0", "truee" };

#define PICK(list) list[(size_t)rand() % (sizeof list / sizeof *list)]

static const char *value_of(enum tdl_type type)
{
	switch (type) {
	case TDL_INT:
		return PICK(ints);
	case TDL_FLOAT:
		return PICK(floats);
	case TDL_STR:
		return PICK(strings);
	default:
		return PICK(bools);
	}
}

static size_t make_row(char *out, const tdl_schema *schema)
{
	size_t n = 0, count = tdl_schema_count(schema);

	for (size_t i = 0; i < count; i++)
		n += (size_t)sprintf(out + n, "%c%s%s", i == 0 ? '{' : ',', schema->columns[i].key,
				     value_of(schema->columns[i].type));
	out[n++] = '}';
	return n;
}

/* Changes a byte or two, or none. A newline would make two lines of one. */
static size_t damage(char *row, size_t n)
{
	static const char bytes[] = " \t\r{}[]\",:\\0e.-+nx\x80\xc2\xff";
	size_t at = (size_t)rand() % n;

	switch (rand() % 8) {
	case 0:
		row[at] = bytes[(size_t)rand() % sizeof bytes];
		return n;
	case 1:
		memmove(row + at, row + at + 1, n - at - 1);
		return n - 1;
	case 2:
		memmove(row + at + 1, row + at, n - at);
		row[at] = bytes[(size_t)rand() % sizeof bytes];
		return n + 1;
	case 3:
		return at;
	default:
		return n;
	}
}

static tdl_schema *random_schema(void)
{
	static const char *const types[] = { "int", "float", "str", "bool" };
	static char texts[8][64];
	const char *columns[9] = { NULL };
	size_t count = 1 + (size_t)rand() % 8;

	for (size_t i = 0; i < count; i++) {
		/* Each name once. */
		snprintf(texts[i], sizeof texts[i], "%s:%s", names[i], PICK(types));
		columns[i] = texts[i];
	}
	return schema_of(columns);
}

Test(row_match, both_ways_agree)
{
	unsigned taken_rows = 0, refused_rows = 0;

	srand(4);
	for (int round = 0; round < 1000; round++) {
		tdl_schema *schema = random_schema();
		struct tdl__row row;

		cr_assert(tdl__row_init(&row, schema));
		for (int i = 0; i < 100; i++) {
			char text[2048];
			size_t n = make_row(text, schema);
			char *line;
			const char *behind;
			uint64_t taken = 0;
			bool good;

			/* Mostly good ones, or long rows would never pass. */
			for (int again = 0; again < 20; again++) {
				text[n] = '\n';
				if (tdl__row_parse(&row, text, n))
					break;
				n = make_row(text, schema);
			}
			n = damage(text, n);
			if (n == 0)
				continue;
			line = malloc(n + 1 + TDL__ROW_SLACK);
			memcpy(line, text, n);
			line[n] = '\n';
			memset(line + n + 1, "7\"n,}\n"[rand() % 6], TDL__ROW_SLACK);
			behind = tdl__row_match(&row, line, line + n + 1, &taken);
			good = tdl__row_parse(&row, line, n) && row.stored_form;
			cr_assert_eq(taken, good, "%.*s", (int)n, line);
			cr_assert_eq(behind, good ? line + n + 1 : line);
			taken_rows += good;
			refused_rows += !good;
			free(line);
		}
		tdl__row_clear(&row);
		tdl_schema_free(schema);
	}
	cr_assert_gt(taken_rows, 10000);
	cr_assert_gt(refused_rows, 10000);
}
