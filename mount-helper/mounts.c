/* SPDX-License-Identifier: MIT */
/*
 * Reading the kernel's list of mounts. Knows nothing of what is mounted.
 */
#include "mounts.h"

#include <stdlib.h>
#include <string.h>

static bool is_octal(const char *digits)
{
	for (int i = 0; i < 3; i++)
		if (digits[i] < '0' || digits[i] > '7')
			return false;
	return true;
}

/* Takes a field off *rest, up to the next blank, and undoes its escapes (\040) in place. */
static char *field(char **rest)
{
	char *start = strsep(rest, " \n"), *to = start;

	if (start == NULL)
		return NULL;
	for (const char *from = start; *from != '\0';) {
		if (from[0] == '\\' && is_octal(from + 1)) {
			*to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + from[3] - '0');
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
	return start;
}

bool mounts_find(FILE *table, const char *directory, struct mounted *mounted)
{
	char *line = NULL;
	size_t size = 0;

	*mounted = (struct mounted){ 0 };
	while (getline(&line, &size, table) > 0) {
		char *rest = line, *place, *word, *type, *source;

		/* id, parent, device, root, place, options, optional fields, "-", type, source */
		for (int i = 0; i < 4; i++)
			field(&rest);
		place = field(&rest);
		if (place == NULL || strcmp(place, directory) != 0)
			continue;
		do
			word = field(&rest);
		while (word != NULL && strcmp(word, "-") != 0);
		type = field(&rest);
		source = field(&rest);
		if (source == NULL)
			continue;
		/* A later one lies over an earlier one. */
		mounted_clear(mounted);
		mounted->type = strdup(type);
		mounted->source = strdup(source);
	}
	free(line);
	if (mounted->type != NULL && mounted->source != NULL)
		return true;
	mounted_clear(mounted);
	return false;
}

void mounted_clear(struct mounted *mounted)
{
	free(mounted->type);
	free(mounted->source);
	*mounted = (struct mounted){ 0 };
}
