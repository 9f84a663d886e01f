/* SPDX-License-Identifier: MIT */
/*
 * The array of data files and the lists on it. Knows sizes and names, not commits and not disks.
 */
#include "log/filelist.h"

#include <stdlib.h>
#include <string.h>

#include "util/hash.h"
#include "util/search.h"
#include "util/util.h"

static const char part_prefix[] = "part-", part_suffix[] = ".jsonl";

tdl__file_key tdl__file_key_of(const char *path)
{
	tdl__file_key key = { .named = NULL };

	if (strlen(path) != 43 || memcmp(path, part_prefix, 5) != 0 ||
	    !tdl__unhex(key.id, path + 5) || strcmp(path + 37, part_suffix) != 0)
		key.named = path;
	return key;
}

bool tdl__file_key_equal(const tdl__file_key *a, const tdl__file_key *b)
{
	if (a->named || b->named)
		return a->named && b->named && strcmp(a->named, b->named) == 0;
	return memcmp(a->id, b->id, 16) == 0;
}

uint64_t tdl__file_key_hash(const tdl__file_key *key)
{
	return !key->named ? tdl__hash(key->id, sizeof key->id)
			   : tdl__hash(key->named, strlen(key->named));
}

void tdl__file_key_path(const tdl__file_key *key, char *out)
{
	if (key->named) {
		strcpy(out, key->named);
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
	free(files->named);
	free(files->no_eol);
	free(files->blocks);
	free(files->slots);
	*files = (tdl__filelist){ 0 };
}

void tdl__filelist_reset(tdl__filelist *files)
{
	tdl__list *lists = tdl__steal(files->lists);
	size_t cap = files->list_cap;

	tdl__filelist_free(files);
	files->lists = lists;
	files->list_cap = lists ? cap : 0;
	files->list_count = files->list_cap > 0 ? 1 : 0;
	if (files->list_count > 0)
		lists[0] = (tdl__list){ 0 };
}

/* How many numbers are kept for the blocks of a file with these flags. */
static uint64_t numbers_for(uint64_t size, unsigned flags)
{
	if ((flags & TDL__FILE_BLOCKS) == 0)
		return 0;
	return tdl__block_count(size) * ((flags & TDL__FILE_ROWS) != 0 ? 2 : 1);
}

static bool reserve_files(tdl__filelist *files, const tdl__file_key *key, unsigned flags)
{
	size_t n = files->count + 1;

	return tdl__reserve(&files->ids, &files->ids_cap, n, sizeof *files->ids) &&
	       tdl__reserve(&files->ends, &files->ends_cap, n, sizeof *files->ends) &&
	       tdl__reserve(&files->records, &files->records_cap, n, sizeof *files->records) &&
	       tdl__reserve(&files->crcs, &files->crcs_cap, n, sizeof *files->crcs) &&
	       tdl__reserve(&files->flags, &files->flags_cap, n, sizeof *files->flags) &&
	       ((flags & TDL__FILE_NO_EOL) == 0 ||
		tdl__reserve(&files->no_eol, &files->no_eol_cap, files->no_eol_count + 1,
			     sizeof *files->no_eol)) &&
	       ((flags & TDL__FILE_BLOCKS) == 0 ||
		tdl__reserve(&files->blocks, &files->block_cap, files->block_count + 1,
			     sizeof *files->blocks)) &&
	       (!key->named || tdl__reserve(&files->named, &files->named_cap,
					    files->named_count + 1, sizeof *files->named));
}

/* Takes the numbers of its blocks (at blocks->numbers) on success. */
static bool add_file(tdl__filelist *files, const tdl__file_key *key, uint64_t size,
		     uint64_t records, uint32_t crc, unsigned flags, const tdl__blocks *blocks)
{
	size_t n = files->count;
	char *path = NULL;

	if (!reserve_files(files, key, flags))
		return false;
	if (key->named) {
		path = strdup(key->named);
		if (!path)
			return false;
		files->named[files->named_count++] = (tdl__named_file){ n, path };
	}
	memcpy(files->ids[n], key->id, 16);
	files->ends[n] = (n > 0 ? files->ends[n - 1] : 0) + size;
	files->records[n] = (n > 0 ? files->records[n - 1] : 0) + records;
	files->crcs[n] = crc;
	if ((flags & TDL__FILE_HAS_CRC) != 0)
		flags |= TDL__FILE_EOL_KNOWN;
	/* Nothing is nothing's last byte: an empty file needs no newline. */
	if (size == 0)
		flags = (flags | TDL__FILE_EOL_KNOWN) & ~TDL__FILE_NO_EOL;
	files->flags[n] = (uint8_t)((flags & ~TDL__FILE_NAMED) | (path ? TDL__FILE_NAMED : 0));
	if ((flags & TDL__FILE_NO_EOL) != 0)
		files->no_eol[files->no_eol_count++] = n;
	if ((flags & TDL__FILE_BLOCKS) != 0) {
		files->blocks[files->block_count] = *blocks;
		files->blocks[files->block_count++].index = n;
		if (!blocks->shared)
			files->number_count += numbers_for(size, flags);
	}
	files->count++;
	return true;
}

bool tdl__filelist_add(tdl__filelist *files, const tdl__file_key *key, uint64_t size,
		       uint64_t records, const tdl__sums *sums)
{
	bool has_blocks = sums->has_crc && sums->blocks && size > 0;
	unsigned flags = (sums->has_crc ? TDL__FILE_HAS_CRC : 0) |
			 (has_blocks ? TDL__FILE_BLOCKS : 0) |
			 (has_blocks && sums->rows ? TDL__FILE_ROWS : 0);
	size_t count = (size_t)tdl__block_count(size);
	tdl__blocks blocks = { .at = files->number_count };

	if (has_blocks) {
		blocks.numbers = calloc((size_t)numbers_for(size, flags) + 1, sizeof(uint32_t));
		if (!blocks.numbers)
			return false;
		memcpy(blocks.numbers, sums->blocks, count * sizeof(uint32_t));
		if (sums->rows)
			memcpy(blocks.numbers + count, sums->rows, count * sizeof(uint32_t));
	}
	if (add_file(files, key, size, records, sums->crc, flags, &blocks))
		return true;
	free(blocks.numbers);
	return false;
}

/* The entry in `blocks` for a file that has one. */
static const tdl__blocks *blocks_of(const tdl__filelist *files, uint64_t index)
{
	return &files->blocks[tdl__lower_bound(files->block_count, i,
					       files->blocks[i].index < index)];
}

bool tdl__filelist_add_again(tdl__filelist *files, uint64_t index, uint64_t records)
{
	tdl__file_key key = tdl__filelist_key(files, index);
	tdl__blocks blocks = { 0 };

	if ((files->flags[index] & TDL__FILE_BLOCKS) != 0)
		blocks = *blocks_of(files, index);
	blocks.shared = true;
	return add_file(files, &key, tdl__filelist_size(files, index), records, files->crcs[index],
			files->flags[index], &blocks);
}

tdl__sums tdl__filelist_sums(const tdl__filelist *files, uint64_t index)
{
	unsigned flags = files->flags[index];
	tdl__sums sums = { .has_crc = (flags & TDL__FILE_HAS_CRC) != 0, .crc = files->crcs[index] };

	if ((flags & TDL__FILE_BLOCKS) != 0)
		sums.blocks = blocks_of(files, index)->numbers;
	if ((flags & TDL__FILE_ROWS) != 0)
		sums.rows = sums.blocks + tdl__block_count(tdl__filelist_size(files, index));
	return sums;
}

static void free_slots(tdl__filelist *files)
{
	free(files->slots);
	files->slots = NULL;
	files->slot_count = 0;
	files->slots_used = 0;
	files->hashed = 0;
}

void tdl__filelist_cut(tdl__filelist *files, size_t count)
{
	while (files->named_count > 0 && files->named[files->named_count - 1].index >= count)
		free(files->named[--files->named_count].path);
	while (files->no_eol_count > 0 && files->no_eol[files->no_eol_count - 1] >= count)
		files->no_eol_count--;
	while (files->block_count > 0 && files->blocks[files->block_count - 1].index >= count) {
		const tdl__blocks *last = &files->blocks[--files->block_count];

		if (!last->shared) {
			files->number_count = last->at;
			free(last->numbers);
		}
	}
	if (files->hashed > count)
		free_slots(files);
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

/* The slot for a name and size: 0, or of a file with both. */
static uint64_t *sums_slot(const tdl__filelist *files, const tdl__file_key *key, uint64_t size)
{
	size_t mask = files->slot_count - 1, at = tdl__file_key_hash(key) & mask;

	for (;; at = (at + 1) & mask) {
		uint64_t *slot = &files->slots[at];
		tdl__file_key other;

		if (*slot == 0)
			return slot;
		other = tdl__filelist_key(files, *slot - 1);
		if (tdl__filelist_size(files, *slot - 1) == size &&
		    tdl__file_key_equal(&other, key))
			return slot;
	}
}

static bool grow_slots(tdl__filelist *files)
{
	size_t old_count = files->slot_count, want = old_count == 0 ? 1024 : old_count * 2;
	uint64_t *old = files->slots, *slots;

	if (files->slots_used < old_count / 2)
		return true;
	slots = calloc(want, sizeof *slots);
	if (!slots)
		return false;
	files->slots = slots;
	files->slot_count = want;
	for (size_t i = 0; i < old_count; i++) {
		tdl__file_key key;

		if (old[i] == 0)
			continue;
		key = tdl__filelist_key(files, old[i] - 1);
		*sums_slot(files, &key, tdl__filelist_size(files, old[i] - 1)) = old[i];
	}
	free(old);
	return true;
}

bool tdl__filelist_find_sums(tdl__filelist *files, const tdl__file_key *key, uint64_t size,
			     uint64_t *index)
{
	for (; files->hashed < files->count; files->hashed++) {
		tdl__file_key other;
		uint64_t *slot;

		if ((files->flags[files->hashed] & TDL__FILE_HAS_CRC) == 0)
			continue;
		if (!grow_slots(files))
			return false;
		other = tdl__filelist_key(files, files->hashed);
		slot = sums_slot(files, &other, tdl__filelist_size(files, files->hashed));
		files->slots_used += *slot == 0;
		*slot = files->hashed + 1;
	}
	*index = files->slot_count > 0 ? *sums_slot(files, key, size) - 1 : UINT64_MAX;
	return true;
}

bool tdl__filelist_start(tdl__filelist *files)
{
	if (!tdl__reserve(&files->lists, &files->list_cap, files->list_count + 1,
			  sizeof *files->lists))
		return false;
	files->lists[files->list_count++] = (tdl__list){ .first = files->count };
	return true;
}

void tdl__filelist_resolve_eol(tdl__filelist *files, size_t list, uint64_t count)
{
	tdl__list *at = &files->lists[list];

	while (at->eol_known < count &&
	       (files->flags[at->first + at->eol_known] & TDL__FILE_EOL_KNOWN) != 0)
		at->eol_known++;
}

tdl__file_key tdl__filelist_key(const tdl__filelist *files, uint64_t index)
{
	tdl__file_key key = { .named = NULL };
	memcpy(key.id, files->ids[index], 16);
	if ((files->flags[index] & TDL__FILE_NAMED) == 0)
		return key;
	key.named =
		files->named[tdl__lower_bound(files->named_count, i, files->named[i].index < index)]
			.path;
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

/* How many indexes in `no_eol` are below `index`. */
static size_t no_eol_below(const tdl__filelist *files, uint64_t index)
{
	return tdl__lower_bound(files->no_eol_count, i, files->no_eol[i] < index);
}

bool tdl__filelist_set_eol(tdl__filelist *files, uint64_t index, bool no_eol)
{
	if ((files->flags[index] & TDL__FILE_EOL_KNOWN) != 0)
		return true;
	if (no_eol) {
		size_t at = no_eol_below(files, index);

		if (!tdl__reserve(&files->no_eol, &files->no_eol_cap, files->no_eol_count + 1,
				  sizeof *files->no_eol))
			return false;
		memmove(files->no_eol + at + 1, files->no_eol + at,
			(files->no_eol_count - at) * sizeof *files->no_eol);
		files->no_eol[at] = index;
		files->no_eol_count++;
	}
	files->flags[index] |= (uint8_t)(TDL__FILE_EOL_KNOWN | (no_eol ? TDL__FILE_NO_EOL : 0));
	return true;
}

uint64_t tdl__filelist_offset(const tdl__filelist *files, size_t list, uint64_t nth)
{
	uint64_t first = files->lists[list].first;

	return sum(files->ends, first, nth) +
	       (no_eol_below(files, first + nth) - no_eol_below(files, first));
}

uint64_t tdl__filelist_locate(const tdl__filelist *files, size_t list, uint64_t count,
			      uint64_t offset)
{
	uint64_t behind =
		tdl__lower_bound(count, i, tdl__filelist_offset(files, list, i) <= offset);

	/* The last file that begins at or before the offset: empty ones before it do not count. */
	return behind > 0 ? behind - 1 : 0;
}

void tdl__filelist_save_blocks(const tdl__filelist *files, uint64_t *entries, uint32_t *numbers)
{
	for (size_t i = 0; i < files->block_count; i++) {
		const tdl__blocks *blocks = &files->blocks[i];
		uint64_t count = numbers_for(tdl__filelist_size(files, blocks->index),
					     files->flags[blocks->index]);

		*entries++ = blocks->index;
		*entries++ = blocks->at;
		if (!blocks->shared)
			memcpy(numbers + blocks->at, blocks->numbers, count * sizeof *numbers);
	}
}

/* Of the files whose entries have these numbers, which do not share them, the one whose own begin
 * at `at`; NULL: none. */
static const tdl__blocks *owner_of(const tdl__filelist *files, const size_t *owners, size_t count,
				   uint64_t at)
{
	size_t place = tdl__lower_bound(count, i, files->blocks[owners[i]].at < at);

	return place < count && files->blocks[owners[place]].at == at
		       ? &files->blocks[owners[place]]
		       : NULL;
}

bool tdl__filelist_load_blocks(tdl__filelist *files, const uint64_t *entries, uint64_t count,
			       const uint32_t *numbers, uint64_t number_count)
{
	size_t *owners CLEANUP(tdl__free_at) = calloc(count + 1, sizeof *owners);
	size_t owner_count = 0;

	if (!owners ||
	    !tdl__reserve(&files->blocks, &files->block_cap, (size_t)count, sizeof *files->blocks))
		return false;
	for (uint64_t i = 0; i < count; i++) {
		tdl__blocks blocks = { .index = entries[2 * i], .at = entries[2 * i + 1] };
		uint64_t n;

		if (blocks.index >= files->count || (i > 0 && blocks.index <= entries[2 * i - 2]) ||
		    (files->flags[blocks.index] & TDL__FILE_BLOCKS) == 0)
			return false;
		n = numbers_for(tdl__filelist_size(files, blocks.index),
				files->flags[blocks.index]);
		if (blocks.at == files->number_count) {
			if (n == 0 || n > number_count - files->number_count)
				return false;
			blocks.numbers = malloc(n * sizeof *numbers);
			if (!blocks.numbers)
				return false;
			memcpy(blocks.numbers, numbers + blocks.at, n * sizeof *numbers);
			files->number_count += n;
			owners[owner_count++] = files->block_count;
		} else {
			const tdl__blocks *owner = owner_of(files, owners, owner_count, blocks.at);

			if (!owner || n != numbers_for(tdl__filelist_size(files, owner->index),
						       files->flags[owner->index]))
				return false;
			blocks.numbers = owner->numbers;
			blocks.shared = true;
		}
		files->blocks[files->block_count++] = blocks;
	}
	return files->number_count == number_count;
}
