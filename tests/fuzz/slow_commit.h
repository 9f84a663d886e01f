/* SPDX-License-Identifier: MIT */
#ifndef SLOW_COMMIT_H
#define SLOW_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a commit says, read once more for the fuzz targets only, from trees: what the format
 * promises about actions, without regard for how the library goes about it.
 */
struct slow_action {
	bool is_add, has_crc;
	uint32_t crc;
	uint32_t *blocks, *rows; /* NULL: unsaid */
	size_t block_count;
	char *path; /* NULL in a remove: of no file that could be there */
	int64_t size, records;
};

struct slow_commit {
	bool has_info, has_schema, promises, chained;
	int64_t timestamp, read_version;
	char *operation;
	char *id;
	size_t columns;
	int64_t promised_lines, promised_crc, previous;
	size_t covered;
	struct slow_action *actions;
	size_t count;
};

/* False: the line, or the file, is damaged. Clear it in any case. */
bool slow_commit_line(struct slow_commit *commit, const char *line, size_t n, bool first);
bool slow_commit_file(struct slow_commit *commit, const char *text, size_t n);
void slow_commit_clear(struct slow_commit *commit);

uint32_t slow_crc32c(const char *bytes, size_t n);

#endif
