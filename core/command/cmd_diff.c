/* SPDX-License-Identifier: MIT */
/*
 * tinydelta diff: the rows that one version has more than another.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"
#include "command.h"
#include "find_table.h"
#include "output.h"
#include "progress.h"
#include "term.h"

/* Exit statuses, as of diff(1). */
enum {
	SAME = 0,
	DIFFERENT = 1,
	TROUBLE = 2
};

struct printer {
	struct term term;
	bool progress;	  /* was begun */
	bool to_terminal; /* rows may show where the progress does */
};

static bool on_row(void *context, enum tdl_change change, const char *row, size_t n)
{
	struct printer *printer = context;
	bool removed = change == TDL_REMOVED;

	if (printer->to_terminal)
		progress_end();
	output_text("%s%c", term_style(&printer->term, removed ? RED : GREEN), removed ? '-' : '+');
	output_bytes(row, n);
	output_text("%s\n", term_end(&printer->term));
	return !output_failed();
}

static void on_progress(void *context, uint64_t bytes, uint64_t total)
{
	struct printer *printer = context;

	if (!printer->progress)
		progress_begin("comparing", total);
	printer->progress = true;
	progress_at(NULL, bytes);
}

/* No data file is looked at: what both have is in both as it is. Returns false with the failure
 * reported. */
static bool open_version(tdl_table *table, const char *text, tdl_snapshot **snapshot)
{
	tdl_error error = { 0 };
	int64_t version;

	if (find_version(table, text, &version) != STATUS_DONE)
		return false;
	if (tdl_snapshot_open(table, version, snapshot, &error) == 0)
		return true;
	report_error(&error);
	return false;
}

static int run(const struct command *command, char **argv)
{
	struct printer printer = { 0 };
	const char *color = NULL;
	bool count_only = false;
	const struct option options[] = {
		{ .name = "stat",
		  .help = "only say how many rows were added and removed",
		  .set = &count_only },
		TERM_OPTION(&color),
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_snapshot *a CLEANUP(unref_snapshot) = NULL, *b CLEANUP(unref_snapshot) = NULL;
	int status = arguments_parse(command, options, argv, NULL);
	tdl_diff_options how = { .size = sizeof how, .progress = on_progress, .context = &printer };
	uint64_t removed, added;
	tdl_error error = { 0 };
	struct stat st;
	int result;

	if (status != ARGUMENTS_GO_ON)
		return status;
	term_begin(&printer.term, color);
	if (find_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0) {
		report_error(&error);
		return TROUBLE;
	}
	if (!open_version(table, argv[1], &a) || !open_version(table, argv[2], &b))
		return TROUBLE;
	/* Rows that go to a pipe may well be shown on the same terminal. */
	printer.to_terminal = fstat(STDOUT_FILENO, &st) != 0 || !S_ISREG(st.st_mode);
	if (!count_only)
		how.row = on_row;
	result = tdl_snapshot_diff(a, b, &how, &removed, &added, &error);
	progress_end();
	/* Where it was stopped, what failed is the output. */
	if (result < 0 && result != TDL_ERR_STOPPED)
		report_error(&error);
	if (result < 0) {
		output_finish(NULL);
		return TROUBLE;
	}
	if (count_only)
		output_text("%s%" PRIu64 " added%s, %s%" PRIu64 " removed%s\n",
			    term_style(&printer.term, GREEN), added, term_end(&printer.term),
			    term_style(&printer.term, RED), removed, term_end(&printer.term));
	if (output_finish(NULL) != STATUS_DONE)
		return TROUBLE;
	return removed > 0 || added > 0 ? DIFFERENT : SAME;
}

const struct command command_diff = {
	.name = "diff",
	.operands = "TABLE A B",
	.min_operands = 3,
	.max_operands = 3,
	.summary = "Show the rows removed and added between versions A and B.",
	.example = "tinydelta diff orders @-1d latest --stat",
	.table_here = true,
	.run = run,
};
