/* SPDX-License-Identifier: MIT */
#ifndef TDL_HISTORY_H
#define TDL_HISTORY_H

#include <pthread.h>
#include <sys/stat.h>

#include "log/filelist.h"
#include "log/log.h"
#include "log/times.h"

/*
 * The replayed log: what every version is. Grows as commits are found, never changes what it has
 * said. Many threads read it (the read lock), one at a time replays (the refresh mutex) and only
 * takes the write lock to add a commit that it has read already.
 */

/* 48 bytes a version. */
typedef struct tdl__version {
	int64_t timestamp;    /* as its commit says, ms since 1970 */
	int64_t read_version; /* as its commit says; -1: null */
	uint64_t record_end;  /* offset of the end of its record in history.jsonl */
	uint32_t list;	      /* which list of `files` it is a prefix of */
	uint32_t files;	      /* length of that prefix */
	uint32_t operation;   /* index into operations */
	uint32_t meta;	      /* index into metas */
	uint32_t crc;	      /* CRC-32C of its commit file, as it was replayed */
	uint32_t stamp;	      /* tdl__log_stamp() of that file when it last had this crc */
} tdl__version;

/* A table's metadata from some version on. */
typedef struct tdl__meta {
	tdl_schema *schema; /* NULL: none yet */
	char *json;	    /* the schema as a record has it, `length` bytes; NULL: none */
	size_t length;
	char *table_id;
} tdl__meta;

typedef struct tdl__history tdl__history;

struct tdl__history {
	tdl__log log;
	int table_dir;	  /* borrowed; checked for still holding `log`'s folder. -1: not checked */
	bool from_index;  /* it began with what an index said, and was not replayed from the log */
	size_t restamped; /* versions whose stamps in that index were old ones */
	pthread_mutex_t listing;    /* held by the one that lists the log; before `refreshing` */
	pthread_mutex_t refreshing; /* held by the one that follows the log; guards the next four */
	bool listed;		    /* the log was listed once and had nothing behind a gap */
	bool own;		    /* nobody but us has changed _delta_log since our last commit */
	struct timespec changed;    /* own: the mtime of _delta_log after that */
	unsigned turn;		    /* which probe far beyond the head comes next */
	pthread_rwlock_t lock;	    /* guards all below */
	tdl__version *versions;	    /* by number; the head is count - 1 */
	size_t count, cap;
	char **operations; /* each that was ever named, once */
	size_t operation_count, operation_cap;
	tdl__meta **metas; /* each metaData that was ever current; never freed before the history */
	size_t meta_count, meta_cap;
	tdl__times times;    /* which version was the newest when */
	tdl__filelist files; /* the data files of all versions */
	uint64_t copies_max; /* no list is copied that would make `files` longer than this */

	/* Positions in the newest list by key: open addressing, position + 1, 0 free. */
	uint32_t *slots;
	size_t slot_count;

	/* Where the log cannot be followed any further. */
	bool damaged;	  /* it cannot, for the reason in `damage` */
	bool unreadable;  /* damaged: an I/O error, which may pass */
	bool replaced;	  /* damaged: the log's folder has lost its name, and may get it back */
	bool rewritten;	  /* damaged for good: versions that were shown are gone from the log */
	size_t shown;	  /* rewritten: so many versions were shown before */
	tdl_error damage; /* what readers of later versions are told */
	struct stat damage_stat; /* of the commit file, to notice a repair; st_ino 0: no file */
	int64_t *past_gap;	 /* versions from there on whose files exist, sorted */
	size_t past_gap_count;
};

/* A commit of a few bytes that removes one file of a long list makes a list of its own: somebody
 * could let a small log take up all memory. This many files are some 2.5 GB. */
#define TDL__COPIES_MAX (UINT64_C(1) << 26)

int tdl__history_init(tdl__history *history, tdl__log log, tdl_error *error);
void tdl__history_free(tdl__history *history);
/* Forgets all versions, so that they are read again. Not once another thread knows of it. */
void tdl__history_clear(tdl__history *history);

/*
 * Reads commits that are new. Errors: CORRUPT where the log cannot be followed to its end (what
 * came before is there), IO, NOMEM.
 *
 * A commit that cannot be read is damage, and is tried again each time. Where the newest commit is
 * not what it was when it was replayed, or is not what the next one was built on, the log was set
 * back or rewritten: from the first version on that is not what it was nothing is answered any
 * more, by this history. A log whose folder has lost its name, to another one or to none, is not
 * the table's any more: what is known of it stays, and there is no newest version.
 */
int tdl__history_refresh(tdl__history *history, tdl_error *error);

/* The same, and lists the log: nothing of it is behind a gap when this returns 0. */
int tdl__history_refresh_listed(tdl__history *history, tdl_error *error);

/* Before a commit, after a refresh: looks for versions behind a gap. Lists the log where that was
 * never done; then a cheap probe, cheaper still where nobody has changed the log's folder since our
 * own last commit. Errors: CORRUPT, IO, NOMEM. */
int tdl__history_find_gap(tdl__history *history, tdl_error *error);
/* Lists the log for that where it was never done, or waits for another thread that does it. */
int tdl__history_list_once(tdl__history *history, tdl_error *error);
/* The cheap probe alone, for readers. */
int tdl__history_probe_gap(tdl__history *history, tdl_error *error);
/* After a commit of ours: what the log's folder looks like now is our doing. What another did
 * there at the same moment is found by later probes, which take turns. */
void tdl__history_committed(tdl__history *history);

/* Says that version `version` is not what it was when it was replayed. Returns CORRUPT. */
int tdl__history_rewritten(tdl__history *history, int64_t version, tdl_error *error);

/* What there is not, in the words for it. Returns NOT_FOUND. */
int tdl__no_such_version(tdl_error *error, int64_t version, const char *table, int64_t head);

/* Copies what is known of a version. Errors: NOT_FOUND, CORRUPT (behind damage). */
int tdl__history_get(tdl__history *history, int64_t version, tdl__version *out,
		     tdl_version_info *info, tdl_error *error);

/* The time of a version that is known. With the read lock held. */
static inline int64_t tdl__history_time(const tdl__history *history, size_t version)
{
	return tdl__times_get(&history->times, version, history->versions[version].timestamp);
}

/*
 * The newest version at an instant (ms since 1970, inclusive). Errors: NOT_FOUND (before version 0,
 * or later than now), CORRUPT (what lies behind damage might be newer).
 */
int tdl__history_at(tdl__history *history, int64_t instant, int64_t now, int64_t *version,
		    tdl_error *error);

/* Whether any commit ever added a file with this key. Takes the read lock; cost: all files. */
bool tdl__history_ever_added(tdl__history *history, const tdl__file_key *key);

#endif
