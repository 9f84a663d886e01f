/* SPDX-License-Identifier: MIT */
/*
 * The array of data files and the lists on it. Knows sizes and names, not commits and not disks.
 */
#include "filelist.h"

#include <stdlib.h>
#include <string.h>

#include "action.h"
#include "hash.h"
#include "util.h"

static const char part_prefix[] = "part-", part_suffix[] = ".jsonl";

tdl__file_key tdl__file_key_of(const char *path)
{
	tdl__file_key key = { .odd = NULL };

	if (strlen(path) != 43 || memcmp(path, part_prefix, 5) != 0 ||
	    !tdl__unhex(key.id, path + 5) || strcmp(path + 37, part_suffix) != 0)
		key.odd = path;
	return key;
}

bool tdl__file_key_equal(const tdl__file_key *a, const tdl__file_key *b)
{
	if (a->odd != NULL || b->odd != NULL)
		return a->odd != NULL && b->odd != NULL && strcmp(a->odd, b->odd) == 0;
	return memcmp(a->id, b->id, 16) == 0;
}

uint64_t tdl__file_key_hash(const tdl__file_key *key)
{
	return key->odd == NULL ? tdl__hash(key->id, sizeof key->id)
				: tdl__hash(key->odd, strlen(key->odd));
}

void tdl__file_key_path(const tdl__file_key *key, char *out)
{
	if (key->odd != NULL) {
		strcpy(out, key->odd);
		return;
	}
	memcpy(out, part_prefix, 5);
	tdl__hex(out + 5, key->id);
	strcpy(out + 37, part_suffix);
}

void tdl__filelist_free(tdl__filelist *files)
{
	tdl__filelist_cut(files, 0);
	free(files->ids);
	free(files->ends);
	free(files->records);
	free(files->crcs);
	free(files->flags);
	free(files->lists);
	free(files->odd);
	free(files->lacks);
	*files = (tdl__filelist){ 0 };
}

void tdl__filelist_reset(tdl__filelist *files)
{
	tdl__list *lists = tdl__steal(files->lists);
	size_t cap = files->list_cap;

	tdl__filelist_free(files);
	files->lists = lists;
	files->list_cap = lists != NULL ? cap : 0;
	files->list_count = files->list_cap > 0 ? 1 : 0;
	if (files->list_count > 0)
		lists[0] = (tdl__list){ 0 };
}

bool tdl__filelist_add(tdl__filelist *files, const tdl__file_key *key, uint64_t size,
		       uint64_t records, uint32_t crc, unsigned flags)
{
	size_t n = files->count;
	char *path = NULL;

	if (!tdl__reserve(&files->ids, &files->ids_cap, n + 1, sizeof *files->ids) ||
	    !tdl__reserve(&files->ends, &files->ends_cap, n + 1, sizeof *files->ends) ||
	    !tdl__reserve(&files->records, &files->records_cap, n + 1, sizeof *files->records) ||
	    !tdl__reserve(&files->crcs, &files->crcs_cap, n + 1, sizeof *files->crcs) ||
	    !tdl__reserve(&files->flags, &files->flags_cap, n + 1, sizeof *files->flags))
		return false;
	if ((flags & TDL__FILE_LACKS) != 0 &&
	    !tdl__reserve(&files->lacks, &files->lacks_cap, files->lacks_count + 1,
			  sizeof *files->lacks))
		return false;
	if (key->odd != NULL) {
		path = strdup(key->odd);
		if (path == NULL || !tdl__reserve(&files->odd, &files->odd_cap,
						  files->odd_count + 1, sizeof *files->odd)) {
			free(path);
			return false;
		}
		files->odd[files->odd_count++] = (tdl__odd){ n, path };
	}
	memcpy(files->ids[n], key->id, 16);
	files->ends[n] = (n > 0 ? files->ends[n - 1] : 0) + size;
	files->records[n] = (n > 0 ? files->records[n - 1] : 0) + records;
	files->crcs[n] = crc;
	if ((flags & TDL__FILE_HAS_CRC) != 0)
		flags |= TDL__FILE_KNOWN;
	/* Nothing is nothing's last byte: an empty file needs no newline. */
	if (size == 0)
		flags = (flags | TDL__FILE_KNOWN) & ~TDL__FILE_LACKS;
	files->flags[n] = (uint8_t)((flags & ~TDL__FILE_ODD) | (path != NULL ? TDL__FILE_ODD : 0));
	if ((flags & TDL__FILE_LACKS) != 0)
		files->lacks[files->lacks_count++] = n;
	files->count++;
	return true;
}

