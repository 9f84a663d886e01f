/* SPDX-License-Identifier: MIT */
/*
 * How fast rows are taken, in GB/s of input on one core, beside the search for newlines over the
 * same bytes. Built with the tests, not run as one: tests/bench/bench_rows [MiB [KIND]].
 */
#include <err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "row/stream.h"
#include "util/crc32c.h"

#define CHUNK	((size_t)1 << 20)
#define LONGEST ((size_t)4096)

struct input {
	char *bytes;
	size_t n;
};

static uint64_t state = 1;

static unsigned random_below(unsigned n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % n;
}

__attribute__((format(printf, 2, 3))) static void add(struct input *in, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	in->n += (size_t)vsnprintf(in->bytes + in->n, LONGEST, format, args);
	va_end(args);
}

static const char *const regions[] = { "north", "south-west", "Zürich", "Île-de-France", "eu" };

struct order {
	unsigned id, year, minor;
	const char *region;
	double amount;
	const char *paid;
};

static struct order an_order(void)
{
	return (struct order){ .id = random_below(100000000),
			       .year = 1990 + random_below(40),
			       .minor = random_below(100000),
			       .region = regions[random_below(5)],
			       .amount = random_below(1000000) / 100.0,
			       .paid = random_below(2) ? "true" : "false" };
}

static void canonical(struct input *in)
{
	struct order o = an_order();

	add(in, "{\"id\":%u,\"region\":\"%s\",\"year\":%u,\"amount\":%.2f,\"paid\":%s}\n", o.id,
	    o.region, o.year, o.amount, o.paid);
}

static void spaced(struct input *in)
{
	struct order o = an_order();

	add(in, "{\"id\": %u, \"region\": \"%s\", \"year\": %u, \"amount\": %.2f, \"paid\": %s}\n",
	    o.id, o.region, o.year, o.amount, o.paid);
}

static void reordered(struct input *in)
{
	struct order o = an_order();

	add(in, "{\"year\":%u,\"paid\":%s,\"id\":%u,\"amount\":%.2f,\"region\":\"%s\"}\n", o.year,
	    o.paid, o.id, o.amount, o.region);
}

static void crlf(struct input *in)
{
	struct order o = an_order();

	add(in, "{\"id\":%u,\"region\":\"%s\",\"year\":%u,\"amount\":%.2f,\"paid\":%s}\r\n", o.id,
	    o.region, o.year, o.amount, o.paid);
}

static void whole_floats(struct input *in)
{
	struct order o = an_order();

	add(in, "{\"id\":%u,\"region\":\"%s\",\"year\":%u,\"amount\":%u,\"paid\":%s}\n", o.id,
	    o.region, o.year, o.minor, o.paid);
}

static void text(struct input *in, const char *const *words, unsigned count)
{
	unsigned n = 10 + random_below(40);

	add(in, "{\"id\":%u,\"body\":\"", random_below(1000000));
	while (n-- > 0)
		add(in, "%s ", words[random_below(count)]);
	add(in, "\"}\n");
}

static void ascii_strings(struct input *in)
{
	static const char *const words[] = { "the",    "quick", "brown fox",	     "jumps",
					     "over a", "lazy",	"dog, and then some" };

	text(in, words, 7);
}

static void escaped_strings(struct input *in)
{
	static const char *const words[] = {
		"say",	      "\\\"quick\\\"", "brown\\nfox",	    "C:\\\\temp",
		"caf\\u00e9", "lazy",	       "dog, and then some"
	};

	text(in, words, 7);
}

static void foreign_strings(struct input *in)
{
	static const char *const words[] = { "быстрая", "лиса",	  "日本語", "прыгает",
					     "через",	"собаку", "😀" };

	text(in, words, 7);
}

static void numbers(struct input *in)
{
	add(in, "{\"a\":%u,\"b\":%.3f,\"c\":%u,\"d\":%.17g,\"e\":%d,\"f\":%.1f}\n",
	    random_below(10), random_below(100000) / 1000.0, random_below(2000000000),
	    0.1 + random_below(1000000) / 7.0, -(int)random_below(10000),
	    random_below(1000000) / 10.0);
}

