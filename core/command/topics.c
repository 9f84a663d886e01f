/* SPDX-License-Identifier: MIT */
/*
 * The help that belongs to no single command.
 */
#include "topics.h"

const struct topic topics[] = {
	{ "versions", "how a version is named",
	  "A version is named in one of these ways, wherever one is asked for:\n"
	  "\n"
	  "  7, v7      that version\n"
	  "  latest     the newest\n"
	  "  @TIME      the one that was the newest at that time: tinydelta help times\n"
	  "  NAME       a tag\n"
	  "  ...~3      the third before any of these: latest~1, @-1d~3\n"
	  "\n"
	  "Only --read-version takes a number and nothing else.\n"
	  "\n"
	  "Examples:\n"
	  "  tinydelta read orders --version latest~1\n"
	  "  tinydelta diff orders @-1d latest\n"
	  "  tinydelta restore orders v3\n" },
	{ "times", "how a time is written",
	  "  2026-11-29                 the beginning of that day\n"
	  "  20261129                   the same\n"
	  "  2026-11-29T18:40           or :05, :05.123 behind it, or a blank for the T\n"
	  "  2026-11-29T18:40+01:00     in that zone; Z is UTC; without one, local time\n"
	  "  1795978989                 seconds since 1970, with 13 digits milliseconds\n"
	  "  -90s -30m -2h -7d -2w      so long ago\n"
	  "\n"
	  "Behind an @ a time is a version, the one that was the newest then: it is itself\n"
	  "still in it. A time before version 0, or one that lies in the future, has none.\n"
	  "The environment variable TZ says what local time is; `tinydelta status` shows it.\n"
	  "\n"
	  "Examples:\n"
	  "  tinydelta history orders --since -7d\n"
	  "  tinydelta read orders --version @2026-11-29T18:40\n"
	  "  TZ=Europe/Berlin tinydelta diff orders @2026-11-28 @2026-11-29\n" },
	{ "incoming", "how rows are dropped into a mount",
	  "A file that is copied into incoming/ of a mount becomes the next version.\n"
	  "\n"
	  "  - It is committed when it is closed for the last time. A close, cp or mv that\n"
	  "    succeeds has committed all of its rows, one that fails has committed none.\n"
	  "  - Rows are JSON objects, one a line, with the table's columns. One bad row\n"
	  "    refuses the file: it stays, and NAME.error beside it says why.\n"
	  "  - Names with a leading dot, or ending in ~, .tmp, .part and the like, wait until\n"
	  "    they are renamed. An empty file waits until it is written to.\n"
	  "  - What a killed program wrote is not committed; it stays as well.\n"
	  "  - ls incoming/ shows what is not committed; so does `tinydelta status`.\n"
	  "\n"
	  "Examples:\n"
	  "  cp monday.jsonl mnt/incoming/\n"
	  "  cat mnt/incoming/monday.jsonl.error\n"
	  "  rm mnt/incoming/monday.jsonl\n"
	  "\n"
	  "All of it: man tinydeltafs\n" },
	{ 0 },
};
