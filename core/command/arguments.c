/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a subcommand: parsing, the usage line and the help, all from one description.
 * Knows nothing of tables.
 */
#include "arguments.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "output.h"

static const char help_text[] = "show this help and exit";

static void text_add(char *line, size_t size, const char *a, const char *b, const char *c)
{
	size_t used = strlen(line);

	snprintf(line + used, size - used, "%s%s%s", a, b, c);
}

/* "usage: tinydelta append TABLE --file FILE [--read-version N]" */
static const char *usage(const struct command *command, const struct option *options, char *line,
			 size_t size)
{
	snprintf(line, size, "usage: tinydelta %s %s", command->name, command->operands);
	for (const struct option *o = options; o->name != NULL; o++) {
		text_add(line, size, o->required ? " --" : " [--", o->name, "");
		if (o->value != NULL)
			text_add(line, size, " ", o->value, "");
		if (!o->required)
			text_add(line, size, "]", "", "");
	}
	return line;
}

/* Reports wrong use, under the usage line. */
static int misuse(const struct command *command, const struct option *options, const char *format,
		  ...) __attribute__((format(printf, 3, 4)));

static int misuse(const struct command *command, const struct option *options, const char *format,
		  ...)
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
	for (const struct option *o = options; o->name != NULL; o++) {
		snprintf(line, sizeof line, "--%s %s", o->name, o->value != NULL ? o->value : "");
		output_text("  %-18s %s\n", line, o->help);
	}
	output_text("  %-18s %s\n", "-h, --help", help_text);
	return output_finish(NULL);
}

/* Finds the option that `name` (n bytes) says or begins; NULL: none, or more than one. */
static const struct option *find(const struct option *options, const char *name, size_t n)
{
	const struct option *found = NULL;

	for (const struct option *o = options; o->name != NULL; o++) {
		if (strncmp(o->name, name, n) != 0)
			continue;
		if (o->name[n] == '\0')
			return o;
		if (found != NULL)
			return NULL;
		found = o;
	}
	return n > 0 ? found : NULL;
}

static bool is_integer(const char *text)
{
	text += *text == '-';
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Takes the option at **argv, and its value; moves *argv to the last word used. */
static int take(const struct command *command, const struct option *options, char ***argv)
{
	const char *word = **argv, *name = word + 2, *value = strchr(name, '=');
	const struct option *option;
	size_t n = value != NULL ? (size_t)(value - name) : strlen(name);

	if (word[1] != '-')
		return misuse(command, options, "unknown option: %s", word);
	option = find(options, name, n);
	if (option == NULL) {
		if (value == NULL && n > 0 && strncmp("help", name, n) == 0)
			return help(command, options);
		return misuse(command, options, "unknown option: %s", word);
	}
	if (option->value == NULL) {
		if (value != NULL)
			return misuse(command, options, "option --%s takes no value", option->name);
		*option->set = true;
		return ARGUMENTS_GO_ON;
	}
	if (value != NULL)
		value++;
	else if ((*argv)[1] != NULL)
		value = *++*argv;
	else
		return misuse(command, options, "option --%s needs a value", option->name);
	if (option->integer && !is_integer(value))
		return misuse(command, options, "option --%s: not a whole number: %s", option->name,
			      value);
	*option->text = value;
	return ARGUMENTS_GO_ON;
}

int arguments_parse(const struct command *command, const struct option *options, char **argv,
		    size_t *count)
{
	char **operands = argv;
	size_t n = 0;
	bool options_end = false;

	for (; *argv != NULL; argv++) {
		const char *word = *argv;
		int status;

		if (options_end || word[0] != '-' || word[1] == '\0') {
			operands[n++] = *argv;
		} else if (strcmp(word, "--") == 0) {
			options_end = true;
		} else if (strcmp(word, "-h") == 0) {
			return help(command, options);
		} else {
			status = take(command, options, &argv);
			if (status != ARGUMENTS_GO_ON)
				return status;
		}
	}
	operands[n] = NULL;
	if (n < command->min_operands)
		return misuse(command, options, "missing arguments: %s", command->operands);
	if (n > command->max_operands)
		return misuse(command, options, "unexpected argument: %s",
			      operands[command->max_operands]);
	for (const struct option *o = options; o->name != NULL; o++)
		if (o->required && *o->text == NULL)
			return misuse(command, options, "missing option: --%s", o->name);
	if (count != NULL)
		*count = n;
	return ARGUMENTS_GO_ON;
}
