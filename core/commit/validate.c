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

struct tdl__judge {
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

static int cannot_write(const tdl__judge *judge, int why, tdl_error *error)
{
	return tdl__fail_errno(error, why, "cannot write to %s/" TDL__INCOMING_DIR,
			       judge->staging->table->path);
}

/* Starts a file of its own, with the rows that the source has right already. */
static int start(tdl__judge *judge, tdl_error *error)
{
	const char *hex = judge->source != NULL ? judge->source->hex : NULL;
	int r = tdl__staged_create_nameless(judge->staging, hex, &judge->file, error);
	int why;

	if (r < 0 || judge->size == 0)
		return r;
	why = tdl__sys_copy(judge->source->fd, judge->file->fd, judge->size);
	return why == 0 ? 0 : cannot_write(judge, why, error);
}

static bool end_block(tdl__judge *judge, uint64_t n)
{
	size_t count = judge->count;

	judge->whole = tdl__crc32c_combine(judge->whole, judge->crc, n);
	/* Of so many blocks the log does not tell. */
	if (count < TDL__BLOCKS_MAX) {
		if (!tdl__reserve(&judge->blocks, &judge->blocks_cap, count + 1,
				  sizeof *judge->blocks) ||
		    !tdl__reserve(&judge->newlines, &judge->newlines_cap, count + 1,
				  sizeof *judge->newlines))
			return false;
		judge->blocks[count] = judge->crc;
		judge->newlines[count] = judge->lines;
	}
	judge->count++;
	judge->crc = judge->lines = 0;
	return true;
}

/* Every byte is summed once, for its block. */
static bool sum(tdl__judge *judge, const char *bytes, size_t n)
{
	while (n > 0) {
		uint64_t room = TDL__BLOCK - judge->size % TDL__BLOCK;
		size_t part = n < room ? n : (size_t)room;

		judge->crc = tdl__crc32c(judge->crc, bytes, part);
		judge->lines += (uint32_t)tdl__count_newlines(bytes, part);
		judge->size += part;
		if (judge->size % TDL__BLOCK == 0 && !end_block(judge, TDL__BLOCK))
			return false;
		bytes += part;
		n -= part;
	}
	return true;
}

static int take_rows(void *context, const char *bytes, size_t n, bool verbatim, tdl_error *error)
{
	tdl__judge *judge = context;
	int r = 0, why;

	if (judge->file == NULL && (judge->source == NULL || !verbatim))
		r = start(judge, error);
	if (r < 0)
		return r;
	if (judge->file != NULL && (why = tdl__sys_write(judge->file->fd, bytes, n)) != 0)
		return cannot_write(judge, why, error);
	return sum(judge, bytes, n) ? 0 : tdl__fail_nomem(error);
}

tdl__judge *tdl__judge_new(tdl_staging *staging, tdl_staged *source, const char *name,
			   const tdl_schema *schema)
{
	tdl__judge *judge = calloc(1, sizeof *judge);

	if (judge == NULL)
		return NULL;
	judge->staging = staging;
	judge->source = source;
	judge->schema = schema;
	judge->name = strdup(name);
	if (judge->name != NULL)
		judge->rows = tdl__rows_new(schema, judge->name, take_rows, judge);
	if (judge->rows == NULL) {
		tdl__judge_free(judge);
		return NULL;
	}
	return judge;
}

/* A row that is longer than those of before may have as much memory as two of them. */
static void wait_for_memory(tdl__judge *judge)
{
	tdl_staging *staging = judge->staging;

	if (judge->is_long || tdl__judge_memory(judge) <= TDL__LONG_ROW)
		return;
	pthread_mutex_lock(&staging->memory_lock);
	while (staging->long_rows == TDL__LONG_ROWS)
		pthread_cond_wait(&staging->memory_left, &staging->memory_lock);
	staging->long_rows++;
	pthread_mutex_unlock(&staging->memory_lock);
	judge->is_long = true;
}

static void free_rows(tdl__judge *judge)
{
	tdl__rows_free(judge->rows);
	judge->rows = NULL;
	if (!judge->is_long)
		return;
	pthread_mutex_lock(&judge->staging->memory_lock);
	judge->staging->long_rows--;
	pthread_cond_signal(&judge->staging->memory_left);
	pthread_mutex_unlock(&judge->staging->memory_lock);
	judge->is_long = false;
}

void tdl__judge_free(tdl__judge *judge)
{
	if (judge == NULL)
		return;
	if (judge->file != NULL)
		tdl_staged_remove(judge->file, NULL);
	tdl_staged_free(judge->file);
	free_rows(judge);
	free(judge->blocks);
	free(judge->newlines);
	free(judge->name);
	free(judge);
}

void tdl__judge_keep(tdl__judge *judge)
{
	if (judge->file != NULL)
		tdl__staged_forget(judge->file);
}

int tdl__judge_take(tdl__judge *judge, const char *bytes, size_t n, tdl_error *error)
{
	int r = tdl__rows_feed(judge->rows, bytes, n, error);

	judge->taken += n;
	return r;
}

uint64_t tdl__judge_taken(const tdl__judge *judge)
{
	return judge->taken;
}

size_t tdl__judge_memory(const tdl__judge *judge)
{
	return tdl__rows_memory(judge->rows);
}

void tdl__judge_stop_at(tdl__judge *judge, const atomic_bool *stop)
{
	judge->stop = stop;
}

tdl_staged *tdl__judge_file(const tdl__judge *judge)
{
	return judge->file != NULL ? judge->file : judge->source;
}

const tdl_schema *tdl__judge_schema(const tdl__judge *judge)
{
	return judge->schema;
}

int tdl__judge_read(tdl__judge *judge, int fd, const tdl_commit_options *options, tdl_error *error)
{
	_cleanup_free_ char *buffer = NULL;
	/* Most drops are small, and fit memory that the kernel need not make first. */
	size_t room = FIRST_PIECE, got;

	do {
		int r, why;

		if (judge->taken >= FIRST_PIECE && room < PIECE) {
			free(buffer);
			buffer = NULL;
			room = PIECE;
		}
		if (buffer == NULL)
			buffer = malloc(room);
		if (buffer == NULL)
			return tdl__fail_nomem(error);
		why = judge->source != NULL ? tdl__sys_pread(fd, buffer, room, judge->taken, &got)
					    : tdl__sys_read(fd, buffer, room, &got);
		if (why != 0)
			return tdl__fail_errno(error, why, "cannot read %s", judge->name);
		r = tdl__judge_take(judge, buffer, got, error);
		if (r < 0)
			return r;
		wait_for_memory(judge);
		if (judge->stop != NULL && atomic_load(judge->stop))
			return tdl__fail(error, TDL_ERR_CONFLICT, "%s is written to", judge->name);
		if (options != NULL && options->progress != NULL)
			options->progress(options->context, judge->taken);
	} while (got == room); /* less is the end */
	return 0;
}

int tdl__judge_finish(tdl__judge *judge, tdl__part *part, tdl_staged **file, tdl_error *error)
{
	int r = tdl__rows_finish(judge->rows, error);

	/* The rows are there as they should be, and more is: blank lines. */
	if (r == 0 && judge->file == NULL && !tdl__rows_verbatim(judge->rows))
		r = start(judge, error);
	if (r == 0 && judge->size % TDL__BLOCK != 0 && !end_block(judge, judge->size % TDL__BLOCK))
		r = tdl__fail_nomem(error);
	if (r < 0)
		return r;
	*file = tdl__judge_file(judge);
	*part = (tdl__part){
		.dir = judge->staging->dir,
		.name = (*file)->file_name,
		.folder = judge->staging->name,
		.size = judge->size,
		.num_records = tdl__rows_count(judge->rows),
		.sums = { .has_crc = true, .crc = judge->whole },
		.schema = judge->schema,
	};
	/* A file of one block needs no more than its own sum. */
	if (judge->count > 1 && judge->count <= TDL__BLOCKS_MAX) {
		part->sums.blocks = judge->blocks;
		part->sums.rows = judge->newlines;
	}
	memcpy(part->hex, (*file)->hex, sizeof part->hex);
	free_rows(judge);
	return 0;
}
