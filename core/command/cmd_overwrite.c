/* SPDX-License-Identifier: MIT */
/*
 * tinydelta overwrite: a new version with other rows.
 */
#include "commit.h"

static int run(const struct command *command, char **argv)
{
	return commit_rows(command, argv, TDL_OVERWRITE, "overwrote");
}

const struct command command_overwrite = {
	.name = "overwrite",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Put the rows of a file in place of all others, as a new version.",
	.example = "tinydelta read orders | grep -v '\"region\":\"north\"' | tinydelta overwrite "
		   "orders --file -",
	.table_here = true,
	.run = run,
};
