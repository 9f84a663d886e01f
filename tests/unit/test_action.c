/* SPDX-License-Identifier: MIT */
/*
 * One line of a commit: what is taken, what is skipped, what is damage and where.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "log/action.h"
#include "row/schema.h"
#include "util/buf.h"
#include "util/crc32c.h"

static tdl_error error;

static int take(tdl__commit *commit, const char *line, bool first)
{
	error = (tdl_error){ 0 };
	return tdl__commit_line(commit, (tdl__span){ line, strlen(line) }, first, &error);
}

#define P "part-0123456789abcdef0123456789abcdef.jsonl"

Test(action, what_writers_write)
{
	tdl__commit commit = { 0 };

	cr_assert_eq(take(&commit,
			  "{\"commitInfo\":{\"timestamp\":1795978990522,\"operation\":\"APPEND\","
			  "\"readVersion\":0}}",
			  true),
		     0);
	cr_assert_eq(take(&commit, "{\"add\":{\"path\":\"" P "\",\"size\":112,\"numRecords\":3}}",
			  false),
		     0);
	cr_assert_eq(take(&commit, "{\"remove\":{\"path\":\"x/y\"}}", false), 0);
	cr_assert(commit.has_info);
	cr_assert_not(commit.checked);
	cr_assert_eq(commit.timestamp, 1795978990522);
	cr_assert_eq(commit.read_version, 0);
	cr_assert_str_eq(tdl__commit_string(&commit, commit.operation), "APPEND");
	cr_assert_eq(commit.count, 2);
	cr_assert(commit.actions[0].is_add);
	cr_assert_not(commit.actions[0].has_crc);
	cr_assert_eq(commit.actions[0].size, 112);
	cr_assert_eq(commit.actions[0].num_records, 3);
	cr_assert_str_eq(tdl__commit_string(&commit, commit.actions[0].path), P);
	cr_assert_not(commit.actions[1].is_add);
	cr_assert_str_eq(tdl__commit_string(&commit, commit.actions[1].path), "x/y");
	tdl__commit_free(&commit);
}

Test(action, metadata)
{
	tdl__commit commit = { 0 };
	size_t n;

	cr_assert_eq(take(&commit,
			  "{\"metaData\":{\"id\":\"33c2\",\"schema\":[{\"name\":\"id\",\"type\":"
			  "\"int\"},{\"name\":\"caf\\u00e9\",\"type\":\"str\"}]}}",
			  false),
		     0);
	cr_assert_str_eq(tdl__commit_string(&commit, commit.table_id), "33c2");
	cr_assert_eq(tdl_schema_count(commit.schema), 2);
	cr_assert_str_eq(tdl_schema_name(commit.schema, 1, &n), "caf\xc3\xa9");
	cr_assert_eq(tdl_schema_type(commit.schema, 1), TDL_STR);
	/* The last one counts. */
	cr_assert_eq(
		take(&commit,
		     "{\"metaData\":{\"id\":\"b\",\"schema\":[{\"name\":\"a\",\"type\":\"bool\"}"
		     "]}}",
		     false),
		0);
	cr_assert_eq(tdl_schema_count(commit.schema), 1);
	cr_assert_str_eq(tdl__commit_string(&commit, commit.table_id), "b");
	tdl__commit_free(&commit);
}

Test(action, what_is_skipped)
{
	static const char *const lines[] = {
		"",
		" \t\r",
		"{}",
		"[]",
		" [ ] ",
		"{\"protocol\":{\"minReaderVersion\":1}}",
		"{\"txn\":{}}",
		"{\"Add\":5}",
		"{\"add\\u0000\":5}",
		"{\"addd\":null}",
	};
	tdl__commit commit = { 0 };

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		cr_assert_eq(take(&commit, lines[i], i == 0), 0, "%s: %s", lines[i], error.message);
		cr_assert_eq(commit.count, 0);
		cr_assert_not(commit.has_info);
	}
	tdl__commit_free(&commit);
}

