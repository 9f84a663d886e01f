/* SPDX-License-Identifier: MIT */
/*
 * The command line. Keeps no state of its own and knows nothing of libfuse or of tables: it hands
 * on which generic mount flags were asked for, and what each of our own options says.
 */
#include "opts.h"

#include "util/suggest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_READ	4096u
#define DEFAULT_THREADS 10u
#define MAX_THREADS	1000u
#define DEFAULT_AHEAD	1024u
#define MAX_AHEAD	(1u << 20)

static int refuse_option(char *why, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse_option(char *why, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return -1;
}

static int no_memory(char *why, size_t size)
{
	return refuse_option(why, size, "out of memory");
}

int tdfs_options_append(char **list, const char *name, const char *value)
{
	size_t old = !*list ? 0 : strlen(*list);
	size_t added = !value ? 0 : 2 * strlen(value);
	char *longer = realloc(*list, old + strlen(name) + added + 3);
	char *at;

	if (!longer)
		return -1;
	*list = longer;
	at = stpcpy(longer + old, old == 0 ? "" : ",");
	at = stpcpy(at, name);
	if (!value)
		return 0;
	*at++ = '=';
	for (; *value != '\0'; value++) {
		if (*value == ',' || *value == '\\')
			*at++ = '\\';
		*at++ = *value;
	}
	*at = '\0';
	return 0;
}

/* Mount flags that libfuse and the kernel know. */
static const char *const passed_on[] = {
	"dev",	 "nodev", "suid",  "nosuid",  "exec",	 "noexec",
	"async", "sync",  "atime", "noatime", "dirsync",
};

/* What mount(8) and fstab lines bring along and what means nothing to a daemon. */
static const char *const ignored[] = {
	"defaults", "nonempty", "lazytime", "nolazytime", "auto",   "noauto",
	"user",	    "nouser",	"users",    "nousers",	  "owner",  "noowner",
	"group",    "nogroup",	"_netdev",  "nofail",	  "silent", "loud",
	"mand",	    "nomand",	"iversion", "noiversion",
};

/* Mount flags that libfuse does not know: nothing to a daemon, but a remount sets them. */
static const char *const for_remount[] = {
	"relatime", "norelatime", "strictatime", "nostrictatime",
	"diratime", "nodiratime", "symfollow",	 "nosymfollow",
};

/* What /proc/mounts shows of a FUSE mount: mount(8) repeats it in a remount. */
static const char *const facts[] = { "blksize", "fd", "group_id", "rootmode", "user_id" };

/* Security labels, which may hold commas within quotes. */
static const char *const labels[] = { "context", "fscontext", "defcontext", "rootcontext" };

static bool listed(const char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

#define LISTED(list, name) listed(list, sizeof(list) / sizeof *(list), name)

/* Digits of a base up to 10, and nothing else. */
static bool number(const char *text, int base, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long value;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, base);
	if (errno != 0 || *end != '\0' || value < min || value > max)
		return false;
	*out = value;
	return true;
}

static int set_text(char **text, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -1;
	free(*text);
	*text = copy;
	return 0;
}

/* The options with a number. What it means is for set_number(). */
static const struct {
	const char *name;
	int base;
	uint64_t min, max;
} numbers[] = {
	{ "gid", 10, 0, UINT32_MAX - 1 },
	{ "list", 10, 0, INT64_MAX },
	{ "max_read", 10, MIN_READ, UINT32_MAX },
	{ "max_threads", 10, 1, MAX_THREADS },
	{ "read_ahead_kb", 10, 0, MAX_AHEAD },
	{ "uid", 10, 0, UINT32_MAX - 1 },
	{ "umask", 8, 0, 0777 },
};

static void set_number(struct tdfs_options *options, const char *name, uint64_t value)
{
	if (strcmp(name, "gid") == 0) {
		options->shown.has_gid = true;
		options->shown.gid = (gid_t)value;
	} else if (strcmp(name, "list") == 0) {
		options->has_list = true;
		options->list = value;
	} else if (strcmp(name, "max_read") == 0) {
		options->max_read = value > TDFS_MAX_READ ? TDFS_MAX_READ : (unsigned)value;
	} else if (strcmp(name, "max_threads") == 0) {
		options->max_threads = (unsigned)value;
	} else if (strcmp(name, "read_ahead_kb") == 0) {
		options->read_ahead_kib = (unsigned)value;
	} else if (strcmp(name, "uid") == 0) {
		options->shown.has_uid = true;
		options->shown.uid = (uid_t)value;
	} else {
		options->shown.has_umask = true;
		options->shown.umask = (mode_t)value;
	}
}

/* Where the text of an option that has one goes; NULL: it has none. */
static char **text_of(struct tdfs_options *options, const char *name)
{
	return strcmp(name, "fsname") == 0    ? &options->fsname
	       : strcmp(name, "subtype") == 0 ? &options->subtype
	       : strcmp(name, "log") == 0     ? &options->log
	       : strcmp(name, "version") == 0 ? &options->version
					      : NULL;
}

/* Says so, and what it may have been meant to be: one of those in the help. */
static int unknown_option(char *why, size_t size, const char *name, const char *value)
{
	static const char *const known[] = {
		"ro",	    "version",	     "allow_other",   "allow_root", "uid",
		"gid",	    "umask",	     "auto_unmount",  "log",	    "max_threads",
		"max_read", "read_ahead_kb", "nopassthrough", "fsname",	    "subtype"
	};
	struct nearest meant = { .word = name };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		nearest_offer(&meant, known[i]);
	/* A name that is known takes no value, or needs one. */
	return refuse_option(why, size, "unknown option: %s%s%s%s%s%s", name, value ? "=" : "",
			     value ? value : "", meant.name ? " (did you mean " : "",
			     !meant.name		     ? ""
			     : strcmp(meant.name, name) != 0 ? meant.name
			     : value			     ? "it without a value"
							     : "it with a value",
			     meant.name ? "?)" : "");
}

/* One "name=value" of an option list. */
static int take_value(struct tdfs_options *options, const char *name, const char *value, char *why,
		      size_t size)
{
	char **text = text_of(options, name);
	uint64_t given;

	if (text && *value != '\0')
		return set_text(text, value) == 0 ? 0 : no_memory(why, size);
	if (strcmp(name, "list") == 0 && strcmp(value, "all") == 0) {
		options->has_list = false;
		return 0;
	}
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (strcmp(numbers[i].name, name) != 0)
			continue;
		if (!number(value, numbers[i].base, numbers[i].min, numbers[i].max, &given))
			return refuse_option(why, size, "option %s: \"%s\" is not valid", name,
					     value);
		set_number(options, name, given);
		return 0;
	}
	if (text)
		return refuse_option(why, size, "option %s: \"%s\" is not valid", name, value);
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
		if (strcmp(facts[i], name) == 0) {
			options->fact = facts[i];
			return 0;
		}
	}
	if (!LISTED(labels, name))
		return unknown_option(why, size, name, value);
	if (tdfs_options_append(&options->flags, name, value) < 0)
		return no_memory(why, size);
	return 0;
}

