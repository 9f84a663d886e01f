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

struct job {
	struct job *next;
	void (*run)(void *);
	void *argument;
};

struct tdfs_pool {
	pthread_mutex_t lock;
	pthread_cond_t work;  /* something was queued, or it is the end */
	pthread_cond_t ended; /* a thread has ended */
	unsigned most;
	unsigned threads;
	unsigned idle;
	unsigned queued;
	bool closing;
	struct job *first, **last;
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

struct tdfs_pool *tdfs_pool_new(unsigned threads)
{
	struct tdfs_pool *pool = calloc(1, sizeof *pool);

	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	condition_init(&pool->work);
	condition_init(&pool->ended);
	pool->most = threads;
	pool->last = &pool->first;
	return pool;
}

static void *work(void *argument)
{
	struct tdfs_pool *pool = argument;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		struct job *job = pool->first;

		if (!job) {
			if (pool->closing)
				break;
			pool->idle++;
			pthread_cond_wait(&pool->work, &pool->lock);
			pool->idle--;
			continue;
		}
		pool->first = job->next;
		if (!pool->first)
			pool->last = &pool->first;
		pool->queued--;
		pthread_mutex_unlock(&pool->lock);
		job->run(job->argument);
		free(job);
		pthread_mutex_lock(&pool->lock);
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

bool tdfs_pool_submit(struct tdfs_pool *pool, void (*run)(void *), void *argument)
{
	struct job *job = malloc(sizeof *job);
	bool taken;

	if (!job)
		return false;
	*job = (struct job){ .run = run, .argument = argument };
	pthread_mutex_lock(&pool->lock);
	/* Those woken already still count as idle: each of them has something queued. */
	if (pool->idle <= pool->queued && pool->threads < pool->most)
		start_thread(pool);
	taken = pool->threads > 0;
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

struct call {
	pthread_mutex_t lock;
	pthread_cond_t ended; /* that is, done */
	bool begun, done;
	bool given_up; /* the caller waits no more: what is left is the thread's to clear away */
	pid_t thread;  /* that runs it, once it has begun */
	void (*run)(void *);
	void (*drop)(void *);
	void *argument;
};

static void call_free(struct call *call)
{
	pthread_cond_destroy(&call->ended);
	pthread_mutex_destroy(&call->lock);
	free(call);
}

static void call_run(void *argument)
{
	struct call *call = argument;
	bool given_up;

	pthread_mutex_lock(&call->lock);
	call->begun = true;
	call->thread = gettid();
	given_up = call->given_up;
	pthread_mutex_unlock(&call->lock);
	if (!given_up) {
		call->run(call->argument);
		pthread_mutex_lock(&call->lock);
		call->done = true;
		given_up = call->given_up;
		pthread_cond_signal(&call->ended);
		pthread_mutex_unlock(&call->lock);
	}
	if (given_up) {
		call->drop(call->argument);
		call_free(call);
	}
}

/* With the lock held, until it is done or for `limit` ms. */
static void call_wait(struct call *call, unsigned limit)
{
	struct timespec deadline;

	deadline_after(&deadline, limit);
	while (!call->done &&
	       pthread_cond_timedwait(&call->ended, &call->lock, &deadline) != ETIMEDOUT)
		;
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
	return end != NULL && strncmp(end, ") R", 3) == 0;
}

/*
 * With the lock held, for as long as tdfs_pool_call() says. That it has begun is seen only when it
 * has taken long: nearly all are done before, and waking up for it would be half of what they cost.
 * The argument is the caller's to look at until the call is given up.
 */
static void call_wait_steps(struct call *call, unsigned limit, const atomic_uint *steps)
{
	unsigned before, now = steps ? atomic_load(steps) : 0;
	int idle = 0, windows = 0;

	while (!call->done && windows < 10 && (call->begun || idle < 10)) {
		bool begun = call->begun;

		before = now;
		call_wait(call, limit);
		now = steps ? atomic_load(steps) : 0;
		/* A thread has all of its first window. */
		if (!begun)
			idle++;
		else if (now == before && !is_running(call->thread))
			break;
		else
			windows++;
	}
}

bool tdfs_pool_call(struct tdfs_pool *pool, void (*run)(void *), void (*drop)(void *),
		    void *argument, unsigned limit, const atomic_uint *steps)
{
	struct call *call = calloc(1, sizeof *call);
	bool done;

	if (!call) {
		drop(argument);
		return false;
	}
	pthread_mutex_init(&call->lock, NULL);
	condition_init(&call->ended);
	call->run = run;
	call->drop = drop;
	call->argument = argument;
	if (!tdfs_pool_submit(pool, call_run, call)) {
		call_free(call);
		drop(argument);
		return false;
	}
	pthread_mutex_lock(&call->lock);
	call_wait_steps(call, limit, steps);
	done = call->done;
	call->given_up = !done;
	pthread_mutex_unlock(&call->lock);
	if (done)
		call_free(call);
	return done;
}
