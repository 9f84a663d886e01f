/* SPDX-License-Identifier: MIT */
/*
 * Reading and listing tags. Their contents are judged by our own guard before cJSON takes a string
 * out of them. What makes and removes them stands in commit/tag.c.
 */
#include "table/tags.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "log/revision.h"
#include "sys.h"
#include "util/escape.h"
#include "json/json.h"

/* Of objects and arrays in members that nobody here reads. */
#define DEPTH_MAX 16

void tdl__tag_clear(tdl__tag *tag)
{
	free(tag->user_name);
	free(tag->message);
	*tag = (tdl__tag){ 0 };
}

int tdl__tags_open(const tdl_table *table, int *dir, tdl_error *error)
{
	int err = tdl__sys_open(table->dir, TDL__TAGS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
				dir);

	if (err == ENOENT)
		return tdl__fail(error, TDL_ERR_NOT_FOUND, "%s has no tags", table->path);
	return err == 0 ? 0
			: tdl__fail_errno(error, err, "cannot open %s/" TDL__TAGS_DIR, table->path);
}

/* ---- Contents ------------------------------------------------------------------------------ */

static int no_tag(tdl_error *error, const char *why)
{
	return tdl__fail(error, TDL_ERR_CORRUPT, "%s", why);
}

/* A string member as text, or NULL where it is missing, none, or has a NUL in it. */
static int read_string(tdl__span value, char **text, tdl_error *error)
{
	char *copy CLEANUP(tdl__free_at) = NULL;
	cJSON *json;

	*text = NULL;
	if (!value.p || tdl__json_kind(value) != '"')
		return 0;
	copy = strndup(value.p, value.n);
	json = copy ? cJSON_Parse(copy) : NULL;
	if (json && json->valuestring)
		*text = strdup(json->valuestring);
	cJSON_Delete(json);
	return copy && (!json || *text) ? 0 : tdl__fail_nomem(error);
}

static int parse_tag(const tdl_table *table, tdl__span text, tdl__tag *tag, tdl_error *error)
{
	enum {
		VERSION,
		TIMESTAMP,
		TABLE_ID,
		USER_NAME,
		MESSAGE,
		MEMBERS
	};
	static const char *const names[MEMBERS] = { "version", "timestamp", "tableId", "userName",
						    "message" };
	tdl__span values[MEMBERS] = { 0 };
	tdl__tag found = { .timestamp = -1 };
	size_t at;
	int r;

	if (!tdl__json_object(text, DEPTH_MAX, names, MEMBERS, values, &at) ||
	    tdl__json_kind(text) != '{')
		return no_tag(error, "is not one JSON object");
	if (!values[VERSION].p || !tdl__json_int64(values[VERSION], &found.version) ||
	    found.version < 0)
		return no_tag(error, "names no version");
	if (!values[TABLE_ID].p || tdl__json_kind(values[TABLE_ID]) != '"' ||
	    !tdl__json_is(values[TABLE_ID], table->id))
		return no_tag(error, "is of another table");
	if (values[TIMESTAMP].p && !tdl__json_int64(values[TIMESTAMP], &found.timestamp))
		found.timestamp = -1;
	r = read_string(values[USER_NAME], &found.user_name, error);
	if (r == 0)
		r = read_string(values[MESSAGE], &found.message, error);
	if (r < 0)
		tdl__tag_clear(&found);
	else
		*tag = found;
	return r;
}

int tdl__tag_read(const tdl_table *table, int dir, const char *name, tdl__tag *tag,
		  tdl_error *error)
{
	char *text CLEANUP(tdl__free_at) = NULL;
	int fd CLEANUP(tdl__close_at) = -1;
	struct stat st;
	size_t got;
	int err = tdl__sys_open_beneath(dir, name, &fd, &st);

	if (err == ENOENT)
		return tdl__fail(error, TDL_ERR_NOT_FOUND, "no such tag: %s", name);
	if (err == ELOOP || err == EXDEV || err == ENXIO || (err == 0 && !S_ISREG(st.st_mode)))
		return no_tag(error, "is not a regular file");
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot read %s/" TDL__TAGS_DIR "/%s",
				       table->path, name);
	if (st.st_size > TDL__TAG_FILE_MAX)
		return no_tag(error, "is larger than a tag can be");
	text = malloc(TDL__TAG_FILE_MAX + 1);
	if (!text)
		return tdl__fail_nomem(error);
	err = tdl__sys_read(fd, text, TDL__TAG_FILE_MAX + 1, &got);
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot read %s/" TDL__TAGS_DIR "/%s",
				       table->path, name);
	if (got > TDL__TAG_FILE_MAX)
		return no_tag(error, "is larger than a tag can be");
	return parse_tag(table, (tdl__span){ text, got }, tag, error);
}

