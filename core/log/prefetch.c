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

struct tdl__prefetch {
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

static void *prefetch_commits(void *argument)
{
	struct tdl__prefetch *prefetch = argument;
	tdl__log log = *prefetch->log;
	int own = tdl__sys_own_descriptors(log.dir);

	if (own >= 0)
		log.dir = own;
	pthread_mutex_lock(&prefetch->lock);
	for (;;) {
		struct batch *batch;
		int64_t mine;
		bool going;

		while (!prefetch->stop && prefetch->claimed - prefetch->consumed >= RING)
			pthread_cond_wait(&prefetch->change, &prefetch->lock);
		if (prefetch->stop)
			break;
		mine = prefetch->claimed++;
		batch = &prefetch->ring[mine % RING];
		pthread_mutex_unlock(&prefetch->lock);
		going = read_batch(&log, prefetch->from + mine * BATCH, batch);
		pthread_mutex_lock(&prefetch->lock);
		batch->ready = true;
		prefetch->stop = prefetch->stop || !going;
		pthread_cond_broadcast(&prefetch->change);
	}
	pthread_mutex_unlock(&prefetch->lock);
	if (own >= 0)
		close(own);
	return NULL;
}

tdl__prefetch *tdl__prefetch_start(const tdl__log *log, int64_t from)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned wanted = cores < THREADS_MAX ? (unsigned)cores : THREADS_MAX;
	tdl__prefetch *prefetch;
	sigset_t all, before;

	if (cores < 2 || !tdl__log_exists(log, from + WORTH))
		return NULL;
	prefetch = calloc(1, sizeof *prefetch);
	if (!prefetch)
		return NULL;
	prefetch->log = log;
	prefetch->from = from;
	pthread_mutex_init(&prefetch->lock, NULL);
	pthread_cond_init(&prefetch->change, NULL);
	/* Signals are the program's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (prefetch->thread_count < wanted &&
	       pthread_create(&prefetch->threads[prefetch->thread_count], NULL, prefetch_commits,
			      prefetch) == 0)
		prefetch->thread_count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (prefetch->thread_count > 0)
		return prefetch;
	tdl__prefetch_stop(prefetch);
	return NULL;
}

bool tdl__prefetch_take(tdl__prefetch *prefetch, int64_t version, tdl__commit *commit)
{
	int64_t number = (version - prefetch->from) / BATCH,
		place = (version - prefetch->from) % BATCH;
	struct batch *batch = &prefetch->ring[number % RING];
	bool whole;

	/* Between the first and the last of a batch nobody else looks at it. */
	if (place == 0) {
		pthread_mutex_lock(&prefetch->lock);
		if (number > 0) {
			prefetch->ring[(number - 1) % RING].ready = false;
			prefetch->consumed = number;
			pthread_cond_broadcast(&prefetch->change);
		}
		while (!batch->ready && !(prefetch->stop && number >= prefetch->claimed))
			pthread_cond_wait(&prefetch->change, &prefetch->lock);
		/* Nobody will read it any more. */
		if (!batch->ready) {
			for (int i = 0; i < BATCH; i++)
				batch->whole[i] = false;
		}
		pthread_mutex_unlock(&prefetch->lock);
	}
	whole = batch->whole[place];
	if (whole) {
		tdl__commit cleared = *commit;

		*commit = batch->commits[place];
		batch->commits[place] = cleared;
	}
	return whole;
}

void tdl__prefetch_stop(tdl__prefetch *prefetch)
{
	if (!prefetch)
		return;
	pthread_mutex_lock(&prefetch->lock);
	prefetch->stop = true;
	pthread_cond_broadcast(&prefetch->change);
	pthread_mutex_unlock(&prefetch->lock);
	for (unsigned i = 0; i < prefetch->thread_count; i++)
		pthread_join(prefetch->threads[i], NULL);
	for (int i = 0; i < RING; i++) {
		for (int j = 0; j < BATCH; j++)
			tdl__commit_free(&prefetch->ring[i].commits[j]);
	}
	pthread_cond_destroy(&prefetch->change);
	pthread_mutex_destroy(&prefetch->lock);
	free(prefetch);
	/* Each thread had a heap of its own, which would stay with the process. */
	malloc_trim(0);
}
