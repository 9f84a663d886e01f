/* SPDX-License-Identifier: MIT */
/*
 * Threads that read commits ahead, batch by batch, into a ring. Knows nothing of what commits do to
 * a history.
 */
#include "log/prefetch.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "sys.h"

/* Fewer commits than these are read before threads have started. */
#define WORTH 2000

#define BATCH	    256
#define RING	    8 /* batches */
#define THREADS_MAX 8

/* What a batch may hold: with few commits that are large, reading them is not what takes time. */
#define BATCH_BYTES ((size_t)1 << 20)

struct batch {
	bool ready;
	bool whole[BATCH]; /* the commit was read */
	tdl__commit commits[BATCH];
};

struct tdl__ahead {
	const tdl__log *log;
	int64_t from;
	pthread_t threads[THREADS_MAX];
	unsigned thread_count;

	pthread_mutex_t lock; /* of all below, and of `ready` of every batch */
	pthread_cond_t change;
	bool stop;
	int64_t claimed;  /* batches that threads have taken on */
	int64_t consumed; /* batches that are no longer needed */
	struct batch ring[RING];
};

static size_t bytes_of(const tdl__commit *commit)
{
	return commit->strings.n + commit->count * sizeof *commit->actions;
}

/* False where the log ends, or must be looked at with more care. */
static bool read_batch(const tdl__log *log, int64_t first, struct batch *batch)
{
	bool going = true;
	size_t bytes = 0;

	for (int i = 0; i < BATCH; i++) {
		tdl__commit *commit = &batch->commits[i];

		tdl__commit_clear(commit);
		batch->whole[i] = going && bytes < BATCH_BYTES &&
				  tdl__log_read(log, first + i, commit, NULL) == 0;
		going = batch->whole[i] || bytes >= BATCH_BYTES;
		bytes += batch->whole[i] ? bytes_of(commit) : 0;
	}
	return going;
}

static void *read_ahead(void *argument)
{
	struct tdl__ahead *ahead = argument;
	tdl__log log = *ahead->log;
	int own = tdl__sys_own_descriptors(log.dir);

	if (own >= 0)
		log.dir = own;
	pthread_mutex_lock(&ahead->lock);
	for (;;) {
		struct batch *batch;
		int64_t mine;
		bool going;

		while (!ahead->stop && ahead->claimed - ahead->consumed >= RING)
			pthread_cond_wait(&ahead->change, &ahead->lock);
		if (ahead->stop)
			break;
		mine = ahead->claimed++;
		batch = &ahead->ring[mine % RING];
		pthread_mutex_unlock(&ahead->lock);
		going = read_batch(&log, ahead->from + mine * BATCH, batch);
		pthread_mutex_lock(&ahead->lock);
		batch->ready = true;
		ahead->stop = ahead->stop || !going;
		pthread_cond_broadcast(&ahead->change);
	}
	pthread_mutex_unlock(&ahead->lock);
	if (own >= 0)
		close(own);
	return NULL;
}

tdl__ahead *tdl__ahead_start(const tdl__log *log, int64_t from)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned wanted = cores < THREADS_MAX ? (unsigned)cores : THREADS_MAX;
	tdl__ahead *ahead;
	sigset_t all, before;

	if (cores < 2 || !tdl__log_exists(log, from + WORTH))
		return NULL;
	ahead = calloc(1, sizeof *ahead);
	if (ahead == NULL)
		return NULL;
	ahead->log = log;
	ahead->from = from;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->change, NULL);
	/* Signals are the program's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (ahead->thread_count < wanted &&
	       pthread_create(&ahead->threads[ahead->thread_count], NULL, read_ahead, ahead) == 0)
		ahead->thread_count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ahead->thread_count > 0)
		return ahead;
	tdl__ahead_stop(ahead);
	return NULL;
}

bool tdl__ahead_take(tdl__ahead *ahead, int64_t version, tdl__commit *commit)
{
	int64_t number = (version - ahead->from) / BATCH, place = (version - ahead->from) % BATCH;
	struct batch *batch = &ahead->ring[number % RING];
	bool whole;

	/* Between the first and the last of a batch nobody else looks at it. */
	if (place == 0) {
		pthread_mutex_lock(&ahead->lock);
		if (number > 0) {
			ahead->ring[(number - 1) % RING].ready = false;
			ahead->consumed = number;
			pthread_cond_broadcast(&ahead->change);
		}
		while (!batch->ready && !(ahead->stop && number >= ahead->claimed))
			pthread_cond_wait(&ahead->change, &ahead->lock);
		/* Nobody will read it any more. */
		if (!batch->ready) {
			for (int i = 0; i < BATCH; i++)
				batch->whole[i] = false;
		}
		pthread_mutex_unlock(&ahead->lock);
	}
	whole = batch->whole[place];
	if (whole) {
		tdl__commit cleared = *commit;

		*commit = batch->commits[place];
		batch->commits[place] = cleared;
	}
	return whole;
}

void tdl__ahead_stop(tdl__ahead *ahead)
{
	if (ahead == NULL)
		return;
	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	pthread_cond_broadcast(&ahead->change);
	pthread_mutex_unlock(&ahead->lock);
	for (unsigned i = 0; i < ahead->thread_count; i++)
		pthread_join(ahead->threads[i], NULL);
	for (int i = 0; i < RING; i++) {
		for (int j = 0; j < BATCH; j++)
			tdl__commit_free(&ahead->ring[i].commits[j]);
	}
	pthread_cond_destroy(&ahead->change);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
	/* Each thread had a heap of its own, which would stay with the process. */
	malloc_trim(0);
}
