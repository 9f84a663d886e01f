/* SPDX-License-Identifier: MIT */
/*
 * What is kept of one staged file beside its bytes: a descriptor while it is needed, and in a file
 * of its own whose it is and why it was not committed. Folders and names are staging.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commit/staging.h"
#include "error.h"
#include "sys.h"
#include "util/escape.h"

#define ABOUT_SUFFIX   ".about"
#define ABOUT_NAME_MAX (TDL__HEX_MAX + sizeof ABOUT_SUFFIX)
#define ABOUT_MAX      (TDL_MESSAGE_MAX + 160)

/* ---- Descriptor ---------------------------------------------------------------------------- */

int tdl_staged_detach(tdl_staged *file)
{
	int fd = file->fd;

	file->fd = -1;
	return fd;
}

/* With the lock held. */
static int open_named_again(tdl_staged *file)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK;
	int dir = file->staging->dir, fd, err;

	if (file->fd >= 0)
		return 0;
	if (!file->file_name)
		return ENOENT;
	err = tdl__sys_open(dir, file->file_name, O_RDWR | flags, 0, &file->fd);
	/* It was ready to be published, which can be written by nobody. */
	if (err == EACCES && tdl__sys_open(dir, file->file_name, O_RDONLY | flags, 0, &fd) == 0) {
		if (tdl__sys_chmod(fd, 0600) == 0)
			err = tdl__sys_open(dir, file->file_name, O_RDWR | flags, 0, &file->fd);
		close(fd);
	}
	return err;
}

int tdl_staged_open(tdl_staged *file, tdl_error *error)
{
	int err;

	pthread_mutex_lock(&file->lock);
	err = open_named_again(file);
	pthread_mutex_unlock(&file->lock);
	return err == 0 ? 0 : tdl__cannot_stage(file->staging->table, err, error);
}

/* ---- What is known about it ---------------------------------------------------------------- */

/*
 * <32 hex>.about, in the same folder: "UID GID MODE" in the first line; then, where it was refused,
 * "SIZE TIME" of the file as it was, and the reason. That holds as long as the file is so still:
 * nobody has to take it away when bytes come.
 */

static void name_about(char name[ABOUT_NAME_MAX], const char *hex)
{
	snprintf(name, ABOUT_NAME_MAX, "%.32s" ABOUT_SUFFIX, hex);
}

bool tdl__about_parse(const char *name)
{
	uint8_t id[16];

	return strlen(name) == TDL__HEX_MAX - 1 + strlen(ABOUT_SUFFIX) && tdl__unhex(id, name) &&
	       strcmp(name + TDL__HEX_MAX - 1, ABOUT_SUFFIX) == 0;
}

void tdl__about_forget(tdl_staged *file)
{
	char name[ABOUT_NAME_MAX];

	if (!file->has_about)
		return;
	name_about(name, file->hex);
	tdl__sys_unlink(file->staging->dir, name);
	file->has_about = false;
}

/* With the lock held. */
static int write_about(tdl_staged *file)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
	int fd CLEANUP(tdl__close_at) = -1;
	char name[ABOUT_NAME_MAX], text[ABOUT_MAX];
	int n, err;

	name_about(name, file->hex);
	err = tdl__sys_open(file->staging->dir, name, flags, 0600, &fd);
	if (err != 0)
		return err;
	file->has_about = true;
	n = snprintf(text, sizeof text, "%u %u %o\n%s", file->uid, file->gid, file->mode,
		     file->refused ? file->refused : "");
	err = tdl__sys_write(fd, text, (size_t)n);
	/* Half of it might be taken for the whole. */
	if (err != 0)
		tdl__about_forget(file);
	return err;
}

int tdl_staged_own(tdl_staged *file, unsigned uid, unsigned gid, unsigned mode, tdl_error *error)
{
	int err;

	pthread_mutex_lock(&file->lock);
	file->uid = uid;
	file->gid = gid;
	file->mode = mode & 0777;
	err = !file->file_name ? 0 : write_about(file);
	pthread_mutex_unlock(&file->lock);
	return err == 0 ? 0 : tdl__cannot_stage(file->staging->table, err, error);
}

