/* SPDX-License-Identifier: MIT */
/*
 * tinydelta restore: a new version that is what an older one was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"
#include "commit.h"
#include "find_table.h"
#include "interrupt.h"

static int run(const struct command *command, char **argv)
{
	struct commit_words words = { 0 };
	const char *text = NULL;
	const struct option options[] = {
		{ .name = "version",
		  .value = "VERSION",
		  .offers = OFFER_VERSIONS,
		  .help = "the version to go back to, in place of the operand",
		  .text = &text },
		READ_VERSION_OPTION(&words),
		COMMIT_OPTIONS(&words),
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_commit_options how;
	tdl_error error = { 0 };
	int64_t target, version;
	char committed[80];
	size_t count;
	char *here CLEANUP(tdl__free_at) = NULL;
	int status = arguments_parse(command, options, argv, &count);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (count == 2 && text)
		return arguments_misuse(command, options, "the version is given twice");
	if (count == 2) {
		text = argv[1];
	} else if (!text && (here = find_table_here())) {
		text = argv[0];
		argv[0] = here;
	}
	if (!text)
		return arguments_misuse(command, options, "missing VERSION");
	if (!commit_options(argv[0], &words, &how))
		return STATUS_FAILED;
	interrupt_begin();
	if (find_table_open(argv[0], 0, &table, &error) < 0)
		return report_commit_error(command, &error);
	status = find_version(table, text, &target);
	if (status != STATUS_DONE)
		return status;
	if (tdl_table_restore(table, target, &how, &version, &error) < 0)
		return report_commit_error(command, &error);
	snprintf(committed, sizeof committed, "restored version %" PRId64 " as version %" PRId64,
		 target, version);
	return commit_done(&words, committed, table, version);
}

const struct command command_restore = {
	.name = "restore",
	.operands = "TABLE VERSION",
	.min_operands = 1,
	.max_operands = 2,
	.summary = "Make an older version the newest again, as a new version.",
	.example = "tinydelta restore orders v3 -m 'the import was wrong'",
	.table_here = true,
	.run = run,
};
