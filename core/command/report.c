/* SPDX-License-Identifier: MIT */
/*
 * Failures, as one line on stderr whatever is in the names that it quotes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "find_table.h"
#include "interrupt.h"
#include "progress.h"

/* Control bytes would forge lines and drive terminals. */
static void print_line(const char *text)
{
	progress_end();
	fputs("error: ", stderr);
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			fprintf(stderr, "\\x%02x", c);
		else
			fputc(c, stderr);
	}
	fputc('\n', stderr);
}

int report(const char *format, ...)
{
	char text[8192];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	print_line(text);
	return STATUS_FAILED;
}

int report_error(const tdl_error *error)
{
	print_line(error->message);
	return STATUS_FAILED;
}

int report_commit_error(const struct command *command, const tdl_error *error)
{
	static const char drop[] = "do not drop again";
	const char *found;

	if (error->code != TDL_ERR_PUBLISHED && interrupt_came())
		return report("stopped by %s: nothing was committed", interrupt_name());
	found = error->code == TDL_ERR_PUBLISHED ? strstr(error->message, drop) : NULL;
	if (!found)
		return report_error(error);
	/* The library speaks to those who drop files: what is so, and why, is the same here. */
	return report("%.*sdo not %s again%s", (int)(found - error->message), error->message,
		      command->name, found + strlen(drop));
}

bool parse_version(const char *table, const char *text, int64_t *version)
{
	long long value;

	errno = 0;
	value = strtoll(text, NULL, 10);
	if (errno != 0 || value < 0)
		return report_no_version(table, text);
	*version = value;
	return true;
}

int find_version(tdl_table *table, const char *text, int64_t *version)
{
	tdl_error error = { 0 };
	int r;

	/* Numbers below 0 are none that a version has, and no wrong use of the command. */
	if (text[0] == '-' && text[1] != '\0' && text[1 + strspn(text + 1, "0123456789")] == '\0')
		return report("no such version: %s (%s has 0 to %" PRId64 ")", text,
			      tdl_table_path(table), tdl_table_head(table));
	r = tdl_table_find_version(table, text, version, &error);
	if (r == 0)
		return STATUS_DONE;
	report_error(&error);
	return r == TDL_ERR_MISUSE ? STATUS_USAGE : STATUS_FAILED;
}

bool report_no_version(const char *path, const char *text)
{
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_error error = { 0 };

	if (find_table_open(path, TDL_OPEN_READ_ONLY, &table, &error) < 0)
		report_error(&error);
	else
		report("no such version: %s (%s has 0 to %" PRId64 ")", text, tdl_table_path(table),
		       tdl_table_head(table));
	return false;
}

bool parse_age(const char *text, int64_t *age)
{
	static const int64_t units[] = { 1000, 60000, 3600000, 86400000, 604800000 };
	long long value;
	int64_t unit;
	char *end;

	errno = 0;
	value = strtoll(text, &end, 10);
	unit = *end != '\0' ? units[strchr(AGE_UNITS, *end) - AGE_UNITS] : 1;
	if (errno != 0 || value < 0 || value > INT64_MAX / unit) {
		report("option --older-than: out of range: %s", text);
		return false;
	}
	*age = value * unit;
	return true;
}
