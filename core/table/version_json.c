/* SPDX-License-Identifier: MIT */
/*
 * A version as one JSON object, for people and jq: what history/vN.json shows.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "row/schema.h"
#include "table/table.h"
#include "util/buf.h"
#include "util/escape.h"

/* The members of a commitInfo that the object has under its own rule, or that only guard it. */
static bool is_ours(tdl__span key)
{
	static const char *const names[] = { "version", "operation",  "timestamp", "readVersion",
					     "files",	"numRecords", "size",	   "schema",
					     "actions", "previous",   "crc32c" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (tdl__json_is(key, names[i]))
			return true;
	}
	return false;
}

/* Adds the members of a commitInfo that are not ours, byte for byte. */
static void add_others(tdl__text *text, tdl__span info)
{
	tdl__span key, value;

	while (tdl__json_next(&info, &key, &value)) {
		if (is_ours(key))
			continue;
		tdl__text_add(text, ",", 1);
		tdl__text_add(text, key.p, key.n);
		tdl__text_add(text, ":", 1);
		tdl__text_add(text, value.p, value.n);
	}
}

/*
 * The length of data.jsonl, where its data files can be asked for it; who never had a look at the
 * last byte of a file has it now. Of a version that cannot be read nobody knows: *known is false.
 */
static int size_of(tdl_table *table, int64_t version, bool *known, uint64_t *size, tdl_error *error)
{
	tdl_snapshot *snapshot;
	tdl_error why;
	int r = tdl_snapshot_open(table, version, &snapshot, &why);

	if (r == 0) {
		r = tdl_snapshot_size(snapshot, size, &why);
		tdl_snapshot_unref(snapshot);
	}
	*known = r == 0;
	if (r == 0 || r == TDL_ERR_CORRUPT || (r == TDL_ERR_IO && why.os_error == EACCES))
		return 0;
	if (error != NULL)
		*error = why;
	return r;
}

int tdl_table_version_json(tdl_table *table, int64_t version, char **json, size_t *length,
			   tdl_error *error)
{
	_cleanup_text_ tdl__text text = { 0 };
	_cleanup_free_ char *commit_info = NULL, *schema = NULL;
	size_t info_length, schema_length;
	uint64_t size;
	bool known;
	tdl__version at;
	tdl_version_info info;
	int r = tdl__history_get(&table->history, version, &at, &info, error);

	if (r == 0)
		r = tdl__log_read_info(&table->history.log, info.version, at.crc, &commit_info,
				       &info_length, error);
	if (r == 0)
		r = size_of(table, info.version, &known, &size, error);
	if (r < 0)
		return r;
	schema = tdl__schema_json(info.schema, &schema_length);
	if (schema == NULL)
		return tdl__fail_nomem(error);
	tdl__text_format(&text, "{\"version\":%" PRId64 ",\"operation\":", info.version);
	tdl__text_quote(&text, info.operation, strlen(info.operation));
	tdl__text_format(&text, ",\"timestamp\":%" PRId64 ",\"readVersion\":", info.timestamp);
	if (info.read_version >= 0)
		tdl__text_format(&text, "%" PRId64, info.read_version);
	else
		tdl__text_add(&text, "null", 4);
	tdl__text_format(&text, ",\"files\":%" PRIu64 ",\"numRecords\":%" PRIu64, info.files,
			 info.num_records);
	if (known)
		tdl__text_format(&text, ",\"size\":%" PRIu64 ",\"schema\":", size);
	else
		tdl__text_format(&text, ",\"size\":null,\"schema\":");
	tdl__text_add(&text, schema, schema_length);
	add_others(&text, (tdl__span){ commit_info, info_length });
	tdl__text_add(&text, "}\n", 2);
	if (text.failed)
		return tdl__fail_nomem(error);
	*json = tdl__steal(text.p);
	*length = text.n;
	return 0;
}
