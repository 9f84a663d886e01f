/* SPDX-License-Identifier: MIT */
/*
 * Rows against the slow scanner of slow_rows.c, whole and in chunks: the same verdict, line and
 * bytes. The first byte of an input chooses the schema, the second the size of chunks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "rows_run.h"
#include "slow_json.h"
#include "slow_rows.h"
#include "json/json.h"

static const char *const schemas[][6] = {
	{ "a:int" },
	{ "a:float" },
	{ "a:str" },
	{ "a:bool" },
	{ "id:int", "x:float", "s:str", "b:bool" },
	{ "A:str", "a:int" },
	{ "\xc3\xa9t\xc3\xa9:str", "quo\"te:int", "t\tb:float", "x\xe2\x80\xa8y:bool" },
	{ "a column of a long name:int", "a column of a longer name than most:str", "c:str" },
};

static void fail(const char *what, const struct outcome *fast, const struct slow *slow)
{
	fprintf(stderr, "%s\nfast: %d line %zu %s\n%s\nslow: %d line %zu\n%s\n", what, fast->code,
		(size_t)fast->error.line, fast->error.message, fast->out, slow->good, slow->line,
		slow->out);
	abort();
}

static void check_same(const struct outcome *fast, const struct slow *slow)
{
	if (slow->good != (fast->code == 0))
		fail("verdicts differ", fast, slow);
	if (!slow->good) {
		/* A foreign file is known by its first bytes, whichever line is the first bad. */
		bool foreign = strncmp(fast->error.message, "new.jsonl:1: looks ", 19) == 0;

		if (fast->error.line != slow->line && !foreign)
			fail("lines differ", fast, slow);
		if ((fast->code == TDL_ERR_EMPTY) != (slow->line == 0) && !foreign)
			fail("only one of them found no rows", fast, slow);
		return;
	}
	if (fast->n != slow->n || memcmp(fast->out, slow->out, slow->n) != 0)
		fail("outputs differ", fast, slow);
	if (fast->count != slow->rows)
		fail("counts differ", fast, slow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tdl_schema *schema;
	const char *in;
	size_t n, chunk, at;
	struct outcome whole, cut;
	struct slow slow;

	if (size < 2)
		return 0;
	schema = schema_of(schemas[data[0] % (sizeof schemas / sizeof *schemas)]);
	chunk = 1 + data[1] % 100;
	in = (const char *)data + 2;
	n = size - 2;

	if (tdl__json_valid((tdl__span){ in, n }, 64, &at) != slow_json(in, n, 64))
		abort();
	slow_rows(schema, in, n, &slow);
	if (!rows_run(schema, in, n, 0, n + 1, &whole) ||
	    !rows_run(schema, in, n, n * (data[1] / 100) / 2, chunk, &cut))
		abort();
	check_same(&whole, &slow);
	if (!outcome_same(&whole, &cut))
		fail("chunks matter", &cut, &slow);
	outcome_clear(&cut);
	if (whole.code == 0) {
		if (!rows_run(schema, whole.out, whole.n, 0, whole.n, &cut) || cut.code != 0 ||
		    !cut.verbatim)
			fail("what was put out is not in stored form", &cut, &slow);
		outcome_clear(&cut);
	}
	outcome_clear(&whole);
	slow_clear(&slow);
	tdl_schema_free(schema);
	return 0;
}
