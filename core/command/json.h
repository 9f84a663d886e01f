/* SPDX-License-Identifier: MIT */
#ifndef JSONOUT_H
#define JSONOUT_H

/* Writes a text to standard output as a JSON string; bytes that are not UTF-8 become U+FFFD. */
void output_json_string(const char *text);

/* The option of every command that has something to say to programs; `flag` is a bool *. */
#define JSON_OPTION(flag)                                                                      \
	{                                                                                      \
		.name = "json", .help = "for programs: JSON, one object a line", .set = (flag) \
	}

#endif
