/* SPDX-License-Identifier: MIT */
/*
 * The kernel's list of mounts, a line at a time. Knows nothing of what is mounted.
 */
#include "util/mountinfo.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

/* Whether the text at p begins with an octal escape of a byte, \000 to \377. */
static bool is_escape(const char *p)
{
	return p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
	       p[3] >= '0' && p[3] <= '7';
}

static void unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in != '\0'; out++) {
		if (is_escape(in)) {
			*out = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
			in += 4;
		} else {
			*out = *in++;
		}
	}
	*out = '\0';
}

/* Takes a field off *rest, up to the next blank. NULL where there is none. */
static char *take_field(char **rest)
{
	return strsep(rest, " \n");
}

/* "ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS" */
bool tdl__mountinfo_read(char *line, struct tdl__mount *mount)
{
	unsigned major_number, minor_number;
	char *rest = line, *device, *word;

	take_field(&rest);
	take_field(&rest);
	device = take_field(&rest);
	take_field(&rest);
	mount->at = take_field(&rest);
	if (!mount->at || sscanf(device, "%u:%u", &major_number, &minor_number) != 2)
		return false;
	do
		word = take_field(&rest);
	while (word && strcmp(word, "-") != 0);
	mount->type = take_field(&rest);
	mount->source = take_field(&rest);
	if (!mount->source)
		return false;
	mount->device = makedev(major_number, minor_number);
	unescape(mount->at);
	unescape(mount->type);
	unescape(mount->source);
	return true;
}
