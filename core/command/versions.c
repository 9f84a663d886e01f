/* SPDX-License-Identifier: MIT */
/*
 * Versions, printed one after the other. What the replayed log knows costs nothing; a version's
 * own commit is looked at only where it is asked for details or as JSON.
 */
#include "versions.h"

#include <cjson/cJSON.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "json.h"
#include "output.h"

/* A text of a commitInfo, or "". */
static const char *member(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	return text ? text : "";
}

int version_object(tdl_table *table, int64_t version, cJSON **object, tdl_error *error)
{
	char *json;
	size_t length;
	int r = tdl_table_version_json(table, version, &json, &length, error);

	if (r < 0)
		return r;
	*object = cJSON_ParseWithLength(json, length);
	free(json);
	return 0;
}

/* 1 where the patterns choose a version, else 0, or a code with *error filled in. */
static int is_chosen(tdl_table *table, const struct versions *versions, int64_t version,
		     tdl_error *error)
{
	tdl_version_info info;
	cJSON *object = NULL;
	int r;

	if (versions->operation) {
		r = tdl_table_version_info(table, version, &info, error);
		if (r < 0)
			return r;
		if (fnmatch(versions->operation, info.operation, FNM_CASEFOLD) != 0)
			return 0;
	}
	if (!versions->user && !versions->source)
		return 1;
	r = version_object(table, version, &object, error);
	if (r < 0)
		return r;
	r = (!versions->user || fnmatch(versions->user, member(object, "userName"), 0) == 0) &&
	    (!versions->source || fnmatch(versions->source, member(object, "source"), 0) == 0);
	cJSON_Delete(object);
	return r;
}

int version_next(tdl_table *table, const struct versions *versions, int64_t *version,
		 tdl_error *error)
{
	int r = 0;

	while (r == 0 && !output_failed()) {
		if (versions->last < versions->first)
			return 0;
		if (*version < 0)
			*version = versions->reverse ? versions->last : versions->first;
		else if (*version == (versions->reverse ? versions->first : versions->last))
			return 0;
		else
			*version += versions->reverse ? -1 : 1;
		r = is_chosen(table, versions, *version, error);
	}
	return r;
}

/* How many versions from `first` on to `last` are before `time`, which grow with the versions. */
static int count_before(tdl_table *table, const struct versions *versions, int64_t time,
			int64_t *count, tdl_error *error)
{
	int64_t low = versions->first, high = versions->last + 1;
	tdl_version_info info;

	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		int r = tdl_table_version_info(table, middle, &info, error);

		if (r < 0)
			return r;
		if (info.time < time)
			low = middle + 1;
		else
			high = middle;
	}
	*count = low - versions->first;
	return 0;
}

int versions_between(tdl_table *table, struct versions *versions, int64_t since, int64_t until,
		     tdl_error *error)
{
	int64_t before = 0, up_to = versions->last + 1 - versions->first;
	int r = count_before(table, versions, since, &before, error);

	if (r == 0 && until < INT64_MAX)
		r = count_before(table, versions, until + 1, &up_to, error);
	if (r < 0)
		return r;
	versions->last = versions->first + up_to - 1;
	versions->first += before;
	return 0;
}

int versions_newest(tdl_table *table, struct versions *versions, int64_t count, tdl_error *error)
{
	int64_t version = versions->last + 1;

	if (count == 0)
		versions->first = versions->last + 1;
	while (count > 0 && version > versions->first) {
		int r = is_chosen(table, versions, --version, error);

		if (r < 0)
			return r;
		count -= r;
		if (count == 0)
			versions->first = version;
	}
	return 0;
}

/* ---- For programs ------------------------------------------------------------------------- */

int versions_print_plain(tdl_table *table, const struct versions *versions, tdl_error *error)
{
	tdl_version_info info;
	int64_t version = -1;
	int r;

	while ((r = version_next(table, versions, &version, error)) > 0) {
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
	return r;
}

int version_print_json(tdl_table *table, int64_t version, const char *table_id,
		       const struct tag_list *tags, tdl_error *error)
{
	char *json;
	size_t length;
	int r = tdl_table_version_json(table, version, &json, &length, error);

	if (r < 0)
		return r;
	output_bytes(json, length - 2);
	if (table_id) {
		output_text(",\"tableId\":");
		output_json_string(table_id);
	}
	tag_list_print_json(tags, version);
	output_bytes("}\n", 2);
	free(json);
	return 0;
}

int versions_print_json(tdl_table *table, const struct versions *versions, tdl_error *error)
{
	int64_t version = -1;
	int r;

	while ((r = version_next(table, versions, &version, error)) > 0) {
		r = version_print_json(table, version, NULL, versions->tags, error);
		if (r < 0)
			return r;
	}
	return r;
}

/* ---- For human readers -------------------------------------------------------------------- */

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

static void add_heads(struct grid *grid, const struct versions *versions, bool messages)
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
	if (messages)
		grid_add(grid, BOLD, "MESSAGE");
	if (tag_list_any(versions->tags))
		grid_add(grid, BOLD, "TAGS");
	if (versions->graph != GRAPH_NONE)
		grid_add(grid, BOLD, "%s",
			 versions->graph == GRAPH_BYTES ? "ALL BYTES" : "ALL ROWS");
}

