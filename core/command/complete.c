/* SPDX-License-Identifier: MIT */
/*
 * Completion for shells, from the same description as parsing and help.
 */
#include "complete.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "find_table.h"
#include "output.h"
#include "term.h"

/* Of a long log the newest versions that fit what is typed. */
#define VERSIONS_MAX 200

static bool wanted;

void complete_begin(void)
{
	wanted = true;
}

bool complete_wanted(void)
{
	return wanted;
}

void complete_offer(const char *typed, const char *before, const char *what, const char *about)
{
	size_t n = strlen(before);

	/* A name with these would be taken for two. */
	if (strpbrk(what, "\n\t"))
		return;
	if (strncmp(typed, before, strlen(typed) < n ? strlen(typed) : n) != 0 ||
	    (strlen(typed) > n && strncmp(what, typed + n, strlen(typed) - n) != 0))
		return;
	output_text("%s%s\t%s\n", before, what, about);
}

/* What of the arguments is known when the last one is typed. */
struct typed {
	const char *word;	     /* the last one */
	const char *before;	     /* what of it is not part of the value: "--name=" */
	const struct option *option; /* whose value it is, or NULL */
	const char *table;	     /* the first operand before it, or NULL */
	size_t operands;	     /* before it */
	bool options_end;
};

static tdl_table *open_typed(const struct typed *typed)
{
	char *path = NULL;
	const char *home = getenv("HOME");
	tdl_table *table = NULL;

	/* As typed: the shell has not put a home directory in yet. */
	if (!typed->table)
		path = find_table_here();
	else if (strncmp(typed->table, "~/", 2) != 0 || !home)
		path = strdup(typed->table);
	else if (asprintf(&path, "%s%s", home, typed->table + 1) < 0)
		path = NULL;
	if (path)
		find_table_open(path, TDL_OPEN_READ_ONLY, &table, NULL);
	free(path);
	return table;
}

