/* SPDX-License-Identifier: MIT */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Standard output, buffered. The first error is kept and what follows it dropped, so that callers
 * look once, in output_finish(); a loop that would go on for long may ask output_failed().
 */
void output_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void output_bytes(const void *bytes, size_t n);
int output_failed(void);
/* As if writing had failed so: what could not be made cannot be written. */
void output_no_memory(void);

/*
 * Copies `size` bytes of the file `fd`, whose position does not matter, by the fastest way that
 * its kind and that of standard output allow. Calls done(bytes) now and then where it is not
 * NULL. Returns 0 also when writing failed (see above), -1 with errno when reading did, and -1
 * with errno 0 when the file is shorter.
 */
int output_file(int fd, uint64_t size, void (*done)(uint64_t bytes));

/*
 * Writes what is buffered and returns the exit status. A failure is reported, unless it is that
 * nobody reads any more. `committed`, where it is not NULL, says what the table now holds
 * nevertheless: a caller must not take this failure for a refusal.
 */
int output_finish(const char *committed);

#endif
