/* SPDX-License-Identifier: MIT */
/*
 * The index: what is read back is what was written, and whatever is wrong with it is noticed and
 * does no harm.
 */
#include "log/index.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys.h"
#include "table/table.h"
#include "util/crc32c.h"
#include "util/hash.h"

static char dir[64];

static void __attribute__((format(printf, 1, 2))) run(const char *format, ...)
{
	char command[512];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof command, format, args);
	va_end(args);
	cr_assert_eq(system(command), 0, "%s", command);
}

static void enter(void)
{
	strcpy(dir, "/tmp/tdl-index-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(setenv("XDG_CACHE_HOME", dir, 1), 0);
}

static void leave(void)
{
	run("chmod -R u+w %s && rm -rf %s", dir, dir);
}

TestSuite(index, .init = enter, .fini = leave);

#define ID "01234567-89ab-cdef-0123-456789abcdef"

static void write_commit(int64_t version, const char *lines)
{
	char path[160];
	FILE *file;

	snprintf(path, sizeof path, "%s/t/_delta_log/%020jd.json", dir, (intmax_t)version);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file,
		"{\"commitInfo\":{\"timestamp\":%jd,\"operation\":\"OP%jd\",\"readVersion\":null}}"
		"\n%s",
		(intmax_t)(1000 + version), (intmax_t)(version % 3), lines);
	cr_assert_eq(fclose(file), 0);
}

#define PART "part-0123456789abcdef0123456789abcde"
#define ADD(path, size) \
	"{\"add\":{\"path\":\"" path "\",\"size\":" size ",\"numRecords\":2,\"crc32c\":77}}\n"

/* Names of both kinds, a list that goes on, one that starts anew, and new columns. */
static void make_table(const char *id)
{
	char lines[512];

	run("mkdir -p %s/t/_delta_log", dir);
	snprintf(lines, sizeof lines,
		 "{\"metaData\":{\"id\":\"%s\",\"schema\":[{\"name\":\"a\",\"type\":\"int\"}]}}\n",
		 id);
	write_commit(0, lines);
	write_commit(1, ADD(PART "0.jsonl", "20"));
	write_commit(2, ADD("odd/one.jsonl", "30") ADD(PART "1.jsonl", "5"));
	write_commit(3, "{\"remove\":{\"path\":\"" PART "0.jsonl\"}}\n" ADD("odd two", "7"));
	write_commit(4, "{\"metaData\":{\"id\":\"x\",\"schema\":[{\"name\":\"b\",\"type\":\"str\"},"
			"{\"name\":\"a\\u00e9\",\"type\":\"bool\"}]}}\n" ADD(PART "2.jsonl", "9"));
	write_commit(5, "");
}

static tdl_table *open_table(void)
{
	char path[80];
	tdl_error error = { 0 };
	tdl_table *table;

	snprintf(path, sizeof path, "%s/t", dir);
	cr_assert_eq(tdl_table_open(path, 0, &table, &error), 0, "%s", error.message);
	return table;
}

static int open_log(void)
{
	char path[80];
	int fd;

	snprintf(path, sizeof path, "%s/t/_delta_log", dir);
	fd = open(path, O_RDONLY | O_DIRECTORY);
	cr_assert(fd >= 0);
	return fd;
}

/* Whether an empty history believes the index; it may be asked for more after that. */
static bool believes(tdl__history *history, int log_dir)
{
	cr_assert_eq(tdl__history_init(history, (tdl__log){ log_dir, "t" }, NULL), 0);
	tdl__index_load(history, log_dir, TDL__INDEX_NAME);
	return history->count > 0;
}

