/* SPDX-License-Identifier: MIT */
/*
 * Which mount options are for whom: mount(8), the kernel or tinydeltafs. A pure function of the
 * list; knows no files and no processes.
 */
#include "mountopts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "util/suggest.h"

/* What is done with an option. */
enum fate {
	DROP,	      /* mount(8), fstab readers or a kernel default: nothing to a FUSE daemon */
	DROP_VALUE,   /* the same, and has a value */
	DROP_EITHER,  /* the same, with or without one */
	PASS,	      /* tinydeltafs knows it */
	PASS_VALUE,   /* tinydeltafs knows it, and has a value */
	PASS_LABEL,   /* the same; the kernel wants to see the quotes of the value */
	REMOUNT_ONLY, /* shown in /proc/mounts, so mount(8) repeats it in a remount; has a value */
};

static const struct known {
	const char *name;
	enum fate fate;
	unsigned long set, clear;
} known[] = {
	{ "_netdev", DROP, 0, 0 },
	{ "allow_other", PASS, 0, 0 },
	{ "allow_root", PASS, 0, 0 },
	{ "async", PASS, 0, MS_SYNCHRONOUS },
	{ "atime", PASS, 0, MS_NOATIME },
	{ "auto", DROP, 0, 0 },
	{ "auto_unmount", PASS, 0, 0 },
	{ "blksize", REMOUNT_ONLY, 0, 0 },
	{ "comment", DROP_VALUE, 0, 0 },
	{ "context", PASS_LABEL, 0, 0 },
	{ "default_permissions", PASS, 0, 0 },
	{ "defaults", DROP, 0, 0 },
	{ "defcontext", PASS_LABEL, 0, 0 },
	{ "dev", PASS, 0, MS_NODEV },
	{ "diratime", DROP, 0, MS_NODIRATIME },
	{ "dirsync", PASS, MS_DIRSYNC, 0 },
	{ "exec", PASS, 0, MS_NOEXEC },
	{ "fd", REMOUNT_ONLY, 0, 0 },
	{ "fscontext", PASS_LABEL, 0, 0 },
	{ "fsname", PASS_VALUE, 0, 0 },
	{ "gid", PASS_VALUE, 0, 0 },
	{ "group", DROP, 0, 0 },
	{ "group_id", REMOUNT_ONLY, 0, 0 },
	{ "helper", DROP_VALUE, 0, 0 },
	{ "iversion", DROP, 0, 0 },
	{ "lazytime", DROP, 0, 0 },
	{ "list", PASS_VALUE, 0, 0 },
	{ "log", PASS_VALUE, 0, 0 },
	{ "loud", DROP, 0, 0 },
	{ "mand", DROP, 0, 0 },
	{ "max_read", PASS_VALUE, 0, 0 },
	{ "max_threads", PASS_VALUE, 0, 0 },
	{ "noatime", PASS, MS_NOATIME, 0 },
	{ "noauto", DROP, 0, 0 },
	{ "nodev", PASS, MS_NODEV, 0 },
	{ "nodiratime", DROP, MS_NODIRATIME, 0 },
	{ "noexec", PASS, MS_NOEXEC, 0 },
	{ "nofail", DROP, 0, 0 },
	{ "nogroup", DROP, 0, 0 },
	{ "noiversion", DROP, 0, 0 },
	{ "nolazytime", DROP, 0, 0 },
	{ "nomand", DROP, 0, 0 },
	{ "nonempty", DROP, 0, 0 },
	{ "noowner", DROP, 0, 0 },
	{ "nopassthrough", PASS, 0, 0 },
	{ "norelatime", DROP, 0, MS_RELATIME },
	{ "nostrictatime", DROP, 0, MS_STRICTATIME },
	{ "nosuid", PASS, MS_NOSUID, 0 },
	{ "nosymfollow", DROP, MS_NOSYMFOLLOW, 0 },
	{ "nouser", DROP, 0, 0 },
	{ "nousers", DROP, 0, 0 },
	{ "owner", DROP, 0, 0 },
	{ "read_ahead_kb", PASS_VALUE, 0, 0 },
	{ "relatime", DROP, MS_RELATIME, 0 },
	{ "rootcontext", PASS_LABEL, 0, 0 },
	{ "rootmode", REMOUNT_ONLY, 0, 0 },
	{ "silent", DROP, 0, 0 },
	{ "strictatime", DROP, MS_STRICTATIME, 0 },
	{ "subtype", PASS_VALUE, 0, 0 },
	{ "suid", PASS, 0, MS_NOSUID },
	{ "symfollow", DROP, 0, MS_NOSYMFOLLOW },
	{ "sync", PASS, MS_SYNCHRONOUS, 0 },
	{ "uhelper", DROP_VALUE, 0, 0 },
	{ "uid", PASS_VALUE, 0, 0 },
	{ "umask", PASS_VALUE, 0, 0 },
	{ "user", DROP_EITHER, 0, 0 },
	{ "user_id", REMOUNT_ONLY, 0, 0 },
	{ "users", DROP, 0, 0 },
	{ "version", PASS_VALUE, 0, 0 },
};

