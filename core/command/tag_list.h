/* SPDX-License-Identifier: MIT */
#ifndef TAG_LIST_H
#define TAG_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tinydelta.h"

/* The tags of a table that name a version, sorted by that. */
struct tag_list {
	struct named_version {
		int64_t version;
		char *name;
	} * items;
	size_t count, cap;
	bool failed;
};

/* Into a zeroed list, which tag_list_free() ends also on failure. Returns 0, or a code with *error
 * filled in. */
int tag_list_read(tdl_table *table, struct tag_list *list, tdl_error *error);
void tag_list_free(struct tag_list *list);

/* Each takes NULL for a list without tags. */
bool tag_list_any(const struct tag_list *list);
/* The names of a version, with commas between, to be freed; NULL where it has none. */
char *tag_list_names(const struct tag_list *list, int64_t version);
/* Prints them as a further member of an object, where there are any: ,"tags":["july"]. */
void tag_list_print_json(const struct tag_list *list, int64_t version);

#endif
