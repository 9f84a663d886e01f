/* SPDX-License-Identifier: MIT */
/*
 * UTF-8, against a decoder that works by arithmetic, and many bytes at once against one by one.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"

/* The length of the sequence at p by its definition: the bits say a number, which must need that
 * many bytes and be a character. */
static size_t length_by_value(const unsigned char *p, size_t n)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = p[0] < 0x80       ? 1
		     : p[0] >> 5 == 6  ? 2
		     : p[0] >> 4 == 14 ? 3
		     : p[0] >> 3 == 30 ? 4
				       : 0;
	unsigned value;

	if (len <= 1)
		return len;
	if (len > n)
		return 0;
	value = p[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		value = value << 6 | (p[i] & 63u);
	}
	if (value < least[len] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
		return 0;
	return tdl__utf8_code((const char *)p, len) == value ? len : 99;
}

Test(utf8, length_of_every_sequence)
{
	static const unsigned char third[] = { 0x00, 0x22, 0x7f, 0x80, 0x81, 0xbf, 0xc0, 0xff };
	size_t valid[5] = { 0 };

	for (unsigned first = 0; first < 256; first++) {
		for (unsigned second = 0; second < 256; second++) {
			for (size_t k = 0; k < sizeof third * sizeof third; k++) {
				unsigned char p[4] = { (unsigned char)first, (unsigned char)second,
						       third[k / sizeof third],
						       third[k % sizeof third] };

				for (size_t n = 1; n <= 4; n++) {
					size_t len = tdl__utf8_length((const char *)p, n);

					cr_assert_eq(len, length_by_value(p, n), "%02x%02x%02x%02x",
						     p[0], p[1], p[2], p[3]);
					valid[len] += n == 4;
				}
			}
		}
	}
	/* Leads times seconds times the three good thirds and fourths. */
	cr_assert_eq(valid[3], 960 * 3 * sizeof third);
	cr_assert_eq(valid[4], 256 * 3 * 3);
}

Test(utf8, what_breaks_and_what_splits_a_line)
{
	cr_assert(tdl__breaks_line("\n", 1) && tdl__breaks_line("\0", 1));
	cr_assert(tdl__breaks_line("\x7f", 1) && tdl__breaks_line("\xc2\x85", 2));
	cr_assert(tdl__breaks_line("\xc2\x80", 2) && tdl__breaks_line("\xc2\x9f", 2));
	cr_assert(tdl__breaks_line("\xe2\x80\xa8", 3) && tdl__breaks_line("\xe2\x80\xa9", 3));
	cr_assert_not(tdl__breaks_line(" ", 1) || tdl__breaks_line("\xc2\xa0", 2) ||
		      tdl__breaks_line("\xe2\x80\xa7", 3) || tdl__breaks_line("\xe2\x80\xaf", 3));
	cr_assert(tdl__breaks_line("\xe2\x80\xaa", 3) && tdl__breaks_line("\xe2\x80\xae", 3));
	cr_assert(tdl__breaks_line("\xe2\x81\xa6", 3) && tdl__breaks_line("\xe2\x81\xa9", 3));
	cr_assert_not(tdl__breaks_line("\xe2\x81\xa5", 3) || tdl__breaks_line("\xe2\x81\xaa", 3));
	cr_assert(tdl__splits_line("\xc2\x85", 2) && tdl__splits_line("\xe2\x80\xa8", 3) &&
		  tdl__splits_line("\xe2\x80\xa9", 3));
	cr_assert_not(tdl__splits_line("\n", 1) || tdl__splits_line("\xc2\x84", 2) ||
		      tdl__splits_line("\xe2\x80\xaa", 3) || tdl__splits_line("\xe2\x81\xa8", 3));
}

Test(utf8, valid)
{
	cr_assert(tdl__utf8_valid("", 0));
	cr_assert(tdl__utf8_valid("a\0b", 3));
	cr_assert(tdl__utf8_valid("\xef\xbf\xbf", 3));
	cr_assert_not(tdl__utf8_valid("a\xc3", 2));
	cr_assert_not(tdl__utf8_valid("\xc0\xaf", 2));
}

/* Walks text as tdl__utf8_skip() may, one character at a time. */
static const char *skip_slowly(const char *p, const char *end, bool *splits, const char **bad)
{
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20) {
		size_t len = length_by_value((const unsigned char *)p, (size_t)(end - p));

		if (len == 0) {
			*bad = p;
			return NULL;
		}
		*splits |= tdl__splits_line(p, len);
		p += len;
	}
	return p;
}

/* The whole run, by as many calls as it takes. */
static const char *skip_fast(const char *p, const char *end, bool *splits, const char **bad)
{
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20) {
		if ((unsigned char)*p < 0x80)
			p++;
		else if (!(p = tdl__utf8_skip(p, end, splits, bad)))
			return NULL;
	}
	return p;
}

Test(utf8, many_at_once_agree_with_one_by_one)
{
	static const char *const pieces[] = {
		"a",
		"bc d",
		"\xc3\xa9",
		"\xd0\xb6",
		"\xc2\x84",
		"\xc2\xa0",
		"\xe2\x80\xa7",
		"\xe2\x81\xa8",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xef\xbf\xbf",
		"\xe6\x97\xa5",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
		"\xf0\x9f\x98\x80",
		/* From here on seldom. */
		"\xc2\x85",
		"\xe2\x80\xa8",
		"\"",
		"\\",
		"\n",
		"\x80",
		"\xc0\xa2",
		"\xc1\x81",
		"\xe0\x9f\xbf",
		"\xed\xa0\x80",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xff",
		"\xe2\x82",
		"\xf0\x9f\x98",
		"\xc3",
	};
	size_t count = sizeof pieces / sizeof *pieces;

	srand(1);
	for (int round = 0; round < 200000; round++) {
		char text[64];
		size_t n = 0, most = (size_t)rand() % 60;
		bool splits[2] = { false, false };
		const char *bad[2] = { NULL, NULL }, *behind[2];
		char *exact;

		for (;;) {
			size_t i = (size_t)rand() % (rand() % 24 == 0 ? count : 15);

			if (n + strlen(pieces[i]) > most)
				break;
			memcpy(text + n, pieces[i], strlen(pieces[i]));
			n += strlen(pieces[i]);
		}
		/* Nothing may be read behind the end. */
		exact = malloc(n + 1);
		memcpy(exact + 1, text, n);
		behind[0] = skip_slowly(exact + 1, exact + 1 + n, &splits[0], &bad[0]);
		behind[1] = skip_fast(exact + 1, exact + 1 + n, &splits[1], &bad[1]);
		cr_assert_eq(behind[0], behind[1]);
		cr_assert_eq(bad[0], bad[1]);
		if (behind[0])
			cr_assert_eq(splits[0], splits[1]);
		free(exact);
	}
}