static const struct known *find_known(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strncmp(known[i].name, name, n) == 0 && known[i].name[n] == '\0')
			return &known[i];
	return NULL;
}

/* The end of the element at `at`: its comma or the end of the list; NULL: a quote stays open. */
static const char *element_end(const char *at)
{
	bool quoted = false;

	for (; *at != '\0' && (quoted || *at != ','); at++)
		if (*at == '"')
			quoted = !quoted;
	return quoted ? NULL : at;
}

/* Appends an element to the daemon's list, which has room. */
static void pass(char *daemon, const char *element, size_t n, bool keep_quotes)
{
	char *to = daemon + strlen(daemon);

	if (to != daemon)
		*to++ = ',';
	for (size_t i = 0; i < n; i++) {
		if (element[i] == '"' && !keep_quotes)
			continue;
		if (element[i] == ',' || element[i] == '\\')
			*to++ = '\\';
		*to++ = element[i];
	}
	*to = '\0';
}

static bool is_word(const char *element, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(element, word, n) == 0;
}

/* One element. Returns 0, or -1 with *problem set to what is wrong with it. */
static int take_element(struct mountopts *options, const char *element, size_t n,
			const char **problem)
{
	const char *equals = memchr(element, '=', n);
	size_t name = equals ? (size_t)(equals - element) : n;
	const struct known *option = find_known(element, name);
	enum fate fate;

	if (n == 0 || strncmp(element, "x-", 2) == 0 || strncmp(element, "X-", 2) == 0)
		return 0;
	if (is_word(element, n, "ro") || is_word(element, n, "rw")) {
		options->read_only = element[1] == 'o';
		return 0;
	}
	if (is_word(element, n, "remount")) {
		options->remount = true;
		return 0;
	}
	*problem = "unknown option";
	if (!option)
		return -1;
	fate = option->fate;
	if (fate == PASS_VALUE || fate == PASS_LABEL || fate == DROP_VALUE ||
	    fate == REMOUNT_ONLY) {
		*problem = "option without a value";
		if (!equals)
			return -1;
	} else if (equals && fate != DROP_EITHER) {
		*problem = "option that takes no value";
		return -1;
	}
	*problem = "unknown option";
	if (fate == REMOUNT_ONLY)
		return options->remount ? 0 : -1;
	if (option->set != 0 || option->clear != 0) {
		options->set = (options->set & ~option->clear) | option->set;
		options->clear = (options->clear & ~option->set) | option->clear;
	}
	if (fate == PASS || fate == PASS_VALUE || fate == PASS_LABEL)
		pass(options->daemon, element, n, fate == PASS_LABEL);
	return 0;
}

/* Adds to a message which option may have been meant, where it is not simply that one. */
static void suggest(const char *element, size_t n, char *why, size_t size)
{
	char name[32];
	struct nearest meant = { .word = name };
	size_t used = strlen(why), length = strcspn(element, "=,");

	snprintf(name, sizeof name, "%.*s", (int)(length < n ? length : n), element);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].fate != REMOUNT_ONLY)
			nearest_offer(&meant, known[i].name);
	if (meant.name && strcmp(meant.name, name) != 0)
		snprintf(why + used, size - used, " (did you mean %s?)", meant.name);
}

int mountopts_parse(struct mountopts *options, const char *list, bool sloppy, char *why,
		    size_t size)
{
	const char *problem, *end;

	/* At worst every byte gets a backslash; "ro," goes before it. */
	options->daemon = calloc(1, 2 * strlen(list) + sizeof "ro,");
	if (!options->daemon) {
		snprintf(why, size, "out of memory");
		return -1;
	}
	/* A remount knows more options, wherever in the list it is said. */
	for (const char *at = list; (end = element_end(at)); at = end + 1) {
		options->remount |= is_word(at, (size_t)(end - at), "remount");
		if (*end == '\0')
			break;
	}
	for (const char *at = list;; at = end + 1) {
		end = element_end(at);
		if (!end) {
			snprintf(why, size, "a quote is not closed: %s", at);
			return -1;
		}
		if (take_element(options, at, (size_t)(end - at), &problem) < 0 && !sloppy) {
			snprintf(why, size, "%s: %.*s", problem, (int)(end - at), at);
			suggest(at, (size_t)(end - at), why, size);
			return -1;
		}
		if (*end == '\0')
			break;
	}
	if (options->read_only) {
		size_t n = strlen(options->daemon);

		memmove(options->daemon + (n > 0 ? 3 : 2), options->daemon, n + 1);
		memcpy(options->daemon, "ro,", n > 0 ? 3 : 2);
	}
	return 0;
}

void mountopts_clear(struct mountopts *options)
{
	free(options->daemon);
	*options = (struct mountopts){ 0 };
}
