/* SPDX-License-Identifier: MIT */
/*
 * Folders and files under _incoming/: making, naming, locking, removing. What is in the files does
 * not concern it.
 */
#include "commit/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <uuid/uuid.h>

#include "error.h"
#include "sys.h"

#define ID_MAX	  100
#define LOCK_FILE ".lock"
#define NAME_TAIL 32 /* bytes of the end of a long name that are kept */

/* ---- Names --------------------------------------------------------------------------------- */

/* The hex digits of an id in a file of the system, dashes dropped. */
static bool read_id(const char *path, char out[TDL__HEX_MAX])
{
	int fd CLEANUP(tdl__close_at) = open(path, O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
	uint8_t id[16];
	size_t at = 0;

	for (ssize_t i = 0; i < n && at < TDL__HEX_MAX - 1; i++) {
		if (text[i] != '-')
			out[at++] = text[i];
	}
	out[at] = '\0';
	return at == TDL__HEX_MAX - 1 && tdl__unhex(id, out);
}

/* Machines without an id of their own are told apart by their name. */
static void machine_id(char out[TDL__HEX_MAX])
{
	struct utsname uts;
	uuid_t space = { 0 }, id;

	if (read_id("/etc/machine-id", out))
		return;
	if (uname(&uts) < 0)
		strcpy(uts.nodename, "localhost");
	uuid_generate_sha1(id, space, uts.nodename, strlen(uts.nodename));
	tdl__hex(out, id);
}

static void boot_id(char out[TDL__HEX_MAX])
{
	if (!read_id("/proc/sys/kernel/random/boot_id", out))
		strcpy(out, "00000000000000000000000000000000");
}

/* "<machine>-<boot>-<16 random hex>". */
static void fresh_folder_name(char out[ID_MAX])
{
	char machine[TDL__HEX_MAX], boot[TDL__HEX_MAX], random[TDL__HEX_MAX];

	machine_id(machine);
	boot_id(boot);
	tdl__random_hex(random);
	snprintf(out, ID_MAX, "%s-%s-%.16s", machine, boot, random);
}

bool tdl__folder_parse(const char *name)
{
	uint8_t id[16];

	return strlen(name) == 82 && tdl__unhex(id, name) && name[32] == '-' &&
	       tdl__unhex(id, name + 33) && name[65] == '-';
}

/* Containers of one kernel have names of their own, but it is one kernel that keeps and shows their
 * locks. */
static bool of_this_boot(const char *folder)
{
	char boot[TDL__HEX_MAX];

	boot_id(boot);
	return memcmp(folder + 33, boot, 32) == 0 && strspn(boot, "0") < 32;
}

static bool of_this_machine(const char *folder)
{
	char machine[TDL__HEX_MAX];

	if (!tdl__folder_parse(folder))
		return false;
	if (of_this_boot(folder))
		return true;
	machine_id(machine);
	return memcmp(folder, machine, 32) == 0;
}

bool tdl__staged_parse(const char *name, const char **staged_name)
{
	uint8_t id[16];

	if (strlen(name) < 32 || !tdl__unhex(id, name) || (name[32] != '\0' && name[32] != '-'))
		return false;
	*staged_name = name[32] == '-' ? name + 33 : "";
	return true;
}

bool tdl__moved_parse(const char *name, const char **staged_name)
{
	uint8_t id[16];

	if (strlen(name) < 34 || !tdl__unhex(id, name) || name[TDL__MOVED_AT] != TDL__MOVED_MARK)
		return false;
	*staged_name = name + TDL__MOVED_AT + 1;
	return true;
}

/* ---- Folders ------------------------------------------------------------------------------- */

int tdl__cannot_stage(const tdl_table *table, int err, tdl_error *error)
{
	return tdl__fail_errno(error, err, "cannot stage files in %s/" TDL__INCOMING_DIR,
			       table->path);
}

static int open_dir(int dir, const char *name, int *fd)
{
	return tdl__sys_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, fd);
}

