/* SPDX-License-Identifier: MIT */
/*
 * tinydelta changes: the rows that versions took away and added, a line each.
 */
#include <inttypes.h>
#include <sys/mman.h>

#include "arguments.h"
#include "command.h"
#include "find_table.h"
#include "output.h"

/* As much as is compared with a checksum at once. */
#define PIECE ((size_t)1 << 20)

static void unref_changes(tdl_changes **changes)
{
	tdl_changes_unref(*changes);
}

/* Pages of PIECE bytes, or NULL. */
static void free_pages(char **pages)
{
	if (*pages)
		munmap(*pages, PIECE);
}

/* Returns false with the failure reported, behind the lines before it. */
static bool print_changes(tdl_table *table, int64_t version)
{
	tdl_changes *changes CLEANUP(unref_changes) = NULL;
	char *pages CLEANUP(free_pages) = NULL;
	tdl_error error = { 0 };
	uint64_t offset = 0;
	size_t got = PIECE;
	int r = tdl_changes_open(table, version, &changes, &error);

	while (r == 0 && got == PIECE && !output_failed()) {
		if (!pages)
			pages = output_pages_new(PIECE);
		if (!pages) {
			output_no_memory();
			return true;
		}
		r = tdl_changes_read(changes, pages, PIECE, offset, &got, &error);
		if (r == 0 && got > 0 && output_pages(pages, PIECE, got))
			pages = NULL;
		offset += got;
	}
	if (r == 0)
		return true;
	output_finish(NULL);
	report_error(&error);
	return false;
}

static int run(const struct command *command, char **argv)
{
	const struct option options[] = { { 0 } };
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_error error = { 0 };
	int64_t first = 0, last;
	size_t count = 0;
	int status = arguments_parse(command, options, argv, &count);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (find_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	last = tdl_table_head(table);
	if (count > 1 && (status = find_version(table, argv[count - 1], &last)) != STATUS_DONE)
		return status;
	if (count > 1)
		first = last;
	if (count > 2) {
		if ((status = find_version(table, argv[1], &first)) != STATUS_DONE)
			return status;
		if (first > last)
			return report("version %" PRId64 " comes after version %" PRId64
				      ": the older one goes first",
				      first, last);
		first++;
	}
	for (int64_t version = first; version <= last && !output_failed(); version++)
		if (!print_changes(table, version))
			return STATUS_FAILED;
	status = output_finish(NULL);
	/* What can be read was shown; that it is not everything must not go unsaid. */
	if (status == STATUS_DONE && count == 1 && tdl_table_damage(table, &error) < 0)
		return report_error(&error);
	return status;
}

const struct command command_changes = {
	.name = "changes",
	.operands = "TABLE [A] [B]",
	.min_operands = 1,
	.max_operands = 3,
	.summary = "Write the rows that versions added and took away: of all, of A, or after A up "
		   "to B.",
	.example = "tinydelta changes orders v3",
	.table_here = true,
	.run = run,
};
