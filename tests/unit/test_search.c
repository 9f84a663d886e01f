/* SPDX-License-Identifier: MIT */
/*
 * The binary search against looking at each.
 */
#include "util/search.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(search, against_each)
{
	uint64_t sorted[40];

	for (size_t n = 0; n <= 40; n++) {
		for (size_t k = 0; k < n; k++)
			sorted[k] = 2 * (k / 3);
		for (uint64_t wanted = 0; wanted < 30; wanted++) {
			size_t less = 0, not_greater = 0;

			while (less < n && sorted[less] < wanted)
				less++;
			while (not_greater < n && sorted[not_greater] <= wanted)
				not_greater++;
			cr_assert_eq(tdl__lower_bound(n, i, sorted[i] < wanted), less);
			cr_assert_eq(tdl__lower_bound(n, i, sorted[i] <= wanted), not_greater);
		}
	}
}
