/* SPDX-License-Identifier: MIT */
#ifndef TINYDELTA_H
#define TINYDELTA_H

/*
 * tinydelta.h: read and write tinydelta tables.
 *
 * CONCEPTS
 *
 * A table is a directory of data files (part-<32 hex>.jsonl, one JSON object a line) and a log
 * (_delta_log/<20 digits>.json, one file a commit). Commit N makes version N: the data files it
 * adds and removes, applied to version N-1. A version never changes once it exists. Its content,
 * "data.jsonl", is its live data files one after the other, with a newline after a file that
 * lacks its last one.
 *
 * tdl_table     a table that is open. It keeps the replayed log in memory (some 90 bytes a
 *               version) and notices commits of other processes.
 * tdl_snapshot  one version: its size, its files, its bytes.
 * tdl_staging   this process's own folder under _incoming/, where files are written before
 *               they are committed; tdl_staged is one file in it.
 *
 * CALLING SEQUENCE
 *
 *     tdl_error err = { 0 };
 *     tdl_table *table;
 *     tdl_snapshot *snapshot;
 *
 *     if (tdl_table_open("/srv/orders", 0, &table, &err) < 0 ||
 *         tdl_snapshot_open(table, TDL_LATEST, &snapshot, &err) < 0)
 *             errx(1, "%s", err.message);
 *     while (tdl_snapshot_read(snapshot, buf, sizeof buf, offset, &got, &err) == 0 && got > 0)
 *             offset += got;
 *     tdl_snapshot_unref(snapshot);
 *     tdl_table_free(table);
 *
 * CONVENTIONS
 *
 * Functions that can fail return 0 or a negative enum tdl_code. The last parameter is an optional
 * (NULL is fine) tdl_error of the caller, written only on failure; outputs are written only on
 * success. Strings returned are borrowed from the object they were asked of and live as long as
 * it does; objects returned through a pointer to a pointer are owned by the caller. _free and
 * _unref take NULL. Paths are bytes ending in NUL, sizes are bytes, times are milliseconds since
 * 1970-01-01 UTC.
 *
 * A structure of options begins with its own size, so that later versions can add members at its
 * end without breaking programs that were compiled before:
 *
 *     tdl_vacuum_options how = { .size = sizeof how, .dry_run = true };
 *
 * A size of 0 stands for the members of version 0.1. Members that the caller does not have are
 * taken for zero, which leaves things as they were before there was such a member. A member that
 * the library does not have, since the header is newer, must be zero: else MISUSE, and nothing is
 * done.
 *
 * THREADS
 *
 * A tdl_table and a tdl_snapshot may be used by any number of threads at once. Every other
 * handle belongs to one thread at a time. The library prints nothing and never changes the
 * process's umask, signals, locale or working directory. It starts threads only to read a long log
 * while a table is opened or refreshed, and ends them before that returns.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header, for #if; tdl_library_version() is that of the library. */
#define TDL_VERSION_MAJOR 0
#define TDL_VERSION_MINOR 1
#define TDL_VERSION_PATCH 0

#if defined(__GNUC__) && !defined(TDL_API)
#define TDL_API __attribute__((visibility("default")))
#elif !defined(TDL_API)
#define TDL_API
#endif

/* ---- Errors ------------------------------------------------------------------------------- */

/* What a caller may act on differently. */
enum tdl_code {
	TDL_OK = 0,
	TDL_ERR_IO = -1,	  /* the system refused; tdl_error.os_error says how */
	TDL_ERR_NOMEM = -2,	  /* out of memory */
	TDL_ERR_MISUSE = -3,	  /* an argument that can never work */
	TDL_ERR_NOT_FOUND = -4,	  /* no such table, version or file */
	TDL_ERR_EXISTS = -5,	  /* the table to be created is there already */
	TDL_ERR_CORRUPT = -6,	  /* damaged log or data file */
	TDL_ERR_UNSUPPORTED = -7, /* the file system lacks what is needed */
	TDL_ERR_CONFLICT = -8,	  /* another writer committed first; nothing was changed */
	TDL_ERR_SCHEMA = -9, /* rows or columns that are not valid; line and column say where */
	TDL_ERR_LIMIT = -10, /* larger than a documented limit */
	TDL_ERR_EMPTY = -11, /* no rows at all, so nothing to commit */
	TDL_ERR_PUBLISHED =
		-12,	       /* the commit is visible, but may not be durable: not to be redone */
	TDL_ERR_STOPPED = -13, /* a function of the caller said so; nothing was changed */
};

#define TDL_MESSAGE_MAX 640

