/* SPDX-License-Identifier: MIT */
/*
 * Which numbers a double can hold: the edges, and strtod() as the judge of random ones. (The tests
 * run in the C locale.)
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/number.h"

static bool fits(const char *text)
{
	return tdl__number_finite(text, strlen(text));
}

Test(number, edges)
{
	static const char *const good[] = {
		"0",
		"-0",
		"0.0",
		"0e999999999999",
		"-0.000e5",
		"1",
		"1.5",
		"5e-324",
		"1e-400",
		"1e-99999999999999999999",
		"2.4703282292062327e-324",
		"1.7976931348623157e308",
		"-1.7976931348623157E+308",
		"1.7976931348623158e308",
		"17976931348623157e292",
		"0.00017976931348623157e312",
		"1e308",
		"9.99e307",
		"1e0000000000000000000001",
		"0.0000000000000000000000000001e330",
	};
	static const char *const bad[] = {
		"1e309",
		"1e400",
		"-1e400",
		"1.7976931348623159e308",
		"-1.7976931348623159E308",
		"2e308",
		"17976931348623159e292",
		"0.00017976931348623159e312",
		"1e99999999999",
		"1e99999999999999999999999",
		"0.0000000000000000000000000001e337",
	};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		cr_assert(fits(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		cr_assert_not(fits(bad[i]), "%s", bad[i]);
}

Test(number, many_digits)
{
	char text[800];

	memset(text, '1', sizeof text);
	cr_assert(tdl__number_finite(text, 309));
	cr_assert_not(tdl__number_finite(text, 310));
	/* 0.000...0001e700 with 695 zeros is 1e4. */
	memset(text, '0', sizeof text);
	text[1] = '.';
	strcpy(text + 697, "1e700");
	cr_assert(fits(text));
	strcpy(text + 697, "1e1005");
	cr_assert_not(fits(text));
}

Test(number, just_below_and_at_the_threshold)
{
	/* 2^1024 - 2^970, exactly; its last digit is 2. */
	char digits[400];
	double largest = 1.7976931348623157e308;
	double ulp = ldexp(1, 970);

	/* 2^1024 cannot be printed; two halves of the threshold can. */
	snprintf(digits, sizeof digits, "%.0f", largest);
	cr_assert_eq(strlen(digits), 309);
	cr_assert(fits(digits));
	/* The threshold is the largest double plus half the distance to its neighbour. */
	char half[400], sum[400];
	int carry = 0;

	snprintf(half, sizeof half, "%0309.0f", ulp);
	sum[309] = '\0';
	for (int i = 308; i >= 0; i--) {
		int digit = digits[i] - '0' + half[i] - '0' + carry;

		sum[i] = (char)('0' + digit % 10);
		carry = digit / 10;
	}
	cr_assert(isinf(strtod(sum, NULL)));
	cr_assert_not(fits(sum));
	strcpy(sum + 309, ".000");
	cr_assert_not(fits(sum));
	sum[308]--;
	strcpy(sum + 309, ".99999999");
	cr_assert_not(isinf(strtod(sum, NULL)));
	cr_assert(fits(sum));
}

Test(number, agrees_with_strtod)
{
	srand(2);
	for (int round = 0; round < 300000; round++) {
		char text[128];
		int n = 0, exponent = 308 - rand() % 4, shift = rand() % 20;

		if (rand() % 2)
			text[n++] = '-';
		switch (rand() % 3) {
		case 0: /* near the threshold */
			n += sprintf(text + n, "1.797693134862315%d%de%d", rand() % 10, rand(),
				     exponent);
			break;
		case 1: /* the point elsewhere */
			n += sprintf(text + n, "0.%0*d17976931348623157%de%d", shift, 0,
				     rand() % 100, 308 + shift + rand() % 2);
			break;
		default:
			n += sprintf(text + n, "%d%d.%de%d", 1 + rand() % 9, rand(), rand(),
				     280 + rand() % 40);
		}
		cr_assert_eq(tdl__number_finite(text, (size_t)n), isfinite(strtod(text, NULL)),
			     "%s", text);
	}
}
