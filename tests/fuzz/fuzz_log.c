/* SPDX-License-Identifier: MIT */
/*
 * Whole logs against a naive replay: the same versions, bytes included, or damage at the same
 * version; once read in one go, once from an index that was written half-way.
 *
 * The first byte of an input chooses where half-way is. Behind it 0xff stands between commit files;
 * one that begins with 0xfe is left out. A line that begins with one of these is short for another:
 *
 *     !        a commitInfo                  @        a metaData
 *     +FS      an add of file F, size S      -F       a remove of file F
 *     *FS      an add with a checksum
 *
 * A commit whose first line is ^ vouches for itself and for the one before; with ~ in its place it
 * was built on another.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "log/index.h"
#include "scratch.h"
#include "slow_commit.h"
#include "slow_json.h"
#include "table/table.h"

#define COMMITS_MAX 24
#define FILES	    16
#define HUGE	    (INT64_C(1) << 62)

static void need_at(bool holds, const char *what, int line)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_log.c:%d: not so: %s\n", line, what);
	abort();
}
#define need(holds) need_at(holds, #holds, __LINE__)

/* ---- Data files, the same for all logs ---------------------------------------------------- */

static struct {
	char path[64], bytes[8];
	size_t size;
} data[FILES];

static void set_up(void)
{
	scratch_begin();
	atexit(scratch_end);
	make_dir("t");
	make_dir("t/_delta_log");
	make_dir("t/odd");
	for (unsigned i = 0; i < FILES; i++) {
		char digits[33];

		memset(digits, "0123456789abcdef"[i], 32);
		digits[32] = '\0';
		snprintf(data[i].path, sizeof data[i].path, i < 10 ? "part-%s.jsonl" : "odd/%.3s",
			 digits);
		/* Some lack their last newline. */
		data[i].size = i % 6;
		memset(data[i].bytes, 'a' + (int)i, data[i].size);
		if (data[i].size > 0 && i % 3 != 0)
			data[i].bytes[data[i].size - 1] = '\n';
		put_bytes(in_scratch("t/%s", data[i].path), data[i].bytes, data[i].size);
	}
}

static int find_data(const char *path)
{
	for (int i = 0; i < FILES; i++) {
		if (strcmp(data[i].path, path) == 0)
			return i;
	}
	return -1;
}

/* ---- The log of an input ------------------------------------------------------------------ */

struct commit_file {
	char *bytes; /* NULL: left out */
	size_t n;
};

/* The checksum is the right one where the size is. */
static void put_add(FILE *out, unsigned file, unsigned size, bool with_crc)
{
	fprintf(out, "{\"add\":{\"path\":\"%s\",\"size\":%u,\"numRecords\":%u", data[file].path,
		size, size / 2);
	if (with_crc)
		fprintf(out, ",\"crc32c\":%" PRIu32,
			size == data[file].size ? slow_crc32c(data[file].bytes, size) : 1);
	fputs("}}", out);
}

static void put_line(FILE *out, const char *line, size_t n)
{
	const char *path = n > 1 ? data[(unsigned char)line[1] % FILES].path : "";
	unsigned size = n > 2 ? (unsigned char)line[2] % 8 : 0;

	if (n == 1 && *line == '!')
		fputs("{\"commitInfo\":{\"timestamp\":17,\"operation\":\"APPEND\","
		      "\"readVersion\":null}}",
		      out);
	else if (n == 1 && *line == '@')
		fputs("{\"metaData\":{\"id\":\"11111111-2222-4333-8444-555555555555\","
		      "\"schema\":[{\"name\":\"a\",\"type\":\"int\"}]}}",
		      out);
	else if (n == 3 && (*line == '+' || *line == '*'))
		put_add(out, (unsigned char)line[1] % FILES, size, *line == '*');
	else if (n == 2 && *line == '-')
		fprintf(out, "{\"remove\":{\"path\":\"%s\"}}", path);
	else
		fwrite(line, 1, n, out);
}

static struct commit_file one_commit(const char *bytes, size_t n)
{
	struct commit_file file = { 0 };
	const char *end = bytes + n;
	FILE *out;

	if (n > 0 && *bytes == '\xfe')
		return file;
	out = open_memstream(&file.bytes, &file.n);
	if (!out)
		abort();
	while (bytes < end) {
		const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));

		put_line(out, bytes, (size_t)((newline ? newline : end) - bytes));
		if (newline)
			fputc('\n', out);
		bytes = newline ? newline + 1 : end;
	}
	fclose(out);
	return file;
}

