/* SPDX-License-Identifier: MIT */
/*
 * Tables that someone changed behind our back: what is read is right or refused as damaged, never
 * something else. Commits with checksums promise that; of others, that nothing outside the table is
 * touched and nothing crashes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/action.h"
#include "scratch.h"
#include "sys.h"
#include "tables.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2 "{\"id\":2,\"name\":\"b\"}\n"
#define ROW_3 "{\"id\":3,\"name\":\"c\"}\n"

enum {
	VERSIONS = 6
};
static const char *const rows[VERSIONS] = {
	"", ROW_1 ROW_2, ROW_1 ROW_2 ROW_3, ROW_2, ROW_1 ROW_2 ROW_3, ROW_1 ROW_2 ROW_3 ROW_1,
};

static void begin(void)
{
	tdl_table *table;

	scratch_begin();
	make_table("t");
	table = open_table("t");
	append_rows(table, ROW_1 ROW_2);
	append_rows(table, ROW_3);
	overwrite_rows(table, ROW_2);
	restore_version(table, 2);
	append_rows(table, ROW_1);
	tdl_table_free(table);
	if (is_there("t/_delta_log/_history.idx"))
		unlink(in_scratch("t/_delta_log/_history.idx"));
}

TestSuite(tamper, .init = begin, .fini = scratch_end);

static unsigned refused, taken;

/* Opens the table and reads all of it: versions before `from` are right, the others are right or
 * damaged. */
static void read_all(int64_t from, const char *what)
{
	tdl_error error = { 0 };
	tdl_table *table;
	int r = tdl_table_open(in_scratch("t"), 0, &table, &error);

	if (r < 0) {
		cr_assert(r == TDL_ERR_CORRUPT && from == 0, "%s: opening says %d, %s", what, r,
			  error.message);
		refused++;
		return;
	}
	for (int64_t version = 0; version < VERSIONS; version++) {
		char *bytes, *json;
		size_t n;

		r = try_read(table, version, &bytes, NULL, &error);
		if (r < 0 && (r != TDL_ERR_CORRUPT || version < from))
			cr_assert_fail("%s: version %d says %d, %s", what, (int)version, r,
				       error.message);
		refused += r < 0;
		if (r < 0)
			continue;
		taken += version >= from;
		if (strcmp(bytes, rows[version]) != 0)
			cr_assert_fail("%s: version %d is\n%s", what, (int)version, bytes);
		free(bytes);
		if (tdl_table_version_json(table, version, &json, &n, NULL) == 0)
			free(json);
	}
	tdl_table_free(table);
}

/* With every version refused that was changed, and those behind it. */
static void read_refused(int64_t from, const char *what)
{
	unsigned before = taken;

	read_all(from, what);
	cr_assert_eq(taken, before, "%s: nobody noticed", what);
}

Test(tamper, every_bit_of_every_commit, .timeout = 300)
{
	for (int64_t version = 0; version < VERSIONS; version++) {
		size_t n, first;
		char *text = get_bytes(commit_path("t", version), &n), what[100];

		first = (size_t)(strchr(text, '\n') - text);
		for (size_t at = 0; at < n; at++) {
			for (int bit = 0; bit < 8; bit++) {
				text[at] ^= (char)(1 << bit);
				put_bytes(commit_path("t", version), text, n);
				snprintf(what, sizeof what, "commit %d, byte %zu, bit %d",
					 (int)version, at, bit);
				/* The first line tells of the commit, the others make it. */
				if (at > first)
					read_refused(version, what);
				else
					read_all(version, what);
				text[at] ^= (char)(1 << bit);
			}
		}
		put_bytes(commit_path("t", version), text, n);
		free(text);
	}
	cr_assert_gt(refused, taken);
	read_all(VERSIONS, "after all");
}

Test(tamper, every_cut)
{
	for (int64_t version = 0; version < VERSIONS; version++) {
		size_t n;
		char *text = get_bytes(commit_path("t", version), &n), what[100];

		for (size_t cut = 0; cut < n; cut++) {
			put_bytes(commit_path("t", version), text, cut);
			snprintf(what, sizeof what, "commit %d cut at %zu", (int)version, cut);
			read_refused(version, what);
		}
		put_bytes(commit_path("t", version), text, n);
		free(text);
	}
}

