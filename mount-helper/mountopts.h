/* SPDX-License-Identifier: MIT */
#ifndef MOUNTOPTS_H
#define MOUNTOPTS_H

#include <stdbool.h>
#include <stddef.h>

/* What an option list of mount(8) comes to. Zero it before; free it with mountopts_clear(). */
struct mountopts {
	bool remount;
	bool read_only;
	/* MS_ flags that are asked for, on or off. Only a remount needs them. */
	unsigned long set, clear;
	/* The option list for tinydeltafs, "ro" included; "" where there is nothing to say. Its
	 * elements are separated by commas; commas and backslashes within one have a backslash. */
	char *daemon;
};

/*
 * Reads the list as mount(8) hands it to a helper: comma-separated, a comma within double quotes
 * is an ordinary one, backslashes are ordinary, elements may be empty. What concerns only mount(8)
 * and its relatives is dropped, of ro and rw the last counts. Unknown elements are refused, or
 * dropped where `sloppy`. Returns 0, or -1 with one line in `why` (size bytes).
 */
int mountopts_parse(struct mountopts *options, const char *list, bool sloppy, char *why,
		    size_t size);
void mountopts_clear(struct mountopts *options);

#endif
