/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C: by folding with AVX-512 where the processor has it, by the SSE4.2 instruction where it
 * has that, else by tables. Knows nothing of what it sums.
 */
#include "util/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_INSTRUCTION 1
#else
#define HAVE_INSTRUCTION 0
#endif

/* The polynomial and all values are reflected: bit 31 is x^0. */
#define POLYNOMIAL 0x82f63b78u
#define ONE	   0x80000000u

/* The instruction takes three steps but may start one a step: three streams of this many bytes run
 * side by side. */
#define STREAM ((size_t)4096)

/* Folding: this many bytes are replaced by as many further on that leave the same remainder. Fewer
 * than FOLD_MIN are not worth the start. */
#define FOLD	 ((size_t)256)
#define FOLD_MIN ((size_t)1024)

/* steps[k][b]: byte b with k zero bytes behind it. */
static uint32_t steps[8][256];
/* shift[k][b]: byte k of a register being b, with STREAM zero bytes behind it. */
static uint32_t shift[4][256];
/* x^(8n) for the length that sums are most often put together of. */
static uint32_t block_zeros;
/* What the low and the high half of 128 bits are multiplied by to be folded. */
static uint64_t fold_low, fold_high;
static bool have_instruction, have_folding;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a != 0; a <<= 1) {
		if (a & ONE)
			product ^= b;
		b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
	}
	return product;
}

/* x^(8n), what n zero bytes multiply a register by. */
static uint32_t zeros(uint64_t n)
{
	uint32_t result = ONE, power = ONE >> 8;

	for (; n > 0; n >>= 1) {
		if (n & 1)
			result = multiply(result, power);
		power = multiply(power, power);
	}
	return result;
}

/* table[b]: what byte b at bit `at` of a register becomes with n zero bytes behind it. Sums are
 * linear: eight products give all. */
static void fill(uint32_t table[256], uint64_t n, unsigned at)
{
	uint32_t factor = zeros(n);

	for (unsigned bit = 0; bit < 8; bit++)
		table[1u << bit] = multiply(factor, 1u << (at + bit));
	for (unsigned b = 1; b < 256; b++)
		table[b] = table[b & (b - 1)] ^ table[b & -b];
}

static void make_tables(void)
{
	block_zeros = zeros(TDL__CRC32C_BLOCK);
	for (unsigned k = 0; k < 8; k++)
		fill(steps[k], k + 1, 0);
	for (unsigned k = 0; k < 4; k++)
		fill(shift[k], STREAM, 8 * k);
	/* A product of reflected values comes out one bit low, and a register of 32 bits stands 32
	 * bits above the end: hence the 4 bytes and the shift. */
	fold_low = (uint64_t)zeros(FOLD + 4) << 1;
	fold_high = (uint64_t)zeros(FOLD - 4) << 1;
#if HAVE_INSTRUCTION
	have_instruction = __builtin_cpu_supports("sse4.2");
	have_folding = have_instruction && __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("vpclmulqdq");
#endif
}

static uint32_t by_tables(uint32_t crc, const unsigned char *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8) {
		crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		       (uint32_t)p[3] << 24;
		crc = steps[7][crc & 255] ^ steps[6][crc >> 8 & 255] ^ steps[5][crc >> 16 & 255] ^
		      steps[4][crc >> 24] ^ steps[3][p[4]] ^ steps[2][p[5]] ^ steps[1][p[6]] ^
		      steps[0][p[7]];
	}
	while (n-- > 0)
		crc = crc >> 8 ^ steps[0][(crc ^ *p++) & 255];
	return crc;
}

#if HAVE_INSTRUCTION
static inline uint64_t load64(const unsigned char *p)
{
	uint64_t value;

	memcpy(&value, p, sizeof value);
	return value;
}