/* Splits a text at its newlines, which stay. */
static unsigned split(char *text, char *lines[], size_t lengths[])
{
	unsigned count = 0;

	for (char *p = text; *p != '\0'; p += lengths[count++]) {
		lines[count] = p;
		lengths[count] = strcspn(p, "\n") + 1;
	}
	return count;
}

/* Writes the lines in the order that `order` gives, -1 at its end. */
static void put_lines(int64_t version, char *lines[], const size_t lengths[], const int *order)
{
	char text[8192];
	size_t n = 0;

	for (; *order >= 0; order++) {
		memcpy(text + n, lines[*order], lengths[*order]);
		n += lengths[*order];
	}
	put_bytes(commit_path("t", version), text, n);
}

Test(tamper, every_line_dropped_doubled_and_swapped)
{
	for (int64_t version = 0; version < VERSIONS; version++) {
		char *text = get_bytes(commit_path("t", version), NULL), *lines[16], what[100];
		size_t lengths[16];
		unsigned count = split(text, lines, lengths);

		for (unsigned at = 0; at < count; at++) {
			int dropped[20], doubled[20];
			unsigned d = 0, t = 0;

			for (unsigned i = 0; i < count; i++) {
				if (i != at)
					dropped[d++] = (int)i;
				doubled[t++] = (int)i;
				if (i == at)
					doubled[t++] = (int)i;
			}
			dropped[d] = doubled[t] = -1;
			put_lines(version, lines, lengths, dropped);
			snprintf(what, sizeof what, "commit %d without line %u", (int)version,
				 at + 1);
			read_refused(version, what);
			put_lines(version, lines, lengths, doubled);
			snprintf(what, sizeof what, "commit %d with line %u twice", (int)version,
				 at + 1);
			read_refused(version, what);
			for (unsigned other = at + 1; other < count; other++) {
				int order[20];

				for (unsigned i = 0; i < count; i++)
					order[i] = (int)(i == at ? other : i == other ? at : i);
				order[count] = -1;
				put_lines(version, lines, lengths, order);
				snprintf(what, sizeof what, "commit %d, lines %u and %u swapped",
					 (int)version, at + 1, other + 1);
				read_refused(version, what);
			}
		}
		put_bytes(commit_path("t", version), text, strlen(text));
		free(text);
	}
	read_all(VERSIONS, "after all");
}

Test(tamper, lines_and_bytes_put_in)
{
	static const char *const extra[] = {
		"\n",
		" ",
		"{}\n",
		"\n\n",
		"{\"add\":{\"path\":\"x\",\"size\":0,\"numRecords\":0}}\n",
		"{\"commitInfo\":{\"timestamp\":1,\"operation\":\"A\"}}\n",
		"{\"remove\":{\"path\":\"x\"}}\n",
	};

	for (int64_t version = 0; version < VERSIONS; version++) {
		size_t n;
		char *text = get_bytes(commit_path("t", version), &n), what[100];

		for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
			for (char *at = strchr(text, '\n') + 1;; at = strchr(at, '\n') + 1) {
				put(commit_path("t", version), "%.*s%s%s", (int)(at - text), text,
				    extra[i], at);
				snprintf(what, sizeof what, "commit %d, %zu put in at %zd",
					 (int)version, i, at - text);
				read_refused(version, what);
				if (*at == '\0')
					break;
			}
		}
		put_bytes(commit_path("t", version), text, n);
		free(text);
	}
}

/* ---- Data files ---------------------------------------------------------------------------- */

/* The first data file that a commit adds, and the versions that hold it. */
static char *part_of(int64_t version)
{
	char *text = get_bytes(commit_path("t", version), NULL);
	char *path = strdup(in_scratch("t/%.43s", strstr(text, "\"add\":{\"path\":\"") + 15));

	free(text);
	return path;
}

static void check_holders(const bool holds[VERSIONS], const char *what)
{
	tdl_table *table = open_table("t");
	tdl_error error;

	for (int64_t version = 0; version < VERSIONS; version++) {
		char *bytes;
		int r = try_read(table, version, &bytes, NULL, &error);

		if (holds[version]) {
			cr_assert_eq(r, TDL_ERR_CORRUPT, "%s: version %d says %d", what,
				     (int)version, r);
			cr_assert_eq(error.version, version);
			continue;
		}
		cr_assert_eq(r, 0, "%s: version %d says %d, %s", what, (int)version, r,
			     error.message);
		cr_assert_str_eq(bytes, rows[version]);
		free(bytes);
	}
	tdl_table_free(table);
}

