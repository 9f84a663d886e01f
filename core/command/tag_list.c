/* SPDX-License-Identifier: MIT */
/*
 * Which tags a version has.
 */
#include "tag_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "output.h"
#include "util/search.h"
#include "util/util.h"

static bool keep_tag(void *context, const tdl_tag *tag)
{
	struct tag_list *list = context;
	char *name;

	if (tag->version < 0)
		return true;
	name = strdup(tag->name);
	if (!name ||
	    !tdl__reserve(&list->items, &list->cap, list->count + 1, sizeof *list->items)) {
		free(name);
		list->failed = true;
		return false;
	}
	list->items[list->count++] = (struct named_version){ tag->version, name };
	return true;
}

static int by_version(const void *a, const void *b)
{
	const struct named_version *one = a, *other = b;

	if (one->version != other->version)
		return one->version < other->version ? -1 : 1;
	return strcmp(one->name, other->name);
}

int tag_list_read(tdl_table *table, struct tag_list *list, tdl_error *error)
{
	int r = tdl_table_tags(table, keep_tag, list, error);

	/* That they cannot be read is for check and tags to say; the versions can. */
	if (r == TDL_ERR_IO)
		r = 0;
	if (r == 0 && list->failed) {
		*error = (tdl_error){ .code = TDL_ERR_NOMEM, .version = -1 };
		snprintf(error->message, sizeof error->message, "out of memory");
		return error->code;
	}
	if (list->count > 0)
		qsort(list->items, list->count, sizeof *list->items, by_version);
	return r;
}

void tag_list_free(struct tag_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].name);
	free(list->items);
	*list = (struct tag_list){ 0 };
}

bool tag_list_any(const struct tag_list *list)
{
	return list && list->count > 0;
}

/* The first tag of a version, or of a later one. */
static size_t first_of(const struct tag_list *list, int64_t version)
{
	return !list ? 0 : tdl__lower_bound(list->count, i, list->items[i].version < version);
}

static bool is_of(const struct tag_list *list, size_t at, int64_t version)
{
	return list && at < list->count && list->items[at].version == version;
}

char *tag_list_names(const struct tag_list *list, int64_t version)
{
	char *names = NULL;
	size_t length;
	FILE *text;

	if (!is_of(list, first_of(list, version), version))
		return NULL;
	text = open_memstream(&names, &length);
	if (!text)
		return NULL;
	for (size_t i = first_of(list, version), first = i; is_of(list, i, version); i++)
		fprintf(text, "%s%s", i > first ? "," : "", list->items[i].name);
	fclose(text);
	return names;
}

void tag_list_print_json(const struct tag_list *list, int64_t version)
{
	size_t first = first_of(list, version);

	for (size_t i = first; is_of(list, i, version); i++) {
		output_text("%s", i > first ? "," : ",\"tags\":[");
		output_json_string(list->items[i].name);
	}
	if (is_of(list, first, version))
		output_text("]");
}
