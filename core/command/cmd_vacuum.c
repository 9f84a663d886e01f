/* SPDX-License-Identifier: MIT */
/*
 * tinydelta vacuum: deletes what no version ever held.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "find_table.h"
#include "json.h"
#include "output.h"
#include "term.h"

/* The count is printed before the names, so these are kept until all are known. */
struct orphans {
	FILE *text;
	size_t count;
};

static void add_orphan(void *context, const char *path)
{
	struct orphans *orphans = context;

	orphans->count++;
	fprintf(orphans->text, "%s\n", path);
}

static void print_orphans(const struct term *term, const char *done, const struct orphans *orphans,
			  const char *names, size_t length)
{
	output_text("%s", term_style(term, BOLD));
	if (orphans->count == 0)
		output_text("no orphan files");
	else
		output_text("%s %zu orphan file%s", done, orphans->count,
			    orphans->count == 1 ? "" : "s");
	output_text("%s\n", term_end(term));
	output_bytes(names, length);
}

/* The names are lines, and none has a newline: all of them are made of digits and a few letters. */
static void print_json(bool dry_run, char *names)
{
	const char *between = "";

	output_text("{\"dryRun\":%s,\"files\":[", dry_run ? "true" : "false");
	for (char *name; (name = strsep(&names, "\n")) && *name != '\0'; between = ",") {
		output_text("%s", between);
		output_json_string(name);
	}
	output_text("]}\n");
}

static int run(const struct command *command, char **argv)
{
	tdl_vacuum_options how = { .size = sizeof how };
	const char *age = NULL, *color = NULL;
	bool json = false;
	const struct option options[] = {
		{ .name = "older-than",
		  .value = "AGE",
		  .help = "keep what was changed within it: 7d, 90m, or milliseconds (default: 0)",
		  .age = true,
		  .text = &age },
		{ .name = "dry-run",
		  .help = "name the files, but delete nothing",
		  .set = &how.dry_run },
		JSON_OPTION(&json),
		TERM_OPTION(&color),
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	char *names CLEANUP(tdl__free_at) = NULL;
	size_t length = 0;
	struct orphans orphans = { 0 };
	struct term term;
	tdl_error error = { 0 };
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (age && !parse_age(age, &how.older_than))
		return STATUS_FAILED;
	if (find_table_open(argv[0], 0, &table, &error) < 0)
		return report_error(&error);
	orphans.text = open_memstream(&names, &length);
	if (!orphans.text)
		return report("out of memory");
	status = tdl_table_vacuum(table, &how, add_orphan, &orphans, &error);
	if (fclose(orphans.text) != 0)
		return report("out of memory; %zu files were found", orphans.count);

	/* Where it fails on the way, what it did until then is told all the same. */
	term_begin(&term, color);
	if (json && (status == 0 || orphans.count > 0))
		print_json(how.dry_run, names);
	else if (status == 0 || orphans.count > 0)
		print_orphans(&term, how.dry_run ? "would delete" : "deleted", &orphans, names,
			      length);
	if (status < 0) {
		output_finish(NULL);
		return report_error(&error);
	}
	return output_finish(NULL);
}

const struct command command_vacuum = {
	.name = "vacuum",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Delete files that no version ever held.",
	.example = "tinydelta vacuum orders --dry-run",
	.table_here = true,
	.run = run,
};
