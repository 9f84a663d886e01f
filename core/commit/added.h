/* SPDX-License-Identifier: MIT */
#ifndef TDL_ADDED_H
#define TDL_ADDED_H

#include "commit/staging.h"
#include "util/hashmap.h"

/*
 * Which data files any commit ever added, to be asked about many staged files: made in one pass
 * over all files, when it is first asked.
 */
typedef struct tdl__added {
	tdl_table *table;
	tdl__hashmap names; /* files by name: their index + 1, the last one of each name */
	uint64_t seen;	    /* files of the history that are in it */
} tdl__added;

enum tdl__fate {
	TDL__FATE_NONE,	     /* no commit added it */
	TDL__FATE_PUBLISHED, /* one did, and its data file is there */
	TDL__FATE_LOST	     /* one did, and its data file is gone: this may be all that is left */
};
/* What became of the data file with these hex digits. Errors: IO, NOMEM. */
int tdl__added_fate(tdl__added *added, const char *hex, enum tdl__fate *fate, tdl_error *error);

/*
 * Gives the data file of a staged file that is LOST its name back, where the staged file's bytes
 * are what the log says they are; *mended says whether. Errors: IO, NOMEM.
 */
int tdl__added_mend(tdl__added *added, int dir, const char *name, bool *mended, tdl_error *error);

void tdl__added_clear(tdl__added *added);

#endif