typedef struct tdl_error {
	int code;	 /* enum tdl_code, the same as the return value */
	int os_error;	 /* errno of the call that failed, or 0 */
	int64_t version; /* the version concerned, or -1 */
	uint64_t line;	 /* of the input or commit file, from 1; 0: the file as a whole */
	uint64_t column; /* byte in that line, from 1; 0: the line as a whole */
	bool in_doubt;	 /* PUBLISHED: nobody could say whether it was */
	char message[TDL_MESSAGE_MAX]; /* one line of valid UTF-8 without control bytes */
} tdl_error;

/* The library's version, "1.0.0". */
TDL_API const char *tdl_library_version(void);

/* ---- Schemas ------------------------------------------------------------------------------ */

enum tdl_type {
	TDL_INT,
	TDL_FLOAT,
	TDL_STR,
	TDL_BOOL
};

/* The columns of a table, in order. Immutable. */
typedef struct tdl_schema tdl_schema;

/*
 * Makes a schema from `count` texts NAME:TYPE; they split at the first colon, and blanks round
 * both parts are dropped. Errors: SCHEMA (no columns, an empty or repeated name, an unknown type,
 * invalid UTF-8), NOMEM. Free *schema with tdl_schema_free().
 */
TDL_API int tdl_schema_parse(const char *const *columns, size_t count, tdl_schema **schema,
			     tdl_error *error);
TDL_API void tdl_schema_free(tdl_schema *schema);
TDL_API size_t tdl_schema_count(const tdl_schema *schema);
/* The name of column `index` (< count) as UTF-8; its length, which may count NUL bytes, goes to
 * *length where that is not NULL. */
TDL_API const char *tdl_schema_name(const tdl_schema *schema, size_t index, size_t *length);
TDL_API enum tdl_type tdl_schema_type(const tdl_schema *schema, size_t index);
/* "int", "float", "str" or "bool". */
TDL_API const char *tdl_type_name(enum tdl_type type);

/* ---- Tables ------------------------------------------------------------------------------- */

typedef struct tdl_table tdl_table;
struct tdl_commit_options;

/* Means "the newest version" where a version is asked for, and "any" in tdl_commit_options. */
#define TDL_LATEST (-1)

/*
 * Creates an empty table (version 0) at `path`, with missing parent directories. Of `options`
 * (NULL is fine) it takes the user and the message. When it returns 0 the table is durable. Errors:
 * EXISTS (something is there; it was not touched), IO, NOMEM, UNSUPPORTED, LIMIT (nobody could read
 * what that would write), PUBLISHED.
 */
TDL_API int tdl_table_create(const char *path, const tdl_schema *schema,
			     const struct tdl_commit_options *options, tdl_error *error);

/* Opens nothing in the table for writing and refuses writes with MISUSE. Only a cache of the log
 * may be kept, in the user's own cache directory. */
#define TDL_OPEN_READ_ONLY 1u

/*
 * Opens the table at `path` and reads its log. A log that is damaged after version 0 does not
 * make it fail: tdl_table_damage() tells. Errors: NOT_FOUND (no table there), CORRUPT (version 0
 * cannot be read), IO, NOMEM. Free *table with tdl_table_free(); snapshots of it may live on.
 */
TDL_API int tdl_table_open(const char *path, unsigned flags, tdl_table **table, tdl_error *error);
TDL_API void tdl_table_free(tdl_table *table);

/* The absolute path of the table's directory, links resolved. */
TDL_API const char *tdl_table_path(const tdl_table *table);
/* A descriptor of the table's directory, borrowed: for fstat(), fstatvfs(). */
TDL_API int tdl_table_fd(const tdl_table *table);
/* The table's id, a UUID as text, as its metadata of version 0 says. */
TDL_API const char *tdl_table_id(const tdl_table *table);

/*
 * Looks for commits made since the last look, by anyone: two system calls where there are none.
 * Errors: CORRUPT (the newest versions cannot be read: a gap, a torn, malformed or unreadable
 * commit, a log that was set back or rewritten; those before stay readable), IO, NOMEM.
 */
TDL_API int tdl_table_refresh(tdl_table *table, tdl_error *error);

/* The newest readable version as of the last look. */
TDL_API int64_t tdl_table_head(tdl_table *table);

/* 0 where the log, as of the last look, is whole; else CORRUPT, with the reason and in
 * error->version the first version that cannot be read. */
TDL_API int tdl_table_damage(tdl_table *table, tdl_error *error);

