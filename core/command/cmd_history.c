/* SPDX-License-Identifier: MIT */
/*
 * tinydelta history: one line a version, oldest first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "json.h"
#include "output.h"
#include "versions.h"

/* How many versions -n asks for. */
static bool parse_count(const char *text, int64_t *count)
{
	long long value;

	errno = 0;
	value = strtoll(text, NULL, 10);
	if (value < 0) {
		report("option --number: out of range: %s", text);
		return false;
	}
	*count = value; /* where it is out of range: the most there is */
	return true;
}

static int run(const struct command *command, char **argv)
{
	struct versions versions = { 0 };
	const char *number = NULL, *graph = NULL, *color = NULL;
	bool json = false;
	const struct option options[] = {
		{ .name = "number",
		  .letter = 'n',
		  .value = "N",
		  .help = "the newest N versions only",
		  .integer = true,
		  .text = &number },
		{ .name = "reverse", .help = "the newest first", .set = &versions.reverse },
		{ .name = "long",
		  .help = "rows and bytes added, user, source and age",
		  .set = &versions.details },
		{ .name = "graph",
		  .value = "rows|bytes",
		  .help = "a bar a version, of its rows unless bytes are asked for",
		  .choices = "rows|bytes",
		  .optional = true,
		  .text = &graph },
		JSON_OPTION(&json),
		LOOK_OPTION(&color),
		{ 0 },
	};
	tdl_table *table AUTO(free_table) = NULL;
	struct look look;
	tdl_error error = { 0 };
	int64_t count = INT64_MAX;
	int r, status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (json && (versions.details || graph != NULL))
		return arguments_misuse(command, options,
					"--json goes with neither --long nor --graph");
	if (number != NULL && !parse_count(number, &count))
		return STATUS_FAILED;
	if (graph != NULL)
		versions.graph = strcmp(graph, "bytes") == 0 ? GRAPH_BYTES : GRAPH_ROWS;
	if (tdl_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	/* Only a listing of a long log shows that there is more behind a gap. */
	if (tdl_table_verify_log(table, 0, &error) < 0 && error.code != TDL_ERR_CORRUPT)
		return report_error(&error);
	versions.last = tdl_table_head(table);
	versions.first = count <= versions.last ? versions.last + 1 - count : 0;

	look_begin(&look, color);
	if (json)
		r = versions_print_json(table, &versions, &error);
	else if (look.people || versions.details || versions.graph != GRAPH_NONE)
		r = versions_print(table, &versions, &look, &error);
	else
		r = versions_print_plain(table, &versions, &error);
	status = output_finish(NULL);
	if (r < 0)
		return report_error(&error);
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
