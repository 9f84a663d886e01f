/* SPDX-License-Identifier: MIT */
/*
 * Publishing: how a complete data file becomes a version that is durable, whole, and of exactly
 * one writer. Everything before link() of the commit can be undone and is; nothing after it is.
 */
#include "commit/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "commit/tablelock.h"
#include "error.h"
#include "log/replay.h"
#include "row/schema.h"
#include "sys.h"
#include "util/buf.h"
#include "util/crc32c.h"
#include "util/escape.h"
#include "util/utf8.h"

#define PART_NAME_MAX 44
/* How often a version may be taken and yet not be seen: a network file system can remember for
 * seconds that a name was not there. */
#define UNSEEN_MAX    24
#define UNSEEN_MS_MAX 250

static void part_name(char out[PART_NAME_MAX], const char *hex)
{
	snprintf(out, PART_NAME_MAX, "part-%s.jsonl", hex);
}

/* ---- The text of a commit ------------------------------------------------------------------ */

void tdl__commit_info(tdl__text *text, const struct tdl__commit_info *said)
{
	const tdl_commit_options *options = said->options;
	tdl__text info CLEANUP(tdl__text_free) = { 0 };
	uint64_t count = 0;
	uint32_t crc;

	for (size_t i = 0; i < text->n; i++)
		count += text->p[i] == '\n';
	tdl__text_format(&info, "{\"commitInfo\":{\"timestamp\":%" PRId64 ",\"operation\":\"%s\"",
			 said->timestamp, said->operation);
	if (said->read_version >= 0)
		tdl__text_format(&info, ",\"readVersion\":%" PRId64, said->read_version);
	else
		tdl__text_format(&info, ",\"readVersion\":null");
	if (options && options->user_name) {
		tdl__text_add(&info, ",\"userName\":", 12);
		tdl__text_quote(&info, options->user_name, strlen(options->user_name));
	}
	if (options && options->source) {
		tdl__text_add(&info, ",\"source\":", 10);
		tdl__text_quote(&info, options->source, strlen(options->source));
	}
	if (said->restored >= 0)
		tdl__text_format(&info, ",\"restoredVersion\":%" PRId64, said->restored);
	if (options && options->message) {
		tdl__text_add(&info, ",\"userMetadata\":", 16);
		tdl__text_quote(&info, options->message, strlen(options->message));
	}
	tdl__text_format(
		&info, ",\"engineInfo\":\"tinydeltafs/" TINYDELTA_VERSION "\",\"actions\":%" PRIu64,
		count);
	if (said->previous >= 0)
		tdl__text_format(&info, ",\"previous\":%" PRId64, said->previous);
	else
		tdl__text_format(&info, ",\"previous\":null");
	/* Last, and over all but itself: no byte of the commit may change and not be missed. */
	if (!info.failed && !text->failed) {
		crc = tdl__crc32c(0, info.p, info.n);
		crc = tdl__crc32c(crc, text->p, text->n);
		tdl__text_format(&info, ",\"crc32c\":%" PRIu32 "}}\n", crc);
	}
	text->failed |= info.failed;
	tdl__text_put_before(text, info.p, info.n);
}

int tdl__commit_options_take(const tdl_commit_options *given, tdl_commit_options *own,
			     tdl_error *error)
{
	int r = TDL__OPTIONS_TAKE(own, context, given, error);
	size_t n = r == 0 && own->message ? strlen(own->message) : 0;

	if (!given)
		own->read_version = TDL_LATEST;
	if (r < 0)
		return r;
	if (n > TDL_COMMIT_MESSAGE_MAX)
		return tdl__fail(error, TDL_ERR_LIMIT,
				 "the message has %zu bytes; %d are the most it may have", n,
				 TDL_COMMIT_MESSAGE_MAX);
	if (n > 0 && !tdl__utf8_valid(own->message, n))
		return tdl__fail(error, TDL_ERR_MISUSE, "the message is not UTF-8");
	return 0;
}

