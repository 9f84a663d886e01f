/* SPDX-License-Identifier: MIT */
/*
 * Open data files: found again, bounded in number, closed in the order of use, dropped when stale.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"
#include "table/filecache.h"

static tdl_error error;
static tdl__filecache cache;
static int dir;
static const tdl__sums none;

static void begin(void)
{
	scratch_begin();
	make_dir("t");
	for (int i = 0; i < 100; i++) {
		char path[64], bytes[32];

		snprintf(path, sizeof path, "t/f%d", i);
		snprintf(bytes, sizeof bytes, "%02d\n", i);
		put_bytes(path, bytes, 3);
		age(path, 100);
	}
	dir = open(in_scratch("t"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(tdl__filecache_init(&cache, dir, "T", &error), 0);
}

static void end(void)
{
	tdl__filecache_free(&cache);
	close(dir);
	scratch_end();
}

TestSuite(filecache, .init = begin, .fini = end);

static tdl__open_file *get(int i)
{
	tdl__open_file *file;
	char path[16];
	tdl__file_key key;

	snprintf(path, sizeof path, "f%d", i);
	key = tdl__file_key_of(path);
	cr_assert_eq(tdl__filecache_get(&cache, &key, 3, &none, &file, &error), 0, "%s",
		     error.message);
	return file;
}

static void expect_bytes(tdl__open_file *file, int i)
{
	char bytes[4] = "", want[16];

	snprintf(want, sizeof want, "%02d\n", i);
	cr_assert_eq(tdl__open_file_read(&cache, file, bytes, 3, 0, &error), 0, "%s",
		     error.message);
	cr_assert_str_eq(bytes, want);
}

static void use(int i)
{
	tdl__open_file *file = get(i);

	expect_bytes(file, i);
	tdl__filecache_put(&cache, file);
}

static unsigned opens_for(int i)
{
	faults_count();
	tdl__filecache_put(&cache, get(i));
	return faults_off();
}

Test(filecache, open_files_are_found_again)
{
	tdl__open_file *a = get(1), *b = get(1), *c = get(2);

	cr_assert_eq(a, b);
	cr_assert_neq(a, c);
	tdl__filecache_put(&cache, a);
	tdl__filecache_put(&cache, b);
	tdl__filecache_put(&cache, c);
	cr_assert_eq(opens_for(1), 0);
	cr_assert_eq(opens_for(3), 1);
	cr_assert_eq(cache.open.count, 3);
}

Test(filecache, the_least_recently_used_goes_first)
{
	unsigned before = open_descriptors();

	cache.max = 8;
	for (int i = 0; i < 8; i++)
		use(i);
	use(0);
	use(8);
	cr_assert_eq(cache.open.count, 8);
	cr_assert_eq(open_descriptors(), before + 8);
	cr_assert_eq(opens_for(0), 0);
	cr_assert_eq(opens_for(1), 1, "1 was used longest ago");
	for (int i = 0; i < 100; i++)
		use(i);
	cr_assert_eq(cache.open.count, 8);
	cr_assert_eq(open_descriptors(), before + 8);
}

Test(filecache, what_is_held_is_not_closed)
{
	tdl__open_file *held[20];

	cache.max = 8;
	for (int i = 0; i < 20; i++)
		held[i] = get(i);
	for (int i = 0; i < 20; i++)
		expect_bytes(held[i], i);
	for (int i = 0; i < 20; i++)
		tdl__filecache_put(&cache, held[i]);
	use(50);
	cr_assert_leq(cache.open.count, 8);
}

Test(filecache, descriptors_that_run_out_are_taken_from_it)
{
	for (int i = 0; i < 5; i++)
		use(i);
	faults_fail_op(TDL__OP_OPEN, 1, 3, EMFILE);
	use(10);
	faults_off();
	cr_assert_eq(cache.open.count, 3);
	/* With nothing left to close, it is an error. */
	faults_fail_op(TDL__OP_OPEN, 1, 100, EMFILE);
	tdl__file_key key = tdl__file_key_of("f20");
	tdl__open_file *file;
	cr_assert_eq(tdl__filecache_get(&cache, &key, 3, &none, &file, &error), TDL_ERR_IO);
	faults_off();
	cr_assert_eq(error.os_error, EMFILE);
	cr_assert_eq(cache.open.count, 0);
	use(20);
}

