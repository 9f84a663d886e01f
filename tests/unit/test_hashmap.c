/* SPDX-License-Identifier: MIT */
/*
 * The hash table against an array, with hashes that fall together.
 */
#include "util/hashmap.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum {
	VALUES = 200,
	STEPS = 20000
};

static uint64_t hash_of(size_t value, unsigned spread)
{
	/* Few hashes, and few places: from the end of the slots round to their start. */
	return (uint64_t)(value % spread) + 5;
}

static struct tdl__slot *find(const tdl__hashmap *map, uint64_t hash, size_t value)
{
	struct tdl__slot *slot = tdl__hashmap_first(map, hash);

	for (; slot; slot = tdl__hashmap_next(map, slot)) {
		cr_assert_eq(slot->hash, hash);
		if (slot->value == value)
			return slot;
	}
	return NULL;
}

static void run(unsigned seed, unsigned spread)
{
	bool there[VALUES + 1] = { false };
	tdl__hashmap map = { 0 };
	size_t count = 0;

	srandom(seed);
	for (unsigned i = 0; i < STEPS; i++) {
		size_t value = 1 + (size_t)random() % VALUES;
		uint64_t hash = hash_of(value, spread);
		struct tdl__slot *slot = find(&map, hash, value);

		cr_assert_eq(slot != NULL, there[value], "seed %u step %u", seed, i);
		if (slot)
			tdl__hashmap_remove(&map, slot);
		else
			cr_assert(tdl__hashmap_add(&map, hash, value));
		there[value] = !there[value];
		count += there[value] ? 1 : (size_t)-1;
		cr_assert_eq(map.count, count);
	}
	for (size_t value = 1; value <= VALUES; value++)
		cr_expect_eq(find(&map, hash_of(value, spread), value) != NULL, there[value]);
	tdl__hashmap_clear(&map);
	cr_expect_null(tdl__hashmap_first(&map, 5));
}

Test(hashmap, against_an_array)
{
	static const unsigned spreads[] = { 1, 2, 7, 50, 1000 };

	for (unsigned i = 0; i < sizeof spreads / sizeof *spreads; i++)
		run(i + 1, spreads[i]);
}

Test(hashmap, reserved)
{
	tdl__hashmap map = { 0 };
	struct tdl__slot *slots;

	cr_assert(tdl__hashmap_reserve(&map, 1000));
	slots = map.slots;
	for (size_t i = 1; i <= 1000; i++)
		cr_assert(tdl__hashmap_add(&map, i << 40, i));
	cr_expect_eq(map.slots, slots);
	tdl__hashmap_clear(&map);
}