/* Puts a commitInfo before the rest of a commit, as this library writes it. */
static void vouch(struct commit_file *file, const struct commit_file *before, size_t version)
{
	const char *rest = file->bytes + 2, *end = file->bytes + file->n;
	size_t n = 0, lines = 0, start;
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, &n);
	uint32_t crc;

	for (const char *at = rest; at < end; lines++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		at = newline ? newline + 1 : end;
	}
	if (!out)
		abort();
	fprintf(out, "{\"commitInfo\":{\"timestamp\":17,\"operation\":\"APPEND\",\"readVersion\":");
	if (version > 0)
		fprintf(out,
			"%zu,\"engineInfo\":\"tinydeltafs/"
			"0\",\"actions\":%zu,\"previous\":%" PRIu32,
			version - 1, lines,
			slow_crc32c(before->bytes ? before->bytes : "",
				    before->bytes ? before->n : 0) ^
				(file->bytes[0] == '~'));
	else
		fprintf(out,
			"null,\"engineInfo\":\"tinydeltafs/0\",\"actions\":%zu,\"previous\":null",
			lines);
	fflush(out);
	start = n;
	fwrite(rest, 1, (size_t)(end - rest), out);
	fflush(out);
	crc = slow_crc32c(bytes, n);
	fseek(out, (long)start, SEEK_SET);
	fprintf(out, ",\"crc32c\":%" PRIu32 "}}\n", crc);
	fwrite(rest, 1, (size_t)(end - rest), out);
	fclose(out);
	free(file->bytes);
	*file = (struct commit_file){ bytes, n };
}

static size_t all_commits(const char *bytes, size_t n, struct commit_file *files)
{
	size_t count = 0;

	for (const char *end = bytes + n; count < COMMITS_MAX; count++) {
		const char *stop =
			bytes < end ? memchr(bytes, '\xff', (size_t)(end - bytes)) : NULL;

		files[count] = one_commit(bytes, (size_t)((stop ? stop : end) - bytes));
		if (files[count].bytes && files[count].n >= 2 &&
		    strchr("^~", files[count].bytes[0]) && files[count].bytes[1] == '\n')
			vouch(&files[count], &files[count > 0 ? count - 1 : 0], count);
		if (!stop)
			return count + 1;
		bytes = stop + 1;
	}
	return count;
}

static const char *path_of(size_t version)
{
	return in_scratch("t/_delta_log/%020zu.json", version);
}

static void write_commits(const struct commit_file *files, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		if (files[i].bytes)
			put_bytes(path_of(i), files[i].bytes, files[i].n);
	}
}

/* ---- The naive replay --------------------------------------------------------------------- */

struct version {
	struct slow_commit commit;
	const struct slow_action **live; /* borrowed from this and earlier commits */
	size_t count;
	bool has_schema;
	size_t columns;
};

struct replay {
	struct version versions[COMMITS_MAX];
	size_t count;
	int64_t damage; /* -1: none */
	bool huge;	/* more than anybody counts exactly */
};

static size_t find_live(const struct version *version, const char *path)
{
	size_t i = 0;

	while (i < version->count && strcmp(version->live[i]->path, path) != 0)
		i++;
	return i;
}

/* What an add does not say of its bytes, the newest one before it of the same file says. */
static void inherit(struct replay *replay, size_t at)
{
	for (size_t i = 0; i < replay->versions[at].commit.count; i++) {
		struct slow_action *action = &replay->versions[at].commit.actions[i];

		for (size_t v = at + 1; v-- > 0 && action->is_add && !action->has_crc;) {
			const struct slow_commit *commit = &replay->versions[v].commit;

			for (size_t k = v == at ? i : commit->count; k-- > 0 && !action->has_crc;) {
				const struct slow_action *other = &commit->actions[k];

				if (!other->is_add || !other->has_crc ||
				    other->size != action->size ||
				    strcmp(other->path, action->path) != 0)
					continue;
				action->has_crc = true;
				action->crc = other->crc;
			}
		}
	}
}