/* Of a folder of the table that does not have its name yet. */
#define INCOMING_TEMP TDL__INCOMING_DIR "."

bool tdl__incoming_is_temp(const char *name)
{
	uint8_t id[16];
	size_t n = strlen(INCOMING_TEMP);

	return strncmp(name, INCOMING_TEMP, n) == 0 && strlen(name) == n + 32 &&
	       tdl__unhex(id, name + n);
}

/* Makes it under a temporary name and gives it its own. Returns 0 or an errno, EEXIST and ENOTEMPTY
 * where another has it. */
static int make_and_rename(tdl_table *table, const char *name, mode_t mode)
{
	int fd CLEANUP(tdl__close_at) = -1;
	char temp[sizeof INCOMING_TEMP + TDL__HEX_MAX] = INCOMING_TEMP;
	tdl_error why = { 0 };
	int err;

	tdl__random_hex(temp + strlen(INCOMING_TEMP));
	err = tdl__sys_mkdir(table->dir, temp, 0700);
	if (err != 0)
		return err;
	err = open_dir(table->dir, temp, &fd);
	if (err == 0 && tdl__table_set_owner(table, fd, mode, &why) < 0)
		err = why.os_error != 0 ? why.os_error : EIO;
	if (err == 0) {
		err = tdl__sys_rename(table->dir, temp, table->dir, name, false);
		/* An empty one that another made just now gives way: its maker looks again. */
		if (err == EINVAL || err == ENOSYS || err == EOPNOTSUPP)
			err = tdl__sys_rename(table->dir, temp, table->dir, name, true);
	}
	if (err != 0)
		tdl__sys_rmdir(table->dir, temp);
	return err;
}

int tdl__make_folder(tdl_table *table, const char *name, mode_t mode, tdl_error *error)
{
	int err;

	/* A vacuum may take one that has no name yet for what a dead process left. */
	for (int tries = 0;; tries++) {
		err = make_and_rename(table, name, mode);
		if (err != ENOENT || tries == 100)
			break;
	}
	return err == 0 || err == EEXIST || err == ENOTEMPTY ? 0
							     : tdl__cannot_stage(table, err, error);
}

/* Opens _incoming, made where it is missing: the table's mode and group, and the sticky bit, so
 * that several users of one table do not remove each other's folders. */
static int open_incoming_dir(tdl_table *table, int *fd, tdl_error *error)
{
	int got CLEANUP(tdl__close_at) = -1;
	struct stat dir, st;
	mode_t mode;
	int r, err = tdl__sys_fstat(table->dir, &dir);

	if (err != 0)
		return tdl__cannot_stage(table, err, error);
	mode = (dir.st_mode & 02777) | S_ISVTX;
	err = open_dir(table->dir, TDL__INCOMING_DIR, &got);
	if (err == ENOENT) {
		r = tdl__make_folder(table, TDL__INCOMING_DIR, mode, error);
		if (r < 0)
			return r;
		err = open_dir(table->dir, TDL__INCOMING_DIR, &got);
	}
	if (err == 0)
		err = tdl__sys_fstat(got, &st);
	if (err != 0)
		return tdl__cannot_stage(table, err, error);
	/* The table was opened to more users since it was made. */
	if (((st.st_mode & 07777) != mode || st.st_gid != dir.st_gid) &&
	    (geteuid() == 0 || geteuid() == st.st_uid))
		tdl__table_set_owner(table, got, mode, NULL);
	*fd = tdl__steal_fd(&got);
	return 0;
}

static bool folder_has_file(int dir, const char *name, int fd)
{
	struct stat open, there;

	return tdl__sys_fstat(fd, &open) == 0 && tdl__sys_stat(dir, name, &there) == 0 &&
	       tdl__same_file(&open, &there);
}

/* Without locks nobody is taken for dead, either. */
static int lock(int fd)
{
	int err = tdl__sys_lock(fd, LOCK_EX | LOCK_NB);

	return err == EOPNOTSUPP || err == ENOSYS || err == ENOLCK ? 0 : err;
}

