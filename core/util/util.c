/* SPDX-License-Identifier: MIT */
/*
 * Small helpers without a subject of their own: growing arrays, time, random names.
 */
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <uuid/uuid.h>

#define LARGE ((size_t)256 << 10)

bool tdl__reserve(void *array, size_t *cap, size_t need, size_t size)
{
	/* By half; what is large by an eighth, since it is moved by its pages. */
	size_t grown = *cap + (*cap > LARGE / size ? *cap / 8 : *cap / 2) + 8;
	void **at = array, *p;

	if (need <= *cap)
		return true;
	if (grown < need)
		grown = need;
	p = reallocarray(*at, grown, size);
	if (!p)
		return false;
	*at = p;
	*cap = grown;
	return true;
}

void tdl__trim(void *array, size_t *cap, size_t count, size_t size)
{
	void **at = array, *p = count > 0 ? reallocarray(*at, count, size) : NULL;

	if (!p)
		return;
	*at = p;
	*cap = count;
}

bool tdl__open_standard_streams(void)
{
	/* The wrong way round, but for errors, which are to go nowhere. */
	static const int modes[] = { O_WRONLY, O_RDONLY, O_RDWR };

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd)
			return false;
	return true;
}

int64_t tdl__now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void tdl__hex(char out[TDL__HEX_MAX], const uint8_t bytes[16])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 16; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[32] = '\0';
}

/* 1 + the value of a digit, 0 for what is none. A log has two of these texts a commit, so digits
 * are looked up. */
static const uint8_t digits[256] = {
	['0'] = 1,  ['1'] = 2,	['2'] = 3,  ['3'] = 4,	['4'] = 5,  ['5'] = 6,
	['6'] = 7,  ['7'] = 8,	['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
	['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

bool tdl__unhex(uint8_t bytes[16], const char *hex)
{
	const uint8_t *p = (const uint8_t *)hex;

	for (int i = 0; i < 16; i++, p += 2) {
		/* A text that is too short ends in a NUL, which is not a digit either. */
		unsigned high = digits[p[0]], low = high != 0 ? digits[p[1]] : 0;

		if (low == 0)
			return false;
		bytes[i] = (uint8_t)((high - 1) << 4 | (low - 1));
	}
	return true;
}

void tdl__random_hex(char out[TDL__HEX_MAX])
{
	uuid_t id;

	uuid_generate_random(id);
	tdl__hex(out, id);
}