Test(tamper, data_files, .timeout = 30)
{
	static const struct {
		int64_t version;
		bool holds[VERSIONS];
	} parts[] = {
		{ 1, { false, true, true, false, true, true } },
		{ 2, { false, false, true, false, true, true } },
		{ 3, { false, false, false, true, false, false } },
	};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char *path = part_of(parts[i].version);
		const bool *holds = parts[i].holds;
		size_t n;
		char *bytes = get_bytes(path, &n), what[100];

		for (size_t size = 0; size <= n + 40; size++) {
			if (size == n)
				continue;
			cut_to(path, size);
			snprintf(what, sizeof what, "%zu bytes for %zu", size, n);
			check_holders(holds, what);
			put_bytes(path, bytes, n);
		}
		/* The last byte is known without a look. */
		bytes[n - 1] = ' ';
		put_bytes(path, bytes, n);
		check_holders(holds, "no newline");
		bytes[n - 1] = '\n';
		put_bytes("elsewhere", bytes, n);
		unlink(path);
		check_holders(holds, "missing");
		cr_assert_eq(symlink(in_scratch("elsewhere"), path), 0);
		check_holders(holds, "a link");
		unlink(path);
		cr_assert_eq(mkfifo(path, 0666), 0);
		check_holders(holds, "a FIFO");
		unlink(path);
		cr_assert_eq(mkdir(path, 0777), 0);
		check_holders(holds, "a directory");
		rmdir(path);
		put_bytes(path, bytes, n);
		free(bytes);
		free(path);
	}
	read_all(VERSIONS, "after all");
}

/* ---- Commits of others --------------------------------------------------------------------- */

static const char *escaped;

/* No name that leaves the table may come as far as the system. */
static int watch(enum tdl__op op, const char *name)
{
	const char *table = in_scratch("f");

	if (op != TDL__OP_OPEN || strcmp(name, ".") == 0 || strcmp(name, table) == 0 ||
	    strcmp(name, "_delta_log") == 0 || tdl__path_safe(name))
		return 0;
	escaped = strdup(name);
	return 0;
}

/* A version of a foreign table may become another one, but a possible one. */
static void check_foreign(const char *what)
{
	tdl_error error;
	tdl_table *table;

	escaped = NULL;
	tdl__sys_hook = watch;
	if (tdl_table_open(in_scratch("f"), 0, &table, &error) == 0) {
		for (int64_t version = 0; version < 6; version++) {
			tdl_snapshot *snapshot;
			uint64_t size;
			char *bytes, *json;
			size_t n;

			if (tdl_table_version_json(table, version, &json, &n, &error) == 0)
				free(json);
			if (tdl_snapshot_open(table, version, &snapshot, &error) < 0)
				continue;
			if (tdl_snapshot_size(snapshot, &size, &error) == 0) {
				cr_assert_leq(size, 2000, "%s", what);
				cr_assert_leq(size, tdl_snapshot_info(snapshot)->bytes +
							    tdl_snapshot_info(snapshot)->files);
			}
			tdl_snapshot_unref(snapshot);
			if (try_read(table, version, &bytes, NULL, &error) == 0) {
				cr_assert_null(strstr(bytes, "secret"), "%s", what);
				free(bytes);
			}
		}
		tdl_table_free(table);
	}
	tdl__sys_hook = NULL;
	cr_assert_null(escaped, "%s: opened %s", what, escaped);
}

Test(tamper, foreign_commits, .timeout = 300)
{
	copy_tree(golden("tables/foreign"), "f");
	put("secret", "secret\n");
	for (int64_t version = 0; version < 6; version++) {
		size_t n;
		char *text = get_bytes(commit_path("f", version), &n), what[100];

		for (size_t at = 0; at < n; at++) {
			static const char puts[] = { '.', '/', '"', '\0', '9', '\n', '\\' };
			char was = text[at];

			for (size_t i = 0; i < 3 + sizeof puts; i++) {
				text[at] =
					i < 3 ? (char)(was ^ 1 << (at + 3 * i) % 8) : puts[i - 3];
				put_bytes(commit_path("f", version), text, n);
				snprintf(what, sizeof what, "commit %d, byte %zu is %#x",
					 (int)version, at, (unsigned char)text[at]);
				check_foreign(what);
			}
			text[at] = was;
		}
		put_bytes(commit_path("f", version), text, n);
		free(text);
	}
}
