/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C: known sums, and both implementations against each other.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "util/crc32c.h"

static void check(const void *bytes, size_t n, uint32_t sum)
{
	cr_assert_eq(tdl__crc32c(0, bytes, n), sum);
	cr_assert_eq(tdl__crc32c_portable(0, bytes, n), sum);
}

Test(crc32c, known_sums)
{
	unsigned char bytes[32];

	check("", 0, 0);
	check("a", 1, 0xc1d04330);
	check("123456789", 9, 0xe3069283);
	/* RFC 3720, B.4. */
	memset(bytes, 0, sizeof bytes);
	check(bytes, sizeof bytes, 0x8a9136aa);
	memset(bytes, 0xff, sizeof bytes);
	check(bytes, sizeof bytes, 0x62a8ab43);
	for (unsigned i = 0; i < 32; i++)
		bytes[i] = (unsigned char)i;
	check(bytes, sizeof bytes, 0x46dd794e);
	for (unsigned i = 0; i < 32; i++)
		bytes[i] = (unsigned char)(31 - i);
	check(bytes, sizeof bytes, 0x113fdb5c);
}

/* Every way that this processor has. */
static void expect_agreement(uint32_t crc, const unsigned char *bytes, size_t n)
{
	uint32_t sum = tdl__crc32c_portable(crc, bytes, n);

	cr_assert_eq(tdl__crc32c(crc, bytes, n), sum, "%zu bytes", n);
	for (unsigned way = 0; way < TDL__CRC32C_WAYS; way++) {
		uint32_t other = crc;

		if (tdl__crc32c_by(way, &other, bytes, n))
			cr_assert_eq(other, sum, "way %u, %zu bytes", way, n);
	}
}

Test(crc32c, all_ways_agree_at_any_length_and_alignment)
{
	size_t size = 60000;
	unsigned char *bytes = malloc(size);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 2654435761u >> 13);
	for (size_t n = 0; n < 80; n++) {
		for (size_t at = 0; at < 9; at++)
			expect_agreement(7, bytes + at, n);
	}
	/* Round the lengths from which bytes are folded, */
	for (size_t n = 1024 - 20; n < 1024 + 600; n++)
		expect_agreement((uint32_t)n, bytes + n % 65, n);
	/* and where streams run side by side. */
	for (size_t n = 12288 - 20; n < 12288 + 20; n++) {
		for (size_t times = 1; times <= 4; times++)
			expect_agreement(0, bytes + n % 8, n * times);
	}
	free(bytes);
}

Test(crc32c, goes_on_where_it_stopped)
{
	static const char text[] = "part-00000000000000000000000000000000.jsonl and more of it";
	uint32_t whole = tdl__crc32c(0, text, sizeof text);

	for (size_t cut = 0; cut <= sizeof text; cut++) {
		cr_assert_eq(tdl__crc32c(tdl__crc32c(0, text, cut), text + cut, sizeof text - cut),
			     whole);
		cr_assert_eq(tdl__crc32c(tdl__crc32c_portable(0, text, cut), text + cut,
					 sizeof text - cut),
			     whole);
	}
}

Test(crc32c, sums_are_put_together)
{
	size_t size = 3 << 20;
	unsigned char *bytes = malloc(size);
	const size_t cuts[] = { 0, 1, 7, 4096, 1 << 20, (1 << 20) + 1, size - 1, size };

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 2654435761u >> 11);
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		size_t cut = cuts[i];

		cr_assert_eq(tdl__crc32c_combine(tdl__crc32c(0, bytes, cut),
						 tdl__crc32c(0, bytes + cut, size - cut),
						 size - cut),
			     tdl__crc32c(0, bytes, size), "cut at %zu", cut);
	}
	for (size_t n = 0; n < 100; n++)
		for (size_t cut = 0; cut <= n; cut++)
			cr_assert_eq(tdl__crc32c_combine(tdl__crc32c(0, bytes, cut),
							 tdl__crc32c(0, bytes + cut, n - cut),
							 n - cut),
				     tdl__crc32c_portable(0, bytes, n));
	free(bytes);
}
