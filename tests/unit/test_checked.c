/* SPDX-License-Identifier: MIT */
/*
 * Data files whose bytes somebody changed, with their length and their dates as they were: what is
 * read is right or refused, never something else, by whatever function, through descriptors that
 * were open already or not. TDL_FLIPS says how many places of a large table are tried.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"
#include "table/table.h"
#include "tables.h"
#include "util/crc32c.h"

#define ROW_1 "{\"id\":1,\"name\":\"a\"}\n"
#define ROW_2 "{\"id\":2,\"name\":\"b\"}\n"
#define ROW_3 "{\"id\":3,\"name\":\"c\"}\n"
#define MIB   ((size_t)1 << 20)

static tdl_error error;
static tdl_table *table;

static void begin(void)
{
	table = begin_with_table("t");
}

static void end(void)
{
	end_with_table(table);
}

TestSuite(checked, .init = begin, .fini = end);

/* The path in the scratch directory of the data file that a commit adds. */
static const char *part_of(int64_t version)
{
	char *text CLEANUP(tdl__free_at) = get_bytes(commit_path("t", version), NULL);
	static char path[100];
	const char *add = strstr(text, "{\"add\":{\"path\":\"");
	char name[80];

	cr_assert_eq(sscanf(add, "{\"add\":{\"path\":\"%79[^\"]", name), 1);
	snprintf(path, sizeof path, "t/%s", name);
	return path;
}

/* Changes a byte and leaves the dates. */
static void flip(const char *path, uint64_t at)
{
	int fd = open(in_scratch("%s", path), O_RDWR | O_CLOEXEC);
	struct timespec times[2];
	struct stat st;
	char byte;

	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 1;
	cr_assert_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	cr_assert_eq(futimens(fd, times), 0);
	close(fd);
}

/* Rows of at least `size` bytes, to free(). */
static char *make_rows(size_t size, unsigned seed)
{
	char *rows = malloc(size + 200);
	size_t n = 0;

	for (unsigned i = 0; n < size; i++)
		n += (size_t)sprintf(rows + n, "{\"id\":%u,\"name\":\"%0*u\"}\n", i + seed,
				     (int)(i % 150) + 1, i * seed);
	return rows;
}

/* Right or refused, by each way to read; returns whether it was refused. */
static bool expect_right_or_refused(tdl_table *of, int64_t version, const char *rows)
{
	size_t n = strlen(rows), at = 0, got;
	char *whole CLEANUP(tdl__free_at) = NULL, *buffer CLEANUP(tdl__free_at) = malloc(n + 1);
	tdl_snapshot *snapshot;
	bool refused;
	int r = try_read(of, version, &whole, NULL, &error);

	refused = r < 0;
	cr_assert(r == 0 || r == TDL_ERR_CORRUPT, "%d: %s", r, error.message);
	cr_assert(r < 0 || strcmp(whole, rows) == 0, "version %d", (int)version);
	cr_assert_eq(tdl_snapshot_open(of, version, &snapshot, &error), 0);
	for (uint64_t i = 0; i < tdl_snapshot_info(snapshot)->files; i++) {
		tdl_file file, entry;
		bool good = true, checked;
		int fd;

		cr_assert_eq(tdl_snapshot_file_entry(snapshot, i, &entry, &error), 0);
		r = tdl_snapshot_read_file(snapshot, i, buffer, n, 0, &got, &error);
		cr_assert(r == 0 || r == TDL_ERR_CORRUPT);
		cr_assert(r < 0 || (got == entry.size && memcmp(buffer, rows + at, got) == 0));
		good = r == 0;
		r = tdl_snapshot_check_file(snapshot, i, UINT64_MAX, &checked, &error);
		cr_assert_eq(r == 0, good);
		cr_assert(r < 0 || checked);
		r = tdl_snapshot_open_file(snapshot, i, &fd, &error);
		cr_assert_eq(r == 0, good);
		if (r == 0)
			close(fd);
		refused |= !good;
		cr_assert_eq(tdl_snapshot_file(snapshot, i, &file, &error), 0);
		at += entry.size + file.lacks_newline;
	}
	cr_assert_eq(at, n);
	tdl_snapshot_unref(snapshot);
	return refused;
}

/* ---- A small table ------------------------------------------------------------------------ */

static const char *const small[] = { "", ROW_1 ROW_2, ROW_1 ROW_2 ROW_3, ROW_2, ROW_1 ROW_2 };

