/* SPDX-License-Identifier: MIT */
/*
 * The fast way through rows that are in their stored form already. Each column is predicted: its
 * key by the schema, its value by its type; the newline that ends a row stops every loop, so there
 * are no checks for the end of the input. Whatever is unusual is left to tdl__row_parse(): this
 * file knows no errors and changes nothing.
 */
#include <string.h>

#include "row/parse.h"
#include "row/stream.h"
#include "util/simd.h"
#include "json/number.h"
#include "json/scan.h"

/* A number that the fast path could not decide. */
static const char *match_long_number(const char *p, const char *end, bool integer_due)
{
	const char *bad, *behind;
	bool integer = false;

	behind = tdl__scan_number(p, end, &integer, &bad);
	if (!behind || integer != integer_due)
		return NULL;
	if (integer_due)
		return behind - p - (*p == '-') <= TDL__DIGITS_MAX ? behind : NULL;
	return tdl__number_finite(p, (size_t)(behind - p)) ? behind : NULL;
}

static inline const char *match_null(const char *p)
{
	return memcmp(p, "null", 4) == 0 ? p + 4 : NULL;
}

static inline const char *match_int(const char *p, const char *end)
{
	const char *digits = p + (*p == '-');
	unsigned n = tdl__digits16(digits);

	if (n - 1 >= 15)
		return n == 0 ? match_null(p) : match_long_number(p, end, true);
	/* -0 is stored as 0; other zeros in front are not JSON. */
	if (*digits == '0' && (n > 1 || digits != p))
		return NULL;
	return digits + n;
}

static inline const char *match_float(const char *p, const char *end)
{
	bool integer;
	const char *behind = tdl__short_number(p, &integer);

	if (behind)
		return integer ? NULL : behind;
	return *p == 'n' ? match_null(p) : match_long_number(p, end, false);
}

/* The rest of a string that holds more than plain ASCII. */
static const char *match_long_string(const char *p, const char *end)
{
	const char *bad;
	unsigned seen = 0;

	p = tdl__scan_string(p, end, &seen, &bad);
	return seen & TDL__SEEN_SEPARATOR ? NULL : p;
}

static inline const char *match_string(const char *p, const char *end)
{
	unsigned n;

	if (*p != '"')
		return match_null(p);
	p++;
	while ((n = tdl__plain16(p)) == 16)
		p += 16;
	p += n;
	return *p == '"' ? p + 1 : match_long_string(p, end);
}

static inline const char *match_bool(const char *p)
{
	bool is_true = memcmp(p, "true", 4) == 0;
	bool is_null = memcmp(p, "null", 4) == 0;
	bool is_false = memcmp(p, "false", 5) == 0;

	return (is_true | is_null | is_false) ? p + 4 + is_false : NULL;
}

static const char *match_one(const struct tdl__row *row, const char *p, const char *end)
{
	const struct tdl__column_key *column_key = row->column_keys,
				     *last = column_key + row->count;

	do {
		if (!tdl__starts_with(p, end, column_key->lead, column_key->lead_mask,
				      column_key->whole, column_key->length))
			return NULL;
		p += column_key->length;
		switch (column_key->type) {
		case TDL_INT:
			p = match_int(p, end);
			break;
		case TDL_FLOAT:
			p = match_float(p, end);
			break;
		case TDL_STR:
			p = match_string(p, end);
			break;
		case TDL_BOOL:
			p = match_bool(p);
			break;
		}
		if (!p)
			return NULL;
	} while (++column_key < last);
	return p[0] == '}' && p[1] == '\n' ? p + 2 : NULL;
}

const char *tdl__row_match(const struct tdl__row *row, const char *p, const char *end,
			   uint64_t *taken)
{
	while (p < end) {
		const char *next = match_one(row, p, end);

		if (!next || (size_t)(next - p) > TDL__ROW_MAX + 1)
			break;
		p = next;
		++*taken;
	}
	return p;
}
