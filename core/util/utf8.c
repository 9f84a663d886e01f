/* SPDX-License-Identifier: MIT */
/*
 * Strict UTF-8. Bytes in, lengths and positions out; knows nothing of JSON but that quotes,
 * backslashes and control bytes are for others to look at.
 */
#include "util/utf8.h"

#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static bool between(unsigned char c, unsigned char low, unsigned char high)
{
	return c >= low && c <= high;
}

/* A UTF-8 sequence of two to four bytes. The second byte of some has a narrower range: that
 * refuses overlong forms, surrogates and what is past U+10FFFF. */
static inline size_t multibyte_length(const unsigned char *p, size_t n)
{
	unsigned char lead = p[0];

	if (lead < 0xc2)
		return 0;
	if (lead < 0xe0)
		return n >= 2 && between(p[1], 0x80, 0xbf) ? 2 : 0;
	if (lead < 0xf0) {
		unsigned char low = lead == 0xe0 ? 0xa0 : 0x80;
		unsigned char high = lead == 0xed ? 0x9f : 0xbf;

		return n >= 3 && between(p[1], low, high) && between(p[2], 0x80, 0xbf) ? 3 : 0;
	}
	if (lead < 0xf5) {
		unsigned char low = lead == 0xf0 ? 0x90 : 0x80;
		unsigned char high = lead == 0xf4 ? 0x8f : 0xbf;

		return n >= 4 && between(p[1], low, high) && between(p[2], 0x80, 0xbf) &&
				       between(p[3], 0x80, 0xbf)
			       ? 4
			       : 0;
	}
	return 0;
}

size_t tdl__utf8_length(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;

	return u[0] < 0x80 ? 1 : multibyte_length(u, n);
}

bool tdl__utf8_valid(const char *p, size_t n)
{
	const char *end = p + n;

	while (p < end) {
		size_t len = tdl__utf8_length(p, (size_t)(end - p));

		if (len == 0)
			return false;
		p += len;
	}
	return true;
}

unsigned tdl__utf8_code(const char *p, size_t len)
{
	unsigned c = (unsigned char)p[0];

	if (len == 1)
		return c;
	c &= 0x7fu >> len;
	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)p[i] & 0x3f);
	return c;
}

static inline bool splits_line(const unsigned char *p, size_t len)
{
	if (len == 2)
		return p[0] == 0xc2 && p[1] == 0x85;
	return len == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] | 1) == 0xa9;
}

bool tdl__splits_line(const char *p, size_t len)
{
	return splits_line((const unsigned char *)p, len);
}

/* U+202A to U+202E and U+2066 to U+2069. */
static bool turns_line(const unsigned char *u, size_t len)
{
	return len == 3 && u[0] == 0xe2 &&
	       ((u[1] == 0x80 && u[2] >= 0xaa && u[2] <= 0xae) ||
		(u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9));
}

bool tdl__breaks_line(const char *p, size_t len)
{
	const unsigned char *u = (const unsigned char *)p;

	if (len == 1)
		return u[0] < 0x20 || u[0] == 0x7f;
	if (len == 2 && u[0] == 0xc2)
		return u[1] < 0xa0;
	return splits_line(u, len) || turns_line(u, len);
}

/* From a character beyond ASCII to the first byte that may not be one, characters beyond ASCII
 * being taken one by one. NULL where one is not UTF-8. */
static const char *skip_one_by_one(const char *p, const char *end, bool *splits, const char **bad)
{
	do {
		const unsigned char *u = (const unsigned char *)p;
		size_t len = multibyte_length(u, (size_t)(end - p));

		if (len == 0) {
			*bad = p;
			return NULL;
		}
		if (splits_line(u, len))
			*splits = true;
		p += len;
	} while (p < end && (unsigned char)*p >= 0x80);
	return p;
}

#ifdef __SSE2__
static inline __m128i equal(__m128i v, int c)
{
	return _mm_cmpeq_epi8(v, _mm_set1_epi8((char)c));
}

/* Bytes as signed numbers: 80 is the least, then come 81 to FF and 00 to 7F. */
static inline __m128i less(__m128i v, int c)
{
	return _mm_cmplt_epi8(v, _mm_set1_epi8((char)c));
}

static inline __m128i at_least(__m128i v, int c)
{
	return _mm_cmpeq_epi8(_mm_max_epu8(v, _mm_set1_epi8((char)c)), v);
}