Test(action, unknown_fields_are_skipped)
{
	tdl__commit commit = { 0 };

	cr_assert_eq(take(&commit,
			  "{\"add\":{\"stats\":\"{\\\"a\\\":1}\",\"path\":\"p\",\"size\":1,"
			  "\"numRecords\":1,\"tags\":[{},[1e999]]},\"x\":null}\r",
			  false),
		     0);
	cr_assert_eq(commit.count, 1);
	cr_assert_eq(take(&commit, "{\"a\\u0064d\":{\"path\":\"q\",\"size\":2,\"numRecords\":0}}",
			  false),
		     0);
	cr_assert_eq(commit.count, 2);
	tdl__commit_free(&commit);
}

/* Also those that cJSON cannot hold: it cuts numbers after 63 characters, and texts at a NUL. */
Test(action, unknown_fields_of_metadata_are_skipped)
{
	static const char *const fields[] = {
		"\"x\":1111111111111111111111111111111111111111111111111111111111111111111111",
		"\"x\":\"\\ud800\"",
		"\"x\":\"\\u0000\"",
	};

	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		tdl__commit commit = { 0 };
		char line[512];

		snprintf(line, sizeof line,
			 "{\"metaData\":{\"id\":\"i\",%s,\"schema\":[{%s,\"name\":\"a\",\"type\":"
			 "\"int\"}]}}",
			 fields[i], fields[i]);
		cr_assert_eq(take(&commit, line, false), 0, "%s: %s", line, error.message);
		cr_assert_eq(tdl_schema_count(commit.schema), 1);
		tdl__commit_free(&commit);
	}
}

#define INFO(members) "{\"commitInfo\":{" members "}}"
#define ADD(members)  "{\"add\":{" members "}}"
#define META(columns) "{\"metaData\":{\"id\":\"i\",\"schema\":" columns "}}"
#define NO_SIZE	      "add without a whole number as its size"
#define NO_COUNT      "add without a whole number as its numRecords"
#define NO_TIME	      "commitInfo without a whole number as its timestamp"
#define NO_COLUMN     "metaData with a column that has no name or type"