/* One "name" or "name=value" of an option list. */
static int take_flag(struct tdfs_options *options, const char *name, const char *value, char *why,
		     size_t size)
{
	if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0 ||
	    strcmp(name, "comment") == 0)
		return 0;
	if (value)
		return take_value(options, name, value, why, size);
	if (strcmp(name, "ro") == 0 || strcmp(name, "rw") == 0) {
		options->read_only = name[1] == 'o';
	} else if (strcmp(name, "allow_other") == 0) {
		options->access = TDFS_ALLOW_OTHER;
	} else if (strcmp(name, "allow_root") == 0) {
		options->access = TDFS_ALLOW_ROOT;
	} else if (strcmp(name, "auto_unmount") == 0) {
		options->auto_unmount = true;
	} else if (strcmp(name, "nopassthrough") == 0) {
		options->no_passthrough = true;
	} else if (strcmp(name, "debug") == 0) {
		options->debug = options->foreground = true;
	} else if (strcmp(name, "remount") == 0) {
		options->remount = true;
	} else if (LISTED(passed_on, name) || LISTED(for_remount, name)) {
		if (tdfs_options_append(&options->remount_flags, name, NULL) < 0 ||
		    (LISTED(passed_on, name) &&
		     tdfs_options_append(&options->flags, name, NULL) < 0))
			return no_memory(why, size);
	} else if (strcmp(name, "default_permissions") != 0 && !LISTED(ignored, name)) {
		return unknown_option(why, size, name, NULL);
	}
	return 0;
}

