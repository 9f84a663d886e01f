/* SPDX-License-Identifier: MIT */
/*
 * Errors: one line, bounded, safe to print.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "error.h"
#include "util/escape.h"
#include "util/utf8.h"

static void check_printable(const char *text, size_t n, const char *wanted)
{
	char out[200];

	cr_assert_eq(tdl__printable(out, sizeof out, text, n), out);
	cr_assert_str_eq(out, wanted);
}

Test(error, printable_escapes_what_would_break_a_line)
{
	check_printable("plain", 5, "plain");
	check_printable("", 0, "");
	check_printable("a\nb\x1b[0m", 7, "a\\x0ab\\x1b[0m");
	check_printable("nul\0x", 5, "nul\\x00x");
	check_printable("\x7f", 1, "\\x7f");
	check_printable("Z\xc3\xbcrich \xf0\x9f\x98\x80", 12, "Z\xc3\xbcrich \xf0\x9f\x98\x80");
	check_printable("\xc2\x85\xe2\x80\xa8\xe2\x80\xa9", 8,
			"\\xc2\\x85\\xe2\\x80\\xa8\\xe2\\x80\\xa9");
	check_printable("\xff\xc3", 2, "\\xff\\xc3");
	check_printable("\xed\xa0\x80", 3, "\\xed\\xa0\\x80");
}

Test(error, printable_cuts_with_dots_and_never_inside_a_character)
{
	static const char text[] = "ab\n\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z\x01";
	char whole[64];

	tdl__printable(whole, sizeof whole, text, sizeof text - 1);
	for (size_t cap = 1; cap < sizeof whole; cap++) {
		char out[64 + 1];
		size_t used;

		memset(out, 'X', sizeof out);
		tdl__printable(out, cap, text, sizeof text - 1);
		cr_assert_eq(out[cap], 'X', "cap %zu", cap);
		used = strlen(out);
		cr_assert_lt(used, cap);
		cr_assert(tdl__utf8_valid(out, used), "cap %zu", cap);
		if (cap > strlen(whole)) {
			cr_assert_str_eq(out, whole);
			continue;
		}
		cr_assert(used >= 3 ? strcmp(out + used - 3, "...") == 0 : cap < 4, "cap %zu: %s",
			  cap, out);
		if (used > 3)
			cr_assert_eq(strncmp(out, whole, used - 3), 0);
	}
	tdl__printable(whole, 0, text, sizeof text - 1);
}

Test(error, fail_fills_everything_and_returns_the_code)
{
	tdl_error error;

	memset(&error, 0x55, sizeof error);
	cr_assert_eq(tdl__fail(&error, TDL_ERR_CORRUPT, "%s: torn", "x\ny"), TDL_ERR_CORRUPT);
	cr_assert_eq(error.code, TDL_ERR_CORRUPT);
	cr_assert_eq(error.os_error, 0);
	cr_assert_eq(error.version, -1);
	cr_assert_eq(error.line, 0);
	cr_assert_eq(error.column, 0);
	cr_assert_str_eq(error.message, "x\\x0ay: torn");

	cr_assert_eq(tdl__fail_at(&error, TDL_ERR_SCHEMA, 7, 3, 14, "here"), TDL_ERR_SCHEMA);
	cr_assert_eq(error.version, 7);
	cr_assert_eq(error.line, 3);
	cr_assert_eq(error.column, 14);

	cr_assert_eq(tdl__fail_nomem(&error), TDL_ERR_NOMEM);
	cr_assert_eq(tdl__fail(NULL, TDL_ERR_LIMIT, "nobody listens"), TDL_ERR_LIMIT);
	cr_assert_eq(tdl__fail_errno(NULL, EIO, "nobody listens"), TDL_ERR_IO);
	cr_assert_eq(tdl__fail_at(NULL, TDL_ERR_IO, 0, 0, 0, "nobody"), TDL_ERR_IO);
}

Test(error, system_errors_keep_their_reason)
{
	tdl_error error;
	char name[4096];

	cr_assert_eq(tdl__fail_errno(&error, ENOSPC, "part-x.jsonl"), TDL_ERR_IO);
	cr_assert_eq(error.os_error, ENOSPC);
	cr_assert_str_eq(error.message, "part-x.jsonl: No space left on device");
	cr_assert_eq(tdl__fail_errno(&error, ENOMEM, "x"), TDL_ERR_NOMEM);

	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	tdl__fail_errno(&error, EACCES, "%s", name);
	cr_assert_lt(strlen(error.message), sizeof error.message);
	cr_assert_not_null(strstr(error.message, "nnn"));
}
