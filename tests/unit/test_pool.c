/* SPDX-License-Identifier: MIT */
/* Threads that work off a queue, and calls that are given up. */
#include <criterion/criterion.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "pool.h"

static atomic_int runs, drops;
static sem_t gate, passed;

static void count(void *argument)
{
	atomic_fetch_add(&runs, 1);
}

static void wait_at_the_gate(void *argument)
{
	sem_wait(&gate);
	atomic_fetch_add(&runs, 1);
}

static void drop(void *argument)
{
	atomic_fetch_add(&drops, 1);
	sem_post(&passed);
}

static void setup(void)
{
	atomic_store(&runs, 0);
	atomic_store(&drops, 0);
	sem_init(&gate, 0, 0);
	sem_init(&passed, 0, 0);
}

TestSuite(pool, .init = setup);

Test(pool, runs_everything_before_it_ends)
{
	struct tdfs_pool *pool = tdfs_pool_new(3);

	for (int i = 0; i < 1000; i++)
		cr_assert(tdfs_pool_submit(pool, count, NULL));
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&runs), 1000);
}

Test(pool, takes_more_than_it_has_threads_for)
{
	struct tdfs_pool *pool = tdfs_pool_new(2);

	for (int i = 0; i < 5; i++)
		cr_assert(tdfs_pool_submit(pool, wait_at_the_gate, NULL));
	for (int i = 0; i < 5; i++)
		sem_post(&gate);
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&runs), 5);
}

Test(pool, a_thread_that_is_stuck_does_not_hold_up_the_next)
{
	struct tdfs_pool *pool = tdfs_pool_new(2);

	cr_assert(tdfs_pool_submit(pool, wait_at_the_gate, NULL));
	cr_expect(tdfs_pool_call(pool, count, drop, NULL, 10000, NULL));
	cr_expect_eq(atomic_load(&runs), 1);
	sem_post(&gate);
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&drops), 0);
}

Test(pool, a_call_is_given_up_in_time)
{
	struct tdfs_pool *pool = tdfs_pool_new(1);

	cr_expect_not(tdfs_pool_call(pool, wait_at_the_gate, drop, NULL, 20, NULL));
	cr_expect_eq(atomic_load(&drops), 0, "it still runs");
	/* One that does not even begin. */
	cr_expect_not(tdfs_pool_call(pool, count, drop, NULL, 20, NULL));
	sem_post(&gate);
	sem_wait(&passed);
	sem_wait(&passed);
	cr_expect_eq(atomic_load(&drops), 2);
	cr_assert(tdfs_pool_free(pool, 10000));
}

static atomic_uint steps;

static void get_on(void *unused)
{
	(void)unused;
	for (int i = 0; i < 40; i++) {
		atomic_fetch_add(&steps, 1);
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
}

Test(pool, who_gets_on_is_not_given_up)
{
	struct tdfs_pool *pool = tdfs_pool_new(1);

	cr_expect_not(tdfs_pool_call(pool, get_on, drop, NULL, 100, NULL));
	cr_expect(tdfs_pool_call(pool, get_on, drop, NULL, 100, &steps));
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&drops), 1);
}

/* As one does that wants a processor and gets none. */
static void keep_busy(void *unused)
{
	struct timespec began, now;

	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, &began);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 < 200);
}

Test(pool, who_only_lacks_a_processor_is_not_given_up)
{
	struct tdfs_pool *pool = tdfs_pool_new(1);

	cr_expect(tdfs_pool_call(pool, keep_busy, drop, NULL, 50, NULL));
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&drops), 0);
}

Test(pool, stuck_threads_are_left_behind)
{
	/* Static: when the process ends, it may still be the stuck thread's. */
	static struct tdfs_pool *pool;

	pool = tdfs_pool_new(1);
	cr_assert(tdfs_pool_submit(pool, wait_at_the_gate, NULL));
	cr_expect_not(tdfs_pool_free(pool, 20));
	sem_post(&gate);
}

Test(pool, none)
{
	cr_expect(tdfs_pool_free(NULL, 0));
	cr_expect(tdfs_pool_free(tdfs_pool_new(1), 0));
}
