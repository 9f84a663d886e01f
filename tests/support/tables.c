/* SPDX-License-Identifier: MIT */
/*
 * Tables for tests: what most of them need to say in one line.
 */
#include "tables.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"

__attribute__((noreturn)) static void give_up(const char *what, const tdl_error *error)
{
	fprintf(stderr, "%s: %s (%d)\n", what, error->message, error->code);
	abort();
}

void make_table(const char *path)
{
	static const char *const columns[] = { COLUMNS_ID_NAME };
	tdl_schema *schema;
	tdl_error error = { 0 };

	if (tdl_schema_parse(columns, 2, &schema, &error) < 0 ||
	    tdl_table_create(in_scratch("%s", path), schema, NULL, &error) < 0)
		give_up("cannot make a table", &error);
	tdl_schema_free(schema);
}

tdl_table *open_table(const char *path)
{
	tdl_error error = { 0 };
	tdl_table *table;

	if (tdl_table_open(in_scratch("%s", path), 0, &table, &error) < 0)
		give_up("cannot open a table", &error);
	return table;
}

tdl_table *begin_with_table(const char *path)
{
	scratch_begin();
	make_table(path);
	return open_table(path);
}

void end_with_table(tdl_table *table)
{
	faults_off();
	tdl_table_free(table);
	scratch_end();
}

