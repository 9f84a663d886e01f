/* SPDX-License-Identifier: MIT */
/*
 * One version of a table: its size, its files, its bytes. Opens data files through the table's
 * cache; never replays and never writes.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "table/snapshot.h"
#include "table/table.h"

struct tdl_snapshot {
	atomic_uint refs;
	tdl_table *table;
	tdl__version version;
	tdl_version_info info;
	_Atomic uint64_t size; /* of data.jsonl; UNRESOLVED: not asked for yet */
};

#define UNRESOLVED UINT64_MAX

/* A data file of a snapshot, by its position. */
struct piece {
	uint64_t nth;
	tdl__file_key key; /* a named one is borrowed from the history, which never forgets */
	uint64_t size;
	uint64_t offset; /* in data.jsonl */
	bool no_eol;	 /* its last newline */
	bool eol_known;	 /* whether it does */
	tdl__sums sums;	 /* borrowed likewise */
};

int tdl_snapshot_open(tdl_table *table, int64_t version, tdl_snapshot **out, tdl_error *error)
{
	tdl_snapshot *snapshot CLEANUP(tdl__free_at) = NULL;
	int r = 0;

	if (version < TDL_LATEST)
		return tdl__no_such_version(error, version, table->path, tdl_table_head(table));
	/* What is known needs no read: versions do not change. */
	if (version == TDL_LATEST || version > tdl_table_head(table))
		r = tdl__history_refresh(&table->history, error);
	if (r < 0 && !(r == TDL_ERR_CORRUPT && version != TDL_LATEST))
		return r;
	snapshot = calloc(1, sizeof *snapshot);
	if (!snapshot)
		return tdl__fail_nomem(error);
	r = tdl__history_get(&table->history, version, &snapshot->version, &snapshot->info, error);
	if (r < 0)
		return r;
	atomic_init(&snapshot->refs, 1);
	atomic_init(&snapshot->size, UNRESOLVED);
	snapshot->table = table;
	tdl__table_ref(table);
	*out = tdl__steal(snapshot);
	return 0;
}

tdl_snapshot *tdl_snapshot_ref(tdl_snapshot *snapshot)
{
	atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed);
	return snapshot;
}

void tdl_snapshot_unref(tdl_snapshot *snapshot)
{
	if (!snapshot || atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel) > 1)
		return;
	tdl_table_free(snapshot->table);
	free(snapshot);
}

const tdl_version_info *tdl_snapshot_info(const tdl_snapshot *snapshot)
{
	return &snapshot->info;
}

/* Names table and version before what is wrong with a data file. */
static int in_version(const tdl_snapshot *snapshot, int r, const tdl_error *why, tdl_error *error)
{
	if (!error || r == TDL_ERR_NOMEM)
		return r == TDL_ERR_NOMEM ? tdl__fail_nomem(error) : r;
	tdl__fail_at(error, r, snapshot->info.version, 0, 0, "version %" PRId64 ": %s",
		     snapshot->info.version, why->message);
	error->os_error = why->os_error;
	return r;
}

static void describe_piece(const tdl__filelist *files, const tdl__version *version, uint64_t nth,
			   struct piece *piece)
{
	uint64_t index = files->lists[version->list].first + nth;

	piece->nth = nth;
	piece->key = tdl__filelist_key(files, index);
	piece->size = tdl__filelist_size(files, index);
	piece->offset = tdl__filelist_offset(files, version->list, nth);
	piece->no_eol = (files->flags[index] & TDL__FILE_NO_EOL) != 0;
	piece->eol_known = (files->flags[index] & TDL__FILE_EOL_KNOWN) != 0;
	piece->sums = tdl__filelist_sums(files, index);
}

/* Reads n bytes of a file. A server may have forgotten it under the handle it was opened by, and
 * know it under another: so once more, from its name. */
static int read_file_bytes(tdl_snapshot *snapshot, const struct piece *piece, void *out, size_t n,
			   uint64_t at, tdl_error *error)
{
	tdl__filecache *cache = &snapshot->table->files;

	for (bool again = false;; again = true) {
		tdl__open_file *file;
		int r = tdl__filecache_get(cache, &piece->key, piece->size, &piece->sums, &file,
					   error);

		if (r < 0)
			return r;
		r = tdl__open_file_read(cache, file, out, n, at, error);
		tdl__filecache_put(cache, file);
		if (r != TDL_ERR_IO || error->os_error != ESTALE || again)
			return r;
	}
}

