/* SPDX-License-Identifier: MIT */
/*
 * tinydelta read: the rows of a version, file by file as they are stored. The library compares them
 * with their checksums; what they say is not looked at.
 */
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"
#include "command.h"
#include "find_table.h"
#include "output.h"
#include "progress.h"

/* A block of a data file that has checksums of blocks: so each is read once. */
#define BLOCK ((size_t)1 << 20)
#define PIECE (2 * BLOCK)

/* What is written at once: blocks, or small files one after the other. */
struct piece {
	char *bytes; /* PIECE of output_pages_new(), or NULL */
	size_t used;
};

static void free_piece(struct piece *piece)
{
	if (piece->bytes)
		munmap(piece->bytes, PIECE);
}

/* Returns false without memory. */
static bool reserve_piece(struct piece *piece)
{
	if (!piece->bytes)
		piece->bytes = output_pages_new(PIECE);
	if (!piece->bytes)
		output_no_memory();
	return piece->bytes != NULL;
}

static void write_piece(struct piece *piece)
{
	if (piece->used > 0 && output_pages(piece->bytes, PIECE, piece->used))
		piece->bytes = NULL;
	piece->used = 0;
}

/* Adds data file `index`. Returns false with the failure reported, behind the rows before it. */
static bool add_file(tdl_snapshot *snapshot, uint64_t index, struct piece *piece,
		     void (*done)(uint64_t bytes))
{
	uint64_t at = 0;
	size_t got = BLOCK;
	char last = '\n';

	/* Less is the end. */
	while (got == BLOCK && !output_failed() && reserve_piece(piece)) {
		tdl_error error = { 0 };
		char *to = piece->bytes + piece->used;

		if (tdl_snapshot_read_file(snapshot, index, to, BLOCK, at, &got, &error) < 0) {
			write_piece(piece);
			output_finish(NULL);
			report_error(&error);
			return false;
		}
		if (got > 0)
			last = to[got - 1];
		piece->used += got;
		at += got;
		if (got < BLOCK && last != '\n')
			piece->bytes[piece->used++] = '\n';
		/* Only a whole block fits what may be left, so that none is compared twice. */
		if (piece->used > PIECE - BLOCK)
			write_piece(piece);
		if (done && got > 0)
			done(got);
	}
	return true;
}

static int run(const struct command *command, char **argv)
{
	const char *text = NULL;
	const struct option options[] = {
		{ .name = "version",
		  .value = "VERSION",
		  .offers = OFFER_VERSIONS,
		  .help = "the version to read (default: the newest)",
		  .text = &text },
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_snapshot *snapshot CLEANUP(unref_snapshot) = NULL;
	tdl_error error = { 0 };
	int64_t version = TDL_LATEST;
	struct piece piece CLEANUP(free_piece) = { 0 };
	uint64_t files;
	struct stat st;
	bool to_file;
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (find_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	if (text && (status = find_version(table, text, &version)) != STATUS_DONE)
		return status;
	/* That a file is missing is said before the first row, not after half of them. */
	if (tdl_snapshot_open(table, version, &snapshot, &error) < 0 ||
	    tdl_snapshot_present(snapshot, &error) < 0)
		return report_error(&error);

	/* Rows that go to a pipe may well be shown on the same terminal. */
	to_file = fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode);
	progress_begin("reading", tdl_snapshot_info(snapshot)->bytes);
	files = tdl_snapshot_info(snapshot)->files;
	for (uint64_t i = 0; i < files && !output_failed(); i++)
		if (!add_file(snapshot, i, &piece, to_file ? progress_add : NULL))
			return STATUS_FAILED;
	write_piece(&piece);
	progress_end();
	return output_finish(NULL);
}

const struct command command_read = {
	.name = "read",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Write the rows of a version to standard output.",
	.example = "tinydelta read orders --version @2026-11-29 > orders.jsonl",
	.table_here = true,
	.run = run,
};