static void flip_every_byte(void)
{
	const int64_t head = 4;

	for (int64_t changed = 1; changed <= 3; changed++) {
		char *path CLEANUP(tdl__free_at) = strdup(part_of(changed));
		size_t n;

		free(get_bytes(path, &n));
		for (size_t at = 0; at < n; at++) {
			tdl_table *fresh;
			int64_t made;

			flip(path, at);
			fresh = open_table("t");
			for (int64_t version = 0; version <= head; version++) {
				/* The first is in 1, 2 and 4. */
				bool holds = changed == version ||
					     (changed == 1 && (version == 2 || version == 4));

				cr_assert_eq(
					expect_right_or_refused(table, version, small[version]),
					holds, "%d in %d at %zu", (int)changed, (int)version, at);
				cr_assert_eq(
					expect_right_or_refused(fresh, version, small[version]),
					holds);
				if (holds)
					cr_assert_eq(tdl_table_restore(fresh, version, NULL, &made,
								       &error),
						     TDL_ERR_CORRUPT);
			}
			cr_assert_eq(tdl_table_head(fresh), head);
			tdl_table_free(fresh);
			flip(path, at);
		}
	}
	for (int64_t version = 0; version <= head; version++)
		cr_assert_not(expect_right_or_refused(table, version, small[version]));
}

static void make_small(void)
{
	append_rows(table, ROW_1 ROW_2);
	append_rows(table, ROW_3);
	overwrite_rows(table, ROW_2);
	restore_version(table, 1);
}

Test(checked, every_byte_of_a_small_table, .timeout = 60)
{
	make_small();
	flip_every_byte();
}

Test(checked, every_byte_with_an_index, .timeout = 60)
{
	size_t worth = tdl__index_worth;

	tdl__index_worth = 1;
	make_small();
	tdl_table_free(table);
	table = open_table("t");
	flip_every_byte();
	cr_assert(is_there("t/_delta_log/_history.idx"));
	tdl__index_worth = worth;
}

/* ---- A large table ------------------------------------------------------------------------ */

enum {
	FILES = 4
};

/* Of several files in one version: a small one, of one without a last newline and sums, and two
 * of many blocks. */
static char *parts[FILES], *bytes[FILES];
static uint64_t starts[FILES + 1];
static char *all;

static void make_large(void)
{
	static const size_t sizes[FILES] = { 5 * MIB, 300000, 100000, 3 * MIB + 77 };
	size_t n = 0;

	all = calloc(10, MIB);
	for (unsigned i = 0; i < FILES; i++) {
		bytes[i] = make_rows(sizes[i], i + 1);
		if (i == 2) {
			char path[] = "t/part-0123456789abcdef0123456789abcdef.jsonl";

			bytes[i][strlen(bytes[i]) - 1] = '\0';
			put_bytes(path, bytes[i], strlen(bytes[i]));
			put_commit("t", 3, add_line(path + 2, strlen(bytes[i]), 1));
			parts[i] = strdup(path);
		} else {
			append_rows(table, bytes[i]);
			parts[i] = strdup(part_of(i + 1));
		}
		starts[i] = n;
		n += (size_t)sprintf(all + n, "%s%s", bytes[i], i == 2 ? "\n" : "");
	}
	starts[FILES] = n;
	cr_assert_eq(tdl_table_refresh(table, &error), 0);
}

static void free_large(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		free(parts[i]);
		free(bytes[i]);
	}
	free(all);
}

/* Reads a stretch: right, or refused where `from` to `to` has a byte of a block from..to. */
static void read_stretch(tdl_snapshot *snapshot, char *buffer, uint64_t at, size_t n, uint64_t from,
			 uint64_t to)
{
	size_t got;
	int r = tdl_snapshot_read(snapshot, buffer, n, at, &got, &error);
	bool touches = at < to && at + n > from;

	cr_assert_eq(r, touches ? TDL_ERR_CORRUPT : 0, "%zu at %zu: %s", n, (size_t)at,
		     error.message);
	cr_assert(r < 0 || (got == n && memcmp(buffer, all + at, n) == 0));
	if (r < 0)
		cr_assert_not_null(
			strstr(error.message, "is not what its checksum in the log says"), "%s",
			error.message);
}

