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
	row->steps = calloc(count, sizeof *row->steps);
	row->values = calloc(count, sizeof *row->values);
	row->order = calloc(count, sizeof *row->order);
	row->texts = malloc(row->texts_length);
	row->name = malloc(row->name_room);
	if (row->steps == NULL || row->values == NULL || row->order == NULL || row->texts == NULL ||
	    row->name == NULL) {
		tdl__row_clear(row);
		return false;
	}
	p = row->texts;
	for (size_t i = 0; i < count; i++) {
		const struct tdl__column *column = &schema->columns[i];
		struct tdl__step *step = &row->steps[i];
		size_t key = column->key_length - 1;

		step->type = column->type;
		step->whole = p;
		step->length = column->key_length + 1;
		*p = i == 0 ? '{' : ',';
		memcpy(p + 1, column->key, column->key_length);
		memcpy(step->lead, p, step->length < 16 ? step->length : 16);
		memcpy(step->key, column->key, key < 16 ? key : 16);
		step->lead_mask = mask_of(step->length);
		step->key_mask = mask_of(key);
		p += step->length;
		row->order[i] = i;
	}
	return true;
}

void tdl__row_clear(struct tdl__row *row)
{
	free(row->steps);
	free(row->values);
	free(row->order);
	free(row->texts);
	free(row->name);
	memset(row, 0, sizeof *row);
}

/* A walk over one line. */
struct walk {
	struct tdl__row *row;
	const char *end;	 /* of the line, where its newline is */
	struct tdl__fault later; /* the first fault that waits for the line's end */
	bool has_later, has_repeat;
	struct tdl__fault repeat; /* the first repeated key */
};