static const struct {
	const char *line;
	unsigned column;
	const char *message;
} damaged[] = {
	/* No JSON: the column is that of the first byte that is wrong. */
	{ "{", 2, "not valid JSON" },
	{ "{\"add\":{\"path\":\"p\",\"size\":1,\"numR", 34, "not valid JSON" },
	{ "{}{}", 3, "not valid JSON" },
	{ "{} x", 4, "not valid JSON" },
	{ "{\"a\":01}", 7, "not valid JSON" },
	{ "{\"a\":NaN}", 6, "not valid JSON" },
	{ "{'a':1}", 2, "not valid JSON" },
	{ "{\"a\":1,}", 8, "not valid JSON" },
	{ "{\"a\":\"\xff\"}", 7, "not valid JSON" },
	{ "{\"a\":\"\xed\xa0\x80\"}", 7, "not valid JSON" },
	{ "{\"a\":\"x\ty\"}", 8, "not valid JSON" },
	{ "\xef\xbb\xbf{}", 1, "not valid JSON" },
	{ "\v{}", 1, "not valid JSON" },
	/* JSON, but no action. */
	{ "5", 0, "an action that is not an object" },
	{ "null", 0, "an action that is not an object" },
	{ "\"add\"", 0, "an action that is not an object" },
	{ "[\"add\"]", 0, "an action that is not an object" },
	{ "[[]]", 0, "an action that is not an object" },
	/* add */
	{ "{\"add\":null}", 0, "add is not an object" },
	{ "{\"add\":[]}", 0, "add is not an object" },
	{ ADD(""), 0, "add without path" },
	{ ADD("\"path\":5"), 0, "the path of a data file is not text" },
	{ ADD("\"path\":null"), 0, "the path of a data file is not text" },
	{ ADD("\"path\":\"a\\u0000b\",\"size\":1,\"numRecords\":1"), 0,
	  "the path of a data file is not text" },
	{ ADD("\"path\":\"\\ud800\",\"size\":1,\"numRecords\":1"), 0, "text that is not Unicode" },
	{ ADD("\"path\":\"p\""), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":\"12\",\"numRecords\":1"), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":-1,\"numRecords\":1"), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":1.0,\"numRecords\":1"), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":1e3,\"numRecords\":1"), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":null,\"numRecords\":1"), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":9223372036854775808,\"numRecords\":1"), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":18446744073709551617,\"numRecords\":1"), 0, NO_SIZE },
	{ ADD("\"path\":\"p\",\"size\":1"), 0, NO_COUNT },
	{ ADD("\"path\":\"p\",\"size\":1,\"numRecords\":1e3"), 0, NO_COUNT },
	{ ADD("\"path\":\"p\",\"size\":1,\"numRecords\":true"), 0, NO_COUNT },
	{ ADD("\"path\":\"p\",\"size\":1,\"numRecords\":-1"), 0, NO_COUNT },
	/* The last of repeated members counts, as in Python. */
	{ ADD("\"path\":\"p\",\"size\":1,\"numRecords\":1,\"size\":-1"), 0, NO_SIZE },
	/* remove */
	{ "{\"remove\":{}}", 0, "remove without path" },
	{ "{\"remove\":5}", 0, "remove is not an object" },
	{ "{\"remove\":{\"path\":[]}}", 0, "the path of a data file is not text" },
	/* commitInfo */
	{ "{\"commitInfo\":[]}", 0, "commitInfo is not an object" },
	{ INFO("\"operation\":\"A\""), 0, NO_TIME },
	{ INFO("\"timestamp\":1.5,\"operation\":\"A\""), 0, NO_TIME },
	{ INFO("\"timestamp\":1e18,\"operation\":\"A\""), 0, NO_TIME },
	{ INFO("\"timestamp\":\"1\",\"operation\":\"A\""), 0, NO_TIME },
	{ INFO("\"timestamp\":9223372036854775808,\"operation\":\"A\""), 0, NO_TIME },
	{ INFO("\"timestamp\":1"), 0, "commitInfo without operation" },
	{ INFO("\"timestamp\":1,\"operation\":1"), 0, "the operation in commitInfo is not text" },
	{ INFO("\"timestamp\":1,\"operation\":\"A\",\"readVersion\":-1"), 0,
	  "the readVersion in commitInfo is not a version" },
	{ INFO("\"timestamp\":1,\"operation\":\"A\",\"readVersion\":\"0\""), 0,
	  "the readVersion in commitInfo is not a version" },
	{ INFO("\"timestamp\":1,\"operation\":\"A\",\"readVersion\":0.0"), 0,
	  "the readVersion in commitInfo is not a version" },
	{ INFO("\"timestamp\":1,\"operation\":\"A\",\"engineInfo\":\"tinydeltafs/"
	       "1\",\"actions\":1"),
	  0, "commitInfo has lost its actions or crc32c" },
	{ INFO("\"timestamp\":1,\"operation\":\"A\",\"engineInfo\":\"tinydeltafs/1\",\"actions\":1,"
	       "\"crc32c\":4294967296"),
	  0, "commitInfo has lost its actions or crc32c" },
	/* metaData */
	{ "{\"metaData\":null}", 0, "metaData is not an object" },
	{ "{\"metaData\":{\"schema\":[]}}", 0, "metaData without id" },
	{ "{\"metaData\":{\"id\":7,\"schema\":[]}}", 0, "the id in metaData is not text" },
	{ "{\"metaData\":{\"id\":\"i\"}}", 0, "metaData without a schema" },
	{ META("[]"), 0, "metaData without a schema" },
	{ META("{}"), 0, "metaData without a schema" },
	{ META("[5]"), 0, NO_COLUMN },
	{ META("[{\"name\":\"a\"}]"), 0, NO_COLUMN },
	{ META("[{\"name\":5,\"type\":\"int\"}]"), 0, NO_COLUMN },
	{ META("[{\"name\":\"a\",\"type\":\"long\"}]"), 0, NO_COLUMN },
	{ META("[{\"name\":\"a\",\"type\":\"Int\"}]"), 0, NO_COLUMN },
	{ META("[{\"name\":\"\\u0000\",\"type\":\"int\"}]"), 0, NO_COLUMN },
};

