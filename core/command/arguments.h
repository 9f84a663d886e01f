/* SPDX-License-Identifier: MIT */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "command.h"

/*
 * One option of a subcommand: a switch (`set`), or one with a value (`text`, NULL unless given;
 * it may be given once). An array of them ends with a zeroed one. -h and --help are always
 * there besides.
 */
struct option {
	const char *name;  /* without its dashes */
	char letter;	   /* the same in one letter; '\0': there is none */
	const char *value; /* what the usage calls the value; NULL for a switch */
	const char *help;
	const char *choices; /* the values there are, "a|b|c"; NULL: any */
	enum {
		OFFER_NOTHING, /* but the choices */
		OFFER_FILES,
		OFFER_VERSIONS,
		OFFER_NUMBERS, /* of versions */
		OFFER_FOLDERS  /* of _incoming */
	} offers;	       /* what completion offers as its value */
	bool required;
	bool integer;  /* the value must look like one: an optional minus sign and digits */
	bool age;      /* the value must look like one: digits, and a unit of AGE_UNITS or none */
	bool optional; /* the value may be left out (*text is ""), and stands behind a "=" */
	const char **text;
	bool *set;
};

/* Of ages; without one they are milliseconds. */
#define AGE_UNITS "smhdw"

/* What parsing came to: go on, or end with this status (help was printed, or misuse reported). */
enum {
	ARGUMENTS_GO_ON = -1
};

/*
 * Reads argv: options in any place, as --name VALUE or --name=VALUE, by any unique beginning of
 * their name, or as -n VALUE or -nVALUE, up to "--". The operands are moved to the front of argv,
 * followed by NULL; *count (may be NULL) gets their number, which is within the command's bounds.
 * Where the command says so and one is missing, the table comes from find_table_here(): so argv has
 * room for one word more behind its NULL.
 */
int arguments_parse(const struct command *command, const struct option *options, char **argv,
		    size_t *count);

/* Reports wrong use, under the usage line; returns the exit status. */
int arguments_misuse(const struct command *command, const struct option *options,
		     const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