static void offer_tags(const struct typed *typed, tdl_table *table)
{
	int fd = openat(tdl_table_fd(table), "_tags", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (entry->d_name[0] != '.')
			complete_offer(typed->word, typed->before, entry->d_name, "tag");
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

static void offer_versions(const struct typed *typed, bool numbers_only)
{
	tdl_table *table CLEANUP(free_table) = open_typed(typed);
	const char *value = typed->word + strlen(typed->before), *mark = value[0] == 'v' ? "v" : "";
	size_t n = strlen(value);
	unsigned offered = 0;

	if (!table)
		return;
	if (!numbers_only) {
		complete_offer(typed->word, typed->before, "latest", "the newest version");
		offer_tags(typed, table);
	}
	for (int64_t version = tdl_table_head(table); version >= 0 && offered < VERSIONS_MAX;
	     version--) {
		char text[32], about[TERM_TIME_SIZE + 64], time[TERM_TIME_SIZE];
		tdl_version_info info;

		snprintf(text, sizeof text, "%s%" PRId64, numbers_only ? "" : mark, version);
		if (strncmp(text, value, n) != 0 ||
		    tdl_table_version_info(table, version, &info, NULL) < 0)
			continue;
		snprintf(about, sizeof about, "%.40s, %s", info.operation,
			 term_time(info.timestamp, time));
		about[strcspn(about, "\n\t")] = '\0';
		complete_offer(typed->word, typed->before, text, about);
		offered++;
	}
}

static void offer_waiting_folders(const struct typed *typed)
{
	tdl_table *table CLEANUP(free_table) = open_typed(typed);
	int fd = !table ? -1
			: openat(tdl_table_fd(table), "_incoming",
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (entry->d_name[0] != '.')
			complete_offer(typed->word, typed->before, entry->d_name, "");
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

static void offer_choices(const struct typed *typed, const char *choices)
{
	char choice[32];

	for (const char *at = choices; *at != '\0'; at += *at == '|') {
		size_t n = strcspn(at, "|");

		snprintf(choice, sizeof choice, "%.*s", (int)n, at);
		complete_offer(typed->word, typed->before, choice, "");
		at += n;
	}
}

static void offer_value(const struct typed *typed)
{
	switch (typed->option->offers) {
	case OFFER_NOTHING:
		if (typed->option->choices)
			offer_choices(typed, typed->option->choices);
		break;
	case OFFER_FILES:
		output_text(":files\n");
		break;
	case OFFER_VERSIONS:
		offer_versions(typed, false);
		break;
	case OFFER_NUMBERS:
		offer_versions(typed, true);
		break;
	case OFFER_FOLDERS:
		offer_waiting_folders(typed);
		break;
	}
}

static void offer_options(const struct typed *typed, const struct option *options)
{
	char name[80];

	for (const struct option *o = options; o->name; o++) {
		snprintf(name, sizeof name, "--%s", o->name);
		complete_offer(typed->word, "", name, o->help);
		snprintf(name, sizeof name, "-%c", o->letter);
		/* Not beside its longer name, unless it is typed already. */
		if (o->letter != '\0' && strcmp(typed->word, name) == 0)
			complete_offer(typed->word, "", name, o->help);
	}
	complete_offer(typed->word, "", "--help", "show this help and exit");
}

/* The nth word of the operands that a command takes; the last one goes on. */
static bool operand_is(const struct command *command, size_t nth, const char *name)
{
	const char *at = command->operands;
	size_t n = strcspn(at, " ");

	for (; nth > 0 && at[n] != '\0'; nth--) {
		at += n + 1;
		n = strcspn(at, " ");
	}
	/* In brackets where it may be left out. */
	if (n > 2 && at[0] == '[') {
		at++;
		n -= 2;
	}
	return nth == 0 && n == strlen(name) && memcmp(at, name, n) == 0;
}

static void offer_operand(const struct command *command, struct typed *typed)
{
	size_t nth = typed->operands;

	if (operand_is(command, nth, "TABLE"))
		output_text(":folders\n");
	/* Without the table, a version is the first. */
	if (command->table_here && nth == 0 && typed->word[0] != '\0' &&
	    (operand_is(command, 1, "VERSION") || operand_is(command, 1, "A")))
		offer_versions(typed, false);
	if (operand_is(command, nth, "VERSION") || operand_is(command, nth, "A") ||
	    operand_is(command, nth, "B"))
		offer_versions(typed, false);
	if (nth > 0 && operand_is(command, 1, "NAME:TYPE...") && strchr(typed->word, ':')) {
		char name[256];

		snprintf(name, sizeof name, "%.*s:", (int)strcspn(typed->word, ":"), typed->word);
		typed->before = name;
		offer_choices(typed, "int|float|str|bool");
	}
}

static const struct option *find_option(const struct option *options, const char *word)
{
	size_t n = strcspn(word, "=");

	for (const struct option *o = options; o->name; o++) {
		if (word[1] == '-'
			    ? strlen(o->name) == n - 2 && strncmp(o->name, word + 2, n - 2) == 0
			    : o->letter != '\0' && o->letter == word[1])
			return o;
	}
	return NULL;
}

int complete_word(const struct command *command, const struct option *options, char **argv)
{
	struct typed typed = { .word = "", .before = "" };
	char before[80];

	for (; *argv; argv++) {
		const char *word = typed.word = *argv;
		const struct option *option = NULL;
		bool last = !argv[1], valued = typed.option != NULL;

		if (last)
			break;
		typed.option = NULL;
		if (valued)
			continue;
		if (!typed.options_end && strcmp(word, "--") == 0) {
			typed.options_end = true;
		} else if (!typed.options_end && word[0] == '-' && word[1] != '\0') {
			option = find_option(options, word);
			if (option && option->value && !option->optional &&
			    (word[1] == '-' ? !strchr(word, '=') : word[2] == '\0'))
				typed.option = option;
		} else {
			if (typed.operands++ == 0)
				typed.table = word;
		}
	}
	if (!typed.option && !typed.options_end && strncmp(typed.word, "--", 2) == 0 &&
	    strchr(typed.word, '=')) {
		typed.option = find_option(options, typed.word);
		snprintf(before, sizeof before, "%.*s=", (int)strcspn(typed.word, "="), typed.word);
		typed.before = before;
		if (!typed.option || !typed.option->value)
			return output_finish(NULL);
	}
	if (typed.option)
		offer_value(&typed);
	else if (typed.word[0] == '-' && !typed.options_end)
		offer_options(&typed, options);
	else
		offer_operand(command, &typed);
	return output_finish(NULL);
}
