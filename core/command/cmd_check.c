/* SPDX-License-Identifier: MIT */
/*
 * tinydelta check: what is wrong with a table, one problem a line, the worst first.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "columns.h"
#include "command.h"
#include "find_table.h"
#include "json.h"
#include "output.h"
#include "progress.h"

/* They come in no order, so these are kept until all are known. */
struct kept {
	enum tdl_severity severity;
	int64_t version;
	uint64_t line;
	char *path, *text;
};

struct problems {
	struct kept *items;
	size_t count, cap;
	bool failed;
};

static void free_problems(struct problems *problems)
{
	for (size_t i = 0; i < problems->count; i++) {
		free(problems->items[i].path);
		free(problems->items[i].text);
	}
	free(problems->items);
}

static void add_problem(void *context, const tdl_problem *problem)
{
	struct problems *problems = context;
	struct kept kept = { problem->severity, problem->version, problem->line,
			     strdup(problem->path), strdup(problem->text) };

	if (problems->count == problems->cap) {
		size_t cap = problems->cap * 2 + 16;
		struct kept *grown = reallocarray(problems->items, cap, sizeof *grown);

		if (grown) {
			problems->items = grown;
			problems->cap = cap;
		}
	}
	if (!kept.path || !kept.text || problems->count == problems->cap) {
		free(kept.path);
		free(kept.text);
		problems->failed = true;
		return;
	}
	problems->items[problems->count++] = kept;
}

static int by_weight(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;
	int order = (int)y->severity - (int)x->severity;

	if (order == 0)
		order = strcmp(x->path, y->path);
	if (order == 0)
		order = (x->line > y->line) - (x->line < y->line);
	return order != 0 ? order : strcmp(x->text, y->text);
}

/* What output there is; also for the callbacks, of which there is one at a time. */
static struct {
	struct term term;
	bool json;
} out;

static void print_plain(const struct problems *problems)
{
	for (size_t i = 0; i < problems->count; i++) {
		const struct kept *kept = &problems->items[i];

		if (kept->line > 0)
			output_text("%s:%" PRIu64 ": %s\n", kept->path, kept->line, kept->text);
		else
			output_text("%s: %s\n", kept->path, kept->text);
	}
}

static const struct {
	const char *name;
	enum style style;
} severities[] = {
	[TDL_LEFTOVER] = { "leftover", CYAN },
	[TDL_SUSPECT] = { "suspect", YELLOW },
	[TDL_DAMAGE] = { "damage", RED },
};

static void print_human(const struct problems *problems)
{
	struct grid grid;

	if (problems->count == 0) {
		output_text("%sno problems%s\n", term_style(&out.term, GREEN), term_end(&out.term));
		return;
	}
	grid_begin(&grid, &out.term, 3, 0);
	for (size_t i = 0; i < problems->count; i++) {
		const struct kept *kept = &problems->items[i];

		grid_add(&grid, severities[kept->severity].style, "%s",
			 severities[kept->severity].name);
		if (kept->line > 0)
			grid_add(&grid, BOLD, "%s:%" PRIu64, kept->path, kept->line);
		else
			grid_add(&grid, BOLD, "%s", kept->path);
		grid_add(&grid, PLAIN, "%s", kept->text);
	}
	grid_end(&grid);
}

static void print_json(const struct problems *problems)
{
	for (size_t i = 0; i < problems->count; i++) {
		const struct kept *kept = &problems->items[i];

		output_text("{\"severity\":\"%s\",\"version\":", severities[kept->severity].name);
		if (kept->version >= 0)
			output_text("%" PRId64, kept->version);
		else
			output_text("null");
		output_text(",\"path\":");
		output_json_string(kept->path);
		output_text(",\"line\":%" PRIu64 ",\"text\":", kept->line);
		output_json_string(kept->text);
		output_text("}\n");
	}
}

static void show_progress(void *context, uint64_t bytes, uint64_t total)
{
	bool *begun = context;

	if (!*begun)
		progress_begin("checking", total);
	*begun = true;
	progress_at(NULL, bytes);
}

static void removed(void *context, const char *path)
{
	if (out.json) {
		output_text("{\"removed\":");
		output_json_string(path);
		output_text("}\n");
	} else {
		output_text("%s: removed\n", path);
	}
}

/* What is damaged stays as it is: vacuum refuses to look for leftovers there, which is not a
 * failure of this command. */
static int repair(tdl_table *table, int64_t older_than, tdl_error *error)
{
	int r = tdl_table_vacuum(table,
				 &(tdl_vacuum_options){ .size = sizeof(tdl_vacuum_options),
							.older_than = older_than },
				 removed, NULL, error);

	return r == TDL_ERR_CORRUPT ? 0 : r;
}

/* A version behind damage can be named by its number, and is what one wants to know of. */
static int which(tdl_table *table, const char *text, int64_t *version)
{
	const char *digits = text + (*text == 'v');
	long long value;

	if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0')
		return find_version(table, text, version);
	errno = 0;
	value = strtoll(digits, NULL, 10);
	if (errno != 0)
		return find_version(table, text, version);
	*version = value;
	return STATUS_DONE;
}

static int run(const struct command *command, char **argv)
{
	const char *version = NULL, *age = NULL, *color = NULL;
	/* What is younger another program may be about to commit. */
	int64_t older_than = 3600000;
	bool mend = false, begun = false;
	const struct option options[] = {
		{ .name = "version",
		  .value = "VERSION",
		  .offers = OFFER_VERSIONS,
		  .help = "look only at what this version needs",
		  .text = &version },
		{ .name = "repair",
		  .help = "remove what is left over, as vacuum does",
		  .set = &mend },
		{ .name = "older-than",
		  .value = "AGE",
		  .help = "with --repair: keep what was changed within it (default: 1h)",
		  .age = true,
		  .text = &age },
		JSON_OPTION(&out.json),
		TERM_OPTION(&color),
		{ 0 },
	};
	tdl_check_options how = {
		.size = sizeof how, .version = -1, .progress = show_progress, .context = &begun
	};
	struct problems problems CLEANUP(free_problems) = { 0 };
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_error error = { 0 };
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (age && !mend)
		return arguments_misuse(command, options, "option --older-than needs --repair");
	if (age && !parse_age(age, &older_than))
		return STATUS_FAILED;
	term_begin(&out.term, color);
	if (find_table_open(argv[0], mend ? 0 : TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	if (version && (status = which(table, version, &how.version)) != STATUS_DONE)
		return status;
	if (mend && repair(table, older_than, &error) < 0) {
		output_finish(NULL);
		return report_error(&error);
	}
	status = tdl_table_check(table, &how, add_problem, &problems, &error);
	progress_end();
	if (problems.count > 0)
		qsort(problems.items, problems.count, sizeof *problems.items, by_weight);
	(out.json ? print_json : out.term.human ? print_human : print_plain)(&problems);
	if (output_finish(NULL) != STATUS_DONE)
		return STATUS_FAILED;
	if (status < 0)
		return report_error(&error);
	if (problems.failed)
		return report("out of memory; not all problems are shown");
	return problems.count == 0 ? STATUS_DONE : STATUS_FAILED;
}

const struct command command_check = {
	.name = "check",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Look for damage, and for what is left over.",
	.example = "tinydelta check orders --repair --older-than 1d",
	.table_here = true,
	.run = run,
};