/* Makes a folder that nobody has, and locks it. What is_taken() says yes to: another process took
 * it for a dead one's in between. */
static int make_folder(tdl_table *table, int incoming, const char *name, int *dir, int *file)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
	int got CLEANUP(tdl__close_at) = -1, locked CLEANUP(tdl__close_at) = -1;
	struct stat st;
	int err = tdl__sys_mkdir(incoming, name, 0700);

	if (err == 0)
		err = open_dir(incoming, name, &got);
	if (err == 0)
		err = lock(got);
	/* What root's daemon leaves the table's owner can look into and remove; and where folders
	 * pass their group on, files in this one get the table's. */
	if (err == 0)
		err = tdl__sys_fstat(got, &st);
	if (err == 0)
		tdl__table_set_owner(table, got, (st.st_mode & S_ISGID) | 0700, NULL);
	if (err == 0)
		err = tdl__sys_open(got, LOCK_FILE, flags, 0600, &locked);
	if (err == 0 && geteuid() == 0)
		tdl__table_set_owner(table, locked, 0600, NULL);
	if (err == 0)
		err = lock(locked);
	if (err == 0 &&
	    (!folder_has_file(got, LOCK_FILE, locked) || !folder_has_file(incoming, name, got)))
		err = ENOENT;
	if (err != 0) {
		if (locked >= 0)
			tdl__sys_unlink(got, LOCK_FILE);
		tdl__sys_rmdir(incoming, name);
		return err;
	}
	*dir = tdl__steal_fd(&got);
	*file = tdl__steal_fd(&locked);
	return 0;
}

static bool is_taken(int err)
{
	return err == ENOENT || err == EEXIST || err == EWOULDBLOCK || err == ESTALE;
}

static int make_any_folder(tdl_table *table, int incoming, char name[ID_MAX], int *dir, int *file)
{
	int err;

	for (int tries = 0;; tries++) {
		fresh_folder_name(name);
		err = make_folder(table, incoming, name, dir, file);
		if (err == 0 || !is_taken(err) || tries == 100)
			return err;
	}
}

/* Makes a folder that was taken away anew, under the same descriptors; 0 also where another thread
 * has just done so, or it is there. */
static int renew(tdl_staging *staging)
{
	int incoming CLEANUP(tdl__close_at) = -1, dir CLEANUP(tdl__close_at) = -1,
		     locked CLEANUP(tdl__close_at) = -1;
	char name[ID_MAX];
	int err = 0;

	pthread_mutex_lock(&staging->renewing);
	if (!folder_has_file(staging->incoming, staging->name, staging->dir)) {
		if (open_incoming_dir(staging->table, &incoming, NULL) < 0)
			err = ENOENT;
		if (err == 0)
			err = make_any_folder(staging->table, incoming, name, &dir, &locked);
		if (err == 0 && (dup3(incoming, staging->incoming, O_CLOEXEC) < 0 ||
				 dup3(locked, staging->lock, O_CLOEXEC) < 0 ||
				 dup3(dir, staging->dir, O_CLOEXEC) < 0))
			err = errno;
		/* All such names are of one length. */
		if (err == 0)
			memcpy(staging->name, name, strlen(name));
	}
	pthread_mutex_unlock(&staging->renewing);
	return err;
}

