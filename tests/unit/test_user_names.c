/* SPDX-License-Identifier: MIT */
/* Names of users from a directory that answers, does not, or goes away. */
#include <criterion/criterion.h>

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "incoming/user_names.h"

static atomic_int asked, away;
static sem_t gate;

static int directory(uid_t uid, char *name, size_t size)
{
	atomic_fetch_add(&asked, 1);
	if (atomic_load(&away))
		sem_wait(&gate);
	if (uid == 404)
		return ENOENT;
	if (uid == 500)
		return EIO;
	snprintf(name, size, "user-%u", (unsigned)uid);
	return 0;
}

static struct tdfs_user_names *names;

static void setup(void)
{
	sem_init(&gate, 0, 0);
	names = tdfs_user_names_new(directory);
	cr_assert_not_null(names);
}

static void teardown(void)
{
	for (int i = 0; i < 100; i++)
		sem_post(&gate);
	tdfs_user_names_free(names);
}

TestSuite(user_names, .init = setup, .fini = teardown, .timeout = 60);

static const char *name_of(uid_t uid)
{
	static char name[TDFS_USER_NAME_MAX];

	tdfs_user_name(names, uid, name);
	return name;
}

Test(user_names, are_remembered)
{
	for (int i = 0; i < 10; i++)
		cr_expect_str_eq(name_of(7), "user-7");
	cr_expect_eq(atomic_load(&asked), 1);
}

Test(user_names, the_number_where_there_is_none)
{
	for (int i = 0; i < 10; i++) {
		cr_expect_str_eq(name_of(404), "404");
		cr_expect_str_eq(name_of(500), "500");
	}
	cr_expect_eq(atomic_load(&asked), 2);
}

Test(user_names, more_than_are_remembered)
{
	for (uid_t uid = 1000; uid < 1200; uid++) {
		char want[32];

		snprintf(want, sizeof want, "user-%u", (unsigned)uid);
		cr_expect_str_eq(name_of(uid), want);
	}
}

static int64_t ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

Test(user_names, a_directory_that_does_not_answer_is_waited_for_once)
{
	int64_t began = ms();

	atomic_store(&away, 1);
	for (int i = 0; i < 1000; i++)
		cr_expect_str_eq(name_of(7), "7");
	/* A second, and not one for each. */
	cr_expect_lt(ms() - began, 15000);
	cr_expect_eq(atomic_load(&asked), 1);
	sem_post(&gate);
	while (name_of(7)[0] == '7')
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	cr_expect_str_eq(name_of(7), "user-7");
}

Test(user_names, one_that_hangs_holds_up_no_other)
{
	atomic_store(&away, 1);
	cr_expect_str_eq(name_of(7), "7");
	atomic_store(&away, 0);
	cr_expect_str_eq(name_of(8), "user-8");
}
