/* SPDX-License-Identifier: MIT */
/*
 * Linked into copies of the programs that tests run: they write an index, and look for one, every
 * few versions. In the programs themselves nothing can be set.
 */
#include "table/table.h"

static void __attribute__((constructor)) often(void)
{
	tdl__index_worth = 5;
}
