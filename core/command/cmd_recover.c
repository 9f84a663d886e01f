/* SPDX-License-Identifier: MIT */
/*
 * tinydelta recover: what waits in _incoming, and taking over by hand what no mount can.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "find_table.h"
#include "json.h"
#include "output.h"
#include "term.h"

static const char *const states[] = {
	[TDL_WAITING_UNKNOWN] = "unknown",
	[TDL_WAITING_MOUNT] = "dead",
	[TDL_WAITING_LIVES] = "alive",
};

/* One line a file, fields with a tab between them; the name is the last. */
static void print_waiting(void *context, const tdl_waiting *waiting)
{
	char time[TERM_TIME_SIZE];

	if (!waiting->name)
		output_text("%s\t%s\tuser %u\t-\t-\t(closed to this user)\n", waiting->folder,
			    states[waiting->state], waiting->uid);
	else
		output_text("%s\t%s\tuser %u\t%" PRIu64 "\t%s\t%s\n", waiting->folder,
			    states[waiting->state], waiting->uid, waiting->size,
			    term_time(waiting->mtime, time), waiting->name);
}

static void print_json(void *context, const tdl_waiting *waiting)
{
	output_text("{\"folder\":");
	output_json_string(waiting->folder);
	output_text(",\"state\":\"%s\",\"user\":%u", states[waiting->state], waiting->uid);
	if (waiting->name) {
		output_text(",\"size\":%" PRIu64 ",\"time\":%" PRId64 ",\"name\":", waiting->size,
			    waiting->mtime);
		output_json_string(waiting->name);
	}
	if (waiting->reason) {
		output_text(",\"reason\":");
		output_json_string(waiting->reason);
	}
	output_text("}\n");
}

/* As `check` names it, or as it is. */
static const char *folder_of(char *text)
{
	static const char before[] = "_incoming/";
	size_t n = strlen(text);

	if (n > 0 && text[n - 1] == '/')
		text[n - 1] = '\0';
	return strncmp(text, before, strlen(before)) == 0 ? text + strlen(before) : text;
}

static int run(const struct command *command, char **argv)
{
	const char *from = NULL;
	bool dry_run = false, json = false;
	const struct option options[] = {
		{ .name = "from",
		  .value = "FOLDER",
		  .offers = OFFER_FOLDERS,
		  .help = "take over what a process that is gone left in this folder of _incoming",
		  .text = &from },
		{ .name = "dry-run",
		  .help = "with --from: name the files, but take nothing over",
		  .set = &dry_run },
		JSON_OPTION(&json),
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	char *copy CLEANUP(tdl__free_at) = NULL;
	const char *folder = NULL;
	tdl_error error = { 0 };
	unsigned count = 0;
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (dry_run && !from)
		return arguments_misuse(command, options, "option --dry-run needs --from");
	if (from) {
		copy = strdup(from);
		if (!copy)
			return report("out of memory");
		folder = folder_of(copy);
	}
	if (find_table_open(argv[0], from && !dry_run ? 0 : TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	status = tdl_table_waiting(table, folder, json ? print_json : print_waiting, NULL, &error);
	if (status == 0 && from && !dry_run)
		status = tdl_table_recover(table, folder, &count, &error);
	if (status < 0) {
		output_finish(NULL);
		return report_error(&error);
	}
	if (!from || dry_run)
		return output_finish(NULL);
	if (json)
		output_text("{\"recovered\":%u}\n", count);
	else
		output_text("recovered %u file%s: the next mount lists %s in incoming/\n", count,
			    count == 1 ? "" : "s", count == 1 ? "it" : "them");
	return output_finish(NULL);
}

const struct command command_recover = {
	.name = "recover",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "List what waits in _incoming, or take it over from who is gone.",
	.example = "tinydelta recover orders",
	.table_here = true,
	.run = run,
};
