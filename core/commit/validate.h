/* SPDX-License-Identifier: MIT */
#ifndef TDL_VALIDATE_H
#define TDL_VALIDATE_H

#include <stdatomic.h>

#include "commit/publish.h"
#include "commit/staging.h"
#include "row/stream.h"

/*
 * Rows on their way to a data file: scanned, and written to a staged file of their own, unless the
 * staged file they came from already holds just them. One thread at a time.
 */
typedef struct tdl__validator tdl__validator;

/*
 * `source`: the staged file that the bytes are of, so that it can become the data file, or NULL.
 * `name` is what messages call the input (copied); the schema must outlive the validator. NULL: no
 * memory.
 */
tdl__validator *tdl__validator_new(tdl_staging *staging, tdl_staged *source, const char *name,
				   const tdl_schema *schema);
/* Removes what it wrote; where that is published, the data file has a name of its own. */
void tdl__validator_free(tdl__validator *validator);

/* What it wrote stays, as what is left of a data file. */
void tdl__validator_keep(tdl__validator *validator);

/* Takes the next bytes. Errors: as tdl__rows_feed(), IO; then only free may follow. */
int tdl__validator_feed(tdl__validator *validator, const char *bytes, size_t n, tdl_error *error);
/* How many it has taken. */
uint64_t tdl__validator_fed(const tdl__validator *validator);

/* Until it is finished it has this much memory. */
size_t tdl__validator_memory(const tdl__validator *validator);
/* tdl__validator_read() gives up, with CONFLICT, once *stop is set. */
void tdl__validator_stop_at(tdl__validator *validator, const atomic_bool *stop);

/* Takes the rest from a descriptor to its end: at its position, or for the source behind what was
 * taken. Where a row is long it waits until few others of the staging folder are as long. */
int tdl__validator_read(tdl__validator *validator, int fd, const tdl_commit_options *options,
			tdl_error *error);

/* The end: fills `part`, which borrows from the validator, and *file gets the staged file that
 * holds it, the source or the validator's. Errors: as tdl__rows_finish(), IO. */
int tdl__validator_finish(tdl__validator *validator, tdl__part *part, tdl_staged **file,
			  tdl_error *error);

/* The staged file that holds what it was finished with. */
tdl_staged *tdl__validator_file(const tdl__validator *validator);
/* The schema that the rows are validated against. */
const tdl_schema *tdl__validator_schema(const tdl__validator *validator);

#endif
