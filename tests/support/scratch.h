/* SPDX-License-Identifier: MIT */
#ifndef TEST_SCRATCH_H
#define TEST_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A directory of the test's own, and plain handling of files in it. Whatever goes wrong here ends
 * the test. Paths are relative to the directory unless they begin with a slash.
 */

/* Suite .init and .fini: makes the directory, removes it. */
void scratch_begin(void);
void scratch_end(void);

/* The absolute path of something in it; the text lives for the next 64 calls. */
const char *in_scratch(const char *format, ...) __attribute__((format(printf, 1, 2)));

void put_bytes(const char *path, const void *bytes, size_t n);
void put(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All of a file, a NUL behind it, to free(); the length goes to *n where that is not NULL. */
char *get_bytes(const char *path, size_t *n);
/* Sets a length, keeping the times. */
void cut_to(const char *path, uint64_t size);
void make_dir(const char *path);
void remove_tree(const char *path);
void copy_tree(const char *from, const char *to);
bool is_there(const char *path);
/* The names in a directory, sorted, each with a newline behind it, to free(). */
char *names_in(const char *path);
unsigned count_in(const char *path);
/* Makes a file look as if it had been changed so many seconds ago. */
void age(const char *path, int seconds);

/* Descriptors of this process that are open. */
unsigned open_descriptors(void);

#endif
