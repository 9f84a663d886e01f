/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C, by the SSE4.2 instruction where the processor has it, else by tables. Knows nothing of
 * what it sums.
 */
#include "util/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
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

/* steps[k][b]: byte b with k zero bytes behind it. */
static uint32_t steps[8][256];
/* shift[k][b]: byte k of a register being b, with STREAM zero bytes behind it. */
static uint32_t shift[4][256];
/* x^(8n) for the length that sums are most often put together of. */
static uint32_t block_zeros;
static bool have_instruction;
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

static void make_tables(void)
{
	block_zeros = zeros(TDL__CRC32C_BLOCK);
	for (uint32_t b = 0; b < 256; b++) {
		for (size_t k = 0; k < 8; k++)
			steps[k][b] = multiply(zeros(k + 1), b);
		for (unsigned k = 0; k < 4; k++)
			shift[k][b] = multiply(zeros(STREAM), b << 8 * k);
	}
#if HAVE_INSTRUCTION
	have_instruction = __builtin_cpu_supports("sse4.2");
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
#endif

uint32_t tdl__crc32c(uint32_t crc, const void *bytes, size_t n)
{
	pthread_once(&once, make_tables);
#if HAVE_INSTRUCTION
	if (have_instruction)
		return ~by_instruction(~crc, bytes, n);
#endif
	return ~by_tables(~crc, bytes, n);
}

uint32_t tdl__crc32c_portable(uint32_t crc, const void *bytes, size_t n)
{
	pthread_once(&once, make_tables);
	return ~by_tables(~crc, bytes, n);
}

uint32_t tdl__crc32c_combine(uint32_t first, uint32_t second, uint64_t n)
{
	pthread_once(&once, make_tables);
	return multiply(n == TDL__CRC32C_BLOCK ? block_zeros : zeros(n), first) ^ second;
}