int tdl_staging_open(tdl_table *table, tdl_staging **out, tdl_error *error)
{
	int incoming CLEANUP(tdl__close_at) = -1, dir CLEANUP(tdl__close_at) = -1,
		     locked CLEANUP(tdl__close_at) = -1;
	tdl_staging *staging;
	char name[ID_MAX];
	int r, err;

	if ((table->flags & TDL_OPEN_READ_ONLY) != 0)
		return tdl__fail(error, TDL_ERR_MISUSE, "%s was opened read-only", table->path);
	/* One that is gone was an empty one that gave way to another's. */
	for (int tries = 0;; tries++) {
		r = open_incoming_dir(table, &incoming, error);
		if (r < 0)
			return r;
		err = make_any_folder(table, incoming, name, &dir, &locked);
		if (err == 0)
			break;
		if (tries == 5 || folder_has_file(table->dir, TDL__INCOMING_DIR, incoming))
			return tdl__cannot_stage(table, err, error);
		close(tdl__steal_fd(&incoming));
	}
	staging = calloc(1, sizeof *staging);
	if (!staging || !(staging->name = strdup(name))) {
		free(staging);
		tdl__dead_remove(incoming, name, &(struct tdl__dead){ dir, locked });
		return tdl__fail_nomem(error);
	}
	pthread_mutex_init(&staging->renewing, NULL);
	pthread_mutex_init(&staging->memory_lock, NULL);
	pthread_cond_init(&staging->memory_left, NULL);
	staging->table = table;
	staging->incoming = tdl__steal_fd(&incoming);
	staging->dir = tdl__steal_fd(&dir);
	staging->lock = tdl__steal_fd(&locked);
	*out = staging;
	return 0;
}

void tdl_staging_free(tdl_staging *staging)
{
	if (!staging)
		return;
	tdl__dead_remove(staging->incoming, staging->name,
			 &(struct tdl__dead){ staging->dir, staging->lock });
	close(staging->lock);
	close(staging->dir);
	close(staging->incoming);
	pthread_mutex_destroy(&staging->renewing);
	pthread_mutex_destroy(&staging->memory_lock);
	pthread_cond_destroy(&staging->memory_left);
	free(staging->name);
	free(staging);
}

/* Whether the process of a folder has shown within the last minutes that it lives, by the date of
 * the file in it, or, where it has none yet, of the folder. */
static bool shows_life(int dir, int file)
{
	struct stat st;
	int64_t mtime;

	if (tdl__sys_fstat(file >= 0 ? file : dir, &st) != 0)
		return true;
	mtime = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	return tdl__now_ms() - mtime < TDL__LIFE_MS;
}

int tdl_staging_touch(tdl_staging *staging)
{
	int err = tdl__sys_set_mtime(staging->lock, tdl__now_ms());

	return err == 0 ? 0 : TDL_ERR_IO;
}

/* `by_hand`: who cannot lock here takes that upon himself. */
static bool cannot_lock(int fd, bool by_hand)
{
	return (by_hand ? lock(fd) : tdl__sys_lock(fd, LOCK_EX | LOCK_NB)) != 0;
}

static enum tdl__folder lock_folder(int incoming, const char *name, bool by_hand,
				    struct tdl__dead *dead)
{
	int dir CLEANUP(tdl__close_at) = -1, file CLEANUP(tdl__close_at) = -1;
	int err;

	if (open_dir(incoming, name, &dir) != 0)
		return TDL__FOLDER_FOREIGN;
	if (cannot_lock(dir, by_hand) || !folder_has_file(incoming, name, dir))
		return TDL__FOLDER_BUSY;
	/* Over a network an exclusive lock wants a file that may be written. */
	err = tdl__sys_open(dir, LOCK_FILE, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0, &file);
	if (err == EROFS)
		err = tdl__sys_open(dir, LOCK_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &file);
	if (err == 0 && (cannot_lock(file, by_hand) || !folder_has_file(dir, LOCK_FILE, file)))
		return TDL__FOLDER_BUSY;
	/* Its process died before it had made one; or it is not a folder of ours. */
	if (err != 0 && err != ENOENT)
		return TDL__FOLDER_BUSY;
	/* A machine before it booted; or a copy of it that runs beside it, with locks that are not
	 * shown here. */
	if (!by_hand && !of_this_boot(name) && shows_life(dir, file))
		return TDL__FOLDER_BUSY;
	dead->dir = tdl__steal_fd(&dir);
	dead->lock = tdl__steal_fd(&file);
	return TDL__FOLDER_DEAD;
}

