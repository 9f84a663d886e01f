/* SPDX-License-Identifier: MIT */
#ifndef TDL_ROW_H
#define TDL_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tinydelta.h"
#include "json/json.h"

/*
 * One row against a schema. There are two ways through it: tdl__row_match() takes rows that are in
 * their stored form already, as fast as it can, and gives up on anything else; tdl__row_parse()
 * takes any line, and where it refuses says why. What the first accepts the second would, too.
 *
 * Both read up to TDL__ROW_SLACK bytes behind a line's newline; their values do not matter.
 */
#define TDL__ROW_SLACK 64

/* What a row has to say for one column, in the order of the schema. */
struct tdl__column_key {
	char lead[16];		      /* the first bytes of `whole` */
	char key[16];		      /* the first bytes of "KEY" */
	unsigned lead_mask, key_mask; /* a bit for each byte that counts in them */
	enum tdl_type type;
	const char *whole; /* {"KEY": for the first column, ,"KEY": in the others */
	size_t length;	   /* of it */
};

/* A value as a row has it. */
struct tdl__value {
	const char *p; /* NULL: the row lacks this column so far */
	size_t n;
	enum tdl__rewrite {
		TDL__AS_WRITTEN,
		TDL__SPLITS,	 /* holds raw U+0085, U+2028 or U+2029, to be escaped */
		TDL__ZERO_INT,	 /* -0, stored as 0 */
		TDL__ZERO_FLOAT, /* -0, stored as 0.0 */
		TDL__WHOLE_FLOAT /* digits only, .0 to be appended */
	} rewrite;
};

/* Why a line is refused. `at` is in the line, or its end. */
struct tdl__row_error {
	enum tdl__row_error_kind {
		TDL__ROW_ERROR_OBJECT,	  /* no object starts at `at` */
		TDL__ROW_ERROR_SYNTAX,	  /* `expected` is due at `at` */
		TDL__ROW_ERROR_NUMBER,	  /* the number at `value` is wrong at `at` */
		TDL__ROW_ERROR_STRING,	  /* wrong inside a string at `at` */
		TDL__ROW_ERROR_TYPE,	  /* the value at `at` is not of the column's type */
		TDL__ROW_ERROR_RANGE,	  /* the value at `at` is not a finite double */
		TDL__ROW_ERROR_DIGITS,	  /* the value at `at` has too many digits */
		TDL__ROW_ERROR_UNKNOWN,	  /* the first unknown key is at `at` */
		TDL__ROW_ERROR_DUPLICATE, /* the key at `at` repeats the column */
		TDL__ROW_ERROR_MISSING	  /* columns have no value */
	} kind;
	const char *at;
	const char *value;
	size_t n;	      /* bytes of the value at `at` */
	size_t column;	      /* its index in the schema */
	const char *expected; /* "a comma" */
};

/* The `expected` of a line that goes on behind its row. */
extern const char tdl__row_end[];

#define TDL__UNKNOWN_SHOWN 8

struct tdl__row {
	const tdl_schema *schema;	       /* borrowed */
	size_t count;			       /* of columns */
	struct tdl__column_key *column_keys;   /* by column */
	char *texts;			       /* all the columns' `whole`, one after the other */
	size_t texts_length;		       /* of `texts` */
	struct tdl__value *values;	       /* by column; of the row parsed last, in its line */
	size_t *order;			       /* the column that the last row had at each place */
	char *name;			       /* room for a key without its escapes */
	size_t name_room;		       /* of `name`; longer keys belong to no column */
	bool stored_form;		       /* the row parsed last is as it would be stored */
	bool splits;			       /* one of its values has the rewrite TDL__SPLITS */
	struct tdl__row_error error;	       /* why the last refused row was refused */
	tdl__span unknown[TDL__UNKNOWN_SHOWN]; /* its first unknown keys, with their quotes */
	size_t unknown_count;		       /* all its unknown keys */
};

/* False: no memory. The schema must outlive it. */
bool tdl__row_init(struct tdl__row *row, const tdl_schema *schema);
void tdl__row_clear(struct tdl__row *row);

/*
 * Takes rows in stored form from p on, the last byte before `end` being a newline. Returns where
 * the first line begins that is not, or end; adds the rows taken to *taken.
 */
const char *tdl__row_match(const struct tdl__row *row, const char *p, const char *end,
			   uint64_t *taken);

/*
 * Parses the line of n bytes, a newline behind it. True: `values` and `stored_form` are its, and
 * point into it. False: `error` says why.
 */
bool tdl__row_parse(struct tdl__row *row, const char *line, size_t n);

/* Fills *error from the error of the line parsed last; returns SCHEMA. `skipped` bytes stood in the
 * line before `line` (a byte order mark). */
int tdl__row_fail(const struct tdl__row *row, const char *line, size_t n, const char *name,
		  uint64_t number, size_t skipped, tdl_error *error);

#endif
