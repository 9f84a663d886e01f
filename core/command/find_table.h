/* SPDX-License-Identifier: MIT */
#ifndef FIND_TABLE_H
#define FIND_TABLE_H

#include "tinydelta.h"

/* The table that the working directory is in, or that a mount shows which it is in; to be freed;
 * NULL: in none. */
char *find_table_here(void);

/* The table that the mount shows which `path` is in; to be freed; NULL: it is in none. */
char *find_table_behind(const char *path);

/* As tdl_table_open(), and a path in a mount is the table behind it. */
int find_table_open(const char *path, unsigned flags, tdl_table **table, tdl_error *error);

#endif
