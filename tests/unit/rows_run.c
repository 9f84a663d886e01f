/* SPDX-License-Identifier: MIT */
/*
 * Rows in, what became of them out. Knows nothing of what rows should look like.
 */
#include "rows_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collected {
	struct outcome *outcome;
	const char *in;
	size_t in_size, room;
	bool was_verbatim, broken;
};

static int collect(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	struct collected *c = context;
	struct outcome *o = c->outcome;

	if (n == 0 || (verbatim && !c->was_verbatim)) {
		fprintf(stderr, "the sink was called with nothing, or verbatim came back\n");
		c->broken = true;
	}
	c->was_verbatim = verbatim;
	if (o->n + n + 1 > c->room) {
		c->room = 2 * (o->n + n + 1);
		o->out = realloc(o->out, c->room);
	}
	memcpy(o->out + o->n, bytes, n);
	o->n += n;
	o->out[o->n] = '\0';
	if (verbatim && (o->n > c->in_size || memcmp(o->out, c->in, o->n) != 0)) {
		fprintf(stderr, "verbatim, but not the first bytes of the input\n");
		c->broken = true;
	}
	return 0;
}

static int feed(tdl__rows *rows, const char *p, size_t n, tdl_error *error)
{
	char *exact = malloc(n > 0 ? n : 1);
	int code;

	memcpy(exact, p, n);
	code = tdl__rows_feed(rows, exact, n, error);
	free(exact);
	return code;
}

bool rows_run(const tdl_schema *schema, const char *in, size_t n, size_t first, size_t chunk,
	      struct outcome *outcome)
{
	struct collected collected = { outcome, in, n, 1, true, false };
	tdl__rows *rows = tdl__rows_new(schema, "new.jsonl", collect, &collected);
	size_t at = first < n ? first : n;

	memset(outcome, 0, sizeof *outcome);
	outcome->out = calloc(1, 1);
	if (at > 0)
		outcome->code = feed(rows, in, at, &outcome->error);
	while (outcome->code == 0 && at < n) {
		size_t take = n - at < chunk ? n - at : chunk;

		outcome->code = feed(rows, in + at, take, &outcome->error);
		at += take;
	}
	if (outcome->code == 0)
		outcome->code = tdl__rows_finish(rows, &outcome->error);
	outcome->count = tdl__rows_count(rows);
	outcome->verbatim = tdl__rows_verbatim(rows);
	tdl__rows_free(rows);
	if (outcome->code == 0 && outcome->verbatim &&
	    (outcome->n != n || memcmp(outcome->out, in, n) != 0)) {
		fprintf(stderr, "verbatim at the end, but not the input\n");
		return false;
	}
	return !collected.broken;
}

void outcome_clear(struct outcome *outcome)
{
	free(outcome->out);
	memset(outcome, 0, sizeof *outcome);
}

bool outcome_same(const struct outcome *a, const struct outcome *b)
{
	if (a->code != b->code)
		return false;
	if (a->code != 0)
		return a->error.code == b->error.code && a->error.line == b->error.line &&
		       a->error.column == b->error.column &&
		       strcmp(a->error.message, b->error.message) == 0;
	return a->n == b->n && a->count == b->count && a->verbatim == b->verbatim &&
	       memcmp(a->out, b->out, a->n) == 0;
}

tdl_schema *schema_of(const char *const *columns)
{
	tdl_schema *schema = NULL;
	tdl_error error;
	size_t count = 0;

	while (columns[count])
		count++;
	if (tdl_schema_parse(columns, count, &schema, &error) < 0) {
		fprintf(stderr, "%s\n", error.message);
		abort();
	}
	return schema;
}
