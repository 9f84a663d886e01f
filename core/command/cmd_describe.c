/* SPDX-License-Identifier: MIT */
/*
 * tinydelta describe: what a version is, and its columns.
 */
#include <inttypes.h>

#include "arguments.h"
#include "columns.h"
#include "command.h"
#include "find_table.h"
#include "json.h"
#include "output.h"
#include "versions.h"

static void print_columns(const tdl_schema *schema)
{
	for (size_t i = 0; i < tdl_schema_count(schema); i++) {
		size_t length;
		const char *name = tdl_schema_name(schema, i, &length);

		output_text("  ");
		output_bytes(name, length);
		output_text(":%s\n", tdl_type_name(tdl_schema_type(schema, i)));
	}
}

static void print_plain(const tdl_version_info *info)
{
	output_text("version %" PRId64 "\ntable_id %s\nfiles %" PRIu64 "\nnum_records %" PRIu64
		    "\n",
		    info->version, info->table_id, info->files, info->num_records);
	print_columns(info->schema);
}

static void print_human(const tdl_version_info *info, const struct term *term)
{
	char time[TERM_TIME_SIZE], age[TERM_TIME_SIZE], bytes[TERM_TIME_SIZE];
	struct grid grid;

	grid_begin(&grid, term, 2, 0);
	grid_add(&grid, DIM, "version");
	grid_add(&grid, BOLD, "%" PRId64, info->version);
	grid_add(&grid, DIM, "operation");
	grid_add(&grid, PLAIN, "%s", info->operation);
	grid_add(&grid, DIM, "time");
	grid_add(&grid, PLAIN, "%s (%s ago)", term_time(info->timestamp, time),
		 term_age(info->timestamp, age));
	grid_add(&grid, DIM, "table");
	grid_add(&grid, PLAIN, "%s", info->table_id);
	grid_add(&grid, DIM, "files");
	grid_add(&grid, PLAIN, "%" PRIu64, info->files);
	grid_add(&grid, DIM, "rows");
	grid_add(&grid, PLAIN, "%" PRIu64, info->num_records);
	grid_add(&grid, DIM, "size");
	grid_add(&grid, PLAIN, "%s", term_bytes('\0', info->bytes, bytes));
	grid_end(&grid);
	output_bytes("\n", 1);

	grid_begin(&grid, term, 2, 0);
	grid_add(&grid, BOLD, "COLUMN");
	grid_add(&grid, BOLD, "TYPE");
	for (size_t i = 0; i < tdl_schema_count(info->schema); i++) {
		grid_add(&grid, PLAIN, "%s", tdl_schema_name(info->schema, i, NULL));
		grid_add(&grid, CYAN, "%s", tdl_type_name(tdl_schema_type(info->schema, i)));
	}
	grid_end(&grid);
}

static int run(const struct command *command, char **argv)
{
	const char *text = NULL, *color = NULL;
	bool json = false;
	const struct option options[] = {
		{ .name = "version",
		  .value = "VERSION",
		  .offers = OFFER_VERSIONS,
		  .help = "the version to describe (default: the newest)",
		  .text = &text },
		JSON_OPTION(&json),
		TERM_OPTION(&color),
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_snapshot *snapshot CLEANUP(unref_snapshot) = NULL;
	const tdl_version_info *info;
	struct term term;
	tdl_error error = { 0 };
	int64_t version = TDL_LATEST;
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (find_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	if (text && (status = find_version(table, text, &version)) != STATUS_DONE)
		return status;
	if (tdl_snapshot_open(table, version, &snapshot, &error) < 0)
		return report_error(&error);
	info = tdl_snapshot_info(snapshot);
	term_begin(&term, color);
	if (json) {
		if (version_print_json(table, info->version, info->table_id, NULL, &error) < 0)
			return report_error(&error);
	} else if (term.human) {
		print_human(info, &term);
	} else {
		print_plain(info);
	}
	return output_finish(NULL);
}

const struct command command_describe = {
	.name = "describe",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Show what a version holds, and the columns.",
	.example = "tinydelta describe orders --version latest~1",
	.table_here = true,
	.run = run,
};