void tdl__tag_spell(const tdl_table *table, int64_t version, int64_t timestamp,
		    const char *user_name, const char *message, tdl__text *text)
{
	tdl__text_format(text,
			 "{\"version\":%" PRId64 ",\"timestamp\":%" PRId64 ",\"tableId\":", version,
			 timestamp);
	tdl__text_quote(text, table->id, strlen(table->id));
	if (user_name) {
		tdl__text_add(text, ",\"userName\":", 12);
		tdl__text_quote(text, user_name, strlen(user_name));
	}
	if (message) {
		tdl__text_add(text, ",\"message\":", 11);
		tdl__text_quote(text, message, strlen(message));
	}
	tdl__text_add(text, "}\n", 2);
}

/* ---- Names --------------------------------------------------------------------------------- */

struct names {
	char **items;
	size_t count, cap;
	bool failed;
};

static bool keep_name(void *context, const char *name)
{
	struct names *names = context;
	char *copy;

	if (name[0] == '.')
		return true;
	copy = strdup(name);
	if (!copy || !tdl__reserve(&names->items, &names->cap, names->count + 1, sizeof copy)) {
		free(copy);
		names->failed = true;
		return false;
	}
	names->items[names->count++] = copy;
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void tdl__tag_names_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

int tdl__tag_names(const tdl_table *table, int dir, char ***names, size_t *count, tdl_error *error)
{
	struct names found = { 0 };
	int err = tdl__sys_list(dir, keep_name, &found);

	if (err != 0 || found.failed) {
		tdl__tag_names_free(found.items, found.count);
		return err != 0 ? tdl__fail_errno(error, err, "cannot list %s/" TDL__TAGS_DIR,
						  table->path)
				: tdl__fail_nomem(error);
	}
	if (found.count > 0)
		qsort(found.items, found.count, sizeof *found.items, by_name);
	*names = found.items;
	*count = found.count;
	return 0;
}

/* ---- What the public calls tell ------------------------------------------------------------ */

/* Fills in what is known of one name. Errors: IO of a folder that is gone, NOMEM. */
static int tell_tag(tdl_table *table, int dir, const char *name, int64_t head,
		    bool (*found)(void *context, const tdl_tag *tag), void *context, bool *go_on,
		    tdl_error *error)
{
	char shown[TDL__TAG_MAX * 4 + 1];
	tdl__tag CLEANUP(tdl__tag_clear) read = { .timestamp = -1 };
	tdl_tag tag = { .name = name, .version = -1, .timestamp = -1 };
	tdl_error why = { 0 };
	int r;

	if (!tdl__tag_name_valid(name, strlen(name))) {
		tag.name = tdl__printable(shown, sizeof shown, name, strlen(name));
		tag.why = "no tag has a name like this";
		*go_on = found(context, &tag);
		return 0;
	}
	r = tdl__tag_read(table, dir, name, &read, &why);
	if (r == TDL_ERR_NOMEM)
		return tdl__fail_nomem(error);
	if (r == TDL_ERR_NOT_FOUND) /* removed just now */
		return 0;
	if (r < 0) {
		tag.why = why.message;
	} else {
		tag.timestamp = read.timestamp;
		tag.user_name = read.user_name;
		tag.message = read.message;
		tag.version = read.version <= head ? read.version : -1;
		tag.why = read.version <= head ? NULL : "names a version that cannot be read";
	}
	*go_on = found(context, &tag);
	return 0;
}

int tdl_table_tags(tdl_table *table, bool (*found)(void *context, const tdl_tag *tag),
		   void *context, tdl_error *error)
{
	int dir CLEANUP(tdl__close_at) = -1;
	char **names = NULL;
	size_t count = 0;
	bool go_on = true;
	int64_t head;
	int r = tdl__tags_open(table, &dir, error);

	if (r == TDL_ERR_NOT_FOUND)
		return 0;
	if (r == 0)
		r = tdl__tag_names(table, dir, &names, &count, error);
	/* The tags first, the log after: a tag's version is older than the tag. */
	if (r == 0) {
		r = tdl__history_refresh(&table->history, error);
		if (r == TDL_ERR_CORRUPT)
			r = 0;
	}
	pthread_rwlock_rdlock(&table->history.lock);
	head = (int64_t)table->history.count - 1;
	pthread_rwlock_unlock(&table->history.lock);
	for (size_t i = 0; i < count && r == 0 && go_on; i++)
		r = tell_tag(table, dir, names[i], head, found, context, &go_on, error);
	tdl__tag_names_free(names, count);
	return r;
}
