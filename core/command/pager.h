/* SPDX-License-Identifier: MIT */
#ifndef PAGER_H
#define PAGER_H

/*
 * A program that shows what goes to standard output a screen at a time: $PAGER, else less, which
 * ends by itself where one screen is enough. Only where standard output and standard input are a
 * terminal; with PAGER=cat, or empty, or where the program is not installed, there is none.
 */

/* From here on standard output goes to the pager; what is asked of the terminal is asked before. */
void pager_begin(void);
/* After output_finish(), with the status that gave: waits until the pager is closed. Returns the
 * exit status; that nobody read on is not a failure. */
int pager_end(int status);

#endif
