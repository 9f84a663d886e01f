/* SPDX-License-Identifier: MIT */
/*
 * The grammar of versions and times: what one text means agrees with what its neighbours mean, a
 * time that is written comes back as itself, and what is refused is refused in one line. The first
 * byte of an input chooses the zone.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz.h"
#include "log/instant.h"
#include "log/revision.h"

#define NOW INT64_C(1795978989788)

static void need(bool good)
{
	if (!good)
		abort();
}

static bool parse(const char *text, tdl__revision *revision)
{
	tdl_error error = { 0 };
	int r = tdl__revision_parse(text, NOW, revision, &error);

	if (r == 0)
		return true;
	need(r == TDL_ERR_MISUSE && error.code == r && error.message[0] != '\0');
	for (const char *at = error.message; *at != '\0'; at++)
		need((unsigned char)*at >= 0x20 && *at != 0x7f);
	return false;
}

static bool same(const tdl__revision *a, const tdl__revision *b)
{
	return a->kind == b->kind && a->number == b->number && a->instant == b->instant &&
	       a->tag_length == b->tag_length;
}

/* One step further back means the same and one more. */
static void check_back(const char *text, const tdl__revision *revision)
{
	char *longer = malloc(strlen(text) + 3);
	tdl__revision back;

	need(longer != NULL);
	stpcpy(stpcpy(longer, text), "~1");
	if (strchr(text, '~'))
		need(!parse(longer, &back));
	else
		need(parse(longer, &back) && same(&back, revision) && back.back == 1 &&
		     revision->back == 0);
	free(longer);
}

/* Written out with its zone, a time is itself, whatever a clock shows twice or never. */
static void check_instant(int64_t instant)
{
	char text[TDL__INSTANT_MAX];
	int64_t again;

	tdl__instant_format(text, instant);
	if (strchr(text, 'T'))
		need(tdl__instant_parse(text, strlen(text), NOW, &again, NULL) == 0 &&
		     again == instant);
}

static void check(const char *text)
{
	tdl__revision revision;
	size_t n = strcspn(text, "~");
	bool tag = tdl__tag_name_valid(text, n), good = parse(text, &revision);

	if (!good) {
		/* A tag alone is always right. */
		need(!tag || text[n] == '~');
		return;
	}
	need((revision.kind == TDL__REVISION_TAG) == tag);
	need(revision.back >= 0 && revision.number >= 0);
	if (tag)
		need(revision.tag == text && revision.tag_length == n && n <= TDL__TAG_MAX);
	if (revision.kind == TDL__REVISION_INSTANT)
		check_instant(revision.instant);
	check_back(text, &revision);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const zones[] = { "UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "XYZ-5:45",
					     "NST3:30NDT,M3.2.0,M11.1.0" };
	char *text;

	if (size < 1)
		return 0;
	setenv("TZ", zones[data[0] % 4], 1);
	tzset();
	text = malloc(size);
	need(text != NULL);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	check(text);
	free(text);
	return 0;
}
