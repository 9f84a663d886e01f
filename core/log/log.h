/* SPDX-License-Identifier: MIT */
#ifndef TDL_LOG_H
#define TDL_LOG_H

#include <sys/stat.h>

#include "log/action.h"

/* The commit log of a table: names, and commits read from their files. */
typedef struct tdl__log {
	int dir;	   /* _delta_log, borrowed */
	const char *table; /* the table's path, for messages */
} tdl__log;

#define TDL__LOG_DIR "_delta_log"

/* A commit's file name is 20 digits and ".json". */
#define TDL__LOG_NAME_MAX 26
void tdl__log_name(char out[TDL__LOG_NAME_MAX], int64_t version);

/* The version that a name in the log stands for; -1: none, -2: a valid name with a number above
 * 2^62 (treated as damage, the end of the log). */
#define TDL__NO_VERSION	 (-1)
#define TDL__FAR_VERSION (-2)
int64_t tdl__log_version(const char *name);

/* ".%020d.<32 hex>.tmp": a commit before it is published. */
#define TDL__LOG_TEMP_MAX 64
void tdl__log_temp_name(char out[TDL__LOG_TEMP_MAX], int64_t version);
bool tdl__log_is_temp(const char *name);

/*
 * Reads a whole commit into a cleared *commit. Errors: NOT_FOUND (no such file), CORRUPT (error's
 * version and line set), IO, NOMEM.
 */
int tdl__log_read(const tdl__log *log, int64_t version, tdl__commit *commit, tdl_error *error);

/*
 * Whether a text would be read as commit `version`: all that tdl__log_read() asks of a file. What
 * is committed has to be read by everybody. Errors: CORRUPT (with the reason alone), NOMEM.
 */
int tdl__log_check(int64_t version, const char *text, size_t n, tdl__commit *commit,
		   tdl_error *error);

/* What a commit file looks like from outside, in 32 bits: another value where it was replaced or
 * changed. A link to it that comes or goes changes it too. */
uint32_t tdl__log_stamp(const struct stat *st);

/*
 * Whether a version's file still is the one that had this CRC-32C when it was replayed. Where its
 * stamp is what it was, that is enough, unless `content` asks for its bytes; else they are read,
 * and *stamp is what it is now. 1: the same; 0: another one, or none. Errors: IO, NOMEM.
 */
int tdl__log_compare(const tdl__log *log, int64_t version, uint32_t crc, bool content,
		     uint32_t *stamp, tdl_error *error);

/* The text of a commit's commitInfo, to free(), where its file still has this CRC-32C. Errors: as
 * tdl__log_read(). */
int tdl__log_read_info(const tdl__log *log, int64_t version, uint32_t crc, char **info,
		       size_t *length, tdl_error *error);

/* Whether the version's file is there, whatever it is. Errors: IO. */
int tdl__log_probe(const tdl__log *log, int64_t version, bool *there, tdl_error *error);
/* Like tdl__log_probe(), but an I/O error counts as present. */
bool tdl__log_exists(const tdl__log *log, int64_t version);
/* Like tdl__log_probe(), but an I/O error counts as missing. */
bool tdl__log_is_there(const tdl__log *log, int64_t version);

/*
 * The versions above `above` whose files are there, sorted, to free(); *far tells of a name past
 * all numbers. Errors: IO, NOMEM.
 */
int tdl__log_list(const tdl__log *log, int64_t above, int64_t **versions, size_t *count, bool *far,
		  tdl_error *error);

/* Sets *found to a version above head + 1 whose file is there, or -1: probes the next few and then
 * ever farther, so that its cost does not grow with the log. With `turn` not NULL it probes only
 * one of the far ones, the next one each time, which *turn keeps count of. Errors: IO. */
int tdl__log_probe_past_gap(const tdl__log *log, int64_t head, unsigned *turn, int64_t *found,
			    tdl_error *error);

#endif
