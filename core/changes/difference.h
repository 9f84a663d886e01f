/* SPDX-License-Identifier: MIT */
#ifndef TDL_DIFFERENCE_H
#define TDL_DIFFERENCE_H

#include "table/table.h"

/*
 * Which data files a version has that the one before had not, and the other way round: by what is
 * live, not by what its commit says, so that a file which a commit removes and adds again is no
 * change. A file is the same one where path, size and number of rows are.
 */
typedef struct tdl__difference {
	uint64_t *removed; /* indexes into the version before, in its order */
	size_t removed_count, removed_cap;
	uint64_t *added; /* into the version, in its order */
	size_t added_count, added_cap;
} tdl__difference;

/*
 * Of two versions, `before` NULL: there is none. Where one is the other and more behind it, as
 * after an append, it costs what is new; else both. Errors: NOMEM.
 */
int tdl__difference_of(tdl_snapshot *before, tdl_snapshot *after, tdl__history *history,
		       tdl__difference *difference, tdl_error *error);
/*
 * Takes out the files of which the commit that made the version says that no row of theirs came or
 * went. Errors: as tdl__log_read(), CORRUPT too where it is not the commit that was replayed;
 * NOMEM.
 */
int tdl__difference_filter(tdl_snapshot *before, tdl_snapshot *after, tdl__history *history,
			   tdl__difference *difference, tdl_error *error);
void tdl__difference_free(tdl__difference *difference);

#endif
