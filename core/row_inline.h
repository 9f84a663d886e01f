/* SPDX-License-Identifier: MIT */
#ifndef TDL_ROW_INLINE_H
#define TDL_ROW_INLINE_H

/*
 * Looks at 16 or 32 bytes at once, for the two ways through a row. By SSE2 where the processor is
 * an x86-64 (which always has it), else byte by byte. All may read their full width wherever a row
 * or its newline is, thanks to TDL__ROW_SLACK.
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

/* Bit i: byte i is a quote, a backslash, a control byte or not ASCII. */
static inline unsigned tdl__string_stops16(const char *p)
{
	__m128i v = tdl__load16(p);
	/* Signed, so that bytes from 0x80 are less, too. */
	__m128i stop = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));

	stop = _mm_or_si128(stop, _mm_cmpeq_epi8(v, _mm_set1_epi8('"')));
	stop = _mm_or_si128(stop, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
	return (unsigned)_mm_movemask_epi8(stop);
}

/* Bit i: byte i is a digit. */
static inline unsigned tdl__digit_mask16(const char *p)
{
	/* Moves '0' to the least signed value; ten values from there are digits. */
	__m128i v = _mm_add_epi8(tdl__load16(p), _mm_set1_epi8(0x80 - '0'));

	return (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(v, _mm_set1_epi8(-128 + 10)));
}

static inline bool tdl__same16(const char *a, const char *b, unsigned mask)
{
	__m128i same = _mm_cmpeq_epi8(tdl__load16(a), tdl__load16(b));

	return ((unsigned)_mm_movemask_epi8(same) & mask) == mask;
}

#else

static inline unsigned tdl__string_stops16(const char *p)
{
	for (unsigned i = 0; i < 16; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
			return 1u << i;
	}
	return 0;
}

static inline unsigned tdl__digit_mask16(const char *p)
{
	unsigned mask = 0;

	for (unsigned i = 0; i < 16; i++)
		mask |= (unsigned)(p[i] >= '0' && p[i] <= '9') << i;
	return mask;
}

static inline bool tdl__same16(const char *a, const char *b, unsigned mask)
{
	/* The mask is a run of ones from bit 0. */
	return memcmp(a, b, (size_t)__builtin_ctz(~mask)) == 0;
}

#endif

static inline uint32_t tdl__digit_mask32(const char *p)
{
	return tdl__digit_mask16(p) | (uint32_t)tdl__digit_mask16(p + 16) << 16;
}

/* How many digits there are from p on, up to 16. */
static inline unsigned tdl__digits16(const char *p)
{
	return (unsigned)__builtin_ctz(~tdl__digit_mask16(p));
}

/* What is behind a number of no more than 31 digits without exponent; NULL where there is another
 * or none. */
static inline const char *tdl__short_number(const char *p, bool *integer)
{
	const char *digits = p + (*p == '-');
	uint32_t others = ~tdl__digit_mask32(digits);
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

/* Whether the n bytes of `text`, whose first are `head` (as far as `mask` has bits), are at p. */
static inline bool tdl__starts_with(const char *p, const char *end, const char *head, unsigned mask,
				    const char *text, size_t n)
{
	if (!tdl__same16(p, head, mask))
		return false;
	return n <= 16 || ((size_t)(end - p) >= n && memcmp(p + 16, text + 16, n - 16) == 0);
}

static inline bool tdl__is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Letters, digits and what else makes up a word of some language. */
static inline bool tdl__is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c == '.' || c == '+' || c == '-';
}

#endif
