/* SPDX-License-Identifier: MIT */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Standard output, buffered. The first error is kept and what follows it dropped, so that callers
 * look once, in output_finish(); a loop that would go on for long may ask output_failed().
 */
void output_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void output_bytes(const void *bytes, size_t n);
int output_failed(void);
/* Whether it is that nobody reads any more. */
bool output_broken(void);
/* Records ENOMEM as the output's error. */
void output_no_memory(void);

/* The same for what may be large: that goes out without another copy. */
void output_large(const void *bytes, size_t n);

/*
 * The same for pages of output_pages_new(), which a pipe takes as they are. Returns whether they
 * are gone: then they are unmapped, and the next output needs new ones.
 */
bool output_pages(void *pages, size_t room, size_t n);
/* `room` bytes for output_pages(), for munmap(); NULL without memory. Any thread may call it. */
void *output_pages_new(size_t room);

/*
 * Writes what is buffered and returns the exit status. A failure is reported, unless it is that
 * nobody reads any more. `committed`, where it is not NULL, says what the table now holds
 * nevertheless: a caller must not take this failure for a refusal.
 */
int output_finish(const char *committed);

#endif
