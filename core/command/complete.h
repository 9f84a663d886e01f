/* SPDX-License-Identifier: MIT */
#ifndef COMPLETE_H
#define COMPLETE_H

#include "arguments.h"

/*
 * What a shell may offer for the word that is being typed: one a line, behind a tab what it is. A
 * first line ":files" or ":folders" says that names of files may stand there as well.
 */

/* From here on arguments_parse() reads nothing: it offers what may stand in place of the last word,
 * and ends the command. */
void complete_begin(void);
bool complete_wanted(void);

/* Offers for the last word of argv, which the command and its options would take. Returns the exit
 * status. */
int complete_word(const struct command *command, const struct option *options, char **argv);

/* Offers one thing where it begins as `typed` does; `before` stands in front of it. */
void complete_offer(const char *typed, const char *before, const char *what, const char *about);

#endif
