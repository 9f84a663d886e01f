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

static void show(int64_t elapsed)
{
	const char *unit, *per_second;
	double done = scaled((double)line.bytes, &unit);
	double speed = scaled((double)line.bytes * 1000 / (double)elapsed, &per_second);
	char text[80];
	int n = snprintf(text, sizeof text, "%.1f %s", done, unit);

	/* A file that grows meanwhile must not come to more than all of it. */
	if (line.total >= line.bytes && line.total > 0)
		n += snprintf(text + n, sizeof text - (size_t)n, ", %d%%",
			      (int)((double)line.bytes * 100 / (double)line.total));
	n += snprintf(text + n, sizeof text - (size_t)n, ", %.1f %s/s", speed, per_second);
	fprintf(stderr, "\r%-*s", line.shown, text);
	fflush(stderr);
	line.shown = n;
}

void progress_begin(uint64_t total)
{
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