int tdl__commit_check(const char *table, const tdl__text *text, const tdl_version_info *base,
		      bool keeps, tdl_error *error)
{
	tdl__commit commit = { 0 };
	tdl_error why;
	int r = tdl__log_check(base->version + 1, text->p, text->n, &commit, &why);

	if (r == 0)
		r = tdl__replay_check(base, keeps, &commit, &why);
	tdl__commit_free(&commit);
	if (r == TDL_ERR_NOMEM)
		return tdl__fail_nomem(error);
	return r == 0 ? 0
		      : tdl__fail_at(error, TDL_ERR_LIMIT, base->version + 1, 0, 0,
				     "cannot commit version %" PRId64
				     " of %s, since nobody could read it: %s",
				     base->version + 1, table, why.message);
}

/* When a commit is said to be made. Version order is time order; but the clock of one writer that
 * went astray must not be followed for ever. */
static int64_t time_after(int64_t previous)
{
	const int64_t lead_max = 24 * 3600 * INT64_C(1000);
	int64_t now = tdl__now_ms();

	return previous >= now && previous - now <= lead_max ? previous + 1 : now;
}

/* The lines of some files of a version. With the read lock held. */
static void some_files(const tdl__filelist *files, uint64_t first, uint64_t end, bool is_add,
		       tdl__text *lines)
{
	char path[TDL__PATH_MAX + 1];

	for (uint64_t index = first; index < end; index++) {
		tdl__file_key key = tdl__filelist_key(files, index);
		tdl__sums sums = tdl__filelist_sums(files, index);

		tdl__file_key_path(&key, path);
		if (is_add)
			tdl__action_add(lines, path, tdl__filelist_size(files, index),
					tdl__filelist_records(files, index), &sums);
		else
			tdl__action_remove(lines, path);
	}
}

/* One line for each file of a version, removed or added. Commits of others do not wait for all of
 * them: the lock is given up between. */
static void each_file(tdl__history *history, const tdl__version *version, bool is_add,
		      tdl__text *lines)
{
	const uint64_t most = 1024;

	for (uint64_t from = 0; from < version->files; from += most) {
		uint64_t left = version->files - from, first;

		pthread_rwlock_rdlock(&history->lock);
		first = history->files.lists[version->list].first + from;
		some_files(&history->files, first, first + (left < most ? left : most), is_add,
			   lines);
		pthread_rwlock_unlock(&history->lock);
	}
}

/* What the next commit is built on. */
struct base {
	tdl__version version;
	tdl_version_info info;
};

static int make_commit_text(const struct tdl__commit_request *request, const struct base *base,
			    tdl__text *text, tdl_error *error)
{
	static const char *const names[] = { "APPEND", "OVERWRITE", "RESTORE" };
	tdl__history *history = &request->table->history;
	const tdl__part *part = request->part;
	struct tdl__commit_info info = {
		.timestamp = time_after(base->info.time),
		.operation = names[request->change],
		.read_version = base->info.version,
		.previous = base->version.crc,
		.restored = -1,
		.options = request->options,
	};

	if (request->change != TDL__APPEND)
		each_file(history, &base->version, false, text);
	if (request->change == TDL__RESTORE) {
		tdl__version old;
		tdl_version_info old_info;
		int r = tdl__history_get(history, request->target, &old, &old_info, error);

		if (r < 0)
			return r;
		if (old_info.schema != base->info.schema)
			tdl__action_metadata(text, old_info.table_id, old_info.schema);
		each_file(history, &old, true, text);
		info.restored = request->target;
	} else {
		char name[PART_NAME_MAX];

		part_name(name, part->hex);
		tdl__action_add(text, name, part->size, part->num_records, &part->sums);
	}
	tdl__commit_info(text, &info);
	if (text->failed)
		return tdl__fail_nomem(error);
	return tdl__commit_check(request->table->path, text, &base->info,
				 request->change == TDL__APPEND, error);
}

/* ---- The publish point --------------------------------------------------------------------- */

static int cannot_write_log(const tdl__log *log, int err, const char *name, tdl_error *error)
{
	return tdl__fail_errno(error, err, "cannot write %s/" TDL__LOG_DIR "/%s", log->table, name);
}

