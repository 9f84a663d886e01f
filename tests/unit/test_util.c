/* SPDX-License-Identifier: MIT */
/*
 * Growing arrays and texts, hex, random names.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitized.h"
#include "util/buf.h"
#include "util/escape.h"
#include "util/util.h"

Test(util, reserve_grows_and_keeps)
{
	int *numbers = NULL;
	size_t cap = 0, moves = 0;

	for (int i = 0; i < 100000; i++) {
		size_t before = cap;

		cr_assert(tdl__reserve(&numbers, &cap, (size_t)i + 1, sizeof *numbers));
		moves += cap != before;
		numbers[i] = i;
	}
	for (int i = 0; i < 100000; i++)
		cr_assert_eq(numbers[i], i);
	cr_assert_lt(moves, 40);
	cr_assert_leq(cap, 150008);
	free(numbers);
}

/* A sanitizer takes it for a fault. */
#ifndef SANITIZED
Test(util, reserve_refuses_what_overflows)
{
	char *bytes = NULL;
	size_t cap = 0;

	cr_assert(tdl__reserve(&bytes, &cap, 10, 1));
	memset(bytes, 'x', 10);
	cr_assert_not(tdl__reserve(&bytes, &cap, SIZE_MAX / 2, 16));
	cr_assert_not(tdl__reserve(&bytes, &cap, SIZE_MAX, 1));
	cr_assert_eq(bytes[9], 'x');
	cr_assert_lt(cap, 1000);
	free(bytes);
}
#endif

Test(util, text_adds_and_ends)
{
	tdl__text text = { 0 };

	tdl__text_add(&text, "ab", 2);
	tdl__text_add(&text, "", 0);
	tdl__text_add(&text, "\0c", 2);
	tdl__text_format(&text, "%d", -7);
	cr_assert_not(text.failed);
	cr_assert_eq(text.n, 6);
	cr_assert_eq(memcmp(text.p, "ab\0c-7", 7), 0);
	tdl__text_free(&text);
	cr_assert_null(text.p);
	cr_assert_eq(text.n, 0);
}

Test(util, text_remembers_failure)
{
	tdl__text text = { 0 };

	tdl__text_format(&text, "%600d", 1);
	cr_assert(text.failed);
	tdl__text_add(&text, "a", 1);
	cr_assert(text.failed);
	cr_assert_eq(text.n, 0);
	tdl__text_free(&text);
}

Test(util, quote_is_ascii_json)
{
	static const struct {
		const char *in;
		size_t n;
		const char *out;
	} cases[] = {
		{ "", 0, "\"\"" },
		{ "plain", 5, "\"plain\"" },
		{ "a\"b\\", 4, "\"a\\\"b\\\\\"" },
		{ "\xc3\xa4", 2, "\"\\u00e4\"" },
		{ "\xf0\x9f\x98\x80", 4, "\"\\ud83d\\ude00\"" },
		{ "\xff", 1, "\"\\\\xff\"" },
		{ "a\nb", 3, "\"a\\nb\"" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tdl__text text = { 0 };

		tdl__text_quote(&text, cases[i].in, cases[i].n);
		cr_assert_str_eq(text.p, cases[i].out);
		tdl__text_free(&text);
	}
}

Test(util, hex_goes_both_ways)
{
	uint8_t bytes[16], back[16];
	char hex[TDL__HEX_MAX];

	for (int i = 0; i < 16; i++)
		bytes[i] = (uint8_t)(i * 17);
	tdl__hex(hex, bytes);
	cr_assert_str_eq(hex, "00112233445566778899aabbccddeeff");
	cr_assert(tdl__unhex(back, hex));
	cr_assert_eq(memcmp(bytes, back, 16), 0);
}

Test(util, unhex_takes_only_lower_case_digits)
{
	static const char *const wrong[] = {
		"00112233445566778899AABBCCDDEEFF",
		"0011223344556677 899aabbccddeeff",
		"0x112233445566778899aabbccddeeff",
		"-0112233445566778899aabbccddeeff",
		"00112233445566778899aabbccddeef",
		"g0112233445566778899aabbccddeeff",
		"",
	};
	uint8_t bytes[16];

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		cr_assert_not(tdl__unhex(bytes, wrong[i]), "%s", wrong[i]);
}

Test(util, random_names_differ)
{
	static char names[1000][TDL__HEX_MAX];
	uint8_t bytes[16];

	for (int i = 0; i < 1000; i++) {
		tdl__random_hex(names[i]);
		cr_assert(tdl__unhex(bytes, names[i]));
		for (int k = 0; k < i; k++)
			cr_assert_str_neq(names[i], names[k]);
	}
}

/* A child begins with all that its parent knew. */
Test(util, random_names_differ_after_a_fork)
{
	char ours[TDL__HEX_MAX], theirs[TDL__HEX_MAX];
	int ends[2], status;
	pid_t pid;

	tdl__random_hex(ours);
	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		tdl__random_hex(theirs);
		_exit(write(ends[1], theirs, sizeof theirs) != sizeof theirs);
	}
	tdl__random_hex(ours);
	cr_assert_eq(read(ends[0], theirs, sizeof theirs), (ssize_t)sizeof theirs);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_str_neq(ours, theirs);
	close(ends[0]);
	close(ends[1]);
}

Test(util, steal_leaves_nothing_behind)
{
	char *p = malloc(1), *q;
	int fd = 7;

	q = tdl__steal(p);
	cr_assert_null(p);
	cr_assert_not_null(q);
	free(q);
	cr_assert_eq(tdl__steal_fd(&fd), 7);
	cr_assert_eq(fd, -1);
}