enum tdl__folder tdl__folder_trylock(int incoming, const char *name, struct tdl__dead *dead)
{
	if (!of_this_machine(name))
		return TDL__FOLDER_FOREIGN;
	return lock_folder(incoming, name, false, dead);
}

enum tdl__folder tdl__folder_lock(int incoming, const char *name, struct tdl__dead *dead)
{
	return lock_folder(incoming, name, true, dead);
}

/* Root's daemon gives its folder to the table's owner. */
bool tdl__folder_is_ours(const tdl_table *table, int dir)
{
	struct stat folder, st;
	uid_t user = geteuid();

	return tdl__sys_fstat(dir, &folder) == 0 && (folder.st_mode & 022) == 0 &&
	       (folder.st_uid == user ||
		(user == 0 && tdl__sys_fstat(table->dir, &st) == 0 && st.st_uid == folder.st_uid));
}

void tdl__dead_close(struct tdl__dead *dead)
{
	if (dead->lock >= 0)
		close(dead->lock);
	if (dead->dir >= 0)
		close(dead->dir);
}

static bool is_only_lock(void *only, const char *name)
{
	return *(bool *)only = strcmp(name, LOCK_FILE) == 0;
}

void tdl__dead_remove(int incoming, const char *name, const struct tdl__dead *dead)
{
	bool only = true;

	/* What keeps its files keeps its lock. */
	if (tdl__sys_list(dead->dir, is_only_lock, &only) != 0 || !only)
		return;
	if (dead->lock >= 0)
		tdl__sys_unlink(dead->dir, LOCK_FILE);
	tdl__sys_rmdir(incoming, name);
}

/* ---- Files --------------------------------------------------------------------------------- */

tdl_staged *tdl__staged_new(tdl_staging *staging, char *file_name)
{
	tdl_staged *file = file_name ? calloc(1, sizeof *file) : NULL;

	if (!file) {
		free(file_name);
		return NULL;
	}
	file->staging = staging;
	file->fd = -1;
	file->file_name = file_name;
	pthread_mutex_init(&file->lock, NULL);
	return file;
}

/* Whether a character of UTF-8 goes on with this byte. */
static bool goes_on(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

/* The file's name in the folder. Of a long name the middle is left out: the beginning and the end
 * say whether it is temporary. To be freed; NULL: no memory. */
static char *file_name_of(const char *hex, const char *name)
{
	size_t length = name ? strlen(name) : 0;
	size_t head = TDL_STAGED_NAME_MAX - NAME_TAIL, tail;
	char *made = NULL;
	int n;

	if (!name)
		return strdup(hex);
	if (length <= TDL_STAGED_NAME_MAX)
		return asprintf(&made, "%s-%s", hex, name) < 0 ? NULL : made;
	tail = length - NAME_TAIL;
	for (int i = 0; i < 3 && goes_on(name[head]); i++)
		head--;
	for (int i = 0; i < 3 && goes_on(name[tail]); i++)
		tail++;
	n = asprintf(&made, "%s-%.*s%s", hex, (int)head, name, name + tail);
	return n < 0 ? NULL : made;
}

static int create(tdl_staging *staging, const char *hex, const char *name, tdl_staged **out,
		  tdl_error *error)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
	char random[TDL__HEX_MAX];
	tdl_staged *file;
	int err;

	if (!hex) {
		tdl__random_hex(random);
		hex = random;
	}
	file = tdl__staged_new(staging, file_name_of(hex, name));
	if (!file)
		return tdl__fail_nomem(error);
	memcpy(file->hex, hex, TDL__HEX_MAX);
	err = tdl__sys_open(staging->dir, file->file_name, flags, 0600, &file->fd);
	/* A failed commit of the same file can have left it behind. */
	if (err == EEXIST && !name && tdl__sys_unlink(staging->dir, file->file_name) == 0)
		err = tdl__sys_open(staging->dir, file->file_name, flags, 0600, &file->fd);
	if ((err == ENOENT || err == ESTALE) && renew(staging) == 0)
		err = tdl__sys_open(staging->dir, file->file_name, flags, 0600, &file->fd);
	if (err != 0) {
		tdl_staged_free(file);
		return tdl__cannot_stage(staging->table, err, error);
	}
	/* Root takes up again only what is its folder's owner's. */
	if (geteuid() == 0)
		tdl__table_set_owner(staging->table, file->fd, 0600, NULL);
	*out = file;
	return 0;
}

