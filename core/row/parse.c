/* SPDX-License-Identifier: MIT */
/*
 * The general way through a row: any order of keys, escapes, white space; what it refuses it can
 * explain. Where a line is wrong in several ways, its syntax comes first, then unknown, repeated
 * and missing columns, then types. Knows nothing of chunks, files or messages.
 */
#include "row/parse.h"

#include <stdlib.h>
#include <string.h>

#include "row/schema.h"
#include "row/stream.h"
#include "util/simd.h"
#include "json/number.h"
#include "json/scan.h"

const char tdl__row_end[] = "the end of the line";

static unsigned mask_of(size_t n)
{
	return n >= 16 ? 0xffff : (1u << n) - 1;
}

bool tdl__row_init(struct tdl__row *row, const tdl_schema *schema)
{
	size_t count = schema->count;
	char *p;

	memset(row, 0, sizeof *row);
	row->schema = schema;
	row->count = count;
	for (size_t i = 0; i < count; i++) {
		row->texts_length += schema->columns[i].key_length + 1;
		/* An escape has at most six bytes for one. */
		if (row->name_room < 6 * schema->columns[i].name_length)
			row->name_room = 6 * schema->columns[i].name_length;
	}
	row->column_keys = calloc(count, sizeof *row->column_keys);
	row->values = calloc(count, sizeof *row->values);
	row->order = calloc(count, sizeof *row->order);
	row->texts = malloc(row->texts_length);
	row->name = malloc(row->name_room);
	if (!row->column_keys || !row->values || !row->order || !row->texts || !row->name) {
		tdl__row_clear(row);
		return false;
	}
	p = row->texts;
	for (size_t i = 0; i < count; i++) {
		const struct tdl__column *column = &schema->columns[i];
		struct tdl__column_key *column_key = &row->column_keys[i];
		size_t key = column->key_length - 1;

		column_key->type = column->type;
		column_key->whole = p;
		column_key->length = column->key_length + 1;
		*p = i == 0 ? '{' : ',';
		memcpy(p + 1, column->key, column->key_length);
		memcpy(column_key->lead, p, column_key->length < 16 ? column_key->length : 16);
		memcpy(column_key->key, column->key, key < 16 ? key : 16);
		column_key->lead_mask = mask_of(column_key->length);
		column_key->key_mask = mask_of(key);
		p += column_key->length;
		row->order[i] = i;
	}
	return true;
}

void tdl__row_clear(struct tdl__row *row)
{
	free(row->column_keys);
	free(row->values);
	free(row->order);
	free(row->texts);
	free(row->name);
	memset(row, 0, sizeof *row);
}

/* The parsing of one line. */
struct parser {
	struct tdl__row *row;
	const char *end;	     /* of the line, where its newline is */
	struct tdl__row_error later; /* the first error that waits for the line's end */
	bool has_later, has_repeat;
	struct tdl__row_error repeat; /* the first repeated key */
};

static const char *refuse_line(struct parser *parser, enum tdl__row_error_kind kind, const char *at,
			       const char *expected)
{
	parser->row->error =
		(struct tdl__row_error){ .kind = kind, .at = at, .expected = expected };
	return NULL;
}

/* White space was there: the row is not in stored form. */
static inline const char *skip_blank(struct tdl__row *row, const char *p)
{
	if (!tdl__is_blank(*p))
		return p;
	row->stored_form = false;
	do
		p++;
	while (tdl__is_blank(*p));
	return p;
}

static const char *scan_string(struct parser *parser, const char *p, unsigned *seen)
{
	const char *bad = parser->end;

	p = tdl__scan_string(p + 1, parser->end, seen, &bad);
	return p ? p : refuse_line(parser, TDL__ROW_ERROR_STRING, bad, NULL);
}

/* The column of the key at p that is not what was predicted; *column is the count of columns where
 * there is none. Returns what is behind the key. */
static const char *look_up_key(struct parser *parser, const char *p, size_t *column)
{
	struct tdl__row *row = parser->row;
	unsigned seen = 0;
	const char *behind = scan_string(parser, p, &seen);
	size_t n;
	ptrdiff_t found = -1;

	if (!behind)
		return NULL;
	n = (size_t)(behind - p) - 2;
	if (!(seen & TDL__SEEN_ESCAPE))
		found = tdl__schema_find(row->schema, p + 1, n);
	else if (n <= row->name_room)
		found = tdl__schema_find(row->schema, row->name,
					 tdl__unescape(row->name, p + 1, n));
	*column = found < 0 ? row->count : (size_t)found;
	return behind;
}