/* A commit under its temporary name. */
struct temp_commit {
	const tdl__log *log;
	int64_t version; /* that it is to be */
	mode_t mode;
	tdl_table *owner; /* whose owner and group it gets; NULL: the process's */
	char name[TDL__LOG_TEMP_MAX];
	struct stat st; /* once it is written */
};

/* Writes the commit under its temporary name, durably. On failure nothing is left. */
static int write_temp(struct temp_commit *temp, const char *text, size_t length, tdl_error *error)
{
	const tdl__log *log = temp->log;
	int fd CLEANUP(tdl__close_at) = -1;
	int err, r = 0;

	tdl__log_temp_name(temp->name, temp->version);
	err = tdl__sys_open(log->dir, temp->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
			    temp->mode, &fd);
	if (err != 0)
		return cannot_write_log(log, err, temp->name, error);
	if (temp->owner)
		r = tdl__table_set_owner(temp->owner, fd, temp->mode, error);
	if (r == 0)
		err = tdl__sys_write(fd, text, length);
	/* Not before: a write sets the date anew. */
	if (r == 0 && err == 0)
		tdl__table_set_future_mtime(fd);
	if (r == 0 && (err != 0 || (err = tdl__sys_fsync(fd)) != 0 ||
		       (err = tdl__sys_fstat(fd, &temp->st)) != 0))
		r = cannot_write_log(log, err, temp->name, error);
	if (r < 0)
		tdl__sys_unlink(log->dir, temp->name);
	return r;
}

static int conflict(int64_t version, tdl_error *error)
{
	return tdl__fail_at(error, TDL_ERR_CONFLICT, version, 0, 0,
			    "commit %" PRId64 " already exists; another writer committed first",
			    version);
}

/* Whether the name is the file that *st is of: 1 yes, 0 no, -1 nobody can say. */
static int is_same_file(const tdl__log *log, const char *name, const struct stat *st)
{
	struct stat there;
	int err = tdl__sys_stat(log->dir, name, &there);

	if (err != 0)
		return err == ENOENT ? 0 : -1;
	return tdl__same_file(&there, st);
}

static bool lacks_links(int err)
{
	return err == EPERM || err == EOPNOTSUPP || err == ENOSYS || err == EXDEV || err == EMLINK;
}

static bool lacks_rename(int err)
{
	return err == EINVAL || err == ENOSYS || err == EOPNOTSUPP;
}

static int unsupported(const char *table, int link_why, tdl_error *error)
{
	tdl__fail_errno(error, link_why,
			"cannot commit to %s: its file system can neither link() nor "
			"renameat2(RENAME_NOREPLACE), or forbids it here",
			table);
	if (error)
		error->code = TDL_ERR_UNSUPPORTED;
	return TDL_ERR_UNSUPPORTED;
}

/* The commit is visible, or may be: nothing is undone. */
static int published(int64_t version, int err, const char *what, tdl_error *error)
{
	tdl__fail_errno(error, err, "committed as version %" PRId64 ", %s: do not drop again",
			version, what);
	if (error) {
		error->code = TDL_ERR_PUBLISHED;
		error->version = version;
	}
	return TDL_ERR_PUBLISHED;
}

/* The system says that it failed, and not whether it did it all the same. */
static int in_doubt(int64_t version, int err, tdl_error *error)
{
	tdl__fail_errno(error, err,
			"may be committed as version %" PRId64
			", which the file system does not say: look first, do not drop again",
			version);
	if (error) {
		error->code = TDL_ERR_PUBLISHED;
		error->version = version;
		error->in_doubt = true;
	}
	return TDL_ERR_PUBLISHED;
}

/* Published, and yet this process cannot see it. */
static int unseen(int64_t version, const tdl_error *why, tdl_error *error)
{
	tdl__fail_at(error, TDL_ERR_PUBLISHED, version, 0, 0,
		     "committed as version %" PRId64
		     ", but it cannot be read: do not drop again: %s",
		     version, why->message);
	if (error)
		error->os_error = why->os_error;
	return TDL_ERR_PUBLISHED;
}

