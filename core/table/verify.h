/* SPDX-License-Identifier: MIT */
#ifndef TDL_VERIFY_H
#define TDL_VERIFY_H

#include <pthread.h>
#include <sys/stat.h>

#include "log/action.h"

/*
 * Reads of one open file whose commit says what its bytes sum up to. A block is read whole and
 * compared before a byte of it is handed out, and what is handed out are the very bytes that were
 * compared. A block that was right is not compared again for as long as nothing says that the file
 * changed; a file without sums of blocks is one block. Thread-safe. No lock is held while reading;
 * but a thread that needs a block which another one is comparing waits for that.
 */

/* What a file was when it was looked at. */
typedef struct tdl__identity {
	dev_t device;
	ino_t inode;
	off_t size;		  /* in bytes */
	struct timespec modified; /* mtime */
	struct timespec changed;  /* ctime */
} tdl__identity;

/* So many blocks of a file are compared by one thread each; threads beyond that wait for none. */
#define TDL__BUSY_MAX 16

/* Memory for reading what is not wanted, kept for the next one: the system's would have to be made
 * anew each time. Shared by the files of a table. */
typedef struct tdl__spares {
	pthread_mutex_t lock; /* guards the rest */
	void *buffers[8];     /* owned, each of one slice */
	unsigned count;	      /* of buffers */
} tdl__spares;

void tdl__spares_init(tdl__spares *spares);
void tdl__spares_free(tdl__spares *spares);

typedef struct tdl__verify {
	tdl__spares *spares;	      /* borrowed */
	uint64_t size;		      /* as the log says */
	tdl__sums sums;		      /* has_crc; borrowed */
	pthread_mutex_t lock;	      /* guards all below */
	pthread_cond_t idle;	      /* a block is not being compared any more */
	tdl__identity was;	      /* what the file was when blocks were compared */
	uint64_t *checked;	      /* a bit for each block that was right */
	uint64_t left;		      /* blocks without that bit */
	uint64_t busy[TDL__BUSY_MAX]; /* blocks that are being compared */
	unsigned busy_count;	      /* in `busy` */
} tdl__verify;

/* Besides 0 and errnos. */
enum {
	TDL__VERIFY_CHANGED = -1, /* the file is not as long as it was */
	TDL__VERIFY_WRONG = -2	  /* a block is not what its sum says */
};

tdl__identity tdl__identity_of(const struct stat *st);
bool tdl__identity_same(const tdl__identity *a, const tdl__identity *b);

/* `all`: every block is known to be right, while the file is what `st` says. False: no memory. */
bool tdl__verify_init(tdl__verify *verify, tdl__spares *spares, uint64_t size,
		      const tdl__sums *sums, const struct stat *st, bool all);
void tdl__verify_clear(tdl__verify *verify);

/* Reads n bytes at an offset, all within the file. Returns 0, an errno or one of the above; with
 * WRONG *wrong is the first byte of the block. */
int tdl__verify_read(tdl__verify *verify, int fd, void *buffer, size_t n, uint64_t offset,
		     uint64_t *wrong);

/* Compares what was not compared yet, unless that is more than `limit` bytes. *done: all is right,
 * and was so while the file was *was. Returns as above. */
int tdl__verify_all(tdl__verify *verify, int fd, uint64_t limit, bool *done, tdl__identity *was,
		    uint64_t *wrong);

/* Whether all was compared and is remembered as right, for a file that is *what. */
bool tdl__verify_is_done(tdl__verify *verify, tdl__identity *what);

/* The length of the block that begins at an offset. */
uint64_t tdl__verify_length(const tdl__verify *verify, uint64_t offset);

#endif
