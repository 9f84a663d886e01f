/* SPDX-License-Identifier: MIT */
/*
 * tinydelta: finds the subcommand and runs it. What they do stands in one file each.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "interrupt.h"
#include "output.h"
#include "suggest.h"
#include "util/util.h"

static const struct command *const commands[] = {
	&command_create,   &command_append,  &command_overwrite, &command_read,
	&command_describe, &command_history, &command_diff,	 &command_changes,
	&command_restore,  &command_vacuum,  &command_check,	 &command_recover,
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static const char usage[] = "usage: tinydelta COMMAND [ARGUMENT...]";

static int help(void)
{
	output_text("%s\n\nReads and writes tinydelta tables.\n\n", usage);
	for (size_t i = 0; i < COMMANDS; i++)
		output_text("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	output_text("\n  -h, --help  show this help and exit\n"
		    "  --version   show the version and exit\n"
		    "\nMore on one of them: tinydelta COMMAND --help\n");
	return output_finish(NULL);
}

static int unknown_command(const char *word)
{
	struct nearest meant = { .word = word };

	for (size_t i = 0; i < COMMANDS; i++)
		nearest_offer(&meant, commands[i]->name);
	fprintf(stderr, "%s\n", usage);
	if (meant.name)
		report("unknown command: %s (did you mean %s?)", word, meant.name);
	else
		report("unknown command: %s (tinydelta --help lists them)", word);
	return STATUS_USAGE;
}

int main(int argc, char **argv)
{
	const char *word;

	if (!tdl__open_standard_streams())
		return STATUS_FAILED;
	/* Past a limit for files a write is to fail with EFBIG, like every other failure. Where
	 * nothing is committed SIGPIPE stays as it is: `tinydelta read T | head` ends without a
	 * word. */
	signal(SIGXFSZ, SIG_IGN);

	if (argc < 2) {
		fprintf(stderr, "%s\n", usage);
		report("missing command (tinydelta --help lists them)");
		return STATUS_USAGE;
	}
	word = argv[1];
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return help();
	if (strcmp(word, "--version") == 0) {
		output_text("tinydelta %s\n", tdl_library_version());
		return output_finish(NULL);
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(word, commands[i]->name) == 0)
			return interrupt_exit(commands[i]->run(commands[i], argv + 2));
	return unknown_command(word);
}
