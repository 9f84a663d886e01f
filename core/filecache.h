/* SPDX-License-Identifier: MIT */
#ifndef TDL_FILECACHE_H
#define TDL_FILECACHE_H

#include <pthread.h>
#include <sys/stat.h>

#include "filelist.h"
#include "tinydelta.h"

/*
 * Open data files of a table, shared by all its snapshots: a bounded number stays open, the least
 * recently used is closed first. An entry remembers what its file was when it was opened, so that
 * a file changed in place is noticed. Thread-safe.
 */
typedef struct tdl__open_file tdl__open_file;

typedef struct tdl__filecache {
	int dir;	   /* the table's, borrowed */
	const char *table; /* its path, for messages */
	pthread_mutex_t lock;
	tdl__open_file **slots; /* by key, chained */
	size_t slot_count;
	size_t count, max;
	tdl__open_file *newest, *oldest; /* of those that nobody holds */
} tdl__filecache;

int tdl__filecache_init(tdl__filecache *cache, int dir, const char *table, tdl_error *error);
void tdl__filecache_free(tdl__filecache *cache);

/*
 * Opens the data file `key`, which must be a regular file beneath the table of exactly `size`
 * bytes. Errors: CORRUPT, IO, NOMEM. Give it back with tdl__filecache_put().
 */
int tdl__filecache_get(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
		       tdl__open_file **file, tdl_error *error);
void tdl__filecache_put(tdl__filecache *cache, tdl__open_file *file);

/* The same as a descriptor of the caller's own, beside the cache. */
int tdl__filecache_open(tdl__filecache *cache, const tdl__file_key *key, uint64_t size, int *fd,
			tdl_error *error);

/*
 * Reads exactly n bytes at an offset within the file. Errors: CORRUPT (it is not what it was when
 * it was opened), IO.
 */
int tdl__open_file_read(tdl__filecache *cache, tdl__open_file *file, void *buffer, size_t n,
			uint64_t offset, tdl_error *error);

#endif
