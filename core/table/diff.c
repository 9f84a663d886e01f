/* SPDX-License-Identifier: MIT */
/*
 * The difference of two versions: which data files they do not share. A data file never changes, so
 * one that both have is the same in both, unless the log says otherwise of it. What rows are, and
 * how they are compared, is row_diff's.
 */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "table/row_diff.h"
#include "util/util.h"

struct named {
	char *path;
	uint64_t index, records, size;
	bool has_crc;
	uint32_t crc;
};

struct list {
	struct named *files;
	size_t count;
};

static void list_free(struct list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->files[i].path);
	free(list->files);
}

/* The files of a version that the other one has not. */
struct side {
	tdl_snapshot *snapshot;
	uint64_t *indexes; /* ascending */
	uint64_t *sizes;
	size_t count;
	uint64_t records; /* as the log says it */
};

static void sides_free(struct side (*sides)[2])
{
	for (unsigned i = 0; i < 2; i++) {
		free((*sides)[i].indexes);
		free((*sides)[i].sizes);
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->path, ((const struct named *)b)->path);
}

static int by_index(const void *a, const void *b)
{
	const struct named *left = a, *right = b;

	return (left->index > right->index) - (left->index < right->index);
}

/* Of two files of one name: unless the log says that they are not as long, or have other bytes. */
static bool is_same_named(const struct named *a, const struct named *b)
{
	return a->size == b->size && (!a->has_crc || !b->has_crc || a->crc == b->crc);
}

/* The files from `first` on, sorted by path. */
static int list_files(struct list *list, tdl_snapshot *snapshot, uint64_t first, tdl_error *error)
{
	uint64_t count = tdl_snapshot_info(snapshot)->files;
	tdl_file file;

	list->files = calloc(count - first + 1, sizeof *list->files);
	if (!list->files)
		return tdl__fail_nomem(error);
	for (uint64_t i = first; i < count; i++) {
		int r = tdl_snapshot_file_entry(snapshot, i, &file, error);
		char *path = r < 0 ? NULL : strdup(file.path);

		if (!path)
			return r < 0 ? r : tdl__fail_nomem(error);
		list->files[list->count++] =
			(struct named){ path,	    i, file.num_records, file.size, file.has_crc32c,
					file.crc32c };
	}
	qsort(list->files, list->count, sizeof *list->files, by_path);
	return 0;
}

/* How many files both have at their beginning, as after appends. */
static int common_beginning(tdl_snapshot *a, tdl_snapshot *b, uint64_t *count, tdl_error *error)
{
	uint64_t a_count = tdl_snapshot_info(a)->files, b_count = tdl_snapshot_info(b)->files;
	uint64_t most = a_count < b_count ? a_count : b_count;
	tdl_file left, right;
	int r = 0;

	for (*count = 0; *count < most; ++*count) {
		r = tdl_snapshot_file_entry(a, *count, &left, error);
		if (r == 0)
			r = tdl_snapshot_file_entry(b, *count, &right, error);
		if (r < 0 || strcmp(left.path, right.path) != 0 || left.size != right.size ||
		    (left.has_crc32c && right.has_crc32c && left.crc32c != right.crc32c))
			break;
	}
	return r;
}

/* Takes out of both lists, which are sorted by path, what is the same in both. */
static void cancel_common(struct list *left, struct list *right)
{
	size_t i = 0, j = 0, left_kept = 0, right_kept = 0;

	while (i < left->count || j < right->count) {
		struct named *a = &left->files[i], *b = &right->files[j];
		int order = i == left->count ? 1 : j == right->count ? -1 : by_path(a, b);

		if (order == 0 && is_same_named(a, b)) {
			free(a->path);
			free(b->path);
			i++;
			j++;
			continue;
		}
		if (order <= 0)
			left->files[left_kept++] = left->files[i++];
		if (order >= 0)
			right->files[right_kept++] = right->files[j++];
	}
	left->count = left_kept;
	right->count = right_kept;
}

/* Makes a side of the files in a list, in the version's order. */
static int fill_side(struct side *side, tdl_snapshot *snapshot, struct list *list, tdl_error *error)
{
	qsort(list->files, list->count, sizeof *list->files, by_index);
	side->snapshot = snapshot;
	side->indexes = calloc(list->count + 1, sizeof *side->indexes);
	side->sizes = calloc(list->count + 1, sizeof *side->sizes);
	if (!side->indexes || !side->sizes)
		return tdl__fail_nomem(error);
	for (size_t i = 0; i < list->count; i++) {
		side->indexes[i] = list->files[i].index;
		side->sizes[i] = list->files[i].size;
		side->records += list->files[i].records;
	}
	side->count = list->count;
	return 0;
}

/* From the lists alone; no file is looked at. */
static int find_sides(struct side sides[2], tdl_snapshot *old_version, tdl_snapshot *new_version,
		      tdl_error *error)
{
	struct list left CLEANUP(list_free) = { 0 };
	struct list right CLEANUP(list_free) = { 0 };
	uint64_t first;
	int r = common_beginning(old_version, new_version, &first, error);

	if (r == 0)
		r = list_files(&left, old_version, first, error);
	if (r == 0)
		r = list_files(&right, new_version, first, error);
	if (r < 0)
		return r;
	cancel_common(&left, &right);
	r = fill_side(&sides[0], old_version, &left, error);
	return r < 0 ? r : fill_side(&sides[1], new_version, &right, error);
}

static int read_side(void *context, size_t index, void *buffer, size_t count, uint64_t offset,
		     size_t *got, tdl_error *error)
{
	const struct side *side = context;

	return tdl_snapshot_read_file(side->snapshot, side->indexes[index], buffer, count, offset,
				      got, error);
}

int tdl_snapshot_diff(tdl_snapshot *old_version, tdl_snapshot *new_version,
		      const tdl_diff_options *options, uint64_t *removed, uint64_t *added,
		      tdl_error *error)
{
	struct side sides[2] CLEANUP(sides_free) = { 0 };
	struct tdl__row_files files[2];
	tdl_diff_options own;
	uint64_t counts[2];
	int r = TDL__OPTIONS_TAKE(&own, context, options, error);

	if (r == 0)
		r = find_sides(sides, old_version, new_version, error);
	if (r < 0)
		return r;
	if (!own.row && (sides[0].count == 0 || sides[1].count == 0)) {
		*removed = sides[0].records;
		*added = sides[1].records;
		return 0;
	}
	for (unsigned i = 0; i < 2; i++)
		files[i] = (struct tdl__row_files){ read_side, &sides[i], sides[i].sizes,
						    sides[i].count };
	r = tdl__row_diff(&files[0], &files[1], &own, counts, error);
	if (r < 0)
		return r;
	*removed = counts[0];
	*added = counts[1];
	return 0;
}