/*
 * Compares the next `budget` commits with what was read of them, or with what a cache of the log
 * said they were; where the log was never listed it looks for a gap in it first, which takes a
 * second for a million versions. To be called now and then, unhurried, by who has a table open for
 * long. 1: go on; 0: that was the last of them, and the next call begins anew. The first time it is
 * only those that a cache spoke for. Errors: CORRUPT (there is a gap, or the log was rewritten:
 * from there on versions cannot be read any more), IO (a commit could not be read; go on), NOMEM.
 */
TDL_API int tdl_table_verify_log(tdl_table *table, uint64_t budget, tdl_error *error);

/*
 * The version after `version` (-1: the first) among those that exist, readable or not, as of the
 * last look; -1 at the end. Existing versions are 0..head, and behind damage those whose commit
 * file is there.
 */
TDL_API int64_t tdl_table_next_version(tdl_table *table, int64_t version);

/* 0 where this process may commit to the table; else IO with EACCES, EROFS or what it is, or
 * MISUSE for a table opened with TDL_OPEN_READ_ONLY. Creates nothing. */
TDL_API int tdl_table_writable(tdl_table *table, tdl_error *error);

/* What is known of a version without looking at its data files. */
typedef struct tdl_version_info {
	int64_t version;
	int64_t timestamp;    /* of the commit, as the log says it */
	int64_t time;	      /* later than that of the version before: the timestamp, or 1 ms
				 after that one where a clock was set back */
	int64_t read_version; /* the version its writer had read, or -1 (null in the log) */
	const char
		*operation;   /* "APPEND", ...; valid UTF-8; borrowed, lives as long as the table */
	uint64_t files;	      /* live data files */
	uint64_t num_records; /* rows in them, as the log says it */
	uint64_t bytes;	      /* the sum of their sizes, as the log says it */
	const tdl_schema *schema; /* borrowed, lives as long as the table */
	const char *table_id;	  /* likewise */
} tdl_version_info;

/* Fills *info for a version (or TDL_LATEST, without looking for new commits). Errors: NOT_FOUND,
 * CORRUPT (a version behind damage). */
TDL_API int tdl_table_version_info(tdl_table *table, int64_t version, tdl_version_info *info,
				   tdl_error *error);

/*
 * The version that a text names: "7" and "v7", "latest", "@T" (the newest at time T, inclusive),
 * or a tag; "~K" behind any of them is K versions before it. T is 2026-11-29, 20261129,
 * 2026-11-29T18:40[:05[.123]] (or a blank for the T) with nothing (the process's local time), Z or
 * +01:00 behind it, 10 digits (seconds since 1970), 13 (milliseconds), or -90s, -30m, -2h, -7d, -2w
 * before now. Looks for new commits where that matters. Errors: MISUSE (no version is named like
 * this), NOT_FOUND (no such version or tag; none at that time, or a time that lies in the future),
 * CORRUPT (damage hides the answer; a number has none to hide), IO, NOMEM.
 */
TDL_API int tdl_table_find_version(tdl_table *table, const char *text, int64_t *version,
				   tdl_error *error);

/* The time that a text names, in any form that may stand behind an @ there. Errors: MISUSE. */
TDL_API int tdl_time_parse(const char *text, int64_t *time, tdl_error *error);

/*
 * What is known of a version as one JSON object and a newline: version, operation, timestamp,
 * readVersion, files, numRecords, size, schema, then the other members of its commitInfo as they
 * were written. Of a version it is the same for ever: all of it is what the log says, also `size`,
 * the sum of the sizes of its data files (data.jsonl is a byte longer for each that lacks its last
 * newline). Free *json with free(). Errors: NOT_FOUND, CORRUPT, IO, NOMEM.
 */
TDL_API int tdl_table_version_json(tdl_table *table, int64_t version, char **json, size_t *length,
				   tdl_error *error);

/*
 * These objects one after the other, from version 0 to the newest readable one, are history.jsonl:
 * a line a version, which only grows. Its length in bytes, as of the last look.
 */
TDL_API uint64_t tdl_table_history_size(tdl_table *table);

/*
 * Reads up to `count` bytes of it at `offset`; looks for new commits first where that goes behind
 * its end. *got is less than `count` only at its end or before damage, at which a read fails.
 * Finding the offset costs O(log n). Errors: CORRUPT (from here on the log cannot be read), IO,
 * NOMEM.
 */
TDL_API int tdl_table_history_read(tdl_table *table, void *buffer, size_t count, uint64_t offset,
				   size_t *got, tdl_error *error);

/* ---- Snapshots ---------------------------------------------------------------------------- */

/* One version. Immutable and counted. */
typedef struct tdl_snapshot tdl_snapshot;

/*
 * Opens a version; TDL_LATEST looks for new commits first. Costs no replay and opens no data
 * file. Errors: NOT_FOUND (no such version), CORRUPT (it, or for TDL_LATEST any version, cannot be
 * read: the latest is never an older one), IO, NOMEM. End it with tdl_snapshot_unref().
 */
