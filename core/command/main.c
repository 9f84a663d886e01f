/* SPDX-License-Identifier: MIT */
/*
 * tinydelta: finds the subcommand and runs it. What they do stands in one file each.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "complete.h"
#include "interrupt.h"
#include "output.h"
#include "topics.h"
#include "util/suggest.h"
#include "util/util.h"

static const struct command *const commands[] = {
	&command_create,   &command_append,  &command_overwrite, &command_read,	   &command_status,
	&command_describe, &command_history, &command_diff,	 &command_changes, &command_restore,
	&command_tag,	   &command_tags,    &command_vacuum,	 &command_check,   &command_recover,
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static const char usage[] = "usage: tinydelta COMMAND [ARGUMENT...]";

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	return NULL;
}

static const struct topic *find_topic(const char *name)
{
	for (const struct topic *topic = topics; topic->name; topic++)
		if (strcmp(name, topic->name) == 0)
			return topic;
	return NULL;
}

static void print_commands(void)
{
	for (size_t i = 0; i < COMMANDS; i++)
		output_text("  %-10s %s\n", commands[i]->name, commands[i]->summary);
}

static int help(void)
{
	output_text("%s\n\nReads and writes tinydelta tables.\n\n", usage);
	print_commands();
	output_text("\n  -h, --help     show this help and exit\n"
		    "  -V, --version  show the version and exit\n"
		    "\nMore on one of them: tinydelta COMMAND --help, or tinydelta help COMMAND\n"
		    "More on:\n");
	for (const struct topic *topic = topics; topic->name; topic++)
		output_text("  help %-10s %s\n", topic->name, topic->summary);
	output_text("\nExample:\n"
		    "  tinydelta create orders id:int region:str year:int\n"
		    "  tinydelta append orders --file monday.jsonl\n"
		    "  tinydelta history orders\n");
	return output_finish(NULL);
}

static int missing(void)
{
	fprintf(stderr, "%s\n\n", usage);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(stderr, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(stderr, "\n");
	report("missing command");
	return STATUS_USAGE;
}

static int unknown_command(const char *word, const char *what)
{
	struct nearest meant = { .word = word };

	for (size_t i = 0; i < COMMANDS; i++)
		nearest_offer(&meant, commands[i]->name);
	if (what[0] == 't')
		for (const struct topic *topic = topics; topic->name; topic++)
			nearest_offer(&meant, topic->name);
	fprintf(stderr, "%s\n", usage);
	if (meant.name)
		report("unknown %s: %s (did you mean %s?)", what, word, meant.name);
	else
		report("unknown %s: %s (tinydelta --help lists them)", what, word);
	return STATUS_USAGE;
}

/* argv has room for a word more than it has. */
static int run(const struct command *command, char **argv)
{
	return interrupt_exit(command->run(command, argv));
}

/* help, help COMMAND, help TOPIC */
static int help_on(char **words)
{
	char option[] = "--help", *argv[] = { option, NULL, NULL };
	const struct command *command;
	const struct topic *topic;

	if (!words[0])
		return help();
	if (words[1]) {
		fprintf(stderr, "%s\n", usage);
		report("unexpected argument: %s", words[1]);
		return STATUS_USAGE;
	}
	command = find_command(words[0]);
	if (command)
		return run(command, argv);
	topic = find_topic(words[0]);
	if (!topic)
		return unknown_command(words[0], "topic");
	output_text("%s", topic->text);
	return output_finish(NULL);
}

/* For the completion of shells: what may stand in place of the last word. */
static int complete(char **words)
{
	const struct command *command;
	bool topic = words[0] && strcmp(words[0], "help") == 0;
	char *word = !words[0] ? NULL : words[topic];

	if (!word || (!words[topic + 1] && !(topic && !words[1]))) {
		if (!word)
			return STATUS_DONE;
		for (size_t i = 0; i < COMMANDS; i++)
			complete_offer(word, "", commands[i]->name, commands[i]->summary);
		for (const struct topic *t = topics; topic && t->name; t++)
			complete_offer(word, "", t->name, t->summary);
		if (!topic) {
			complete_offer(word, "", "help", "explain a command or a topic");
			complete_offer(word, "", "--help", "show the help and exit");
			complete_offer(word, "", "--version", "show the version and exit");
		}
		return output_finish(NULL);
	}
	command = topic ? NULL : find_command(word);
	if (!command)
		return STATUS_DONE;
	complete_begin();
	return command->run(command, words + 1);
}

static int dispatch(char **words)
{
	const char *word = words[0];
	const struct command *command;

	if (!word)
		return missing();
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return help();
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
		output_text("tinydelta %s\n", tdl_library_version());
		return output_finish(NULL);
	}
	if (strcmp(word, "help") == 0)
		return help_on(words + 1);
	if (strcmp(word, "complete") == 0)
		return complete(words + 1);
	command = find_command(word);
	return command ? run(command, words + 1) : unknown_command(word, "command");
}

int main(int argc, char **argv)
{
	char **words;
	int status;

	if (!tdl__open_standard_streams())
		return STATUS_FAILED;
	/* Past a limit for files a write is to fail with EFBIG, like every other failure. Where
	 * nothing is committed SIGPIPE stays as it is: `tinydelta read T | head` ends without a
	 * word. */
	signal(SIGXFSZ, SIG_IGN);

	/* With room for the table that is not named. */
	words = calloc((size_t)argc + 2, sizeof *words);
	if (!words)
		return report("out of memory");
	for (int i = 1; i < argc; i++)
		words[i - 1] = argv[i];
	status = dispatch(words);
	free(words);
	return status;
}
