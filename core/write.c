/* SPDX-License-Identifier: MIT */
/*
 * From rows to a commit: append and overwrite of what a descriptor gives, commits of staged
 * files, restore. Rows judge, publishing commits; what is between them is here.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "crc32c.h"
#include "error.h"
#include "publish.h"
#include "rows.h"
#include "staging.h"
#include "sys.h"

#define PIECE ((size_t)1 << 20)

/* Where stored rows go. While they are just what a staged file holds already, nowhere. */
struct output {
	tdl_staging *staging;
	int source;	  /* the staged file whose bytes may do as they are, or -1 */
	const char *hex;  /* of the data file, or NULL for any */
	tdl_staged *file; /* what is written, once something has to be */
	uint64_t size;	  /* bytes of rows so far */
	uint32_t crc;
};

static int cannot_write(const struct output *out, int why, tdl_error *error)
{
	return tdl__fail_errno(error, why, "cannot write to %s/" TDL__INCOMING_DIR,
			       out->staging->table->path);
}

/* Starts the output file, with the rows that the source has right already. */
static int start(struct output *out, tdl_error *error)
{
	int r = tdl__staged_create_nameless(out->staging, out->hex, &out->file, error);
	int why;

	if (r < 0 || out->size == 0)
		return r;
	why = tdl__sys_copy(out->source, out->file->fd, out->size);
	return why == 0 ? 0 : cannot_write(out, why, error);
}

static int take_rows(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	struct output *out = context;
	int r = 0, why;

	if (out->file == NULL && (out->source < 0 || !verbatim))
		r = start(out, error);
	if (r < 0)
		return r;
	if (out->file != NULL && (why = tdl__sys_write(out->file->fd, bytes, n)) != 0)
		return cannot_write(out, why, error);
	out->crc = tdl__crc32c(out->crc, bytes, n);
	out->size += n;
	return 0;
}

/* Feeds a scanner from a descriptor: from its position, or from `at` in a staged file. */
static int feed(tdl__rows *rows, int fd, bool staged, const char *name,
		const tdl_commit_options *options, tdl_error *error)
{
	_cleanup_free_ char *buffer = malloc(PIECE);
	uint64_t done = 0;

	if (buffer == NULL)
		return tdl__fail_nomem(error);
	for (;;) {
		size_t got;
		int r, why = staged ? tdl__sys_pread(fd, buffer, PIECE, done, &got)
				    : tdl__sys_read(fd, buffer, PIECE, &got);

		if (why != 0)
			return tdl__fail_errno(error, why, "cannot read %s", name);
		if (got == 0)
			return tdl__rows_finish(rows, error);
		r = tdl__rows_feed(rows, buffer, got, error);
		if (r < 0)
			return r;
		done += got;
		if (options != NULL && options->progress != NULL)
			options->progress(options->context, done);
	}
}

static void free_rows(tdl__rows **rows)
{
	tdl__rows_free(*rows);
}

/* Judges all rows of an input; fills `part` but for its name. */
static int judge(struct output *out, int fd, bool staged, const char *name,
		 const tdl_schema *schema, const tdl_commit_options *options, tdl__part *part,
		 tdl_error *error)
{
	__attribute__((cleanup(free_rows))) tdl__rows *rows =
		tdl__rows_new(schema, name, take_rows, out);
	int r;

	if (rows == NULL)
		return tdl__fail_nomem(error);
	r = feed(rows, fd, staged, name, options, error);
	if (r == 0 && out->file == NULL && !tdl__rows_verbatim(rows))
		r = start(out, error); /* the rows are there as they should be, and more is */
	if (r < 0)
		return r;
	part->size = out->size;
	part->num_records = tdl__rows_count(rows);
	part->crc = out->crc;
	part->schema = schema;
	return 0;
}

/* What a data file must be before it is one: whole, durable, readable by the table's readers. */
static int finish_file(tdl_table *table, tdl_staged *file, uint64_t size, tdl_error *error)
{
	struct stat dir, st;
	int why = tdl__sys_fstat(table->dir, &dir), r;

	if (why == 0)
		why = tdl__sys_fstat(file->fd, &st);
	if (why != 0)
		return tdl__fail_errno(error, why, "cannot look at %s", table->path);
	if ((uint64_t)st.st_size != size)
		return tdl__fail(error, TDL_ERR_CONFLICT,
				 "the staged file changed while it was committed");
	r = tdl__table_adopt(table, file->fd, tdl__table_file_mode(&dir), error);
	if (r < 0)
		return r;
	tdl__table_spare(file->fd);
	why = tdl__sys_fsync(file->fd);
	if (why != 0)
		return tdl__fail_errno(error, why, "cannot make a data file of %s durable",
				       table->path);
	return 0;
}