void tdl__filelist_cut(tdl__filelist *files, size_t count)
{
	while (files->odd_count > 0 && files->odd[files->odd_count - 1].index >= count)
		free(files->odd[--files->odd_count].path);
	while (files->lacks_count > 0 && files->lacks[files->lacks_count - 1] >= count)
		files->lacks_count--;
	files->count = count;
}

void tdl__filelist_trim(tdl__filelist *files)
{
	size_t n = files->count;

	tdl__trim(&files->ids, &files->ids_cap, n, sizeof *files->ids);
	tdl__trim(&files->ends, &files->ends_cap, n, sizeof *files->ends);
	tdl__trim(&files->records, &files->records_cap, n, sizeof *files->records);
	tdl__trim(&files->crcs, &files->crcs_cap, n, sizeof *files->crcs);
	tdl__trim(&files->flags, &files->flags_cap, n, sizeof *files->flags);
}

bool tdl__filelist_start(tdl__filelist *files)
{
	if (!tdl__reserve(&files->lists, &files->list_cap, files->list_count + 1,
			  sizeof *files->lists))
		return false;
	files->lists[files->list_count++] = (tdl__list){ .first = files->count };
	return true;
}

void tdl__filelist_settle(tdl__filelist *files, size_t list, uint64_t count)
{
	tdl__list *at = &files->lists[list];

	while (at->known < count && (files->flags[at->first + at->known] & TDL__FILE_KNOWN) != 0)
		at->known++;
}

tdl__file_key tdl__filelist_key(const tdl__filelist *files, uint64_t index)
{
	tdl__file_key key = { .odd = NULL };
	size_t low = 0, high = files->odd_count;

	memcpy(key.id, files->ids[index], 16);
	if ((files->flags[index] & TDL__FILE_ODD) == 0)
		return key;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (files->odd[middle].index <= index)
			low = middle;
		else
			high = middle;
	}
	key.odd = files->odd[low].path;
	return key;
}

uint64_t tdl__filelist_size(const tdl__filelist *files, uint64_t index)
{
	return files->ends[index] - (index > 0 ? files->ends[index - 1] : 0);
}

uint64_t tdl__filelist_records(const tdl__filelist *files, uint64_t index)
{
	return files->records[index] - (index > 0 ? files->records[index - 1] : 0);
}

static uint64_t sum(const uint64_t *running, uint64_t first, uint64_t count)
{
	if (count == 0)
		return 0;
	return running[first + count - 1] - (first > 0 ? running[first - 1] : 0);
}

uint64_t tdl__filelist_bytes(const tdl__filelist *files, size_t list, uint64_t count)
{
	return sum(files->ends, files->lists[list].first, count);
}

uint64_t tdl__filelist_rows(const tdl__filelist *files, size_t list, uint64_t count)
{
	return sum(files->records, files->lists[list].first, count);
}

/* How many indexes in `lacks` are below `index`. */
static size_t lacks_below(const tdl__filelist *files, uint64_t index)
{
	size_t low = 0, high = files->lacks_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (files->lacks[middle] < index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool tdl__filelist_learn(tdl__filelist *files, uint64_t index, bool lacks)
{
	if ((files->flags[index] & TDL__FILE_KNOWN) != 0)
		return true;
	if (lacks) {
		size_t at = lacks_below(files, index);

		if (!tdl__reserve(&files->lacks, &files->lacks_cap, files->lacks_count + 1,
				  sizeof *files->lacks))
			return false;
		memmove(files->lacks + at + 1, files->lacks + at,
			(files->lacks_count - at) * sizeof *files->lacks);
		files->lacks[at] = index;
		files->lacks_count++;
	}
	files->flags[index] |= (uint8_t)(TDL__FILE_KNOWN | (lacks ? TDL__FILE_LACKS : 0));
	return true;
}

uint64_t tdl__filelist_offset(const tdl__filelist *files, size_t list, uint64_t nth)
{
	uint64_t first = files->lists[list].first;

	return sum(files->ends, first, nth) +
	       (lacks_below(files, first + nth) - lacks_below(files, first));
}

uint64_t tdl__filelist_locate(const tdl__filelist *files, size_t list, uint64_t count,
			      uint64_t offset)
{
	uint64_t low = 0, high = count;

	/* The last file that begins at or before the offset: empty ones before it do not count. */
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (tdl__filelist_offset(files, list, middle) <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}
