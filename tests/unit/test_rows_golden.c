/* SPDX-License-Identifier: MIT */
/*
 * Every case of tests/data/rows.jsonl: verdict, line and bytes, however the input is cut.
 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows_run.h"

/* Decodes base64 in place; returns the length. */
static size_t decode(char *text)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned bits = 0, held = 0;
	size_t n = 0;

	for (const char *p = text; *p != '\0' && *p != '='; p++) {
		const char *found = strchr(alphabet, *p);

		cr_assert_not_null(found, "base64");
		bits = bits << 6 | (unsigned)(found - alphabet);
		held += 6;
		if (held >= 8) {
			held -= 8;
			text[n++] = (char)(bits >> held);
		}
	}
	return n;
}

static char *member(const cJSON *json, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
}

static tdl_schema *schema_from(const cJSON *list)
{
	const char *columns[64] = { NULL };
	size_t count = 0;
	const cJSON *item;

	cJSON_ArrayForEach(item, list)
	{
		columns[count++] = cJSON_GetStringValue(item);
	}
	return schema_of(columns);
}

static void check_case(const cJSON *json)
{
	const char *name = member(json, "name");
	tdl_schema *schema = schema_from(cJSON_GetObjectItemCaseSensitive(json, "schema"));
	char *in = member(json, "input"), *wanted = member(json, "output");
	size_t n = decode(in), wanted_size;
	struct outcome whole, cut;

	cr_assert(rows_run(schema, in, n, 0, n + 1, &whole), "%s", name);
	if (strcmp(member(json, "verdict"), "accept") == 0) {
		wanted_size = decode(wanted);
		cr_assert_eq(whole.code, 0, "%s: %s", name, whole.error.message);
		cr_assert(whole.n == wanted_size && memcmp(whole.out, wanted, wanted_size) == 0,
			  "%s: %s", name, whole.out);
		/* What is stored is stored again as it is. */
		cr_assert(rows_run(schema, wanted, wanted_size, 0, wanted_size, &cut));
		cr_assert(cut.code == 0 && cut.verbatim && cut.count == whole.count, "%s", name);
		outcome_clear(&cut);
	} else {
		const cJSON *line = cJSON_GetObjectItemCaseSensitive(json, "line");
		int code =
			strcmp(member(json, "kind"), "empty") == 0 ? TDL_ERR_EMPTY : TDL_ERR_SCHEMA;

		cr_assert_eq(whole.code, code, "%s", name);
		cr_assert_eq(whole.error.line, (uint64_t)line->valuedouble, "%s: %s", name,
			     whole.error.message);
	}
	cr_assert(rows_run(schema, in, n, 0, 1, &cut), "%s", name);
	cr_assert(outcome_same(&whole, &cut), "%s: byte by byte", name);
	outcome_clear(&cut);
	for (size_t first = 1; first < n && n < 1000; first++) {
		cr_assert(rows_run(schema, in, n, first, n, &cut), "%s", name);
		cr_assert(outcome_same(&whole, &cut), "%s: cut at %zu", name, first);
		outcome_clear(&cut);
	}
	outcome_clear(&whole);
	tdl_schema_free(schema);
}

Test(rows_golden, all_cases)
{
	char path[4096], *line = NULL;
	size_t room = 0;
	unsigned cases = 0;
	FILE *file;

	cr_assert_not_null(getenv("TDL_TEST_DATA"), "TDL_TEST_DATA is not set");
	snprintf(path, sizeof path, "%s/rows.jsonl", getenv("TDL_TEST_DATA"));
	file = fopen(path, "re");
	cr_assert_not_null(file, "%s", path);
	while (getline(&line, &room, file) > 0) {
		cJSON *json = cJSON_Parse(line);

		cr_assert_not_null(json);
		check_case(json);
		cJSON_Delete(json);
		cases++;
	}
	cr_assert_eq(cases, 510);
	free(line);
	fclose(file);
}
