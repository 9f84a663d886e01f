/* SPDX-License-Identifier: MIT */
/*
 * Which numbers a double can hold. Text in, verdict out; knows nothing of rows.
 */
#include "json/number.h"

#include <stdint.h>
#include <string.h>

/*
 * 2^1024 - 2^970: half way between the largest double and the power of two that would follow. It
 * and all beyond round to infinity, all below to the largest double or less.
 */
static const char threshold[] =
	"179769313486231580793728971405303415079934132710037826936173778980444968292764"
	"750946649017977587207096330286416692887910946555547851940402630657488671505820"
	"681908902000708383676273854845817711531764475730270069855571366959622842914819"
	"860834936475292719074168444365510704342711559699508093042880177904174497792";

/* An exponent is not read beyond this; no row has as many digits to make up for it. */
#define EXPONENT_MAX ((int64_t)1 << 40)

/* The exponent at p, behind its e. */
static int64_t read_exponent(const char *p, const char *end)
{
	bool negative = *p == '-';
	int64_t value = 0;

	if (*p == '-' || *p == '+')
		p++;
	for (; p < end && value < EXPONENT_MAX; p++)
		value = value * 10 + (*p - '0');
	return negative ? -value : value;
}

/* Whether the digits from p on, a point among them skipped, are at least those of the threshold. */
static bool reaches_threshold(const char *p, const char *end)
{
	for (const char *t = threshold; *t != '\0'; t++) {
		if (p < end && *p == '.')
			p++;
		char digit = p < end ? *p++ : '0';
		if (digit != *t)
			return digit > *t;
	}
	return true;
}

bool tdl__number_finite(const char *p, size_t n)
{
	const char *end = p + n, *point = NULL, *first = NULL, *q;
	int64_t exponent = 0, magnitude;

	for (q = *p == '-' ? p + 1 : p; q < end && *q != 'e' && *q != 'E'; q++) {
		if (*q == '.')
			point = q;
		else if (!first && *q != '0')
			first = q;
	}
	if (!first)
		return true;
	if (!point)
		point = q;
	if (q < end)
		exponent = read_exponent(q + 1, end);
	/* The number is 0.DIGITS times ten to the magnitude, DIGITS starting at `first`. */
	magnitude = exponent + (point - first) + (first > point);
	if (magnitude != (int64_t)strlen(threshold))
		return magnitude < (int64_t)strlen(threshold);
	return !reaches_threshold(first, q);
}