static void exponents(struct input *in)
{
	add(in, "{\"a\":%u,\"b\":%.12e,\"c\":%u,\"d\":%.16e,\"e\":%d,\"f\":%.1fe-5}\n",
	    random_below(10), random_below(100000) / 1000.0, random_below(2000000000),
	    0.1 + random_below(1000000) / 7.0, -(int)random_below(10000),
	    random_below(1000000) / 10.0);
}

static int count_bytes(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	*(size_t *)context += n;
	return 0;
}

/* Time of this thread, so that others on the machine matter less. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double take_rows(const struct input *in, const tdl_schema *schema)
{
	size_t out = 0;
	tdl_error error = { 0 };
	double start = now();
	tdl__rows *rows = tdl__rows_new(schema, "bench", count_bytes, &out);

	if (!rows)
		errx(1, "out of memory");
	for (size_t at = 0; at < in->n; at += CHUNK) {
		size_t n = in->n - at < CHUNK ? in->n - at : CHUNK;

		if (tdl__rows_feed(rows, in->bytes + at, n, &error) < 0)
			errx(1, "%s", error.message);
	}
	if (tdl__rows_finish(rows, &error) < 0)
		errx(1, "%s", error.message);
	tdl__rows_free(rows);
	return now() - start;
}

static double find_newlines(const struct input *in, const tdl_schema *schema)
{
	const char *p = in->bytes, *end = p + in->n;
	double start = now();

	while (p < end)
		p = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
	return now() - start;
}

static double sum(const struct input *in, const tdl_schema *schema)
{
	double start = now();
	volatile uint32_t crc = tdl__crc32c(0, in->bytes, in->n);

	(void)crc;
	return now() - start;
}

static double best(double (*run)(const struct input *, const tdl_schema *), const struct input *in,
		   const tdl_schema *schema)
{
	double fastest = run(in, schema);

	for (int i = 0; i < 4; i++) {
		double seconds = run(in, schema);

		if (seconds < fastest)
			fastest = seconds;
	}
	return (double)in->n / fastest / 1e9;
}

static const struct {
	const char *name;
	void (*row)(struct input *in);
	const char *columns[6];
} kinds[] = {
#define ORDER                                                                   \
	{                                                                       \
		"id:int", "region:str", "year:int", "amount:float", "paid:bool" \
	}
	{ "canonical", canonical, ORDER },
	{ "spaced (json.dumps)", spaced, ORDER },
	{ "reordered", reordered, ORDER },
	{ "CRLF", crlf, ORDER },
	{ "ints in float column", whole_floats, ORDER },
#undef ORDER
	{ "strings, ASCII", ascii_strings, { "id:int", "body:str" } },
	{ "strings, escapes", escaped_strings, { "id:int", "body:str" } },
	{ "strings, not ASCII", foreign_strings, { "id:int", "body:str" } },
	{ "numbers", numbers, { "a:int", "b:float", "c:int", "d:float", "e:int", "f:float" } },
	{ "numbers, exponents",
	  exponents,
	  { "a:int", "b:float", "c:int", "d:float", "e:int", "f:float" } },
};

int main(int argc, char **argv)
{
	size_t size = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) << 20;
	struct input in = { malloc(size + LONGEST), 0 };

	if (!in.bytes)
		err(1, "malloc");
	printf("%-22s %8s %8s %8s %8s\n", "GB/s", "rows", "newlines", "crc32c", "row/B");
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		tdl_schema *schema;
		tdl_error error;
		size_t columns = 0, count = 0;

		if (argc > 2 && !strstr(kinds[i].name, argv[2]))
			continue;
		while (columns < 6 && kinds[i].columns[columns])
			columns++;
		if (tdl_schema_parse(kinds[i].columns, columns, &schema, &error) < 0)
			errx(1, "%s", error.message);
		for (in.n = 0; in.n + LONGEST < size; count++)
			kinds[i].row(&in);
		printf("%-22s %8.2f", kinds[i].name, best(take_rows, &in, schema));
		printf(" %8.2f", best(find_newlines, &in, schema));
		printf(" %8.2f %8zu\n", best(sum, &in, schema), in.n / count);
		tdl_schema_free(schema);
	}
	free(in.bytes);
	return 0;
}