int tdl__staged_secure(tdl_staged *file, bool *again, tdl_error *error)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
	tdl_staging *staging = file->staging;
	int fd CLEANUP(tdl__close_at) = -1;
	struct stat st;
	int err;

	*again = false;
	if (!file->file_name || folder_has_file(staging->dir, file->file_name, file->fd))
		return 0;
	err = renew(staging);
	if (err == 0)
		err = tdl__sys_open(staging->dir, file->file_name, flags, 0600, &fd);
	if (err == 0)
		err = tdl__sys_fstat(file->fd, &st);
	if (err == 0)
		err = tdl__sys_copy(file->fd, fd, (uint64_t)st.st_size);
	if (err == 0 && dup3(fd, file->fd, O_CLOEXEC) < 0)
		err = errno;
	if (err != 0 && fd >= 0)
		tdl__sys_unlink(staging->dir, file->file_name);
	if (err != 0)
		return tdl__cannot_stage(staging->table, err, error);
	if (geteuid() == 0)
		tdl__table_set_owner(staging->table, file->fd, 0600, NULL);
	*again = true;
	return 0;
}

static int check_name(const char *name, tdl_error *error)
{
	if (strlen(name) > NAME_MAX) {
		tdl__fail_errno(error, ENAMETOOLONG, "%.80s...", name);
		if (error)
			error->code = TDL_ERR_LIMIT;
		return TDL_ERR_LIMIT;
	}
	if (*name == '\0' || strchr(name, '/'))
		return tdl__fail(error, TDL_ERR_MISUSE, "\"%s\" is not a file name", name);
	return 0;
}

int tdl_staged_create(tdl_staging *staging, const char *name, tdl_staged **out, tdl_error *error)
{
	int r = check_name(name, error);

	return r < 0 ? r : create(staging, NULL, name, out, error);
}

int tdl__staged_create_nameless(tdl_staging *staging, const char *hex, tdl_staged **out,
				tdl_error *error)
{
	return create(staging, hex, NULL, out, error);
}

void tdl_staged_free(tdl_staged *file)
{
	if (!file)
		return;
	if (file->validator)
		file->free_validator(file->validator);
	if (file->validator_memory > 0)
		atomic_fetch_sub(&file->staging->validator_memory, file->validator_memory);
	pthread_mutex_destroy(&file->lock);
	if (file->fd >= 0)
		close(file->fd);
	free(file->file_name);
	free(file->refused);
	free(file);
}

int tdl_staged_fd(const tdl_staged *file)
{
	return file->fd;
}

int tdl_staged_rename(tdl_staged *file, const char *name, tdl_error *error)
{
	char *renamed CLEANUP(tdl__free_at) = NULL;
	int r = check_name(name, error), why;

	if (r < 0)
		return r;
	if (!file->file_name)
		return tdl__fail(error, TDL_ERR_MISUSE, "the staged file is gone");
	renamed = file_name_of(file->hex, name);
	if (!renamed)
		return tdl__fail_nomem(error);
	pthread_mutex_lock(&file->lock);
	why = tdl__sys_rename(file->staging->dir, file->file_name, file->staging->dir, renamed,
			      true);
	if (why == 0) {
		char *old = file->file_name;

		file->file_name = tdl__steal(renamed);
		free(old);
	}
	pthread_mutex_unlock(&file->lock);
	return why == 0 ? 0 : tdl__cannot_stage(file->staging->table, why, error);
}

void tdl__staged_forget(tdl_staged *file)
{
	free(file->file_name);
	file->file_name = NULL;
}