Test(checked, places_of_a_large_table, .timeout = 2000)
{
	const char *text = getenv("TDL_FLIPS");
	unsigned flips = text ? (unsigned)atoi(text) : 60, seed = 10;
	char *buffer = malloc(10 * MIB);
	tdl_snapshot *snapshot;

	make_large();
	cr_assert_eq(tdl_snapshot_open(table, TDL_LATEST, &snapshot, &error), 0);
	for (unsigned i = 0; i < flips; i++) {
		unsigned file = (unsigned)rand_r(&seed) % FILES;
		uint64_t size = strlen(bytes[file]), at = (uint64_t)rand_r(&seed) % size;
		uint64_t from = starts[file] + at / MIB * MIB, to = from + MIB,
			 total = starts[FILES];

		if (file == 2)
			continue; /* nobody can tell */
		if (to > starts[file] + size)
			to = starts[file] + size;
		flip(parts[file], at);
		/* Every other time its block alone was read before, and is known. */
		for (int k = 0; k < 12; k++) {
			uint64_t where = (uint64_t)rand_r(&seed) % total;
			size_t n = (size_t)rand_r(&seed) % (k < 4 ? 100 : 2 * MIB) + 1;

			if (k == 0)
				where = starts[file] + at;
			if (k == 1)
				where = from - (from > 0);
			if (k == 2)
				where = to < total ? to : 0;
			if (where + n > total)
				n = (size_t)(total - where);
			read_stretch(snapshot, buffer, where, n, from, to);
		}
		read_stretch(snapshot, buffer, 0, (size_t)total, from, to);
		flip(parts[file], at);
		read_stretch(snapshot, buffer, from, (size_t)(to - from), 0, 0);
		if (i % 16 == 0)
			read_stretch(snapshot, buffer, 0, (size_t)total, 0, 0);
	}
	tdl_snapshot_unref(snapshot);
	free(buffer);
	free_large();
}

static void keep_problem(void *context, const tdl_problem *problem)
{
	snprintf(context, 300, "%s", problem->text);
}

Test(checked, check_says_where)
{
	const tdl_check_options options = { .version = -1 };
	char *rows CLEANUP(tdl__free_at) = make_rows(3 * MIB, 3);
	char text[300] = "";

	append_rows(table, rows);
	cr_assert_eq(tdl_table_check(table, &options, keep_problem, text, &error), 0);
	cr_assert_str_eq(text, "");
	flip(part_of(1), 2 * MIB + 5);
	cr_assert_eq(tdl_table_check(table, &options, keep_problem, text, &error), 0);
	cr_assert_not_null(strstr(text, "is not what its checksum in the log says, first in the "
					"MiB from byte 2097152 on"),
			   "%s", text);
}

/* ---- What is remembered ------------------------------------------------------------------- */

static unsigned reads;

static int count_reads(enum tdl__op op, const char *name)
{
	reads += op == TDL__OP_READ;
	return 0;
}

/* How many reads of the system one of ours took. */
static unsigned reads_for(tdl_snapshot *snapshot, uint64_t at, size_t n)
{
	char *buffer CLEANUP(tdl__free_at) = malloc(n);
	size_t got;

	reads = 0;
	tdl__sys_hook = count_reads;
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, n, at, &got, &error), 0, "%s",
		     error.message);
	tdl__sys_hook = NULL;
	cr_assert_eq(got, n);
	return reads;
}

/* What was changed a moment ago is compared each time. */
static void grow_old(const char *path)
{
	struct stat st;
	struct timespec now;

	do {
		usleep(5000);
		cr_assert_eq(stat(in_scratch("%s", path), &st), 0);
		clock_gettime(CLOCK_REALTIME, &now);
	} while ((now.tv_sec - st.st_ctim.tv_sec) * 1000 +
			 (now.tv_nsec - st.st_ctim.tv_nsec) / 1000000 <
		 50);
}

Test(checked, a_block_is_compared_once)
{
	char *rows CLEANUP(tdl__free_at) = make_rows(3 * MIB, 3);
	tdl_snapshot *snapshot;

	append_rows(table, rows);
	grow_old(part_of(1));
	cr_assert_eq(tdl_snapshot_open(table, 1, &snapshot, &error), 0);
	cr_assert_gt(reads_for(snapshot, MIB + 5, 10), 3, "the whole block is read");
	cr_assert_eq(reads_for(snapshot, MIB + 5, 10), 1);
	cr_assert_eq(reads_for(snapshot, MIB + 500000, 1), 1);
	cr_assert_gt(reads_for(snapshot, MIB - 5, 10), 3, "the one before it was not");
	cr_assert_eq(reads_for(snapshot, MIB - 5, 10), 1, "over the edge in one");
	/* Whatever says that it may have been changed. */
	cr_assert_eq(chmod(in_scratch("%s", part_of(1)), 0600), 0);
	cr_assert_gt(reads_for(snapshot, MIB + 5, 10), 3);
	age(part_of(1), 1000);
	cr_assert_gt(reads_for(snapshot, MIB + 5, 10), 3);
	tdl_snapshot_unref(snapshot);
}

/* As earlier releases wrote it: one sum for the whole. */
static void forget_blocks(int64_t version)
{
	char *text CLEANUP(tdl__free_at) = get_bytes(commit_path("t", version), NULL);
	char *line = strstr(text, "{\"add\""), *blocks = strstr(line, ",\"blocks\"");

	cr_assert_not_null(blocks);
	strcpy(blocks, "}}\n");
	put_commit("t", version, line);
}