/* How much more, or less, this version has than the one before. */
static void add_change(struct grid *grid, uint64_t now, uint64_t before, bool bytes)
{
	uint64_t much = now >= before ? now - before : before - now;
	char sign = now == before ? '\0' : now > before ? '+' : '-';
	enum style style = now == before ? DIM : now > before ? GREEN : RED;
	char text[TERM_TIME_SIZE];

	if (bytes)
		grid_add(grid, style, "%s", term_bytes(sign, much, text));
	else if (sign == '\0')
		grid_add(grid, style, "0");
	else
		grid_add(grid, style, "%c%" PRIu64, sign, much);
}

static void add_member(struct grid *grid, const char *text)
{
	grid_add(grid, PLAIN, "%s", *text != '\0' ? text : "-");
}

/* The file that rows came from, or the version that they came back from. */
static void add_source(struct grid *grid, const cJSON *object)
{
	const cJSON *restored = cJSON_GetObjectItemCaseSensitive(object, "restoredVersion");

	if (cJSON_IsNumber(restored))
		grid_add(grid, PLAIN, "v%.0f", restored->valuedouble);
	else
		add_member(grid, member(object, "source"));
}

static int add_details(struct grid *grid, tdl_table *table, const tdl_version_info *info,
		       bool messages, tdl_error *error)
{
	tdl_version_info before = { 0 };
	char text[TERM_TIME_SIZE];
	cJSON *object = NULL;
	int r = 0;

	if (info->version > 0)
		r = tdl_table_version_info(table, info->version - 1, &before, error);
	if (r == 0)
		r = version_object(table, info->version, &object, error);
	if (r < 0)
		return r;
	add_change(grid, info->num_records, before.num_records, false);
	add_change(grid, info->bytes, before.bytes, true);
	add_member(grid, member(object, "userName"));
	add_source(grid, object);
	grid_add(grid, PLAIN, "%s", term_age(info->timestamp, text));
	if (messages)
		add_member(grid, member(object, "userMetadata"));
	cJSON_Delete(object);
	return 0;
}

static void add_tags(struct grid *grid, const struct tag_list *tags, int64_t version)
{
	char *names = tag_list_names(tags, version);

	grid_add(grid, YELLOW, "%s", names ? names : "");
	free(names);
}

static int add_version(struct grid *grid, tdl_table *table, const struct versions *versions,
		       const tdl_version_info *info, uint64_t most, bool messages, tdl_error *error)
{
	char text[TERM_TIME_SIZE];
	int r = 0;

	grid_add(grid, BOLD, "v%" PRId64, info->version);
	grid_add(grid, style_of(info->operation), "%s", info->operation);
	if (info->read_version >= 0)
		grid_add(grid, DIM, "v%" PRId64, info->read_version);
	else
		grid_add(grid, DIM, "-");
	if (versions->details) {
		r = add_details(grid, table, info, messages, error);
	} else {
		grid_add(grid, PLAIN, "%" PRIu64, info->num_records);
		grid_add(grid, PLAIN, "%s", term_time(info->timestamp, text));
	}
	if (r == 0 && tag_list_any(versions->tags))
		add_tags(grid, versions->tags, info->version);
	if (r == 0 && versions->graph != GRAPH_NONE)
		grid_bar(grid, style_of(info->operation),
			 most > 0 ? (double)graphed(versions, info) / (double)most : 0);
	return r;
}

/* What is known only when all of them were looked at. */
struct whole {
	uint64_t most; /* of what the graph shows */
	bool messages; /* whether any has one */
};

static int read_all(tdl_table *table, const struct versions *versions, struct whole *whole,
		    tdl_error *error)
{
	int64_t version = -1;
	tdl_version_info info;
	cJSON *object = NULL;
	int r;

	while ((r = version_next(table, versions, &version, error)) > 0) {
		r = tdl_table_version_info(table, version, &info, error);
		if (r < 0)
			return r;
		if (whole->most < graphed(versions, &info))
			whole->most = graphed(versions, &info);
		if (!versions->details || whole->messages)
			continue;
		r = version_object(table, version, &object, error);
		if (r < 0)
			return r;
		whole->messages = *member(object, "userMetadata") != '\0';
		cJSON_Delete(object);
	}
	return r;
}

int versions_print(tdl_table *table, const struct versions *versions, const struct term *term,
		   tdl_error *error)
{
	struct whole whole = { 0 };
	int64_t version = -1;
	tdl_version_info info;
	unsigned columns;
	struct grid grid;
	char name[32];
	int r = 0;

	if (versions->graph != GRAPH_NONE || versions->details)
		r = read_all(table, versions, &whole, error);
	if (r < 0)
		return r;
	columns = (versions->details ? 8 : 5) + whole.messages + tag_list_any(versions->tags) +
		  (versions->graph != GRAPH_NONE);
	/* Rows and bytes stand to the right. */
	grid_begin(&grid, term, columns, versions->details ? 1u << 3 | 1u << 4 : 1u << 3);
	if (versions->details && term->human)
		grid.cut = 1u << 5 | 1u << 6 | (whole.messages ? 1u << 8 : 0);
	snprintf(name, sizeof name, "v%" PRId64, versions->last);
	grid_reserve(&grid, 0, name);
	add_heads(&grid, versions, whole.messages);
	while (r == 0 && (r = version_next(table, versions, &version, error)) > 0) {
		r = tdl_table_version_info(table, version, &info, error);
		if (r == 0)
			r = add_version(&grid, table, versions, &info, whole.most, whole.messages,
					error);
	}
	grid_end(&grid);
	return r;
}
