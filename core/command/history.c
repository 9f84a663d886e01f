/* SPDX-License-Identifier: MIT */
/*
 * tinydelta history: one line a version, oldest first.
 */
#include <inttypes.h>

#include "arguments.h"
#include "command.h"
#include "output.h"

static void print_version(const tdl_version_info *info)
{
	output_text("v%" PRId64 "  %s  readVersion=", info->version, info->operation);
	if (info->read_version < 0)
		output_text("None");
	else
		output_text("%" PRId64, info->read_version);
	output_text("  ts=%" PRId64 "\n", info->timestamp);
}

static int run(const struct command *command, char **argv)
{
	static const struct option options[] = { { 0 } };
	tdl_table *table AUTO(free_table) = NULL;
	tdl_version_info info;
	tdl_error error = { 0 };
	int64_t head;
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (tdl_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	head = tdl_table_head(table);
	for (int64_t version = 0; version <= head && !output_failed(); version++) {
		if (tdl_table_version_info(table, version, &info, &error) < 0) {
			output_finish(NULL);
			return report_error(&error);
		}
		print_version(&info);
	}
	status = output_finish(NULL);
	/* What can be read was shown; that it is not everything must not go unsaid. */
	if (status == STATUS_DONE && tdl_table_damage(table, &error) < 0)
		return report_error(&error);
	return status;
}

const struct command command_history = {
	.name = "history",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "List the versions, oldest first.",
	.run = run,
};
