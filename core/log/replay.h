/* SPDX-License-Identifier: MIT */
#ifndef TDL_REPLAY_H
#define TDL_REPLAY_H

#include "log/history.h"

/* Adds the version that a commit makes. On failure nothing of it is seen. Called with the write
 * lock. Errors: CORRUPT, NOMEM. */
int tdl__replay(tdl__history *history, tdl__commit *commit, tdl_error *error);

/*
 * Whether tdl__replay() would take a commit on top of a version: `base` says what that has, `keeps`
 * that its files stay and none is added again; else they all go. Errors: CORRUPT.
 */
int tdl__replay_check(const tdl_version_info *base, bool keeps, const tdl__commit *commit,
		      tdl_error *error);

/* Adds metadata that versions may then name; takes the commit's schema. Errors: NOMEM. */
int tdl__history_add_meta(tdl__history *history, tdl__commit *commit);

#endif
