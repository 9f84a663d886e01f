/* SPDX-License-Identifier: MIT */
/*
 * Makes what the benchmarks work on, faster than commits could:
 *
 *     data rows MIB			rows of orders, on stdout
 *     data append DIR VERSIONS BYTES	a table that grew by one data file a version
 *     data overwrite DIR VERSIONS BYTES	one whose every version has one data file of its own
 *
 * Commits have the text that the library itself writes, but nothing is made durable. A small
 * file that is appended is a further name of an earlier one where it can be: that saves half of the
 * inodes and all of the blocks, and no reader looks at the number of links.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commit/publish.h"
#include "log/action.h"
#include "log/log.h"
#include "row/schema.h"
#include "util/buf.h"
#include "util/crc32c.h"
#include "util/util.h"

#define LONGEST_ROW 512
#define SHARED_MOST 4096

static uint64_t state = 1;

static unsigned random_below(unsigned n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % n;
}

static size_t order(char *out, unsigned id)
{
	static const char *const regions[] = { "north", "south-west", "east", "Zürich", "eu" };

	return (size_t)snprintf(out, LONGEST_ROW,
				"{\"id\":%u,\"region\":\"%s\",\"year\":%u,\"amount\":%u.%02u,"
				"\"paid\":%s,\"note\":\"order of the morning\"}\n",
				id, regions[random_below(5)], 1990 + random_below(40),
				random_below(10000), random_below(100),
				random_below(2) ? "true" : "false");
}

static const char *const columns[] = { "id:int",       "region:str", "year:int",
				       "amount:float", "paid:bool",  "note:str" };

static void write_all(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t moved = write(fd, bytes, n);

		if (moved < 0)
			err(1, "write");
		bytes += moved;
		n -= (size_t)moved;
	}
}

static int make_rows(uint64_t bytes)
{
	const size_t cap = (size_t)1 << 20;
	char *buffer = malloc(cap + LONGEST_ROW);
	uint64_t done = 0;

	if (!buffer)
		err(1, "malloc");
	for (unsigned id = 0; done < bytes;) {
		size_t n = 0;

		while (n < cap && done + n < bytes)
			n += order(buffer + n, id++);
		write_all(STDOUT_FILENO, buffer, n);
		done += n;
	}
	free(buffer);
	return 0;
}

/* The text of every data file of a table. */
struct content {
	char *bytes;
	size_t n;
	uint64_t rows;
	tdl__sums sums;
};

/* As a writer of ours sums up. */
static void sum_up(struct content *content)
{
	size_t count = (size_t)tdl__block_count(content->n);
	uint32_t *numbers = calloc(2 * count, sizeof *numbers);

	if (!numbers)
		err(1, "calloc");
	for (size_t i = 0; i < count; i++) {
		const char *block = content->bytes + i * TDL__BLOCK;
		size_t n = i + 1 < count ? TDL__BLOCK : content->n - i * TDL__BLOCK;

		numbers[i] = tdl__crc32c(0, block, n);
		for (size_t k = 0; k < n; k++)
			numbers[count + i] += block[k] == '\n';
	}
	content->sums = (tdl__sums){
		.has_crc = true,
		.crc = tdl__crc32c(0, content->bytes, content->n),
		.blocks = count > 1 ? numbers : NULL,
		.rows = count > 1 ? numbers + count : NULL,
	};
}

static struct content make_content(size_t bytes)
{
	struct content content = { .bytes = malloc(bytes + LONGEST_ROW) };

	if (!content.bytes)
		err(1, "malloc");
	do {
		content.n += order(content.bytes + content.n, (unsigned)content.rows++);
	} while (content.n < bytes);
	sum_up(&content);
	return content;
}

struct table {
	int dir, log;
	struct content content;
	char shared[64];   /* the data file whose further names are made */
	uint32_t previous; /* CRC-32C of the newest commit file */
};

static int create(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		err(1, "%s", name);
	return fd;
}

static void make_part(struct table *table, bool shared, char name[64])
{
	char hex[TDL__HEX_MAX];
	int fd;

	tdl__random_hex(hex);
	snprintf(name, 64, "part-%s.jsonl", hex);
	if (shared && table->content.n <= SHARED_MOST && table->shared[0] != '\0' &&
	    linkat(table->dir, table->shared, table->dir, name, 0) == 0)
		return;
	fd = create(table->dir, name);
	write_all(fd, table->content.bytes, table->content.n);
	close(fd);
	strcpy(table->shared, name);
}

static void make_commit(struct table *table, int64_t version, bool overwrite, const char *part,
			const char *before)
{
	tdl__text text = { 0 };
	char name[TDL__LOG_NAME_MAX];
	int fd;

	if (overwrite && before[0] != '\0')
		tdl__action_remove(&text, before);
	tdl__action_add(&text, part, table->content.n, table->content.rows, &table->content.sums);
	tdl__commit_info(&text, &(struct tdl__commit_info){
					.timestamp = INT64_C(1700000000000) + version * 1000,
					.operation = overwrite ? "OVERWRITE" : "APPEND",
					.read_version = version - 1,
					.previous = table->previous,
					.restored = -1,
				});
	if (text.failed)
		errx(1, "out of memory");
	tdl__log_name(name, version);
	fd = create(table->log, name);
	write_all(fd, text.p, text.n);
	close(fd);
	table->previous = tdl__crc32c(0, text.p, text.n);
	tdl__text_free(&text);
}

static int make_table(const char *path, int64_t versions, size_t bytes, bool overwrite)
{
	struct table table = { .content = make_content(bytes) };
	char part[64] = "", before[64];
	tdl__commit first = { 0 };
	tdl_schema *schema;
	tdl_error error;

	if (tdl_schema_parse(columns, sizeof columns / sizeof *columns, &schema, &error) < 0 ||
	    tdl_table_create(path, schema, NULL, &error) < 0)
		errx(1, "%s", error.message);
	table.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	table.log = openat(table.dir, TDL__LOG_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (table.log < 0)
		err(1, "%s", path);
	if (tdl__log_read(&(tdl__log){ table.log, path }, 0, &first, &error) < 0)
		errx(1, "%s", error.message);
	table.previous = first.file_crc;
	tdl__commit_free(&first);
	for (int64_t version = 1; version <= versions; version++) {
		strcpy(before, part);
		make_part(&table, !overwrite, part);
		make_commit(&table, version, overwrite, part, before);
	}
	free(table.content.bytes);
	tdl_schema_free(schema);
	close(table.log);
	close(table.dir);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "rows") == 0 && argc == 3)
		return make_rows(strtoull(argv[2], NULL, 10) << 20);
	if ((strcmp(what, "append") == 0 || strcmp(what, "overwrite") == 0) && argc == 5)
		return make_table(argv[2], strtoll(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
				  what[0] == 'o');
	errx(2, "usage: data rows MIB | data append|overwrite DIR VERSIONS BYTES");
}
