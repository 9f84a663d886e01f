/* SPDX-License-Identifier: MIT */
/*
 * tinydelta status: how a table is now, what waits to get into it, and where it is mounted.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "columns.h"
#include "command.h"
#include "find_table.h"
#include "json.h"
#include "output.h"
#include "util/mountinfo.h"

/* What is being printed: as JSON, or with so many things of its kind before it. */
struct printer {
	bool json;
	size_t count;
	struct term term;
};

/* ---- Space --------------------------------------------------------------------------------- */

struct space {
	uint64_t data, log, waiting; /* bytes on the disk */
};

static bool is_part(const char *name)
{
	return strncmp(name, "part-", 5) == 0;
}

/* Adds what the files in a folder take on the disk; of those in `sub`, where it is not NULL, too.
 */
static uint64_t add_up(int at, const char *name, bool (*counts)(const char *name), bool below)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	uint64_t bytes = 0;
	struct stat st;

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    (counts && !counts(entry->d_name)) ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_blocks * 512;
		else if (S_ISDIR(st.st_mode) && below)
			bytes += add_up(fd, entry->d_name, NULL, false);
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	return bytes;
}

static struct space measure(const tdl_table *table)
{
	int fd = tdl_table_fd(table);

	return (struct space){ .data = add_up(fd, ".", is_part, false),
			       .log = add_up(fd, "_delta_log", NULL, false),
			       .waiting = add_up(fd, "_incoming", NULL, true) };
}

/* ---- Lists --------------------------------------------------------------------------------- */

/* How a thing of a list begins: behind a comma, or in a line of its own. */
static void begin(struct printer *printer, const char *heading)
{
	if (printer->json)
		output_text("%s", printer->count > 0 ? "," : "");
	else if (printer->count == 0)
		output_text("%s%s%s\n", term_style(&printer->term, BOLD), heading,
			    term_end(&printer->term));
	printer->count++;
}

static void print_waiting(void *context, const tdl_waiting *waiting)
{
	struct printer *printer = context;
	char bytes[TERM_TIME_SIZE], age[TERM_TIME_SIZE];
	const char *state = waiting->reason			  ? "refused"
			    : waiting->state == TDL_WAITING_LIVES ? "open"
			    : waiting->state == TDL_WAITING_MOUNT ? "left"
								  : "unknown";
	unsigned width;
	char *name;

	begin(printer, "incoming");
	if (printer->json) {
		output_text("{\"name\":");
		if (waiting->name)
			output_json_string(waiting->name);
		else
			output_text("null");
		output_text(",\"state\":\"%s\",\"user\":%u,\"size\":%" PRIu64 ",\"time\":%" PRId64
			    ",\"folder\":",
			    state, waiting->uid, waiting->size, waiting->mtime);
		output_json_string(waiting->folder);
		output_text(",\"reason\":");
		if (waiting->reason)
			output_json_string(waiting->reason);
		else
			output_text("null");
		output_text("}");
		return;
	}
	if (!waiting->name) {
		output_text("  files of user %u, in a folder that is closed to this one\n",
			    waiting->uid);
		return;
	}
	name = term_text(&printer->term, waiting->name, &width);
	output_text("  %s  %s, %s ago: ", name ? name : "?", term_bytes('\0', waiting->size, bytes),
		    term_age(waiting->mtime, age));
	free(name);
	if (waiting->reason)
		output_text("refused, %s\n", waiting->reason);
	else if (waiting->state == TDL_WAITING_LIVES)
		output_text("waits to be written to the end, or for another name\n");
	else if (waiting->state == TDL_WAITING_MOUNT)
		output_text("left by a mount that is gone; the next one lists it\n");
	else
		output_text("left on another machine or by another user; see tinydelta recover\n");
}

static void print_mounts(struct printer *printer, const char *table)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;

	while (mounts && getline(&line, &size, mounts) >= 0) {
		struct tdl__mount mount;
		unsigned width;
		char *at;

		if (!tdl__mountinfo_read(line, &mount) ||
		    strcmp(mount.type, "fuse.tinydeltafs") != 0 || strcmp(mount.source, table) != 0)
			continue;
		begin(printer, "mounted here at");
		if (printer->json) {
			output_json_string(mount.at);
			continue;
		}
		at = term_text(&printer->term, mount.at, &width);
		output_text("  %s\n", at ? at : "?");
		free(at);
	}
	free(line);
	if (mounts)
		fclose(mounts);
}

/* ---- All of it ----------------------------------------------------------------------------- */

