/* SPDX-License-Identifier: MIT */
#ifndef TDL_REVISION_H
#define TDL_REVISION_H

#include <stddef.h>

#include "tinydelta.h"

/*
 * What a text says of a version, before a table is asked: one grammar for every place where a
 * version is named.
 *
 *     7  v7       that version
 *     latest      the newest
 *     @T          the newest at time T (instant.h)
 *     NAME        a tag
 *     X~K         K versions before any of these
 */
enum tdl__revision_kind {
	TDL__REVISION_NUMBER,
	TDL__REVISION_LATEST,
	TDL__REVISION_INSTANT,
	TDL__REVISION_TAG,
};

typedef struct tdl__revision {
	enum tdl__revision_kind kind;
	int64_t number;	   /* NUMBER; one that is too large for any version is INT64_MAX */
	int64_t instant;   /* INSTANT: ms since 1970 */
	const char *tag;   /* TAG: borrowed from the text, not NUL-terminated */
	size_t tag_length; /* bytes */
	int64_t back;	   /* versions before it; INT64_MAX: more than there can be */
} tdl__revision;

/* Reads all of a text. `now` (ms since 1970) is what "@-2h" counts from. Errors: MISUSE. */
int tdl__revision_parse(const char *text, int64_t now, tdl__revision *revision, tdl_error *error);

/* The longest name of a tag in bytes. */
#define TDL__TAG_MAX 200

/*
 * Whether a tag may have this name: UTF-8 of 1 to TDL__TAG_MAX bytes that nothing in the grammar
 * takes for something else, no control characters, and no leading "-" or ".".
 */
bool tdl__tag_name_valid(const char *name, size_t n);

#endif
