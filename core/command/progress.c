/* SPDX-License-Identifier: MIT */
/*
 * The progress line. Knows nothing of what the work is.
 */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define FIRST_MS 1000
#define EVERY_MS 200

static struct {
	bool wanted;
	const char *doing;
	uint64_t total, bytes;
	int64_t begin, next;
	int shown; /* columns */
} line;

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static double scaled(double bytes, const char **unit)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned i = 0;

	while (bytes >= 1000 && i + 1 < sizeof units / sizeof units[0]) {
		bytes /= 1024;
		i++;
	}
	*unit = units[i];
	return bytes;
}

/* How long the rest will take. */
static int add_time(char *text, size_t size, double seconds)
{
	if (seconds < 100)
		return snprintf(text, size, ", %.0f s left", seconds < 1 ? 1 : seconds);
	if (seconds < 6000)
		return snprintf(text, size, ", %.0f min left", seconds / 60);
	return snprintf(text, size, ", %.0f h left", seconds / 3600);
}

static void show(int64_t elapsed)
{
	const char *unit, *per_second;
	double done = scaled((double)line.bytes, &unit);
	double speed = scaled((double)line.bytes * 1000 / (double)elapsed, &per_second);
	char text[120];
	int n = snprintf(text, sizeof text, "%s %.1f %s", line.doing, done, unit);
	uint64_t left = line.total > line.bytes ? line.total - line.bytes : 0;

	/* A file that grows meanwhile must not come to more than all of it. */
	if (line.total >= line.bytes && line.total > 0)
		n += snprintf(text + n, sizeof text - (size_t)n, ", %d%%",
			      (int)((double)line.bytes * 100 / (double)line.total));
	if (line.total > 0 && left == 0)
		n += snprintf(text + n, sizeof text - (size_t)n, ", waiting for the disk");
	else
		n += snprintf(text + n, sizeof text - (size_t)n, ", %.1f %s/s", speed, per_second);
	if (left > 0 && line.bytes > 0)
		n += add_time(text + n, sizeof text - (size_t)n,
			      (double)left * (double)elapsed / 1000 / (double)line.bytes);
	fprintf(stderr, "\r%-*s", line.shown, text);
	fflush(stderr);
	line.shown = n;
}

void progress_begin(const char *doing, uint64_t total)
{
	line.doing = doing;
	/* From the background it would be written into what another program shows. */
	line.wanted = isatty(STDERR_FILENO) && tcgetpgrp(STDERR_FILENO) == getpgrp();
	line.total = total;
	line.bytes = 0;
	line.begin = now();
	line.next = line.begin + FIRST_MS;
	line.shown = 0;
}

void progress_at(void *context, uint64_t bytes)
{
	int64_t time;

	line.bytes = bytes;
	if (!line.wanted)
		return;
	time = now();
	if (time < line.next)
		return;
	line.next = time + EVERY_MS;
	show(time - line.begin);
}

void progress_add(uint64_t bytes)
{
	progress_at(NULL, line.bytes + bytes);
}

void progress_end(void)
{
	if (line.shown > 0)
		fprintf(stderr, "\r%*s\r", line.shown, "");
	line.shown = 0;
	line.wanted = false;
}