/* Takes the first element off *list, in place: "\," and "\\" are a comma and a backslash, and
 * within double quotes a comma is one too. NULL at the end. */
static char *next_flag(char **list)
{
	char *start = *list, *out = start, *in = start;
	bool quoted = false;

	if (!start)
		return NULL;
	for (; *in != '\0' && (quoted || *in != ','); in++) {
		if (*in == '\\' && (in[1] == ',' || in[1] == '\\'))
			in++;
		else if (*in == '"')
			quoted = !quoted;
		*out++ = *in;
	}
	*list = *in == '\0' ? NULL : in + 1;
	*out = '\0';
	return start;
}

static int take_list(struct tdfs_options *options, const char *list, char *why, size_t size)
{
	char *copy = strdup(list), *rest = copy, *flag;
	int result = 0;

	if (!copy)
		return no_memory(why, size);
	while (result == 0 && (flag = next_flag(&rest))) {
		char *value = strchr(flag, '=');

		if (value)
			*value++ = '\0';
		if (*flag != '\0' || value)
			result = take_flag(options, flag, value, why, size);
	}
	free(copy);
	return result;
}

static int take_operand(struct tdfs_options *options, const char *text, char *why, size_t size)
{
	char **place = !options->table ? &options->table : &options->mountpoint;

	if (*place)
		return refuse_option(why, size, "too many arguments: %s", text);
	if (*text == '\0')
		return refuse_option(why, size, "an empty path");
	return set_text(place, text) == 0 ? 0 : no_memory(why, size);
}

/* Letters may stand together, as in -fs; -o takes the rest of its word or the next one. */
static int take_letters(struct tdfs_options *options, const char *letters, const char *next,
			int *used, char *why, size_t size)
{
	for (; *letters != '\0'; letters++) {
		switch (*letters) {
		case 'f':
			options->foreground = true;
			break;
		case 'd':
			options->debug = options->foreground = true;
			break;
		case 's':
			options->single_threaded = true;
			break;
		case 'h':
			options->help = true;
			break;
		case 'V':
			options->show_version = true;
			break;
		case 'o':
			if (letters[1] != '\0')
				return take_list(options, letters + 1, why, size);
			if (!next)
				return refuse_option(why, size, "-o needs an argument");
			*used = 1;
			return take_list(options, next, why, size);
		default:
			return refuse_option(why, size, "unknown option: -%c", *letters);
		}
	}
	return 0;
}

int tdfs_options_parse(struct tdfs_options *options, int count, char *const *arguments, char *why,
		       size_t size)
{
	bool operands_only = false;

	*options = (struct tdfs_options){ .max_threads = DEFAULT_THREADS,
					  .max_read = TDFS_MAX_READ,
					  .read_ahead_kib = DEFAULT_AHEAD };
	if (set_text(&options->flags, "") < 0 || set_text(&options->remount_flags, "") < 0)
		return no_memory(why, size);
	for (int i = 0; i < count; i++) {
		const char *word = arguments[i];
		const char *next = i + 1 < count ? arguments[i + 1] : NULL;
		int used = 0, result = 0;

		if (operands_only || word[0] != '-' || word[1] == '\0')
			result = take_operand(options, word, why, size);
		else if (strcmp(word, "--") == 0)
			operands_only = true;
		else if (strcmp(word, "--help") == 0)
			options->help = true;
		else if (strcmp(word, "--version") == 0)
			options->show_version = true;
		else if (word[1] == '-')
			result = refuse_option(why, size, "unknown option: %s", word);
		else
			result = take_letters(options, word + 1, next, &used, why, size);
		if (result < 0)
			return result;
		i += used;
	}
	if (options->help || options->show_version)
		return 0;
	if (options->fact && !options->remount)
		return refuse_option(why, size, "unknown option: %s", options->fact);
	if (options->version)
		options->read_only = true;
	if (!options->table)
		return refuse_option(why, size, "no table given");
	if (!options->mountpoint)
		return refuse_option(why, size, "no mount point given");
	return 0;
}

void tdfs_options_clear(struct tdfs_options *options)
{
	free(options->table);
	free(options->mountpoint);
	free(options->fsname);
	free(options->subtype);
	free(options->log);
	free(options->version);
	free(options->flags);
	free(options->remount_flags);
	*options = (struct tdfs_options){ 0 };
}
