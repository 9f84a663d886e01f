/* SPDX-License-Identifier: MIT */
#ifndef TDL_SEARCH_H
#define TDL_SEARCH_H

/*
 * The first number below `n` of which `before` does not hold, or n. `before`, in which the number
 * is called `i`, holds of all up to some number and of none from there on:
 *
 *     place = tdl__lower_bound(count, i, sorted[i] < wanted);     the first that is not less
 *     place = tdl__lower_bound(count, i, sorted[i] <= wanted);    the first that is greater
 *
 * bsearch() finds only what is equal.
 */
#define tdl__lower_bound(n, i, before)                                     \
	__extension__({                                                    \
		__typeof__((n) + 0) low_ = 0, high_ = (n);                 \
		while (low_ < high_) {                                     \
			__typeof__((n) + 0) i = low_ + (high_ - low_) / 2; \
			if (before)                                        \
				low_ = i + 1;                              \
			else                                               \
				high_ = i;                                 \
		}                                                          \
		low_;                                                      \
	})

#endif
