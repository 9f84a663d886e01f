/* SPDX-License-Identifier: MIT */
/*
 * tinydelta: finds the subcommand and runs it. What they do stands in one file each.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "output.h"

static const struct command *const commands[] = {
	&command_create,   &command_append,  &command_overwrite, &command_read,
	&command_describe, &command_history, &command_restore,	 &command_vacuum,
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static const char usage[] = "usage: tinydelta COMMAND [ARGUMENT...]";

static int help(void)
{
	output_text("%s\n\nReads and writes tinydelta tables.\n\n", usage);
	for (size_t i = 0; i < COMMANDS; i++)
		output_text("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	output_text("\n  -h, --help  show this help and exit\n"
		    "  --version   show the version and exit\n"
		    "\nMore on one of them: tinydelta COMMAND --help\n");
	return output_finish(NULL);
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* How many letters must be put in, left out, changed or swapped to make b of a. */
static unsigned distance(const char *a, const char *b)
{
	enum {
		LONGEST = 16
	};
	unsigned d[LONGEST + 1][LONGEST + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > LONGEST || m > LONGEST)
		return LONGEST;
	for (size_t i = 0; i <= n; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++)
		for (size_t j = 1; j <= m; j++) {
			d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1,
					d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1, d[i][j]);
		}
	return d[n][m];
}

static int unknown(const char *word)
{
	const char *nearest = NULL;
	unsigned best = 3;

	for (size_t i = 0; i < COMMANDS; i++) {
		unsigned d = distance(word, commands[i]->name);

		if (d < best) {
			best = d;
			nearest = commands[i]->name;
		}
	}
	fprintf(stderr, "%s\n", usage);
	if (nearest != NULL)
		report("unknown command: %s (did you mean %s?)", word, nearest);
	else
		report("unknown command: %s (tinydelta --help lists them)", word);
	return STATUS_USAGE;
}

/*
 * A descriptor 0, 1 or 2 that is closed would be given to the next file opened, and what is
 * printed would land in it. /dev/null takes its place, opened so that using it still fails.
 */
static void fill_standard_descriptors(void)
{
	static const int modes[] = { O_WRONLY, O_RDONLY, O_RDWR };

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd)
			_exit(STATUS_FAILED);
}

int main(int argc, char **argv)
{
	const char *word;

	fill_standard_descriptors();
	/* Past a limit for files a write is to fail with EFBIG, like every other failure. SIGPIPE
	 * stays as it is: `tinydelta read T | head` ends without a word. */
	signal(SIGXFSZ, SIG_IGN);

	if (argc < 2) {
		fprintf(stderr, "%s\n", usage);
		report("missing command (tinydelta --help lists them)");
		return STATUS_USAGE;
	}
	word = argv[1];
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return help();
	if (strcmp(word, "--version") == 0) {
		output_text("tinydelta %s\n", tdl_library_version());
		return output_finish(NULL);
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(word, commands[i]->name) == 0)
			return commands[i]->run(commands[i], argv + 2);
	return unknown(word);
}