static inline uint32_t behind_zeros(uint32_t crc)
{
	return shift[0][crc & 255] ^ shift[1][crc >> 8 & 255] ^ shift[2][crc >> 16 & 255] ^
	       shift[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc,
								 const unsigned char *p, size_t n)
{
	uint64_t a = crc;

	for (; n >= 3 * STREAM; n -= 3 * STREAM, p += 3 * STREAM) {
		uint64_t b = 0, c = 0;

		for (size_t i = 0; i < STREAM; i += 8) {
			a = _mm_crc32_u64(a, load64(p + i));
			b = _mm_crc32_u64(b, load64(p + STREAM + i));
			c = _mm_crc32_u64(c, load64(p + 2 * STREAM + i));
		}
		b ^= behind_zeros((uint32_t)a);
		a = c ^ behind_zeros((uint32_t)b);
	}
	for (; n >= 8; n -= 8, p += 8)
		a = _mm_crc32_u64(a, load64(p));
	while (n-- > 0)
		a = _mm_crc32_u8((uint32_t)a, *p++);
	return (uint32_t)a;
}

__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) static inline __m512i
fold(__m512i a, __m512i factors, __m512i next)
{
	__m512i low = _mm512_clmulepi64_epi128(a, factors, 0x00);
	__m512i high = _mm512_clmulepi64_epi128(a, factors, 0x11);

	return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* the exclusive or of all three */
}

__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) static uint32_t
by_folding(uint32_t crc, const unsigned char *p, size_t n)
{
	const __m512i factors =
		_mm512_broadcast_i32x4(_mm_set_epi64x((int64_t)fold_high, (int64_t)fold_low));
	unsigned char rest[FOLD];
	__m512i a, b, c, d;

	if (n < FOLD_MIN)
		return by_instruction(crc, p, n);
	/* A sum so far is added to the first four bytes. */
	a = _mm512_xor_si512(_mm512_loadu_si512(p),
			     _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	b = _mm512_loadu_si512(p + 64);
	c = _mm512_loadu_si512(p + 128);
	d = _mm512_loadu_si512(p + 192);
	for (n -= FOLD, p += FOLD; n >= FOLD; n -= FOLD, p += FOLD) {
		a = fold(a, factors, _mm512_loadu_si512(p));
		b = fold(b, factors, _mm512_loadu_si512(p + 64));
		c = fold(c, factors, _mm512_loadu_si512(p + 128));
		d = fold(d, factors, _mm512_loadu_si512(p + 192));
	}
	_mm512_storeu_si512(rest, a);
	_mm512_storeu_si512(rest + 64, b);
	_mm512_storeu_si512(rest + 128, c);
	_mm512_storeu_si512(rest + 192, d);
	/* Else whatever uses smaller registers runs slower from here on; gcc 12 leaves it out. */
	_mm256_zeroupper();
	return by_instruction(by_instruction(0, rest, sizeof rest), p, n);
}
#endif

uint32_t tdl__crc32c(uint32_t crc, const void *bytes, size_t n)
{
	pthread_once(&once, make_tables);
#if HAVE_INSTRUCTION
	if (have_folding)
		return ~by_folding(~crc, bytes, n);
	if (have_instruction)
		return ~by_instruction(~crc, bytes, n);
#endif
	return ~by_tables(~crc, bytes, n);
}

bool tdl__crc32c_by(enum tdl__crc32c_way way, uint32_t *crc, const void *bytes, size_t n)
{
	pthread_once(&once, make_tables);
	switch (way) {
	case TDL__CRC32C_TABLES:
		*crc = ~by_tables(~*crc, bytes, n);
		return true;
#if HAVE_INSTRUCTION
	case TDL__CRC32C_INSTRUCTION:
		if (have_instruction)
			*crc = ~by_instruction(~*crc, bytes, n);
		return have_instruction;
	case TDL__CRC32C_FOLDING:
		if (have_folding)
			*crc = ~by_folding(~*crc, bytes, n);
		return have_folding;
#endif
	default:
		return false;
	}
}

uint32_t tdl__crc32c_portable(uint32_t crc, const void *bytes, size_t n)
{
	tdl__crc32c_by(TDL__CRC32C_TABLES, &crc, bytes, n);
	return crc;
}

uint32_t tdl__crc32c_combine(uint32_t first, uint32_t second, uint64_t n)
{
	pthread_once(&once, make_tables);
	return multiply(n == TDL__CRC32C_BLOCK ? block_zeros : zeros(n), first) ^ second;
}