Test(action, damage)
{
	for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
		tdl__commit commit = { 0 };

		cr_assert_eq(take(&commit, damaged[i].line, true), TDL_ERR_CORRUPT, "%s",
			     damaged[i].line);
		cr_assert_eq(error.code, TDL_ERR_CORRUPT);
		cr_expect_eq(error.column, damaged[i].column, "%s: column %lu", damaged[i].line,
			     (unsigned long)error.column);
		cr_expect_str_eq(error.message, damaged[i].message, "%s: %s", damaged[i].line,
				 error.message);
		cr_assert_eq(commit.count, 0);
		tdl__commit_free(&commit);
	}
}

Test(action, damage_names_the_column_of_the_table)
{
	tdl__commit commit = { 0 };

	cr_assert_eq(
		take(&commit,
		     META("[{\"name\":\"a\",\"type\":\"int\"},{\"name\":\"a\",\"type\":\"int\"}"
			  "]"),
		     true),
		TDL_ERR_CORRUPT);
	cr_assert_not_null(strstr(error.message, "\"a\""), "%s", error.message);
	cr_assert_eq(take(&commit, META("[{\"name\":\"\",\"type\":\"int\"}]"), true),
		     TDL_ERR_CORRUPT);
	cr_assert_null(commit.schema);
	tdl__commit_free(&commit);
}

