/* SPDX-License-Identifier: MIT */
#ifndef HISTORY_PAGE_H
#define HISTORY_PAGE_H

#include "versions.h"

/* Writes the versions as one HTML page into a file, whole or not at all; "-" is standard output.
 * Returns the exit status. */
int history_page(tdl_table *table, const struct versions *versions, const char *file);

#endif
