/* SPDX-License-Identifier: MIT */
#ifndef VERSIONS_H
#define VERSIONS_H

#include "command.h"
#include "tag_list.h"
#include "term.h"

/*
 * Versions, as they are shown: which ones, in which order and with how much about each.
 */
struct versions {
	int64_t first, last; /* none where last < first */
	/* Patterns as of fnmatch(3) for what a version's commitInfo says; NULL: any. The
	 * operation's case does not matter. */
	const char *operation, *user, *source;
	const struct tag_list *tags; /* to be shown beside them; NULL: none */
	bool reverse;
	bool details; /* what it added, who made it and from what */
	enum {
		GRAPH_NONE,
		GRAPH_ROWS,
		GRAPH_BYTES
	} graph;
};

/*
 * Sets `first` and `last` to the versions from `since` to `until` (times in ms), both inclusive, of
 * those that were in them.
 */
int versions_between(tdl_table *table, struct versions *versions, int64_t since, int64_t until,
		     tdl_error *error);
/* Leaves the newest `count` of those that the patterns choose. */
int versions_newest(tdl_table *table, struct versions *versions, int64_t count, tdl_error *error);

/* Moves *version (-1: before the first) to the next one in the order in which they are shown.
 * Returns 1, 0 at the end, or a code with *error filled in. */
int version_next(tdl_table *table, const struct versions *versions, int64_t *version,
		 tdl_error *error);

struct cJSON;
/* What tdl_table_version_json() says of a version, to be freed by cJSON_Delete(). */
int version_object(tdl_table *table, int64_t version, struct cJSON **object, tdl_error *error);

/* Each prints all of them, for human readers, as term.h has it, or as the Python command does, or
 * as one JSON object a line. They return 0, or a code with *error filled in. */
int versions_print(tdl_table *table, const struct versions *versions, const struct term *term,
		   tdl_error *error);
int versions_print_plain(tdl_table *table, const struct versions *versions, tdl_error *error);
int versions_print_json(tdl_table *table, const struct versions *versions, tdl_error *error);

/* Prints what tdl_table_version_json() says of a version, and behind that, where no member of a
 * commitInfo can take its place, the table's id and, where it has such, its tags, where they are
 * not NULL. */
int version_print_json(tdl_table *table, int64_t version, const char *table_id,
		       const struct tag_list *tags, tdl_error *error);

#endif
