/* SPDX-License-Identifier: MIT */
/*
 * The grammar of versions. Knows no table: what a number, a time or a tag stands for is its
 * caller's.
 */
#include "log/revision.h"

#include <string.h>

#include "error.h"
#include "log/instant.h"
#include "util/escape.h"
#include "util/utf8.h"

static bool all_digits(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
	}
	return n > 0;
}

/* Of digits; what is too large is INT64_MAX. */
static int64_t number_of(const char *digits, size_t n)
{
	int64_t number = 0;

	for (size_t i = 0; i < n; i++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, digits[i] - '0', &number))
			return INT64_MAX;
	}
	return number;
}

static bool is_word(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* Whether all of it is UTF-8 that can be printed as one line. */
static bool is_printable(const char *text, size_t n)
{
	for (size_t length; n > 0; text += length, n -= length) {
		length = tdl__utf8_length(text, n);
		if (length == 0 || tdl__breaks_line(text, length))
			return false;
	}
	return true;
}

bool tdl__tag_name_valid(const char *name, size_t n)
{
	/* Those that mean a version already, and those that people would take for one. */
	static const char *const words[] = { "latest", "head", "first", "newest",
					     "next",   "now",  "all" };

	if (n == 0 || n > TDL__TAG_MAX || name[0] == '-' || name[0] == '.' || all_digits(name, n) ||
	    (name[0] == 'v' && all_digits(name + 1, n - 1)))
		return false;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (is_word(name, n, words[i]))
			return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (memchr("~^:@/", name[i], 5) ||
		    (name[i] == '.' && i + 1 < n && name[i + 1] == '.'))
			return false;
	}
	return is_printable(name, n);
}

static int not_a_version(const char *text, tdl_error *error)
{
	char shown[160];

	return tdl__fail(error, TDL_ERR_MISUSE,
			 "not a version: \"%s\"; versions are 7, v7, latest, @TIME or a tag, and "
			 "with ~3 behind it the third before that",
			 tdl__printable(shown, sizeof shown, text, strlen(text)));
}

int tdl__revision_parse(const char *text, int64_t now, tdl__revision *revision, tdl_error *error)
{
	const char *tilde = strchr(text, '~');
	size_t n = tilde ? (size_t)(tilde - text) : strlen(text);
	tdl__revision found = { 0 };

	if (tilde) {
		if (!all_digits(tilde + 1, strlen(tilde + 1)))
			return not_a_version(text, error);
		found.back = number_of(tilde + 1, strlen(tilde + 1));
	}
	if (all_digits(text, n)) {
		found.number = number_of(text, n);
	} else if (n > 1 && text[0] == 'v' && all_digits(text + 1, n - 1)) {
		found.number = number_of(text + 1, n - 1);
	} else if (is_word(text, n, "latest")) {
		found.kind = TDL__REVISION_LATEST;
	} else if (n > 0 && text[0] == '@') {
		int r = tdl__instant_parse(text + 1, n - 1, now, &found.instant, error);

		if (r < 0)
			return r;
		found.kind = TDL__REVISION_INSTANT;
	} else if (tdl__tag_name_valid(text, n)) {
		found.kind = TDL__REVISION_TAG;
		found.tag = text;
		found.tag_length = n;
	} else {
		return not_a_version(text, error);
	}
	*revision = found;
	return 0;
}
