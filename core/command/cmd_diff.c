/* SPDX-License-Identifier: MIT */
/*
 * tinydelta diff: the rows that one version has more than another. Where only one of them has files
 * of its own, these are the difference; else rows are compared, as often as each is there, in any
 * order.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"
#include "command.h"
#include "diff_files.h"
#include "extsort.h"
#include "output.h"
#include "progress.h"
#include "term.h"

/* Exit statuses, as of diff(1). */
enum {
	SAME = 0,
	DIFFERENT = 1,
	TROUBLE = 2
};

/* Of the rows of each side that are kept in memory while they are sorted. */
#define SORT_MEMORY ((size_t)64 * 1024 * 1024)

struct printer {
	struct look look;
	bool count_only;
	unsigned side;
	uint64_t rows[2];
};

static void print_row(struct printer *printer, unsigned side, const char *row, size_t n)
{
	printer->rows[side]++;
	if (printer->count_only)
		return;
	output_text("%s%c", look_style(&printer->look, side == 0 ? RED : GREEN),
		    side == 0 ? '-' : '+');
	output_bytes(row, n);
	output_text("%s\n", look_end(&printer->look));
}

static bool on_row_to_print(void *context, const char *row, size_t n)
{
	struct printer *printer = context;

	print_row(printer, printer->side, row, n);
	return true;
}

static bool sorting_failed(int why)
{
	report("sorting rows in a temporary file: %s", strerror(why));
	return false;
}

static bool on_row_to_sort(void *context, const char *row, size_t n)
{
	int why = rowsort_add(context, row, n);

	return why == 0 || sorting_failed(why);
}

static void free_sort(struct rowsort **sort)
{
	rowsort_free(*sort);
}

/* Walks both sorted sides at once. Returns 0 or an errno. */
static int merge(struct rowsort *const sorts[2], struct printer *printer)
{
	const char *row[2] = { NULL, NULL };
	size_t n[2] = { 0, 0 };
	int more[2];

	for (unsigned side = 0; side < 2; side++)
		more[side] = rowsort_next(sorts[side], &row[side], &n[side]);
	while ((more[0] > 0 || more[1] > 0) && more[0] >= 0 && more[1] >= 0 && !output_failed()) {
		int order = more[0] == 0   ? 1
			    : more[1] == 0 ? -1
					   : rowsort_compare(row[0], n[0], row[1], n[1]);

		if (order != 0)
			print_row(printer, order > 0, row[order > 0], n[order > 0]);
		for (unsigned side = 0; side < 2; side++)
			if (side == 0 ? order <= 0 : order >= 0)
				more[side] = rowsort_next(sorts[side], &row[side], &n[side]);
	}
	return more[0] < 0 ? -more[0] : more[1] < 0 ? -more[1] : 0;
}

/* Both have files of their own. Returns false with the failure reported. */
static bool compare_rows(const struct difference *difference, struct printer *printer,
			 void (*done)(uint64_t bytes))
{
	struct rowsort *removed AUTO(free_sort) = rowsort_new(SORT_MEMORY);
	struct rowsort *added AUTO(free_sort) = rowsort_new(SORT_MEMORY);
	struct rowsort *const sorts[2] = { removed, added };
	int why;

	if (removed == NULL || added == NULL) {
		report("out of memory");
		return false;
	}
	for (unsigned side = 0; side < 2; side++)
		if (!difference_rows(difference, side, on_row_to_sort, sorts[side], done))
			return false;
	why = merge(sorts, printer);
	return why == 0 || sorting_failed(why);
}

/* Only one has files of its own: they are all the difference there is. */
static bool print_files(const struct difference *difference, struct printer *printer,
			void (*done)(uint64_t bytes))
{
	printer->side = difference->count[1] > 0;
	if (printer->count_only) {
		printer->rows[printer->side] = difference->records[printer->side];
		return true;
	}
	return difference_rows(difference, printer->side, on_row_to_print, printer, done);
}

static bool compare(tdl_snapshot *a, tdl_snapshot *b, struct printer *printer)
{
	struct difference difference AUTO(difference_clear) = { 0 };
	tdl_error error = { 0 };
	struct stat st;
	bool to_terminal, good;

	if (difference_find(&difference, a, b, &error) < 0) {
		report_error(&error);
		return false;
	}
	/* Rows that go to a pipe may well be shown on the same terminal. */
	to_terminal =
		!printer->count_only && (fstat(STDOUT_FILENO, &st) != 0 || !S_ISREG(st.st_mode));
	progress_begin(difference.bytes[0] + difference.bytes[1]);
	good = (difference.count[0] > 0 && difference.count[1] > 0 ? compare_rows : print_files)(
		&difference, printer, to_terminal ? NULL : progress_add);
	progress_end();
	return good;
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
	const struct option options[] = {
		{ .name = "stat",
		  .help = "only say how many rows were added and removed",
		  .set = &printer.count_only },
		LOOK_OPTION(&color),
		{ 0 },
	};
	tdl_table *table AUTO(free_table) = NULL;
	tdl_snapshot *a AUTO(unref_snapshot) = NULL, *b AUTO(unref_snapshot) = NULL;
	tdl_error error = { 0 };
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	look_begin(&printer.look, color);
	if (tdl_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0) {
		report_error(&error);
		return TROUBLE;
	}
	if (!open_version(table, argv[1], &a) || !open_version(table, argv[2], &b))
		return TROUBLE;
	if (!compare(a, b, &printer)) {
		output_finish(NULL);
		return TROUBLE;
	}
	if (printer.count_only)
		output_text("%s%" PRIu64 " added%s, %s%" PRIu64 " removed%s\n",
			    look_style(&printer.look, GREEN), printer.rows[1],
			    look_end(&printer.look), look_style(&printer.look, RED),
			    printer.rows[0], look_end(&printer.look));
	if (output_finish(NULL) != STATUS_DONE)
		return TROUBLE;
	return printer.rows[0] > 0 || printer.rows[1] > 0 ? DIFFERENT : SAME;
}

const struct command command_diff = {
	.name = "diff",
	.operands = "TABLE A B",
	.min_operands = 3,
	.max_operands = 3,
	.summary = "Show the rows removed and added between versions A and B.",
	.run = run,
};
