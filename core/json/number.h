/* SPDX-License-Identifier: MIT */
#ifndef TDL_NUMBER_H
#define TDL_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the valid JSON number of n bytes at p is finite as a double, decided from its digits: no
 * locale, no errno, no rounding. What is too small for a double is zero, and finite. */
bool tdl__number_finite(const char *p, size_t n);

#endif
