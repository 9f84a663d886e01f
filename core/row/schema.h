/* SPDX-License-Identifier: MIT */
#ifndef TDL_SCHEMA_H
#define TDL_SCHEMA_H

#include "tinydelta.h"
#include "util/hashmap.h"

/*
 * The columns of a table. Built once (by tdl_schema_parse() or with the builder), then immutable.
 * `key` is the stored form of a column's name with its colon, `"region":`, what rows write.
 */
struct tdl__column {
	char *name; /* UTF-8, NUL-terminated behind name_length bytes */
	size_t name_length;
	char *key;
	size_t key_length;
	enum tdl_type type;
};

struct tdl_schema {
	size_t count, cap;
	struct tdl__column *columns;
	tdl__hashmap names; /* their numbers, from 1 */
};

/* A schema may have this many columns, and a name this many bytes. */
#define TDL__COLUMNS_MAX 10000
#define TDL__NAME_MAX	 65535

/* Adds a column to a schema that is being built. The first column makes it (*schema == NULL).
 * Errors: SCHEMA (an empty, repeated, invalid name), LIMIT, NOMEM; *schema stays valid. */
int tdl__schema_add(tdl_schema **schema, const char *name, size_t length, enum tdl_type type,
		    tdl_error *error);

/* The index of the column with these bytes as its name, or -1. */
ptrdiff_t tdl__schema_find(const tdl_schema *schema, const char *name, size_t length);

/* "int" -> TDL_INT and so on, by exact bytes; false for any other. */
bool tdl__type_parse(const char *text, size_t length, enum tdl_type *type);

bool tdl__schema_equal(const tdl_schema *a, const tdl_schema *b);

/*
 * The schema as the log has it: [{"name":"id","type":"int"},...], non-ASCII as \u escapes (lower
 * case hex, surrogate pairs), as Python's json writes it. NUL-terminated; free(). NULL: no memory.
 */
char *tdl__schema_json(const tdl_schema *schema, size_t *length);

#endif