static int stat_state(const struct stat *st, char *out, size_t size)
{
	return snprintf(out, size, "%" PRId64 " %" PRId64 ".%09ld\n", (int64_t)st->st_size,
			(int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

int tdl_staged_refused(tdl_staged *file, const char *reason, tdl_error *error)
{
	char state[80], *refused = NULL;
	struct stat st;
	int err;

	pthread_mutex_lock(&file->lock);
	err = open_named_again(file);
	if (err == 0)
		err = tdl__sys_fstat(file->fd, &st);
	if (err == 0) {
		(void)stat_state(&st, state, sizeof state);
		if (asprintf(&refused, "%s%.*s\n", state, TDL_MESSAGE_MAX, reason) < 0)
			err = ENOMEM;
	}
	if (err == 0) {
		free(file->refused);
		file->refused = refused;
		err = write_about(file);
	}
	pthread_mutex_unlock(&file->lock);
	return err == 0 ? 0 : tdl__cannot_stage(file->staging->table, err, error);
}

bool tdl__about_reason(int dir, const char *hex, const struct stat *st, char out[TDL_MESSAGE_MAX])
{
	int fd CLEANUP(tdl__close_at) = -1;
	char name[ABOUT_NAME_MAX], text[ABOUT_MAX + 1], state[80], *second, *end;
	size_t got = 0, n = (size_t)stat_state(st, state, sizeof state);

	name_about(name, hex);
	if (tdl__sys_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd) != 0 ||
	    tdl__sys_pread(fd, text, sizeof text - 1, 0, &got) != 0)
		return false;
	text[got] = '\0';
	second = strchr(text, '\n');
	if (!second || strncmp(++second, state, n) != 0 || !(end = strchr(second + n, '\n')))
		return false;
	*end = '\0';
	tdl__printable(out, TDL_MESSAGE_MAX, second + n, strlen(second + n));
	return true;
}

void tdl__about_take(tdl_staged *file, int from, const struct stat *st, tdl_left *left)
{
	int fd CLEANUP(tdl__close_at) = -1;
	char name[ABOUT_NAME_MAX], text[ABOUT_MAX + 1], state[80], *second;
	unsigned uid, gid, mode;
	size_t got = 0, n = (size_t)stat_state(st, state, sizeof state);

	left->uid = st->st_uid;
	left->gid = st->st_gid;
	left->mode = 0600;
	left->reason = NULL;
	name_about(name, file->hex);
	if (tdl__sys_open(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd) == 0 &&
	    tdl__sys_pread(fd, text, sizeof text - 1, 0, &got) == 0 && got > 0 &&
	    !memchr(text, '\0', got) && text[got - 1] == '\n') {
		text[got] = '\0';
		second = strchr(text, '\n') + 1;
		if (sscanf(text, "%u %u %o", &uid, &gid, &mode) == 3) {
			left->uid = uid;
			left->gid = gid;
			left->mode = mode & 0777;
		}
		if (strncmp(second, state, n) == 0 && strchr(second + n, '\n') == text + got - 1)
			file->refused = strdup(second);
	}
	if (file->refused) {
		snprintf(text, sizeof text, "%s", file->refused + n);
		text[strlen(text) - 1] = '\0';
		left->reason = strdup(text);
	}
	file->uid = left->uid;
	file->gid = left->gid;
	file->mode = left->mode;
	if (fd >= 0 && tdl__sys_rename(from, name, file->staging->dir, name, true) == 0)
		file->has_about = true;
}

int tdl_staged_remove(tdl_staged *file, tdl_error *error)
{
	int err = 0;

	pthread_mutex_lock(&file->lock);
	if (file->file_name)
		err = tdl__sys_unlink(file->staging->dir, file->file_name);
	if (err == 0 || err == ENOENT) {
		tdl__staged_forget(file);
		tdl__about_forget(file);
		err = 0;
	}
	pthread_mutex_unlock(&file->lock);
	return err == 0 ? 0 : tdl__cannot_stage(file->staging->table, err, error);
}
