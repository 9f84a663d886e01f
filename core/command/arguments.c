/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a subcommand: parsing, the usage line and the help, all from one description.
 * Knows nothing of tables.
 */
#include "arguments.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "complete.h"
#include "find_table.h"
#include "output.h"
#include "util/suggest.h"

static const char help_text[] = "show this help and exit";

static void text_add(char *line, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void text_add(char *line, size_t size, const char *format, ...)
{
	size_t used = strlen(line);
	va_list args;

	va_start(args, format);
	vsnprintf(line + used, size - used, format, args);
	va_end(args);
}

/* "usage: tinydelta append TABLE --file FILE [--read-version N]" */
static const char *usage(const struct command *command, const struct option *options, char *line,
			 size_t size)
{
	snprintf(line, size, "usage: tinydelta %s %s", command->name, command->operands);
	for (const struct option *o = options; o->name; o++) {
		text_add(line, size, o->required ? " " : " [");
		if (o->letter != '\0')
			text_add(line, size, "-%c", o->letter);
		else
			text_add(line, size, "--%s", o->name);
		if (o->optional)
			text_add(line, size, "[=%s]", o->value);
		else if (o->value)
			text_add(line, size, " %s", o->value);
		if (!o->required)
			text_add(line, size, "]");
	}
	return line;
}

int arguments_misuse(const struct command *command, const struct option *options,
		     const char *format, ...)
{
	char text[4096];
	va_list args;

	fprintf(stderr, "%s\n", usage(command, options, text, sizeof text));
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	report("%s", text);
	return STATUS_USAGE;
}

static int help(const struct command *command, const struct option *options)
{
	char line[512];

	output_text("%s\n\n%s\n\n", usage(command, options, line, sizeof line), command->summary);
	for (const struct option *o = options; o->name; o++) {
		line[0] = '\0';
		if (o->letter != '\0')
			text_add(line, sizeof line, "-%c, ", o->letter);
		text_add(line, sizeof line, "--%s", o->name);
		if (o->value)
			text_add(line, sizeof line, o->optional ? "[=%s]" : " %s", o->value);
		output_text("  %-20s  %s\n", line, o->help);
	}
	output_text("  %-20s  %s\n", "-h, --help", help_text);
	if (command->example)
		output_text("\nExample:\n  %s\n", command->example);
	return output_finish(NULL);
}

/* Finds the option that `name` (n bytes) says or begins; NULL: none, or more than one. */
static const struct option *find_option(const struct option *options, const char *name, size_t n)
{
	const struct option *found = NULL;

	for (const struct option *o = options; o->name; o++) {
		if (strncmp(o->name, name, n) != 0)
			continue;
		if (o->name[n] == '\0')
			return o;
		if (found)
			return NULL;
		found = o;
	}
	return n > 0 ? found : NULL;
}

static const struct option *find_letter(const struct option *options, char letter)
{
	for (const struct option *o = options; o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static int unknown_option(const struct command *command, const struct option *options,
			  const char *word)
{
	char name[64] = "";
	struct nearest meant = { .word = name };

	if (strncmp(word, "--", 2) == 0)
		snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (const struct option *o = options; o->name; o++)
		nearest_offer(&meant, o->name);
	nearest_offer(&meant, "help");
	if (!meant.name)
		return arguments_misuse(command, options, "unknown option: %s", word);
	return arguments_misuse(command, options, "unknown option: %s (did you mean --%s?)", word,
				meant.name);
}

static bool is_integer(const char *text)
{
	text += *text == '-';
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool is_age(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits > 0 && (text[digits] == '\0' ||
			      (strchr(AGE_UNITS, text[digits]) && text[digits + 1] == '\0'));
}

/* Whether `value` is one of "a|b|c". */
static bool is_choice(const char *choices, const char *value)
{
	size_t n = strlen(value);

	if (strchr(value, '|'))
		return false;
	for (const char *at = choices; at; at = strchr(at, '|')) {
		at += *at == '|';
		if (n > 0 && strncmp(at, value, n) == 0 && (at[n] == '|' || at[n] == '\0'))
			return true;
	}
	return false;
}

/* `value` is NULL where an optional one was left out. */
static int set_value(const struct command *command, const struct option *options,
		     const struct option *option, const char *value)
{
	if (*option->text)
		return arguments_misuse(command, options, "option --%s is given twice",
					option->name);
	if (!value)
		value = "";
	else if (option->integer && !is_integer(value))
		return arguments_misuse(command, options, "option --%s: not a whole number: %s",
					option->name, value);
	else if (option->age && !is_age(value))
		return arguments_misuse(command, options,
					"option --%s: not an age: %s (7d, 90m, 30s, or a number of "
					"milliseconds)",
					option->name, value);
	else if (option->choices && !is_choice(option->choices, value))
		return arguments_misuse(command, options, "option --%s: not one of %s: %s",
					option->name, option->choices, value);
	*option->text = value;
	return ARGUMENTS_GO_ON;
}

/* -n VALUE or -nVALUE; all that there are have one. */
static int take_letter(const struct command *command, const struct option *options, char ***argv)
{
	const char *word = **argv;
	const struct option *option = find_letter(options, word[1]);

	if (!option)
		return unknown_option(command, options, word);
	if (word[2] != '\0')
		return set_value(command, options, option, word + 2);
	if (!(*argv)[1])
		return arguments_misuse(command, options, "option -%c needs a value", word[1]);
	return set_value(command, options, option, *++*argv);
}

/* Takes the option at **argv, and its value; moves *argv to the last word used. */
static int take_option(const struct command *command, const struct option *options, char ***argv)
{
	const char *word = **argv, *name = word + 2, *value = strchr(name, '=');
	const struct option *option;
	size_t n = value ? (size_t)(value - name) : strlen(name);

	option = find_option(options, name, n);
	if (!option) {
		if (!value && n > 0 && strncmp("help", name, n) == 0)
			return help(command, options);
		return unknown_option(command, options, word);
	}
	if (!option->value) {
		if (value)
			return arguments_misuse(command, options, "option --%s takes no value",
						option->name);
		*option->set = true;
		return ARGUMENTS_GO_ON;
	}
	if (!value && option->optional)
		return set_value(command, options, option, NULL);
	if (value)
		value++;
	else if ((*argv)[1])
		value = *++*argv;
	else
		return arguments_misuse(command, options, "option --%s needs a value",
					option->name);
	return set_value(command, options, option, value);
}

int arguments_parse(const struct command *command, const struct option *options, char **argv,
		    size_t *count)
{
	char **operands = argv;
	size_t n = 0;
	bool options_end = false;

	if (complete_wanted())
		return complete_word(command, options, argv);
	for (; *argv; argv++) {
		const char *word = *argv;
		int status;

		if (options_end || word[0] != '-' || word[1] == '\0') {
			operands[n++] = *argv;
		} else if (strcmp(word, "--") == 0) {
			options_end = true;
		} else if (strcmp(word, "-h") == 0) {
			return help(command, options);
		} else {
			status = word[1] == '-' ? take_option(command, options, &argv)
						: take_letter(command, options, &argv);
			if (status != ARGUMENTS_GO_ON)
				return status;
		}
	}
	operands[n] = NULL;
	if (command->table_here && n + 1 == command->min_operands) {
		/* For as long as the process lives. */
		static char *here;

		here = find_table_here();
		if (here) {
			memmove(operands + 1, operands, (n + 1) * sizeof *operands);
			operands[0] = here;
			n++;
		}
	}
	if (command->table_here && n + 1 == command->min_operands)
		return arguments_misuse(
			command, options,
			"missing arguments: %s (the working directory is in no table)",
			command->operands);
	if (n < command->min_operands)
		return arguments_misuse(command, options, "missing arguments: %s",
					command->operands);
	if (n > command->max_operands)
		return arguments_misuse(command, options, "unexpected argument: %s",
					operands[command->max_operands]);
	for (const struct option *o = options; o->name; o++)
		if (o->required && !*o->text)
			return arguments_misuse(command, options, "missing option: --%s", o->name);
	if (count)
		*count = n;
	return ARGUMENTS_GO_ON;
}
