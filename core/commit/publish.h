/* SPDX-License-Identifier: MIT */
#ifndef TDL_PUBLISH_H
#define TDL_PUBLISH_H

#include "table/table.h"
#include "util/buf.h"

/* A data file that is complete and durable under its staged name, to be published. */
typedef struct tdl__part {
	int dir;		  /* the folder that its staged name is in */
	const char *name;	  /* the staged name; borrowed */
	const char *folder;	  /* the name of `dir`, for messages; borrowed */
	char hex[TDL__HEX_MAX];	  /* the digits of its name as a data file */
	uint64_t size;		  /* in bytes */
	uint64_t num_records;	  /* rows */
	tdl__sums sums;		  /* borrowed from the validator */
	const tdl_schema *schema; /* the one that its rows were checked against; borrowed */
	bool lost;		  /* out: committed, but its data file is gone */
} tdl__part;

/* In the staged name of a part in place of the dash before the name it was staged under: the mark
 * of one that was moved. */
#define TDL__MOVED_AT	32
#define TDL__MOVED_MARK '+'

enum tdl__change {
	TDL__APPEND,
	TDL__OVERWRITE,
	TDL__RESTORE
};

/* What is to be committed. All that it points to is borrowed for the call. */
struct tdl__commit_request {
	tdl_table *table;
	enum tdl__change change;
	tdl__part *part; /* appended, or in place of all rows; NULL for a restore */
	int64_t target;	 /* the version that a restore brings back */
	const tdl_commit_options *options;
};

/*
 * Commits. Errors: as tdl_table_write(). When it returns 0 or PUBLISHED the part is
 * the table's; its staged name is still there. part->lost: the name is all that is left of it. On
 * other errors the table is as it was.
 */
int tdl__publish(const struct tdl__commit_request *request, int64_t *version, tdl_error *error);

/*
 * Writes a commit file's text for `version` and publishes it in the log directory, for a table
 * that is being created. Errors: CONFLICT (the version is there), PUBLISHED, IO, UNSUPPORTED.
 */
int tdl__publish_first(const tdl__log *log, const char *text, size_t length, mode_t mode,
		       tdl_error *error);

/* What a commitInfo says. */
struct tdl__commit_info {
	int64_t timestamp;
	const char *operation;
	int64_t read_version;		   /* -1: none */
	int64_t previous;		   /* the CRC-32C of the commit file before, or -1 */
	int64_t restored;		   /* the version that a restore brings back, or -1 */
	const tdl_commit_options *options; /* NULL: nothing else is said */
};

/* Puts the line of commitInfo before a commit's other lines, which are all of `text`. */
void tdl__commit_info(tdl__text *text, const struct tdl__commit_info *info);

/* A caller's options, of any size; NULL: those for most. Whether the log can hold what they say for
 * it. Errors: MISUSE, LIMIT. */
int tdl__commit_options_take(const tdl_commit_options *given, tdl_commit_options *own,
			     tdl_error *error);

/*
 * Whether a commit that is about to be published could be replayed, by everybody, on top of `base`
 * (tdl__replay_check() has what `keeps` means). Errors: LIMIT, NOMEM.
 */
int tdl__commit_check(const char *table, const tdl__text *text, const tdl_version_info *base,
		      bool keeps, tdl_error *error);

#endif
