/* SPDX-License-Identifier: MIT */
/*
 * Base64: the vectors of RFC 4648, every length, and that one value has one text only.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "util/base64.h"
#include "util/buf.h"

static void check(const char *bytes, size_t n, const char *want)
{
	char out[600];
	tdl__text text = { 0 };

	tdl__text_base64(&text, bytes, n);
	cr_assert_eq(text.n, strlen(want));
	cr_assert_eq(text.n, tdl__base64_length(n));
	if (n > 0)
		cr_assert_eq(memcmp(text.p, want, text.n), 0);
	cr_assert(tdl__base64_decode(want, strlen(want), out, n));
	cr_assert_eq(memcmp(out, bytes, n), 0);
	tdl__text_free(&text);
}

Test(base64, known_texts)
{
	check("", 0, "");
	check("f", 1, "Zg==");
	check("fo", 2, "Zm8=");
	check("foo", 3, "Zm9v");
	check("foob", 4, "Zm9vYg==");
	check("fooba", 5, "Zm9vYmE=");
	check("foobar", 6, "Zm9vYmFy");
	check("\xfb\xef\xff", 3, "++//");
}

Test(base64, every_length_and_in_place)
{
	char bytes[256];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)(i * 181 + 7);
	for (size_t n = 0; n <= sizeof bytes; n++) {
		tdl__text text = { 0 };

		tdl__text_base64(&text, bytes, n);
		cr_assert(tdl__base64_decode(text.p, text.n, text.p, n));
		cr_assert(n == 0 || memcmp(text.p, bytes, n) == 0);
		tdl__text_free(&text);
	}
}

/* Of all texts of four characters that differ from one in one character, just one means the same.
 */
Test(base64, one_value_has_one_text)
{
	static const char *const texts[] = { "Zg==", "Zm8=", "Zm9v" };

	for (size_t n = 1; n <= 3; n++) {
		for (size_t at = 0; at < 4; at++) {
			for (int c = 0; c < 256; c++) {
				char text[5], out[3], want[3];

				strcpy(text, texts[n - 1]);
				cr_assert(tdl__base64_decode(text, 4, want, n));
				if (text[at] == (char)c)
					continue;
				text[at] = (char)c;
				cr_assert(!tdl__base64_decode(text, 4, out, n) ||
						  memcmp(out, want, n) != 0,
					  "%zu bytes, character %zu is %d", n, at, c);
			}
		}
	}
}

Test(base64, wrong_lengths_are_refused)
{
	char out[16];

	cr_assert_not(tdl__base64_decode("Zm9v", 4, out, 2));
	cr_assert_not(tdl__base64_decode("Zm9v", 4, out, 4));
	cr_assert_not(tdl__base64_decode("Zm9v", 3, out, 3));
	cr_assert_not(tdl__base64_decode("Zm9vYg", 6, out, 4));
	cr_assert_not(tdl__base64_decode("====", 4, out, 1));
	cr_assert_not(tdl__base64_decode("Zm9v", 4, out, 0));
	cr_assert(tdl__base64_decode("", 0, out, 0));
}