/*
 * Gives the temporary commit its version's name, as one exclusive step. 0: published, perhaps
 * under an error that only said it was not (over a network the answer to the first try can be
 * lost). CONFLICT: another commit has the name. NOT_FOUND: a vacuum took the temporary one.
 */
static int publish_link(const struct temp_commit *temp, tdl_error *error)
{
	const tdl__log *log = temp->log;
	char name[TDL__LOG_NAME_MAX];
	int err, link_why, same;

	tdl__log_name(name, temp->version);
	link_why = err = tdl__sys_link(log->dir, temp->name, log->dir, name);
	if (lacks_links(err))
		err = tdl__sys_rename(log->dir, temp->name, log->dir, name, false);
	if (err == 0)
		return 0;
	same = is_same_file(log, name, &temp->st);
	if (same > 0)
		return 0;
	if (same < 0)
		return in_doubt(temp->version, err, error);
	if (err == EEXIST)
		return conflict(temp->version, error);
	if (err == ENOENT)
		return tdl__fail_errno(error, err, "cannot publish %s/" TDL__LOG_DIR "/%s",
				       log->table, name),
		       TDL_ERR_NOT_FOUND;
	if (lacks_links(link_why) && lacks_rename(err))
		return unsupported(log->table, link_why, error);
	return tdl__fail_errno(error, err, "cannot publish %s/" TDL__LOG_DIR "/%s", log->table,
			       name);
}

static int sync_log(const tdl__log *log, int64_t version, tdl_error *error)
{
	int err = tdl__sys_fsync_dir(log->dir);

	return err == 0 ? 0 : published(version, err, "durability unknown", error);
}

int tdl__publish_first(const tdl__log *log, const char *text, size_t length, mode_t mode,
		       tdl_error *error)
{
	struct temp_commit temp = { .log = log, .mode = mode };
	int r = write_temp(&temp, text, length, error);

	if (r < 0)
		return r;
	r = publish_link(&temp, error);
	if (r == 0)
		r = sync_log(log, 0, error);
	tdl__sys_unlink(log->dir, temp.name);
	return r;
}

/* ---- The data file ------------------------------------------------------------------------- */

/* How the data file got its name. */
struct linked {
	bool moved;    /* by a rename: the staged name is gone, and a mark left in its place */
	bool was_ours; /* it had it already */
	char mark[NAME_MAX + 1];
};

static void remove_mark(const tdl__part *part, struct linked *linked)
{
	if (linked->mark[0] != '\0')
		tdl__sys_unlink(part->dir, linked->mark);
	linked->mark[0] = '\0';
}

/* What the name was, for who finds the part after a crash that no commit names. */
static int leave_mark(const tdl__part *part, struct linked *linked)
{
	int fd CLEANUP(tdl__close_at) = -1;
	int err;

	/* One without a name is nobody's but its process's. */
	if (strlen(part->name) <= TDL__MOVED_AT + 1)
		return 0;
	snprintf(linked->mark, sizeof linked->mark, "%s", part->name);
	linked->mark[TDL__MOVED_AT] = TDL__MOVED_MARK;
	err = tdl__sys_open(part->dir, linked->mark, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600, &fd);
	if (err != 0)
		linked->mark[0] = '\0';
	return err;
}

static void unlink_part(tdl_table *table, const tdl__part *part, const char *name,
			struct linked *linked)
{
	/* An earlier commit of it may name it, that nobody could say whether it is there. */
	if (linked->was_ours)
		return;
	if (!linked->moved)
		tdl__sys_unlink(table->dir, name);
	else if (tdl__sys_rename(table->dir, name, part->dir, part->name, false) != 0)
		return;
	remove_mark(part, linked);
}

/*
 * A commit of the same rows that failed, or a crash, can have left the name: of the very file, or
 * of one that no commit ever named, which makes way.
 */