/* Looks at the last byte of a file. */
static int read_last_byte(tdl_snapshot *snapshot, const struct piece *piece, bool *no_eol,
			  tdl_error *error)
{
	char last;
	int r = read_file_bytes(snapshot, piece, &last, 1, piece->size - 1, error);

	if (r == 0)
		*no_eol = last != '\n';
	return r;
}

/* Settles, for the first `count` files, whether they lack their last newline. */
static int resolve_eol(tdl_snapshot *snapshot, uint64_t count, tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	const tdl__version *version = &snapshot->version;
	tdl__filelist *files = &history->files;

	for (;;) {
		struct piece piece = { 0 };
		bool done, no_eol = false;
		tdl_error why;
		int r;

		pthread_rwlock_rdlock(&history->lock);
		done = files->lists[version->list].eol_known >= count;
		if (!done)
			describe_piece(files, version, files->lists[version->list].eol_known,
				       &piece);
		pthread_rwlock_unlock(&history->lock);
		if (done)
			return 0;
		/* An empty file and one with a checksum never need it. */
		r = piece.eol_known ? 0 : read_last_byte(snapshot, &piece, &no_eol, &why);
		if (r < 0)
			return in_version(snapshot, r, &why, error);
		pthread_rwlock_wrlock(&history->lock);
		if (!tdl__filelist_set_eol(files, files->lists[version->list].first + piece.nth,
					   no_eol))
			r = TDL_ERR_NOMEM;
		tdl__filelist_resolve_eol(files, version->list, count);
		pthread_rwlock_unlock(&history->lock);
		if (r < 0)
			return tdl__fail_nomem(error);
	}
}

int tdl_snapshot_size(tdl_snapshot *snapshot, uint64_t *size, tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	const tdl__version *version = &snapshot->version;
	int r;

	/* Once resolved it stays, and every end of line with it: a read asks for it each time. */
	*size = atomic_load(&snapshot->size);
	if (*size != UNRESOLVED)
		return 0;
	r = resolve_eol(snapshot, version->files, error);
	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&history->lock);
	*size = tdl__filelist_offset(&history->files, version->list, version->files);
	pthread_rwlock_unlock(&history->lock);
	atomic_store(&snapshot->size, *size);
	return 0;
}

static int ends_wrong(const tdl_snapshot *snapshot, const struct piece *piece, tdl_error *error)
{
	char path[TDL__PATH_MAX + 1];

	tdl__file_key_path(&piece->key, path);
	return tdl__fail(error, TDL_ERR_CORRUPT, "data file %s/%s does not end as it should",
			 snapshot->table->path, path);
}

/* A checksum in the log promises a newline; if there is none, rows would run together. */
static int check_end(const tdl_snapshot *snapshot, const struct piece *piece, char last,
		     tdl_error *error)
{
	return piece->sums.has_crc && last != '\n' ? ends_wrong(snapshot, piece, error) : 0;
}

/* Reads from one file, its missing newline included. */
static int read_piece(tdl_snapshot *snapshot, const struct piece *piece, char *out, size_t n,
		      uint64_t offset, size_t *got, tdl_error *error)
{
	uint64_t at = offset - piece->offset;
	uint64_t left = at < piece->size ? piece->size - at : 0;
	size_t take = left < n ? (size_t)left : n;

	if (take > 0) {
		int r = read_file_bytes(snapshot, piece, out, take, at, error);

		if (r < 0)
			return r;
		if (at + take == piece->size) {
			r = (out[take - 1] != '\n') == piece->no_eol
				    ? 0
				    : ends_wrong(snapshot, piece, error);
			if (r < 0)
				return r;
		}
	}
	if (take < n && piece->no_eol)
		out[take++] = '\n';
	*got = take;
	return 0;
}

int tdl_snapshot_read(tdl_snapshot *snapshot, void *buffer, size_t count, uint64_t offset,
		      size_t *got, tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	const tdl__version *version = &snapshot->version;
	size_t done = 0;
	uint64_t size;
	int r = tdl_snapshot_size(snapshot, &size, error);

	if (r < 0)
		return r;
	if (offset >= size)
		count = 0;
	else if (count > size - offset)
		count = (size_t)(size - offset);
	while (done < count) {
		struct piece piece;
		tdl_error why;
		size_t part = 0;
		uint64_t nth;

		pthread_rwlock_rdlock(&history->lock);
		nth = tdl__filelist_locate(&history->files, version->list, version->files,
					   offset + done);
		describe_piece(&history->files, version, nth, &piece);
		pthread_rwlock_unlock(&history->lock);
		r = read_piece(snapshot, &piece, (char *)buffer + done, count - done, offset + done,
			       &part, &why);
		if (r < 0)
			return in_version(snapshot, r, &why, error);
		done += part;
	}
	*got = done;
	return 0;
}