TDL_API int tdl_snapshot_open(tdl_table *table, int64_t version, tdl_snapshot **snapshot,
			      tdl_error *error);
TDL_API tdl_snapshot *tdl_snapshot_ref(tdl_snapshot *snapshot);
TDL_API void tdl_snapshot_unref(tdl_snapshot *snapshot);

/* Borrowed; its pointers live as long as the snapshot. */
TDL_API const tdl_version_info *tdl_snapshot_info(const tdl_snapshot *snapshot);

/*
 * The length of data.jsonl. The first call for a version may look at the last byte of data files
 * that nobody has looked at yet. Errors: CORRUPT (a data file is missing, unsafe, or not as long
 * as the log says), IO, NOMEM.
 */
TDL_API int tdl_snapshot_size(tdl_snapshot *snapshot, uint64_t *size, tdl_error *error);

/*
 * Reads up to `count` bytes of data.jsonl at `offset`; *got is less than `count` only at its end.
 * Bytes of a data file whose commit gave checksums were compared with them before they are handed
 * out: 1 MiB by 1 MiB, or where the log has no more than a checksum of a larger file, that whole
 * file before its first byte; once, and again when the file was changed. Only damage to the
 * kernel's own copy of what was right before is not seen. Files of other writers have no
 * checksums: of them the length is checked, and that they are not changed meanwhile.
 * Errors: as tdl_snapshot_size(), CORRUPT too for bytes that are not what their checksum says;
 * never short, changed or foreign bytes instead.
 */
TDL_API int tdl_snapshot_read(tdl_snapshot *snapshot, void *buffer, size_t count, uint64_t offset,
			      size_t *got, tdl_error *error);

/* One data file of a version. */
typedef struct tdl_file {
	char path[4096];      /* relative to the table, NUL-terminated */
	uint64_t size;	      /* bytes */
	uint64_t num_records; /* rows, as the log says it */
	uint64_t offset;      /* of its first byte in data.jsonl */
	bool lacks_newline;   /* data.jsonl has one more byte, a newline, behind it */
	bool has_crc32c;      /* the log says what its bytes are: */
	uint32_t crc32c;      /* their CRC-32C */
} tdl_file;

/* Fills *file for the data file `index` (< info->files), in the version's order. Errors: MISUSE,
 * and as tdl_snapshot_size(). */
TDL_API int tdl_snapshot_file(tdl_snapshot *snapshot, uint64_t index, tdl_file *file,
			      tdl_error *error);

/* What the log alone says of data file `index`: the same without `offset` and `lacks_newline`, and
 * without a look at any file. Errors: MISUSE. */
TDL_API int tdl_snapshot_file_entry(tdl_snapshot *snapshot, uint64_t index, tdl_file *file,
				    tdl_error *error);

/* Looks whether every data file is there with its length; reads none. Errors: as
 * tdl_snapshot_size(). */
TDL_API int tdl_snapshot_present(tdl_snapshot *snapshot, tdl_error *error);

/* Reads up to `count` bytes of data file `index` alone at `offset`, checked as by
 * tdl_snapshot_read(); *got is less than `count` only at its end. A newline that it lacks is not
 * read. Errors: MISUSE, and as tdl_snapshot_read(). */
TDL_API int tdl_snapshot_read_file(tdl_snapshot *snapshot, uint64_t index, void *buffer,
				   size_t count, uint64_t offset, size_t *got, tdl_error *error);

/* Compares all of data file `index` with its checksums, but for what was compared before; unless
 * this is more than `limit` bytes: then nothing is done and *checked is false. A file without
 * checksums counts as checked. Errors: MISUSE, and as tdl_snapshot_read(). */
TDL_API int tdl_snapshot_check_file(tdl_snapshot *snapshot, uint64_t index, uint64_t limit,
				    bool *checked, tdl_error *error);

/* Opens data file `index` for reading, after all of it was compared with its checksums (see
 * tdl_snapshot_check_file()); the caller closes *fd. What is read from it is not checked once more:
 * for kernel passthrough, after which the caller looks whether it was changed. Errors: MISUSE, and
 * as tdl_snapshot_read(). */
TDL_API int tdl_snapshot_open_file(tdl_snapshot *snapshot, uint64_t index, int *fd,
				   tdl_error *error);

/* What became of a row between two versions. */
enum tdl_change {
	TDL_REMOVED,
	TDL_ADDED
};

