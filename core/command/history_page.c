/* SPDX-License-Identifier: MIT */
/*
 * The history as a page for browsers: history.html with the versions in it. What the log says goes
 * in as JSON in which no "<" is left, and the page takes it as text.
 */
#include "history_page.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "util/escape.h"
#include "util/util.h"

static const char page[] =
#include "history.html.inc"
	;

/* Texts that many versions share: each once, by its place. */
struct names {
	char **items;
	size_t count, cap;
};

static void free_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
}

/* The place of a text; -1: no memory. */
static long place_of(struct names *names, const char *text)
{
	char *copy;

	/* The newest are the likeliest; a log of many different ones must not cost a search through
	 * all. */
	for (size_t i = names->count; i > 0 && i + 64 > names->count; i--)
		if (strcmp(names->items[i - 1], text) == 0)
			return (long)i - 1;
	copy = strdup(text);
	if (!copy ||
	    !tdl__reserve(&names->items, &names->cap, names->count + 1, sizeof *names->items)) {
		free(copy);
		return -1;
	}
	names->items[names->count++] = copy;
	return (long)names->count - 1;
}

/* As JSON that may stand in a script element. */
static void print_string(FILE *out, const char *text)
{
	size_t n = strlen(text), quoted = tdl__json_quote(NULL, 0, text, n);
	char *string CLEANUP(tdl__free_at) = malloc(quoted);

	if (!string) {
		fputs("\"\"", out);
		return;
	}
	tdl__json_quote(string, quoted, text, n);
	for (size_t i = 0; i < quoted; i++) {
		if (strchr("<>&'", string[i]) && string[i] != '\0')
			fprintf(out, "\\u%04x", (unsigned char)string[i]);
		else
			putc(string[i], out);
	}
}

static void print_member(FILE *out, const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	putc(',', out);
	if (text && *text != '\0')
		print_string(out, text);
	else
		fputs("null", out);
}

static void print_names(FILE *out, const char *name, const struct names *names)
{
	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < names->count; i++) {
		fputs(i > 0 ? "," : "", out);
		print_string(out, names->items[i]);
	}
	putc(']', out);
}

/* One version; the page's script has the same order. */
static int print_version(FILE *out, tdl_table *table, int64_t version, struct names *operations,
			 struct names *users, tdl_error *error)
{
	tdl_version_info info, before = { 0 };
	cJSON *object = NULL;
	const cJSON *restored;
	const char *user;
	int r = tdl_table_version_info(table, version, &info, error);

	if (r == 0 && version > 0)
		r = tdl_table_version_info(table, version - 1, &before, error);
	if (r == 0)
		r = version_object(table, version, &object, error);
	if (r < 0)
		return r;
	fprintf(out, "[%" PRId64 ",%" PRId64 ",%ld,%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64,
		info.version, info.time, place_of(operations, info.operation), info.num_records,
		info.bytes, (int64_t)(info.num_records - before.num_records),
		(int64_t)(info.bytes - before.bytes));
	user = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "userName"));
	if (user && *user != '\0')
		fprintf(out, ",%ld", place_of(users, user));
	else
		fputs(",null", out);
	print_member(out, object, "source");
	print_member(out, object, "userMetadata");
	restored = cJSON_GetObjectItemCaseSensitive(object, "restoredVersion");
	if (cJSON_IsNumber(restored) && restored->valuedouble >= 0)
		fprintf(out, ",%.0f", restored->valuedouble);
	else
		fputs(",null", out);
	if (info.read_version >= 0)
		fprintf(out, ",%" PRId64 "]", info.read_version);
	else
		fputs(",null]", out);
	cJSON_Delete(object);
	return 0;
}

static int print_data(FILE *out, tdl_table *table, const struct versions *versions,
		      tdl_error *error)
{
	struct names operations CLEANUP(free_names) = { 0 }, users CLEANUP(free_names) = { 0 };
	const char *path = tdl_table_path(table), *slash = strrchr(path, '/');
	struct versions all = *versions;
	int64_t version = -1;
	const char *between = "";
	int r;

	all.reverse = false;
	fputs("{\"table\":", out);
	print_string(out, slash && slash[1] != '\0' ? slash + 1 : path);
	fputs(",\"versions\":[\n", out);
	while ((r = version_next(table, &all, &version, error)) > 0) {
		fputs(between, out);
		between = ",\n";
		r = print_version(out, table, version, &operations, &users, error);
		if (r < 0)
			return r;
	}
	putc(']', out);
	print_names(out, "operations", &operations);
	print_names(out, "users", &users);
	putc('}', out);
	return r;
}

static int print_page(FILE *out, tdl_table *table, const struct versions *versions,
		      tdl_error *error)
{
	static const char data[] = "@DATA@", nonce[] = "@NONCE@";
	char random[TDL__HEX_MAX];
	int r = 0;

	/* Nobody who wrote into the log can know it. */
	tdl__random_hex(random);
	for (const char *at = page; *at != '\0' && r == 0;) {
		size_t n = strcspn(at, "@");

		fwrite(at, 1, n, out);
		at += n;
		if (strncmp(at, data, strlen(data)) == 0) {
			r = print_data(out, table, versions, error);
			at += strlen(data);
		} else if (strncmp(at, nonce, strlen(nonce)) == 0) {
			fputs(random, out);
			at += strlen(nonce);
		} else if (*at == '@') {
			putc(*at++, out);
		}
	}
	return r;
}

/* Opens a file that becomes `file` when it is whole. */
static FILE *open_aside(const char *file, char **temp)
{
	mode_t mask = umask(0);
	FILE *out;
	int fd;

	umask(mask);
	if (asprintf(temp, "%s.XXXXXX", file) < 0) {
		*temp = NULL;
		errno = ENOMEM;
		return NULL;
	}
	fd = mkostemp(*temp, O_CLOEXEC);
	out = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (out)
		fchmod(fd, 0666 & ~mask);
	return out;
}

static void free_text(char **text)
{
	free(*text);
}

int history_page(tdl_table *table, const struct versions *versions, const char *file)
{
	bool to_stdout = strcmp(file, "-") == 0;
	char *temp CLEANUP(free_text) = NULL;
	FILE *out = to_stdout ? stdout : open_aside(file, &temp);
	tdl_error error = { 0 };
	bool failed;
	int r;

	if (!out)
		return report("cannot write %s: %s", file, strerror(errno));
	r = print_page(out, table, versions, &error);
	failed = ferror(out) != 0;
	failed = (to_stdout ? fflush(out) : fclose(out)) != 0 || failed;
	if (r == 0 && !failed && (to_stdout || rename(temp, file) == 0))
		return STATUS_DONE;
	if (r == 0)
		report("cannot write %s: %s", file, strerror(errno));
	else
		report_error(&error);
	if (!to_stdout)
		unlink(temp);
	return STATUS_FAILED;
}