static int link_again(tdl_table *table, const tdl__part *part, const char *name, bool *was_ours)
{
	tdl__file_key key = tdl__file_key_of(name);
	struct stat staged, there;

	if (tdl__sys_stat(part->dir, part->name, &staged) == 0 &&
	    tdl__sys_stat(table->dir, name, &there) == 0 && tdl__same_file(&staged, &there)) {
		*was_ours = true;
		return 0;
	}
	if (tdl__history_ever_added(&table->history, &key) ||
	    tdl__sys_unlink(table->dir, name) != 0)
		return EEXIST;
	return tdl__sys_link(part->dir, part->name, table->dir, name);
}

/* On failure the name is not there, unless it is another's. */
static int link_part(tdl_table *table, const tdl__part *part, const char *name,
		     struct linked *linked, tdl_error *error)
{
	int err = tdl__sys_link(part->dir, part->name, table->dir, name), link_why = err;

	if (err == EEXIST)
		err = link_again(table, part, name, &linked->was_ours);
	if (lacks_links(err)) {
		err = leave_mark(part, linked);
		if (err == 0) {
			err = tdl__sys_rename(part->dir, part->name, table->dir, name, false);
			linked->moved = err == 0;
		}
		if (err != 0)
			remove_mark(part, linked);
		if (lacks_rename(err))
			return unsupported(table->path, link_why, error);
	}
	if (err == 0) {
		err = tdl__sys_fsync_dir(table->dir);
		if (err != 0)
			unlink_part(table, part, name, linked);
	}
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot publish data file %s/%s", table->path,
				       name);
	return 0;
}

/* The commit names a data file that is not there any more. */
static int lost(tdl_table *table, tdl__part *part, int64_t version, int err, tdl_error *error)
{
	char what[512];
	struct stat st;

	part->lost = tdl__sys_stat(part->dir, part->name, &st) == 0;
	if (part->lost)
		snprintf(
			what, sizeof what,
			"but its data file is gone (its rows are still in %.200s/" TDL__INCOMING_DIR
			"/%s/%.200s)",
			table->path, part->folder, part->name);
	else
		snprintf(what, sizeof what, "but its data file is gone");
	return published(version, err, what, error);
}

/* A vacuum that knows no locks may have taken the part for an orphan just before the commit named
 * it. The staged name still holds the bytes. */
static int check_part(tdl_table *table, tdl__part *part, const char *name, bool moved,
		      int64_t version, tdl_error *error)
{
	struct stat there, staged;
	int err = tdl__sys_stat(table->dir, name, &there);

	if (err == 0 && !moved && tdl__sys_stat(part->dir, part->name, &staged) == 0 &&
	    !tdl__same_file(&there, &staged))
		return published(version, EEXIST, "another file has its data file's name", error);
	if (err == ENOENT && !moved) {
		err = tdl__sys_link(part->dir, part->name, table->dir, name);
		if (err == 0)
			err = tdl__sys_fsync_dir(table->dir);
	}
	/* Where it cannot be looked at, it need not be gone. */
	if (err != 0 && tdl__sys_stat(table->dir, name, &there) == ENOENT)
		return lost(table, part, version, err, error);
	return err == 0 ? 0 : published(version, err, "its data file cannot be seen", error);
}

/* ---- Commits ------------------------------------------------------------------------------- */

/* Who commits may think better of it, until the commit is visible. */
static int check_stop(const tdl_commit_options *options, tdl_error *error)
{
	if (!options || !options->stop || !options->stop(options->context))
		return 0;
	return tdl__fail(error, TDL_ERR_STOPPED, "stopped; nothing was committed");
}

/* Looks at the head, and whether a commit on it is allowed. */
static int refresh_head(const struct tdl__commit_request *request, struct base *base,
			tdl_error *error)
{
	tdl_table *table = request->table;
	const tdl__part *part = request->part;
	int64_t wanted = request->options ? request->options->read_version : TDL_LATEST;
	int r = tdl__history_refresh(&table->history, error);

	if (r == 0)
		r = tdl__history_find_gap(&table->history, error);
	if (r == 0)
		r = tdl__history_get(&table->history, TDL_LATEST, &base->version, &base->info,
				     error);
	if (r < 0)
		return r;
	if (wanted > base->info.version)
		return tdl__no_such_version(error, wanted, table->path, base->info.version);
	if (wanted != TDL_LATEST && wanted != base->info.version)
		return conflict(wanted + 1, error);
	if (part && !tdl__schema_equal(part->schema, base->info.schema))
		return tdl__fail_at(error, TDL_ERR_CONFLICT, base->info.version, 0, 0,
				    "version %" PRId64
				    " changed the columns; another writer committed first",
				    base->info.version);
	return 0;
}

