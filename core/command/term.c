/* SPDX-License-Identifier: MIT */
/*
 * What the terminal and the locale allow, and how times, sizes and foreign text are shown there.
 * Knows nothing of tables.
 */
#include "term.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static bool wants_color(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return (!no || *no == '\0') && term && *term != '\0' && strcmp(term, "dumb") != 0;
}

static unsigned terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	long width;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	width = columns ? strtol(columns, NULL, 10) : 0;
	return width > 0 && width < 10000 ? (unsigned)width : 80;
}

void term_begin(struct term *term, const char *when)
{
	bool terminal = isatty(STDOUT_FILENO);

	setlocale(LC_CTYPE, "");
	term->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	term->width = terminal_width();
	term->human = terminal;
	if (when && strcmp(when, "always") == 0)
		term->human = term->color = true;
	else if (when && strcmp(when, "never") == 0)
		term->color = false;
	else
		term->color = terminal && wants_color();
}

const char *term_style(const struct term *term, enum style style)
{
	static const char *const begin[STYLES] = {
		[PLAIN] = "",	     [BOLD] = "\033[1m",   [DIM] = "\033[2m",
		[RED] = "\033[31m",  [GREEN] = "\033[32m", [YELLOW] = "\033[33m",
		[CYAN] = "\033[36m",
	};

	return term->color ? begin[style] : "";
}

const char *term_end(const struct term *term)
{
	return term->color ? "\033[0m" : "";
}

/* The marks that turn the direction of text, and the separators of lines and paragraphs. */
static bool is_treacherous(wchar_t c)
{
	return c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

char *term_text(const struct term *term, const char *text, unsigned *width)
{
	size_t left = strlen(text);
	char *copy = malloc(4 * left + 1), *to = copy;
	mbstate_t state = { 0 };

	*width = 0;
	while (copy && left > 0) {
		wchar_t c;
		size_t n = mbrtowc(&c, text, left, &state);
		int columns = -1;

		if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
			memset(&state, 0, sizeof state);
			n = 1;
		} else if (!is_treacherous(c) && (term->utf8 || n == 1)) {
			columns = wcwidth(c);
		}
		if (columns >= 0) {
			to = mempcpy(to, text, n);
			*width += (unsigned)columns;
		} else {
			for (size_t i = 0; i < n; i++) {
				to += sprintf(to, "\\x%02x", (unsigned char)text[i]);
				*width += 4;
			}
		}
		text += n;
		left -= n;
	}
	if (copy)
		*to = '\0';
	return copy;
}

unsigned term_cut(const struct term *term, char *text, unsigned columns)
{
	const char *mark = term->utf8 ? "\u2026" : "...";
	unsigned room = columns - (term->utf8 ? 1 : 3), width = 0;
	size_t at = 0, left = strlen(text);
	mbstate_t state = { 0 };

	while (left > 0) {
		wchar_t c;
		size_t n = mbrtowc(&c, text + at, left, &state);
		int more = n <= left && n > 0 ? wcwidth(c) : -1;

		if (more < 0 || width + (unsigned)more > room)
			break;
		width += (unsigned)more;
		at += n;
		left -= n;
	}
	/* What was cut away makes room for the mark. */
	if (left < strlen(mark))
		mark = ".";
	strcpy(text + at, mark);
	return width + columns - room;
}

const char *term_time(int64_t ms, char text[TERM_TIME_SIZE])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	/* Whatever a writer put into the log. */
	if (ms < 0 || ms / 1000 > 253402300799 || !localtime_r(&seconds, &tm) ||
	    strftime(text, TERM_TIME_SIZE, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(text, TERM_TIME_SIZE, "%" PRId64 " ms", ms);
	return text;
}

const char *term_age(int64_t ms, char text[TERM_TIME_SIZE])
{
	static const struct {
		int64_t seconds, limit;
		const char *name;
	} units[] = {
		{ 1, 120, "s" },
		{ 60, 7200, "min" },
		{ 3600, 172800, "h" },
		{ 86400, 86400 * 730, "d" },
		{ 86400 * 365, INT64_MAX, "y" },
	};
	int64_t seconds = (int64_t)time(NULL) - ms / 1000;
	size_t i = 0;

	if (seconds < 0)
		seconds = 0;
	while (seconds >= units[i].limit)
		i++;
	snprintf(text, TERM_TIME_SIZE, "%" PRId64 " %s", seconds / units[i].seconds, units[i].name);
	return text;
}

const char *term_bytes(char sign, uint64_t bytes, char text[TERM_TIME_SIZE])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	char mark[2] = { sign, '\0' };
	double value = (double)bytes;
	size_t i = 0;

	/* Four digits would not be rounded to less. */
	for (; value >= 999.5; i++)
		value /= 1024;
	snprintf(text, TERM_TIME_SIZE, "%s%.*f %s", mark, i > 0 && value < 99.95 ? 1 : 0, value,
		 units[i]);
	return text;
}
