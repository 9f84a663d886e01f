/* SPDX-License-Identifier: MIT */
#ifndef TDL_ACTION_H
#define TDL_ACTION_H

#include "tinydelta.h"
#include "util/buf.h"
#include "util/util.h"
#include "json/json.h"

/* A data file has sums of its own for each stretch of this many bytes, the last one shorter. */
#define TDL__BLOCK (UINT64_C(1) << 20)
/* The most blocks that an add we write tells of: a line of a commit has a limit. */
#define TDL__BLOCKS_MAX ((size_t)1 << 22)

static inline uint64_t tdl__block_count(uint64_t size)
{
	return size / TDL__BLOCK + (size % TDL__BLOCK != 0);
}

/* What a commit says of a data file's bytes. */
typedef struct tdl__sums {
	bool has_crc;
	uint32_t crc;		/* CRC-32C of all of them */
	const uint32_t *blocks; /* and of each block; NULL: unsaid */
	const uint32_t *rows;	/* how many newlines are in each block; NULL: unsaid */
} tdl__sums;

/* What a commit adds or removes. */
typedef struct tdl__action {
	bool is_add;
	bool no_change; /* says "dataChange":false: rows were moved, none came or went */
	bool has_crc, has_blocks, has_rows; /* none without those before it */
	uint32_t crc;			    /* CRC-32C of the data file's bytes */
	size_t path;			    /* where in the commit's strings; NUL-terminated */
	size_t path_length;
	uint64_t size;
	uint64_t num_records;
	size_t blocks, rows; /* where in strings: a uint32_t for each block, aligned */
} tdl__action;

/* One commit, as read from the log. Zeroed to start with; tdl__commit_clear() keeps its memory
 * for the next one, tdl__commit_free() does not. */
typedef struct tdl__commit {
	bool has_info;
	int64_t timestamp;
	int64_t read_version; /* -1: null */
	size_t operation;     /* where in strings */
	size_t others;	      /* what its members add to the version's record */
	bool ours;	      /* its commitInfo says that this library wrote it */
	bool checked;	      /* its commitInfo, on the first line, promises what follows: */
	uint64_t promised_lines;
	uint32_t promised_crc;
	size_t covered;	   /* bytes of the first line that the promise covers too; 0: none */
	bool chained;	   /* its commitInfo names the commit that it was built on, */
	int64_t previous;  /* by the CRC-32C of that one's file; -1: there was none */
	uint32_t file_crc; /* CRC-32C of the whole commit file; by the log, as is */
	uint32_t stamp;	   /* tdl__log_stamp() of the file */
	tdl__action *actions;
	size_t count, cap;
	tdl_schema *schema; /* of its last metaData, or NULL */
	size_t table_id;    /* where in strings, if schema */
	tdl__text strings;
} tdl__commit;

void tdl__commit_clear(tdl__commit *commit);
void tdl__commit_free(tdl__commit *commit);

static inline const char *tdl__commit_string(const tdl__commit *commit, size_t at)
{
	return commit->strings.p + at;
}

/* What an add says of its file's bytes; borrowed from the commit. */
tdl__sums tdl__action_sums(const tdl__commit *commit, const tdl__action *action);

/*
 * Adds what one line of a commit file says; `first` is true for the file's first line. Unknown
 * actions and fields, and blank lines, add nothing. Two actions in a line, and a second commitInfo,
 * mean one thing to one reader and another to the next: they are damage. Errors: CORRUPT (with the
 * column), NOMEM.
 */
int tdl__commit_line(tdl__commit *commit, tdl__span line, bool first, tdl_error *error);

/* Whether a data file may have this path: relative, of components that are neither empty nor "."
 * nor "..", and not in the folders that are the table's own. */
bool tdl__path_safe(const char *path);

/* Add the line for an action to a commit that is being written. */
void tdl__action_add(tdl__text *text, const char *path, uint64_t size, uint64_t num_records,
		     const tdl__sums *sums);
void tdl__action_metadata(tdl__text *text, const char *table_id, const tdl_schema *schema);
void tdl__action_remove(tdl__text *text, const char *path);

#define TDL__PATH_MAX 4095

#endif