Test(checked, a_large_file_with_one_sum)
{
	char *rows CLEANUP(tdl__free_at) = make_rows(3 * MIB, 3),
		   *path CLEANUP(tdl__free_at) = NULL, *buffer CLEANUP(tdl__free_at) = malloc(100);
	tdl_snapshot *snapshot;
	size_t got;
	bool checked;

	append_rows(table, rows);
	path = strdup(part_of(1));
	forget_blocks(1);
	tdl_table_free(table);
	table = open_table("t");
	flip(path, 3 * MIB);
	cr_assert_eq(tdl_snapshot_open(table, 1, &snapshot, &error), 0);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, 100, 7, &got, &error), TDL_ERR_CORRUPT);
	flip(path, 3 * MIB);
	grow_old(path);
	cr_assert_eq(tdl_snapshot_check_file(snapshot, 0, MIB, &checked, &error), 0);
	cr_assert_not(checked, "that is more than a MiB");
	cr_assert_gt(reads_for(snapshot, 7, 100), 11, "all of it, before the first byte");
	cr_assert_eq(reads_for(snapshot, 2 * MIB, 100), 1);
	cr_assert_eq(tdl_snapshot_check_file(snapshot, 0, MIB, &checked, &error), 0);
	cr_assert(checked);

	/* Also when it was closed: here others take its place. */
	put("t/x", "%s", "1\n");
	put_commit("t", 2, add_line("x", 2, 1));
	table->files.max = 0;
	cr_assert_eq(expect_right_or_refused(table, 1, rows), false);
	for (int i = 0; i < 2; i++) {
		tdl_snapshot *other;

		cr_assert_eq(tdl_snapshot_open(table, 2, &other, &error), 0);
		reads_for(other, strlen(rows), 2);
		tdl_snapshot_unref(other);
		cr_assert_eq(reads_for(snapshot, 5, 100), 1);
	}
	/* But not when it was changed in between. */
	flip(path, 5);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, 100, 2 * MIB, &got, &error),
		     TDL_ERR_CORRUPT);
	flip(path, 5);
	cr_assert_eq(tdl_snapshot_read(snapshot, buffer, 100, 2 * MIB, &got, &error), 0);
	cr_assert_eq(memcmp(buffer, rows + 2 * MIB, 100), 0);
	tdl_snapshot_unref(snapshot);
}

/* ---- Threads ------------------------------------------------------------------------------ */

static tdl_snapshot *shared;
static const char *shared_rows;
static atomic_bool stop;

static void *read_all_over(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	char *buffer = malloc(MIB);
	size_t n = strlen(shared_rows);

	while (!atomic_load(&stop)) {
		uint64_t at = (uint64_t)rand_r(&state) % n;
		size_t count = (size_t)rand_r(&state) % MIB + 1, got;
		int r = tdl_snapshot_read(shared, buffer, count, at, &got, NULL);

		if (r < 0 ? r != TDL_ERR_CORRUPT : memcmp(buffer, shared_rows + at, got) != 0)
			break;
	}
	free(buffer);
	return atomic_load(&stop) ? NULL : (void *)"other bytes";
}

Test(checked, readers_while_it_is_changed, .timeout = 60)
{
	char *rows CLEANUP(tdl__free_at) = make_rows(3 * MIB, 3),
		   *path CLEANUP(tdl__free_at) = NULL;
	pthread_t threads[3];
	unsigned seed = 4;

	append_rows(table, rows);
	path = strdup(part_of(1));
	for (int whole = 0; whole < 2; whole++) {
		if (whole) {
			forget_blocks(1);
			tdl_table_free(table);
			table = open_table("t");
		}
		cr_assert_eq(tdl_snapshot_open(table, 1, &shared, &error), 0);
		shared_rows = rows;
		atomic_store(&stop, false);
		for (uintptr_t i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, read_all_over, (void *)(i + 1));
		for (int i = 0; i < 100; i++) {
			uint64_t at = (uint64_t)rand_r(&seed) % strlen(rows);

			flip(path, at);
			usleep((useconds_t)rand_r(&seed) % 3000);
			flip(path, at);
			usleep((useconds_t)rand_r(&seed) % 3000);
		}
		atomic_store(&stop, true);
		for (int i = 0; i < 3; i++) {
			void *failed;

			pthread_join(threads[i], &failed);
			cr_assert_null(failed, "%s", (char *)failed);
		}
		cr_assert_not(expect_right_or_refused(table, 1, rows));
		tdl_snapshot_unref(shared);
	}
}
