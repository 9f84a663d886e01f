/* SPDX-License-Identifier: MIT */
#ifndef TDL_HASHMAP_H
#define TDL_HASHMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * A hash table that knows hashes only: whoever owns the items finds those of one hash and compares
 * them itself. A value is whatever leads to an item, a pointer or an index + 1; it is never 0. Zero
 * it before; free it with tdl__hashmap_clear(). Where others choose the keys, hash them with
 * tdl__hash(). Open addressing, the next slot being tried; at most three quarters are taken.
 */
struct tdl__slot {
	uint64_t hash;
	uintptr_t value; /* 0: free */
};

typedef struct tdl__hashmap {
	struct tdl__slot *slots; /* a power of two of them, or NULL */
	size_t mask;		 /* their number - 1 */
	size_t count;		 /* values in it */
} tdl__hashmap;

static inline void tdl__hashmap_clear(tdl__hashmap *map)
{
	free(map->slots);
	*map = (tdl__hashmap){ 0 };
}

/* The next value of this hash from slot `i` on; NULL where there is none. */
static inline struct tdl__slot *tdl__hashmap_from(const tdl__hashmap *map, size_t i, uint64_t hash)
{
	for (;; i++) {
		struct tdl__slot *slot = &map->slots[i & map->mask];

		if (slot->value == 0)
			return NULL;
		if (slot->hash == hash)
			return slot;
	}
}

/*
 * The first value of this hash, and the one after `slot`. NULL: there are no more. A slot is good
 * until the map changes.
 *
 *     for (slot = tdl__hashmap_first(&map, hash); slot != NULL; slot = tdl__hashmap_next(&map,
 * slot))
 */
static inline struct tdl__slot *tdl__hashmap_first(const tdl__hashmap *map, uint64_t hash)
{
	return map->count == 0 ? NULL : tdl__hashmap_from(map, (size_t)hash, hash);
}

static inline struct tdl__slot *tdl__hashmap_next(const tdl__hashmap *map,
						  const struct tdl__slot *slot)
{
	return tdl__hashmap_from(map, (size_t)(slot - map->slots) + 1, slot->hash);
}

/* Puts a value where the map has room for it. */
static inline void tdl__hashmap_put(tdl__hashmap *map, uint64_t hash, uintptr_t value)
{
	size_t i = (size_t)hash & map->mask;

	while (map->slots[i].value != 0)
		i = (i + 1) & map->mask;
	map->slots[i] = (struct tdl__slot){ hash, value };
	map->count++;
}

/* Makes room for `count` values in all. False: no memory, nothing has changed. */
static inline bool tdl__hashmap_reserve(tdl__hashmap *map, size_t count)
{
	size_t size = !map->slots ? 8 : map->mask + 1;
	tdl__hashmap grown = { 0 };

	while (size - size / 4 < count)
		size *= 2;
	if (map->slots && size == map->mask + 1)
		return true;
	grown.slots = calloc(size, sizeof *grown.slots);
	if (!grown.slots)
		return false;
	grown.mask = size - 1;
	for (size_t i = 0; map->slots && i <= map->mask; i++)
		if (map->slots[i].value != 0)
			tdl__hashmap_put(&grown, map->slots[i].hash, map->slots[i].value);
	free(map->slots);
	*map = grown;
	return true;
}

/* Adds a value; there may be others of its hash. False: no memory, nothing has changed. */
static inline bool tdl__hashmap_add(tdl__hashmap *map, uint64_t hash, uintptr_t value)
{
	if (!tdl__hashmap_reserve(map, map->count + 1))
		return false;
	tdl__hashmap_put(map, hash, value);
	return true;
}

/* Takes a value out. Those behind it that would not be found any more move up. */
static inline void tdl__hashmap_remove(tdl__hashmap *map, struct tdl__slot *slot)
{
	size_t gap = (size_t)(slot - map->slots), i = gap;

	for (;;) {
		i = (i + 1) & map->mask;
		if (map->slots[i].value == 0)
			break;
		/* Whether its own place is no later than the gap, going round. */
		if (((i - (size_t)map->slots[i].hash) & map->mask) >= ((i - gap) & map->mask)) {
			map->slots[gap] = map->slots[i];
			gap = i;
		}
	}
	map->slots[gap].value = 0;
	map->count--;
}

#endif
