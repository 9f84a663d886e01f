/* SPDX-License-Identifier: MIT */
#ifndef GRID_H
#define GRID_H

#include "term.h"

/*
 * Columns for human readers: cells are added from left to right, row by row, and printed so that
 * those of a column stand under one another. Rows are kept until a page is full, so that any number
 * of them takes little memory; columns never become narrower from page to page.
 */
#define GRID_COLUMNS 10

struct grid {
	const struct term *term;
	unsigned columns;
	unsigned right; /* bit i: column i stands to the right */
	unsigned cut; /* bit i: column i is cut where the line would be too long, the last first */
	unsigned width[GRID_COLUMNS];
	bool bar_wanted;
	unsigned bar; /* columns that a full bar takes; 0: not known yet */
	size_t count; /* of cells */
	struct grid_cell *cells;
};

void grid_begin(struct grid *grid, const struct term *term, unsigned columns, unsigned right);
/* The column is at least so wide, also on the first page. */
void grid_reserve(struct grid *grid, unsigned column, const char *text);
void grid_add(struct grid *grid, enum style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A bar that takes this share (0 to 1) of what the terminal's line has left; in the last column. */
void grid_bar(struct grid *grid, enum style style, double share);
/* Prints what has not been printed and frees everything. */
void grid_end(struct grid *grid);

#endif