/* The head's version and schema, for rows to be checked against. */
static int look_at_head(tdl_table *table, tdl_version_info *info, tdl_error *error)
{
	tdl__version version;
	int r;

	if ((table->flags & TDL_OPEN_READ_ONLY) != 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	r = tdl__history_refresh(&table->history, error);
	return r < 0 ? r : tdl__history_get(&table->history, TDL_LATEST, &version, info, error);
}

static const tdl_commit_options any_version = { .read_version = TDL_LATEST };

static int write_part(tdl_table *table, enum tdl_operation operation, struct output *out, int fd,
		      const char *name, const tdl_commit_options *options, int64_t *version,
		      tdl_error *error)
{
	tdl_commit_options exact = options != NULL ? *options : any_version;
	tdl__part part = { 0 };
	tdl_version_info head;
	int r = look_at_head(table, &head, error);

	if (r < 0)
		return r;
	/* An overwrite takes the place of what it saw, not of rows that come while it reads. */
	if (operation == TDL_OVERWRITE && exact.read_version == TDL_LATEST)
		exact.read_version = head.version;
	r = judge(out, fd, false, name, head.schema, options, &part, error);
	if (r == 0)
		r = finish_file(table, out->file, part.size, error);
	if (r < 0)
		return r;
	part.dir = out->staging->dir;
	part.name = out->file->file_name;
	memcpy(part.hex, out->file->hex, sizeof part.hex);
	return tdl__publish(table, operation == TDL_APPEND ? TDL__APPEND : TDL__OVERWRITE, &part,
			    -1, &exact, version, error);
}

int tdl_table_write(tdl_table *table, enum tdl_operation operation, int fd, const char *name,
		    const tdl_commit_options *options, int64_t *version, tdl_error *error)
{
	struct output out = { .source = -1 };
	int r = tdl_staging_open(table, &out.staging, error);

	if (r < 0)
		return r;
	r = write_part(table, operation, &out, fd, name, options, version, error);
	if (out.file != NULL)
		tdl_staged_remove(out.file, NULL);
	tdl_staged_free(out.file);
	tdl_staging_free(out.staging);
	return r;
}

/* Gives a staged file back its mode after a commit of it failed. */
static void make_private(tdl_staged *file)
{
	struct stat st;

	if (tdl__sys_fstat(file->fd, &st) == 0 && (st.st_mode & 077) != 0)
		tdl__sys_chmod(file->fd, 0600);
}

int tdl_staged_commit(tdl_staged *file, const tdl_commit_options *options, int64_t *version,
		      tdl_error *error)
{
	tdl_staging *staging = file->staging;
	tdl_table *table = staging->table;
	struct output out = { .staging = staging, .source = file->fd, .hex = file->hex };
	const char *dropped = "";
	tdl__part part = { 0 };
	tdl_version_info head;
	tdl_staged *data;
	int r;

	if (file->file_name == NULL)
		return tdl__fail(error, TDL_ERR_MISUSE, "the staged file is gone");
	tdl__staged_parse(file->file_name, &dropped);
	r = look_at_head(table, &head, error);
	if (r == 0)
		r = judge(&out, file->fd, true, dropped, head.schema, options, &part, error);
	data = out.file != NULL ? out.file : file;
	if (r == 0)
		r = finish_file(table, data, part.size, error);
	if (r == 0) {
		part.dir = staging->dir;
		part.name = data->file_name;
		memcpy(part.hex, file->hex, sizeof part.hex);
		r = tdl__publish(table, TDL__APPEND, &part, -1, options, version, error);
	}
	if (out.file != NULL)
		tdl_staged_remove(out.file, NULL);
	tdl_staged_free(out.file);
	if (r == 0 || r == TDL_ERR_PUBLISHED)
		tdl_staged_remove(file, NULL);
	else
		make_private(file);
	return r;
}

/* Every data file that a restore would bring back must be there, whole. */
static int check_target(tdl_table *table, int64_t target, tdl_error *error)
{
	tdl_snapshot *snapshot;
	uint64_t files;
	int r = tdl_snapshot_open(table, target, &snapshot, error);

	if (r < 0)
		return r;
	files = tdl_snapshot_info(snapshot)->files;
	for (uint64_t i = 0; i < files && r == 0; i++) {
		int fd;

		r = tdl_snapshot_open_file(snapshot, i, &fd, error);
		if (r == 0)
			close(fd);
	}
	tdl_snapshot_unref(snapshot);
	return r;
}

int tdl_table_restore(tdl_table *table, int64_t target, const tdl_commit_options *options,
		      int64_t *version, tdl_error *error)
{
	tdl_commit_options exact = options != NULL ? *options : any_version;
	tdl_version_info head;
	int r = look_at_head(table, &head, error);

	if (r < 0)
		return r;
	if (target < 0 || target > head.version)
		return tdl__fail_at(error, TDL_ERR_NOT_FOUND, target, 0, 0,
				    "no such version: %" PRId64 " (%s has 0 to %" PRId64 ")",
				    target, table->path, head.version);
	r = check_target(table, target, error);
	if (r < 0)
		return r;
	if (exact.read_version == TDL_LATEST)
		exact.read_version = head.version;
	return tdl__publish(table, TDL__RESTORE, NULL, target, &exact, version, error);
}
