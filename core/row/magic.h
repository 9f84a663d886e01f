/* SPDX-License-Identifier: MIT */
#ifndef TDL_SNIFF_H
#define TDL_SNIFF_H

#include <stddef.h>

/* So many first bytes of an input are enough to know it. */
#define TDL__SNIFF_MAX 8

/* What an input that starts with these n bytes (all it has, or TDL__SNIFF_MAX) is where it cannot
 * be JSON lines, with what to do: "looks gzip-compressed; decompress it first". NULL: nothing
 * known. */
const char *tdl__sniff(const char *p, size_t n);

#endif