static int check_index(const tdl_snapshot *snapshot, uint64_t index, tdl_error *error)
{
	if (index < snapshot->version.files)
		return 0;
	return tdl__fail(error, TDL_ERR_MISUSE, "version %" PRId64 " has no data file %" PRIu64,
			 snapshot->info.version, index);
}

static int find_piece(tdl_snapshot *snapshot, uint64_t index, struct piece *piece, tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	int r = check_index(snapshot, index, error);

	if (r < 0)
		return r;
	if (atomic_load(&snapshot->size) == UNRESOLVED)
		r = resolve_eol(snapshot, index + 1, error);
	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&history->lock);
	describe_piece(&history->files, &snapshot->version, index, piece);
	pthread_rwlock_unlock(&history->lock);
	return 0;
}

/* What the log says of a file besides its name. With the read lock held. */
static void fill_file_info(const tdl__filelist *files, uint64_t at, tdl_file *file)
{
	tdl__sums sums = tdl__filelist_sums(files, at);

	file->size = tdl__filelist_size(files, at);
	file->num_records = tdl__filelist_records(files, at);
	file->has_crc32c = sums.has_crc;
	file->crc32c = sums.crc;
}

int tdl_snapshot_file(tdl_snapshot *snapshot, uint64_t index, tdl_file *file, tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	struct piece piece;
	int r = find_piece(snapshot, index, &piece, error);

	if (r < 0)
		return r;
	tdl__file_key_path(&piece.key, file->path);
	file->offset = piece.offset;
	file->lacks_newline = piece.no_eol;
	pthread_rwlock_rdlock(&history->lock);
	fill_file_info(&history->files, history->files.lists[snapshot->version.list].first + index,
		       file);
	pthread_rwlock_unlock(&history->lock);
	return 0;
}

int tdl_snapshot_file_entry(tdl_snapshot *snapshot, uint64_t index, tdl_file *file,
			    tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	const tdl__filelist *files = &history->files;
	uint64_t at;
	tdl__file_key key;
	int r = check_index(snapshot, index, error);

	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&history->lock);
	at = files->lists[snapshot->version.list].first + index;
	key = tdl__filelist_key(files, at);
	fill_file_info(files, at, file);
	pthread_rwlock_unlock(&history->lock);
	tdl__file_key_path(&key, file->path);
	file->offset = 0;
	file->lacks_newline = false;
	return 0;
}

/* What is known of a file without reading it, or those before it. */
static int describe_alone(tdl_snapshot *snapshot, uint64_t index, struct piece *piece,
			  tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	const tdl__filelist *files = &history->files;
	int r = check_index(snapshot, index, error);

	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&history->lock);
	index += files->lists[snapshot->version.list].first;
	*piece = (struct piece){
		.key = tdl__filelist_key(files, index),
		.size = tdl__filelist_size(files, index),
		.sums = tdl__filelist_sums(files, index),
	};
	pthread_rwlock_unlock(&history->lock);
	return 0;
}

void tdl__snapshot_list(const tdl_snapshot *snapshot, uint32_t *list, uint32_t *count)
{
	*list = snapshot->version.list;
	*count = snapshot->version.files;
}

tdl__sums tdl__snapshot_sums(const tdl_snapshot *snapshot, uint64_t index)
{
	tdl__history *history = &snapshot->table->history;
	tdl__sums sums;

	pthread_rwlock_rdlock(&history->lock);
	index += history->files.lists[snapshot->version.list].first;
	sums = tdl__filelist_sums(&history->files, index);
	pthread_rwlock_unlock(&history->lock);
	return sums;
}

int tdl__snapshot_lacks_newline(tdl_snapshot *snapshot, uint64_t index, bool *no_eol,
				tdl_error *error)
{
	tdl__history *history = &snapshot->table->history;
	struct piece piece;
	tdl_error why;
	uint64_t at;
	bool known;
	int r;

	pthread_rwlock_rdlock(&history->lock);
	at = history->files.lists[snapshot->version.list].first + index;
	known = (history->files.flags[at] & TDL__FILE_EOL_KNOWN) != 0;
	*no_eol = (history->files.flags[at] & TDL__FILE_NO_EOL) != 0;
	pthread_rwlock_unlock(&history->lock);
	if (known)
		return 0;
	r = describe_alone(snapshot, index, &piece, error);
	if (r < 0)
		return r;
	r = read_last_byte(snapshot, &piece, no_eol, &why);
	if (r < 0)
		return in_version(snapshot, r, &why, error);
	pthread_rwlock_wrlock(&history->lock);
	if (!tdl__filelist_set_eol(&history->files, at, *no_eol))
		r = tdl__fail_nomem(error);
	pthread_rwlock_unlock(&history->lock);
	return r;
}