static bool apply(struct version *version)
{
	int64_t bytes = 0, rows = 0;

	for (size_t i = 0; i < version->commit.count; i++) {
		const struct slow_action *action = &version->commit.actions[i];
		size_t at = find_live(version, action->path);

		if (action->is_add) {
			version->live[at] = action;
			version->count += at == version->count;
		} else if (at < version->count) {
			memmove(version->live + at, version->live + at + 1,
				(version->count - at - 1) * sizeof *version->live);
			version->count--;
		}
		if (action->size >= HUGE || action->records >= HUGE)
			return false;
	}
	for (size_t i = 0; i < version->count; i++) {
		bytes += version->live[i]->size;
		rows += version->live[i]->records;
		if (bytes >= HUGE || rows >= HUGE)
			return false;
	}
	return true;
}

static void replay_all(struct replay *replay, const struct commit_file *files, size_t count)
{
	*replay = (struct replay){ .damage = -1 };
	for (size_t i = 0; i < count; i++) {
		struct version *version = &replay->versions[i];
		const struct version *last = i > 0 ? version - 1 : NULL;

		if (!files[i].bytes) {
			for (size_t k = i; k < count; k++) {
				if (files[k].bytes)
					replay->damage = (int64_t)i;
			}
			return;
		}
		replay->count++;
		if (!slow_commit_file(&version->commit, files[i].bytes, files[i].n)) {
			replay->damage = (int64_t)i;
			replay->count--;
			slow_commit_clear(&version->commit);
			return;
		}
		if (version->commit.chained && (version->commit.previous < 0) != (i == 0)) {
			replay->damage = (int64_t)i;
			replay->count--;
			return;
		}
		/* What is known is that one of the two is wrong. */
		if (version->commit.chained && i > 0 &&
		    version->commit.previous !=
			    (int64_t)slow_crc32c(files[i - 1].bytes, files[i - 1].n)) {
			replay->damage = (int64_t)i - 1;
			replay->count -= 2;
			return;
		}
		version->live = calloc((last ? last->count : 0) + version->commit.count + 1,
				       sizeof *version->live);
		if (!version->live)
			abort();
		if (last && last->count > 0)
			memcpy(version->live, last->live, last->count * sizeof *last->live);
		version->count = last ? last->count : 0;
		version->has_schema = version->commit.has_schema || (last && last->has_schema);
		version->columns = version->commit.has_schema ? version->commit.columns
				   : last		      ? last->columns
							      : 0;
		inherit(replay, i);
		if (!apply(version)) {
			replay->huge = true;
			return;
		}
	}
}

static void replay_clear(struct replay *replay)
{
	for (size_t i = 0; i < COMMITS_MAX; i++) {
		free(replay->versions[i].live);
		slow_commit_clear(&replay->versions[i].commit);
	}
}

/* ---- Comparing ---------------------------------------------------------------------------- */

/* The bytes of a version; false where it cannot be read. */
static bool bytes_of(const struct version *version, char *out, size_t *n)
{
	*n = 0;
	for (size_t i = 0; i < version->count; i++) {
		const struct slow_action *file = version->live[i];
		int at = find_data(file->path);
		size_t size = (size_t)file->size;

		if (size == 0)
			continue;
		if (at < 0 || data[at].size != size)
			return false;
		if (file->has_crc && file->crc != slow_crc32c(data[at].bytes, size))
			return false;
		memcpy(out + *n, data[at].bytes, size);
		*n += size;
		if (out[*n - 1] == '\n')
			continue;
		/* Who writes a checksum ends the last row. */
		if (file->has_crc)
			return false;
		out[(*n)++] = '\n';
	}
	return true;
}

static void check_files(tdl_snapshot *snapshot, const struct version *version)
{
	for (size_t i = 0; i < version->count; i++) {
		tdl_file file;

		need(tdl_snapshot_file(snapshot, i, &file, NULL) == 0);
		need(strcmp(file.path, version->live[i]->path) == 0);
		need(file.size == (uint64_t)version->live[i]->size);
		need(file.num_records == (uint64_t)version->live[i]->records);
	}
}

static void check_bytes(tdl_table *table, int64_t at, const struct version *version)
{
	static char expected[65536], got[65536];
	tdl_snapshot *snapshot;
	tdl_error error = { 0 };
	uint64_t size;
	size_t n, length = 0;
	bool good;
	int r;

	if (version->count > 1000)
		return;
	good = bytes_of(version, expected, &n);
	need(tdl_snapshot_open(table, at, &snapshot, &error) == 0);
	r = tdl_snapshot_read(snapshot, got, sizeof got, 0, &length, &error);
	need(r == (good ? 0 : TDL_ERR_CORRUPT));
	if (good) {
		need(tdl_snapshot_size(snapshot, &size, NULL) == 0 && size == n);
		need(length == n && memcmp(got, expected, n) == 0);
		check_files(snapshot, version);
	}
	tdl_snapshot_unref(snapshot);
}

