/* SPDX-License-Identifier: MIT */
/*
 * Strict validity of a JSON text, and members of objects as spans of its bytes. The guard before
 * cJSON in the log; knows nothing of actions or rows.
 */
#include "json.h"

#include <string.h>

#include "scan.h"

bool tdl__json_valid(tdl__span text, unsigned max_depth, size_t *at)
{
	const char *end = text.p + text.n;
	const char *p = tdl__skip_blank(text.p, end);
	const char *bad = end;

	p = tdl__scan_value(p, end, max_depth, &bad);
	if (p != NULL) {
		p = tdl__skip_blank(p, end);
		if (p == end)
			return true;
		bad = p;
	}
	*at = (size_t)(bad - text.p);
	return false;
}

/* Behind a string of a valid text, p at its opening quote. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end;) {
		const char *quote = memchr(p, '"', (size_t)(end - p));
		const char *escape;

		if (quote == NULL)
			return end;
		escape = memchr(p, '\\', (size_t)(quote - p));
		if (escape == NULL)
			return quote + 1;
		p = escape + 2; /* a quote that is escaped is skipped with its backslash */
	}
	return end;
}

/* Behind a value of a valid text. */
static const char *skip_value(const char *p, const char *end)
{
	size_t depth = 0;

	if (*p != '"' && *p != '{' && *p != '[') {
		while (p<end && * p> ' ' && *p != ',' && *p != '}' && *p != ']')
			p++;
		return p;
	}
	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end);
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

bool tdl__json_next(tdl__span *rest, tdl__span *key, tdl__span *value)
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
	p = skip_string(p, end);
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
	return (p[2] | 32) == 'd' && strchr("89abAB", p[3]) != NULL && p[6] == '\\' && p[7] == 'u';
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

bool tdl__json_is(tdl__span string, const char *name)
{
	size_t length = strlen(name);

	return memchr(string.p, '\\', string.n) == NULL
		       ? string.n == length + 2 && memcmp(string.p + 1, name, length) == 0
		       : means(string, name, length);
}

void tdl__json_members(tdl__span object, const char *const *names, size_t count, tdl__span *values)
{
	tdl__span key, value;

	for (size_t i = 0; i < count; i++)
		values[i] = (tdl__span){ NULL, 0 };
	while (tdl__json_next(&object, &key, &value)) {
		bool plain = memchr(key.p, '\\', key.n) == NULL;

		for (size_t i = 0; i < count; i++) {
			size_t length = strlen(names[i]);

			if (plain ? key.n == length + 2 && memcmp(key.p + 1, names[i], length) == 0
				  : means(key, names[i], length))
				values[i] = value;
		}
	}
}

bool tdl__json_member(tdl__span object, const char *name, tdl__span *value)
{
	tdl__span found;

	tdl__json_members(object, &name, 1, &found);
	if (found.p == NULL)
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

	if (behind == NULL || !integer || tdl__skip_blank(behind, end) != end)
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
