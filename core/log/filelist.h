/* SPDX-License-Identifier: MIT */
#ifndef TDL_FILELIST_H
#define TDL_FILELIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/action.h"

/*
 * The data files of all versions, so that a version is two numbers and never costs a replay.
 *
 * One array holds every file that was ever added, in order. A list is a stretch of it: appends
 * make the newest list longer, and a version is that list's number and how many of its files it
 * has, a prefix; whatever else a commit does (overwrite, restore, remove, update) starts a new
 * list at the end of the array. Sizes and row counts are kept as running sums over the whole
 * array, modulo 2^64: differences within a list are exact, since no version holds 2^63 bytes.
 * That is 37 bytes a file, and a name of the usual form needs no more: it is a 16-byte UUID.
 *
 * Whether a file lacks its last newline decides where the next one begins in data.jsonl. It is
 * known for files with a checksum (their writer always ends rows), and found out for others when
 * first needed: `eol_known` of a list is of how many of its first files. The few that do lack it
 * are in a sorted array of their own, and so are the checksums of blocks, which only large files
 * have.
 *
 * A data file never changes, so what a commit said of its bytes holds for later commits that add
 * it again without saying it.
 *
 * Not locked: history does that.
 */

/* A data file's name: a UUID for part-<32 hex>.jsonl, else the path itself. */
typedef struct tdl__file_key {
	uint8_t id[16];	   /* the UUID; `named` NULL */
	const char *named; /* borrowed: the path; NULL: the id counts */
} tdl__file_key;

#define TDL__FILE_HAS_CRC   1u	/* its commit gave a checksum */
#define TDL__FILE_EOL_KNOWN 2u	/* whether it lacks its last newline is known */
#define TDL__FILE_NO_EOL    4u	/* and it does */
#define TDL__FILE_NAMED	    8u	/* its name is among the named ones */
#define TDL__FILE_BLOCKS    16u /* it has checksums of its blocks */
#define TDL__FILE_ROWS	    32u /* and counts of their rows */

typedef struct tdl__list {
	uint64_t first;	    /* index of its first file */
	uint64_t eol_known; /* of its files before this the last newline is known */
} tdl__list;

typedef struct tdl__named_file {
	uint64_t index; /* of the file */
	char *path;	/* owned */
} tdl__named_file;

/* The checksums of a file's blocks, and their rows behind them. */
typedef struct tdl__blocks {
	uint64_t index;	   /* of the file */
	uint64_t at;	   /* where the numbers would be if those of all files were in one array */
	uint32_t *numbers; /* never moved while the list lives */
	bool shared;	   /* an earlier file has the same numbers, and frees them */
} tdl__blocks;

typedef struct tdl__filelist {
	/* One element a file. */
	size_t count;	    /* files */
	uint8_t (*ids)[16]; /* their UUIDs; zero for a named one */
	uint64_t *ends;	    /* running sum of sizes, this file included */
	uint64_t *records;  /* running sum of rows, this file included */
	uint32_t *crcs;	    /* CRC-32C; with TDL__FILE_HAS_CRC */
	uint8_t *flags;	    /* TDL__FILE_... */
	size_t ids_cap, ends_cap, records_cap, crcs_cap, flags_cap; /* elements allocated */

	tdl__list *lists; /* in the order they were started */
	size_t list_count, list_cap;

	tdl__named_file *named; /* sorted by index */
	size_t named_count, named_cap;
	uint64_t *no_eol; /* sorted indexes */
	size_t no_eol_count, no_eol_cap;
	tdl__blocks *blocks; /* sorted by index */
	size_t block_count, block_cap;
	uint64_t number_count; /* all numbers that are not shared */

	/* Files with a checksum by name and size: open addressing, index + 1, 0 free. Made when it
	 * is first needed, of the files before `hashed`. */
	uint64_t *slots;
	size_t slot_count; /* a power of two, or 0 */
	size_t slots_used; /* that are not free */
	uint64_t hashed;   /* files before this index are in it */
} tdl__filelist;

void tdl__filelist_free(tdl__filelist *files);
/* Empties it, but for one list without files. */
void tdl__filelist_reset(tdl__filelist *files);

/* A path as a key; a named one borrows `path`. */
tdl__file_key tdl__file_key_of(const char *path);
bool tdl__file_key_equal(const tdl__file_key *a, const tdl__file_key *b);
uint64_t tdl__file_key_hash(const tdl__file_key *key);
/* Writes the path for a key; out has room for TDL__PATH_MAX bytes and a NUL. */
void tdl__file_key_path(const tdl__file_key *key, char *out);

/* Adds a file at the end of the array. False: no memory, nothing added. */
bool tdl__filelist_add(tdl__filelist *files, const tdl__file_key *key, uint64_t size,
		       uint64_t records, const tdl__sums *sums);
/* Adds another with the name, size and sums of file `index`, and what else is known of it. */
bool tdl__filelist_add_again(tdl__filelist *files, uint64_t index, uint64_t records);
/* The newest file of this name and size that has a checksum, or UINT64_MAX. False: no memory. */
bool tdl__filelist_find_sums(tdl__filelist *files, const tdl__file_key *key, uint64_t size,
			     uint64_t *index);
/* Takes back the files from index `count` on. */
void tdl__filelist_cut(tdl__filelist *files, size_t count);
/* Gives back the room that was made for more files. */
void tdl__filelist_trim(tdl__filelist *files);
/* Starts a list at the end of the array. */
bool tdl__filelist_start(tdl__filelist *files);
/* Notes that files were added to list `list`, which has `count` now: what of their last newlines is
 * known. */
void tdl__filelist_resolve_eol(tdl__filelist *files, size_t list, uint64_t count);

tdl__file_key tdl__filelist_key(const tdl__filelist *files, uint64_t index);
uint64_t tdl__filelist_size(const tdl__filelist *files, uint64_t index);
uint64_t tdl__filelist_records(const tdl__filelist *files, uint64_t index);
/* What is said of its bytes; borrowed for as long as the list lives. */
tdl__sums tdl__filelist_sums(const tdl__filelist *files, uint64_t index);
/* Sums over the first `count` files of a list. */
uint64_t tdl__filelist_bytes(const tdl__filelist *files, size_t list, uint64_t count);
uint64_t tdl__filelist_rows(const tdl__filelist *files, size_t list, uint64_t count);

/* Sets whether a file lacks its last newline. False: no memory, nothing changed. */
bool tdl__filelist_set_eol(tdl__filelist *files, uint64_t index, bool no_eol);
/* Where file `nth` (<= count) of a list begins in data.jsonl; the last newlines of its files before
 * must be known. */
uint64_t tdl__filelist_offset(const tdl__filelist *files, size_t list, uint64_t nth);
/* The file of the first `count` (> 0) that holds the byte at `offset`. */
uint64_t tdl__filelist_locate(const tdl__filelist *files, size_t list, uint64_t count,
			      uint64_t offset);

/*
 * For the index's file: index and `at` of each file that has checksums of blocks, two numbers a
 * file, and all their numbers one after the other; and back, into files that have none yet. False:
 * no memory, or they do not hold.
 */
void tdl__filelist_save_blocks(const tdl__filelist *files, uint64_t *entries, uint32_t *numbers);
bool tdl__filelist_load_blocks(tdl__filelist *files, const uint64_t *entries, uint64_t count,
			       const uint32_t *numbers, uint64_t number_count);

#endif
