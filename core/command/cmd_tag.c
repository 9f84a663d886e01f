/* SPDX-License-Identifier: MIT */
/*
 * tinydelta tag: gives a version a name, or takes it away.
 */
#include <inttypes.h>

#include "arguments.h"
#include "commit.h"
#include "find_table.h"
#include "output.h"

static int remove_tag(tdl_table *table, const char *name)
{
	tdl_error error = { 0 };
	int r = tdl_table_untag(table, name, &error);

	if (r < 0) {
		report_error(&error);
		return r == TDL_ERR_MISUSE ? STATUS_USAGE : STATUS_FAILED;
	}
	output_text("deleted tag %s\n", name);
	return output_finish("the tag is deleted");
}

static int set_tag(tdl_table *table, const char *name, const char *text, const tdl_tag_options *how)
{
	tdl_error error = { 0 };
	int64_t version;
	int r, status = find_version(table, text, &version);

	if (status != STATUS_DONE)
		return status;
	r = tdl_table_tag(table, name, version, how, &error);
	if (r == TDL_ERR_EXISTS)
		return report("%s (--force moves it)", error.message);
	if (r < 0) {
		report_error(&error);
		return r == TDL_ERR_MISUSE ? STATUS_USAGE : STATUS_FAILED;
	}
	output_text("tagged version %" PRId64 " as %s\n", version, name);
	return output_finish("the tag is made");
}

static int run(const struct command *command, char **argv)
{
	struct commit_words words = { 0 };
	tdl_tag_options how = { .size = sizeof how };
	bool delete = false;
	const struct option options[] = {
		{ .name = "message",
		  .letter = 'm',
		  .value = "TEXT",
		  .help = "what it stands for",
		  .text = &words.message },
		{ .name = "force",
		  .help = "move a tag that there is to this version",
		  .set = &how.replace },
		{ .name = "delete", .help = "take the tag away", .set = &delete },
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_commit_options who;
	tdl_error error = { 0 };
	size_t count;
	int status = arguments_parse(command, options, argv, &count);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (delete &&(count > 2 || words.message || how.replace))
		return arguments_misuse(command, options,
					"--delete goes with neither VERSION, -m nor --force");
	if (!commit_options(argv[0], &words, &who))
		return STATUS_FAILED;
	how.user_name = who.user_name;
	how.message = who.message;
	if (find_table_open(argv[0], 0, &table, &error) < 0)
		return report_error(&error);
	return delete ? remove_tag(table, argv[1])
		      : set_tag(table, argv[1], count > 2 ? argv[2] : "latest", &how);
}

const struct command command_tag = {
	.name = "tag",
	.operands = "TABLE NAME [VERSION]",
	.min_operands = 2,
	.max_operands = 3,
	.summary = "Give a version a name, or take it away.",
	.example = "tinydelta tag orders before-import latest~1 -m 'the last good one'",
	.table_here = true,
	.run = run,
};
