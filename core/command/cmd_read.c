/* SPDX-License-Identifier: MIT */
/*
 * tinydelta read: the rows of a version, file by file as they are stored. The library compares them
 * with their checksums; what they say is not looked at.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"
#include "command.h"
#include "output.h"
#include "progress.h"

/* A block of a data file that has checksums of blocks: so each is read once. */
#define PIECE ((size_t)1 << 20)

/* Writes data file `index`. Returns false with the failure reported. */
static bool write_file(tdl_snapshot *snapshot, uint64_t index, char *piece,
		       void (*done)(uint64_t bytes))
{
	uint64_t at = 0;
	char last = '\n';

	while (!output_failed()) {
		tdl_error error = { 0 };
		size_t got;

		if (tdl_snapshot_read_file(snapshot, index, piece, PIECE, at, &got, &error) < 0) {
			output_finish(NULL);
			report_error(&error);
			return false;
		}
		if (got == 0)
			break;
		output_large(piece, got);
		last = piece[got - 1];
		at += got;
		if (done != NULL)
			done(got);
	}
	if (last != '\n')
		output_bytes("\n", 1);
	return true;
}

static void free_piece(char **piece)
{
	free(*piece);
}

static int run(const struct command *command, char **argv)
{
	const char *text = NULL;
	const struct option options[] = {
		{ .name = "version",
		  .value = "VERSION",
		  .help = "the version to read (default: the newest)",
		  .text = &text },
		{ 0 },
	};
	tdl_table *table AUTO(free_table) = NULL;
	tdl_snapshot *snapshot AUTO(unref_snapshot) = NULL;
	tdl_error error = { 0 };
	int64_t version = TDL_LATEST;
	char *piece AUTO(free_piece) = malloc(PIECE);
	uint64_t files;
	struct stat st;
	bool to_file;
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (piece == NULL)
		return report("out of memory");
	if (tdl_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	if (text != NULL && (status = find_version(table, text, &version)) != STATUS_DONE)
		return status;
	/* That a file is missing is said before the first row, not after half of them. */
	if (tdl_snapshot_open(table, version, &snapshot, &error) < 0 ||
	    tdl_snapshot_present(snapshot, &error) < 0)
		return report_error(&error);

	/* Rows that go to a pipe may well be shown on the same terminal. */
	to_file = fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode);
	progress_begin(tdl_snapshot_info(snapshot)->bytes);
	files = tdl_snapshot_info(snapshot)->files;
	for (uint64_t i = 0; i < files && !output_failed(); i++)
		if (!write_file(snapshot, i, piece, to_file ? progress_add : NULL))
			return STATUS_FAILED;
	progress_end();
	return output_finish(NULL);
}

const struct command command_read = {
	.name = "read",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Write the rows of a version to standard output.",
	.run = run,
};
