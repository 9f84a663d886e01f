/* SPDX-License-Identifier: MIT */
/*
 * The lock of a table's writers: its file, waiting for it, and who has it. Knows nothing of
 * commits.
 */
#include "commit/tablelock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>

#include "error.h"
#include "log/log.h"
#include "sys.h"

unsigned tdl__table_lock_wait = 30000;

#define STEP_MAX 20 /* ms between two tries */
#define WAY_MS                                                                                     \
	1000	     /* a vacuum that waits asks writers to give way for so long, again and again, \
		      */
#define WAY_MAX 3000 /* and they do for no longer than this */

/* ---- Time ---------------------------------------------------------------------------------- */

static int64_t steady_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(unsigned ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

/* ---- The file ------------------------------------------------------------------------------ */

/* For those who may write to the table, whom the write bits of its directory name; and its owner.
 * Who may only read must not even open it: a shared lock would be enough to hold a vacuum up. */
static mode_t lock_mode(const struct stat *table)
{
	mode_t mode = 0600;

	if ((table->st_mode & S_IWGRP) != 0)
		mode |= 0060;
	if ((table->st_mode & S_IWOTH) != 0)
		mode |= 0006;
	return mode;
}

/* Made whole before it has its name: nobody finds it with another mode than it is to have. */
static int make_file(tdl_table *table, const struct stat *dir)
{
	int fd CLEANUP(tdl__close_at) = -1;
	char temp[TDL__LOG_TEMP_MAX];
	int err;

	tdl__log_temp_name(temp, 0);
	err = tdl__sys_open(table->log_dir, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600,
			    &fd);
	if (err != 0)
		return err;
	if (tdl__table_set_owner(table, fd, lock_mode(dir), NULL) < 0)
		err = EIO;
	if (err == 0)
		err = tdl__sys_link(table->log_dir, temp, table->log_dir, TDL__LOCK_NAME);
	/* No hard links here. */
	if (err != 0 && err != EEXIST)
		err = tdl__sys_rename(table->log_dir, temp, table->log_dir, TDL__LOCK_NAME, false);
	tdl__sys_unlink(table->log_dir, temp);
	return err == EEXIST ? 0 : err;
}

static int open_lock_file(tdl_table *table, const struct stat *dir, int *fd, struct stat *st)
{
	/* Over a network an exclusive lock wants a file that may be written. */
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	int got CLEANUP(tdl__close_at) = -1;
	int err = tdl__sys_open(table->log_dir, TDL__LOCK_NAME, flags, 0, &got);

	if (err == ENOENT) {
		err = make_file(table, dir);
		if (err == 0)
			err = tdl__sys_open(table->log_dir, TDL__LOCK_NAME, flags, 0, &got);
	}
	if (err == 0)
		err = tdl__sys_fstat(got, st);
	if (err != 0)
		return err;
	if (!S_ISREG(st->st_mode))
		return ELOOP;
	/* The table has been opened to more users, or its group is another now. */
	if (((st->st_mode & 0777) != lock_mode(dir) || st->st_gid != dir->st_gid) &&
	    (geteuid() == 0 || geteuid() == st->st_uid))
		tdl__table_set_owner(table, got, lock_mode(dir), NULL);
	*fd = tdl__steal_fd(&got);
	return 0;
}

/* ---- Who has it ---------------------------------------------------------------------------- */

/* What a vacuum that waits, or has waited, leaves in the file: until when writers are asked to
 * give way, in ms since 1970, and who asks. Empty otherwise. */
static bool read_text(int fd, char text[200], int64_t *until)
{
	char *end;
	size_t got;

	if (tdl__sys_pread(fd, text, 199, 0, &got) != 0 || got == 0)
		return false;
	text[got] = '\0';
	*until = strtoll(text, &end, 10);
	if (*end != ' ')
		return false;
	memmove(text, end + 1, strlen(end + 1) + 1);
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static void ask_for_way(int fd)
{
	struct utsname uts = { .nodename = "?" };
	char text[200];

	uname(&uts);
	snprintf(text, sizeof text, "%" PRId64 " a vacuum, process %ld on %.64s\n",
		 tdl__now_ms() + WAY_MS, (long)getpid(), uts.nodename);
	tdl__sys_put(fd, text, strlen(text));
}

/* Writers come without pause under load, and each can share the lock with the next. */
static void give_way(int fd, int64_t *way)
{
	char text[200];
	int64_t until, now;

	while (*way < WAY_MAX && read_text(fd, text, &until) && until > (now = tdl__now_ms()) &&
	       until - now <= WAY_MAX) {
		pause_ms(STEP_MAX);
		*way += STEP_MAX;
	}
}

pid_t tdl__lock_holder(const struct stat *st)
{
	FILE *locks = fopen("/proc/locks", "re");
	pid_t found = 0, likely = 0;
	char line[256];

	while (locks && found == 0 && fgets(line, sizeof line, locks)) {
		unsigned major, minor;
		unsigned long inode;
		long pid;

		if (sscanf(line, "%*u: FLOCK %*s %*s %ld %x:%x:%lu", &pid, &major, &minor,
			   &inode) != 4 ||
		    inode != st->st_ino || pid <= 0)
			continue;
		/* Some file systems show another device than stat() does. */
		likely = (pid_t)pid;
		if (makedev(major, minor) == st->st_dev)
			found = likely;
	}
	if (locks)
		fclose(locks);
	return found != 0 ? found : likely;
}

static int busy(const tdl_table *table, int fd, const struct stat *st, tdl_error *error)
{
	char who[200] = "another process", name[32], path[40], text[200];
	pid_t pid = tdl__lock_holder(st);
	FILE *comm;
	int64_t until;

	if (pid != 0) {
		snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
		comm = fopen(path, "re");
		if (!comm || !fgets(name, sizeof name, comm))
			strcpy(name, "?");
		if (comm)
			fclose(comm);
		name[strcspn(name, "\n")] = '\0';
		snprintf(who, sizeof who, "process %ld (%s)", (long)pid, name);
	} else if (read_text(fd, text, &until)) {
		memcpy(who, text, sizeof who);
	}
	return tdl__fail_errno(error, EAGAIN,
			       "%s holds %s/" TDL__LOG_DIR "/" TDL__LOCK_NAME
			       " and did not give it up in %u seconds: nothing was changed",
			       who, table->path, (tdl__table_lock_wait + 999) / 1000);
}

/* ---- Taking it ----------------------------------------------------------------------------- */

static bool cannot_be_had(int err)
{
	return err == EOPNOTSUPP || err == ENOSYS || err == EINVAL || err == ENOLCK ||
	       err == EBADF || err == EACCES || err == EPERM;
}

const char *tdl__table_lock_obstacle(const tdl_table *table)
{
	struct stat st;

	if (tdl__sys_stat(table->log_dir, TDL__LOCK_NAME, &st) != 0 || S_ISREG(st.st_mode))
		return NULL;
	return S_ISDIR(st.st_mode)    ? "a directory"
	       : S_ISLNK(st.st_mode)  ? "a symbolic link"
	       : S_ISFIFO(st.st_mode) ? "a FIFO"
	       : S_ISSOCK(st.st_mode) ? "a socket"
				      : "a device";
}

/* What a failed try means: 0, the table is written to without a lock. */
static int cannot_lock(const tdl_table *table, int err, tdl_error *error)
{
	/* Whoever may write to the log can have put anything there. */
	const char *obstacle = tdl__table_lock_obstacle(table);

	if (obstacle)
		return tdl__fail(error, TDL_ERR_IO,
				 "%s/" TDL__LOG_DIR "/" TDL__LOCK_NAME
				 " is %s where the lock of the table's writers belongs "
				 "(remove it): nothing was changed",
				 table->path, obstacle);
	if (cannot_be_had(err))
		return 0;
	return tdl__fail_errno(error, err, "cannot lock %s/" TDL__LOG_DIR "/" TDL__LOCK_NAME,
			       table->path);
}

static bool table_has_lock(const tdl_table *table, const struct stat *st)
{
	struct stat there;

	return tdl__sys_stat(table->log_dir, TDL__LOCK_NAME, &there) == 0 &&
	       tdl__same_file(&there, st);
}

/* For earlier releases, which know no other lock; they wait for it, we do not. */
static void lock_directory(const tdl_table *table, int operation, struct tdl__table_lock *lock)
{
	int fd CLEANUP(tdl__close_at) = -1;

	if (tdl__sys_open(table->dir, ".", O_RDONLY | O_DIRECTORY, 0, &fd) == 0 &&
	    tdl__sys_lock(fd, operation | LOCK_NB) == 0)
		lock->dir = tdl__steal_fd(&fd);
}

/* One try. EWOULDBLOCK: others have it; ESTALE: it is another file now. *lock->file is open. */
static int try_lock(tdl_table *table, const struct stat *dir, int operation, int64_t *way,
		    struct tdl__table_lock *lock, struct stat *st)
{
	int err = open_lock_file(table, dir, &lock->file, st);

	if (err == 0 && operation == LOCK_SH && st->st_size > 0)
		give_way(lock->file, way);
	if (err == 0)
		err = tdl__sys_lock(lock->file, operation | LOCK_NB);
	if (err == 0 && !table_has_lock(table, st))
		err = ESTALE;
	return err;
}

static void close_file(struct tdl__table_lock *lock)
{
	if (lock->file >= 0)
		close(lock->file);
	lock->file = -1;
}

static void release_lock(struct tdl__table_lock *lock)
{
	if (lock->asked && lock->file >= 0)
		tdl__sys_put(lock->file, "", 0);
	close_file(lock);
}

static int take_lock(tdl_table *table, int operation, const tdl_commit_options *options,
		     struct tdl__table_lock *lock, tdl_error *error)
{
	const int64_t end = steady_ms() + tdl__table_lock_wait;
	struct stat dir, st;
	int64_t way = 0;
	int err = tdl__sys_fstat(table->dir, &dir), r = 0;

	*lock = TDL__TABLE_UNLOCKED;
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot look at %s", table->path);
	for (unsigned step = 1;; step = step < STEP_MAX ? step * 2 : STEP_MAX) {
		err = try_lock(table, &dir, operation, &way, lock, &st);
		if (err == 0)
			break;
		if (err != EWOULDBLOCK && err != ESTALE && err != ENOENT) {
			lock->why = err;
			r = cannot_lock(table, err, error);
			break;
		}
		if (operation == LOCK_EX && err == EWOULDBLOCK) {
			ask_for_way(lock->file);
			lock->asked = true;
		}
		if (steady_ms() >= end) {
			r = err == EWOULDBLOCK ? busy(table, lock->file, &st, error)
					       : tdl__fail_errno(error, err,
								 "cannot lock %s/" TDL__LOG_DIR
								 "/" TDL__LOCK_NAME,
								 table->path);
			break;
		}
		if (options && options->stop && options->stop(options->context)) {
			r = tdl__fail(error, TDL_ERR_STOPPED, "stopped; nothing was committed");
			break;
		}
		close_file(lock);
		pause_ms(step);
	}
	if (r < 0 || err != 0)
		release_lock(lock);
	if (r == 0)
		lock_directory(table, operation, lock);
	return r;
}

int tdl__table_lock(tdl_table *table, const tdl_commit_options *options,
		    struct tdl__table_lock *lock, tdl_error *error)
{
	return take_lock(table, LOCK_SH, options, lock, error);
}

int tdl__table_lock_alone(tdl_table *table, struct tdl__table_lock *lock, tdl_error *error)
{
	return take_lock(table, LOCK_EX, NULL, lock, error);
}

void tdl__table_unlock(struct tdl__table_lock *lock)
{
	release_lock(lock);
	if (lock->dir >= 0)
		close(lock->dir);
	*lock = TDL__TABLE_UNLOCKED;
}
