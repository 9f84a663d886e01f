/* SPDX-License-Identifier: MIT */
/*
 * Cells that become columns. Knows nothing of what they say.
 */
#include "columns.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "output.h"

#define PAGE_ROWS 1000
#define GAP	  2  /* blanks between columns */
#define BAR_LEAST 10 /* columns of a bar on the narrowest of terminals */
#define CUT_LEAST 12 /* columns that are left of what is cut */

struct grid_cell {
	char *text; /* NULL: a bar */
	unsigned width;
	enum style style;
	double share;
};

void grid_begin(struct grid *grid, const struct term *term, unsigned columns, unsigned right)
{
	*grid = (struct grid){ .term = term, .columns = columns, .right = right };
	grid->cells = calloc((size_t)columns * PAGE_ROWS, sizeof *grid->cells);
}

static void blanks(unsigned n)
{
	for (; n > 0; n--)
		output_bytes(" ", 1);
}

/* In UTF-8 a bar ends in an eighth of a column. */
static void print_bar(const struct grid *grid, double share)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	unsigned parts = grid->term->utf8 ? 8 : 1;
	unsigned length = (unsigned)(share * grid->bar * parts + 0.5);

	/* What is there at all is seen. */
	if (length == 0 && share > 0)
		length = 1;
	for (unsigned i = 0; i < length / parts; i++)
		output_text("%s", parts == 8 ? "█" : "#");
	output_text("%s", eighths[length % parts]);
}

static void print_cell(const struct grid *grid, const struct grid_cell *cell, unsigned column)
{
	unsigned padding = grid->width[column] - cell->width;
	bool right = (grid->right >> column & 1) != 0, styled = cell->style != PLAIN;

	if (right)
		blanks(padding);
	output_text("%s", term_style(grid->term, cell->style));
	if (cell->text)
		output_text("%s", cell->text);
	else
		print_bar(grid, cell->share);
	output_text("%s", styled ? term_end(grid->term) : "");
	/* Nothing stands behind the last one. */
	if (column + 1 < grid->columns)
		blanks((right ? 0 : padding) + GAP);
}

/* Makes the columns that may be cut narrower, as far as the line is too long. */
static void fit(struct grid *grid)
{
	unsigned bar = grid->bar_wanted ? BAR_LEAST : 0, used = bar;

	for (unsigned i = 0; i < grid->columns; i++)
		used += grid->width[i] + (i + 1 < grid->columns ? GAP : 0);
	for (unsigned i = grid->columns; i-- > 0 && used > grid->term->width;) {
		unsigned over = used - grid->term->width, width = grid->width[i];

		if ((grid->cut >> i & 1) == 0 || width <= CUT_LEAST)
			continue;
		grid->width[i] = width - CUT_LEAST > over ? width - over : CUT_LEAST;
		used -= width - grid->width[i];
	}
	for (size_t i = 0; i < grid->count; i++) {
		struct grid_cell *cell = &grid->cells[i];
		unsigned width = grid->width[i % grid->columns];

		if (cell->text && cell->width > width)
			cell->width = term_cut(grid->term, cell->text, width);
	}
}

static void print_page(struct grid *grid)
{
	unsigned used = 0;

	fit(grid);

	for (unsigned i = 0; i + 1 < grid->columns; i++)
		used += grid->width[i] + GAP;
	if (grid->bar == 0)
		grid->bar =
			grid->term->width > used + BAR_LEAST ? grid->term->width - used : BAR_LEAST;
	for (size_t i = 0; i < grid->count; i++) {
		unsigned column = (unsigned)(i % grid->columns);

		print_cell(grid, &grid->cells[i], column);
		if (column + 1 == grid->columns)
			output_bytes("\n", 1);
		free(grid->cells[i].text);
	}
	grid->count = 0;
}

static void widen(struct grid *grid, unsigned column, unsigned width)
{
	if (grid->width[column] < width)
		grid->width[column] = width;
}

void grid_reserve(struct grid *grid, unsigned column, const char *text)
{
	widen(grid, column, (unsigned)strlen(text));
}

static struct grid_cell *next_cell(struct grid *grid, enum style style)
{
	struct grid_cell *cell;

	if (!grid->cells)
		return NULL;
	if (grid->count == (size_t)grid->columns * PAGE_ROWS)
		print_page(grid);
	cell = &grid->cells[grid->count++];
	*cell = (struct grid_cell){ .style = style };
	return cell;
}

void grid_add(struct grid *grid, enum style style, const char *format, ...)
{
	struct grid_cell *cell = next_cell(grid, style);
	char *text;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		output_no_memory();
	if (n < 0 || !cell)
		text = NULL;
	if (cell) {
		cell->text = term_text(grid->term, text ? text : "", &cell->width);
		if (!cell->text)
			output_no_memory();
		else
			widen(grid, (unsigned)((grid->count - 1) % grid->columns), cell->width);
	}
	free(text);
}

void grid_bar(struct grid *grid, enum style style, double share)
{
	struct grid_cell *cell = next_cell(grid, style);

	grid->bar_wanted = true;
	if (cell)
		cell->share = share;
}

void grid_end(struct grid *grid)
{
	if (!grid->cells)
		output_no_memory();
	else
		print_page(grid);
	free(grid->cells);
	grid->cells = NULL;
}
