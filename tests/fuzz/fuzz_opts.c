/* SPDX-License-Identifier: MIT */
/*
 * Mount options as mount(8) hands them to its helper, what the helper makes of them, and what the
 * daemon makes of that; and command lines of the daemon. The first byte of an input chooses: a list
 * for the helper, the same where unknown options are dropped, or words with NULs between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "mountopts.h"
#include "opts.h"

#define WORDS_MAX 32

static void need_at(bool holds, const char *what, int line)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_opts.c:%d: not so: %s\n", line, what);
	abort();
}
#define need(holds) need_at(holds, #holds, __LINE__)

/* Copies the next element of a list to `out`. In the helper's quotes guard commas; in the daemon's
 * a backslash guards one character, besides. False at the end. */
static bool element(const char **list, bool daemon, char *out)
{
	const char *at = *list;
	bool quoted = false;

	if (!at)
		return false;
	for (; *at != '\0' && (quoted || *at != ','); at++) {
		if (daemon && *at == '\\' && at[1] != '\0')
			at++;
		else if (*at == '"')
			quoted = !quoted;
		*out++ = *at;
	}
	*out = '\0';
	*list = *at == ',' ? at + 1 : NULL;
	return true;
}

static bool is_label(const char *text)
{
	const char *equals = strchr(text, '=');

	return equals && equals - text >= 7 && strncmp(equals - 7, "context", 7) == 0;
}

/* As it is handed on: only labels keep their quotes. */
static void strip(char *text)
{
	char *to = text;

	if (is_label(text))
		return;
	for (const char *from = text; *from != '\0'; from++) {
		if (*from != '"')
			*to++ = *from;
	}
	*to = '\0';
}

/* Nothing is handed on that was not there, and in another order. */
static void check_passed(const struct mountopts *options, const char *list, size_t n)
{
	char *passed = malloc(2 * n + 8), *given = malloc(n + 1);
	const char *rest = options->daemon[0] != '\0' ? options->daemon : NULL;
	bool first = true;

	if (!passed || !given)
		abort();
	while (element(&rest, true, passed)) {
		bool found = first && options->read_only && strcmp(passed, "ro") == 0;

		first = false;
		while (!found && element(&list, false, given)) {
			strip(given);
			found = strcmp(passed, given) == 0;
		}
		need(found);
	}
	free(passed);
	free(given);
}

static void check_words(const char *list, size_t n, const struct mountopts *options)
{
	char *word = malloc(n + 1);
	bool remount = false, read_only = false;

	if (!word)
		abort();
	while (element(&list, false, word)) {
		remount = remount || strcmp(word, "remount") == 0;
		if (strcmp(word, "ro") == 0 || strcmp(word, "rw") == 0)
			read_only = word[1] == 'o';
	}
	need(options->remount == remount);
	need(options->read_only == read_only);
	need((options->set & options->clear) == 0);
	free(word);
}

static void check_daemon(const struct mountopts *mount)
{
	char *words[] = { (char *)"-o", mount->daemon, (char *)"table", (char *)"mnt" };
	bool any = mount->daemon[0] != '\0';
	struct tdfs_options options;
	char why[8192] = "";
	int r = tdfs_options_parse(&options, any ? 4 : 2, any ? words : words + 2, why, sizeof why);

	/* What is not an option of the daemon's is not handed on; a value may be wrong. */
	if (r == 0)
		need(options.read_only == (mount->read_only || options.version));
	else
		need(strncmp(why, "option ", 7) == 0 && strstr(why, "is not valid"));
	tdfs_options_clear(&options);
}

static void try_mount(const char *list, bool sloppy)
{
	struct mountopts options = { 0 };
	size_t n = strlen(list);
	char why[8192] = "";
	int r = mountopts_parse(&options, list, sloppy, why, sizeof why);

	if (r == 0) {
		check_words(list, n, &options);
		check_passed(&options, list, n);
		check_daemon(&options);
	} else {
		need(why[0] != '\0');
		need(!sloppy || strstr(why, "quote"));
	}
	mountopts_clear(&options);
}

static void try_words(char *text, size_t n)
{
	char *words[WORDS_MAX];
	int count = 0;
	struct tdfs_options options;
	char why[8192] = "";

	for (char *end = text + n; count < WORDS_MAX; text += strlen(text) + 1) {
		words[count++] = text;
		if (text + strlen(text) >= end)
			break;
	}
	if (tdfs_options_parse(&options, count, words, why, sizeof why) == 0) {
		bool asks = options.help || options.show_version;

		need(asks || (options.table && *options.table != '\0'));
		need(asks || (options.mountpoint && *options.mountpoint != '\0'));
		need(options.max_threads >= 1 && options.max_threads <= 1000);
		need(options.max_read >= 4096 && options.max_read <= TDFS_MAX_READ);
		need(options.flags != NULL);
		need(!options.debug || options.foreground);
	} else {
		need(why[0] != '\0');
	}
	tdfs_options_clear(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] % 3 == 2)
		try_words(text, size - 1);
	else
		try_mount(text, data[0] % 3 == 1);
	free(text);
	return 0;
}