/* The longer, the more often nothing has changed: some four seconds in all. */
static void pause_before_retry(int again)
{
	long ms = again > 8 ? UNSEEN_MS_MAX : (1L << again) >> 1;
	struct timespec time = { .tv_nsec = ms * 1000000 };

	if (ms > 0)
		nanosleep(&time, NULL);
}

/* Under the publishing lock: tries version after version until one is ours. */
static int commit_change(const struct tdl__commit_request *request, mode_t mode, int64_t *version,
			 tdl_error *error)
{
	tdl_table *table = request->table;
	int64_t lost = -1;
	int again = 0;

	for (;;) {
		tdl__text text CLEANUP(tdl__text_free) = { 0 };
		struct temp_commit temp = {
			.log = &table->history.log,
			.mode = mode,
			.owner = table,
		};
		struct base base;
		int r = refresh_head(request, &base, error);

		if (r < 0)
			return r;
		*version = temp.version = base.info.version + 1;
		r = make_commit_text(request, &base, &text, error);
		if (r == 0)
			r = write_temp(&temp, text.p, text.n, error);
		if (r < 0)
			return r;
		r = check_stop(request->options, error);
		if (r == 0)
			r = publish_link(&temp, error);
		tdl__sys_unlink(temp.log->dir, temp.name);
		if (r == 0)
			tdl__history_committed(&table->history);
		/* An append conflicts with nothing: whatever came in between, it goes behind it.
		 * But what came must show itself at some time. */
		if (r != TDL_ERR_NOT_FOUND &&
		    (r != TDL_ERR_CONFLICT || request->change != TDL__APPEND))
			return r;
		again = *version == lost ? again + 1 : 0;
		if (again == UNSEEN_MAX)
			return r == TDL_ERR_NOT_FOUND ? TDL_ERR_IO : r;
		pause_before_retry(again);
		lost = *version;
	}
}

int tdl__publish(const struct tdl__commit_request *request, int64_t *version, tdl_error *error)
{
	tdl_table *table = request->table;
	tdl__part *part = request->part;
	struct tdl__table_lock lock CLEANUP(tdl__table_unlock) = TDL__TABLE_UNLOCKED;
	char name[PART_NAME_MAX] = "";
	struct stat dir;
	struct linked linked = { 0 };
	int64_t made = -1;
	tdl_error why_not;
	int err, r;

	if ((err = tdl__sys_fstat(table->dir, &dir)) != 0)
		return tdl__fail_errno(error, err, "cannot look at %s", table->path);
	r = check_stop(request->options, error);
	if (r == 0)
		r = tdl__table_lock(table, request->options, &lock, error);
	if (r < 0)
		return r;
	if (part) {
		part_name(name, part->hex);
		r = link_part(table, part, name, &linked, error);
		if (r < 0)
			return r;
	}
	pthread_mutex_lock(&table->publishing);
	r = commit_change(request, tdl__table_file_mode(&dir), &made, error);
	pthread_mutex_unlock(&table->publishing);
	if (r < 0 && r != TDL_ERR_PUBLISHED) {
		if (part)
			unlink_part(table, part, name, &linked);
		return r;
	}

	/* Published. From here on nothing may be taken back. */
	if (r == 0)
		r = sync_log(&table->history.log, made, error);
	if (part) {
		int lost = check_part(table, part, name, linked.moved, made, r == 0 ? error : NULL);

		r = r < 0 ? r : lost;
	}
	if (tdl__history_refresh(&table->history, &why_not) < 0 && r == 0 &&
	    tdl_table_head(table) < made)
		r = unseen(made, &why_not, error);
	if (r == 0 && part)
		remove_mark(part, &linked);
	*version = made;
	return r;
}
