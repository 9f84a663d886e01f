/* SPDX-License-Identifier: MIT */
/*
 * The array of data files: names as keys, lists as prefixes, offsets.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/action.h"
#include "log/filelist.h"

#define PART "part-0123456789abcdef0123456789abcdef.jsonl"

Test(filelist, keys)
{
	static const char *const named[] = {
		"part-0123456789ABCDEF0123456789abcdef.jsonl",
		"part-0123456789abcdef0123456789abcde.jsonl",
		"part-0123456789abcdef0123456789abcdef.json",
		"part-0123456789abcdef0123456789abcdefx.jsonl",
		("d/" PART),
		"Part-0123456789abcdef0123456789abcdef.jsonl",
		"x",
	};
	tdl__file_key usual = tdl__file_key_of(PART);
	char path[TDL__PATH_MAX + 1];

	cr_assert_null(usual.named);
	tdl__file_key_path(&usual, path);
	cr_assert_str_eq(path, PART);
	for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
		tdl__file_key key = tdl__file_key_of(named[i]), again = tdl__file_key_of(named[i]);

		cr_assert_not_null(key.named, "%s", named[i]);
		tdl__file_key_path(&key, path);
		cr_assert_str_eq(path, named[i]);
		cr_assert(tdl__file_key_equal(&key, &again));
		cr_assert_eq(tdl__file_key_hash(&key), tdl__file_key_hash(&again));
		cr_assert_not(tdl__file_key_equal(&key, &usual));
		cr_assert_not(tdl__file_key_equal(&usual, &key));
		for (size_t k = 0; k < i; k++) {
			tdl__file_key other = tdl__file_key_of(named[k]);

			cr_assert_not(tdl__file_key_equal(&key, &other));
		}
	}
}

static void add(tdl__filelist *files, const char *path, uint64_t size, uint64_t records,
		unsigned flags)
{
	tdl__file_key key = tdl__file_key_of(path);

	tdl__sums sums = { .has_crc = (flags & TDL__FILE_HAS_CRC) != 0 };

	cr_assert(tdl__filelist_add(files, &key, size, records, &sums));
}

Test(filelist, keeps_what_was_added)
{
	tdl__filelist files = { 0 };
	tdl__file_key key;
	char path[TDL__PATH_MAX + 1];

	cr_assert(tdl__filelist_start(&files));
	add(&files, PART, 10, 1, 0);
	add(&files, "odd/one", 20, 2, TDL__FILE_HAS_CRC);
	add(&files, "part-ffffffffffffffffffffffffffffffff.jsonl", 0, 0, 0);
	add(&files, "odd/two", UINT64_C(1) << 62, 4, 0);
	key = tdl__filelist_key(&files, 0);
	cr_assert_null(key.named);
	key = tdl__filelist_key(&files, 1);
	cr_assert_str_eq(key.named, "odd/one");
	key = tdl__filelist_key(&files, 2);
	tdl__file_key_path(&key, path);
	cr_assert_str_eq(path, "part-ffffffffffffffffffffffffffffffff.jsonl");
	key = tdl__filelist_key(&files, 3);
	cr_assert_str_eq(key.named, "odd/two");
	cr_assert_eq(tdl__filelist_size(&files, 0), 10);
	cr_assert_eq(tdl__filelist_size(&files, 1), 20);
	cr_assert_eq(tdl__filelist_size(&files, 3), UINT64_C(1) << 62);
	cr_assert_eq(tdl__filelist_records(&files, 1), 2);
	cr_assert_eq(tdl__filelist_bytes(&files, 0, 0), 0);
	cr_assert_eq(tdl__filelist_bytes(&files, 0, 3), 30);
	cr_assert_eq(tdl__filelist_rows(&files, 0, 4), 7);
	tdl__filelist_cut(&files, 1);
	cr_assert_eq(files.count, 1);
	add(&files, "odd/three", 5, 5, 0);
	key = tdl__filelist_key(&files, 1);
	cr_assert_str_eq(key.named, "odd/three");
	cr_assert_eq(tdl__filelist_size(&files, 1), 5);
	tdl__filelist_free(&files);
}

/* Sums run over the whole array modulo 2^64; what is within a list stays exact. */
Test(filelist, sums_survive_going_round)
{
	tdl__filelist files = { 0 };

	for (int i = 0; i < 5; i++) {
		cr_assert(tdl__filelist_start(&files));
		add(&files, "a", UINT64_C(1) << 62, 3, TDL__FILE_HAS_CRC);
		add(&files, "b", 7, INT64_MAX, TDL__FILE_HAS_CRC);
	}
	for (size_t list = 0; list < 5; list++) {
		cr_assert_eq(tdl__filelist_bytes(&files, list, 2), (UINT64_C(1) << 62) + 7);
		cr_assert_eq(tdl__filelist_rows(&files, list, 1), 3);
		cr_assert_eq(tdl__filelist_size(&files, 2 * list), UINT64_C(1) << 62);
		cr_assert_eq(tdl__filelist_records(&files, 2 * list + 1), INT64_MAX);
		cr_assert_eq(tdl__filelist_offset(&files, list, 1), UINT64_C(1) << 62);
	}
	tdl__filelist_free(&files);
}

