/* SPDX-License-Identifier: MIT */
/*
 * tinydelta describe: what a version is, and its columns.
 */
#include <inttypes.h>

#include "arguments.h"
#include "command.h"
#include "output.h"

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

static int run(const struct command *command, char **argv)
{
	const char *text = NULL;
	const struct option options[] = {
		{ .name = "version",
		  .value = "N",
		  .help = "the version to describe (default: the newest)",
		  .integer = true,
		  .text = &text },
		{ 0 },
	};
	tdl_table *table AUTO(free_table) = NULL;
	tdl_snapshot *snapshot AUTO(unref_snapshot) = NULL;
	const tdl_version_info *info;
	tdl_error error = { 0 };
	int64_t version = TDL_LATEST;
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (text != NULL && !parse_version(argv[0], text, &version))
		return STATUS_FAILED;
	if (tdl_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0 ||
	    tdl_snapshot_open(table, version, &snapshot, &error) < 0)
		return report_error(&error);
	info = tdl_snapshot_info(snapshot);
	output_text("version %" PRId64 "\ntable_id %s\nfiles %" PRIu64 "\nnum_records %" PRIu64
		    "\n",
		    info->version, info->table_id, info->files, info->num_records);
	print_columns(info->schema);
	return output_finish(NULL);
}

const struct command command_describe = {
	.name = "describe",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Show what a version holds, and the columns.",
	.run = run,
};
