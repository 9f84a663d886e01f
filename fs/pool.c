/* SPDX-License-Identifier: MIT */
/*
 * Threads that work off a queue, and calls with a time limit. Knows nothing of what is run.
 */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LATE_MS 100 /* less than half of it is not late */

struct job {
	struct job *next;
	uid_t user;
	void (*run)(void *);
	void *argument;
	bool lost; /* its thread was given up, and counts no more */
};

static __thread struct job *at_work; /* of this thread */

/* How many threads work for a user. */
struct share {
	struct share *next;
	uid_t user;
	unsigned running;
};

struct tdfs_pool {
	struct tdfs_pool_options options; /* constant; the rest under the lock */
	pthread_mutex_t lock;
	pthread_cond_t work;  /* something can be begun, or it is the end */
	pthread_cond_t ended; /* a thread has ended */
	unsigned threads;     /* those lost too */
	unsigned lost;
	unsigned idle;
	unsigned queued;
	bool closing;
	struct job *first, **last;
	struct share *shares; /* of users that have any */
};

static void deadline_after(struct timespec *deadline, unsigned ms)
{
	clock_gettime(CLOCK_MONOTONIC, deadline);
	deadline->tv_sec += ms / 1000;
	deadline->tv_nsec += (long)(ms % 1000) * 1000000;
	if (deadline->tv_nsec >= 1000000000) {
		deadline->tv_sec++;
		deadline->tv_nsec -= 1000000000;
	}
}

static void condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

struct tdfs_pool *tdfs_pool_new(const struct tdfs_pool_options *options)
{
	struct tdfs_pool *pool = calloc(1, sizeof *pool);

	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	condition_init(&pool->work);
	condition_init(&pool->ended);
	pool->options = *options;
	pool->last = &pool->first;
	return pool;
}

/* ---- Shares ------------------------------------------------------------------------------- */

static struct share **share_of(struct tdfs_pool *pool, uid_t user)
{
	struct share **at = &pool->shares;

	while (*at && (*at)->user != user)
		at = &(*at)->next;
	return at;
}

/* False: the user has as many threads as he gets. Without memory nothing is counted. */
static bool share_get(struct tdfs_pool *pool, uid_t user)
{
	struct share **at;

	if (pool->options.share == 0)
		return true;
	at = share_of(pool, user);
	if (!*at) {
		*at = calloc(1, sizeof **at);
		if (!*at)
			return true;
		(*at)->user = user;
	}
	if ((*at)->running >= pool->options.share)
		return false;
	(*at)->running++;
	return true;
}

static void share_put(struct tdfs_pool *pool, uid_t user)
{
	struct share **at = share_of(pool, user), *share = *at;

	if (!share || --share->running > 0)
		return;
	*at = share->next;
	free(share);
}

/* ---- Jobs --------------------------------------------------------------------------------- */

/* The first whose user has not got his share already, or NULL. */
static struct job *take_job(struct tdfs_pool *pool)
{
	for (struct job **at = &pool->first, *job; (job = *at); at = &job->next) {
		if (!share_get(pool, job->user))
			continue;
		*at = job->next;
		if (!job->next)
			pool->last = at;
		pool->queued--;
		return job;
	}
	return NULL;
}

/* More threads than there may be: some were given up, and have come back. */
static bool is_spare(const struct tdfs_pool *pool)
{
	return pool->threads - pool->lost > pool->options.threads;
}

