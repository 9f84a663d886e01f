/* SPDX-License-Identifier: MIT */
#ifndef TDL_CRC32C_H
#define TDL_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli), as in RFC 3720: continues `crc` (0 at the start) over n bytes. Uses the
 * best that the processor has. */
uint32_t tdl__crc32c(uint32_t crc, const void *bytes, size_t n);

/* How it can be done. */
enum tdl__crc32c_way {
	TDL__CRC32C_TABLES,
	TDL__CRC32C_INSTRUCTION, /* SSE4.2 */
	TDL__CRC32C_FOLDING,	 /* AVX-512 with VPCLMULQDQ */
	TDL__CRC32C_WAYS
};

/* The same in one of these ways, for tests. False, and nothing done: the processor does not have
 * it. */
bool tdl__crc32c_by(enum tdl__crc32c_way way, uint32_t *crc, const void *bytes, size_t n);

/* By tables. */
uint32_t tdl__crc32c_portable(uint32_t crc, const void *bytes, size_t n);

/* The sum of two stretches of bytes, from the sums of each; the second has n bytes. */
uint32_t tdl__crc32c_combine(uint32_t first, uint32_t second, uint64_t n);
/* The length that this is fastest for. */
#define TDL__CRC32C_BLOCK (UINT64_C(1) << 20)

#endif