typedef struct tdl_diff_options {
	size_t size; /* sizeof(tdl_diff_options) */
	/* How many bytes of memory may be used, about, besides the longest row; what needs more
	 * goes into files without a name in $TMPDIR or /tmp. 0: 256 MiB. */
	uint64_t memory;
	/* Called now and then with the bytes of data files compared, and all of them; NULL: not. */
	void (*progress)(void *context, uint64_t bytes, uint64_t total);
	/* Called with each row that was removed, in the order of the old version, then with each
	 * that was added, in the order of the new one; `row` has no newline and is borrowed for the
	 * call. False ends it, with STOPPED. NULL: rows are only counted, and where one of the
	 * versions has no data files of its own, by what the log says. */
	bool (*row)(void *context, enum tdl_change change, const char *row, size_t length);
	void *context;
} tdl_diff_options;

/*
 * Compares the rows of two versions of a table, each as often as it is there, wherever it stands;
 * of equal rows the later ones count as removed or added. Rows are compared by their bytes; lines
 * of blanks are not rows. Only data files that one of the two has alone are read. *removed and
 * *added get how many rows changed. Errors: as tdl_snapshot_read_file(), IO (temporary files too),
 * NOMEM, STOPPED; rows may have been told of by then.
 */
TDL_API int tdl_snapshot_diff(tdl_snapshot *old_version, tdl_snapshot *new_version,
			      const tdl_diff_options *options, uint64_t *removed, uint64_t *added,
			      tdl_error *error);

/* ---- Changes ------------------------------------------------------------------------------ */

/*
 * What a version changed against the one before it, as text: each row that it took away or added,
 * a line each, as it is stored, with
 *     "_change_type":"insert","_commit_version":7,"_commit_timestamp":1795978989788,
 * behind its '{'; the type is "delete" or "insert", the time tdl_version_info.time. Rows that were
 * taken away come first, in the order of the version before, then the added ones in that of this
 * one. A data file that both versions have changed nothing; of another one every row did.
 * Lines of a data file that do not begin with '{' stand there as they are. Immutable and counted.
 */
typedef struct tdl_changes tdl_changes;

/*
 * Opens the changes of a version, or of the newest (TDL_LATEST). After an append it costs as much
 * as the data files that were added, else as all data files of both versions, in memory; only the
 * last byte of files of other writers is read. Errors: as tdl_snapshot_open() and
 * tdl_snapshot_size(); UNSUPPORTED where the table has or had a column of one of the three names.
 * End it with tdl_changes_unref().
 */
TDL_API int tdl_changes_open(tdl_table *table, int64_t version, tdl_changes **changes,
			     tdl_error *error);
TDL_API tdl_changes *tdl_changes_ref(tdl_changes *changes);
TDL_API void tdl_changes_unref(tdl_changes *changes);
TDL_API int64_t tdl_changes_version(const tdl_changes *changes);
/* Its length in bytes. */
TDL_API uint64_t tdl_changes_size(const tdl_changes *changes);
/*
 * Reads up to `count` bytes at `offset`; *got is less than `count` only at the end. Data files are
 * compared with their checksums as by tdl_snapshot_read(). Errors: as that one; CORRUPT too for a
 * data file with more or fewer rows than the log says, at the latest where it ends.
 */
TDL_API int tdl_changes_read(tdl_changes *changes, void *buffer, size_t count, uint64_t offset,
			     size_t *got, tdl_error *error);

/* ---- Commits ------------------------------------------------------------------------------ */

#define TDL_COMMIT_MESSAGE_MAX 65536

/* How to commit. One with its size, read_version = TDL_LATEST and zeros is right for most. */
typedef struct tdl_commit_options {
	size_t size;	      /* sizeof(tdl_commit_options) */
	int64_t read_version; /* commit only where this is still the newest version; TDL_LATEST: any
			       */
	const char *source;   /* where the rows came from, for the log; NULL: unsaid */
	const char *user_name; /* who committed, for the log; NULL: unsaid */
	const char *message; /* why, for the log: UTF-8, at most TDL_COMMIT_MESSAGE_MAX bytes; NULL:
				unsaid. Else MISUSE or LIMIT */
	/* Called now and then with the bytes of input done; NULL: not. */
	void (*progress)(void *context, uint64_t bytes);
	/* Asked when everything is ready and again just before the commit becomes visible, which is
	 * never taken back: true ends it there, with STOPPED. NULL: not. */
	bool (*stop)(void *context);
	void *context;
} tdl_commit_options;

enum tdl_operation {
	TDL_APPEND,
	TDL_OVERWRITE
};

