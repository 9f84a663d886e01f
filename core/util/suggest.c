/* SPDX-License-Identifier: MIT */
/*
 * How alike two words are. Knows nothing of commands or options.
 */
#include "util/suggest.h"

#include <string.h>

enum {
	LONGEST = 16,  /* of words that are compared */
	TOO_FAR = 3,   /* slips that make it another word */
	NO_SLIPS = 100 /* more than any distance */
};

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* How many letters must be put in, left out, changed or swapped to make b of a. */
static unsigned distance(const char *a, const char *b)
{
	unsigned d[LONGEST + 1][LONGEST + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > LONGEST || m > LONGEST)
		return NO_SLIPS;
	for (size_t i = 0; i <= n; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++)
		for (size_t j = 1; j <= m; j++) {
			d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1,
					d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1, d[i][j]);
		}
	return d[n][m];
}

void nearest_offer(struct nearest *nearest, const char *name)
{
	unsigned slips = distance(nearest->word, name);

	/* Of a short word too little would be left. */
	if (slips >= TOO_FAR || 2 * slips > strlen(name))
		return;
	if (!nearest->name || slips < nearest->distance) {
		nearest->name = name;
		nearest->distance = slips;
	}
}
