/* SPDX-License-Identifier: MIT */
/*
 * One line of a commit file: what it says, and how it is written. Our own scanner guards (strict
 * JSON, numbers by their digits), cJSON reads strings. Knows no files and no versions.
 */
#include "log/action.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "log/record.h"
#include "row/schema.h"
#include "util/base64.h"
#include "util/buf.h"
#include "util/crc32c.h"
#include "util/escape.h"

/* Deep enough for any commit, far from cJSON's recursion becoming a danger to small stacks. */
#define DEPTH_MAX 128

static void delete_json(cJSON **json)
{
	cJSON_Delete(*json);
}

void tdl__commit_clear(tdl__commit *commit)
{
	tdl_schema_free(commit->schema);
	commit->schema = NULL;
	commit->has_info = false;
	commit->checked = false;
	commit->ours = false;
	commit->covered = 0;
	commit->chained = false;
	commit->count = 0;
	commit->strings.n = 0;
	commit->strings.failed = false;
}

void tdl__commit_free(tdl__commit *commit)
{
	tdl_schema_free(commit->schema);
	free(commit->actions);
	tdl__text_free(&commit->strings);
	*commit = (tdl__commit){ 0 };
}

static int bad(tdl_error *error, const char *what)
{
	return tdl__fail(error, TDL_ERR_CORRUPT, "%s", what);
}

/* A string that tdl__json_valid() accepted, through cJSON: it cuts long numbers, so it gets nothing
 * else. NULL with *code set where it cannot hold it: a lone surrogate, or no memory. */
static cJSON *parse_json(tdl__span text, int *code, tdl_error *error)
{
	char *copy CLEANUP(tdl__free_at) = malloc(text.n + 1);
	const char *end;
	cJSON *json;

	if (!copy) {
		*code = tdl__fail_nomem(error);
		return NULL;
	}
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	errno = 0;
	json = cJSON_ParseWithOpts(copy, &end, true);
	if (!json && errno == ENOMEM)
		*code = tdl__fail_nomem(error);
	else if (!json)
		*code = bad(error, "text that is not Unicode");
	return json;
}

/* cJSON ends texts at a NUL, so one that is escaped has to be found before. */
static bool escapes_nul(tdl__span text)
{
	for (size_t i = 0; i + 1 < text.n; i++) {
		if (text.p[i] != '\\')
			continue;
		i++;
		if (text.p[i] == 'u' && i + 4 < text.n && memcmp(text.p + i + 1, "0000", 4) == 0)
			return true;
	}
	return false;
}

/* Keeps a JSON string's text in the commit's strings. */
static int keep_string(tdl__commit *commit, tdl__span value, size_t *at, size_t *length,
		       const char *what, tdl_error *error)
{
	size_t start = commit->strings.n;
	bool escapes = memchr(value.p, '\\', value.n) != NULL;

	if (tdl__json_kind(value) != '"' || (escapes && escapes_nul(value)))
		return bad(error, what);
	while (value.p[0] != '"') {
		value.p++;
		value.n--;
	}
	while (value.p[value.n - 1] != '"')
		value.n--;
	if (!escapes) {
		tdl__text_add(&commit->strings, value.p + 1, value.n - 2);
	} else {
		cJSON *json CLEANUP(delete_json) = NULL;
		int r = 0;

		json = parse_json(value, &r, error);
		if (!json)
			return r;
		tdl__text_add(&commit->strings, json->valuestring, strlen(json->valuestring));
	}
	*length = commit->strings.n - start;
	*at = start;
	tdl__text_add(&commit->strings, "", 1);
	return commit->strings.failed ? tdl__fail_nomem(error) : 0;
}

static bool whole_number(tdl__span value, uint64_t *out)
{
	int64_t number;

	if (!value.p || !tdl__json_int64(value, &number) || number < 0)
		return false;
	*out = (uint64_t)number;
	return true;
}

/* How many bytes stand before the checksum, where that is the very end of a commitInfo line; 0:
 * it is not. Nothing may be written otherwise, or a byte could change and not be missed. */