/*
 * Reads rows from `fd` to its end and commits them: appended to the newest version, or in place
 * of all its rows. `name` is what messages call the input. All rows or none; *version gets the
 * version made, which is durable. Appends go on past commits of others; the rest, and anything
 * with a read_version, fails with CONFLICT where another writer was first. Errors: SCHEMA, EMPTY,
 * LIMIT, CONFLICT, CORRUPT (the log), UNSUPPORTED, STOPPED, IO, NOMEM, MISUSE; on all these the
 * table is as it was. PUBLISHED: committed as error->version, but perhaps not durably, or its data
 * file was lost, as the message says; with error->in_doubt it may be committed, which the system
 * did not say. Not to be redone.
 */
TDL_API int tdl_table_write(tdl_table *table, enum tdl_operation operation, int fd,
			    const char *name, const tdl_commit_options *options, int64_t *version,
			    tdl_error *error);

/*
 * Commits a new version with the files, in the order, and the schema of `target`, whose number its
 * commitInfo has as restoredVersion. Errors: as
 * tdl_table_write(), NOT_FOUND, and CORRUPT where a data file of the target is not what it was.
 */
TDL_API int tdl_table_restore(tdl_table *table, int64_t target, const tdl_commit_options *options,
			      int64_t *version, tdl_error *error);

typedef struct tdl_vacuum_options {
	size_t size;	    /* sizeof(tdl_vacuum_options) */
	int64_t older_than; /* ms; a file changed more recently is kept; 0: any age, but none that
			     * is dated in the future, as what is being published is */
	bool dry_run;	    /* name the files, delete nothing */
} tdl_vacuum_options;

/*
 * Deletes data files that no version ever held, and what dead writers left in the log and in
 * _incoming/ (never a file dropped there under a name). Calls found(context, path relative to the
 * table) for each, data files first, then temporary commits, then staged files, each group
 * sorted. It replays the log, whatever the table read of an index, and with a damaged one it
 * deletes nothing: CORRUPT. Writers are kept out for moments only; IO with EAGAIN where they did
 * not let it through for half a minute. UNSUPPORTED where the file system has no flock and
 * older_than is 0.
 */
TDL_API int tdl_table_vacuum(tdl_table *table, const tdl_vacuum_options *options,
			     void (*found)(void *context, const char *path), void *context,
			     tdl_error *error);

/* ---- Tags --------------------------------------------------------------------------------- */

/*
 * A tag is a name for a version: a file _tags/NAME. It can be moved and removed, so it is not a
 * part of a version or of its history. Names are UTF-8 of at most 200 bytes that mean no version
 * already (digits, v and digits, latest head first newest next now all), without ~ ^ : @ / and
 * "..", without control characters, and with no "-" or "." at the beginning. Everything in a
 * tdl_tag is borrowed for the call that tells of it.
 */
typedef struct tdl_tag {
	const char *name;      /* UTF-8; made safe to print where no tag has such a name */
	int64_t version;       /* -1: it leads to none, and `why` says the reason */
	int64_t timestamp;     /* ms, when it was made; -1: unsaid */
	const char *user_name; /* who made it, as they say; NULL: unsaid */
	const char *message;   /* NULL: none */
	const char *why;       /* NULL where it leads to a version */
} tdl_tag;

/* A zeroed one is right for most. */
typedef struct tdl_tag_options {
	size_t size;	       /* sizeof(tdl_tag_options) */
	const char *user_name; /* who makes it; NULL: unsaid */
	const char *message;   /* UTF-8; NULL: none */
	bool replace;	       /* a tag of this name goes to the new version */
} tdl_tag_options;

/*
 * Names a version (not TDL_LATEST); `options` may be NULL. When it returns 0 the tag is durable and
 * seen by everybody, whole; two who make one name at once do not both succeed. Errors: MISUSE (the
 * name, the message is not UTF-8, a read-only table), EXISTS (there is a tag of this name, and
 * `replace` was not set), NOT_FOUND (no such version), CORRUPT (it cannot be read), LIMIT (more
 * than 64 KiB to store), IO (EAGAIN: a vacuum held the table all the time; after "tagged, but" it
 * is there, perhaps not durably), NOMEM.
 */
TDL_API int tdl_table_tag(tdl_table *table, const char *name, int64_t version,
			  const tdl_tag_options *options, tdl_error *error);
/* Removes a tag, whatever it leads to. Errors: as above; NOT_FOUND (no such tag). */
TDL_API int tdl_table_untag(tdl_table *table, const char *name, tdl_error *error);

/*
 * Calls found(context, tag) for each tag, sorted by the bytes of their names, until it returns
 * false; also for what is in the folder and is no tag. Errors: IO, NOMEM.
 */
TDL_API int tdl_table_tags(tdl_table *table, bool (*found)(void *context, const tdl_tag *tag),
			   void *context, tdl_error *error);

