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
	bool has_crc;		/* `crc` is said; else nothing is */
	uint32_t crc;		/* CRC-32C of all bytes */
	const uint32_t *blocks; /* CRC-32C of each block; NULL: unsaid */
	const uint32_t *rows;	/* how many newlines are in each block; NULL: unsaid */
} tdl__sums;

/* What a commit adds or removes. */
typedef struct tdl__action {
	bool is_add;	      /* else it is a remove */
	bool no_change;	      /* says "dataChange":false: rows were moved, none came or went */
	bool has_crc;	      /* `crc` is said */
	bool has_blocks;      /* `blocks` is said; only with has_crc */
	bool has_rows;	      /* `rows` is said; only with has_blocks */
	uint32_t crc;	      /* CRC-32C of the data file's bytes */
	size_t path;	      /* offset in the commit's strings, NUL-terminated */
	size_t path_length;   /* in bytes */
	uint64_t size;	      /* of the data file; an add's */
	uint64_t num_records; /* its rows; an add's */
	size_t blocks;	      /* offset in strings: the CRC-32C of each block, aligned */
	size_t rows;	      /* offset in strings: a uint32_t of rows in each block, aligned */
} tdl__action;

/* One commit, as read from the log. Zeroed to start with; tdl__commit_clear() keeps its memory
 * for the next one, tdl__commit_free() does not. */
typedef struct tdl__commit {
	bool has_info;		 /* it has a commitInfo; the members up to `previous` are its */
	int64_t timestamp;	 /* ms since 1970 */
	int64_t read_version;	 /* -1: null */
	size_t operation;	 /* offset in strings */
	size_t others;		 /* what its members add to the version's record */
	bool ours;		 /* it says that this library wrote the commit */
	bool checked;		 /* on the first line, it promises the next two */
	uint64_t promised_lines; /* how many lines follow */
	uint32_t promised_crc;	 /* CRC-32C of them, and of what `covered` says */
	size_t covered;		 /* bytes of the first line that promised_crc covers; 0: none */
	bool chained;		 /* it names the commit that this one was built on */
	int64_t previous;	 /* chained: the CRC-32C of that one's file; -1: there was none */
	uint32_t file_crc;	 /* CRC-32C of the whole commit file; set by the log */
	uint32_t stamp;		 /* tdl__log_stamp() of the file; set by the log */
	tdl__action *actions;	 /* owned, in the order of the file */
	size_t count;		 /* of actions */
	size_t cap;		 /* actions allocated */
	tdl_schema *schema;	 /* owned; of its last metaData. NULL: it has none */
	size_t table_id;	 /* schema: offset in strings */
	tdl__text strings;	 /* what the offsets are in */
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