static void *work(void *argument)
{
	struct tdfs_pool *pool = argument;

	if (pool->options.begin)
		pool->options.begin();
	pthread_mutex_lock(&pool->lock);
	while (!is_spare(pool)) {
		struct job *job = take_job(pool);

		if (!job) {
			if (pool->closing && pool->queued == 0)
				break;
			pool->idle++;
			pthread_cond_wait(&pool->work, &pool->lock);
			pool->idle--;
			continue;
		}
		pthread_mutex_unlock(&pool->lock);
		at_work = job;
		job->run(job->argument);
		pthread_mutex_lock(&pool->lock);
		if (!job->lost)
			share_put(pool, job->user);
		free(job);
		/* Whoever waits may have waited for this user's share. */
		if (pool->closing || (pool->options.share > 0 && pool->queued > 0))
			pthread_cond_broadcast(&pool->work);
	}
	pool->threads--;
	pthread_cond_broadcast(&pool->ended);
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* With the lock held. */
static void start_thread(struct tdfs_pool *pool)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, work, pool) == 0) {
		pthread_detach(thread);
		pool->threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* With the lock held: one more thread, where there may be. */
static void start_if_room(struct tdfs_pool *pool)
{
	unsigned lost = pool->lost < pool->options.lost ? pool->lost : pool->options.lost;

	if (pool->threads < pool->options.threads + lost)
		start_thread(pool);
}

bool tdfs_pool_submit(struct tdfs_pool *pool, uid_t user, void (*run)(void *), void *argument)
{
	struct job *job = malloc(sizeof *job);
	bool taken;

	if (!job)
		return false;
	*job = (struct job){ .user = user, .run = run, .argument = argument };
	pthread_mutex_lock(&pool->lock);
	/* Those woken already still count as idle: each of them has something queued. */
	if (pool->idle <= pool->queued)
		start_if_room(pool);
	taken = pool->threads > pool->lost;
	if (taken) {
		*pool->last = job;
		pool->last = &job->next;
		pool->queued++;
		pthread_cond_signal(&pool->work);
	}
	pthread_mutex_unlock(&pool->lock);
	if (!taken)
		free(job);
	return taken;
}

bool tdfs_pool_free(struct tdfs_pool *pool, unsigned limit)
{
	struct timespec deadline;
	bool all;

	if (!pool)
		return true;
	pthread_mutex_lock(&pool->lock);
	pool->closing = true;
	pthread_cond_broadcast(&pool->work);
	deadline_after(&deadline, limit);
	while (pool->threads > 0 &&
	       pthread_cond_timedwait(&pool->ended, &pool->lock, &deadline) != ETIMEDOUT)
		;
	all = pool->threads == 0;
	pthread_mutex_unlock(&pool->lock);
	if (!all)
		return false; /* they still use it */
	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->ended);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
	return true;
}

/* ---- Calls with a limit ------------------------------------------------------------------- */

struct pending {
	struct tdfs_call call;
	struct tdfs_pool *pool;
	pthread_mutex_t lock;
	pthread_cond_t ended; /* that is, done */
	bool begun, done;
	bool given_up; /* the caller waits no more: what is left is the thread's to clear away */
	pid_t thread;  /* that runs it, once it has begun */
	struct job *job;
};

static void pending_free(struct pending *pending)
{
	pthread_cond_destroy(&pending->ended);
	pthread_mutex_destroy(&pending->lock);
	free(pending);
}

static void pending_run(void *argument)
{
	struct pending *pending = argument;
	bool given_up;

	pthread_mutex_lock(&pending->lock);
	pending->begun = true;
	pending->thread = gettid();
	pending->job = at_work;
	pthread_mutex_unlock(&pending->lock);
	pending->call.run(pending->call.argument);
	pthread_mutex_lock(&pending->lock);
	pending->done = true;
	given_up = pending->given_up;
	pthread_cond_signal(&pending->ended);
	pthread_mutex_unlock(&pending->lock);
	if (given_up) {
		pthread_mutex_lock(&pending->pool->lock);
		pending->pool->lost--;
		pthread_mutex_unlock(&pending->pool->lock);
		pending->call.discard(pending->call.argument);
		pending_free(pending);
	}
}

/* With the lock held, until it is done or for `limit` ms. False: it took far longer to wake up, so
 * that whoever else should have gone on meanwhile may not have had a processor either. */
