/* SPDX-License-Identifier: MIT */
/*
 * Commits from the trees of slow_json.c. Uses nothing of the library.
 */
#include "slow_commit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slow_json.h"

#define DEEPEST 128

static bool whole(const struct slow_node *node, int64_t *out)
{
	return node && slow_int64(node, out) && *out >= 0;
}

static bool small(const struct slow_node *node, int64_t *out)
{
	return whole(node, out) && *out <= UINT32_MAX;
}

/* Takes the text of a string; false where it is none. */
static bool text(const struct slow_node *node, char **out)
{
	char *got = node && node->kind == SLOW_STRING ? slow_text(node) : NULL;

	if (!got)
		return false;
	free(*out);
	*out = got;
	return true;
}

static bool safe(const char *path)
{
	char copy[4097], *rest = copy, *part;
	bool first = true;

	if (strlen(path) > 4095)
		return false;
	strcpy(copy, path);
	while ((part = strsep(&rest, "/"))) {
		if (strcmp(part, "") == 0 || strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
			return false;
		if (first && (strcmp(part, "_delta_log") == 0 || strcmp(part, "_incoming") == 0 ||
			      strcmp(part, "_tags") == 0))
			return false;
		first = false;
	}
	return true;
}

/* Where a commit names the one before, its checksum is the last thing on the line, and covers what
 * stands before it. */
static bool chain(struct slow_commit *commit, const struct slow_node *previous, const char *line,
		  size_t n)
{
	char tail[40];
	size_t length;

	length = (size_t)snprintf(tail, sizeof tail, ",\"crc32c\":%" PRId64 "}}",
				  commit->promised_crc);
	if (n <= length || memcmp(line + n - length, tail, length) != 0)
		return false;
	commit->covered = n - length;
	commit->chained = true;
	commit->previous = -1;
	return previous->kind == SLOW_NIL || small(previous, &commit->previous);
}

static bool info(struct slow_commit *commit, const struct slow_node *node, const char *line,
		 size_t n, bool first)
{
	static const char ours[] = "\"tinydeltafs/";
	const struct slow_node *read_version, *engine;

	if (node->kind != SLOW_OBJECT || !slow_member(node, "timestamp") ||
	    !slow_int64(slow_member(node, "timestamp"), &commit->timestamp) ||
	    !text(slow_member(node, "operation"), &commit->operation))
		return false;
	read_version = slow_member(node, "readVersion");
	commit->read_version = -1;
	if (read_version && read_version->kind != SLOW_NIL &&
	    !whole(read_version, &commit->read_version))
		return false;
	commit->has_info = true;
	if (first && small(slow_member(node, "crc32c"), &commit->promised_crc) &&
	    whole(slow_member(node, "actions"), &commit->promised_lines)) {
		const struct slow_node *previous = slow_member(node, "previous");

		commit->promises = true;
		return !previous || chain(commit, previous, line, n);
	}
	/* Ours always promise, and say so first. */
	engine = slow_member(node, "engineInfo");
	return !engine || (size_t)(engine->end - engine->start) < sizeof ours ||
	       memcmp(engine->start, ours, sizeof ours - 1) != 0;
}

static bool metadata(struct slow_commit *commit, const struct slow_node *node)
{
	static const char *const types[] = { "int", "float", "str", "bool" };
	const struct slow_node *schema;

	if (node->kind != SLOW_OBJECT || !text(slow_member(node, "id"), &commit->id))
		return false;
	schema = slow_member(node, "schema");
	if (!schema || schema->kind != SLOW_ARRAY || schema->item_count == 0)
		return false;
	for (size_t i = 0; i < schema->item_count; i++) {
		const struct slow_node *column = schema->items[i], *name, *type;
		bool known = false;

		if (column->kind != SLOW_OBJECT)
			return false;
		name = slow_member(column, "name");
		type = slow_member(column, "type");
		if (!name || name->kind != SLOW_STRING || name->char_count == 0 || !type ||
		    type->kind != SLOW_STRING)
			return false;
		for (size_t c = 0; c < name->char_count; c++) {
			if (name->chars[c] == 0 ||
			    (name->chars[c] >= 0xd800 && name->chars[c] < 0xe000))
				return false;
		}
		for (size_t k = 0; k < 4; k++)
			known = known || slow_is_text(type, types[k], strlen(types[k]));
		if (!known)
			return false;
		for (size_t k = 0; k < i; k++) {
			const struct slow_node *other = slow_member(schema->items[k], "name");

			if (other->char_count == name->char_count &&
			    memcmp(other->chars, name->chars,
				   name->char_count * sizeof *name->chars) == 0)
				return false;
		}
	}
	commit->has_schema = true;
	commit->columns = schema->item_count;
	return true;
}

/* A number of four bytes for each block, in base64; NULL: it is not that. */
static uint32_t *numbers(const struct slow_node *node, size_t count)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t bits = count * 32, digit_count = (bits + 5) / 6, length = (digit_count + 3) / 4 * 4;
	uint32_t *out;
	char *chars = NULL;

	if (!text(node, &chars))
		return NULL;
	out = calloc(count + 1, sizeof *out);
	if (!out)
		abort();
	if (strlen(chars) != length)
		goto wrong;
	for (size_t i = 0; i < length; i++) {
		const char *digit = i < digit_count ? strchr(digits, chars[i]) : NULL;

		if (i >= digit_count && chars[i] == '=')
			continue;
		if (!digit)
			goto wrong;
		for (size_t k = 0; k < 6; k++) {
			size_t bit = i * 6 + k;

			if (((digit - digits) >> (5 - k) & 1) == 0)
				continue;
			if (bit >= bits)
				goto wrong;
			/* Most significant bit first in a byte, least significant byte first. */
			out[bit / 32] |= UINT32_C(1) << (bit % 32 / 8 * 8 + 7 - bit % 8);
		}
	}
	free(chars);
	return out;
wrong:
	free(chars);
	free(out);
	return NULL;
}

