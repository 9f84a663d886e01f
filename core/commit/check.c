/* SPDX-License-Identifier: MIT */
/*
 * Looking at a whole table for what is wrong: every commit read from its file, every data file
 * read, what is left over named. Changes nothing.
 */
#include "commit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "commit/added.h"
#include "commit/staging.h"
#include "commit/tablelock.h"
#include "error.h"
#include "sys.h"
#include "table/tags.h"

/* ---- The log ------------------------------------------------------------------------------- */

/* "versions 3 to 7 cannot be read", from the first that is damaged. */
static void unreadable(struct tdl__check *check, int64_t version, int64_t last, char out[100])
{
	out[0] = '\0';
	if (check->broken >= 0)
		return;
	check->broken = version;
	if (last > version)
		snprintf(out, 100, " (versions %" PRId64 " to %" PRId64 " cannot be read)", version,
			 last);
	else
		snprintf(out, 100, " (version %" PRId64 " cannot be read)", version);
}

int64_t tdl__check_now = 0;

/* A clock may be a little ahead of another. */
#define AHEAD_MS 60000

/* A version from the future is found by no time that one asks for, and what follows it has to be
 * dated behind it. */
static void check_time(struct tdl__check *check, int64_t version, int64_t timestamp)
{
	int64_t now = tdl__check_now > 0 ? tdl__check_now : tdl__now_ms();
	char name[TDL__LOG_NAME_MAX], path[64], text[40];
	struct tm tm;
	time_t seconds = (time_t)(timestamp / 1000);

	if (timestamp <= now || timestamp - now <= AHEAD_MS)
		return;
	tdl__log_name(name, version);
	snprintf(path, sizeof path, TDL__LOG_DIR "/%s", name);
	if (!gmtime_r(&seconds, &tm) || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		snprintf(text, sizeof text, "%" PRId64, timestamp);
	tdl__check_problem(check, TDL_SUSPECT, version, path, 1,
			   "is dated %s, which lies in the future (a clock was ahead)", text);
}

static int check_commit(struct tdl__check *check, int64_t version, int64_t last,
			tdl__commit *commit)
{
	const tdl__log *log = &check->table->history.log;
	char name[TDL__LOG_NAME_MAX], path[64], where[TDL__PATH_MAX + 200], behind[100];
	tdl_error why;
	int n, r;

	tdl__commit_clear(commit);
	r = tdl__log_read(log, version, commit, &why);
	if (r == 0)
		check_time(check, version, commit->timestamp);
	if (r == 0)
		return 0;
	if (r == TDL_ERR_NOMEM)
		return tdl__fail_nomem(check->error);
	tdl__log_name(name, version);
	snprintf(path, sizeof path, TDL__LOG_DIR "/%s", name);
	n = snprintf(where, sizeof where, "version %" PRId64 " is damaged: %s/%s:", version,
		     log->table, path);
	if (why.line > 0 && (size_t)n < sizeof where)
		n += snprintf(where + n, sizeof where - (size_t)n, "%" PRIu64 ":", why.line);
	if ((size_t)n < sizeof where - 1)
		strcpy(where + n, " ");
	unreadable(check, version, last, behind);
	tdl__check_problem(check, TDL_DAMAGE, version, path, why.line, "%s%s",
			   tdl__check_without(why.message, where), behind);
	return 0;
}

static void missing(struct tdl__check *check, int64_t first, int64_t next, int64_t last)
{
	char name[TDL__LOG_NAME_MAX], path[64], behind[100];

	tdl__log_name(name, first);
	snprintf(path, sizeof path, TDL__LOG_DIR "/%s", name);
	unreadable(check, first, last, behind);
	if (next > first + 1)
		tdl__check_problem(check, TDL_DAMAGE, first, path, 0,
				   "missing, and so are the versions up to %" PRId64
				   ": a gap in the log%s",
				   next - 1, behind);
	else
		tdl__check_problem(check, TDL_DAMAGE, first, path, 0, "missing: a gap in the log%s",
				   behind);
}

static int check_log(struct tdl__check *check)
{
	const tdl__log *log = &check->table->history.log;
	int64_t *versions CLEANUP(tdl__free_at) = NULL;
	tdl__commit commit = { 0 };
	int64_t next = 0, wanted = check->options->version, last;
	tdl_error why;
	size_t count;
	bool far;
	int r = tdl__log_list(log, -1, &versions, &count, &far, check->error);

	if (r < 0)
		return r;
	last = count > 0 ? versions[count - 1] : -1;
	for (size_t i = 0; i < count && r == 0; i++) {
		if (wanted >= 0 && versions[i] > wanted)
			break;
		if (versions[i] != next)
			missing(check, next, versions[i], last);
		r = check_commit(check, versions[i], last, &commit);
		next = versions[i] + 1;
	}
	tdl__commit_free(&commit);
	if (r < 0)
		return r;
	if (wanted < 0 && far)
		tdl__check_problem(check, TDL_DAMAGE, next, TDL__LOG_DIR, 0,
				   "holds a commit whose number is past all versions");
	/* A version that is wanted and not there, and what only replaying finds. */
	else if (wanted >= next && check->broken < 0 && last >= wanted)
		missing(check, next, wanted + 1, last);
	else if (check->broken < 0 && tdl_table_damage(check->table, &why) < 0 &&
		 (wanted < 0 || why.version <= wanted))
		tdl__check_problem(check, TDL_DAMAGE, why.version, TDL__LOG_DIR, 0, "%s",
				   why.message);
	return 0;
}

static void check_lock(struct tdl__check *check)
{
	const char *obstacle = tdl__table_lock_obstacle(check->table);

	if (obstacle)
		tdl__check_problem(check, TDL_SUSPECT, -1, TDL__LOG_DIR "/" TDL__LOCK_NAME, 0,
				   "is %s where the lock of the table's writers belongs (remove "
				   "it): nobody can commit or vacuum",
				   obstacle);
}

/* ---- What is left over --------------------------------------------------------------------- */

static void leftover(void *context, const char *path)
{
	const char *text = "a data file that no version ever held";

	if (strncmp(path, TDL__LOG_DIR "/", strlen(TDL__LOG_DIR) + 1) == 0)
		text = "a commit that was never published";
	else if (strncmp(path, TDL__INCOMING_DIR "/", strlen(TDL__INCOMING_DIR) + 1) == 0)
		text = "left by a process that died";
	tdl__check_problem(context, TDL_LEFTOVER, -1, path, 0, "%s", text);
}

/* A folder of _incoming that is being listed. */
struct folder {
	struct tdl__check *check;
	tdl__added *added;
	const char *name;
	bool foreign; /* nobody here can tell whether its process lives */
	bool others;  /* another user's: no mount of this one lists what is in it */
	uid_t owner;
};

static bool check_staged(void *context, const char *name)
{
	struct folder *folder = context;
	char path[512];
	enum tdl__fate fate;
	const char *staged_name;

	if (!tdl__staged_parse(name, &staged_name) && !tdl__moved_parse(name, &staged_name))
		return true;
	snprintf(path, sizeof path, TDL__INCOMING_DIR "/%s/%s", folder->name, name);
	if (tdl__added_fate(folder->added, name, &fate, NULL) < 0)
		fate = TDL__FATE_NONE;
	if (fate == TDL__FATE_LOST)
		tdl__check_problem(folder->check, TDL_LEFTOVER, -1, path, 0,
				   "left of a data file that is missing, which the next mount puts "
				   "back where it can");
	else if (fate == TDL__FATE_PUBLISHED)
		tdl__check_problem(folder->check, TDL_LEFTOVER, -1, path, 0,
				   "left of what was published");
	else if (folder->foreign)
		tdl__check_problem(folder->check, TDL_LEFTOVER, -1, path, 0,
				   "staged by another machine; if that is gone: tinydelta recover "
				   "%s --from %s",
				   folder->check->table->path, folder->name);
	else if (folder->others)
		tdl__check_problem(
			folder->check, TDL_LEFTOVER, -1, path, 0,
			"%s of user %ju that died; as root: tinydelta recover %s --from %s",
			*staged_name != '\0' ? "an incomplete drop of a process"
					     : "left by a process",
			(uintmax_t)folder->owner, folder->check->table->path, folder->name);
	/* Nameless ones of this user are vacuum's, and named by it. */
	else if (*staged_name != '\0')
		tdl__check_problem(folder->check, TDL_LEFTOVER, -1, path, 0,
				   "an incomplete drop of a process that died");
	return true;
}

/* A folder that is closed to this user: its process may live, which the kernel tells all; if it
 * does not, nobody knows what is in it. */
static void tell_closed(struct tdl__check *check, int incoming, const char *name)
{
	char path[512];
	struct stat st;

	if (tdl__sys_stat(incoming, name, &st) != 0 || !S_ISDIR(st.st_mode) ||
	    tdl__lock_holder(&st) != 0)
		return;
	snprintf(path, sizeof path, TDL__INCOMING_DIR "/%s", name);
	tdl__check_problem(check, TDL_LEFTOVER, -1, path, 0,
			   "of user %ju, who alone (and root) can look into it",
			   (uintmax_t)st.st_uid);
}

static bool check_folder(void *context, const char *name)
{
	struct folder folder = *(struct folder *)context;
	struct tdl__check *check = folder.check;
	struct tdl__dead dead CLEANUP(tdl__dead_close) = TDL__DEAD_NONE;
	int incoming CLEANUP(tdl__close_at) = -1;
	struct stat st;
	int err = tdl__sys_open(check->table->dir, TDL__INCOMING_DIR,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &incoming);

	folder.name = name;
	if (err != 0)
		return true;
	switch (tdl__folder_trylock(incoming, name, &dead)) {
	case TDL__FOLDER_BUSY:
		return true;
	case TDL__FOLDER_DEAD:
		break;
	case TDL__FOLDER_FOREIGN:
		/* Of a machine, or just something that lies there. */
		if (!tdl__folder_parse(name))
			return true;
		err = tdl__sys_open(incoming, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
				    &dead.dir);
		if (err == EACCES)
			tell_closed(check, incoming, name);
		if (err != 0)
			return true;
		folder.foreign = true;
		break;
	}
	if (tdl__sys_fstat(dead.dir, &st) == 0)
		folder.owner = st.st_uid;
	folder.others = !tdl__folder_is_ours(check->table, dead.dir);
	if (tdl__sys_list(dead.dir, check_staged, &folder) == EACCES)
		tell_closed(check, incoming, name);
	return true;
}

static int check_leftovers(struct tdl__check *check)
{
	tdl__added added CLEANUP(tdl__added_clear) = { .table = check->table };
	int incoming CLEANUP(tdl__close_at) = -1;
	int err, r = tdl_table_vacuum(check->table,
				      &(tdl_vacuum_options){ .size = sizeof(tdl_vacuum_options),
							     .dry_run = true },
				      leftover, check, check->error);

	/* Behind damage nobody knows what a version needs; that is told already. */
	if (r == TDL_ERR_CORRUPT)
		return 0;
	if (r < 0)
		return r;
	err = tdl__sys_open(check->table->dir, TDL__INCOMING_DIR,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &incoming);
	if (err == 0)
		err = tdl__sys_list(incoming, check_folder,
				    &(struct folder){ .check = check, .added = &added });
	if (err == EACCES) {
		tdl__check_problem(check, TDL_LEFTOVER, -1, TDL__INCOMING_DIR, 0,
				   "closed to this user: what is left in it is not known");
		return 0;
	}
	return err == 0 || err == ENOENT || err == ELOOP || err == ENOTDIR
		       ? 0
		       : tdl__fail_errno(check->error, err, "cannot list %s/" TDL__INCOMING_DIR,
					 check->table->path);
}

/* ---- Tags ---------------------------------------------------------------------------------- */

static bool check_tag(void *context, const tdl_tag *tag)
{
	char path[1024];

	if (tag->version < 0) {
		snprintf(path, sizeof path, TDL__TAGS_DIR "/%s", tag->name);
		tdl__check_problem(context, TDL_SUSPECT, -1, path, 0, "%s", tag->why);
	}
	return true;
}

static int check_tags(struct tdl__check *check)
{
	tdl_error why = { 0 };
	int r = tdl_table_tags(check->table, check_tag, check, &why);

	if (r == TDL_ERR_IO) {
		tdl__check_problem(check, TDL_SUSPECT, -1, TDL__TAGS_DIR, 0, "%s", why.message);
		return 0;
	}
	if (r < 0 && check->error)
		*check->error = why;
	return r;
}

static void free_table(tdl_table **table)
{
	tdl_table_free(*table);
}

int tdl_table_check(tdl_table *table, const tdl_check_options *options,
		    void (*found)(void *context, const tdl_problem *problem), void *context,
		    tdl_error *error)
{
	tdl_check_options own;
	struct tdl__check check = {
		.table = table,
		.options = &own,
		.found = found,
		.context = context,
		.broken = -1,
		.error = error,
	};
	/* What says that all is well must have seen it: the log, and no index. */
	tdl_table *replayed CLEANUP(free_table) = NULL;
	int r = TDL__OPTIONS_TAKE(&own, context, options, error);

	if (r == 0)
		r = tdl__table_replayed(table, &replayed, error);
	if (r < 0)
		return r;
	check.table = table = replayed;
	r = tdl__history_refresh_listed(&table->history, error);
	if (r < 0 && r != TDL_ERR_CORRUPT)
		return r;
	check.head = tdl_table_head(table);
	if (own.version > check.head && tdl_table_damage(table, NULL) == 0)
		return tdl__fail_at(error, TDL_ERR_NOT_FOUND, own.version, 0, 0,
				    "no such version: %" PRId64 " (%s has 0 to %" PRId64 ")",
				    own.version, table->path, check.head);
	r = check_log(&check);
	if (r == 0 && own.version < 0)
		check_lock(&check);
	if (own.version >= 0 && own.version < check.head)
		check.head = own.version;
	if (r == 0 && own.version <= check.head)
		r = tdl__check_data(&check);
	if (r == 0 && own.version < 0)
		r = check_tags(&check);
	if (r == 0 && own.version < 0)
		r = check_leftovers(&check);
	return r;
}
