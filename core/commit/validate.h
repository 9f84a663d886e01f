/* SPDX-License-Identifier: MIT */
#ifndef TDL_JUDGE_H
#define TDL_JUDGE_H

#include <stdatomic.h>

#include "commit/publish.h"
#include "commit/staging.h"
#include "row/stream.h"

/*
 * Rows on their way to a data file: scanned, and written to a staged file of their own, unless the
 * staged file they came from already holds just them. One thread at a time.
 */
typedef struct tdl__judge tdl__judge;

/*
 * `source`: the staged file that the bytes are of, so that it can become the data file, or NULL.
 * `name` is what messages call the input (copied); the schema must outlive the judge. NULL: no
 * memory.
 */
tdl__judge *tdl__judge_new(tdl_staging *staging, tdl_staged *source, const char *name,
			   const tdl_schema *schema);
/* Removes what it wrote; where that is published, the data file has a name of its own. */
void tdl__judge_free(tdl__judge *judge);

/* What it wrote stays, as what is left of a data file. */
void tdl__judge_keep(tdl__judge *judge);

/* Takes the next bytes. Errors: as tdl__rows_feed(), IO; then only free may follow. */
int tdl__judge_take(tdl__judge *judge, const char *bytes, size_t n, tdl_error *error);
/* How many it has taken. */
uint64_t tdl__judge_taken(const tdl__judge *judge);

/* Until it is finished it has this much memory. */
size_t tdl__judge_memory(const tdl__judge *judge);
/* tdl__judge_read() gives up, with CONFLICT, once *stop is set. */
void tdl__judge_stop_at(tdl__judge *judge, const atomic_bool *stop);

/* Takes the rest from a descriptor to its end: at its position, or for the source behind what was
 * taken. Where a row is long it waits until few others of the staging folder are as long. */
int tdl__judge_read(tdl__judge *judge, int fd, const tdl_commit_options *options, tdl_error *error);

/* The end: fills `part`, which borrows from the judge, and *file gets the staged file that holds
 * it, the source or the judge's. Errors: as tdl__rows_finish(), IO. */
int tdl__judge_finish(tdl__judge *judge, tdl__part *part, tdl_staged **file, tdl_error *error);

/* The staged file that holds what it was finished with. */
tdl_staged *tdl__judge_file(const tdl__judge *judge);
/* That it judges by. */
const tdl_schema *tdl__judge_schema(const tdl__judge *judge);

#endif