/* The sum with so many zero bytes behind it. */
static uint32_t with_zeros(uint32_t crc, uint64_t n)
{
	while (n-- > 0)
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	return crc;
}

static bool blocks(struct slow_action *action, const struct slow_node *sums,
		   const struct slow_node *rows)
{
	const uint64_t size = (uint64_t)action->size, block = 1048576;
	uint32_t crc = 0;

	action->block_count = size / block + (size % block != 0);
	if (!sums)
		return !rows;
	/* No line of a test is long enough for more. */
	if (!action->has_crc || action->block_count > 1000000)
		return false;
	action->blocks = numbers(sums, action->block_count);
	if (!action->blocks)
		return false;
	if (rows && !(action->rows = numbers(rows, action->block_count)))
		return false;
	for (size_t i = 0; i < action->block_count; i++) {
		uint64_t n = size - i * block < block ? size - i * block : block;

		if (rows && action->rows[i] > n)
			return false;
		crc = with_zeros(crc, n) ^ action->blocks[i];
	}
	return crc == action->crc;
}

static void clear_action(struct slow_action *action)
{
	free(action->path);
	free(action->blocks);
	free(action->rows);
}

static bool file(struct slow_commit *commit, const struct slow_node *node, bool is_add)
{
	struct slow_action action = { .is_add = is_add };
	const struct slow_node *crc;
	int64_t value;

	if (node->kind != SLOW_OBJECT || !text(slow_member(node, "path"), &action.path))
		return false;
	if (is_add && (!safe(action.path) || !whole(slow_member(node, "size"), &action.size) ||
		       !whole(slow_member(node, "numRecords"), &action.records))) {
		free(action.path);
		return false;
	}
	crc = slow_member(node, "crc32c");
	action.has_crc = is_add && crc && small(crc, &value);
	if (action.has_crc)
		action.crc = (uint32_t)value;
	if (is_add && !blocks(&action, slow_member(node, "blocks"), slow_member(node, "rows"))) {
		clear_action(&action);
		return false;
	}
	commit->actions = realloc(commit->actions, (commit->count + 1) * sizeof action);
	if (!commit->actions)
		abort();
	commit->actions[commit->count++] = action;
	return true;
}

bool slow_commit_line(struct slow_commit *commit, const char *line, size_t n, bool first)
{
	const struct slow_node *part;
	struct slow_node *node;
	size_t blank = 0;
	bool good;

	while (blank < n && strchr(" \t\r\n", line[blank]) && line[blank] != '\0')
		blank++;
	if (blank == n)
		return true;
	node = slow_parse(line, n, DEEPEST);
	if (!node)
		return false;
	if (node->kind != SLOW_OBJECT) {
		good = node->kind == SLOW_ARRAY && node->item_count == 0;
		slow_free(node);
		return good;
	}
	good = (slow_member(node, "commitInfo") != NULL) + (slow_member(node, "metaData") != NULL) +
		       (slow_member(node, "add") != NULL) + (slow_member(node, "remove") != NULL) <=
	       1;
	good = good && (!(part = slow_member(node, "commitInfo")) ||
			(!commit->has_info && info(commit, part, line, n, first)));
	good = good && (!(part = slow_member(node, "metaData")) || metadata(commit, part));
	good = good && (!(part = slow_member(node, "add")) || file(commit, part, true));
	good = good && (!(part = slow_member(node, "remove")) || file(commit, part, false));
	slow_free(node);
	return good;
}

uint32_t slow_crc32c(const char *bytes, size_t n)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

bool slow_commit_file(struct slow_commit *commit, const char *bytes, size_t n)
{
	const char *end = bytes + n, *second = end;
	int64_t lines = 0;

	if (n == 0)
		return false;
	for (const char *line = bytes; line < end; lines++) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *stop = newline ? newline : end;

		if (!slow_commit_line(commit, line, (size_t)(stop - line), line == bytes))
			return false;
		line = newline ? newline + 1 : end;
		if (lines == 0)
			second = line;
	}
	if (!commit->has_info)
		return false;
	if (!commit->promises)
		return true;
	if (commit->chained) {
		/* In one piece, as it is covered. */
		char *covered = malloc(n);
		bool good;

		memcpy(covered, bytes, commit->covered);
		memcpy(covered + commit->covered, second, (size_t)(end - second));
		good = end[-1] == '\n' &&
		       commit->promised_crc ==
			       (int64_t)slow_crc32c(covered,
						    commit->covered + (size_t)(end - second));
		free(covered);
		return good && commit->promised_lines == lines - 1;
	}
	return commit->promised_lines == lines - 1 &&
	       commit->promised_crc == (int64_t)slow_crc32c(second, (size_t)(end - second));
}

void slow_commit_clear(struct slow_commit *commit)
{
	for (size_t i = 0; i < commit->count; i++)
		clear_action(&commit->actions[i]);
	free(commit->actions);
	free(commit->operation);
	free(commit->id);
	memset(commit, 0, sizeof *commit);
}