static size_t before_checksum(tdl__span line, uint32_t crc)
{
	char end[40];
	size_t n = (size_t)snprintf(end, sizeof end, ",\"crc32c\":%" PRIu32 "}}", crc);

	return line.n > n && memcmp(line.p + line.n - n, end, n) == 0 ? line.n - n : 0;
}

/* Takes the promise of a commitInfo on the first line, where it makes one: of the lines behind it,
 * and, where it names the commit before, of itself. */
static int read_promise(tdl__commit *commit, tdl__span actions, tdl__span crc32c,
			tdl__span previous, tdl__span line, tdl_error *error)
{
	uint64_t lines, crc, before = 0;

	if (!whole_number(actions, &lines) || !whole_number(crc32c, &crc) || crc > UINT32_MAX)
		return 0;
	commit->checked = true;
	commit->promised_lines = lines;
	commit->promised_crc = (uint32_t)crc;
	if (!previous.p)
		return 0;
	commit->covered = before_checksum(line, (uint32_t)crc);
	if (commit->covered == 0)
		return bad(error, "commitInfo does not end with its crc32c");
	if (tdl__json_kind(previous) != 'n' &&
	    (!whole_number(previous, &before) || before > UINT32_MAX))
		return bad(error, "the previous in commitInfo is not a checksum");
	commit->chained = true;
	commit->previous = tdl__json_kind(previous) == 'n' ? -1 : (int64_t)before;
	return 0;
}

/* What a version's record repeats of a commitInfo. */
static size_t length_of_others(tdl__span info)
{
	tdl__span key, value;
	size_t length = 0;

	while (tdl__json_next(&info, &key, &value)) {
		if (!tdl__record_leaves_out(key))
			length += tdl__record_member(key, value);
	}
	return length;
}

static int read_info(tdl__commit *commit, tdl__span info, tdl__span line, bool first,
		     tdl_error *error)
{
	enum {
		TIMESTAMP,
		OPERATION,
		READ_VERSION,
		ACTIONS,
		CRC32C,
		PREVIOUS,
		ENGINE,
		COUNT
	};
	static const char *const names[COUNT] = { "timestamp", "operation", "readVersion",
						  "actions",   "crc32c",    "previous",
						  "engineInfo" };
	static const char ours[] = "\"tinydeltafs/";
	tdl__span values[COUNT];
	size_t length;
	int r;

	if (commit->has_info)
		return bad(error, "a second commitInfo");
	if (tdl__json_kind(info) != '{')
		return bad(error, "commitInfo is not an object");
	tdl__json_members(info, names, COUNT, values);
	commit->others = length_of_others(info);
	if (!values[TIMESTAMP].p || !tdl__json_int64(values[TIMESTAMP], &commit->timestamp))
		return bad(error, "commitInfo without a whole number as its timestamp");
	if (!values[OPERATION].p)
		return bad(error, "commitInfo without operation");
	r = keep_string(commit, values[OPERATION], &commit->operation, &length,
			"the operation in commitInfo is not text", error);
	if (r < 0)
		return r;
	commit->read_version = -1;
	if (values[READ_VERSION].p && tdl__json_kind(values[READ_VERSION]) != 'n' &&
	    (!tdl__json_int64(values[READ_VERSION], &commit->read_version) ||
	     commit->read_version < 0))
		return bad(error, "the readVersion in commitInfo is not a version");
	commit->has_info = true;
	commit->ours = values[ENGINE].p && values[ENGINE].n > strlen(ours) &&
		       memcmp(values[ENGINE].p, ours, strlen(ours)) == 0;
	if (first)
		r = read_promise(commit, values[ACTIONS], values[CRC32C], values[PREVIOUS], line,
				 error);
	/* What we write makes a promise; so a commit that says it is ours and makes none was
	 * tampered with. */
	if (r == 0 && commit->ours && !commit->checked)
		return bad(error, "commitInfo has lost its actions or crc32c");
	return r;
}

