/* SPDX-License-Identifier: MIT */
/*
 * Append and overwrite of what a descriptor gives, commits of staged files, restore. The validator
 * makes data files, publishing commits; what is between them is here.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "commit/validate.h"
#include "error.h"
#include "row/schema.h"
#include "sys.h"

/* What a data file must be before it is one: whole, readable by the table's readers, */
static int make_public(tdl_table *table, tdl_staged *file, uint64_t size, tdl_error *error)
{
	struct stat dir, st;
	int err = tdl__sys_fstat(table->dir, &dir), r;

	if (err == 0)
		err = tdl__sys_fstat(file->fd, &st);
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot look at %s", table->path);
	if ((uint64_t)st.st_size != size)
		return tdl__fail(error, TDL_ERR_CONFLICT,
				 "the staged file changed while it was committed");
	r = tdl__table_set_owner(table, file->fd, tdl__table_file_mode(&dir), error);
	if (r == 0)
		tdl__table_set_future_mtime(file->fd);
	return r;
}

/* and durable. */
static int make_durable(tdl_table *table, tdl_staged *file, tdl_error *error)
{
	int err = tdl__sys_fsync(file->fd);

	if (err == 0)
		return 0;
	pthread_mutex_lock(&file->lock);
	file->unsynced = err;
	pthread_mutex_unlock(&file->lock);
	return tdl__fail_errno(error, err, "cannot make a data file of %s durable", table->path);
}

static int finish_file(tdl_table *table, tdl_staged *file, uint64_t size, tdl_error *error)
{
	int r = make_public(table, file, size, error);

	return r < 0 ? r : make_durable(table, file, error);
}

/* A failed fsync is not tried again: the next one would say yes, and of bytes that the kernel has
 * given up. */
static int check_synced(tdl_staged *file, tdl_error *error)
{
	int err;

	pthread_mutex_lock(&file->lock);
	err = file->unsynced;
	pthread_mutex_unlock(&file->lock);
	return err == 0 ? 0
			: tdl__fail_errno(error, err,
					  "what was written could not be made durable, and has to "
					  "be written anew");
}

