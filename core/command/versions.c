/* SPDX-License-Identifier: MIT */
/*
 * Versions, printed one after the other. What the replayed log knows costs nothing; a version's
 * own commit is looked at only where it is asked for details or as JSON.
 */
#include "versions.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "json.h"
#include "output.h"

/* The one after `version` in the order in which they are shown. */
static bool next(const struct versions *versions, int64_t *version)
{
	if (versions->last < versions->first || output_failed())
		return false;
	if (*version < 0)
		*version = versions->reverse ? versions->last : versions->first;
	else if (*version == (versions->reverse ? versions->first : versions->last))
		return false;
	else
		*version += versions->reverse ? -1 : 1;
	return true;
}

/* ---- For programs ------------------------------------------------------------------------- */

int versions_print_plain(tdl_table *table, const struct versions *versions, tdl_error *error)
{
	tdl_version_info info;
	int r;

	for (int64_t version = -1; next(versions, &version);) {
		r = tdl_table_version_info(table, version, &info, error);
		if (r < 0)
			return r;
		output_text("v%" PRId64 "  %s  readVersion=", info.version, info.operation);
		if (info.read_version < 0)
			output_text("None");
		else
			output_text("%" PRId64, info.read_version);
		output_text("  ts=%" PRId64 "\n", info.timestamp);
	}
	return 0;
}

int version_print_json(tdl_table *table, int64_t version, const char *table_id, tdl_error *error)
{
	char *json;
	size_t length;
	int r = tdl_table_version_json(table, version, &json, &length, error);

	if (r < 0)
		return r;
	output_bytes(json, length - 2);
	if (table_id != NULL) {
		output_text(",\"tableId\":");
		output_json_string(table_id);
	}
	output_bytes("}\n", 2);
	free(json);
	return 0;
}

int versions_print_json(tdl_table *table, const struct versions *versions, tdl_error *error)
{
	int r;

	for (int64_t version = -1; next(versions, &version);) {
		r = version_print_json(table, version, NULL, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- For people --------------------------------------------------------------------------- */

static enum style style_of(const char *operation)
{
	static const struct {
		const char *operation;
		enum style style;
	} styles[] = {
		{ "CREATE", CYAN },
		{ "APPEND", GREEN },
		{ "OVERWRITE", RED },
		{ "RESTORE", YELLOW },
	};

	for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
		if (strcmp(styles[i].operation, operation) == 0)
			return styles[i].style;
	return PLAIN;
}

static uint64_t graphed(const struct versions *versions, const tdl_version_info *info)
{
	return versions->graph == GRAPH_BYTES ? info->bytes : info->num_records;
}

static void add_heads(struct grid *grid, const struct versions *versions)
{
	static const char *const all[] = { "VERSION", "OPERATION", "READ" };
	static const char *const details[] = { "ROWS", "BYTES", "USER", "SOURCE", "AGE" };
	static const char *const fewer[] = { "ROWS", "TIME" };
	const char *const *rest = versions->details ? details : fewer;
	size_t count = versions->details ? 5 : 2;

	for (size_t i = 0; i < 3; i++)
		grid_add(grid, BOLD, "%s", all[i]);
	for (size_t i = 0; i < count; i++)
		grid_add(grid, BOLD, "%s", rest[i]);
	if (versions->graph != GRAPH_NONE)
		grid_add(grid, BOLD, "%s", versions->graph == GRAPH_BYTES ? "BYTES" : "ROWS");
}

/* How much more, or less, this version has than the one before. */
static void add_change(struct grid *grid, uint64_t now, uint64_t before, bool bytes)
{
	uint64_t much = now >= before ? now - before : before - now;
	char sign = now == before ? '\0' : now > before ? '+' : '-';
	enum style style = now == before ? DIM : now > before ? GREEN : RED;
	char text[LOOK_TIME_SIZE];

	if (bytes)
		grid_add(grid, style, "%s", look_bytes(sign, much, text));
	else if (sign == '\0')
		grid_add(grid, style, "0");
	else
		grid_add(grid, style, "%c%" PRIu64, sign, much);
}

/* A member of a version's commitInfo that is a text. */
static void add_member(struct grid *grid, const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	grid_add(grid, PLAIN, "%s", text != NULL && *text != '\0' ? text : "-");
}

static int add_details(struct grid *grid, tdl_table *table, const tdl_version_info *info,
		       tdl_error *error)
{
	tdl_version_info before = { 0 };
	char *json, text[LOOK_TIME_SIZE];
	size_t length;
	cJSON *object;
	int r = 0;

	if (info->version > 0)
		r = tdl_table_version_info(table, info->version - 1, &before, error);
	if (r == 0)
		r = tdl_table_version_json(table, info->version, &json, &length, error);
	if (r < 0)
		return r;
	object = cJSON_ParseWithLength(json, length);
	add_change(grid, info->num_records, before.num_records, false);
	add_change(grid, info->bytes, before.bytes, true);
	add_member(grid, object, "userName");
	add_member(grid, object, "source");
	grid_add(grid, PLAIN, "%s", look_age(info->timestamp, text));
	cJSON_Delete(object);
	free(json);
	return 0;
}

static int add_version(struct grid *grid, tdl_table *table, const struct versions *versions,
		       const tdl_version_info *info, uint64_t most, tdl_error *error)
{
	char text[LOOK_TIME_SIZE];
	int r = 0;

	grid_add(grid, BOLD, "v%" PRId64, info->version);
	grid_add(grid, style_of(info->operation), "%s", info->operation);
	if (info->read_version >= 0)
		grid_add(grid, DIM, "v%" PRId64, info->read_version);
	else
		grid_add(grid, DIM, "-");
	if (versions->details) {
		r = add_details(grid, table, info, error);
	} else {
		grid_add(grid, PLAIN, "%" PRIu64, info->num_records);
		grid_add(grid, PLAIN, "%s", look_time(info->timestamp, text));
	}
	if (r == 0 && versions->graph != GRAPH_NONE)
		grid_bar(grid, style_of(info->operation),
			 most > 0 ? (double)graphed(versions, info) / (double)most : 0);
	return r;
}

int versions_print(tdl_table *table, const struct versions *versions, const struct look *look,
		   tdl_error *error)
{
	unsigned columns = (versions->details ? 8 : 5) + (versions->graph != GRAPH_NONE);
	uint64_t most = 0;
	tdl_version_info info;
	struct grid grid;
	char name[32];
	int r = 0;

	for (int64_t version = -1; versions->graph != GRAPH_NONE && next(versions, &version);) {
		r = tdl_table_version_info(table, version, &info, error);
		if (r < 0)
			return r;
		if (most < graphed(versions, &info))
			most = graphed(versions, &info);
	}
	/* Rows and bytes stand to the right. */
	grid_begin(&grid, look, columns, versions->details ? 1u << 3 | 1u << 4 : 1u << 3);
	snprintf(name, sizeof name, "v%" PRId64, versions->last);
	grid_reserve(&grid, 0, name);
	add_heads(&grid, versions);
	for (int64_t version = -1; r == 0 && next(versions, &version);) {
		r = tdl_table_version_info(table, version, &info, error);
		if (r == 0)
			r = add_version(&grid, table, versions, &info, most, error);
	}
	grid_end(&grid);
	return r;
}