static void need_int(const struct slow_node *object, const char *name, int64_t value)
{
	const struct slow_node *member = slow_member(object, name);
	int64_t is;

	need(member && slow_int64(member, &is) && is == value);
}

static void check_json(tdl_table *table, int64_t at, const struct version *version)
{
	struct slow_node *node;
	char *json;
	size_t n;

	need(tdl_table_version_json(table, at, &json, &n, NULL) == 0);
	need(n > 0 && json[n - 1] == '\n' && !memchr(json, '\n', n - 1));
	node = slow_parse(json, n, 256);
	need(node && node->kind == SLOW_OBJECT);
	need_int(node, "version", at);
	need_int(node, "timestamp", version->commit.timestamp);
	need_int(node, "files", (int64_t)version->count);
	slow_free(node);
	free(json);
}

static void check_version(tdl_table *table, int64_t at, const struct version *version)
{
	tdl_version_info info;
	int64_t bytes = 0, rows = 0;

	if (!version->has_schema) {
		need(tdl_table_version_info(table, at, &info, NULL) == TDL_ERR_CORRUPT);
		return;
	}
	for (size_t i = 0; i < version->count; i++) {
		bytes += version->live[i]->size;
		rows += version->live[i]->records;
	}
	need(tdl_table_version_info(table, at, &info, NULL) == 0);
	need(info.version == at && info.timestamp == version->commit.timestamp);
	need(info.read_version == version->commit.read_version);
	need(strcmp(info.operation, version->commit.operation) == 0);
	need(info.files == version->count);
	need(info.bytes == (uint64_t)bytes && info.num_records == (uint64_t)rows);
	need(tdl_schema_count(info.schema) == version->columns);
	check_bytes(table, at, version);
	check_json(table, at, version);
}

static void check_table(tdl_table *table, const struct replay *replay)
{
	tdl_error error = { 0 };
	int r = tdl_table_damage(table, &error);

	need(tdl_table_head(table) == (int64_t)replay->count - 1);
	need(r == (replay->damage < 0 ? 0 : TDL_ERR_CORRUPT));
	need(r == 0 || error.version == replay->damage);
	for (size_t i = 0; i < replay->count; i++)
		check_version(table, (int64_t)i, &replay->versions[i]);
}

static void open_and_check(const struct replay *replay)
{
	tdl_table *table = NULL;
	tdl_error error = { 0 };
	int r = tdl_table_open(in_scratch("t"), TDL_OPEN_READ_ONLY, &table, &error);

	if (!replay->huge) {
		if (replay->count == 0)
			need(r == TDL_ERR_CORRUPT || r == TDL_ERR_NOT_FOUND);
		else
			need(r == 0);
		if (r == 0)
			check_table(table, replay);
	}
	tdl_table_free(table);
}

static void save_index(void)
{
	tdl_table *table = NULL;

	if (tdl_table_open(in_scratch("t"), TDL_OPEN_READ_ONLY, &table, NULL) == 0)
		(void)tdl__index_save(&table->history, table->log_dir, TDL__INDEX_NAME);
	tdl_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static bool ready;
	struct commit_file files[COMMITS_MAX];
	static struct replay replay;
	size_t count, half;
	bool indexed;

	if (size < 1 || size > 8000)
		return 0;
	if (!ready)
		set_up();
	ready = true;
	count = all_commits((const char *)bytes + 1, size - 1, files);
	half = bytes[0] % (count + 1);
	replay_all(&replay, files, count);

	write_commits(files, 0, half);
	save_index();
	write_commits(files, half, count);
	indexed = access(in_scratch("t/_delta_log/" TDL__INDEX_NAME), F_OK) == 0;
	open_and_check(&replay);
	if (indexed && unlink(in_scratch("t/_delta_log/" TDL__INDEX_NAME)) == 0)
		open_and_check(&replay);

	replay_clear(&replay);
	for (size_t i = 0; i < count; i++) {
		unlink(path_of(i));
		free(files[i].bytes);
	}
	return 0;
}
