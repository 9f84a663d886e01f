/* SPDX-License-Identifier: MIT */
/*
 * tinydelta history: one line a version, oldest first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "find_table.h"
#include "history_page.h"
#include "json.h"
#include "output.h"
#include "pager.h"
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

/* A time, as it stands behind an @ or with that. NULL changes nothing. Returns STATUS_DONE, or the
 * exit status with the failure reported. */
static int parse_time(const char *text, int64_t *time)
{
	tdl_error error = { 0 };

	if (!text || tdl_time_parse(text + (*text == '@'), time, &error) == 0)
		return STATUS_DONE;
	report_error(&error);
	return STATUS_USAGE;
}

static int run(const struct command *command, char **argv)
{
	struct versions versions = { 0 };
	const char *number = NULL, *since = NULL, *until = NULL, *graph = NULL, *color = NULL,
		   *html = NULL;
	bool json = false;
	const struct option options[] = {
		{ .name = "number",
		  .letter = 'n',
		  .value = "N",
		  .help = "the newest N versions only",
		  .integer = true,
		  .text = &number },
		{ .name = "since",
		  .value = "TIME",
		  .help = "only versions from then on: -7d, 2026-11-29, ...",
		  .text = &since },
		{ .name = "until", .value = "TIME", .help = "and only until then", .text = &until },
		{ .name = "user",
		  .value = "NAME",
		  .help = "only what this user committed; * and ? stand for anything",
		  .text = &versions.user },
		{ .name = "source",
		  .value = "FILE",
		  .help = "only what came from a file of this name",
		  .text = &versions.source },
		{ .name = "operation",
		  .value = "NAME",
		  .help = "only what did that: append, overwrite, ...",
		  .text = &versions.operation },
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
		{ .name = "html",
		  .value = "FILE",
		  .help = "one page for browsers, with a time line and a search",
		  .offers = OFFER_FILES,
		  .text = &html },
		JSON_OPTION(&json),
		TERM_OPTION(&color),
		{ 0 },
	};
	struct tag_list tags CLEANUP(tag_list_free) = { 0 };
	tdl_table *table CLEANUP(free_table) = NULL;
	struct term term;
	tdl_error error = { 0 };
	int64_t count = INT64_MAX, from = INT64_MIN, to = INT64_MAX;
	int r, status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (json && (versions.details || graph))
		return arguments_misuse(command, options,
					"--json goes with neither --long nor --graph");
	if (html && (json || versions.details || graph))
		return arguments_misuse(command, options,
					"--html goes with none of --json, --long and --graph");
	if (number && !parse_count(number, &count))
		return STATUS_FAILED;
	status = parse_time(since, &from);
	if (status == STATUS_DONE)
		status = parse_time(until, &to);
	if (status != STATUS_DONE)
		return status;
	if (graph)
		versions.graph = strcmp(graph, "bytes") == 0 ? GRAPH_BYTES : GRAPH_ROWS;
	if (find_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	/* Only a listing of a long log shows that there is more behind a gap. */
	if (tdl_table_verify_log(table, 0, &error) < 0 && error.code != TDL_ERR_CORRUPT)
		return report_error(&error);
	if (tag_list_read(table, &tags, &error) < 0)
		return report_error(&error);
	versions.tags = &tags;
	versions.last = tdl_table_head(table);
	versions.first = 0;
	if (versions_between(table, &versions, from, to, &error) < 0 ||
	    (number && versions_newest(table, &versions, count, &error) < 0))
		return report_error(&error);

	if (html) {
		status = history_page(table, &versions, html);
		return status == STATUS_DONE && tdl_table_damage(table, &error) < 0
			       ? report_error(&error)
			       : status;
	}
	term_begin(&term, color);
	if (!json)
		pager_begin();
	if (json)
		r = versions_print_json(table, &versions, &error);
	else if (term.human || versions.details || versions.graph != GRAPH_NONE)
		r = versions_print(table, &versions, &term, &error);
	else
		r = versions_print_plain(table, &versions, &error);
	status = pager_end(output_finish(NULL));
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
	.example = "tinydelta history orders --since -7d --long",
	.table_here = true,
	.run = run,
};
