/* SPDX-License-Identifier: MIT */
/*
 * Strict validity of a JSON text, and members of objects as spans of its bytes. The guard before
 * cJSON in the log; knows nothing of actions or rows.
 */
#include "json/json.h"

#include <string.h>

#include "util/simd.h"
#include "json/scan.h"

/* Whether a value that ends before p is the whole text; p is NULL where `bad` is wrong. */
static bool whole(tdl__span text, const char *p, const char *bad, size_t *at)
{
	const char *end = text.p + text.n;

	if (p) {
		p = tdl__skip_blank(p, end);
		if (p == end)
			return true;
		bad = p;
	}
	*at = (size_t)(bad - text.p);
	return false;
}

bool tdl__json_valid(tdl__span text, unsigned max_depth, size_t *at)
{
	const char *end = text.p + text.n, *bad = end;
	const char *p = tdl__scan_value(tdl__skip_blank(text.p, end), end, max_depth, &bad);

	return whole(text, p, bad, at);
}

/* Behind a string of a valid text, p at its opening quote. */
static const char *skip_string(const char *p, const char *end, bool *escapes)
{
	for (p++; p < end;) {
		unsigned plain = end - p >= 16 ? tdl__plain16(p) : 0;

		p += plain;
		if (plain == 16)
			continue;
		if (*p == '"')
			return p + 1;
		if (*p++ == '\\') {
			*escapes = true;
			p++; /* a quote that is escaped is skipped with its backslash */
		}
	}
	return end;
}

/* Behind a value of a valid text. */
static const char *skip_value(const char *p, const char *end)
{
	size_t depth = 0;
	bool escapes;

	if (*p != '"' && *p != '{' && *p != '[') {
		while (p<end && * p> ' ' && *p != ',' && *p != '}' && *p != ']')
			p++;
		return p;
	}
	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end, &escapes);
		} else {
			if (*p == '{' || *p == '[')
				depth++;
			else if (*p == '}' || *p == ']')
				depth--;
			p++;
		}
		if (depth == 0)
			break;
	}
	return p;
}

/* As tdl__json_next(). *escapes: the key has escapes. */
static bool next_member(tdl__span *rest, tdl__span *key, tdl__span *value, bool *escapes)
{
	const char *end = rest->p + rest->n;
	const char *p = tdl__skip_blank(rest->p, end);
	const char *k, *v;

	/* The brace at the start or the comma before the next member. */
	if (p == end || (*p != '{' && *p != ','))
		return false;
	p = tdl__skip_blank(p + 1, end);
	if (p == end || *p != '"')
		return false;
	k = p;
	*escapes = false;
	p = skip_string(p, end, escapes);
	*key = (tdl__span){ k, (size_t)(p - k) };
	p = tdl__skip_blank(p, end);
	if (p == end)
		return false;
	v = tdl__skip_blank(p + 1, end);
	if (v == end)
		return false;
	p = skip_value(v, end);
	*value = (tdl__span){ v, (size_t)(p - v) };
	*rest = (tdl__span){ p, (size_t)(end - p) };
	return true;
}

bool tdl__json_next(tdl__span *rest, tdl__span *key, tdl__span *value)
{
	bool escapes;

	return next_member(rest, key, value, &escapes);
}

bool tdl__json_item(tdl__span *rest, tdl__span *value)
{
	const char *end = rest->p + rest->n;
	const char *p = tdl__skip_blank(rest->p, end);

	/* The bracket at the start or the comma before the next value. */
	if (p == end || (*p != '[' && *p != ','))
		return false;
	p = tdl__skip_blank(p + 1, end);
	if (p == end || *p == ']')
		return false;
	*value = (tdl__span){ p, 0 };
	p = skip_value(p, end);
	value->n = (size_t)(p - value->p);
	*rest = (tdl__span){ p, (size_t)(end - p) };
	return true;
}

/* Whether the escape at p, with 6 bytes behind it, may be the first half of a pair. */
static bool first_of_pair(const char *p)
{
	return (p[2] | 32) == 'd' && strchr("89abAB", p[3]) && p[6] == '\\' && p[7] == 'u';
}

/* Whether a valid string, with its quotes, means `name`. */
static bool means(tdl__span string, const char *name, size_t length)
{
	const char *p = string.p + 1;
	size_t n = string.n - 2;

	/* A character of a name takes at most six bytes as an escape. */
	if (n < length || n / 6 > length)
		return false;
	while (n > 0) {
		char meant[12];
		size_t take = 1, got;

		/* One character at a time, a pair of surrogates being one. */
		if (*p == '\\')
			take = p[1] != 'u' ? 2 : n >= 12 && first_of_pair(p) ? 12 : 6;
		got = tdl__unescape(meant, p, take);
		if (got > length || memcmp(meant, name, got) != 0)
			return false;
		name += got;
		length -= got;
		p += take;
		n -= take;
	}
	return length == 0;
}

