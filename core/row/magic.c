/* SPDX-License-Identifier: MIT */
/*
 * Files given by mistake, known by their first bytes. Looks at nothing else.
 */
#include "row/magic.h"

#include <stdbool.h>
#include <string.h>

#define UNPACK	 "decompress it first"
#define CONVERT	 "convert it to JSON lines first"
#define ENCODING "convert it to UTF-8 first"

static const struct {
	const char *bytes;
	size_t n;
	const char *message;
} known[] = {
	{ "\x1f\x8b", 2, "looks gzip-compressed; " UNPACK },
	{ "\x28\xb5\x2f\xfd", 4, "looks zstd-compressed; " UNPACK },
	{ "\xfd"
	  "7zXZ\0",
	  6, "looks xz-compressed; " UNPACK },
	{ "BZh", 3, "looks bzip2-compressed; " UNPACK },
	{ "\x04\x22\x4d\x18", 4, "looks lz4-compressed; " UNPACK },
	{ "PK\x03\x04", 4, "looks like a zip archive; unpack it first" },
	{ "7z\xbc\xaf\x27\x1c", 6, "looks like a 7z archive; unpack it first" },
	{ "PAR1", 4, "looks like a Parquet file; " CONVERT },
	{ "ARROW1", 6, "looks like an Arrow file; " CONVERT },
	{ "Obj\x01", 4, "looks like an Avro file; " CONVERT },
	{ "\xff\xfe\0\0", 4, "looks like UTF-32; " ENCODING },
	{ "\0\0\xfe\xff", 4, "looks like UTF-32; " ENCODING },
	{ "\xff\xfe", 2, "looks like UTF-16; " ENCODING },
	{ "\xfe\xff", 2, "looks like UTF-16; " ENCODING },
};

/* Whether the bytes from p on, `step` apart, are ASCII text and those between are NUL. */
static bool is_wide(const char *p, size_t n, size_t first, size_t step)
{
	if (n < 4)
		return false;
	for (size_t i = 0; i < 4; i++) {
		bool ascii = (unsigned char)(p[i] - 1) < 0x7f;

		if (i % step == first ? !ascii : p[i] != '\0')
			return false;
	}
	return true;
}

const char *tdl__sniff(const char *p, size_t n)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (n >= known[i].n && memcmp(p, known[i].bytes, known[i].n) == 0)
			return known[i].message;
	}
	/* Without a byte order mark: JSON starts with ASCII. */
	if (is_wide(p, n, 0, 4) || is_wide(p, n, 3, 4))
		return "looks like UTF-32; " ENCODING;
	if (is_wide(p, n, 0, 2) || is_wide(p, n, 1, 2))
		return "looks like UTF-16; " ENCODING;
	return NULL;
}
