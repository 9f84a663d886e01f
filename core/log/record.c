/* SPDX-License-Identifier: MIT */
/*
 * A version as a line of JSON. Knows its members and their order, and no files.
 */
#include "log/record.h"

#include <string.h>

#include "util/escape.h"

bool tdl__record_leaves_out(tdl__span key)
{
#define NAME(name)                              \
	{                                       \
		"\"" name "\"", sizeof name + 1 \
	}
	static const tdl__span names[] = {
		NAME("version"), NAME("operation"),  NAME("timestamp"), NAME("readVersion"),
		NAME("files"),	 NAME("numRecords"), NAME("size"),	NAME("schema"),
		NAME("actions"), NAME("previous"),   NAME("crc32c"),
	};
	bool escapes = memchr(key.p, '\\', key.n) != NULL;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char name[16];

		if (!escapes) {
			if (key.n == names[i].n && memcmp(key.p, names[i].p, key.n) == 0)
				return true;
			continue;
		}
		memcpy(name, names[i].p + 1, names[i].n - 2);
		name[names[i].n - 2] = '\0';
		if (tdl__json_is(key, name))
			return true;
	}
	return false;
}

enum {
	DIGITS = 20
};

/* Writes a number to the end of `digits`; returns where it begins. */
static const char *spell_number(char digits[DIGITS], uint64_t number)
{
	char *at = digits + DIGITS;

	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	return at;
}

static void add_number(tdl__text *text, uint64_t number)
{
	char digits[DIGITS];
	const char *at = spell_number(digits, number);

	tdl__text_add(text, at, (size_t)(digits + DIGITS - at));
}

static void add_signed(tdl__text *text, int64_t number)
{
	if (number < 0)
		tdl__text_add(text, "-", 1);
	add_number(text, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

static size_t length_of(uint64_t number)
{
	char digits[DIGITS];

	return (size_t)(digits + DIGITS - spell_number(digits, number));
}

static size_t length_of_signed(int64_t number)
{
	return number < 0 ? 1 + length_of(-(uint64_t)number) : length_of((uint64_t)number);
}

#define VERSION	     "{\"version\":"
#define OPERATION    ",\"operation\":"
#define TIMESTAMP    ",\"timestamp\":"
#define READ_VERSION ",\"readVersion\":"
#define FILES	     ",\"files\":"
#define ROWS	     ",\"numRecords\":"
#define SIZE	     ",\"size\":"
#define SCHEMA	     ",\"schema\":"
#define END	     "}\n"
#define ALL	     VERSION OPERATION TIMESTAMP READ_VERSION FILES ROWS SIZE SCHEMA END

size_t tdl__record_length(const tdl__record *record, size_t others)
{
	return strlen(ALL) + length_of_signed(record->version) +
	       tdl__json_quote(NULL, 0, record->operation, strlen(record->operation)) +
	       length_of_signed(record->timestamp) +
	       (record->read_version < 0 ? strlen("null")
					 : length_of_signed(record->read_version)) +
	       length_of(record->files) + length_of(record->rows) + length_of(record->bytes) +
	       record->schema.n + others;
}

static void add_string(tdl__text *text, const char *string)
{
	tdl__text_add(text, string, strlen(string));
}

void tdl__record_write(tdl__text *text, const tdl__record *record, tdl__span info)
{
	tdl__span key, value;

	add_string(text, VERSION);
	add_signed(text, record->version);
	add_string(text, OPERATION);
	tdl__text_quote(text, record->operation, strlen(record->operation));
	add_string(text, TIMESTAMP);
	add_signed(text, record->timestamp);
	add_string(text, READ_VERSION);
	if (record->read_version < 0)
		add_string(text, "null");
	else
		add_signed(text, record->read_version);
	add_string(text, FILES);
	add_number(text, record->files);
	add_string(text, ROWS);
	add_number(text, record->rows);
	add_string(text, SIZE);
	add_number(text, record->bytes);
	add_string(text, SCHEMA);
	tdl__text_add(text, record->schema.p, record->schema.n);
	/* Byte for byte. */
	while (tdl__json_next(&info, &key, &value)) {
		if (tdl__record_leaves_out(key))
			continue;
		add_string(text, ",");
		tdl__text_add(text, key.p, key.n);
		add_string(text, ":");
		tdl__text_add(text, value.p, value.n);
	}
	add_string(text, END);
}
