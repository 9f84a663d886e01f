/* SPDX-License-Identifier: MIT */
/*
 * Making and removing tags. A tag gets its name as a commit does: complete and durable under a
 * temporary name in the log first, then by one link, or by a rename where it takes the place of
 * another; so it is there whole, or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "commit/staging.h"
#include "commit/tablelock.h"
#include "error.h"
#include "log/log.h"
#include "log/revision.h"
#include "sys.h"
#include "table/tags.h"
#include "util/escape.h"
#include "util/utf8.h"

static int check_name(const char *name, tdl_error *error)
{
	char shown[160];

	if (tdl__tag_name_valid(name, strlen(name)))
		return 0;
	return tdl__fail(error, TDL_ERR_MISUSE,
			 "not a name for a tag: \"%s\"; one has at most %d bytes of UTF-8, none of "
			 "~^:@/ and no \"..\", does not begin with - or ., and means no version "
			 "already",
			 tdl__printable(shown, sizeof shown, name, strlen(name)), TDL__TAG_MAX);
}

static int check_writable(const tdl_table *table, tdl_error *error)
{
	if ((table->flags & TDL_OPEN_READ_ONLY) != 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	return 0;
}

static int cannot_tag(const tdl_table *table, const char *name, int err, tdl_error *error)
{
	return tdl__fail_errno(error, err, "cannot write %s/" TDL__TAGS_DIR "/%s", table->path,
			       name);
}

/* Opens the folder, made where it is missing with the mode and group of the table: who may write
 * to that may also replace the tags of others. */
static int open_folder(tdl_table *table, const char *name, int *dir, tdl_error *error)
{
	tdl_error why = { 0 };
	struct stat st;
	int err, r = tdl__tags_open(table, dir, error);

	if (r != TDL_ERR_NOT_FOUND)
		return r;
	err = tdl__sys_fstat(table->dir, &st);
	if (err == 0 && tdl__make_folder(table, TDL__TAGS_DIR, st.st_mode & 02777, &why) < 0)
		err = why.os_error != 0 ? why.os_error : EIO;
	if (err == 0)
		err = tdl__sys_fsync_dir(table->dir);
	return err == 0 ? tdl__tags_open(table, dir, error) : cannot_tag(table, name, err, error);
}

/* Under the lock: whether the version is there, and can be read. */
static int check_version(tdl_table *table, int64_t version, tdl_error *error)
{
	tdl_version_info info;
	int r = tdl__history_refresh(&table->history, error);

	if (r < 0 && r != TDL_ERR_CORRUPT)
		return r;
	if (version < 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "a tag needs a version");
	return tdl_table_version_info(table, version, &info, error);
}

static int write_temp(tdl_table *table, const char *temp, const tdl__text *text, struct stat *st)
{
	int fd CLEANUP(tdl__close_at) = -1;
	struct stat dir;
	int err = tdl__sys_fstat(table->dir, &dir);

	if (err == 0)
		err = tdl__sys_open(table->log_dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
				    0600, &fd);
	if (err != 0)
		return err;
	err = tdl__sys_write(fd, text->p, text->n);
	if (err == 0 && tdl__table_set_owner(table, fd, tdl__table_file_mode(&dir), NULL) < 0)
		err = EIO;
	if (err == 0)
		err = tdl__sys_fsync(fd);
	if (err == 0)
		err = tdl__sys_fstat(fd, st);
	return err;
}

/* Gives the temporary file the tag's name. */
static int name_tag(const tdl_table *table, int dir, const char *temp, const char *name,
		    bool replace, const struct stat *st)
{
	struct stat there;
	int err = replace ? tdl__sys_rename(table->log_dir, temp, dir, name, true)
			  : tdl__sys_link(table->log_dir, temp, dir, name);

	/* No hard links here. */
	if (!replace &&
	    (err == EPERM || err == EOPNOTSUPP || err == ENOSYS || err == EXDEV || err == EMLINK))
		err = tdl__sys_rename(table->log_dir, temp, dir, name, false);
	/* Over a network the answer to a first try can be lost. */
	if (err != 0 && tdl__sys_stat(dir, name, &there) == 0 && tdl__same_file(&there, st))
		err = 0;
	return err;
}

int tdl_table_tag(tdl_table *table, const char *name, int64_t version,
		  const tdl_tag_options *options, tdl_error *error)
{
	tdl_tag_options own;
	struct tdl__table_lock lock CLEANUP(tdl__table_unlock) = TDL__TABLE_UNLOCKED;
	tdl__text text CLEANUP(tdl__text_free) = { 0 };
	int dir CLEANUP(tdl__close_at) = -1;
	char temp[TDL__LOG_TEMP_MAX];
	struct stat st;
	int err, r = TDL__OPTIONS_TAKE(&own, replace, options, error);

	if (r == 0)
		r = check_name(name, error);
	if (r == 0)
		r = check_writable(table, error);
	if (r == 0 && own.message && !tdl__utf8_valid(own.message, strlen(own.message)))
		return tdl__fail(error, TDL_ERR_MISUSE, "the message is not UTF-8");
	if (r < 0)
		return r;
	tdl__tag_spell(table, version, tdl__now_ms(), own.user_name, own.message, &text);
	if (text.failed)
		return tdl__fail_nomem(error);
	if (text.n > TDL__TAG_FILE_MAX)
		return tdl__fail(error, TDL_ERR_LIMIT, "the message is too long for a tag");
	/* With it held no version goes away, and it is looked for with it held. */
	r = tdl__table_lock(table, NULL, &lock, error);
	if (r == 0)
		r = check_version(table, version, error);
	if (r == 0)
		r = open_folder(table, name, &dir, error);
	if (r < 0)
		return r;
	tdl__log_temp_name(temp, version);
	err = write_temp(table, temp, &text, &st);
	if (err == 0)
		err = name_tag(table, dir, temp, name, own.replace, &st);
	if (err == EEXIST)
		r = tdl__fail(error, TDL_ERR_EXISTS, "there is a tag of this name already: %s",
			      name);
	else if (err != 0)
		r = cannot_tag(table, name, err, error);
	else if ((err = tdl__sys_fsync_dir(dir)) != 0)
		r = tdl__fail_errno(error, err, "tagged, but the name %s may not be durable", name);
	tdl__sys_unlink(table->log_dir, temp);
	return r;
}

int tdl_table_untag(tdl_table *table, const char *name, tdl_error *error)
{
	struct tdl__table_lock lock CLEANUP(tdl__table_unlock) = TDL__TABLE_UNLOCKED;
	int dir CLEANUP(tdl__close_at) = -1;
	int err, r = check_name(name, error);

	if (r == 0)
		r = check_writable(table, error);
	if (r == 0)
		r = tdl__table_lock(table, NULL, &lock, error);
	if (r == 0)
		r = tdl__tags_open(table, &dir, error);
	if (r < 0)
		return r;
	err = tdl__sys_unlink(dir, name);
	if (err == ENOENT)
		return tdl__fail(error, TDL_ERR_NOT_FOUND, "no such tag: %s", name);
	if (err != 0)
		return cannot_tag(table, name, err, error);
	err = tdl__sys_fsync_dir(dir);
	return err == 0 ? 0
			: tdl__fail_errno(error, err,
					  "removed, but %s/" TDL__TAGS_DIR " may not be durable",
					  table->path);
}
