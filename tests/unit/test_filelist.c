/* SPDX-License-Identifier: MIT */
/*
 * The array of data files: names as keys, lists as prefixes, offsets.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "action.h"
#include "filelist.h"

#define PART "part-0123456789abcdef0123456789abcdef.jsonl"

Test(filelist, keys)
{
	static const char *const odd[] = {
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

	cr_assert_null(usual.odd);
	tdl__file_key_path(&usual, path);
	cr_assert_str_eq(path, PART);
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		tdl__file_key key = tdl__file_key_of(odd[i]), again = tdl__file_key_of(odd[i]);

		cr_assert_not_null(key.odd, "%s", odd[i]);
		tdl__file_key_path(&key, path);
		cr_assert_str_eq(path, odd[i]);
		cr_assert(tdl__file_key_equal(&key, &again));
		cr_assert_eq(tdl__file_key_hash(&key), tdl__file_key_hash(&again));
		cr_assert_not(tdl__file_key_equal(&key, &usual));
		cr_assert_not(tdl__file_key_equal(&usual, &key));
		for (size_t k = 0; k < i; k++) {
			tdl__file_key other = tdl__file_key_of(odd[k]);

			cr_assert_not(tdl__file_key_equal(&key, &other));
		}
	}
}

static void add(tdl__filelist *files, const char *path, uint64_t size, uint64_t records,
		unsigned flags)
{
	tdl__file_key key = tdl__file_key_of(path);

	cr_assert(tdl__filelist_add(files, &key, size, records, 0, flags));
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
	cr_assert_null(key.odd);
	key = tdl__filelist_key(&files, 1);
	cr_assert_str_eq(key.odd, "odd/one");
	key = tdl__filelist_key(&files, 2);
	tdl__file_key_path(&key, path);
	cr_assert_str_eq(path, "part-ffffffffffffffffffffffffffffffff.jsonl");
	key = tdl__filelist_key(&files, 3);
	cr_assert_str_eq(key.odd, "odd/two");
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
	cr_assert_str_eq(key.odd, "odd/three");
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
	tdl__filelist_settle(&files, 0, 4);
	cr_assert_eq(files.lists[0].known, 2);
	cr_assert(tdl__filelist_learn(&files, 2, true));
	cr_assert(tdl__filelist_learn(&files, 2, false), "what is known is not learned again");
	tdl__filelist_settle(&files, 0, 4);
	cr_assert_eq(files.lists[0].known, 4);
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
	bool lacks[FILES];
	unsigned order[FILES];

	srand(7);
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];

		if (i == starts[0] || i == starts[1] || i == starts[2])
			cr_assert(tdl__filelist_start(&files));
		sizes[i] = rand() % 4 == 0 ? 0 : (uint64_t)(rand() % 9) + 1;
		lacks[i] = sizes[i] > 0 && rand() % 3 == 0;
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
		cr_assert(tdl__filelist_learn(&files, order[i], lacks[order[i]]));
	for (size_t list = 0; list < 3; list++) {
		uint64_t end = list < 2 ? starts[list + 1] : FILES, offset = 0;

		for (uint64_t i = starts[list]; i < end; i++) {
			uint64_t length = sizes[i] + lacks[i];

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
	cr_assert(tdl__filelist_learn(&files, 1, true));
	tdl__filelist_cut(&files, 1);
	add(&files, "c", 1, 1, TDL__FILE_HAS_CRC);
	cr_assert_eq(tdl__filelist_offset(&files, 0, 2), 2);
	tdl__filelist_free(&files);
}
