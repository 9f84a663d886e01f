/* SPDX-License-Identifier: MIT */
/*
 * tinydelta append: a new version with more rows.
 */
#include "commit.h"

static int run(const struct command *command, char **argv)
{
	return commit_rows(command, argv, TDL_APPEND, "appended");
}

const struct command command_append = {
	.name = "append",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Add the rows of a file, as a new version.",
	.example = "tinydelta append orders --file monday.jsonl -m 'as the shop sent it'",
	.table_here = true,
	.run = run,
};