int bytes_fd(const char *bytes, size_t n)
{
	int fd = memfd_create("rows", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

int try_write(tdl_table *table, enum tdl_operation operation, const char *rows, int64_t *version,
	      tdl_error *error)
{
	int fd = bytes_fd(rows, strlen(rows));
	int r = tdl_table_write(table, operation, fd, "rows", NULL, version, error);

	close(fd);
	return r;
}

int64_t append_rows(tdl_table *table, const char *rows)
{
	tdl_error error = { 0 };
	int64_t version;

	if (try_write(table, TDL_APPEND, rows, &version, &error) < 0)
		give_up("cannot append", &error);
	return version;
}

int64_t overwrite_rows(tdl_table *table, const char *rows)
{
	tdl_error error = { 0 };
	int64_t version;

	if (try_write(table, TDL_OVERWRITE, rows, &version, &error) < 0)
		give_up("cannot overwrite", &error);
	return version;
}

int64_t restore_version(tdl_table *table, int64_t target)
{
	tdl_error error = { 0 };
	int64_t version;

	if (tdl_table_restore(table, target, NULL, &version, &error) < 0)
		give_up("cannot restore", &error);
	return version;
}

int try_read(tdl_table *table, int64_t version, char **bytes, size_t *n, tdl_error *error)
{
	tdl_snapshot *snapshot;
	uint64_t size;
	size_t got = 0;
	char *all = NULL;
	int r = tdl_snapshot_open(table, version, &snapshot, error);

	if (r < 0)
		return r;
	r = tdl_snapshot_size(snapshot, &size, error);
	if (r == 0) {
		all = malloc((size_t)size + 1);
		if (!all) {
			tdl_snapshot_unref(snapshot);
			*error = (tdl_error){ .code = TDL_ERR_NOMEM, .message = "no memory" };
			return TDL_ERR_NOMEM;
		}
		/* One more than there is: the end must show itself. */
		r = tdl_snapshot_read(snapshot, all, (size_t)size + 1, 0, &got, error);
	}
	tdl_snapshot_unref(snapshot);
	if (r < 0) {
		free(all);
		return r;
	}
	if (got != size) {
		fprintf(stderr, "%zu bytes read of %" PRIu64 "\n", got, size);
		abort();
	}
	all[got] = '\0';
	*bytes = all;
	if (n)
		*n = got;
	return 0;
}

char *read_version(tdl_table *table, int64_t version, size_t *n)
{
	tdl_error error = { 0 };
	char *bytes;

	if (try_read(table, version, &bytes, n, &error) < 0)
		give_up("cannot read a version", &error);
	return bytes;
}

void expect_version(const char *path, int64_t version, const char *rows)
{
	tdl_table *table = open_table(path);
	char *bytes = read_version(table, version, NULL);

	if (strcmp(bytes, rows) != 0) {
		fprintf(stderr, "version %" PRId64 " is\n%sand should be\n%s", version, bytes,
			rows);
		abort();
	}
	free(bytes);
	tdl_table_free(table);
}

const char *commit_path(const char *table, int64_t version)
{
	return in_scratch("%s/_delta_log/%020" PRId64 ".json", table, version);
}

void put_raw_commit(const char *table, int64_t version, const char *bytes, size_t n)
{
	if (!is_there(in_scratch("%s", table))) {
		make_dir(table);
		make_dir(in_scratch("%s/_delta_log", table));
	}
	put_bytes(commit_path(table, version), bytes, n);
}

void put_commit(const char *table, int64_t version, const char *lines)
{
	char *text;
	int n;

	n = version == 0 ? asprintf(&text,
				    "{\"commitInfo\":{\"timestamp\":1700000000000,\"operation\":"
				    "\"CREATE\",\"readVersion\":null}}\n%s",
				    lines)
			 : asprintf(&text,
				    "{\"commitInfo\":{\"timestamp\":%" PRId64
				    ",\"operation\":\"APPEND\",\"readVersion\":%" PRId64 "}}\n%s",
				    1700000000000 + version, version - 1, lines);
	if (n < 0)
		abort();
	put_raw_commit(table, version, text, (size_t)n);
	free(text);
}

unsigned commits_in(const char *table)
{
	char *names = names_in(in_scratch("%s/_delta_log", table));
	unsigned count = 0;

	for (const char *name = strtok(names, "\n"); name; name = strtok(NULL, "\n"))
		count += !strstr(name, ".idx") && strcmp(name, "_writers.lock") != 0;
	free(names);
	return count;
}

static void age_in(const char *directory)
{
	char *names = names_in(directory), *rest = names, *name;
	struct stat st;

	while ((name = strsep(&rest, "\n")) && *name != '\0') {
		const char *path = in_scratch("%s/%s", directory, name);

		if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
			age(path, 7200);
	}
	free(names);
}

void age_all(const char *table)
{
	char *names, *rest, *name;

	age_in(in_scratch("%s", table));
	age_in(in_scratch("%s/_delta_log", table));
	if (!is_there(in_scratch("%s/_incoming", table)))
		return;
	rest = names = names_in(in_scratch("%s/_incoming", table));
	while ((name = strsep(&rest, "\n")) && *name != '\0')
		age_in(in_scratch("%s/_incoming/%s", table, name));
	free(names);
}

static char *line_room(void)
{
	static char lines[32][512];
	static unsigned next;

	return lines[next++ % 32];
}

const char *add_line(const char *path, size_t size, unsigned records)
{
	char *line = line_room();

	snprintf(line, 512, "{\"add\":{\"path\":\"%s\",\"size\":%zu,\"numRecords\":%u}}\n", path,
		 size, records);
	return line;
}

const char *remove_line(const char *path)
{
	char *line = line_room();

	snprintf(line, 512, "{\"remove\":{\"path\":\"%s\"}}\n", path);
	return line;
}

const char *golden(const char *format, ...)
{
	static char paths[16][512];
	static unsigned next;
	char *path = paths[next++ % 16];
	const char *data = getenv("TDL_TEST_DATA");
	int n = snprintf(path, 512, "%s/", data ? data : "tests/data");
	va_list args;

	va_start(args, format);
	vsnprintf(path + n, 512 - (size_t)n, format, args);
	va_end(args);
	return path;
}

static void note(void *context, const char *path)
{
	fprintf(context, "%s\n", path);
}

char *vacuum(tdl_table *table, bool dry_run)
{
	tdl_vacuum_options options = { .dry_run = dry_run };
	tdl_error error = { 0 };
	char *found = NULL;
	size_t size;
	FILE *out = open_memstream(&found, &size);

	if (!out)
		abort();
	if (tdl_table_vacuum(table, &options, note, out, &error) < 0)
		give_up("cannot vacuum", &error);
	fclose(out);
	return found;
}
