/* SPDX-License-Identifier: MIT */
#ifndef TDL_DEAL_H
#define TDL_DEAL_H

#include <stddef.h>
#include <stdint.h>

#include "tinydelta.h"

/*
 * Records of rows, dealt into the parts of a temporary file, for what does not fit into memory all
 * at once. The file has no name, and is gone when this process is.
 */

/* A row: its hash, and its place among the bytes of the old side and then those of the new one. */
struct tdl__row_record {
	uint64_t hash[2];
	uint64_t at;
};

#define TDL__PARTS 64

struct tdl__deal;

/* `block` is how many records of a part are written at once. `error` gets what fails, as long as
 * *deal lives. Errors: IO, NOMEM. */
int tdl__deal_new(size_t block, struct tdl__deal **deal, tdl_error *error);
void tdl__deal_free(struct tdl__deal *deal);

/* Puts a record into a part (< TDL__PARTS). Errors: IO, NOMEM. */
int tdl__deal_put(struct tdl__deal *deal, unsigned part, const struct tdl__row_record *record);

/* Calls each() for the records of a part, in the order in which they came, until it says other than
 * 0, which is returned. Errors: IO, NOMEM. */
int tdl__deal_each(const struct tdl__deal *deal, unsigned part,
		   int (*each)(void *context, const struct tdl__row_record *record), void *context);

#endif
