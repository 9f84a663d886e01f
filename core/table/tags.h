/* SPDX-License-Identifier: MIT */
#ifndef TDL_TAGS_H
#define TDL_TAGS_H

#include "table/table.h"
#include "util/buf.h"

/*
 * Names that people give to versions. A tag is a file _tags/NAME with one JSON object: version,
 * timestamp, tableId, userName, message. Whoever may write to the table can put anything there, so
 * a tag is read as what a stranger wrote. A leading dot is that of files which are no tags yet.
 */
#define TDL__TAGS_DIR	  "_tags"
#define TDL__TAG_FILE_MAX 65536 /* bytes */

/* What a tag's file says. */
typedef struct tdl__tag {
	int64_t version;
	int64_t timestamp; /* ms since 1970, when it was made; -1: unsaid */
	char *user_name;   /* NULL: unsaid */
	char *message;	   /* NULL: unsaid */
} tdl__tag;

void tdl__tag_clear(tdl__tag *tag);

/* Opens the folder of the tags. NOT_FOUND: there is none, so there are no tags. Errors: IO. */
int tdl__tags_open(const tdl_table *table, int *dir, tdl_error *error);

/*
 * Reads the tag `name`. Whether its version exists is not looked at. Errors: NOT_FOUND (no such
 * tag), CORRUPT (the file is no tag of this table; the reason alone is the message), IO, NOMEM.
 */
int tdl__tag_read(const tdl_table *table, int dir, const char *name, tdl__tag *tag,
		  tdl_error *error);

/* Appends what the file of a tag holds. */
void tdl__tag_spell(const tdl_table *table, int64_t version, int64_t timestamp,
		    const char *user_name, const char *message, tdl__text *text);

/*
 * The names in the folder but those with a leading dot, sorted; free *names with
 * tdl__tag_names_free(). Not all of them need be names of tags. Errors: IO, NOMEM.
 */
int tdl__tag_names(const tdl_table *table, int dir, char ***names, size_t *count, tdl_error *error);
void tdl__tag_names_free(char **names, size_t count);

#endif
