/* SPDX-License-Identifier: MIT */
/*
 * The columns of a table: NAME:TYPE texts, lookup by name, the form in the log and the stored form
 * of the keys. Knows nothing of rows' values or of files.
 */
#include "row/schema.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "util/buf.h"
#include "util/escape.h"
#include "util/hash.h"
#include "util/utf8.h"
#include "util/util.h"

static const char *const type_names[] = {
	[TDL_INT] = "int",
	[TDL_FLOAT] = "float",
	[TDL_STR] = "str",
	[TDL_BOOL] = "bool",
};

const char *tdl_type_name(enum tdl_type type)
{
	return type_names[type];
}

bool tdl__type_parse(const char *text, size_t length, enum tdl_type *type)
{
	for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
		if (strlen(type_names[i]) == length && memcmp(type_names[i], text, length) == 0) {
			*type = (enum tdl_type)i;
			return true;
		}
	}
	return false;
}

char *tdl__schema_json(const tdl_schema *schema, size_t *length)
{
	tdl__text text = { 0 };

	tdl__text_add(&text, "[", 1);
	for (size_t i = 0; i < schema->count; i++) {
		const struct tdl__column *column = &schema->columns[i];

		tdl__text_format(&text, "%s{\"name\":", i > 0 ? "," : "");
		tdl__text_quote(&text, column->name, column->name_length);
		tdl__text_format(&text, ",\"type\":\"%s\"}", type_names[column->type]);
	}
	tdl__text_add(&text, "]", 1);
	if (text.failed) {
		tdl__text_free(&text);
		return NULL;
	}
	*length = text.n;
	return text.p;
}

/* ---- Lookup ------------------------------------------------------------------------------- */

/* The number of the column with this name, from 1; 0: there is none. */
static size_t find_column(const tdl_schema *schema, const char *name, size_t length, uint64_t hash)
{
	const struct tdl__slot *slot = tdl__hashmap_first(&schema->names, hash);

	for (; slot; slot = tdl__hashmap_next(&schema->names, slot)) {
		const struct tdl__column *column = &schema->columns[slot->value - 1];

		if (column->name_length == length && memcmp(column->name, name, length) == 0)
			return slot->value;
	}
	return 0;
}

ptrdiff_t tdl__schema_find(const tdl_schema *schema, const char *name, size_t length)
{
	return (ptrdiff_t)find_column(schema, name, length, tdl__hash(name, length)) - 1;
}

/* ---- Building ----------------------------------------------------------------------------- */

static bool make_column(struct tdl__column *column, const char *name, size_t length,
			enum tdl_type type)
{
	size_t quoted = tdl__json_quote_as(TDL__QUOTE_STORED, NULL, 0, name, length);

	column->name = malloc(length + 1);
	column->key = malloc(quoted + 2);
	if (!column->name || !column->key) {
		free(column->name);
		free(column->key);
		return false;
	}
	memcpy(column->name, name, length);
	column->name[length] = '\0';
	column->name_length = length;
	tdl__json_quote_as(TDL__QUOTE_STORED, column->key, quoted, name, length);
	memcpy(column->key + quoted, ":", 2);
	column->key_length = quoted + 1;
	column->type = type;
	return true;
}

int tdl__schema_add(tdl_schema **schema, const char *name, size_t length, enum tdl_type type,
		    tdl_error *error)
{
	tdl_schema *s = *schema;
	char shown[128];

	tdl__printable(shown, sizeof shown, name, length);
	if (length == 0)
		return tdl__fail(error, TDL_ERR_SCHEMA, "a column needs a name");
	if (length > TDL__NAME_MAX)
		return tdl__fail(error, TDL_ERR_LIMIT,
				 "the column name \"%s\" has %zu bytes; the limit is %d", shown,
				 length, TDL__NAME_MAX);
	if (!tdl__utf8_valid(name, length))
		return tdl__fail(error, TDL_ERR_SCHEMA, "the column name \"%s\" is not UTF-8",
				 shown);
	if (s && s->count >= TDL__COLUMNS_MAX)
		return tdl__fail(error, TDL_ERR_LIMIT, "too many columns; the limit is %d",
				 TDL__COLUMNS_MAX);
	if (s && tdl__schema_find(s, name, length) >= 0)
		return tdl__fail(error, TDL_ERR_SCHEMA, "the column name \"%s\" is repeated",
				 shown);
	if (!s) {
		s = calloc(1, sizeof *s);
		if (!s)
			return tdl__fail_nomem(error);
		*schema = s;
	}
	if (!tdl__reserve(&s->columns, &s->cap, s->count + 1, sizeof *s->columns) ||
	    !tdl__hashmap_reserve(&s->names, s->count + 1) ||
	    !make_column(&s->columns[s->count], name, length, type))
		return tdl__fail_nomem(error);
	s->count++;
	tdl__hashmap_put(&s->names, tdl__hash(name, length), s->count);
	return 0;
}

