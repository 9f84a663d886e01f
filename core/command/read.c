/* SPDX-License-Identifier: MIT */
/*
 * tinydelta read: the rows of a version, file by file as they are stored, without a look at them.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"
#include "command.h"
#include "output.h"
#include "progress.h"

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* Opens every file once, so that damage is reported before the first row is written and not after
 * half of them. Returns false with the failure reported. */
static bool check_files(tdl_snapshot *snapshot)
{
	uint64_t files = tdl_snapshot_info(snapshot)->files;
	tdl_error error = { 0 };

	for (uint64_t i = 0; i < files; i++) {
		int fd AUTO(close_fd) = -1;

		if (tdl_snapshot_open_file(snapshot, i, &fd, &error) < 0) {
			report_error(&error);
			return false;
		}
	}
	return true;
}

/* Writes data file `index`. Returns false with the failure reported. */
static bool write_file(tdl_snapshot *snapshot, const char *table, uint64_t index,
		       void (*done)(uint64_t bytes))
{
	tdl_file file;
	tdl_error error = { 0 };
	int fd AUTO(close_fd) = -1;

	if (tdl_snapshot_file(snapshot, index, &file, &error) < 0 ||
	    tdl_snapshot_open_file(snapshot, index, &fd, &error) < 0) {
		output_finish(NULL);
		report_error(&error);
		return false;
	}
	if (output_file(fd, file.size, done) < 0) {
		int reason = errno;

		output_finish(NULL);
		report("%s: version %lld: %s: %s", table,
		       (long long)tdl_snapshot_info(snapshot)->version, file.path,
		       reason != 0 ? strerror(reason) : "became shorter while it was read");
		return false;
	}
	if (file.lacks_newline)
		output_bytes("\n", 1);
	return true;
}

static int run(const struct command *command, char **argv)
{
	const char *text = NULL;
	const struct option options[] = {
		{ .name = "version",
		  .value = "VERSION",
		  .help = "the version to read (default: the newest)",
		  .text = &text },
		{ 0 },
	};
	tdl_table *table AUTO(free_table) = NULL;
	tdl_snapshot *snapshot AUTO(unref_snapshot) = NULL;
	tdl_error error = { 0 };
	int64_t version = TDL_LATEST;
	uint64_t size, files;
	struct stat st;
	bool to_file;
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (tdl_table_open(argv[0], TDL_OPEN_READ_ONLY, &table, &error) < 0)
		return report_error(&error);
	if (text != NULL && (status = find_version(table, text, &version)) != STATUS_DONE)
		return status;
	if (tdl_snapshot_open(table, version, &snapshot, &error) < 0 ||
	    tdl_snapshot_size(snapshot, &size, &error) < 0)
		return report_error(&error);
	if (!check_files(snapshot))
		return STATUS_FAILED;

	/* Rows that go to a pipe may well be shown on the same terminal. */
	to_file = fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode);
	progress_begin(size);
	files = tdl_snapshot_info(snapshot)->files;
	for (uint64_t i = 0; i < files && !output_failed(); i++)
		if (!write_file(snapshot, argv[0], i, to_file ? progress_add : NULL))
			return STATUS_FAILED;
	progress_end();
	return output_finish(NULL);
}

const struct command command_read = {
	.name = "read",
	.operands = "TABLE",
	.min_operands = 1,
	.max_operands = 1,
	.summary = "Write the rows of a version to standard output.",
	.run = run,
};
