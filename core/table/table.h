/* SPDX-License-Identifier: MIT */
#ifndef TDL_TABLE_H
#define TDL_TABLE_H

#include <stdatomic.h>

#include "log/history.h"
#include "table/filecache.h"

#define TDL__INCOMING_DIR "_incoming"

/* An open table. Constant after it was opened, but for what has a lock of its own. */
struct tdl_table {
	atomic_uint refs;	    /* the owner's, and one a snapshot */
	unsigned flags;		    /* TDL_OPEN_... */
	char *path;		    /* as it was opened; owned */
	int dir;		    /* the table's directory */
	int log_dir;		    /* _delta_log */
	char *id;		    /* as version 0 has it, "" where that cannot be read; owned */
	tdl__history history;	    /* has locks of its own */
	tdl__filecache files;	    /* has a lock of its own */
	size_t indexed;		    /* versions that the index on disk covers */
	size_t covered;		    /* versions that came from it when the table was opened */
	int64_t replay_ms;	    /* how long the others took to replay then */
	bool replayed;		    /* made by tdl__table_replayed(): reads and writes no index */
	pthread_mutex_t verifying;  /* guards the next two */
	size_t verified;	    /* commits that this pass of tdl_table_verify_log() saw */
	bool verifies_all;	    /* what the index covered was compared once already */
	pthread_mutex_t publishing; /* one commit at a time takes the next version number */
};

void tdl__table_ref(tdl_table *table);

/*
 * Gives the table with a history that was replayed from its log and from nothing else: what
 * deletes, or says what is wrong, must not believe an index. *replayed is the table itself where it
 * loaded none, else another one on the same directories; the log is listed, so that a gap is seen.
 * Damage after version 0 is not a failure: tdl_table_damage() tells. What is committed later has to
 * be looked for by tdl__history_refresh_listed(). Give it back with tdl_table_free(). Errors: as
 * tdl_table_open().
 */
int tdl__table_replayed(tdl_table *table, tdl_table **replayed, tdl_error *error);

/* Reads the index into a history that is empty, from the log or the user's cache. */
void tdl__table_load_index(tdl_table *table);
/* Writes it where that is worth it: many commits are not in it. `closing`: the table is about to
 * be forgotten. */
void tdl__table_save_index(tdl_table *table, bool closing);
/* How many commits that is, unless fewer took long; tests make it smaller. */
extern size_t tdl__index_worth;

/* Mode of data files and commits: readable for who can read the table, and writable for nobody,
 * since what is published never changes. */
mode_t tdl__table_file_mode(const struct stat *table);

/* Sets a file's mtime 10 minutes ahead, before it gets a name of the table's: Python's vacuum takes
 * no lock, and deletes files that no commit names and that are older than now. */
void tdl__table_set_future_mtime(int fd);

/* Gives a new file or folder a mode, and the table's owner and group as far as this process may.
 * Errors: IO. */
int tdl__table_set_owner(tdl_table *table, int fd, mode_t mode, tdl_error *error);

#endif
