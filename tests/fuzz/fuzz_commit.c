/* SPDX-License-Identifier: MIT */
/*
 * One line of a commit against slow_commit.c: the same verdict, and of a good line the same
 * content. The first byte says whether the line is its file's first.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "log/action.h"
#include "slow_commit.h"

static void need(bool holds)
{
	if (!holds)
		abort();
}

static void check_blocks(tdl__sums fast, const struct slow_action *slow)
{
	size_t n = slow->block_count * sizeof(uint32_t);

	need((fast.blocks != NULL) == (slow->blocks != NULL));
	need((fast.rows != NULL) == (slow->rows != NULL));
	need(!slow->blocks || memcmp(fast.blocks, slow->blocks, n) == 0);
	need(!slow->rows || memcmp(fast.rows, slow->rows, n) == 0);
}

static void check_same(const tdl__commit *fast, const struct slow_commit *slow)
{
	need(fast->has_info == slow->has_info);
	if (slow->has_info) {
		need(fast->timestamp == slow->timestamp);
		need(fast->read_version == slow->read_version);
		need(strcmp(tdl__commit_string(fast, fast->operation), slow->operation) == 0);
	}
	need(fast->checked == slow->promises);
	need(fast->chained == slow->chained);
	need(!fast->chained ||
	     (fast->previous == slow->previous && fast->covered == slow->covered));
	if (slow->promises) {
		need(fast->promised_lines == (uint64_t)slow->promised_lines);
		need(fast->promised_crc == slow->promised_crc);
	}
	need((fast->schema != NULL) == slow->has_schema);
	if (slow->has_schema) {
		need(tdl_schema_count(fast->schema) == slow->columns);
		need(strcmp(tdl__commit_string(fast, fast->table_id), slow->id) == 0);
	}
	need(fast->count == slow->count);
	for (size_t i = 0; i < fast->count; i++) {
		const tdl__action *a = &fast->actions[i];
		const struct slow_action *b = &slow->actions[i];

		need(a->is_add == b->is_add);
		need(strcmp(tdl__commit_string(fast, a->path), b->path) == 0);
		need(a->path_length == strlen(b->path));
		if (!a->is_add)
			continue;
		need(a->size == (uint64_t)b->size && a->num_records == (uint64_t)b->records);
		need(a->has_crc == b->has_crc && (!a->has_crc || a->crc == b->crc));
		check_blocks(tdl__action_sums(fast, a), b);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slow_commit slow = { 0 };
	tdl__commit fast = { 0 };
	tdl_error error;
	tdl__span line;
	int r;

	if (size < 1)
		return 0;
	line = (tdl__span){ (const char *)data + 1, size - 1 };
	r = tdl__commit_line(&fast, line, data[0] % 2 == 0, &error);
	need(r == 0 || (r == TDL_ERR_CORRUPT && error.message[0] != '\0'));
	need((r == 0) == slow_commit_line(&slow, line.p, line.n, data[0] % 2 == 0));
	if (r == 0)
		check_same(&fast, &slow);
	slow_commit_clear(&slow);
	tdl__commit_free(&fast);
	return 0;
}
