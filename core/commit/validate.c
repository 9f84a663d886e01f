/* SPDX-License-Identifier: MIT */
/*
 * From an input's bytes to the bytes of a data file. Where they come from and when, and what
 * becomes of the file, are its caller's.
 */
#include "commit/validate.h"

#include <errno.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "util/crc32c.h"
#include "util/simd.h"

#define PIECE	    ((size_t)1 << 20)
#define FIRST_PIECE ((size_t)16 << 10)
/* What is summed and counted at once: the second finds it in the processor's first cache. Twice
 * what the sum takes in three streams. */
#define SUMMED ((size_t)24 << 10)

struct tdl__validator {
	tdl_staging *staging;
	tdl_staged *source;
	tdl_staged *file; /* what is written, once something has to be */
	char *name;
	const tdl_schema *schema;
	tdl__rows *rows;
	const atomic_bool *stop; /* or NULL */
	bool is_long;		 /* one of the staging folder's that have a long row */
	uint64_t taken;		 /* bytes of input */
	uint64_t size;		 /* bytes of stored rows */

	/* Sums of the blocks of them: of those that are full, and of the last one. */
	uint32_t *blocks, *newlines;
	size_t count, blocks_cap, newlines_cap;
	uint32_t crc, lines;
	uint32_t whole; /* of all full blocks */
};

static int cannot_write_staged(const tdl__validator *validator, int err, tdl_error *error)
{
	return tdl__fail_errno(error, err, "cannot write to %s/" TDL__INCOMING_DIR,
			       validator->staging->table->path);
}

/* Starts a file of its own, with the rows that the source has right already. */
static int start_file(tdl__validator *validator, tdl_error *error)
{
	const char *hex = validator->source ? validator->source->hex : NULL;
	int r = tdl__staged_create_nameless(validator->staging, hex, &validator->file, error);
	int err;

	if (r < 0 || validator->size == 0)
		return r;
	err = tdl__sys_copy(validator->source->fd, validator->file->fd, validator->size);
	return err == 0 ? 0 : cannot_write_staged(validator, err, error);
}

static bool end_sum_block(tdl__validator *validator, uint64_t n)
{
	size_t count = validator->count;

	validator->whole = tdl__crc32c_combine(validator->whole, validator->crc, n);
	/* Of so many blocks the log does not tell. */
	if (count < TDL__BLOCKS_MAX) {
		if (!tdl__reserve(&validator->blocks, &validator->blocks_cap, count + 1,
				  sizeof *validator->blocks) ||
		    !tdl__reserve(&validator->newlines, &validator->newlines_cap, count + 1,
				  sizeof *validator->newlines))
			return false;
		validator->blocks[count] = validator->crc;
		validator->newlines[count] = validator->lines;
	}
	validator->count++;
	validator->crc = validator->lines = 0;
	return true;
}

/* Every byte is summed once, for its block. */
static bool sum_blocks(tdl__validator *validator, const char *bytes, size_t n)
{
	while (n > 0) {
		uint64_t room = TDL__BLOCK - validator->size % TDL__BLOCK;
		size_t part = n < room ? n : (size_t)room;

		part = part < SUMMED ? part : SUMMED;
		validator->crc = tdl__crc32c(validator->crc, bytes, part);
		validator->lines += (uint32_t)tdl__count_newlines(bytes, part);
		validator->size += part;
		if (validator->size % TDL__BLOCK == 0 && !end_sum_block(validator, TDL__BLOCK))
			return false;
		bytes += part;
		n -= part;
	}
	return true;
}

static int write_rows(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	tdl__validator *validator = context;
	int r = 0, err;

	if (!validator->file && (!validator->source || !verbatim))
		r = start_file(validator, error);
	if (r < 0)
		return r;
	if (validator->file && (err = tdl__sys_write(validator->file->fd, bytes, n)) != 0)
		return cannot_write_staged(validator, err, error);
	return sum_blocks(validator, bytes, n) ? 0 : tdl__fail_nomem(error);
}

tdl__validator *tdl__validator_new(tdl_staging *staging, tdl_staged *source, const char *name,
				   const tdl_schema *schema)
{
	tdl__validator *validator = calloc(1, sizeof *validator);

	if (!validator)
		return NULL;
	validator->staging = staging;
	validator->source = source;
	validator->schema = schema;
	validator->name = strdup(name);
	if (validator->name)
		validator->rows = tdl__rows_new(schema, validator->name, write_rows, validator);
	if (!validator->rows) {
		tdl__validator_free(validator);
		return NULL;
	}
	return validator;
}