static const char *refuse(struct walk *walk, enum tdl__fault_kind kind, const char *at,
			  const char *expected)
{
	walk->row->fault = (struct tdl__fault){ .kind = kind, .at = at, .expected = expected };
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

static const char *scan_string(struct walk *walk, const char *p, unsigned *seen)
{
	const char *bad = walk->end;

	p = tdl__scan_string(p + 1, walk->end, seen, &bad);
	return p != NULL ? p : refuse(walk, TDL__FAULT_STRING, bad, NULL);
}

/* The column of the key at p that is not what was predicted; *column is the count of columns where
 * there is none. Returns what is behind the key. */
static const char *look_up_key(struct walk *walk, const char *p, size_t *column)
{
	struct tdl__row *row = walk->row;
	unsigned seen = 0;
	const char *behind = scan_string(walk, p, &seen);
	size_t n;
	ptrdiff_t found = -1;

	if (behind == NULL)
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

static void note_unknown(struct walk *walk, const char *key, size_t n)
{
	struct tdl__row *row = walk->row;

	if (row->unknown_count < TDL__UNKNOWN_SHOWN) {
		row->unknown[row->unknown_count].p = key;
		row->unknown[row->unknown_count].n = n;
	}
	row->unknown_count++;
}

/* The key of the member at `place`, whose column goes to *column. */
static inline const char *take_key(struct walk *walk, const char *p, size_t place, size_t *column)
{
	struct tdl__row *row = walk->row;
	const char *behind;

	if (place < row->count) {
		const struct tdl__step *step = &row->steps[row->order[place]];
		size_t n = step->length - 2;

		if (tdl__starts_with(p, walk->end, step->key, step->key_mask, step->whole + 1, n)) {
			*column = row->order[place];
			if (*column != place)
				row->stored_form = false;
			return p + n;
		}
	}
	row->stored_form = false;
	if (*p != '"')
		return refuse(walk, TDL__FAULT_SYNTAX, p, place == 0 ? "a key or }" : "a key");
	behind = look_up_key(walk, p, column);
	if (behind == NULL)
		return NULL;
	if (*column == row->count)
		note_unknown(walk, p, (size_t)(behind - p));
	else if (place < row->count)
		row->order[place] = *column;
	return behind;
}

/* The value is not what the column wants; what else is wrong in the line may matter more. */
static void fault_later(struct walk *walk, enum tdl__fault_kind kind, const char *at, size_t n,
			size_t column)
{
	if (!walk->has_later)
		walk->later =
			(struct tdl__fault){ .kind = kind, .at = at, .n = n, .column = column };
	walk->has_later = true;
}

/* A number that is not short. */
static const char *scan_number(struct walk *walk, const char *p, bool *integer)
{
	const char *bad = walk->end;
	const char *behind = tdl__scan_number(p, walk->end, integer, &bad);

	if (behind == NULL) {
		refuse(walk, TDL__FAULT_NUMBER, bad, NULL);
		walk->row->fault.value = p;
	}
	return behind;
}

static inline const char *take_number(struct walk *walk, const char *p, size_t column,
				      enum tdl__edit *edit)
{
	struct tdl__row *row = walk->row;
	bool integer = false, is_short, zero;
	const char *behind = tdl__short_number(p, &integer);
	size_t n;

	is_short = behind != NULL;
	if (!is_short && (behind = scan_number(walk, p, &integer)) == NULL)
		return NULL;
	if (column == row->count)
		return behind;
	n = (size_t)(behind - p);
	zero = n == 2 && p[0] == '-' && p[1] == '0';
	switch (row->steps[column].type) {
	case TDL_INT:
		if (!integer)
			fault_later(walk, TDL__FAULT_TYPE, p, n, column);
		else if (n - (*p == '-') > TDL__DIGITS_MAX)
			fault_later(walk, TDL__FAULT_DIGITS, p, n, column);
		else if (zero)
			*edit = TDL__ZERO_INT;
		break;
	case TDL_FLOAT:
		if (!is_short && !tdl__number_finite(p, n))
			fault_later(walk, TDL__FAULT_RANGE, p, n, column);
		if (integer)
			*edit = zero ? TDL__ZERO_FLOAT : TDL__WHOLE_FLOAT;
		break;
	default:
		fault_later(walk, TDL__FAULT_TYPE, p, n, column);
	}
	return behind;
}

static inline const char *take_word(struct walk *walk, const char *p, size_t column)
{
	const char *behind = NULL;

	/* There is room behind a line to look at five bytes anywhere in it. */
	if (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0)
		behind = p + 4;
	else if (memcmp(p, "false", 5) == 0)
		behind = p + 5;
	/* A value of a wrong spelling is shown whole. */
	if (behind == NULL || tdl__is_word(*behind))
		return refuse(walk, TDL__FAULT_SYNTAX, p, "a value");
	if (column < walk->row->count && *p != 'n' && walk->row->steps[column].type != TDL_BOOL)
		fault_later(walk, TDL__FAULT_TYPE, p, (size_t)(behind - p), column);
	return behind;
}

/* Never right, but the rest of the line may be worse. */
static const char *take_nested(struct walk *walk, const char *p, size_t column)
{
	struct tdl__row *row = walk->row;
	const char *bad = walk->end;
	const char *behind = tdl__scan_value(p, walk->end, TDL__DEPTH_MAX, &bad);

	if (behind != NULL) {
		if (column < row->count)
			fault_later(walk, TDL__FAULT_TYPE, p, (size_t)(behind - p), column);
		return behind;
	}
	/* Wrong inside or too deep: where it starts says enough. */
	if (bad == walk->end)
		return refuse(walk, TDL__FAULT_SYNTAX, bad, "the rest of the row");
	if (column == row->count)
		return refuse(walk, TDL__FAULT_UNKNOWN, row->unknown[0].p, NULL);
	refuse(walk, TDL__FAULT_TYPE, p, NULL);
	row->fault.n = (size_t)(walk->end - p);
	row->fault.column = column;
	return NULL;
}

static const char *take_string(struct walk *walk, const char *p, size_t column,
			       enum tdl__edit *edit)
{
	struct tdl__row *row = walk->row;
	unsigned seen = 0, n = tdl__plain16(p + 1);
	const char *behind = p + n + 2;

	/* Most strings are short and plain. */
	if (n == 16 || p[n + 1] != '"') {
		behind = scan_string(walk, p, &seen);
		if (behind == NULL)
			return NULL;
	}
	if (column < row->count && row->steps[column].type != TDL_STR)
		fault_later(walk, TDL__FAULT_TYPE, p, (size_t)(behind - p), column);
	if (seen & TDL__SEEN_SEPARATOR)
		*edit = TDL__SPLITS;
	return behind;
}

static inline const char *take_value(struct walk *walk, const char *p, size_t column,
				     enum tdl__edit *edit)
{
	switch (*p) {
	case '"':
		return take_string(walk, p, column, edit);
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
		return take_number(walk, p, column, edit);
	case '[':
	case '{':
		return take_nested(walk, p, column);
	default:
		return take_word(walk, p, column);
	}
}

/* The members of an object, p behind its brace. Returns what is behind the closing one. */
static const char *take_members(struct walk *walk, const char *p)
{
	struct tdl__row *row = walk->row;

	p = skip_blank(row, p);
	if (*p == '}')
		return p + 1;
	for (size_t place = 0;; place++) {
		size_t column = row->count;
		enum tdl__edit edit = TDL__KEEP;
		const char *key = p, *value;

		p = take_key(walk, p, place, &column);
		if (p == NULL)
			return NULL;
		p = skip_blank(row, p);
		if (*p != ':')
			return refuse(walk, TDL__FAULT_SYNTAX, p, "a colon");
		value = skip_blank(row, p + 1);
		p = take_value(walk, value, column, &edit);
		if (p == NULL)
			return NULL;
		if (column < row->count) {
			struct tdl__value *kept = &row->values[column];

			if (kept->p != NULL && !walk->has_repeat) {
				walk->has_repeat = true;
				walk->repeat = (struct tdl__fault){ .kind = TDL__FAULT_DUPLICATE,
								    .at = key,
								    .column = column };
			}
			*kept = (struct tdl__value){ value, (size_t)(p - value), edit };
			if (edit != TDL__KEEP) {
				row->stored_form = false;
				row->splits |= edit == TDL__SPLITS;
			}
		}
		p = skip_blank(row, p);
		if (*p == '}')
			return p + 1;
		if (*p != ',')
			return refuse(walk, TDL__FAULT_SYNTAX, p, "a comma or }");
		p = skip_blank(row, p + 1);
	}
}

static bool is_complete(const struct tdl__row *row)
{
	for (size_t i = 0; i < row->count; i++) {
		if (row->values[i].p == NULL)
			return false;
	}
	return true;
}

bool tdl__row_judge(struct tdl__row *row, const char *line, size_t n)
{
	struct walk walk;
	const char *p;

	walk.row = row;
	walk.end = line + n;
	walk.has_later = walk.has_repeat = false;

	memset(row->values, 0, row->count * sizeof *row->values);
	row->unknown_count = 0;
	row->stored_form = true;
	row->splits = false;
	p = skip_blank(row, line);
	if (*p != '{') {
		refuse(&walk, TDL__FAULT_OBJECT, p, NULL);
		return false;
	}
	p = take_members(&walk, p + 1);
	if (p == NULL)
		return false;
	p = skip_blank(row, p);
	if (p != walk.end)
		refuse(&walk, TDL__FAULT_SYNTAX, p, tdl__row_end);
	else if (row->unknown_count > 0)
		refuse(&walk, TDL__FAULT_UNKNOWN, row->unknown[0].p, NULL);
	else if (walk.has_repeat)
		row->fault = walk.repeat;
	else if (!is_complete(row))
		refuse(&walk, TDL__FAULT_MISSING, line, NULL);
	else if (walk.has_later)
		row->fault = walk.later;
	else
		return true;
	return false;
}
