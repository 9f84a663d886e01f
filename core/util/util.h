/* SPDX-License-Identifier: MIT */
#ifndef TDL_UTIL_H
#define TDL_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Called with a pointer to the variable when its scope ends: `char *s CLEANUP(tdl__free_at) =
 * NULL`, `int fd CLEANUP(tdl__close_at) = -1`. */
#define CLEANUP(function) __attribute__((cleanup(function)))

static inline void tdl__free_at(void *p)
{
	free(*(void **)p);
}

static inline void tdl__close_at(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* Takes a pointer out of a variable, so that its cleanup does nothing. */
#define tdl__steal(p)                            \
	__extension__({                          \
		__typeof__(p) *steal_ = &(p);    \
		__typeof__(p) stolen_ = *steal_; \
		*steal_ = NULL;                  \
		stolen_;                         \
	})

static inline int tdl__steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/*
 * Makes room for `need` elements of `size` bytes in a growing array: *array and *cap change, the
 * elements stay. Grows by half, or when it is large by an eighth, so that a large array wastes
 * little. False: no memory, nothing changed.
 */
bool tdl__reserve(void *array, size_t *cap, size_t need, size_t size);
/* Gives back the room that `count` elements do not need. */
void tdl__trim(void *array, size_t *cap, size_t count, size_t size);

/*
 * Opens /dev/null in place of each standard stream that is closed, so that no file which is opened
 * later can stand there. Reading such an input, and writing such an output, fails as before. False:
 * there is no descriptor for it.
 */
bool tdl__open_standard_streams(void);

/* Milliseconds since 1970, by the wall clock. */
int64_t tdl__now_ms(void);

#define TDL__HEX_MAX 33
/* 16 fresh random bytes as 32 lower-case hex digits and a NUL. */
void tdl__random_hex(char out[TDL__HEX_MAX]);
/* 16 bytes as hex, and back: false where the 32 characters are not lower-case hex digits. */
void tdl__hex(char out[TDL__HEX_MAX], const uint8_t bytes[16]);
bool tdl__unhex(uint8_t bytes[16], const char *hex);

#endif