static void add_unknown(struct parser *parser, const char *key, size_t n)
{
	struct tdl__row *row = parser->row;

	if (row->unknown_count < TDL__UNKNOWN_SHOWN) {
		row->unknown[row->unknown_count].p = key;
		row->unknown[row->unknown_count].n = n;
	}
	row->unknown_count++;
}

/* The key of the member at `place`, whose column goes to *column. */
static inline const char *parse_key(struct parser *parser, const char *p, size_t place,
				    size_t *column)
{
	struct tdl__row *row = parser->row;
	const char *behind;

	if (place < row->count) {
		const struct tdl__column_key *column_key = &row->column_keys[row->order[place]];
		size_t n = column_key->length - 2;

		if (tdl__starts_with(p, parser->end, column_key->key, column_key->key_mask,
				     column_key->whole + 1, n)) {
			*column = row->order[place];
			if (*column != place)
				row->stored_form = false;
			return p + n;
		}
	}
	row->stored_form = false;
	if (*p != '"')
		return refuse_line(parser, TDL__ROW_ERROR_SYNTAX, p,
				   place == 0 ? "a key or }" : "a key");
	behind = look_up_key(parser, p, column);
	if (!behind)
		return NULL;
	if (*column == row->count)
		add_unknown(parser, p, (size_t)(behind - p));
	else if (place < row->count)
		row->order[place] = *column;
	return behind;
}

/* The value is not what the column wants; what else is wrong in the line may matter more. */
static void defer_error(struct parser *parser, enum tdl__row_error_kind kind, const char *at,
			size_t n, size_t column)
{
	if (!parser->has_later)
		parser->later =
			(struct tdl__row_error){ .kind = kind, .at = at, .n = n, .column = column };
	parser->has_later = true;
}

/* A number that is not short. */
static const char *scan_number(struct parser *parser, const char *p, bool *integer)
{
	const char *bad = parser->end;
	const char *behind = tdl__scan_number(p, parser->end, integer, &bad);

	if (!behind) {
		refuse_line(parser, TDL__ROW_ERROR_NUMBER, bad, NULL);
		parser->row->error.value = p;
	}
	return behind;
}

static inline const char *parse_number(struct parser *parser, const char *p, size_t column,
				       enum tdl__rewrite *rewrite)
{
	struct tdl__row *row = parser->row;
	bool integer = false, is_short, zero;
	const char *behind = tdl__short_number(p, &integer);
	size_t n;

	is_short = behind != NULL;
	if (!is_short && !(behind = scan_number(parser, p, &integer)))
		return NULL;
	if (column == row->count)
		return behind;
	n = (size_t)(behind - p);
	zero = n == 2 && p[0] == '-' && p[1] == '0';
	switch (row->column_keys[column].type) {
	case TDL_INT:
		if (!integer)
			defer_error(parser, TDL__ROW_ERROR_TYPE, p, n, column);
		else if (n - (*p == '-') > TDL__DIGITS_MAX)
			defer_error(parser, TDL__ROW_ERROR_DIGITS, p, n, column);
		else if (zero)
			*rewrite = TDL__ZERO_INT;
		break;
	case TDL_FLOAT:
		if (!is_short && !tdl__number_finite(p, n))
			defer_error(parser, TDL__ROW_ERROR_RANGE, p, n, column);
		if (integer)
			*rewrite = zero ? TDL__ZERO_FLOAT : TDL__WHOLE_FLOAT;
		break;
	default:
		defer_error(parser, TDL__ROW_ERROR_TYPE, p, n, column);
	}
	return behind;
}

static inline const char *parse_word(struct parser *parser, const char *p, size_t column)
{
	const char *behind = NULL;

	/* There is room behind a line to look at five bytes anywhere in it. */
	if (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0)
		behind = p + 4;
	else if (memcmp(p, "false", 5) == 0)
		behind = p + 5;
	/* A value of a wrong spelling is shown whole. */
	if (!behind || tdl__is_word(*behind))
		return refuse_line(parser, TDL__ROW_ERROR_SYNTAX, p, "a value");
	if (column < parser->row->count && *p != 'n' &&
	    parser->row->column_keys[column].type != TDL_BOOL)
		defer_error(parser, TDL__ROW_ERROR_TYPE, p, (size_t)(behind - p), column);
	return behind;
}

/* Never right, but the rest of the line may be worse. */
static const char *parse_nested(struct parser *parser, const char *p, size_t column)
{
	struct tdl__row *row = parser->row;
	const char *bad = parser->end;
	const char *behind = tdl__scan_value(p, parser->end, TDL__DEPTH_MAX, &bad);

	if (behind) {
		if (column < row->count)
			defer_error(parser, TDL__ROW_ERROR_TYPE, p, (size_t)(behind - p), column);
		return behind;
	}
	/* Wrong inside or too deep: where it starts says enough. */
	if (bad == parser->end)
		return refuse_line(parser, TDL__ROW_ERROR_SYNTAX, bad, "the rest of the row");
	if (column == row->count)
		return refuse_line(parser, TDL__ROW_ERROR_UNKNOWN, row->unknown[0].p, NULL);
	refuse_line(parser, TDL__ROW_ERROR_TYPE, p, NULL);
	row->error.n = (size_t)(parser->end - p);
	row->error.column = column;
	return NULL;
}