static uint32_t little_endian(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Keeps a number for each block of a file, from their base64. */
static int keep_numbers(tdl__commit *commit, tdl__span value, uint64_t count, size_t *at,
			const char *what, tdl_error *error)
{
	static const char zeros[4];
	size_t length, start;
	int r;

	tdl__text_add(&commit->strings, zeros, -commit->strings.n % sizeof zeros);
	r = keep_string(commit, value, &start, &length, what, error);
	if (r < 0)
		return r;
	if (count > length || !tdl__base64_decode(commit->strings.p + start, length,
						  commit->strings.p + start, count * 4))
		return bad(error, what);
	for (size_t i = 0; i < count; i++) {
		char *number = commit->strings.p + start + 4 * i;
		uint32_t native = little_endian((const unsigned char *)number);

		memcpy(number, &native, sizeof native);
	}
	commit->strings.n = start + count * 4;
	*at = start;
	return 0;
}

tdl__sums tdl__action_sums(const tdl__commit *commit, const tdl__action *action)
{
	const char *strings = commit->strings.p;

	return (tdl__sums){
		.has_crc = action->has_crc,
		.crc = action->crc,
		.blocks = action->has_blocks ? (const void *)(strings + action->blocks) : NULL,
		.rows = action->has_rows ? (const void *)(strings + action->rows) : NULL,
	};
}

/* Whether the sums of the blocks are those of the file, and no block has more rows than bytes. */
static bool sums_agree(const tdl__sums *sums, uint64_t size)
{
	uint32_t crc = 0;

	for (uint64_t i = 0, left = size; left > 0; i++) {
		uint64_t n = left < TDL__BLOCK ? left : TDL__BLOCK;

		if (sums->rows && sums->rows[i] > n)
			return false;
		crc = tdl__crc32c_combine(crc, sums->blocks[i], n);
		left -= n;
	}
	return crc == sums->crc;
}

static int read_blocks(tdl__commit *commit, tdl__action *action, tdl__span blocks, tdl__span rows,
		       tdl_error *error)
{
	static const char wrong[] = "the blocks of an add are not the checksums of its blocks";
	static const char wrong_rows[] = "the rows of an add are not the counts for its blocks";
	uint64_t count = tdl__block_count(action->size);
	tdl__sums sums;
	int r;

	if (!blocks.p)
		return !rows.p ? 0 : bad(error, wrong_rows);
	if (!action->has_crc)
		return bad(error, wrong);
	r = keep_numbers(commit, blocks, count, &action->blocks, wrong, error);
	if (r == 0 && rows.p)
		r = keep_numbers(commit, rows, count, &action->rows, wrong_rows, error);
	if (r < 0)
		return r;
	action->has_blocks = true;
	action->has_rows = rows.p != NULL;
	sums = tdl__action_sums(commit, action);
	return sums_agree(&sums, action->size) ? 0 : bad(error, wrong);
}

static int read_file_action(tdl__commit *commit, tdl__span file, bool is_add, tdl_error *error)
{
	enum {
		PATH,
		SIZE,
		NUM_RECORDS,
		CRC32C,
		BLOCKS,
		ROWS,
		DATA_CHANGE,
		COUNT
	};
	static const char *const names[COUNT] = { "path",   "size", "numRecords", "crc32c",
						  "blocks", "rows", "dataChange" };
	tdl__action action = { .is_add = is_add };
	tdl__span values[COUNT];
	uint64_t crc;
	int r;

	if (tdl__json_kind(file) != '{')
		return bad(error, is_add ? "add is not an object" : "remove is not an object");
	tdl__json_members(file, names, COUNT, values);
	if (!values[PATH].p)
		return bad(error, is_add ? "add without path" : "remove without path");
	r = keep_string(commit, values[PATH], &action.path, &action.path_length,
			"the path of a data file is not text", error);
	if (r < 0)
		return r;
	action.no_change = values[DATA_CHANGE].p && tdl__json_kind(values[DATA_CHANGE]) == 'f';
	if (is_add) {
		const char *path = tdl__commit_string(commit, action.path);

		if (!tdl__path_safe(path))
			return tdl__fail(error, TDL_ERR_CORRUPT,
					 "unsafe path of a data file, \"%.200s\"", path);
		if (!whole_number(values[SIZE], &action.size))
			return bad(error, "add without a whole number as its size");
		if (!whole_number(values[NUM_RECORDS], &action.num_records))
			return bad(error, "add without a whole number as its numRecords");
		action.has_crc = whole_number(values[CRC32C], &crc) && crc <= UINT32_MAX;
		action.crc = action.has_crc ? (uint32_t)crc : 0;
		r = read_blocks(commit, &action, values[BLOCKS], values[ROWS], error);
		if (r < 0)
			return r;
	}
	if (!tdl__reserve(&commit->actions, &commit->cap, commit->count + 1, sizeof action))
		return tdl__fail_nomem(error);
	commit->actions[commit->count++] = action;
	return 0;
}

static int read_column(tdl__commit *commit, tdl__span column, tdl_schema **schema, tdl_error *error)
{
	static const char why[] = "metaData with a column that has no name or type";
	static const char *const names[] = { "name", "type" };
	size_t name, name_length, type, type_length;
	tdl__span values[2];
	enum tdl_type kind;
	tdl_error wrong;
	int r;

	tdl__json_members(column, names, 2, values);
	if (tdl__json_kind(column) != '{' || !values[0].p || !values[1].p)
		return bad(error, why);
	r = keep_string(commit, values[0], &name, &name_length, why, error);
	if (r == 0)
		r = keep_string(commit, values[1], &type, &type_length, why, error);
	if (r < 0)
		return r;
	if (!tdl__type_parse(tdl__commit_string(commit, type), type_length, &kind))
		return bad(error, why);
	r = tdl__schema_add(schema, tdl__commit_string(commit, name), name_length, kind, &wrong);
	if (r == TDL_ERR_NOMEM)
		return tdl__fail_nomem(error);
	return r < 0 ? tdl__fail(error, TDL_ERR_CORRUPT, "metaData: %s", wrong.message) : 0;
}

static int read_schema(tdl__commit *commit, tdl__span columns, tdl_schema **schema,
		       tdl_error *error)
{
	tdl__span column;
	bool any = false;

	if (!columns.p || tdl__json_kind(columns) != '[')
		return bad(error, "metaData without a schema");
	while (tdl__json_item(&columns, &column)) {
		int r = read_column(commit, column, schema, error);

		if (r < 0)
			return r;
		any = true;
	}
	return any ? 0 : bad(error, "metaData without a schema");
}

static void free_schema(tdl_schema **schema)
{
	tdl_schema_free(*schema);
}

static int read_metadata(tdl__commit *commit, tdl__span metadata, tdl_error *error)
{
	static const char *const names[] = { "id", "schema" };
	tdl_schema *schema CLEANUP(free_schema) = NULL;
	tdl__span values[2];
	size_t length;
	int r;

	if (tdl__json_kind(metadata) != '{')
		return bad(error, "metaData is not an object");
	tdl__json_members(metadata, names, 2, values);
	if (!values[0].p)
		return bad(error, "metaData without id");
	r = keep_string(commit, values[0], &commit->table_id, &length,
			"the id in metaData is not text", error);
	if (r == 0)
		r = read_schema(commit, values[1], &schema, error);
	if (r < 0)
		return r;
	tdl_schema_free(commit->schema);
	commit->schema = tdl__steal(schema);
	return 0;
}

static size_t skip_blanks(tdl__span text, size_t at)
{
	while (at < text.n && memchr(" \t\r\n", text.p[at], 4))
		at++;
	return at;
}

/* Of a valid text. */
static bool empty_list(tdl__span text)
{
	size_t at = skip_blanks(text, 0);

	return text.p[at] == '[' && text.p[skip_blanks(text, at + 1)] == ']';
}

int tdl__commit_line(tdl__commit *commit, tdl__span line, bool first, tdl_error *error)
{
	enum {
		INFO,
		METADATA,
		ADD,
		REMOVE,
		COUNT
	};
	static const char *const names[COUNT] = { "commitInfo", "metaData", "add", "remove" };
	tdl__span values[COUNT];
	unsigned actions = 0;
	size_t at;
	int r = 0;

	if (skip_blanks(line, 0) == line.n)
		return 0;
	if (!tdl__json_object(line, DEPTH_MAX, names, COUNT, values, &at))
		return tdl__fail_at(error, TDL_ERR_CORRUPT, -1, 0, at + 1, "%s",
				    tdl__json_valid(line, 1024, &(size_t){ 0 })
					    ? "nested more than 128 deep"
					    : "not valid JSON");
	/* The reference takes an empty list for no action. */
	if (empty_list(line))
		return 0;
	if (tdl__json_kind(line) != '{')
		return bad(error, "an action that is not an object");
	for (int i = 0; i < COUNT; i++)
		actions += values[i].p != NULL;
	if (actions > 1)
		return bad(error, "more than one action in a line");
	if (values[INFO].p)
		r = read_info(commit, values[INFO], line, first, error);
	if (r == 0 && values[METADATA].p)
		r = read_metadata(commit, values[METADATA], error);
	if (r == 0 && values[ADD].p)
		r = read_file_action(commit, values[ADD], true, error);
	if (r == 0 && values[REMOVE].p)
		r = read_file_action(commit, values[REMOVE], false, error);
	return r;
}

bool tdl__path_safe(const char *path)
{
	if (strlen(path) > TDL__PATH_MAX)
		return false;
	for (const char *at = path;;) {
		const char *slash = strchrnul(at, '/');
		size_t n = (size_t)(slash - at);

		if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && memcmp(at, "..", 2) == 0))
			return false;
		/* _incoming/ holds other users' uncommitted files; _delta_log/ is not data. */
		if (at == path && ((n == 10 && memcmp(at, "_delta_log", n) == 0) ||
				   (n == 9 && memcmp(at, "_incoming", n) == 0) ||
				   (n == 5 && memcmp(at, "_tags", n) == 0)))
			return false;
		if (*slash == '\0')
			return true;
		at = slash + 1;
	}
}

