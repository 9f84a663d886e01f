/* SPDX-License-Identifier: MIT */
#ifndef TDL_SNAPSHOT_H
#define TDL_SNAPSHOT_H

#include "log/filelist.h"
#include "tinydelta.h"

/* What the library itself asks of a version, beside tinydelta.h. */

/* Where a version's files are: the list, and how many of its first files. */
void tdl__snapshot_list(const tdl_snapshot *snapshot, uint32_t *list, uint32_t *count);

/* Whether data file `index` alone lacks its last newline: nothing is asked of those before it.
 * Looks at its last byte where nobody has. Errors: as tdl_snapshot_size(). */
int tdl__snapshot_lacks_newline(tdl_snapshot *snapshot, uint64_t index, bool *no_eol,
				tdl_error *error);

/* What the log says of the bytes of data file `index` (in range); borrowed from the table. */
tdl__sums tdl__snapshot_sums(const tdl_snapshot *snapshot, uint64_t index);

#endif
