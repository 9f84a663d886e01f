/* SPDX-License-Identifier: MIT */
/*
 * tinydelta tags: the names that versions were given.
 */
#include <inttypes.h>
#include <stdio.h>

#include "arguments.h"
#include "columns.h"
#include "command.h"
#include "find_table.h"
#include "json.h"
#include "output.h"

struct listing {
	struct grid *grid; /* for human readers, or NULL: */
	bool json;
	bool bad; /* one leads to no version */
};

static void print_json(const tdl_tag *tag)
{
	output_text("{\"tag\":");
	output_json_string(tag->name);
	if (tag->version >= 0)
		output_text(",\"version\":%" PRId64, tag->version);
	else
		output_text(",\"version\":null");
	if (tag->timestamp >= 0)
		output_text(",\"timestamp\":%" PRId64, tag->timestamp);
	if (tag->user_name) {
		output_text(",\"userName\":");
		output_json_string(tag->user_name);
	}
	if (tag->message) {
		output_text(",\"message\":");
		output_json_string(tag->message);
	}
	if (tag->why) {
		output_text(",\"error\":");
		output_json_string(tag->why);
	}
	output_text("}\n");
}

static void add_row(struct grid *grid, const tdl_tag *tag)
{
	char age[TERM_TIME_SIZE];

	grid_add(grid, BOLD, "%s", tag->name);
	if (tag->version >= 0)
		grid_add(grid, PLAIN, "v%" PRId64, tag->version);
	else
		grid_add(grid, RED, "-");
	grid_add(grid, PLAIN, "%s", tag->user_name ? tag->user_name : "-");
	grid_add(grid, PLAIN, "%s", tag->timestamp >= 0 ? term_age(tag->timestamp, age) : "-");
	grid_add(grid, tag->why ? RED : PLAIN, "%s",
		 tag->why	? tag->why
		 : tag->message ? tag->message
				: "-");
}

static bool print_tag(void *context, const tdl_tag *tag)
{
	struct listing *listing = context;

	listing->bad |= tag->version < 0;
	if (listing->json)
		print_json(tag);
	else if (listing->grid)
		add_row(listing->grid, tag);
	else if (tag->version >= 0)
		output_text("%s  v%" PRId64 "\n", tag->name, tag->version);
	else
		output_text("%s  -  %s\n", tag->name, tag->why);
	return output_failed() == 0;
}

static int run(const struct command *command, char **argv)
{
	static const char *const heads[] = { "TAG", "VERSION", "USER", "AGE", "MESSAGE" };
	const char *color = NULL;
	struct listing listing = { 0 };
	const struct option options[] = {
		JSON_OPTION(&listing.json),
		TERM_OPTION(&color),
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	struct grid grid;
	struct term term;
	tdl_error error = { 0 };
	int r, status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (find_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	term_begin(&term, color);
	if (term.human && !listing.json) {
		listing.grid = &grid;
		grid_begin(&grid, &term, 5, 0);
		for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
			grid_add(&grid, BOLD, "%s", heads[i]);
	}
	r = tdl_table_tags(table, print_tag, &listing, &error);
	if (listing.grid)
		grid_end(&grid);
	status = output_finish(NULL);
	if (r < 0)
		return report_error(&error);
	return status == STATUS_DONE && listing.bad ? STATUS_FAILED : status;
}

const struct command command_tags = {
	.name = "tags",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "List the tags, and the versions that they name.",
	.example = "tinydelta tags orders",
	.table_here = true,
	.run = run,
};