static void same_versions(tdl__history *a, tdl__history *b)
{
	cr_assert_eq(a->count, b->count);
	for (int64_t v = 0; v < (int64_t)a->count; v++) {
		tdl_version_info x, y;
		tdl__version at_a, at_b;

		cr_assert_eq(tdl__history_get(a, v, &at_a, &x, NULL), 0);
		cr_assert_eq(tdl__history_get(b, v, &at_b, &y, NULL), 0);
		cr_assert_eq(x.timestamp, y.timestamp);
		cr_assert_eq(x.read_version, y.read_version);
		cr_assert_str_eq(x.operation, y.operation);
		cr_assert_str_eq(x.table_id, y.table_id);
		cr_assert_eq(x.files, y.files);
		cr_assert_eq(x.num_records, y.num_records);
		cr_assert_eq(x.bytes, y.bytes);
		cr_assert_eq(tdl_schema_count(x.schema), tdl_schema_count(y.schema));
		for (size_t i = 0; i < tdl_schema_count(x.schema); i++)
			cr_assert_str_eq(tdl_schema_name(x.schema, i, NULL),
					 tdl_schema_name(y.schema, i, NULL));
		for (uint64_t i = 0; i < x.files; i++) {
			uint64_t nth_a = a->files.lists[at_a.list].first + i;
			uint64_t nth_b = b->files.lists[at_b.list].first + i;
			tdl__file_key key_a = tdl__filelist_key(&a->files, nth_a);
			tdl__file_key key_b = tdl__filelist_key(&b->files, nth_b);

			cr_assert(tdl__file_key_equal(&key_a, &key_b));
			cr_assert_eq(tdl__filelist_size(&a->files, nth_a),
				     tdl__filelist_size(&b->files, nth_b));
			cr_assert_eq(a->files.flags[nth_a], b->files.flags[nth_b]);
			cr_assert_eq(a->files.crcs[nth_a], b->files.crcs[nth_b]);
		}
	}
}

static void save(void)
{
	tdl_table *table = open_table();

	cr_assert(tdl__index_save(&table->history, table->log_dir, TDL__INDEX_NAME));
	tdl_table_free(table);
}

Test(index, reads_back_what_it_wrote)
{
	tdl__history history;
	tdl_table *table;
	int log_dir;

	make_table("one");
	log_dir = open_log();
	table = open_table();
	cr_assert(tdl__index_save(&table->history, table->log_dir, TDL__INDEX_NAME));
	/* The reader is another process. */
	tdl__hash_rekey();
	cr_assert(believes(&history, log_dir));
	same_versions(&table->history, &history);

	/* And goes on from there as the replay does. */
	write_commit(6, "{\"remove\":{\"path\":\"odd two\"}}\n" ADD(PART "3.jsonl", "1"));
	write_commit(7, ADD(PART "0.jsonl", "20") ADD("odd two", "8"));
	cr_assert_eq(tdl__history_refresh(&history, NULL), 0);
	tdl__hash_rekey();
	cr_assert_eq(tdl_table_refresh(table, NULL), 0);
	cr_assert_eq(history.count, 8);
	same_versions(&table->history, &history);
	tdl__history_free(&history);
	tdl_table_free(table);
	close(log_dir);
}

Test(index, is_ignored_where_any_byte_is_wrong)
{
	char path[160], *whole;
	struct stat st;
	int fd, log_dir;

	make_table("one");
	save();
	log_dir = open_log();
	fd = openat(log_dir, TDL__INDEX_NAME, O_RDWR);
	cr_assert_eq(fstat(fd, &st), 0);
	whole = malloc((size_t)st.st_size);
	cr_assert_eq(pread(fd, whole, (size_t)st.st_size, 0), st.st_size);
	for (off_t i = 0; i < st.st_size; i++) {
		for (unsigned bit = 1; bit < 256; bit *= 4) {
			char wrong = (char)(whole[i] ^ (char)bit);
			tdl__history history;

			cr_assert_eq(pwrite(fd, &wrong, 1, i), 1);
			cr_assert(!believes(&history, log_dir), "byte %jd", (intmax_t)i);
			tdl__history_free(&history);
		}
		cr_assert_eq(pwrite(fd, whole + i, 1, i), 1);
	}
	for (off_t i = st.st_size - 1; i >= 0; i -= i > 300 ? 13 : 1) {
		tdl__history history;

		cr_assert_eq(ftruncate(fd, i), 0);
		cr_assert(!believes(&history, log_dir), "length %jd", (intmax_t)i);
		tdl__history_free(&history);
	}
	/* A damaged index is not damage of the table. */
	tdl_table_free(open_table());
	snprintf(path, sizeof path, "%s/t/_delta_log/" TDL__INDEX_NAME, dir);
	cr_assert_eq(access(path, F_OK), 0);
	free(whole);
	close(fd);
	close(log_dir);
}

Test(index, of_another_log_is_ignored)
{
	tdl__history history;
	int log_dir;

	make_table("one");
	save();
	log_dir = open_log();
	write_commit(5, "\n");
	cr_assert(!believes(&history, log_dir), "the last commit is another");
	tdl__history_free(&history);
	make_table("one");
	cr_assert(believes(&history, log_dir));
	tdl__history_free(&history);
	make_table("two");
	cr_assert(!believes(&history, log_dir), "the table is another");
	tdl__history_free(&history);
	run("rm %s/t/_delta_log/*5.json", dir);
	make_table("one");
	run("rm %s/t/_delta_log/*5.json", dir);
	cr_assert(!believes(&history, log_dir), "the last commit is gone");
	tdl__history_free(&history);
	close(log_dir);
}

