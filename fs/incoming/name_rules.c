/* SPDX-License-Identifier: MIT */
/*
 * The rules for names in incoming/. Knows nothing of files.
 */
#include "incoming/name_rules.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "tinydelta.h"

static bool ends_in(const char *name, const char *suffix)
{
	size_t have = strlen(name), want = strlen(suffix);

	return have >= want && memcmp(name + have - want, suffix, want) == 0;
}

bool tdfs_name_is_temporary(const char *name)
{
	static const char *const suffixes[] = {
		"~",	".tmp", ".part", ".partial", ".crdownload", ".filepart",
		".swp", ".new", ".save", ".bak",     ".orig",	    ".old",
	};

	if (name[0] == '.')
		return true;
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
		if (ends_in(name, suffixes[i]))
			return true;
	return false;
}

bool tdfs_name_is_too_long(const char *name)
{
	return strlen(name) > (tdfs_name_is_temporary(name) ? NAME_MAX : TDL_STAGED_NAME_MAX);
}

bool tdfs_name_is_error_file(const char *name)
{
	return ends_in(name, TDFS_ERROR_SUFFIX);
}