Test(filecache, a_stale_file_is_opened_anew)
{
	tdl__open_file *file = get(1), *other = get(1), *fresh;
	char bytes[4] = "";

	put("t/f1", "xx\n");
	cr_assert_eq(tdl__open_file_read(&cache, file, bytes, 3, 0, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(tdl__open_file_read(&cache, other, bytes, 3, 0, &error), TDL_ERR_CORRUPT);
	fresh = get(1);
	cr_assert_neq(fresh, file);
	cr_assert_eq(tdl__open_file_read(&cache, fresh, bytes, 3, 0, &error), 0);
	tdl__filecache_put(&cache, file);
	tdl__filecache_put(&cache, other);
	tdl__filecache_put(&cache, fresh);
	cr_assert_eq(cache.open.count, 1);
}

/* The log may give a path another size later on. */
Test(filecache, sizes_are_checked_for_everyone)
{
	tdl__file_key key = tdl__file_key_of("f1");
	tdl__open_file *file, *other;
	int fd;

	file = get(1);
	cr_assert_eq(tdl__filecache_get(&cache, &key, 4, &none, &other, &error), TDL_ERR_CORRUPT);
	cr_assert_not_null(strstr(error.message, "f1 has 3 bytes, the log says 4"), "%s",
			   error.message);
	cr_assert_eq(tdl__filecache_open(&cache, &key, 4, &fd, &error), TDL_ERR_CORRUPT);
	/* It grew: who asks for the new size gets a file of his own, who has the old one none. */
	put("t/f1", "long\n");
	cr_assert_eq(tdl__filecache_get(&cache, &key, 5, &none, &other, &error), 0);
	cr_assert_neq(other, file);
	tdl__filecache_put(&cache, other);
	tdl__filecache_put(&cache, file);
}

Test(filecache, reads_past_the_end_are_damage)
{
	tdl__open_file *file = get(1);
	char bytes[8];

	cr_assert_eq(tdl__open_file_read(&cache, file, bytes, 3, 1, &error), TDL_ERR_CORRUPT);
	tdl__filecache_put(&cache, file);
}

static void *hammer(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;

	for (int i = 0; i < 2000; i++) {
		int which = rand_r(&state) % 40;
		char path[16], bytes[4] = "", want[16];
		tdl__file_key key;
		tdl__open_file *file;

		snprintf(path, sizeof path, "f%d", which);
		snprintf(want, sizeof want, "%02d\n", which);
		key = tdl__file_key_of(path);
		if (tdl__filecache_get(&cache, &key, 3, &none, &file, NULL) < 0)
			return (void *)"get";
		if (tdl__open_file_read(&cache, file, bytes, 3, 0, NULL) < 0 ||
		    strcmp(bytes, want) != 0)
			return (void *)"read";
		tdl__filecache_put(&cache, file);
	}
	return NULL;
}

Test(filecache, many_threads)
{
	unsigned before = open_descriptors();
	pthread_t threads[4];

	cache.max = 8;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hammer, (void *)(i + 1));
	for (int i = 0; i < 4; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		cr_assert_null(failed, "%s", (char *)failed);
	}
	cr_assert_leq(open_descriptors(), before + 12);
}

Test(filecache, frees_everything)
{
	unsigned before = open_descriptors();

	for (int i = 0; i < 50; i++)
		use(i);
	tdl__filecache_free(&cache);
	cr_assert_eq(open_descriptors(), before);
	tdl__filecache_free(&cache);
}
