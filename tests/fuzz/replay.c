/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target over files, and the files in folders, that are named on the command line. In
 * the place of a fuzzing engine; knows nothing of what is tested.
 */
#include <dirent.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned replayed;

static void replay_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "re");
	/* Exactly as long as the input, so that reading past it is found. */
	uint8_t *data = malloc(size > 0 ? size : 1);

	if (!file || !data || fread(data, 1, size, file) != size)
		err(1, "%s", path);
	fclose(file);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	replayed++;
}

static void replay(const char *path)
{
	struct stat st;
	struct dirent **entries;
	int count;

	if (stat(path, &st) < 0)
		err(1, "%s", path);
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path, (size_t)st.st_size);
		return;
	}
	count = scandir(path, &entries, NULL, alphasort);
	if (count < 0)
		err(1, "%s", path);
	for (int i = 0; i < count; i++) {
		char *inner;

		if (entries[i]->d_name[0] != '.') {
			if (asprintf(&inner, "%s/%s", path, entries[i]->d_name) < 0)
				err(1, "asprintf");
			replay(inner);
			free(inner);
		}
		free(entries[i]);
	}
	free(entries);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	printf("%u inputs\n", replayed);
	return replayed > 0 ? 0 : 1;
}
