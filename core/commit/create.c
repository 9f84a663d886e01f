/* SPDX-License-Identifier: MIT */
/*
 * Making a table: its directory, with those above it, and its first commit.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <uuid/uuid.h>

#include "commit/publish.h"
#include "error.h"
#include "sys.h"
#include "util/buf.h"

/* Makes the directories above `path` that are missing. *made gets the length of the first of
 * these, also on failure; 0: none were. */
static int make_parents(const char *path, size_t *made, tdl_error *error)
{
	char *copy CLEANUP(tdl__free_at) = strdup(path);
	char *slash;

	*made = 0;
	if (!copy)
		return tdl__fail_nomem(error);
	for (slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
		int err;

		if (slash[1] == '/')
			continue;
		if (slash[1] == '\0')
			break;
		*slash = '\0';
		err = tdl__sys_mkdir(AT_FDCWD, copy, 0777);
		if (err != 0 && err != EEXIST)
			return tdl__fail_errno(error, err, "cannot create %s", copy);
		if (err == 0 && *made == 0)
			*made = strlen(copy);
		*slash = '/';
	}
	return 0;
}

/* Removes the directories above `path` that make_parents() made, where nobody uses them. */
static void remove_parents(const char *path, size_t made)
{
	char *copy CLEANUP(tdl__free_at) = strdup(path);
	char *slash;

	while (made > 0 && copy && (slash = strrchr(copy, '/')) && (size_t)(slash - copy) >= made) {
		*slash = '\0';
		tdl__sys_rmdir(AT_FDCWD, copy);
	}
}

/* Makes the names in the directory that holds `path`, and in all above, durable. */
static int sync_parents(const char *path, tdl_error *error)
{
	char *copy CLEANUP(tdl__free_at) = realpath(path, NULL);

	if (!copy)
		return tdl__fail_errno(error, errno, "cannot resolve %s", path);
	for (char *slash = strrchr(copy, '/'); slash; slash = strrchr(copy, '/')) {
		int fd CLEANUP(tdl__close_at) = -1;
		int err;

		slash[slash == copy ? 1 : 0] = '\0';
		err = tdl__sys_open(AT_FDCWD, copy, O_RDONLY | O_DIRECTORY, 0, &fd);
		/* A directory that may be searched but not read held its names before. */
		if (err == 0)
			err = tdl__sys_fsync_dir(fd);
		else if (err == EACCES)
			err = 0;
		if (err != 0)
			return tdl__fail_errno(error, err, "cannot make %s durable", copy);
		if (slash == copy)
			return 0;
	}
	return 0;
}

static int first_commit(const char *path, const tdl_schema *schema,
			const tdl_commit_options *options, tdl__text *text, tdl_error *error)
{
	static const tdl_version_info nothing = { .version = -1 };
	char id[UUID_STR_LEN];
	uuid_t uuid;

	uuid_generate_random(uuid);
	uuid_unparse_lower(uuid, id);
	tdl__action_metadata(text, id, schema);
	tdl__commit_info(text, &(struct tdl__commit_info){
				       .timestamp = tdl__now_ms(),
				       .operation = "CREATE",
				       .read_version = -1,
				       .previous = -1,
				       .restored = -1,
				       .options = options,
			       });
	if (text->failed)
		return tdl__fail_nomem(error);
	return tdl__commit_check(path, text, &nothing, true, error);
}

/* Fills a table directory that was just made. */
static int write_first_commit(const char *path, const char *text, size_t length, tdl_error *error)
{
	int dir CLEANUP(tdl__close_at) = -1, log_dir CLEANUP(tdl__close_at) = -1;
	struct stat st;
	int r, err = tdl__sys_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &dir);

	if (err == 0)
		err = tdl__sys_fstat(dir, &st);
	if (err == 0)
		err = tdl__sys_mkdir(dir, TDL__LOG_DIR, 0777);
	if (err == 0)
		err = tdl__sys_open(dir, TDL__LOG_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
				    &log_dir);
	/* Its names must last before the first commit makes it a table. */
	if (err == 0)
		err = tdl__sys_fsync_dir(dir);
	r = err == 0 ? sync_parents(path, error)
		     : tdl__fail_errno(error, err, "cannot create %s", path);
	if (r == 0)
		r = tdl__publish_first(&(tdl__log){ log_dir, path }, text, length,
				       tdl__table_file_mode(&st), error);
	if (r < 0 && r != TDL_ERR_PUBLISHED && dir >= 0)
		tdl__sys_rmdir(dir, TDL__LOG_DIR);
	return r;
}

int tdl_table_create(const char *path, const tdl_schema *schema, const tdl_commit_options *options,
		     tdl_error *error)
{
	tdl__text text CLEANUP(tdl__text_free) = { 0 };
	struct stat st;
	tdl_commit_options own;
	size_t made;
	int err, r = tdl__commit_options_take(options, &own, error);

	if (r == 0)
		r = first_commit(path, schema, &own, &text, error);
	if (r < 0)
		return r;
	err = tdl__sys_stat(AT_FDCWD, path, &st);
	if (err == 0)
		return tdl__fail(error, TDL_ERR_EXISTS, "%s exists already", path);
	if (*path == '\0')
		return tdl__fail(error, TDL_ERR_MISUSE, "a table needs a path");
	r = make_parents(path, &made, error);
	if (r == 0) {
		err = tdl__sys_mkdir(AT_FDCWD, path, 0777);
		if (err == EEXIST)
			return tdl__fail(error, TDL_ERR_EXISTS, "%s exists already", path);
		if (err != 0)
			r = tdl__fail_errno(error, err, "cannot create %s", path);
	}
	if (r == 0) {
		r = write_first_commit(path, text.p, text.n, error);
		if (r < 0 && r != TDL_ERR_PUBLISHED)
			tdl__sys_rmdir(AT_FDCWD, path);
	}
	if (r < 0 && r != TDL_ERR_PUBLISHED)
		remove_parents(path, made);
	return r;
}
