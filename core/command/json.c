/* SPDX-License-Identifier: MIT */
/*
 * JSON strings. What else of JSON is printed comes from the library or is written out where it
 * is printed.
 */
#include "json.h"

#include <string.h>

#include "output.h"
#include "util/escape.h"
#include "util/util.h"

void output_json_string(const char *text)
{
	size_t n = strlen(text);
	size_t quoted = tdl__json_quote_as(TDL__QUOTE_SHOWN, NULL, 0, text, n);
	char *string CLEANUP(tdl__free_at) = malloc(quoted);

	if (!string) {
		output_no_memory();
		return;
	}
	tdl__json_quote_as(TDL__QUOTE_SHOWN, string, quoted, text, n);
	output_bytes(string, quoted);
}
