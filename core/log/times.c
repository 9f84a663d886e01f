/* SPDX-License-Identifier: MIT */
/*
 * Times of versions that are later than their timestamps. Knows numbers only.
 */
#include "log/times.h"

#include "util/search.h"
#include "util/util.h"

static int64_t after(int64_t time, uint64_t ms)
{
	return ms <= (uint64_t)INT64_MAX - (uint64_t)time ? (int64_t)((uint64_t)time + ms)
							  : INT64_MAX;
}

bool tdl__times_reserve(tdl__times *times)
{
	return tdl__reserve(&times->runs, &times->cap, times->count + 1, sizeof *times->runs);
}

bool tdl__times_add(tdl__times *times, uint64_t version, int64_t before, int64_t timestamp)
{
	struct tdl__late_run *last = times->count > 0 ? &times->runs[times->count - 1] : NULL;
	int64_t time;

	if (version == 0 || timestamp > before)
		return true;
	time = after(before, 1);
	if (time == timestamp)
		return true;
	if (last && last->first + last->count == version &&
	    after(last->time, last->count) == time) {
		last->count++;
		return true;
	}
	if (!tdl__times_reserve(times))
		return false;
	times->runs[times->count++] = (struct tdl__late_run){ version, 1, time };
	return true;
}

int64_t tdl__times_get(const tdl__times *times, uint64_t version, int64_t timestamp)
{
	size_t low = tdl__lower_bound(times->count, i, times->runs[i].first <= version);
	const struct tdl__late_run *run;

	if (low == 0)
		return timestamp;
	run = &times->runs[low - 1];
	return version - run->first < run->count ? after(run->time, version - run->first)
						 : timestamp;
}

void tdl__times_clear(tdl__times *times)
{
	free(times->runs);
	*times = (tdl__times){ 0 };
}
