/* SPDX-License-Identifier: MIT */
/*
 * What the dead left under _incoming/: which of it may be taken over, and taking it over. How
 * folders are made and locked is staging.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "error.h"
#include "staging.h"
#include "sys.h"

struct adoption {
	tdl_staging *staging;
	void (*adopted)(void *context, tdl_staged *file, const char *name, int64_t mtime);
	void *context;
	unsigned busy;
	int from;    /* the dead folder, */
	uid_t owner; /* and whose it is */
	tdl_error *error;
	int result;
};

static int open_staged(const struct adoption *adoption, const char *name, int *fd, struct stat *st)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK;
	_cleanup_close_ int got = -1;
	int why = tdl__sys_open(adoption->from, name, O_RDWR | flags, 0, &got);

	/* It was about to be published, and readable to all, writable to none already. */
	if (why == EACCES && tdl__sys_open(adoption->from, name, O_RDONLY | flags, 0, &got) == 0 &&
	    tdl__sys_fstat(got, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == adoption->owner &&
	    tdl__sys_chmod(got, 0600) == 0) {
		close(tdl__steal_fd(&got));
		why = tdl__sys_open(adoption->from, name, O_RDWR | flags, 0, &got);
	}
	if (why == 0)
		why = tdl__sys_fstat(got, st);
	if (why == 0)
		*fd = tdl__steal_fd(&got);
	return why;
}

/* Takes one named file over into our folder and opens it. */
static int take_over(struct adoption *adoption, const char *name, const char *dropped)
{
	tdl_staging *staging = adoption->staging;
	_cleanup_close_ int fd = -1;
	tdl_staged *file;
	struct stat st;
	int why = open_staged(adoption, name, &fd, &st);

	/* Whatever else lies there is not ours to touch. */
	if (why == ENOENT || why == ELOOP || why == ENXIO || why == EISDIR ||
	    (why == 0 && (!S_ISREG(st.st_mode) || st.st_uid != adoption->owner)))
		return 0;
	if (why == 0)
		why = tdl__sys_rename(adoption->from, name, staging->dir, name, false);
	if (why == EINVAL || why == ENOSYS)
		why = tdl__sys_rename(adoption->from, name, staging->dir, name, true);
	if (why != 0)
		return tdl__cannot_stage(staging->table, why, adoption->error);
	file = tdl__staged_new(staging, strdup(name));
	if (file == NULL)
		return tdl__fail_nomem(adoption->error);
	file->fd = tdl__steal_fd(&fd);
	if ((st.st_mode & 07777) != 0600)
		tdl__sys_chmod(file->fd, 0600);
	memcpy(file->hex, name, TDL__HEX_MAX - 1);
	adoption->adopted(adoption->context, file, dropped,
			  (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
	return 0;
}

static bool adopt_file(void *context, const char *name)
{
	struct adoption *adoption = context;
	const char *dropped;
	tdl__file_key key = { .odd = NULL };

	if (!tdl__staged_parse(name, &dropped))
		return true;
	tdl__unhex(key.id, name);
	/* Nameless ones are of no use to anyone; published ones are the table's already. */
	if (*dropped == '\0' || tdl__history_ever_added(&adoption->staging->table->history, &key)) {
		tdl__sys_unlink(adoption->from, name);
		return true;
	}
	adoption->result = take_over(adoption, name, dropped);
	return adoption->result == 0;
}

static bool adopt_folder(void *context, const char *name)
{
	struct adoption *adoption = context;
	_cleanup_dead_ struct tdl__dead dead = TDL__DEAD_NONE;
	struct stat st;
	int why;

	if (strcmp(name, adoption->staging->name) == 0)
		return true;
	switch (tdl__folder_look(adoption->staging->incoming, name, &dead)) {
	case TDL__FOLDER_BUSY:
		adoption->busy++;
		return true;
	case TDL__FOLDER_FOREIGN:
		return true;
	case TDL__FOLDER_DEAD:
		break;
	}
	if (!tdl__folder_is_ours(adoption->staging->table, dead.dir) ||
	    tdl__sys_fstat(dead.dir, &st) != 0)
		return true;
	adoption->from = dead.dir;
	adoption->owner = st.st_uid;
	why = tdl__sys_list(dead.dir, adopt_file, adoption);
	if (why != 0)
		adoption->result =
			tdl__cannot_stage(adoption->staging->table, why, adoption->error);
	tdl__dead_remove(adoption->staging->incoming, name, &dead);
	return adoption->result == 0;
}

int tdl_staging_adopt(tdl_staging *staging,
		      void (*adopted)(void *context, tdl_staged *file, const char *name,
				      int64_t mtime),
		      void *context, unsigned *busy, tdl_error *error)
{
	struct adoption adoption = {
		.staging = staging, .adopted = adopted, .context = context, .error = error
	};
	int why, r = tdl__history_refresh(&staging->table->history, error);

	/* Behind damage nobody knows what was published: nothing is touched. */
	if (r < 0)
		return r;
	why = tdl__sys_list(staging->incoming, adopt_folder, &adoption);
	if (why != 0)
		return tdl__cannot_stage(staging->table, why, error);
	if (adoption.result == 0 && busy != NULL)
		*busy = adoption.busy;
	return adoption.result;
}