int tdl_snapshot_present(tdl_snapshot *snapshot, tdl_error *error)
{
	for (uint64_t i = 0; i < snapshot->version.files; i++) {
		struct piece piece;
		tdl_error why;
		int r = describe_alone(snapshot, i, &piece, error);

		if (r < 0)
			return r;
		r = tdl__filecache_stat(&snapshot->table->files, &piece.key, piece.size, &why);
		if (r < 0)
			return in_version(snapshot, r, &why, error);
	}
	return 0;
}

int tdl_snapshot_read_file(tdl_snapshot *snapshot, uint64_t index, void *buffer, size_t count,
			   uint64_t offset, size_t *got, tdl_error *error)
{
	struct piece piece;
	tdl_error why;
	int r = describe_alone(snapshot, index, &piece, error);

	if (r < 0)
		return r;
	if (offset >= piece.size)
		count = 0;
	else if (count > piece.size - offset)
		count = (size_t)(piece.size - offset);
	if (count > 0)
		r = read_file_bytes(snapshot, &piece, buffer, count, offset, &why);
	if (r == 0 && count > 0 && offset + count == piece.size)
		r = check_end(snapshot, &piece, ((const char *)buffer)[count - 1], &why);
	if (r < 0)
		return in_version(snapshot, r, &why, error);
	*got = count;
	return 0;
}

int tdl_snapshot_check_file(tdl_snapshot *snapshot, uint64_t index, uint64_t limit, bool *checked,
			    tdl_error *error)
{
	tdl__filecache *cache = &snapshot->table->files;
	tdl__open_file *file;
	tdl__identity was;
	struct piece piece;
	tdl_error why;
	int r = describe_alone(snapshot, index, &piece, error);

	if (r < 0)
		return r;
	r = tdl__filecache_get(cache, &piece.key, piece.size, &piece.sums, &file, &why);
	if (r == 0) {
		r = tdl__open_file_check(cache, file, limit, checked, &was, &why);
		tdl__filecache_put(cache, file);
	}
	return r < 0 ? in_version(snapshot, r, &why, error) : 0;
}

/* Opens a file by its name that is the one which was compared. */
static int open_checked(tdl_snapshot *snapshot, const struct piece *piece, int *fd,
			tdl_error *error)
{
	tdl__filecache *cache = &snapshot->table->files;

	for (int tries = 0;; tries++) {
		int opened CLEANUP(tdl__close_at) = -1;
		tdl__open_file *file;
		tdl__identity was, now;
		struct stat st;
		bool checked;
		int r = tdl__filecache_get(cache, &piece->key, piece->size, &piece->sums, &file,
					   error);

		if (r < 0)
			return r;
		r = tdl__open_file_check(cache, file, UINT64_MAX, &checked, &was, error);
		if (r == 0)
			r = tdl__filecache_open(cache, &piece->key, piece->size, &opened, error);
		if (r == 0 && tdl__sys_fstat(opened, &st) == 0) {
			now = tdl__identity_of(&st);
			if (tdl__identity_same(&was, &now)) {
				*fd = tdl__steal_fd(&opened);
				tdl__filecache_put(cache, file);
				return 0;
			}
			/* Another file has the name now, or it was changed. */
			tdl__open_file_stale(cache, file);
		}
		tdl__filecache_put(cache, file);
		if (r < 0)
			return r;
		if (tries == 2)
			return tdl__fail(error, TDL_ERR_CORRUPT,
					 "a data file of %s was changed while it was read",
					 snapshot->table->path);
	}
}

int tdl_snapshot_open_file(tdl_snapshot *snapshot, uint64_t index, int *fd, tdl_error *error)
{
	struct piece piece;
	tdl_error why;
	int r = find_piece(snapshot, index, &piece, error);

	if (r < 0)
		return r;
	r = piece.sums.has_crc ? open_checked(snapshot, &piece, fd, &why)
			       : tdl__filecache_open(&snapshot->table->files, &piece.key,
						     piece.size, fd, &why);
	return r < 0 ? in_version(snapshot, r, &why, error) : 0;
}