static void add_numbers(tdl__text *text, const char *name, const uint32_t *numbers, uint64_t count)
{
	/* A multiple of three bytes, so that only the last piece is padded. */
	unsigned char bytes[4 * 3 * 64];
	size_t n = 0;

	tdl__text_format(text, ",\"%s\":\"", name);
	for (uint64_t i = 0; i < count; i++) {
		for (unsigned k = 0; k < 4; k++)
			bytes[n++] = (unsigned char)(numbers[i] >> 8 * k);
		if (n == sizeof bytes || i + 1 == count) {
			tdl__text_base64(text, bytes, n);
			n = 0;
		}
	}
	tdl__text_add(text, "\"", 1);
}

void tdl__action_add(tdl__text *text, const char *path, uint64_t size, uint64_t num_records,
		     const tdl__sums *sums)
{
	uint64_t count = tdl__block_count(size);

	tdl__text_add(text, "{\"add\":{\"path\":", 15);
	tdl__text_quote(text, path, strlen(path));
	tdl__text_format(text, ",\"size\":%" PRIu64 ",\"numRecords\":%" PRIu64, size, num_records);
	if (sums->has_crc)
		tdl__text_format(text, ",\"crc32c\":%" PRIu32, sums->crc);
	if (sums->blocks && count <= TDL__BLOCKS_MAX) {
		add_numbers(text, "blocks", sums->blocks, count);
		if (sums->rows)
			add_numbers(text, "rows", sums->rows, count);
	}
	tdl__text_add(text, "}}\n", 3);
}

void tdl__action_remove(tdl__text *text, const char *path)
{
	tdl__text_add(text, "{\"remove\":{\"path\":", 18);
	tdl__text_quote(text, path, strlen(path));
	tdl__text_add(text, "}}\n", 3);
}

void tdl__action_metadata(tdl__text *text, const char *table_id, const tdl_schema *schema)
{
	char *columns CLEANUP(tdl__free_at) = NULL;
	size_t length = 0;

	columns = tdl__schema_json(schema, &length);
	if (!columns) {
		text->failed = true;
		return;
	}
	tdl__text_add(text, "{\"metaData\":{\"id\":", 18);
	tdl__text_quote(text, table_id, strlen(table_id));
	tdl__text_add(text, ",\"schema\":", 10);
	tdl__text_add(text, columns, length);
	tdl__text_add(text, "}}\n", 3);
}