/* Length of the blank at p as Python's str.strip() takes it, or 0. */
static size_t blank_length(const char *p, size_t n)
{
	size_t len = tdl__utf8_length(p, n);
	unsigned c;

	if (len == 0)
		return 0;
	c = tdl__utf8_code(p, len);
	if ((c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	    c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	    c == 0x202f || c == 0x205f || c == 0x3000)
		return len;
	return 0;
}

static void strip(const char **text, size_t *length)
{
	const char *p = *text;
	size_t n = *length, len;

	while (n > 0 && (len = blank_length(p, n)) > 0) {
		p += len;
		n -= len;
	}
	/* A blank has one to three bytes. */
	for (len = 1; len <= 3 && len <= n; len++) {
		if (blank_length(p + n - len, len) == len) {
			n -= len;
			len = 0;
		}
	}
	*text = p;
	*length = n;
}

/* What other languages call our types; NULL: no such name is known. */
static const char *likely_type(const char *text, size_t n)
{
	static const struct {
		const char *name, *type;
	} names[] = {
		{ "integer", "int" },	{ "bigint", "int" },   { "int64", "int" },
		{ "long", "int" },	{ "number", "float" }, { "double", "float" },
		{ "decimal", "float" }, { "real", "float" },   { "string", "str" },
		{ "text", "str" },	{ "varchar", "str" },  { "boolean", "bool" },
	};

	for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
		if (strlen(type_names[i]) == n && strncasecmp(type_names[i], text, n) == 0)
			return type_names[i];
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strlen(names[i].name) == n && strncasecmp(names[i].name, text, n) == 0)
			return names[i].type;
	}
	return NULL;
}

static int parse_column(tdl_schema **schema, const char *text, tdl_error *error)
{
	const char *colon = strchr(text, ':');
	const char *name = text, *type_name;
	size_t name_length, type_length;
	enum tdl_type type = TDL_INT;
	char shown[128], shown_type[64];
	const char *meant;

	if (!colon) {
		tdl__printable(shown, sizeof shown, text, strlen(text));
		return tdl__fail(error, TDL_ERR_SCHEMA, "\"%s\" is not NAME:TYPE", shown);
	}
	name_length = (size_t)(colon - text);
	type_name = colon + 1;
	type_length = strlen(type_name);
	strip(&name, &name_length);
	strip(&type_name, &type_length);
	if (name_length > 0 && !tdl__type_parse(type_name, type_length, &type)) {
		tdl__printable(shown, sizeof shown, name, name_length);
		tdl__printable(shown_type, sizeof shown_type, type_name, type_length);
		meant = likely_type(type_name, type_length);
		return tdl__fail(error, TDL_ERR_SCHEMA,
				 "column \"%s\" has the unknown type \"%s\"%s%s%s; "
				 "types are int, float, str, bool",
				 shown, shown_type, meant ? " (did you mean " : "",
				 meant ? meant : "", meant ? "?)" : "");
	}
	return tdl__schema_add(schema, name, name_length, type, error);
}

int tdl_schema_parse(const char *const *columns, size_t count, tdl_schema **schema,
		     tdl_error *error)
{
	tdl_schema *s = NULL;

	if (count == 0)
		return tdl__fail(error, TDL_ERR_SCHEMA, "a table needs at least one column");
	for (size_t i = 0; i < count; i++) {
		int r = parse_column(&s, columns[i], error);

		if (r < 0) {
			tdl_schema_free(s);
			return r;
		}
	}
	*schema = s;
	return 0;
}

void tdl_schema_free(tdl_schema *schema)
{
	if (!schema)
		return;
	for (size_t i = 0; i < schema->count; i++) {
		free(schema->columns[i].name);
		free(schema->columns[i].key);
	}
	free(schema->columns);
	tdl__hashmap_clear(&schema->names);
	free(schema);
}

/* ---- Looking at it ------------------------------------------------------------------------ */

size_t tdl_schema_count(const tdl_schema *schema)
{
	return schema->count;
}

const char *tdl_schema_name(const tdl_schema *schema, size_t index, size_t *length)
{
	const struct tdl__column *column = &schema->columns[index];

	if (length)
		*length = column->name_length;
	return column->name;
}

enum tdl_type tdl_schema_type(const tdl_schema *schema, size_t index)
{
	return schema->columns[index].type;
}

bool tdl__schema_equal(const tdl_schema *a, const tdl_schema *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct tdl__column *x = &a->columns[i], *y = &b->columns[i];

		if (x->type != y->type || x->name_length != y->name_length ||
		    memcmp(x->name, y->name, x->name_length) != 0)
			return false;
	}
	return true;
}
