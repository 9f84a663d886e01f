/* SPDX-License-Identifier: MIT */
/* Threads that work off a queue, and calls that are given up. */
#include <criterion/criterion.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "pool.h"

static atomic_int runs, discards;
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

static void discard(void *argument)
{
	atomic_fetch_add(&discards, 1);
	sem_post(&passed);
}

static void setup(void)
{
	atomic_store(&runs, 0);
	atomic_store(&discards, 0);
	sem_init(&gate, 0, 0);
	sem_init(&passed, 0, 0);
}

TestSuite(pool, .init = setup, .timeout = 60);

static struct tdfs_pool *pool_of(unsigned threads)
{
	return tdfs_pool_new(&(struct tdfs_pool_options){ .threads = threads });
}

static bool call(struct tdfs_pool *pool, void (*run)(void *), unsigned limit,
		 const atomic_uint *steps)
{
	return tdfs_pool_call(
		pool, &(struct tdfs_call){
			      .run = run, .discard = discard, .steps = steps, .limit = limit });
}

Test(pool, runs_everything_before_it_ends)
{
	struct tdfs_pool *pool = pool_of(3);

	for (int i = 0; i < 1000; i++)
		cr_assert(tdfs_pool_submit(pool, 0, count, NULL));
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&runs), 1000);
}

Test(pool, takes_more_than_it_has_threads_for)
{
	struct tdfs_pool *pool = pool_of(2);

	for (int i = 0; i < 5; i++)
		cr_assert(tdfs_pool_submit(pool, 0, wait_at_the_gate, NULL));
	for (int i = 0; i < 5; i++)
		sem_post(&gate);
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&runs), 5);
}

Test(pool, a_thread_that_is_stuck_does_not_hold_up_the_next)
{
	struct tdfs_pool *pool = pool_of(2);

	cr_assert(tdfs_pool_submit(pool, 0, wait_at_the_gate, NULL));
	cr_expect(call(pool, count, 10000, NULL));
	cr_expect_eq(atomic_load(&runs), 1);
	sem_post(&gate);
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&discards), 0);
}

Test(pool, a_call_is_given_up_in_time)
{
	struct tdfs_pool *pool = pool_of(1);

	cr_expect_not(call(pool, wait_at_the_gate, 20, NULL));
	cr_expect_eq(atomic_load(&discards), 0, "it still runs");
	/* One that does not even begin. */
	cr_expect_not(call(pool, count, 20, NULL));
	sem_post(&gate);
	sem_wait(&passed);
	sem_wait(&passed);
	cr_expect_eq(atomic_load(&discards), 2);
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

/* Ten times as long as it would have for one step, and twenty windows. */
Test(pool, who_gets_on_is_not_given_up)
{
	struct tdfs_pool *pool = pool_of(1);

	cr_expect(call(pool, get_on, 100, &steps));
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&discards), 0);
}

Test(pool, who_only_waits_his_turn_is_not_given_up)
{
	struct tdfs_pool *pool = pool_of(1);

	cr_assert(tdfs_pool_submit(pool, 0, get_on, NULL));
	cr_expect(call(pool, count, 10, NULL));
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&discards), 0);
}

Test(pool, a_thread_that_is_given_up_is_no_share_of_its_user)
{
	struct tdfs_pool *pool =
		tdfs_pool_new(&(struct tdfs_pool_options){ .threads = 2, .share = 1, .lost = 4 });

	for (int i = 0; i < 4; i++) {
		cr_expect_not(call(pool, wait_at_the_gate, 20, NULL));
		cr_expect(call(pool, count, 1000, NULL));
	}
	for (int i = 0; i < 4; i++)
		sem_post(&gate);
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&runs), 8);
}

Test(pool, a_thread_that_is_given_up_is_replaced)
{
	struct tdfs_pool *pool =
		tdfs_pool_new(&(struct tdfs_pool_options){ .threads = 1, .lost = 2 });

	for (int i = 0; i < 2; i++) {
		cr_expect_not(call(pool, wait_at_the_gate, 20, NULL));
		cr_expect(call(pool, count, 1000, NULL));
	}
	/* The third is not: whoever comes then is told so, and does not wait for ever. */
	cr_expect_not(call(pool, wait_at_the_gate, 20, NULL));
	cr_expect_not(call(pool, count, 1000, NULL));
	for (int i = 0; i < 3; i++)
		sem_post(&gate);
	while (atomic_load(&discards) < 4)
		sem_wait(&passed);
	/* Those that came back were one too many. */
	cr_expect(call(pool, count, 1000, NULL));
	cr_assert(tdfs_pool_free(pool, 10000));
}

static atomic_int others;

static void count_other(void *argument)
{
	atomic_fetch_add(&others, 1);
}

Test(pool, a_user_with_many_jobs_holds_up_no_other)
{
	struct tdfs_pool *pool =
		tdfs_pool_new(&(struct tdfs_pool_options){ .threads = 4, .share = 2 });

	for (int i = 0; i < 20; i++)
		cr_assert(tdfs_pool_submit(pool, 1000, wait_at_the_gate, NULL));
	for (int i = 0; i < 20; i++)
		cr_assert(tdfs_pool_submit(pool, 1001, count_other, NULL));
	while (atomic_load(&others) < 20)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	cr_expect_eq(atomic_load(&runs), 0);
	for (int i = 0; i < 20; i++)
		sem_post(&gate);
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&runs), 20);
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
	struct tdfs_pool *pool = pool_of(1);

	cr_expect(call(pool, keep_busy, 50, NULL));
	cr_assert(tdfs_pool_free(pool, 10000));
	cr_expect_eq(atomic_load(&discards), 0);
}

Test(pool, stuck_threads_are_left_behind)
{
	/* Static: when the process ends, it may still be the stuck thread's. */
	static struct tdfs_pool *pool;

	pool = pool_of(1);
	cr_assert(tdfs_pool_submit(pool, 0, wait_at_the_gate, NULL));
	cr_expect_not(tdfs_pool_free(pool, 20));
	sem_post(&gate);
}

Test(pool, none)
{
	cr_expect(tdfs_pool_free(NULL, 0));
	cr_expect(tdfs_pool_free(pool_of(1), 0));
}
