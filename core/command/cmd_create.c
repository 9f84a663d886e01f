/* SPDX-License-Identifier: MIT */
/*
 * tinydelta create: a new, empty table.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "commit.h"
#include "interrupt.h"
#include "output.h"

static void free_schema(tdl_schema **schema)
{
	tdl_schema_free(*schema);
}

/* The path without "." components and slashes that say nothing, as Python's pathlib prints it;
 * two slashes in front are kept. NULL: out of memory. */
static char *plain_path(const char *path)
{
	size_t slashes = strspn(path, "/"), n = 0;
	char *plain = malloc(strlen(path) + 2);

	if (!plain)
		return NULL;
	while (n < (slashes == 2 ? 2 : slashes > 0))
		plain[n++] = '/';
	for (path += slashes; *path != '\0'; path += strspn(path, "/")) {
		size_t length = strcspn(path, "/");

		if (length != 1 || *path != '.') {
			if (n > 0 && plain[n - 1] != '/')
				plain[n++] = '/';
			memcpy(plain + n, path, length);
			n += length;
		}
		path += length;
	}
	if (n == 0)
		plain[n++] = '.';
	plain[n] = '\0';
	return plain;
}

static int run(const struct command *command, char **argv)
{
	struct commit_words words = { 0 };
	const struct option options[] = { COMMIT_OPTIONS(&words), { 0 } };
	tdl_commit_options how;
	tdl_schema *schema CLEANUP(free_schema) = NULL;
	char *path CLEANUP(tdl__free_at) = NULL, *committed CLEANUP(tdl__free_at) = NULL;
	tdl_error error = { 0 };
	size_t count;
	int status = arguments_parse(command, options, argv, &count);

	if (status != ARGUMENTS_GO_ON)
		return status;
	path = plain_path(argv[0]);
	if (!path || asprintf(&committed, "created %s version 0", path) < 0) {
		committed = NULL;
		return report("out of memory");
	}
	if (!commit_options(argv[0], &words, &how))
		return STATUS_FAILED;
	interrupt_begin();
	interrupt_hold(-1, -1);
	if (tdl_schema_parse((const char *const *)argv + 1, count - 1, &schema, &error) < 0 ||
	    tdl_table_create(*argv[0] != '\0' ? path : "", schema, &how, &error) < 0)
		return report_commit_error(command, &error);
	return commit_done(&words, committed, NULL, 0);
}

const struct command command_create = {
	.name = "create",
	.operands = "TABLE NAME:TYPE...",
	.min_operands = 2,
	.max_operands = UINT32_MAX,
	.summary = "Make a new, empty table; types are int, float, str and bool.",
	.example = "tinydelta create orders id:int region:str year:int",
	.run = run,
};