Test(index, that_is_no_file_is_ignored)
{
	static const char *const makers[] = { "ln -s /etc/passwd", "mkfifo", "mkdir", "touch" };
	tdl__history history;
	int log_dir;

	make_table("one");
	log_dir = open_log();
	for (size_t i = 0; i < 4; i++) {
		run("%s %s/t/_delta_log/" TDL__INDEX_NAME, makers[i], dir);
		cr_assert(!believes(&history, log_dir), "%s", makers[i]);
		tdl__history_free(&history);
		run("rm -r %s/t/_delta_log/" TDL__INDEX_NAME, dir);
	}
	close(log_dir);
}

Test(index, a_gap_behind_it_is_found)
{
	char path[80];
	tdl_error error = { 0 };
	tdl_table *table;

	make_table("one");
	save();
	write_commit(7, "");
	snprintf(path, sizeof path, "%s/t", dir);
	cr_assert_eq(tdl_table_open(path, 0, &table, NULL), 0);
	cr_assert_eq(tdl_table_damage(table, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 6);
	cr_assert_eq(tdl_table_head(table), 5);
	tdl_table_free(table);
}

Test(index, is_not_asked_by_who_deletes_or_judges)
{
	tdl_table *table, *replayed;
	tdl_error error = { 0 };

	make_table("one");
	table = open_table();
	cr_assert_eq(tdl__table_replayed(table, &replayed, &error), 0, "%s", error.message);
	cr_assert_eq(replayed, table, "it was replayed already");
	tdl_table_free(replayed);
	/* What comes later far behind the newest is seen all the same. */
	write_commit(1000, "");
	cr_assert_eq(tdl__table_replayed(table, &replayed, &error), 0, "%s", error.message);
	cr_assert_eq(tdl_table_damage(replayed, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 6);
	tdl_table_free(replayed);
	tdl_table_free(table);
	run("rm %s/t/_delta_log/*1000.json", dir);

	save();
	table = open_table();
	cr_assert(table->history.from_index);
	write_commit(1000, "");
	cr_assert_eq(tdl__table_replayed(table, &replayed, &error), 0, "%s", error.message);
	cr_assert_neq(replayed, table);
	cr_assert(!replayed->history.from_index);
	cr_assert_eq(tdl_table_damage(replayed, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 6);
	same_versions(&table->history, &replayed->history);
	tdl_table_free(replayed);
	tdl_table_free(table);
}

static tdl_table *open_indexed(bool believed)
{
	tdl_table *table = open_table();

	cr_assert_eq(table->history.from_index, believed);
	return table;
}

/* A commit that was changed is noticed wherever it stands, to another size or the same, also where
 * somebody dated it back. */
Test(index, of_commits_that_were_changed_is_ignored)
{
	for (int version = 0; version <= 5; version++) {
		for (int how = 0; how < 4; how++) {
			struct timespec times[2];
			char path[160];
			struct stat st;

			run("rm -rf %s/t", dir);
			make_table("one");
			save();
			tdl_table_free(open_indexed(true));
			snprintf(path, sizeof path, "%s/t/_delta_log/%020d.json", dir, version);
			cr_assert_eq(stat(path, &st), 0);
			run("sed 's/OP/%s/' %s >%s/new && %s %s/new %s", how & 2 ? "QP" : "OPPP",
			    path, dir, how & 1 ? "cp" : "mv", dir, path);
			times[0] = st.st_atim;
			times[1] = st.st_mtim;
			cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
			tdl_table_free(open_indexed(false));
		}
	}
}

/* Linked or dated anew it is the same. */
Test(index, of_commits_that_only_look_otherwise_is_believed)
{
	make_table("one");
	save();
	run("cp -al %s/t %s/kept && touch %s/t/_delta_log/*.json", dir, dir, dir);
	tdl_table_free(open_indexed(true));
	/* Put back from a backup, file by file. */
	run("cp %s/t/_delta_log/*.json %s && rm %s/t/_delta_log/*.json && mv %s/*.json "
	    "%s/t/_delta_log",
	    dir, dir, dir, dir, dir);
	tdl_table_free(open_indexed(true));
}

Test(index, of_a_copy_is_ignored)
{
	make_table(ID);
	save();
	run("mv %s/t %s/other && cp -a %s/other %s/t", dir, dir, dir, dir);
	tdl_table_free(open_indexed(false));
	run("rm -r %s/t && mv %s/other %s/t", dir, dir, dir);
	tdl_table_free(open_indexed(true));
}

/* The user's cache is of one log: a copy has another, whatever its table is called. */
Test(index, the_cache_of_a_copy_is_ignored)
{
	tdl_table *table;
	char path[80];

	make_table(ID);
	tdl__index_worth = 3;
	snprintf(path, sizeof path, "%s/t", dir);
	run("cp -a %s/t %s/copy", dir, dir);
	cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
	tdl_table_free(table);
	run("mv %s/t %s/other && mv %s/copy %s/t", dir, dir, dir, dir);
	run("sed -i 's/OP1/OP9/' %s/t/_delta_log/*1.json", dir);
	cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
	cr_assert(!table->history.from_index);
	tdl_table_free(table);
	cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
	cr_assert(table->history.from_index, "it has one of its own now");
	tdl_table_free(table);
}

/* One in the log that is far behind does not keep who may not write there from having their own. */
Test(index, the_longer_one_is_taken)
{
	tdl_table *table;
	char path[80];

	make_table(ID);
	save();
	tdl__index_worth = 3;
	for (int64_t version = 6; version < 12; version++)
		write_commit(version, "");
	snprintf(path, sizeof path, "%s/t", dir);
	for (size_t covered = 6; covered <= 12; covered += 6) {
		cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
		cr_assert_eq(table->covered, covered);
		tdl_table_free(table);
	}
	/* A damaged one in the cache leaves the one in the log. */
	run("truncate -s -1 %s/tinydelta/*.idx", dir);
	cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
	cr_assert_eq(table->covered, 6);
	tdl_table_free(table);
}

/* A header that promises 2 GiB costs what is on the disk. */
Test(index, with_holes_is_refused)
{
	static const struct {
		size_t at;
		uint64_t count;
	} counts[] = { { 96, UINT64_C(1) << 25 }, { 136, UINT64_C(1) << 31 } };
	char path[160];

	make_table("one");
	snprintf(path, sizeof path, "%s/t/_delta_log/" TDL__INDEX_NAME, dir);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct rusage before, after;
		unsigned char header[256];
		uint64_t old, size;
		uint32_t crc;
		int fd;

		save();
		fd = open(path, O_RDWR);
		cr_assert_eq(pread(fd, header, sizeof header, 0), (ssize_t)sizeof header);
		memcpy(&old, header + counts[i].at, sizeof old);
		memcpy(header + counts[i].at, &counts[i].count, sizeof counts[i].count);
		crc = tdl__crc32c(0, header, 252);
		memcpy(header + 252, &crc, sizeof crc);
		cr_assert_eq(pwrite(fd, header, sizeof header, 0), (ssize_t)sizeof header);
		size = (uint64_t)lseek(fd, 0, SEEK_END) +
		       (counts[i].count - old) * (counts[i].at == 96 ? 37 : 1);
		cr_assert_eq(ftruncate(fd, (off_t)size), 0);
		close(fd);
		getrusage(RUSAGE_SELF, &before);
		tdl_table_free(open_indexed(false));
		getrusage(RUSAGE_SELF, &after);
		cr_assert_lt(after.ru_maxrss - before.ru_maxrss, 64 << 10, "KiB");
	}
}

/* What opening had no time to look at, and what only a listing shows. */
Test(index, is_verified_in_the_background)
{
	tdl_error error = { 0 };
	tdl_table *table;
	int r;

	make_table("one");
	save();
	table = open_indexed(true);
	cr_assert_eq(tdl_table_verify_log(table, 2, &error), 1);
	cr_assert_eq(tdl_table_verify_log(table, 3, &error), 1);
	cr_assert_eq(tdl_table_verify_log(table, 3, &error), 0, "all 6 of them");
	cr_assert_eq(tdl_table_verify_log(table, 3, &error), 1, "and once more");
	tdl_table_free(table);

	table = open_indexed(true);
	write_commit(3, "");
	cr_assert_eq(tdl_table_refresh(table, NULL), 0, "the newest is as it was");
	while ((r = tdl_table_verify_log(table, 1, &error)) == 1)
		;
	cr_assert_eq(r, TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 3);
	cr_assert_eq(tdl_table_head(table), 2);
	cr_assert_eq(tdl_table_damage(table, NULL), TDL_ERR_CORRUPT);
	cr_assert_eq(tdl_table_refresh(table, NULL), TDL_ERR_CORRUPT);
	tdl_table_free(table);

	/* So is one that was replayed, as often as one likes. */
	make_table("two");
	table = open_indexed(false);
	for (int pass = 0; pass < 3; pass++)
		cr_assert_eq(tdl_table_verify_log(table, 100, &error), 0);
	write_commit(3, "");
	cr_assert_eq(tdl_table_verify_log(table, 100, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 3);
	tdl_table_free(table);
	make_table("three");
	save();
	table = open_indexed(true);
	table->history.listed = false; /* as after opening one of a million versions */
	write_commit(1000, "");
	cr_assert_eq(tdl_table_refresh(table, NULL), 0);
	cr_assert_eq(tdl_table_verify_log(table, 0, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(error.version, 6);
	tdl_table_free(table);
}

static bool is_there(const char *path)
{
	char whole[200];

	snprintf(whole, sizeof whole, "%s/%s", dir, path);
	return access(whole, F_OK) == 0;
}

Test(index, is_written_only_where_it_is_worth_it)
{
	tdl_table *table;
	char path[80];

	make_table(ID);
	tdl_table_free(open_table());
	cr_assert(!is_there("t/_delta_log/" TDL__INDEX_NAME));

	/* By who may not write there, in the user's cache. */
	tdl__index_worth = 3;
	snprintf(path, sizeof path, "%s/t", dir);
	cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
	cr_assert(!is_there("t/_delta_log/" TDL__INDEX_NAME));
	run("ls %s/tinydelta/" ID "-*-*.idx >/dev/null", dir);
	tdl_table_free(table);
	cr_assert_eq(tdl_table_open(path, 0, &table, NULL), 0);
	cr_assert_eq(table->indexed, 6, "the cache is used");
	tdl_table_free(table);
	run("rm %s/tinydelta/*", dir);

	tdl_table_free(open_table());
	cr_assert(is_there("t/_delta_log/" TDL__INDEX_NAME));
	table = open_table();
	cr_assert_eq(table->indexed, 6);
	tdl_table_free(table);
}

Test(index, a_cache_that_others_may_write_is_not_used)
{
	tdl_table *table;
	char path[80];

	make_table(ID);
	tdl__index_worth = 3;
	snprintf(path, sizeof path, "%s/t", dir);
	cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
	tdl_table_free(table);
	run("chmod 777 %s/tinydelta", dir);
	cr_assert_eq(tdl_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL), 0);
	cr_assert_eq(table->indexed, 0);
	tdl_table_free(table);
}

static tdl_table *listed_table;
static pthread_t second;
static atomic_int listings, second_id;

static void *list_too(void *unused)
{
	(void)unused;
	atomic_store(&second_id, (int)syscall(SYS_gettid));
	cr_assert_eq(tdl__history_list_once(&listed_table->history, NULL), 0);
	return NULL;
}

/* Whether the second thread waits for something. */
static bool is_waiting(void)
{
	char path[64], state = '?';
	FILE *stat;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&second_id));
	stat = atomic_load(&second_id) ? fopen(path, "re") : NULL;
	if (stat) {
		if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
			state = '?';
		fclose(stat);
	}
	return state == 'S';
}

/* While the first one lists, the second one comes. */
static int begin_second(enum tdl__op op, const char *name)
{
	(void)name;
	if (op != TDL__OP_LIST || atomic_fetch_add(&listings, 1) > 0)
		return 0;
	cr_assert_eq(pthread_create(&second, NULL, list_too, NULL), 0);
	while (!is_waiting() && atomic_load(&listings) == 1)
		sched_yield();
	return 0;
}

/* A log of a million versions takes a second to list: the first commit after a mount, which lists
 * it too, waits for that one instead. */
Test(index, the_log_is_listed_by_one_thread_at_a_time)
{
	make_table(ID);
	listed_table = open_table();
	listed_table->history.listed = false; /* as after opening one of a million versions */
	tdl__sys_hook = begin_second;
	cr_assert_eq(tdl__history_list_once(&listed_table->history, NULL), 0);
	pthread_join(second, NULL);
	tdl__sys_hook = NULL;
	cr_assert_eq(atomic_load(&listings), 1);
	tdl_table_free(listed_table);
}