static bool pending_wait(struct pending *pending, unsigned limit)
{
	struct timespec deadline, now;

	deadline_after(&deadline, limit);
	while (!pending->done &&
	       pthread_cond_timedwait(&pending->ended, &pending->lock, &deadline) != ETIMEDOUT)
		;
	deadline_after(&now, 0);
	return (now.tv_sec - deadline.tv_sec) * 1000 + (now.tv_nsec - deadline.tv_nsec) / 1000000 <=
	       (long)(limit < LATE_MS ? LATE_MS : limit) / 2;
}

/* Whether a thread of ours would go on if it only had a processor. */
static bool is_running(pid_t thread)
{
	char path[64], text[256], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')');
	return end && strncmp(end, ") R", 3) == 0;
}

/* Where all threads there may be are lost, those that wait their turn wait for nothing. */
static bool can_begin(struct tdfs_pool *pool)
{
	bool can;

	pthread_mutex_lock(&pool->lock);
	can = pool->threads > pool->lost;
	pthread_mutex_unlock(&pool->lock);
	return can;
}

/* With the lock held. False: it stands still. That it has begun is seen only when it has taken
 * long: nearly all are done before, and waking up for it would be half of what they cost. */
static bool pending_wait_steps(struct pending *pending)
{
	const atomic_uint *steps = pending->call.steps;
	unsigned window = pending->call.limit / 10 ? pending->call.limit / 10 : 1;
	unsigned now = steps ? atomic_load(steps) : 0;

	for (unsigned still = 0; !pending->done && still < 10;) {
		bool begun = pending->begun;
		unsigned before = now;
		bool on_time = pending_wait(pending, window);

		now = steps ? atomic_load(steps) : 0;
		if (!begun) {
			if (!pending->begun && !can_begin(pending->pool))
				return false;
		} else if (now != before || is_running(pending->thread)) {
			still = 0;
		} else if (on_time) {
			still++;
		}
	}
	return pending->done;
}

/* What has not begun is taken back. */
static bool withdraw(struct tdfs_pool *pool, const void *argument)
{
	bool taken = false;

	pthread_mutex_lock(&pool->lock);
	for (struct job **at = &pool->first, *job; (job = *at); at = &job->next) {
		if (job->argument != argument)
			continue;
		*at = job->next;
		if (!job->next)
			pool->last = at;
		pool->queued--;
		free(job);
		taken = true;
		break;
	}
	pthread_mutex_unlock(&pool->lock);
	return taken;
}

/* A thread is given up, with the lock of its call held: another takes its place. */
static void lose_thread(struct tdfs_pool *pool, struct job *job)
{
	pthread_mutex_lock(&pool->lock);
	pool->lost++;
	job->lost = true;
	share_put(pool, job->user);
	if (pool->queued > 0)
		start_if_room(pool);
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
}

bool tdfs_pool_call(struct tdfs_pool *pool, const struct tdfs_call *call)
{
	struct pending *pending = calloc(1, sizeof *pending);
	bool done;

	if (!pending) {
		call->discard(call->argument);
		return false;
	}
	pthread_mutex_init(&pending->lock, NULL);
	condition_init(&pending->ended);
	pending->call = *call;
	pending->pool = pool;
	if (!tdfs_pool_submit(pool, call->user, pending_run, pending)) {
		pending_free(pending);
		call->discard(call->argument);
		return false;
	}
	pthread_mutex_lock(&pending->lock);
	done = pending_wait_steps(pending);
	if (!done && !pending->begun && withdraw(pool, pending)) {
		pthread_mutex_unlock(&pending->lock);
		pending_free(pending);
		call->discard(call->argument);
		return false;
	}
	/* Taken by a thread just now: to be waited for like any other. */
	while (!done && !pending->begun)
		done = pending_wait_steps(pending);
	if (!done) {
		pending->given_up = true;
		if (call->lost)
			call->lost(call->argument);
		lose_thread(pool, pending->job);
	}
	pthread_mutex_unlock(&pending->lock);
	if (done)
		pending_free(pending);
	return done;
}