Test(action, nul_bytes_are_damage)
{
	static const char after[] = "{}\0", inside[] = "{\"a\":\0 1}", all[64] = { 0 };
	tdl__commit commit = { 0 };

	cr_assert_eq(tdl__commit_line(&commit, (tdl__span){ after, 3 }, true, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_eq(error.column, 3);
	cr_assert_eq(tdl__commit_line(&commit, (tdl__span){ inside, 9 }, true, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_eq(error.column, 6);
	cr_assert_eq(tdl__commit_line(&commit, (tdl__span){ all, 64 }, true, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_eq(error.column, 1);
	tdl__commit_free(&commit);
}

Test(action, depth_is_bounded_without_recursion)
{
	static char line[200001];
	tdl__commit commit = { 0 };

	memset(line, '[', 100000);
	memset(line + 100000, ']', 100000);
	cr_assert_eq(take(&commit, line, true), TDL_ERR_CORRUPT);
	tdl__commit_free(&commit);
}

Test(action, integers_keep_every_digit)
{
	tdl__commit commit = { 0 };

	cr_assert_eq(take(&commit,
			  ADD("\"path\":\"p\",\"size\":9223372036854775807,\"numRecords\":"
			      "9007199254740993"),
			  true),
		     0);
	cr_assert_eq(commit.actions[0].size, INT64_MAX);
	cr_assert_eq(commit.actions[0].num_records, 9007199254740993);
	cr_assert_eq(take(&commit,
			  INFO("\"timestamp\":-9223372036854775808,\"operation\":\"\","
			       "\"readVersion\":9007199254740993"),
			  true),
		     0);
	cr_assert_eq(commit.timestamp, INT64_MIN);
	cr_assert_eq(commit.read_version, 9007199254740993);
	tdl__commit_free(&commit);
}

Test(action, promises)
{
	static const char ours[] = INFO("\"timestamp\":1,\"operation\":\"A\",\"readVersion\":null,"
					"\"engineInfo\":\"tinydeltafs/9\",\"actions\":2,\"crc32c\":"
					"4294967295");
	tdl__commit commit = { 0 };

	cr_assert_eq(take(&commit, ours, true), 0);
	cr_assert(commit.checked);
	cr_assert_eq(commit.promised_lines, 2);
	cr_assert_eq(commit.promised_crc, UINT32_MAX);
	cr_assert_eq(commit.read_version, -1);
	/* There is one, and no later line takes its promise back. */
	cr_assert_eq(take(&commit, INFO("\"timestamp\":1,\"operation\":\"B\""), false),
		     TDL_ERR_CORRUPT);
	cr_assert(commit.checked);
	tdl__commit_clear(&commit);
	/* Ours only stands on the first line. */
	cr_assert_eq(take(&commit, ours, false), TDL_ERR_CORRUPT);
	tdl__commit_clear(&commit);
	cr_assert_not(commit.checked);
	tdl__commit_free(&commit);
}

#define OURS(rest)                                                    \
	INFO("\"timestamp\":1,\"operation\":\"A\",\"readVersion\":0," \
	     "\"engineInfo\":\"tinydeltafs/9\",\"actions\":0,\"previous\":" rest)

Test(action, what_a_commit_is_built_on)
{
	static const char *const wrong[] = {
		OURS("-1,\"crc32c\":1"),	OURS("4294967296,\"crc32c\":1"),
		OURS("1.0,\"crc32c\":1"),	OURS("\"1\",\"crc32c\":1"),
		OURS("1,\"crc32c\":1,\"x\":1"), OURS("1,\"crc32c\": 1"),
		OURS("1,\"crc32c\":1 "),	OURS("1 ,\"crc32c\" :1"),
		OURS("1,\"crc32c\":1") " ",	OURS("1,\"crc32\\u0063\":1"),
	};
	tdl__commit commit = { 0 };

	cr_assert_eq(take(&commit, OURS("4294967295,\"crc32c\":7"), true), 0);
	cr_assert(commit.chained);
	cr_assert_eq(commit.previous, UINT32_MAX);
	cr_assert_eq(commit.covered, strlen(OURS("4294967295")) - 2);
	tdl__commit_clear(&commit);
	cr_assert_eq(take(&commit, OURS("null,\"crc32c\":7"), true), 0);
	cr_assert(commit.chained);
	cr_assert_eq(commit.previous, -1);
	/* Every byte has to be in its place, since the checksum cannot cover itself. */
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		tdl__commit_clear(&commit);
		cr_expect_eq(take(&commit, wrong[i], true), TDL_ERR_CORRUPT, "%s", wrong[i]);
	}
	/* Another program's member of that name, without a checksum, is nothing. */
	tdl__commit_clear(&commit);
	cr_assert_eq(
		take(&commit, INFO("\"timestamp\":1,\"operation\":\"A\",\"previous\":\"x\""), true),
		0);
	cr_assert_not(commit.chained);
	tdl__commit_free(&commit);
}

Test(action, one_action_a_line)
{
	static const char *const two[] = {
		"{\"remove\":{\"path\":\"a\"},\"add\":{\"path\":\"b\",\"size\":1,\"numRecords\":1}"
		"}",
		"{\"add\":{\"path\":\"b\",\"size\":1,\"numRecords\":1},\"remove\":{\"path\":\"b\"}"
		"}",
		"{\"metaData\":{\"id\":\"i\",\"schema\":[{\"name\":\"a\",\"type\":\"int\"}]},"
		"\"add\":{\"path\":\"b\",\"size\":1,\"numRecords\":1}}",
		"{\"commitInfo\":{\"timestamp\":1,\"operation\":\"A\"},\"remove\":{\"path\":\"a\"}"
		"}",
	};
	tdl__commit commit = { 0 };

	for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
		tdl__commit_clear(&commit);
		cr_expect_eq(take(&commit, two[i], true), TDL_ERR_CORRUPT, "%s", two[i]);
	}
	/* What nobody knows is none; and of one that is repeated the last counts. */
	tdl__commit_clear(&commit);
	cr_assert_eq(take(&commit,
			  "{\"note\":{},\"remove\":{\"path\":\"a\"},\"remove\":{\"path\":\"b\"}}",
			  false),
		     0);
	cr_assert_eq(commit.count, 1);
	cr_assert_str_eq(tdl__commit_string(&commit, commit.actions[0].path), "b");
	tdl__commit_free(&commit);
}

Test(action, safe_paths)
{
	static const char *const safe[] = {
		P,	  "p",	      "a/b",	       "...",	       "a/..b",
		"-x",	  ".a",	      "a b",	       "a\nb",	       "~/x",
		"a%2e/b", "part%20a", "_delta_logs/x", "x/_delta_log", "file:x"
	};
	static const char *const unsafe[] = {
		"",
		"/",
		"/etc/passwd",
		"../x",
		"a/../../x",
		"../../etc/passwd",
		".",
		"..",
		"./part-x.jsonl",
		"part-x.jsonl/",
		"a//b",
		"a/./b",
		"a/..",
		"file:///etc/passwd",
		"_delta_log/00000000000000000000.json",
		"_incoming/x/y",
		"_delta_log",
		"_incoming",
		"_tags",
		"_tags/x",
	};
	static char longest[4097];

	for (size_t i = 0; i < sizeof safe / sizeof *safe; i++)
		cr_assert(tdl__path_safe(safe[i]), "%s", safe[i]);
	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++) {
		tdl__commit commit = { 0 };
		char line[300];

		cr_assert_not(tdl__path_safe(unsafe[i]), "%s", unsafe[i]);
		snprintf(line, sizeof line, ADD("\"path\":\"%s\",\"size\":1,\"numRecords\":1"),
			 unsafe[i]);
		cr_assert_eq(take(&commit, line, false), TDL_ERR_CORRUPT);
		cr_assert_not_null(strstr(error.message, "unsafe path of a data file"));
		/* A path that was never added may be removed: it is nothing. */
		snprintf(line, sizeof line, "{\"remove\":{\"path\":\"%s\"}}", unsafe[i]);
		cr_assert_eq(take(&commit, line, false), 0);
		tdl__commit_free(&commit);
	}
	memset(longest, 'a', 4095);
	cr_assert(tdl__path_safe(longest));
	longest[4095] = 'a';
	cr_assert_not(tdl__path_safe(longest));
}

Test(action, what_is_written_is_read)
{
	static const char *const columns[] = { "id:int", "caf\xc3\xa9 \":str" };
	tdl__commit commit = { 0 };
	tdl__text text = { 0 };
	tdl_schema *schema;
	tdl__sums sums = { .has_crc = true, .crc = 4026531839u }, none = { 0 };
	char *line;

	cr_assert_eq(tdl_schema_parse(columns, 2, &schema, NULL), 0);
	tdl__action_metadata(&text, "the-id", schema);
	tdl__action_add(&text, P, UINT64_C(9223372036854775807), 3, &sums);
	tdl__action_add(&text, "a \"b\"\\/\xc3\xa9", 0, 0, &none);
	tdl__action_remove(&text, "a \"b\"\\/\xc3\xa9");
	cr_assert_not(text.failed);
	for (line = strtok(text.p, "\n"); line; line = strtok(NULL, "\n"))
		cr_assert_eq(take(&commit, line, false), 0, "%s: %s", line, error.message);
	cr_assert(tdl__schema_equal(commit.schema, schema));
	cr_assert_eq(commit.count, 3);
	cr_assert(commit.actions[0].has_crc);
	cr_assert_eq(commit.actions[0].crc, sums.crc);
	cr_assert_eq(commit.actions[0].size, INT64_MAX);
	for (int i = 1; i < 3; i++)
		cr_assert_str_eq(tdl__commit_string(&commit, commit.actions[i].path),
				 "a \"b\"\\/\xc3\xa9");
	tdl__commit_free(&commit);
	tdl__text_free(&text);
	tdl_schema_free(schema);
}

/* Three blocks with these sums and rows; what the whole file's sum is follows from them. */
static void make_large(tdl__text *text, uint64_t size, const uint32_t *blocks, const uint32_t *rows,
		       uint32_t wrong)
{
	tdl__sums sums = { .has_crc = true, .blocks = blocks, .rows = rows };

	sums.crc = tdl__crc32c_combine(blocks[0], blocks[1], TDL__BLOCK);
	sums.crc = tdl__crc32c_combine(sums.crc, blocks[2], size - 2 * TDL__BLOCK) ^ wrong;
	tdl__text_free(text);
	tdl__action_add(text, P, size, 3, &sums);
	cr_assert_not(text->failed);
	text->p[text->n - 1] = '\0';
}

Test(action, sums_of_blocks_are_kept)
{
	const uint32_t blocks[] = { 0, 0x80000001, 0xfbefff00 }, rows[] = { 1048576, 0, 1 };
	tdl__commit commit = { 0 };
	tdl__text text = { 0 };

	for (unsigned lines = 1; lines < 5; lines++) {
		tdl__sums sums;

		make_large(&text, 2 * TDL__BLOCK + 1, blocks, lines % 2 ? rows : NULL, 0);
		cr_assert_eq(take(&commit, text.p, false), 0, "%s", error.message);
		cr_assert_eq(commit.count, lines);
		sums = tdl__action_sums(&commit, &commit.actions[lines - 1]);
		cr_assert(sums.has_crc);
		cr_assert_eq(memcmp(sums.blocks, blocks, sizeof blocks), 0);
		cr_assert_eq(sums.rows != NULL, lines % 2 == 1);
		cr_assert(!sums.rows || memcmp(sums.rows, rows, sizeof rows) == 0);
	}
	tdl__commit_free(&commit);
	tdl__text_free(&text);
}

/* A writer may escape a slash in its JSON; all else is as RFC 4648 has it, or damage. */
Test(action, sums_of_blocks_that_are_none)
{
	static const char *const wrong[] = {
		"\"blocks\":\"AAAAAAEAAIAA/+/7\"",		    /* no crc32c */
		"\"crc32c\":7,\"blocks\":\"AAAAAAEAAIAA/+/7\"",	    /* not that of these blocks */
		"\"crc32c\":7,\"blocks\":\"\"",			    /* of none */
		"\"crc32c\":7,\"blocks\":\"AAAAAAEAAIA=\"",	    /* of two */
		"\"crc32c\":7,\"blocks\":\"AAAAAAEAAIAA/+/7AAAA\"", /* more than three */
		"\"crc32c\":7,\"blocks\":\"AAAAAAEAAIAA_+_7\"",	    /* another alphabet */
		"\"crc32c\":7,\"blocks\":7",
		"\"crc32c\":7,\"blocks\":null",
		"\"crc32c\":7,\"blocks\":[1,2,3]",
		"\"crc32c\":7,\"rows\":\"AAAAAAEAAIAA/+/7\"", /* rows alone */
	};
	const uint32_t blocks[] = { 0, 0x80000001, 0xfbefff00 };
	const uint32_t many[] = { 1048577, 0, 0 }, too_many[] = { 0, 0, 2 };
	tdl__commit commit = { 0 };
	tdl__text text = { 0 };
	char line[500], *slash;

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		snprintf(line, sizeof line,
			 "{\"add\":{\"path\":\"x\",\"size\":2097153,\"numRecords\":1,%s}}",
			 wrong[i]);
		cr_assert_eq(take(&commit, line, false), TDL_ERR_CORRUPT, "%s", line);
		cr_assert_not_null(strstr(error.message, "of an add are not the"), "%s",
				   error.message);
	}
	make_large(&text, 2 * TDL__BLOCK + 1, blocks, NULL, 1);
	cr_assert_eq(take(&commit, text.p, false), TDL_ERR_CORRUPT);
	make_large(&text, 2 * TDL__BLOCK + 1, blocks, many, 0);
	cr_assert_eq(take(&commit, text.p, false), TDL_ERR_CORRUPT, "more rows than bytes");
	make_large(&text, 2 * TDL__BLOCK + 1, blocks, too_many, 0);
	cr_assert_eq(take(&commit, text.p, false), TDL_ERR_CORRUPT, "more rows than bytes");
	cr_assert_eq(commit.count, 0);

	make_large(&text, 2 * TDL__BLOCK + 1, blocks, NULL, 0);
	slash = strchr(text.p, '/');
	cr_assert_not_null(slash);
	snprintf(line, sizeof line, "%.*s\\%s", (int)(slash - text.p), text.p, slash);
	cr_assert_eq(take(&commit, line, false), 0, "%s: %s", line, error.message);
	cr_assert_eq(
		memcmp(tdl__action_sums(&commit, &commit.actions[0]).blocks, blocks, sizeof blocks),
		0);
	tdl__commit_free(&commit);
	tdl__text_free(&text);
}