/* "CET (UTC+01:00)", of now. */
static const char *local_zone(char text[64])
{
	time_t now = time(NULL);
	struct tm tm;
	long minutes;

	tzset();
	if (!localtime_r(&now, &tm))
		return "UTC";
	minutes = labs(tm.tm_gmtoff) / 60;
	snprintf(text, 64, "%.20s (UTC%c%02ld:%02ld)", tm.tm_zone, tm.tm_gmtoff < 0 ? '-' : '+',
		 minutes / 60, minutes % 60);
	return text;
}

static void print_head(const tdl_table *table, const tdl_version_info *info,
		       const struct space *space, const char *damage, const struct printer *printer)
{
	char time[TERM_TIME_SIZE], age[TERM_TIME_SIZE], zone[64];
	char bytes[4][TERM_TIME_SIZE];
	struct grid grid;

	grid_begin(&grid, &printer->term, 2, 0);
	grid_add(&grid, DIM, "table");
	grid_add(&grid, PLAIN, "%s", tdl_table_path(table));
	grid_add(&grid, DIM, "newest");
	grid_add(&grid, BOLD, "v%" PRId64 " (%s), %s (%s ago)", info->version, info->operation,
		 term_time(info->timestamp, time), term_age(info->timestamp, age));
	if (damage) {
		grid_add(&grid, RED, "damage");
		grid_add(&grid, RED, "%s", damage);
	}
	grid_add(&grid, DIM, "holds");
	grid_add(&grid, PLAIN, "%" PRIu64 " row%s, %s in %" PRIu64 " file%s", info->num_records,
		 info->num_records == 1 ? "" : "s", term_bytes('\0', info->bytes, bytes[0]),
		 info->files, info->files == 1 ? "" : "s");
	grid_add(&grid, DIM, "takes");
	grid_add(&grid, PLAIN, "%s of data for all versions, %s of log, %s in incoming",
		 term_bytes('\0', space->data, bytes[1]), term_bytes('\0', space->log, bytes[2]),
		 term_bytes('\0', space->waiting, bytes[3]));
	grid_add(&grid, DIM, "times");
	grid_add(&grid, PLAIN, "in %s", local_zone(zone));
	grid_end(&grid);
}

static void print_head_json(const tdl_table *table, const tdl_version_info *info,
			    const struct space *space, const char *damage)
{
	char zone[64];

	output_text("{\"table\":");
	output_json_string(tdl_table_path(table));
	output_text(",\"version\":%" PRId64 ",\"operation\":", info->version);
	output_json_string(info->operation);
	output_text(",\"timestamp\":%" PRId64 ",\"numRecords\":%" PRIu64 ",\"size\":%" PRIu64
		    ",\"files\":%" PRIu64 ",\"space\":{\"data\":%" PRIu64 ",\"log\":%" PRIu64
		    ",\"incoming\":%" PRIu64 "},\"zone\":",
		    info->timestamp, info->num_records, info->bytes, info->files, space->data,
		    space->log, space->waiting);
	output_json_string(local_zone(zone));
	output_text(",\"damage\":");
	if (damage)
		output_json_string(damage);
	else
		output_text("null");
}

static int run(const struct command *command, char **argv)
{
	struct printer printer = { 0 };
	const char *color = NULL;
	const struct option options[] = { JSON_OPTION(&printer.json), TERM_OPTION(&color), { 0 } };
	tdl_table *table CLEANUP(free_table) = NULL;
	tdl_error error = { 0 }, damage = { 0 };
	tdl_version_info info;
	struct space space;
	bool damaged;
	int r, status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (find_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	damaged = tdl_table_damage(table, &damage) < 0;
	if (tdl_table_version_info(table, tdl_table_head(table), &info, &error) < 0)
		return report_error(&error);
	term_begin(&printer.term, color);
	space = measure(table);
	if (printer.json)
		print_head_json(table, &info, &space, damaged ? damage.message : NULL);
	else
		print_head(table, &info, &space, damaged ? damage.message : NULL, &printer);
	output_text("%s", printer.json ? ",\"incoming\":[" : "");
	r = tdl_table_waiting(table, NULL, print_waiting, &printer, &error);
	output_text("%s", printer.json ? "],\"mounts\":[" : "");
	printer.count = 0;
	print_mounts(&printer, tdl_table_path(table));
	output_text("%s", printer.json ? "]}\n" : "");
	status = output_finish(NULL);
	return r < 0 ? report_error(&error) : status;
}

const struct command command_status = {
	.name = "status",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Show the newest version, what waits, where it is mounted, what takes space.",
	.example = "tinydelta status orders",
	.table_here = true,
	.run = run,
};