/* Whether a valid string without escapes, with its quotes, is `name`. */
static bool same_text(tdl__span string, const char *name)
{
	size_t length = strlen(name);

	return string.n == length + 2 && memcmp(string.p + 1, name, length) == 0;
}

bool tdl__json_is(tdl__span string, const char *name)
{
	return !memchr(string.p, '\\', string.n) ? same_text(string, name)
						 : means(string, name, strlen(name));
}

/* Members that are looked for. */
struct wanted {
	const char *const *names;
	size_t count;
	tdl__span *values;
};

static void none_found(const struct wanted *wanted)
{
	for (size_t i = 0; i < wanted->count; i++)
		wanted->values[i] = (tdl__span){ NULL, 0 };
}

/* Takes note of a member; `escapes` is of its key. */
static void look_at(const struct wanted *wanted, tdl__span key, bool escapes, tdl__span value)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const char *name = wanted->names[i];

		/* The first byte decides nearly always; behind an empty key it is a quote. */
		if (!escapes && name[0] != key.p[1] && name[0] != '\0')
			continue;
		if (escapes ? means(key, name, strlen(name)) : same_text(key, name))
			wanted->values[i] = value;
	}
}

void tdl__json_members(tdl__span object, const char *const *names, size_t count, tdl__span *values)
{
	const struct wanted wanted = { names, count, values };
	tdl__span key, value;
	bool escapes;

	none_found(&wanted);
	while (next_member(&object, &key, &value, &escapes))
		look_at(&wanted, key, escapes, value);
}

/* As tdl__scan_value() of an object, p at its brace, and looks for its members. */
static const char *scan_object(const char *p, const char *end, unsigned max_depth,
			       const struct wanted *wanted, const char **bad)
{
	if (max_depth == 0)
		goto wrong;
	p = tdl__skip_blank(p + 1, end);
	if (p < end && *p == '}')
		return p + 1;
	for (;;) {
		tdl__span key = { p, 0 }, value;
		unsigned seen = 0;

		if (p == end || *p != '"')
			goto wrong;
		p = tdl__scan_string(p + 1, end, &seen, bad);
		if (!p)
			return NULL;
		key.n = (size_t)(p - key.p);
		p = tdl__skip_blank(p, end);
		if (p == end || *p != ':')
			goto wrong;
		value.p = tdl__skip_blank(p + 1, end);
		p = tdl__scan_value(value.p, end, max_depth - 1, bad);
		if (!p)
			return NULL;
		value.n = (size_t)(p - value.p);
		look_at(wanted, key, (seen & TDL__SEEN_ESCAPE) != 0, value);
		p = tdl__skip_blank(p, end);
		if (p < end && *p == '}')
			return p + 1;
		if (p == end || *p != ',')
			goto wrong;
		p = tdl__skip_blank(p + 1, end);
	}
wrong:
	*bad = p;
	return NULL;
}

bool tdl__json_object(tdl__span text, unsigned max_depth, const char *const *names, size_t count,
		      tdl__span *values, size_t *at)
{
	const struct wanted wanted = { names, count, values };
	const char *end = text.p + text.n;
	const char *p = tdl__skip_blank(text.p, end);
	const char *bad = end;

	none_found(&wanted);
	if (p == end || *p != '{')
		return tdl__json_valid(text, max_depth, at);
	p = scan_object(p, end, max_depth, &wanted, &bad);
	return whole(text, p, bad, at);
}

bool tdl__json_member(tdl__span object, const char *name, tdl__span *value)
{
	tdl__span found;

	tdl__json_members(object, &name, 1, &found);
	if (!found.p)
		return false;
	*value = found;
	return true;
}

char tdl__json_kind(tdl__span value)
{
	const char *end = value.p + value.n;
	const char *p = tdl__skip_blank(value.p, end);

	return p < end ? *p : '\0';
}

bool tdl__json_int64(tdl__span value, int64_t *out)
{
	const char *end = value.p + value.n;
	const char *p = tdl__skip_blank(value.p, end);
	bool negative, integer;
	int64_t result = 0;
	const char *bad, *behind = tdl__scan_number(p, end, &integer, &bad);

	if (!behind || !integer || tdl__skip_blank(behind, end) != end)
		return false;
	negative = *p == '-';
	if (negative)
		p++;
	/* Downwards, since the negative range is one larger. */
	for (; p < behind; p++) {
		if (__builtin_mul_overflow(result, 10, &result) ||
		    __builtin_sub_overflow(result, *p - '0', &result))
			return false;
	}
	if (!negative && result == INT64_MIN)
		return false;
	*out = negative ? result : -result;
	return true;
}