static inline __m128i at_most(__m128i v, int c)
{
	return _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8((char)c)), v);
}

static inline __m128i either(__m128i a, __m128i b)
{
	return _mm_or_si128(a, b);
}

/* Bit i: byte i of v is set. */
static inline unsigned mask(__m128i v)
{
	return (unsigned)_mm_movemask_epi8(v);
}

/* Bytes that never are in UTF-8 (C0, C1, F5 and more), and those whose second byte matters: for
 * being UTF-8 (E0, ED, F0, F4) or for what tdl__splits_line() (C2, E2). */
static inline unsigned unusual_mask(__m128i v)
{
	__m128i low = equal(_mm_and_si128(v, _mm_set1_epi8((char)0xfd)), 0xc0);
	__m128i never = either(equal(v, 0xc1), at_least(v, 0xf5));
	__m128i second = either(either(equal(v, 0xe0), equal(v, 0xed)),
				either(equal(v, 0xf0), equal(v, 0xf4)));

	return mask(either(either(low, never), either(second, equal(v, 0xe2))));
}

/* A bit for each of the unusual bytes, or the one behind it, that is wrong. */
static unsigned wrong_mask(__m128i v)
{
	unsigned wrong = mask(either(equal(v, 0xc0), equal(v, 0xc1)));
	unsigned below_90 = mask(less(v, 0x90)), below_a0 = mask(less(v, 0xa0));

	wrong |= mask(at_least(v, 0xf5));
	wrong |= mask(equal(v, 0xe0)) << 1 & below_a0;
	wrong |= mask(equal(v, 0xed)) << 1 & ~below_a0;
	wrong |= mask(equal(v, 0xf0)) << 1 & below_90;
	wrong |= mask(equal(v, 0xf4)) << 1 & ~below_90;
	return wrong;
}

/* A bit for the last byte of each character that tdl__splits_line(). */
static unsigned splits_mask(__m128i v)
{
	unsigned nel = mask(equal(v, 0xc2)) << 1 & mask(equal(v, 0x85));

	return nel | (mask(equal(v, 0xe2)) << 2 & mask(equal(v, 0x80)) << 1 &
		      mask(either(equal(v, 0xa8), equal(v, 0xa9))));
}

/*
 * Takes text from p, where a character starts, sixteen bytes at a time, as long as there are such
 * beyond ASCII among them and all is well. Returns where it stopped, again the start of a character
 * or what ends plain text; what is wrong there is left to others.
 */
static const char *skip_text16(const char *p, const char *end, bool *splits)
{
	while (end - p >= 16) {
		__m128i v = _mm_loadu_si128((const __m128i_u *)p);
		unsigned beyond = mask(v);
		__m128i control = at_most(v, 0x1f);
		unsigned stops = mask(either(control, either(equal(v, '"'), equal(v, '\\'))));
		/* 80-BF follow; C0-FF lead a sequence, E0-FF of three, F0-FF of four bytes. */
		unsigned follow = mask(less(v, 0xc0));
		unsigned lead = beyond & ~follow;
		unsigned three = beyond & ~mask(less(v, 0xe0));
		unsigned four = beyond & ~mask(less(v, 0xf0));
		unsigned cut = (lead & 0x8000) | (three & 0xc000) | (four & 0xe000);
		unsigned wrong = (lead << 1 | three << 2 | four << 3) ^ follow;
		unsigned unusual = unusual_mask(v);
		unsigned n, before;

		if (beyond == 0)
			break;
		/* Up to the first stop or the sequence that is cut. Nothing may be due at a stop.
		 */
		n = (unsigned)__builtin_ctz(stops | cut | 0x10000);
		before = (1u << n) - 1;
		if (unusual != 0)
			wrong |= wrong_mask(v);
		if (wrong & (before << 1 | 1))
			break;
		if (unusual != 0 && (splits_mask(v) & before) != 0)
			*splits = true;
		p += n;
		if (stops >> n & 1)
			break;
	}
	return p;
}
#endif

const char *tdl__utf8_skip(const char *p, const char *end, bool *splits, const char **bad)
{
#ifdef __SSE2__
	const char *behind = skip_text16(p, end, splits);

	if (behind > p)
		return behind;
#endif
	return skip_one_by_one(p, end, splits, bad);
}