/* ---- Checking ----------------------------------------------------------------------------- */

enum tdl_severity {
	TDL_LEFTOVER, /* in nobody's way: what vacuum removes, drops that wait for their owner */
	TDL_SUSPECT, /* versions can be read, but hold what their writer hardly meant, or no more of
		      * them can be made */
	TDL_DAMAGE,  /* versions cannot be read, or their bytes are not what was committed */
};

/* One thing that is wrong. Everything in it is borrowed for the call that tells of it. */
typedef struct tdl_problem {
	enum tdl_severity severity;
	int64_t version;  /* the first one concerned, or -1 */
	const char *path; /* of the file, relative to the table, made safe to print */
	uint64_t line;	  /* in it, from 1; 0: the file as a whole */
	const char *text; /* one line of valid UTF-8 without control bytes */
} tdl_problem;

typedef struct tdl_check_options {
	size_t size;	 /* sizeof(tdl_check_options) */
	int64_t version; /* only what this version needs; -1: the whole table */
	/* Called now and then with the bytes of data files done, and all of them; NULL: not. */
	void (*progress)(void *context, uint64_t bytes, uint64_t total);
	void *context;
} tdl_check_options;

/*
 * Reads every commit and every data file, and calls found(context, problem) for each problem, in
 * no order. Changes nothing. A version that nothing of severity DAMAGE was told of can be read, and
 * is what was committed as far as the log can tell. Errors, where it could not look: NOT_FOUND (no
 * such version), IO, NOMEM.
 */
TDL_API int tdl_table_check(tdl_table *table, const tdl_check_options *options,
			    void (*found)(void *context, const tdl_problem *problem), void *context,
			    tdl_error *error);

/* ---- Staging ------------------------------------------------------------------------------ */

typedef struct tdl_staging tdl_staging;
typedef struct tdl_staged tdl_staged;

/*
 * Makes this process's folder under _incoming/ and locks it for as long as *staging lives (a
 * process that dies unlocks it). The table must outlive it. Errors: IO, NOMEM, MISUSE.
 */
TDL_API int tdl_staging_open(tdl_table *table, tdl_staging **staging, tdl_error *error);
/* Every tdl_staged of it must be freed before. Removes the folder where nothing is left in it. */
TDL_API void tdl_staging_free(tdl_staging *staging);
/*
 * Says that this process lives, to machines that have this one's id and do not see its locks; to be
 * called every few minutes. Errors: IO.
 */
TDL_API int tdl_staging_touch(tdl_staging *staging);

/* A named file that a dead process left. */
typedef struct tdl_left {
	const char *name;
	int64_t mtime; /* ms */
	/* As tdl_staged_own() was told; else the owner of the file on disk, and 0600. */
	unsigned uid, gid, mode;
	/* As tdl_staged_refused() was told, if the file has not changed since, or NULL. */
	const char *reason;
} tdl_left;

/*
 * Takes over the named files that dead processes of this machine left, into this folder. For each
 * calls recovered(context, file, left), which owns `file`; *left is the callee's no longer than the
 * call. Those that were published already are removed without a call. *busy (may be NULL) gets the
 * number of folders of this machine whose processes still live: try again later. Errors: IO, NOMEM.
 */
TDL_API int tdl_staging_recover(tdl_staging *staging,
				void (*recovered)(void *context, tdl_staged *file,
						  const tdl_left *left),
				void *context, unsigned *busy, tdl_error *error);

enum tdl_waiting_state {
	TDL_WAITING_UNKNOWN, /* only who knows that its process is gone can take it over, by hand */
	TDL_WAITING_MOUNT,   /* its process is dead: the next mount of this user lists it */
	TDL_WAITING_LIVES    /* its process lives, or has done so within some minutes */
};

/* A file staged under a name that some process of some machine left, or is writing. */
typedef struct tdl_waiting {
	const char *folder; /* of _incoming/ */
	const char *name;   /* printable; NULL: the folder is closed to this user */
	uint64_t size;
	int64_t mtime; /* ms */
	unsigned uid;  /* of the folder */
	/* Why it was not committed, printable, where that is known and the file is as it was; NULL.
	 */
	const char *reason;
	enum tdl_waiting_state state;
} tdl_waiting;

/*
 * Calls found(context, waiting) for every such file, of one folder or (NULL) of all. Changes
 * nothing. Errors: IO.
 */
TDL_API int tdl_table_waiting(tdl_table *table, const char *folder,
			      void (*found)(void *context, const tdl_waiting *waiting),
			      void *context, tdl_error *error);

