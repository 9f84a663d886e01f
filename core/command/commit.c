/* SPDX-License-Identifier: MIT */
/*
 * What append and overwrite share: the input, and what the log is told about the commit.
 */
#include "commit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arguments.h"
#include "find_table.h"
#include "interrupt.h"
#include "output.h"
#include "progress.h"
#include "term.h"

struct input {
	int fd;
	const char *name;   /* for messages */
	const char *source; /* for the log; NULL: unsaid */
	uint64_t size;	    /* 0: unknown */
};

static void close_input(struct input *input)
{
	if (input->fd > STDERR_FILENO)
		close(input->fd);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Looks before it opens, too: opening a device can have effects of its own. */
static bool is_fit(const char *file, const struct stat *st)
{
	if (S_ISREG(st->st_mode) || S_ISFIFO(st->st_mode))
		return true;
	if (S_ISDIR(st->st_mode))
		report("%s: is a directory", file);
	else
		report("%s: is neither a regular file nor a FIFO (\"--file -\" reads any "
		       "standard input)",
		       file);
	return false;
}

static bool open_input(const char *file, struct input *input)
{
	struct stat st;

	if (strcmp(file, "-") == 0) {
		input->fd = STDIN_FILENO;
		input->name = "stdin";
		if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode))
			input->size = (uint64_t)st.st_size;
		return true;
	}
	if (stat(file, &st) == 0) {
		if (!is_fit(file, &st))
			return false;
		input->fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	}
	if (input->fd < 0 || fstat(input->fd, &st) != 0) {
		report("%s: %s", file, strerror(errno));
		return false;
	}
	if (!is_fit(file, &st))
		return false;
	input->name = file;
	input->source = base_name(file);
	input->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	return true;
}

bool commit_options(const char *table, struct commit_words *words, tdl_commit_options *options)
{
	const struct passwd *entry = getpwuid(geteuid());

	memset(options, 0, sizeof *options);
	options->size = sizeof *options;
	options->read_version = TDL_LATEST;
	options->stop = interrupt_stop;
	options->message = words->message;
	if (entry) {
		options->user_name = entry->pw_name;
	} else {
		snprintf(words->user, sizeof words->user, "%ju", (uintmax_t)geteuid());
		options->user_name = words->user;
	}
	return !words->read_version ||
	       parse_version(table, words->read_version, &options->read_version);
}

int commit_rows(const struct command *command, char **argv, enum tdl_operation operation,
		const char *done)
{
	struct commit_words words = { 0 };
	const char *file = NULL;
	const struct option options[] = {
		{ .name = "file",
		  .value = "FILE",
		  .offers = OFFER_FILES,
		  .help = "the rows, one JSON object a line; \"-\" is standard input",
		  .required = true,
		  .text = &file },
		READ_VERSION_OPTION(&words),
		COMMIT_OPTIONS(&words),
		{ 0 },
	};
	tdl_table *table CLEANUP(free_table) = NULL;
	struct input input CLEANUP(close_input) = { .fd = -1 };
	tdl_commit_options how;
	tdl_error error = { 0 };
	int64_t version;
	char committed[64];
	int status = arguments_parse(command, options, argv, NULL);

	if (status != ARGUMENTS_GO_ON)
		return status;
	if (!commit_options(argv[0], &words, &how))
		return STATUS_FAILED;
	interrupt_begin();
	/* The table first: opening a FIFO waits for its writer. */
	if (find_table_open(argv[0], 0, &table, &error) < 0)
		return report_error(&error);
	if (!open_input(file, &input))
		return STATUS_FAILED;
	how.source = input.source;
	how.progress = progress_at;

	interrupt_hold(input.fd, tdl_table_fd(table));
	progress_begin(operation == TDL_APPEND ? "appending" : "overwriting", input.size);
	status = tdl_table_write(table, operation, input.fd, input.name, &how, &version, &error);
	progress_end();
	if (status < 0)
		return report_commit_error(command, &error);
	snprintf(committed, sizeof committed, "%s as version %" PRId64, done, version);
	return commit_done(&words, committed, table, version);
}

/* A version, and the one before it: all zeros where there is none. */
struct change {
	tdl_version_info now, before;
};

static bool find_change(tdl_table *table, int64_t version, struct change *change)
{
	memset(change, 0, sizeof *change);
	return !table || (tdl_table_version_info(table, version, &change->now, NULL) == 0 &&
			  (version == 0 ||
			   tdl_table_version_info(table, version - 1, &change->before, NULL) == 0));
}

static void print_json(int64_t version, const struct change *change)
{
	output_text("{\"version\":%" PRId64, version);
	/* Committed it is, whatever became of the log since. */
	if (!change)
		output_text("}\n");
	else
		output_text(",\"rows\":%" PRId64 ",\"bytes\":%" PRId64 ",\"numRecords\":%" PRIu64
			    ",\"size\":%" PRIu64 "}\n",
			    (int64_t)(change->now.num_records - change->before.num_records),
			    (int64_t)(change->now.bytes - change->before.bytes),
			    change->now.num_records, change->now.bytes);
}

static void print_human(const char *committed, const struct change *change)
{
	bool fewer_rows = change->now.num_records < change->before.num_records;
	bool fewer_bytes = change->now.bytes < change->before.bytes;
	uint64_t rows = fewer_rows ? change->before.num_records - change->now.num_records
				   : change->now.num_records - change->before.num_records;
	uint64_t bytes = fewer_bytes ? change->before.bytes - change->now.bytes
				     : change->now.bytes - change->before.bytes;
	char more[TERM_TIME_SIZE], all[TERM_TIME_SIZE];

	output_text("%s: %c%" PRIu64 " row%s, %s; it has %" PRIu64 ", %s\n", committed,
		    fewer_rows ? '-' : '+', rows, rows == 1 ? "" : "s",
		    term_bytes(fewer_bytes ? '-' : '+', bytes, more), change->now.num_records,
		    term_bytes('\0', change->now.bytes, all));
}

int commit_done(const struct commit_words *words, const char *committed, tdl_table *table,
		int64_t version)
{
	struct change change;
	bool known = find_change(table, version, &change);
	int status;

	if (words->json)
		print_json(version, known ? &change : NULL);
	else if (known && table && isatty(STDOUT_FILENO))
		print_human(committed, &change);
	else
		output_text("%s\n", committed);
	status = output_finish(committed);
	if (status == STATUS_DONE && interrupt_came())
		return report("stopped by %s; already %s: do not retry", interrupt_name(),
			      committed);
	return status;
}
