/* SPDX-License-Identifier: MIT */
#ifndef TERM_H
#define TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How standard output is laid out. For programs and for files it is plain, as the Python command's;
 * on a terminal, or where colour is asked for, it is laid out for human readers.
 */
struct term {
	bool human;
	bool color;
	bool utf8;
	unsigned width; /* columns of the terminal; 80 where there is none */
};

/* The option of every command that has something to lay out; `text` is a const char * of its. */
#define TERM_OPTION(variable)                                                              \
	{                                                                                  \
		.name = "color", .value = "WHEN", .choices = "auto|always|never",          \
		.help = "colours: auto (the default), always or never", .text = (variable) \
	}

/* `when` is the value of that option, or NULL. */
void term_begin(struct term *term, const char *when);

enum style {
	PLAIN,
	BOLD,
	DIM,
	RED,
	GREEN,
	YELLOW,
	CYAN,
	STYLES
};

/* What begins a style on the terminal, and what ends every one; "" without colour. */
const char *term_style(const struct term *term, enum style style);
const char *term_end(const struct term *term);

/*
 * A copy of `text` that can be shown: control characters, what is not text in this locale and what
 * would turn the direction of writing are escaped. *width gets the columns that it takes. Returns
 * NULL when out of memory; free it with free().
 */
char *term_text(const struct term *term, const char *text, unsigned *width);

/* Cuts what look_text() made to so many columns (more than 3), with a mark at its end. Returns the
 * columns that it takes. */
unsigned term_cut(const struct term *term, char *text, unsigned columns);

/* "2026-11-29 21:30:05", in local time, of milliseconds since 1970. */
#define TERM_TIME_SIZE 40
const char *term_time(int64_t ms, char text[TERM_TIME_SIZE]);
/* "3 min", how long ago that was. */
const char *term_age(int64_t ms, char text[TERM_TIME_SIZE]);
/* "1.2 MiB", with a sign where `sign` is not 0. */
const char *term_bytes(char sign, uint64_t bytes, char text[TERM_TIME_SIZE]);

#endif
