/* SPDX-License-Identifier: MIT */
#ifndef TDL_RECORD_H
#define TDL_RECORD_H

#include "util/buf.h"
#include "json/json.h"

/*
 * A version as one JSON object and a newline: all of history/vN.json, and a line of history.jsonl.
 * It is a frozen format: nothing in it depends on who reads it, on when, or on the data files,
 * and its length follows from what the replayed history keeps.
 */
typedef struct tdl__record {
	int64_t version, timestamp;
	int64_t read_version;  /* -1: null */
	const char *operation; /* valid UTF-8 */
	uint64_t files, rows, bytes;
	tdl__span schema; /* as JSON */
} tdl__record;

/* Whether a member of a commitInfo is left out, since the record has it under its own rule or it
 * only guards the commit. `key` has its quotes. */
bool tdl__record_leaves_out(tdl__span key);

/* What a member of a commitInfo that is not left out adds to the length. */
static inline size_t tdl__record_member(tdl__span key, tdl__span value)
{
	return key.n + value.n + 2;
}

/* The length; `others` is that of all such members. */
size_t tdl__record_length(const tdl__record *record, size_t others);

/* Adds it to a text; `info` is the version's commitInfo, valid JSON. */
void tdl__record_write(tdl__text *text, const tdl__record *record, tdl__span info);

#endif