/*
 * Takes a folder over by hand, whose process the caller knows to be gone: of another machine, or,
 * for root, of another user. Its named files go to a new folder of this machine, where the next
 * mount finds them and lists them as incomplete; the rest is treated as tdl_staging_recover() does.
 * *count gets how many files. Errors: NOT_FOUND (that is not a name of a folder), CONFLICT (it is
 * locked), MISUSE (it is another user's, or others may write to it), IO, NOMEM.
 */
TDL_API int tdl_table_recover(tdl_table *table, const char *folder, unsigned *count,
			      tdl_error *error);

/*
 * Makes an empty staged file. `name` is kept in its file name on disk, so that it is known after
 * a crash; it may be any file name. One of more than TDL_STAGED_NAME_MAX bytes is kept without its
 * middle, one of more than 255 is refused. Several may have the same name. Thread-safe for one
 * staging. Errors: IO, NOMEM, LIMIT (the name).
 */
#define TDL_STAGED_NAME_MAX 222
TDL_API int tdl_staged_create(tdl_staging *staging, const char *name, tdl_staged **file,
			      tdl_error *error);
/* Closes the descriptor; what is on disk stays. */
TDL_API void tdl_staged_free(tdl_staged *file);
/* Open for reading and writing; borrowed; -1 after tdl_staged_detach(). After a commit it must not
 * be written to. */
TDL_API int tdl_staged_fd(const tdl_staged *file);
/* Takes the descriptor away, so that a file that waits costs none, and returns it to be closed, or
 * -1. Nothing else may be under way with the file. tdl_staged_open(), and a commit, open it again.
 * Errors: IO. */
TDL_API int tdl_staged_detach(tdl_staged *file);
TDL_API int tdl_staged_open(tdl_staged *file, tdl_error *error);
/*
 * Keeps, for whoever takes the file over: whose it is, with which mode; and one line, why it was
 * not committed, which holds as long as no byte of the file changes. Nobody reads them on disk:
 * they change nothing of what may be done with the file there. Errors: IO.
 */
TDL_API int tdl_staged_own(tdl_staged *file, unsigned uid, unsigned gid, unsigned mode,
			   tdl_error *error);
TDL_API int tdl_staged_refused(tdl_staged *file, const char *reason, tdl_error *error);
/*
 * Tells that bytes were written to it at `offset`, so that rows written one after the other are
 * validated on the way and a commit need not read them again. Not needed for a file to be
 * committed; but once it was called, every write and every cut has to be told, each after it was
 * done and before a commit. Each cut begins a generation: written() gets the one that begin()
 * returned before the write began, and bytes of an earlier one, which may be gone, are not relied
 * on. No write may be under way while the file is cut. A file that could not be made durable (a
 * commit of it said IO) is committed no more until a cut to 0 is told: its bytes may be lost.
 * Thread-safe.
 */
TDL_API uint64_t tdl_staged_begin(tdl_staged *file);
TDL_API void tdl_staged_written(tdl_staged *file, uint64_t generation, const void *bytes,
				size_t count, uint64_t offset);
TDL_API void tdl_staged_cut(tdl_staged *file, uint64_t size);
/*
 * Does what it can of a commit that may come: validates the rows, rewrites them where they need
 * it, and makes them durable; it may take as long. Where that fails, or begin() or cut() is called
 * meanwhile or later, nothing has happened. Not while a write is under way, nor a commit or another
 * prepare of the file.
 */
TDL_API void tdl_staged_prepare(tdl_staged *file);
/* Changes the name kept on disk. Errors: IO, LIMIT. */
TDL_API int tdl_staged_rename(tdl_staged *file, const char *name, tdl_error *error);
/* Removes it from the disk; the descriptor stays open. Errors: IO. */
TDL_API int tdl_staged_remove(tdl_staged *file, tdl_error *error);

/*
 * Appends the rows in a staged file, as tdl_table_write() does, with the same errors. Where its
 * bytes are already what is stored, the file itself becomes the data file; else it is rewritten.
 * When it returns 0 the staged name is gone. After PUBLISHED its file stays on the disk, since it
 * may be the only copy, but is this process's no more: a later tdl_staging_recover() removes it
 * where the commit and its data file are there, puts it back as the data file where that is
 * missing, and hands it out where there is no such commit. Only where error->in_doubt is set it
 * keeps its name for this process too, to be told of; committing it again can repeat rows. On
 * other errors the file is as it was and may be committed again after a change. Several threads may
 * commit different files at once.
 */
TDL_API int tdl_staged_commit(tdl_staged *file, const tdl_commit_options *options, int64_t *version,
			      tdl_error *error);

#ifdef __cplusplus
}
#endif

#endif
