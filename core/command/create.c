/* SPDX-License-Identifier: MIT */
/*
 * tinydelta create: a new, empty table.
 */
#include <stdint.h>

#include "arguments.h"
#include "command.h"
#include "output.h"

static void free_schema(tdl_schema **schema)
{
	tdl_schema_free(*schema);
}

static int run(const struct command *command, char **argv)
{
	static const struct option options[] = { { 0 } };
	tdl_schema *schema AUTO(free_schema) = NULL;
	tdl_error error = { 0 };
	size_t count;
	int status = arguments_parse(command, options, argv, &count);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (tdl_schema_parse((const char *const *)argv + 1, count - 1, &schema, &error) < 0 ||
	    tdl_table_create(argv[0], schema, &error) < 0)
		return report_commit_error(command, &error);
	output_text("created %s version 0\n", argv[0]);
	return output_finish("the table was created");
}

const struct command command_create = {
	.name = "create",
	.operands = "TABLE NAME:TYPE...",
	.min_operands = 2,
	.max_operands = UINT32_MAX,
	.summary = "Make a new, empty table; types are int, float, str and bool.",
	.run = run,
};
