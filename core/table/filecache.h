/* SPDX-License-Identifier: MIT */
#ifndef TDL_FILECACHE_H
#define TDL_FILECACHE_H

#include <pthread.h>
#include <sys/stat.h>

#include "log/filelist.h"
#include "table/verify.h"
#include "tinydelta.h"
#include "util/hashmap.h"

/*
 * Open data files of a table, shared by all its snapshots: a bounded number stays open, the least
 * recently used is closed first. An entry remembers what its file was when it was opened, so that
 * a file changed in place is noticed, and which of its blocks were compared with their sums; of
 * some thousand files that were found right as a whole this is kept when they are closed.
 * Thread-safe.
 */
typedef struct tdl__open_file tdl__open_file;

/* A file that was compared as a whole, and with what. */
typedef struct tdl__right {
	tdl__identity what;
	uint32_t crc;
} tdl__right;

typedef struct tdl__filecache {
	int dir;	   /* the table's, borrowed */
	const char *table; /* its path, for messages */
	pthread_mutex_t lock;
	tdl__hashmap open;		 /* files by key */
	size_t max;			 /* of them, but for those in use */
	tdl__open_file *newest, *oldest; /* of those that nobody holds */
	tdl__right *right;		 /* under the lock: by inode, the last one stays; or NULL */
	tdl__spares spares;
} tdl__filecache;

int tdl__filecache_init(tdl__filecache *cache, int dir, const char *table, tdl_error *error);
void tdl__filecache_free(tdl__filecache *cache);

/*
 * Opens the data file `key`, which must be a regular file beneath the table of exactly `size`
 * bytes. What is in `sums` has to live as long as the cache. Errors: CORRUPT, IO, NOMEM. Give it
 * back with tdl__filecache_put().
 */
int tdl__filecache_get(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
		       const tdl__sums *sums, tdl__open_file **file, tdl_error *error);
void tdl__filecache_put(tdl__filecache *cache, tdl__open_file *file);

/* The next one who asks opens it anew. */
void tdl__open_file_stale(tdl__filecache *cache, tdl__open_file *file);

/* Opens it as a descriptor of the caller's own, beside the cache; nothing in it is compared. */
int tdl__filecache_open(tdl__filecache *cache, const tdl__file_key *key, uint64_t size, int *fd,
			tdl_error *error);

/* Whether it is there, with its size; opens it only where the name has folders. */
int tdl__filecache_stat(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
			tdl_error *error);

/*
 * Reads exactly n bytes at an offset within the file, of blocks that are right. Errors: CORRUPT (it
 * is not what it was when it was opened, or not what its sums say), IO, NOMEM.
 */
int tdl__open_file_read(tdl__filecache *cache, tdl__open_file *file, void *buffer, size_t n,
			uint64_t offset, tdl_error *error);

/*
 * Compares all of the file with its sums, unless more than `limit` bytes of it are left to compare.
 * *checked: it was all right while it was *was, or has no sums. Errors: as tdl__open_file_read().
 */
int tdl__open_file_check(tdl__filecache *cache, tdl__open_file *file, uint64_t limit, bool *checked,
			 tdl__identity *was, tdl_error *error);

#endif