Test(filelist, settled_files)
{
	tdl__filelist files = { 0 };

	cr_assert(tdl__filelist_start(&files));
	add(&files, "crc", 10, 1, TDL__FILE_HAS_CRC);
	add(&files, "empty", 0, 0, 0);
	add(&files, "open", 10, 1, 0);
	add(&files, "crc2", 10, 1, TDL__FILE_HAS_CRC);
	tdl__filelist_resolve_eol(&files, 0, 4);
	cr_assert_eq(files.lists[0].eol_known, 2);
	cr_assert(tdl__filelist_set_eol(&files, 2, true));
	cr_assert(tdl__filelist_set_eol(&files, 2, false), "what is known is not learned again");
	tdl__filelist_resolve_eol(&files, 0, 4);
	cr_assert_eq(files.lists[0].eol_known, 4);
	cr_assert_eq(tdl__filelist_offset(&files, 0, 2), 10);
	cr_assert_eq(tdl__filelist_offset(&files, 0, 3), 21);
	cr_assert_eq(tdl__filelist_offset(&files, 0, 4), 31);
	tdl__filelist_free(&files);
}

/* Offsets and places against a sum done by hand, for lists that begin anywhere, with empty files
 * and files without their last newline, learned in any order. */
Test(filelist, offsets_and_places)
{
	enum {
		FILES = 400
	};
	tdl__filelist files = { 0 };
	uint64_t sizes[FILES], starts[3] = { 0, 100, 250 };
	bool no_eol[FILES];
	unsigned order[FILES];

	srand(7);
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];

		if (i == starts[0] || i == starts[1] || i == starts[2])
			cr_assert(tdl__filelist_start(&files));
		sizes[i] = rand() % 4 == 0 ? 0 : (uint64_t)(rand() % 9) + 1;
		no_eol[i] = sizes[i] > 0 && rand() % 3 == 0;
		snprintf(path, sizeof path, "f%u", i);
		add(&files, path, sizes[i], 1, 0);
		order[i] = i;
	}
	for (unsigned i = FILES - 1; i > 0; i--) {
		unsigned k = (unsigned)rand() % (i + 1), t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	for (unsigned i = 0; i < FILES; i++)
		cr_assert(tdl__filelist_set_eol(&files, order[i], no_eol[order[i]]));
	for (size_t list = 0; list < 3; list++) {
		uint64_t end = list < 2 ? starts[list + 1] : FILES, offset = 0;

		for (uint64_t i = starts[list]; i < end; i++) {
			uint64_t length = sizes[i] + no_eol[i];

			cr_assert_eq(tdl__filelist_offset(&files, list, i - starts[list]), offset);
			for (uint64_t byte = 0; byte < length; byte++)
				cr_assert_eq(tdl__filelist_locate(&files, list, end - starts[list],
								  offset + byte),
					     i - starts[list]);
			offset += length;
		}
		cr_assert_eq(tdl__filelist_offset(&files, list, end - starts[list]), offset);
	}
	tdl__filelist_free(&files);
}

Test(filelist, cutting_forgets_what_lacks)
{
	tdl__filelist files = { 0 };

	cr_assert(tdl__filelist_start(&files));
	add(&files, "a", 1, 1, 0);
	add(&files, "b", 1, 1, 0);
	cr_assert(tdl__filelist_set_eol(&files, 1, true));
	tdl__filelist_cut(&files, 1);
	add(&files, "c", 1, 1, TDL__FILE_HAS_CRC);
	cr_assert_eq(tdl__filelist_offset(&files, 0, 2), 2);
	tdl__filelist_free(&files);
}

/* ---- Checksums ----------------------------------------------------------------------------- */

static const uint32_t blocks[] = { 11, 12, 13 }, rows[] = { 1, 2, 3 };
#define LARGE (2 * TDL__BLOCK + 5)