/* The head's version and schema, for rows to be checked against. */
static int refresh_head(tdl_table *table, tdl_version_info *info, tdl_error *error)
{
	tdl__version version;
	int r;

	if ((table->flags & TDL_OPEN_READ_ONLY) != 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	r = tdl__history_refresh(&table->history, error);
	return r < 0 ? r : tdl__history_get(&table->history, TDL_LATEST, &version, info, error);
}

static void cleanup_validator(tdl__validator **validator)
{
	tdl__validator_free(*validator);
}

/* Publishes what is staged in `data`, where that is still there. */
static int publish_staged(const struct tdl__commit_request *request, tdl_staged *data,
			  int64_t *version, tdl_error *error)
{
	tdl_error why = { 0 };
	bool again;
	int r = tdl__publish(request, version, &why);

	if (r == TDL_ERR_IO && why.os_error == ENOENT &&
	    tdl__staged_secure(data, &again, NULL) == 0 && again) {
		r = finish_file(request->table, data, request->part->size, &why);
		if (r == 0)
			r = tdl__publish(request, version, &why);
	}
	if (r < 0 && error)
		*error = why;
	return r;
}

/* Commits the rows that `fd` gives, as a part of which the request does not know yet. */
static int write_part(struct tdl__commit_request *request, tdl_staging *staging, int fd,
		      const char *name, int64_t *version, tdl_error *error)
{
	tdl__validator *validator CLEANUP(cleanup_validator) = NULL;
	tdl_commit_options exact = *request->options;
	tdl_version_info head;
	tdl_staged *file;
	tdl__part part;
	int r = refresh_head(request->table, &head, error);

	if (r < 0)
		return r;
	/* An overwrite takes the place of what it saw, not of rows that come while it reads. */
	if (request->change == TDL__OVERWRITE && exact.read_version == TDL_LATEST)
		exact.read_version = head.version;
	validator = tdl__validator_new(staging, NULL, name, head.schema);
	if (!validator)
		return tdl__fail_nomem(error);
	r = tdl__validator_read(validator, fd, request->options, error);
	if (r == 0)
		r = tdl__validator_finish(validator, &part, &file, error);
	if (r == 0)
		r = finish_file(request->table, file, part.size, error);
	if (r < 0)
		return r;
	request->options = &exact;
	request->part = &part;
	r = publish_staged(request, file, version, error);
	if (part.lost)
		tdl__validator_keep(validator);
	return r;
}

int tdl_table_write(tdl_table *table, enum tdl_operation operation, int fd, const char *name,
		    const tdl_commit_options *options, int64_t *version, tdl_error *error)
{
	tdl_commit_options own;
	struct tdl__commit_request request = {
		.table = table,
		.change = operation == TDL_APPEND ? TDL__APPEND : TDL__OVERWRITE,
		.options = &own,
	};
	tdl_staging *staging;
	int r = tdl__commit_options_take(options, &own, error);

	if (r == 0)
		r = tdl_staging_open(table, &staging, error);
	if (r < 0)
		return r;
	r = write_part(&request, staging, fd, name, version, error);
	tdl_staging_free(staging);
	return r;
}

/* ---- Staged files -------------------------------------------------------------------------- */

static const char *staged_name_of(const tdl_staged *file)
{
	const char *name = "";

	if (file->file_name)
		tdl__staged_parse(file->file_name, &name);
	return name;
}

/* What it has now, of all that there is for what is not committed yet. */
static size_t count_memory(tdl_staged *file, size_t memory)
{
	size_t before = file->validator_memory;

	file->validator_memory = memory;
	return atomic_fetch_add(&file->staging->validator_memory, memory - before) + memory -
	       before;
}

static tdl__validator *take_validator(tdl_staged *file)
{
	count_memory(file, 0);
	file->scattered = true;
	file->prepared = false;
	return tdl__steal(file->validator);
}

static void discard_validator(tdl_staged *file)
{
	tdl__validator_free(take_validator(file));
}

/* A user who may write must not have the memory of everybody. */
static bool is_too_much(tdl_staged *file)
{
	size_t memory = tdl__validator_memory(file->validator);

	return count_memory(file, memory) > TDL__VALIDATOR_MEMORY || memory > TDL__LONG_ROW;
}

/* With the lock held. */
static void validate_written(tdl_staged *file, const void *bytes, size_t n, uint64_t offset)
{
	tdl_version_info head;

	/* What is small is validated at once when it is committed. */
	if (!file->validator && offset == 0 && n >= TDL__VALIDATE_MIN && file->file_name &&
	    atomic_load(&file->staging->validator_memory) < TDL__VALIDATOR_MEMORY &&
	    tdl_table_version_info(file->staging->table, TDL_LATEST, &head, NULL) == 0) {
		file->validator =
			tdl__validator_new(file->staging, file, staged_name_of(file), head.schema);
		file->free_validator = tdl__validator_free;
	}
	/* Bytes that come in any other order might yet be written over by some that came before.
	 * And a refusal has to name the file as it is called then: the commit finds it again. */
	if (!file->validator || offset != tdl__validator_fed(file->validator) ||
	    tdl__validator_feed(file->validator, bytes, n, NULL) < 0 || is_too_much(file))
		discard_validator(file);
}

uint64_t tdl_staged_begin(tdl_staged *file)
{
	uint64_t generation;

	pthread_mutex_lock(&file->lock);
	atomic_store(&file->stop, true);
	if (file->prepared)
		discard_validator(file);
	generation = file->generation;
	pthread_mutex_unlock(&file->lock);
	return generation;
}

void tdl_staged_written(tdl_staged *file, uint64_t generation, const void *bytes, size_t n,
			uint64_t offset)
{
	pthread_mutex_lock(&file->lock);
	/* A preparation may have begun between the two halves of the write. */
	atomic_store(&file->stop, true);
	/* Nobody can say what a cut has left of bytes from before it. */
	if (generation != file->generation || file->prepared)
		discard_validator(file);
	else if (!file->scattered)
		validate_written(file, bytes, n, offset);
	pthread_mutex_unlock(&file->lock);
}

void tdl_staged_cut(tdl_staged *file, uint64_t size)
{
	pthread_mutex_lock(&file->lock);
	file->generation++;
	atomic_store(&file->stop, true);
	if (file->validator)
		discard_validator(file);
	if (size == 0) {
		file->scattered = false;
		file->unsynced = 0;
	}
	pthread_mutex_unlock(&file->lock);
}

/* What a validation made. */
struct validated {
	tdl__validator *validator; /* owns the data file where that is not the staged file */
	tdl__part part;
	tdl_staged *data;
};

/* Validates a staged file, going on from where its writer got it to. */
static int validate_staged(tdl_staged *file, const char *name, const tdl_schema *schema,
			   const atomic_bool *stop, const tdl_commit_options *options,
			   struct validated *made, tdl_error *error)
{
	int r;

	pthread_mutex_lock(&file->lock);
	made->validator = take_validator(file);
	pthread_mutex_unlock(&file->lock);
	if (made->validator)
		tdl__validator_stop_at(made->validator, stop);
	if (made->validator && tdl__schema_equal(tdl__validator_schema(made->validator), schema) &&
	    tdl__validator_read(made->validator, file->fd, options, NULL) == 0 &&
	    tdl__validator_finish(made->validator, &made->part, &made->data, NULL) == 0)
		return 0;
	tdl__validator_free(made->validator);
	made->validator = tdl__validator_new(file->staging, file, name, schema);
	if (!made->validator)
		return tdl__fail_nomem(error);
	tdl__validator_stop_at(made->validator, stop);
	r = tdl__validator_read(made->validator, file->fd, options, error);
	return r < 0 ? r : tdl__validator_finish(made->validator, &made->part, &made->data, error);
}

static void validated_clear(struct validated *made)
{
	tdl__validator_free(made->validator);
}

static int prepare_part(tdl_staged *file, struct validated *made)
{
	tdl_table *table = file->staging->table;
	tdl_version_info head;
	int r = refresh_head(table, &head, NULL);

	/* Its name on disk may change meanwhile; and a message would have to name it as it is
	 * called when it is committed. */
	if (r == 0)
		r = validate_staged(file, "", head.schema, &file->stop, NULL, made, NULL);
	if (r == 0)
		r = made->data == file ? make_durable(table, file, NULL)
				       : finish_file(table, made->data, made->part.size, NULL);
	if (r == 0 && made->data != file) {
		/* Who knows how long it waits. */
		close(made->data->fd);
		made->data->fd = -1;
	}
	return r;
}

void tdl_staged_prepare(tdl_staged *file)
{
	struct validated made CLEANUP(validated_clear) = { 0 };
	bool wanted;

	pthread_mutex_lock(&file->lock);
	wanted = !file->prepared && file->unsynced == 0;
	if (wanted)
		atomic_store(&file->stop, false);
	pthread_mutex_unlock(&file->lock);
	if (!wanted || tdl_staged_open(file, NULL) < 0 || prepare_part(file, &made) < 0)
		return;
	pthread_mutex_lock(&file->lock);
	if (!atomic_load(&file->stop)) {
		tdl__validator_free(file->validator);
		file->validator = tdl__steal(made.validator);
		file->free_validator = tdl__validator_free;
		file->prepared = true;
		file->part = made.part;
	}
	pthread_mutex_unlock(&file->lock);
}

/* Takes what was prepared, where it is still good. */
static bool take_prepared(tdl_staged *file, const tdl_schema *schema, struct validated *made)
{
	const int flags = O_RDWR | O_NOFOLLOW;

	pthread_mutex_lock(&file->lock);
	if (file->prepared) {
		made->part = file->part;
		made->validator = take_validator(file);
	}
	pthread_mutex_unlock(&file->lock);
	if (!made->validator)
		return false;
	made->data = tdl__validator_file(made->validator);
	made->part.name = made->data->file_name;
	if (tdl__schema_equal(tdl__validator_schema(made->validator), schema) &&
	    (made->data->fd >= 0 ||
	     tdl__sys_open(made->part.dir, made->part.name, flags, 0, &made->data->fd) == 0) &&
	    make_public(file->staging->table, made->data, made->part.size, NULL) == 0)
		return true;
	tdl__validator_free(made->validator);
	made->validator = NULL;
	return false;
}

/* Gives a staged file back its mode after a commit of it failed. */
static void make_private(tdl_staged *file)
{
	struct stat st;

	if (tdl__sys_fstat(file->fd, &st) == 0 && (st.st_mode & 07777) != 0600)
		tdl__sys_chmod(file->fd, 0600);
}

int tdl_staged_commit(tdl_staged *file, const tdl_commit_options *options, int64_t *version,
		      tdl_error *error)
{
	struct validated made CLEANUP(validated_clear) = { 0 };
	tdl_table *table = file->staging->table;
	tdl_commit_options own;
	struct tdl__commit_request request = {
		.table = table,
		.change = TDL__APPEND,
		.part = &made.part,
		.options = &own,
	};
	tdl_version_info head;
	tdl_error why = { 0 };
	int r;

	if (!file->file_name)
		return tdl__fail(error, TDL_ERR_MISUSE, "the staged file is gone");
	r = tdl__commit_options_take(options, &own, error);
	if (r < 0)
		return r;
	r = tdl_staged_open(file, &why);
	if (r == 0)
		r = check_synced(file, &why);
	if (r == 0)
		r = refresh_head(table, &head, &why);
	if (r == 0 && !take_prepared(file, head.schema, &made)) {
		r = validate_staged(file, staged_name_of(file), head.schema, NULL, &own, &made,
				    &why);
		if (r == 0)
			r = finish_file(table, made.data, made.part.size, &why);
	}
	if (r == 0)
		r = publish_staged(&request, made.data, version, &why);
	if (r == 0) {
		tdl_staged_remove(file, NULL);
	} else if (r != TDL_ERR_PUBLISHED) {
		make_private(file);
	} else {
		/* Whoever recovers it knows what became of the commit. */
		if (made.part.lost)
			tdl__validator_keep(made.validator);
		if (!why.in_doubt)
			tdl__staged_forget(file);
	}
	if (r < 0 && error)
		*error = why;
	return r;
}

/* ---- Restore ------------------------------------------------------------------------------- */

/* Every data file that a restore would bring back must be there, whole, and what its checksums
 * say. */
static int check_restored(tdl_table *table, int64_t target, tdl_error *error)
{
	tdl_snapshot *snapshot;
	uint64_t files;
	int r = tdl_snapshot_open(table, target, &snapshot, error);

	if (r < 0)
		return r;
	files = tdl_snapshot_info(snapshot)->files;
	for (uint64_t i = 0; i < files && r == 0; i++) {
		bool checked;

		r = tdl_snapshot_check_file(snapshot, i, UINT64_MAX, &checked, error);
	}
	tdl_snapshot_unref(snapshot);
	return r;
}

static void free_table(tdl_table **table)
{
	tdl_table_free(*table);
}

int tdl_table_restore(tdl_table *table, int64_t target, const tdl_commit_options *options,
		      int64_t *version, tdl_error *error)
{
	/* What a restore writes into the log stays there: none of it may come from an index. */
	tdl_table *replayed CLEANUP(free_table) = NULL;
	tdl_commit_options exact;
	struct tdl__commit_request request = {
		.change = TDL__RESTORE,
		.target = target,
		.options = &exact,
	};
	tdl_version_info head;
	int r = tdl__commit_options_take(options, &exact, error);

	if (r == 0)
		r = tdl__table_replayed(table, &replayed, error);
	if (r == 0)
		r = refresh_head(replayed, &head, error);
	if (r < 0)
		return r;
	if (target < 0 || target > head.version)
		return tdl__no_such_version(error, target, table->path, head.version);
	r = check_restored(replayed, target, error);
	if (r < 0)
		return r;
	if (exact.read_version == TDL_LATEST)
		exact.read_version = head.version;
	request.table = replayed;
	r = tdl__publish(&request, version, error);
	if (replayed != table)
		tdl__history_refresh(&table->history, NULL);
	return r;
}