static const char *parse_string(struct parser *parser, const char *p, size_t column,
				enum tdl__rewrite *rewrite)
{
	struct tdl__row *row = parser->row;
	unsigned seen = 0, n = tdl__plain16(p + 1);
	const char *behind = p + n + 2;

	/* Most strings are short and plain. */
	if (n == 16 || p[n + 1] != '"') {
		behind = scan_string(parser, p, &seen);
		if (!behind)
			return NULL;
	}
	if (column < row->count && row->column_keys[column].type != TDL_STR)
		defer_error(parser, TDL__ROW_ERROR_TYPE, p, (size_t)(behind - p), column);
	if (seen & TDL__SEEN_SEPARATOR)
		*rewrite = TDL__SPLITS;
	return behind;
}

static inline const char *parse_value(struct parser *parser, const char *p, size_t column,
				      enum tdl__rewrite *rewrite)
{
	switch (*p) {
	case '"':
		return parse_string(parser, p, column, rewrite);
	case '-':
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9':
		return parse_number(parser, p, column, rewrite);
	case '[':
	case '{':
		return parse_nested(parser, p, column);
	default:
		return parse_word(parser, p, column);
	}
}

/* The members of an object, p behind its brace. Returns what is behind the closing one. */
static const char *parse_members(struct parser *parser, const char *p)
{
	struct tdl__row *row = parser->row;

	p = skip_blank(row, p);
	if (*p == '}')
		return p + 1;
	for (size_t place = 0;; place++) {
		size_t column = row->count;
		enum tdl__rewrite rewrite = TDL__AS_WRITTEN;
		const char *key = p, *value;

		p = parse_key(parser, p, place, &column);
		if (!p)
			return NULL;
		p = skip_blank(row, p);
		if (*p != ':')
			return refuse_line(parser, TDL__ROW_ERROR_SYNTAX, p, "a colon");
		value = skip_blank(row, p + 1);
		p = parse_value(parser, value, column, &rewrite);
		if (!p)
			return NULL;
		if (column < row->count) {
			struct tdl__value *kept = &row->values[column];

			if (kept->p && !parser->has_repeat) {
				parser->has_repeat = true;
				parser->repeat =
					(struct tdl__row_error){ .kind = TDL__ROW_ERROR_DUPLICATE,
								 .at = key,
								 .column = column };
			}
			*kept = (struct tdl__value){ value, (size_t)(p - value), rewrite };
			if (rewrite != TDL__AS_WRITTEN) {
				row->stored_form = false;
				row->splits |= rewrite == TDL__SPLITS;
			}
		}
		p = skip_blank(row, p);
		if (*p == '}')
			return p + 1;
		if (*p != ',')
			return refuse_line(parser, TDL__ROW_ERROR_SYNTAX, p, "a comma or }");
		p = skip_blank(row, p + 1);
	}
}

static bool is_complete(const struct tdl__row *row)
{
	for (size_t i = 0; i < row->count; i++) {
		if (!row->values[i].p)
			return false;
	}
	return true;
}

bool tdl__row_parse(struct tdl__row *row, const char *line, size_t n)
{
	struct parser parser;
	const char *p;

	parser.row = row;
	parser.end = line + n;
	parser.has_later = parser.has_repeat = false;

	memset(row->values, 0, row->count * sizeof *row->values);
	row->unknown_count = 0;
	row->stored_form = true;
	row->splits = false;
	p = skip_blank(row, line);
	if (*p != '{') {
		refuse_line(&parser, TDL__ROW_ERROR_OBJECT, p, NULL);
		return false;
	}
	p = parse_members(&parser, p + 1);
	if (!p)
		return false;
	p = skip_blank(row, p);
	if (p != parser.end)
		refuse_line(&parser, TDL__ROW_ERROR_SYNTAX, p, tdl__row_end);
	else if (row->unknown_count > 0)
		refuse_line(&parser, TDL__ROW_ERROR_UNKNOWN, row->unknown[0].p, NULL);
	else if (parser.has_repeat)
		row->error = parser.repeat;
	else if (!is_complete(row))
		refuse_line(&parser, TDL__ROW_ERROR_MISSING, line, NULL);
	else if (parser.has_later)
		row->error = parser.later;
	else
		return true;
	return false;
}