static void add_large(tdl__filelist *files, const char *path, bool with_rows)
{
	tdl__file_key key = tdl__file_key_of(path);
	tdl__sums sums = { true, 99, blocks, with_rows ? rows : NULL };

	cr_assert(tdl__filelist_add(files, &key, LARGE, 6, &sums));
}

static void expect_large(const tdl__filelist *files, uint64_t index, bool with_rows)
{
	tdl__sums sums = tdl__filelist_sums(files, index);

	cr_assert(sums.has_crc);
	cr_assert_eq(sums.crc, 99);
	cr_assert_eq(memcmp(sums.blocks, blocks, sizeof blocks), 0);
	cr_assert_eq(sums.rows != NULL, with_rows);
	cr_assert(!with_rows || memcmp(sums.rows, rows, sizeof rows) == 0);
}

static uint64_t find(tdl__filelist *files, const char *path, uint64_t size)
{
	tdl__file_key key = tdl__file_key_of(path);
	uint64_t index;

	cr_assert(tdl__filelist_find_sums(files, &key, size, &index));
	return index;
}

Test(filelist, checksums_are_found_by_name_and_size)
{
	tdl__filelist files = { 0 };
	char path[64];

	cr_assert(tdl__filelist_start(&files));
	add(&files, "plain", 3, 1, 0);
	cr_assert_eq(find(&files, "plain", 3), UINT64_MAX);
	cr_assert_eq(files.slot_count, 0, "nothing is made where there are no checksums");
	add(&files, PART, 5, 1, TDL__FILE_HAS_CRC);
	add(&files, "odd", 5, 1, TDL__FILE_HAS_CRC);
	cr_assert_eq(find(&files, PART, 5), 1);
	cr_assert_eq(find(&files, PART, 6), UINT64_MAX);
	cr_assert_eq(find(&files, "odd", 5), 2);
	add(&files, PART, 5, 1, TDL__FILE_HAS_CRC);
	cr_assert_eq(find(&files, PART, 5), 3, "the newest");
	tdl__filelist_cut(&files, 3);
	cr_assert_eq(find(&files, PART, 5), 1, "what was taken back is not found");
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(path, sizeof path, "part-%032x.jsonl", i);
		add(&files, path, i, 1, TDL__FILE_HAS_CRC);
	}
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(path, sizeof path, "part-%032x.jsonl", i);
		cr_assert_eq(find(&files, path, i), 3 + i);
	}
	tdl__filelist_free(&files);
}

Test(filelist, blocks_are_shared_cut_saved_and_loaded)
{
	tdl__filelist files = { 0 };
	uint64_t entries[20];
	uint32_t numbers[40];
	tdl__blocks *kept;
	size_t cap;

	cr_assert(tdl__filelist_start(&files));
	add(&files, "small", 3, 1, TDL__FILE_HAS_CRC);
	add_large(&files, "a", true);
	add_large(&files, "b", false);
	cr_assert(tdl__filelist_add_again(&files, 1, 7));
	add_large(&files, "c", true);
	cr_assert(tdl__filelist_add_again(&files, 3, 8));
	cr_assert_eq(files.number_count, 6 + 3 + 6);
	cr_assert_eq(tdl__filelist_sums(&files, 1).blocks, tdl__filelist_sums(&files, 5).blocks);
	cr_assert_null(tdl__filelist_sums(&files, 0).blocks);
	cr_assert_eq(tdl__filelist_records(&files, 5), 8);
	tdl__filelist_cut(&files, 4);
	cr_assert_eq(files.number_count, 6 + 3);
	add_large(&files, "d", false);
	cr_assert(tdl__filelist_add_again(&files, 1, 9));
	cr_assert_eq(files.block_count, 5);
	tdl__filelist_save_blocks(&files, entries, numbers);

	/* Into the same files, as if they had come from a disk. */
	kept = files.blocks;
	cap = files.block_cap;
	for (size_t i = 0; i < files.block_count; i++)
		if (!kept[i].shared)
			free(kept[i].numbers);
	files.block_count = 0;
	files.number_count = 0;
	files.block_cap = cap;
	cr_assert(tdl__filelist_load_blocks(&files, entries, 5, numbers, 12));
	expect_large(&files, 1, true);
	expect_large(&files, 2, false);
	expect_large(&files, 3, true);
	expect_large(&files, 4, false);
	expect_large(&files, 5, true);
	cr_assert_eq(tdl__filelist_sums(&files, 1).blocks, tdl__filelist_sums(&files, 5).blocks);
	tdl__filelist_free(&files);
}