/* A row that is longer than those of before may have as much memory as two of them. */
static void wait_for_memory(tdl__validator *validator)
{
	tdl_staging *staging = validator->staging;

	if (validator->is_long || tdl__validator_memory(validator) <= TDL__LONG_ROW)
		return;
	pthread_mutex_lock(&staging->memory_lock);
	while (staging->long_rows == TDL__LONG_ROWS)
		pthread_cond_wait(&staging->memory_left, &staging->memory_lock);
	staging->long_rows++;
	pthread_mutex_unlock(&staging->memory_lock);
	validator->is_long = true;
}

static void free_rows(tdl__validator *validator)
{
	tdl__rows_free(validator->rows);
	validator->rows = NULL;
	if (!validator->is_long)
		return;
	pthread_mutex_lock(&validator->staging->memory_lock);
	validator->staging->long_rows--;
	pthread_cond_signal(&validator->staging->memory_left);
	pthread_mutex_unlock(&validator->staging->memory_lock);
	validator->is_long = false;
}

void tdl__validator_free(tdl__validator *validator)
{
	if (!validator)
		return;
	if (validator->file)
		tdl_staged_remove(validator->file, NULL);
	tdl_staged_free(validator->file);
	free_rows(validator);
	free(validator->blocks);
	free(validator->newlines);
	free(validator->name);
	free(validator);
}

void tdl__validator_keep(tdl__validator *validator)
{
	if (validator->file)
		tdl__staged_forget(validator->file);
}

int tdl__validator_feed(tdl__validator *validator, const char *bytes, size_t n, tdl_error *error)
{
	int r = tdl__rows_feed(validator->rows, bytes, n, error);

	validator->taken += n;
	return r;
}

uint64_t tdl__validator_fed(const tdl__validator *validator)
{
	return validator->taken;
}

size_t tdl__validator_memory(const tdl__validator *validator)
{
	return tdl__rows_memory(validator->rows);
}

void tdl__validator_stop_at(tdl__validator *validator, const atomic_bool *stop)
{
	validator->stop = stop;
}

tdl_staged *tdl__validator_file(const tdl__validator *validator)
{
	return validator->file ? validator->file : validator->source;
}

const tdl_schema *tdl__validator_schema(const tdl__validator *validator)
{
	return validator->schema;
}

int tdl__validator_read(tdl__validator *validator, int fd, const tdl_commit_options *options,
			tdl_error *error)
{
	char *buffer CLEANUP(tdl__free_at) = NULL;
	/* Most drops are small, and fit memory that the kernel need not make first. */
	size_t room = FIRST_PIECE, got;

	do {
		int r, err;

		if (validator->taken >= FIRST_PIECE && room < PIECE) {
			free(buffer);
			buffer = NULL;
			room = PIECE;
		}
		if (!buffer)
			buffer = malloc(room);
		if (!buffer)
			return tdl__fail_nomem(error);
		err = validator->source ? tdl__sys_pread(fd, buffer, room, validator->taken, &got)
					: tdl__sys_read(fd, buffer, room, &got);
		if (err != 0)
			return tdl__fail_errno(error, err, "cannot read %s", validator->name);
		r = tdl__validator_feed(validator, buffer, got, error);
		if (r < 0)
			return r;
		wait_for_memory(validator);
		if (validator->stop && atomic_load(validator->stop))
			return tdl__fail(error, TDL_ERR_CONFLICT, "%s is written to",
					 validator->name);
		if (options && options->progress)
			options->progress(options->context, validator->taken);
	} while (got == room); /* less is the end */
	return 0;
}

int tdl__validator_finish(tdl__validator *validator, tdl__part *part, tdl_staged **file,
			  tdl_error *error)
{
	int r = tdl__rows_finish(validator->rows, error);
	const char *name;

	/* The rows are there as they should be, and more is: blank lines. */
	if (r == 0 && !validator->file && !tdl__rows_verbatim(validator->rows))
		r = start_file(validator, error);
	if (r == 0 && validator->size % TDL__BLOCK != 0 &&
	    !end_sum_block(validator, validator->size % TDL__BLOCK))
		r = tdl__fail_nomem(error);
	if (r < 0)
		return r;
	*file = tdl__validator_file(validator);
	/* What is prepared may be renamed meanwhile: its name is asked for anew at the commit. */
	pthread_mutex_lock(&(*file)->lock);
	name = (*file)->file_name;
	pthread_mutex_unlock(&(*file)->lock);
	*part = (tdl__part){
		.dir = validator->staging->dir,
		.name = name,
		.folder = validator->staging->name,
		.size = validator->size,
		.num_records = tdl__rows_count(validator->rows),
		.sums = { .has_crc = true, .crc = validator->whole },
		.schema = validator->schema,
	};
	/* A file of one block needs no more than its own sum. */
	if (validator->count > 1 && validator->count <= TDL__BLOCKS_MAX) {
		part->sums.blocks = validator->blocks;
		part->sums.rows = validator->newlines;
	}
	memcpy(part->hex, (*file)->hex, sizeof part->hex);
	free_rows(validator);
	return 0;
}
