/* SPDX-License-Identifier: MIT */
#ifndef TDL_SIMD_H
#define TDL_SIMD_H

/*
 * Looks at many bytes at once. By SSE2 where the processor is an x86-64 (which always has it), else
 * in plain C. What a function reads is said with it and is always read in full; the bytes of it
 * that do not matter may be anything. Knows characters, no tokens.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

static inline __m128i tdl__load16(const char *p)
{
	return _mm_loadu_si128((const __m128i_u *)p);
}

/* Reads 16 bytes. How many of them come before the first quote, backslash, control byte or byte
 * beyond ASCII. */
static inline unsigned tdl__plain16(const char *p)
{
	__m128i v = tdl__load16(p);
	/* Signed, so that bytes from 0x80 are less, too. */
	__m128i stop = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));

	stop = _mm_or_si128(stop, _mm_cmpeq_epi8(v, _mm_set1_epi8('"')));
	stop = _mm_or_si128(stop, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
	return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(stop) | 0x10000);
}

/* Bit i: byte i of 16 is a digit. */
static inline unsigned tdl__digit_mask16(const char *p)
{
	/* Moves '0' to the least signed value; ten values from there are digits. */
	__m128i v = _mm_add_epi8(tdl__load16(p), _mm_set1_epi8(0x80 - '0'));

	return (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(v, _mm_set1_epi8(-128 + 10)));
}

/* Reads 16 bytes. How many of them are digits before the first that is none. */
static inline unsigned tdl__digits16(const char *p)
{
	return (unsigned)__builtin_ctz(~tdl__digit_mask16(p));
}

/* Reads 33 bytes. What is behind a number of no more than 31 characters without exponent; NULL
 * where there is another or none. */
static inline const char *tdl__short_number(const char *p, bool *integer)
{
	const char *digits = p + (*p == '-');
	uint32_t others =
		~(tdl__digit_mask16(digits) | (uint32_t)tdl__digit_mask16(digits + 16) << 16);
	unsigned n, whole;

	if (others == 0 || (others & 1))
		return NULL;
	n = whole = (unsigned)__builtin_ctz(others);
	if (digits[n] == '.') {
		others &= others - 1;
		if (others == 0)
			return NULL;
		n = (unsigned)__builtin_ctz(others);
		if (n == whole + 1)
			return NULL;
	}
	if ((*digits == '0' && whole > 1) || (digits[n] | 32) == 'e')
		return NULL;
	*integer = n == whole;
	return digits + n;
}

/* Reads 16 bytes of each. Whether those whose bit is in `mask` are the same. */
static inline bool tdl__same16(const char *a, const char *b, unsigned mask)
{
	__m128i same = _mm_cmpeq_epi8(tdl__load16(a), tdl__load16(b));

	return ((unsigned)_mm_movemask_epi8(same) & mask) == mask;
}

#else

/* Whether the eight bytes at p are all plain; where not, it may say so without need. */
static inline bool tdl__plain8(const char *p)
{
	const uint64_t ones = UINT64_MAX / 255;
	uint64_t v, quote, backslash;

	memcpy(&v, p, 8);
	quote = v ^ ones * '"';
	backslash = v ^ ones * '\\';
	/* A subtraction borrows into the high bit of a byte that is less. */
	return ((v | (v - ones * 0x20) | (quote - ones) | (backslash - ones)) & ones * 0x80) == 0;
}

static inline unsigned tdl__plain16(const char *p)
{
	unsigned i = !tdl__plain8(p) ? 0 : !tdl__plain8(p + 8) ? 8 : 16;

	while (i < 16 && (unsigned char)p[i] >= 0x20 && (unsigned char)p[i] < 0x80 && p[i] != '"' &&
	       p[i] != '\\')
		i++;
	return i;
}

static inline unsigned tdl__digits16(const char *p)
{
	unsigned i = 0;

	while (i < 16 && p[i] >= '0' && p[i] <= '9')
		i++;
	return i;
}

static inline const char *tdl__short_number(const char *p, bool *integer)
{
	const char *digits = p + (*p == '-');
	unsigned n, whole = tdl__digits16(digits);

	if (whole == 0 || whole == 16 || (*digits == '0' && whole > 1))
		return NULL;
	n = whole;
	if (digits[n] == '.') {
		unsigned behind = tdl__digits16(digits + n + 1);

		if (behind == 0 || behind == 16)
			return NULL;
		n += 1 + behind;
	}
	if ((digits[n] | 32) == 'e')
		return NULL;
	*integer = n == whole;
	return digits + n;
}

static inline bool tdl__same16(const char *a, const char *b, unsigned mask)
{
	/* The mask is a run of ones from bit 0. */
	return memcmp(a, b, (size_t)__builtin_ctz(~mask)) == 0;
}

#endif

/* Whether the n bytes of `text`, whose first 16 are `head` (as far as `mask` has bits), are at p.
 * Reads 16 bytes; n only where they are before `end`. */
static inline bool tdl__starts_with(const char *p, const char *end, const char *head, unsigned mask,
				    const char *text, size_t n)
{
	if (!tdl__same16(p, head, mask))
		return false;
	return n <= 16 || ((size_t)(end - p) >= n && memcmp(p + 16, text + 16, n - 16) == 0);
}

/* White space inside a line. */
static inline bool tdl__is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Letters, digits and what else makes up a word or number of some language. */
static inline bool tdl__is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c == '.' || c == '+' || c == '-';
}

/* Reads n bytes. How many of them are newlines. */
static inline size_t tdl__count_newlines(const char *p, size_t n)
{
	size_t count = 0;

#ifdef __SSE2__
	const __m128i newline = _mm_set1_epi8('\n'), zero = _mm_setzero_si128();

	while (n >= 16) {
		/* A byte counts to 255. */
		size_t rounds = n / 16 < 255 ? n / 16 : 255;
		__m128i found = zero;

		for (size_t i = 0; i < rounds; i++, p += 16)
			found = _mm_sub_epi8(found, _mm_cmpeq_epi8(tdl__load16(p), newline));
		found = _mm_sad_epu8(found, zero);
		count += (size_t)(_mm_cvtsi128_si32(found) + _mm_extract_epi16(found, 4));
		n -= rounds * 16;
	}
#endif
	for (; n > 0; n--, p++)
		count += *p == '\n';
	return count;
}

#endif
