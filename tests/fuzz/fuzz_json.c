/* SPDX-License-Identifier: MIT */
/*
 * The guard before cJSON against the trees of slow_json.c: the same verdict, and of what is valid
 * the same members, kinds and numbers. The first byte of an input chooses how deep it may be.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "slow_json.h"
#include "json/json.h"

static bool same(tdl__span span, const struct slow_node *node)
{
	return span.p == node->start && span.n == (size_t)(node->end - node->start);
}

static void check_kind(tdl__span span, const struct slow_node *node)
{
	int64_t ours, theirs;
	bool good = tdl__json_int64(span, &ours);

	if (tdl__json_kind(span) != *node->start)
		abort();
	if (good != slow_int64(node, &theirs) || (good && ours != theirs))
		abort();
}

enum {
	NAMES = 5
};

static const char *const names[NAMES] = { "a", "", "\xc3\xa9", "\xf0\x9f\x98\x80", "add" };

static void check_names(tdl__span span, const struct slow_node *node)
{
	tdl__span values[NAMES];

	tdl__json_members(span, names, NAMES, values);
	for (size_t i = 0; i < NAMES; i++) {
		const struct slow_node *member = slow_member(node, names[i]);
		tdl__span one;

		if (tdl__json_member(span, names[i], &one) != (member != NULL))
			abort();
		if (!member ? values[i].p != NULL : !same(values[i], member) || !same(one, member))
			abort();
	}
}

static void check(tdl__span span, const struct slow_node *node)
{
	tdl__span key, value, rest = span;
	size_t i = 0;

	check_kind(span, node);
	if (node->kind == SLOW_ARRAY) {
		for (; tdl__json_item(&rest, &value); i++) {
			if (i >= node->item_count || !same(value, node->items[i]))
				abort();
			check(value, node->items[i]);
		}
		if (i != node->item_count)
			abort();
	}
	if (node->kind != SLOW_OBJECT)
		return;
	check_names(span, node);
	for (; tdl__json_next(&rest, &key, &value); i += 2) {
		if (i >= node->item_count || !same(key, node->items[i]) ||
		    !same(value, node->items[i + 1]))
			abort();
		check(value, node->items[i + 1]);
	}
	if (i != node->item_count)
		abort();
}

/* Both in one pass must say what each says alone. */
static void check_object(tdl__span text, unsigned depth, bool good, size_t at)
{
	tdl__span values[NAMES], one;
	size_t object_at = SIZE_MAX;

	if (tdl__json_object(text, depth, names, NAMES, values, &object_at) != good ||
	    (!good && object_at != at))
		abort();
	for (size_t i = 0; i < NAMES && good; i++) {
		bool there = tdl__json_member(text, names[i], &one);

		if (there ? values[i].p != one.p || values[i].n != one.n : values[i].p != NULL)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned depths[] = { 1024, 128, 64, 3, 2, 1 };
	unsigned depth;
	struct slow_node *node;
	tdl__span text;
	size_t at = SIZE_MAX;

	if (size < 1)
		return 0;
	depth = depths[data[0] % 6];
	text = (tdl__span){ (const char *)data + 1, size - 1 };
	node = slow_parse(text.p, text.n, depth);
	if (tdl__json_valid(text, depth, &at) != (node != NULL))
		abort();
	if (node)
		check(text, node);
	else if (at > text.n)
		abort();
	check_object(text, depth, node != NULL, at);
	slow_free(node);
	return 0;
}
