/* SPDX-License-Identifier: MIT */
/*
 * Open data files, kept for the next read. Knows one table's directory and file names, not
 * versions.
 */
#include "table/filecache.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "error.h"
#include "log/action.h"
#include "sys.h"
#include "util/util.h"

struct tdl__open_file {
	tdl__file_key key;
	char *named; /* owned copy of key.named, or NULL */
	int fd;
	unsigned holders;
	bool stale;	    /* no longer to be found: closed when the last holder gives it back */
	struct stat st;	    /* when it was opened */
	tdl__verify verify; /* where its commit gave sums */
	tdl__open_file *newer, *older; /* while nobody holds it */
};

/* Files that are remembered as right after they were closed. */
#define RIGHT_MAX ((size_t)4096)

int tdl__filecache_init(tdl__filecache *cache, int dir, const char *table, tdl_error *error)
{
	struct rlimit limit;
	size_t max = 256;

	/* Half of what the process may open: the rest is for everything else it does. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		max = limit.rlim_cur / 2 < 4096 ? limit.rlim_cur / 2 : 4096;
	*cache = (tdl__filecache){ .dir = dir, .table = table, .max = max < 8 ? 8 : max };
	pthread_mutex_init(&cache->lock, NULL);
	tdl__spares_init(&cache->spares);
	return 0;
}

static void free_file(tdl__open_file *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	tdl__verify_clear(&file->verify);
	free(file->named);
	free(file);
}

/* Where a file would be remembered that was found right. */
static tdl__right *right_of(const tdl__filecache *cache, const tdl__identity *what)
{
	return &cache->right[(what->inode ^ what->inode >> 12) % RIGHT_MAX];
}

/* With the lock held: before a file is closed. Without memory it is compared again. */
static void remember_file(tdl__filecache *cache, tdl__open_file *file)
{
	tdl__identity what;

	if (!tdl__verify_is_done(&file->verify, &what))
		return;
	if (!cache->right)
		cache->right = calloc(RIGHT_MAX, sizeof *cache->right);
	if (cache->right)
		*right_of(cache, &what) = (tdl__right){ what, file->verify.sums.crc };
}

static bool is_right(tdl__filecache *cache, const struct stat *st, uint32_t crc)
{
	tdl__identity what = tdl__identity_of(st);
	bool right;

	pthread_mutex_lock(&cache->lock);
	right = cache->right && right_of(cache, &what)->crc == crc &&
		tdl__identity_same(&right_of(cache, &what)->what, &what);
	pthread_mutex_unlock(&cache->lock);
	return right;
}

void tdl__filecache_free(tdl__filecache *cache)
{
	if (!cache->table)
		return;
	for (size_t i = 0; cache->open.slots && i <= cache->open.mask; i++)
		free_file((tdl__open_file *)cache->open.slots[i].value);
	tdl__hashmap_clear(&cache->open);
	free(cache->right);
	tdl__spares_free(&cache->spares);
	pthread_mutex_destroy(&cache->lock);
	cache->table = NULL;
}

/* Takes an idle file out of the order of use. */
static void unlist(tdl__filecache *cache, tdl__open_file *file)
{
	*(file->newer ? &file->newer->older : &cache->newest) = file->older;
	*(file->older ? &file->older->newer : &cache->oldest) = file->newer;
	file->newer = file->older = NULL;
}

/* Takes a file out of the cache, so that it is found no more. */
static void forget(tdl__filecache *cache, tdl__open_file *file)
{
	struct tdl__slot *slot = tdl__hashmap_first(&cache->open, tdl__file_key_hash(&file->key));

	while (slot && slot->value != (uintptr_t)file)
		slot = tdl__hashmap_next(&cache->open, slot);
	if (slot)
		tdl__hashmap_remove(&cache->open, slot);
}

/* Closes the file that was not used for longest. False: all are in use. */
static bool evict(tdl__filecache *cache)
{
	tdl__open_file *file = cache->oldest;

	if (!file)
		return false;
	unlist(cache, file);
	forget(cache, file);
	remember_file(cache, file);
	free_file(file);
	return true;
}

static int unusable(const tdl__filecache *cache, const char *path, const char *what,
		    tdl_error *error)
{
	return tdl__fail(error, TDL_ERR_CORRUPT, "data file %s/%s %s", cache->table, path, what);
}

/* What came of an attempt to open a data file or to look at it. */
static int check_stat(const tdl__filecache *cache, const char *path, int err, const struct stat *st,
		      uint64_t size, tdl_error *error)
{
	if (err == ENOENT || err == ENOTDIR)
		return unusable(cache, path, "is missing", error);
	if (err == ELOOP || err == EXDEV)
		return unusable(cache, path, "is reached through a symbolic link", error);
	if (err == ENXIO || err == ENODEV || (err == 0 && !S_ISREG(st->st_mode)))
		return unusable(cache, path, "is not a regular file", error);
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot open data file %s/%s", cache->table,
				       path);
	if ((uint64_t)st->st_size != size)
		return tdl__fail(error, TDL_ERR_CORRUPT,
				 "data file %s/%s has %jd bytes, the log says %" PRIu64,
				 cache->table, path, (intmax_t)st->st_size, size);
	return 0;
}

static int open_data_file(tdl__filecache *cache, const char *path, uint64_t size, int *fd,
			  struct stat *st, tdl_error *error)
{
	int got CLEANUP(tdl__close_at) = -1;
	int err = tdl__sys_open_beneath(cache->dir, path, &got, st);

	/* A file system over the network may have forgotten the file under its old handle. */
	if (err == ESTALE)
		err = tdl__sys_open_beneath(cache->dir, path, &got, st);
	while (err == EMFILE || err == ENFILE) {
		bool closed;

		pthread_mutex_lock(&cache->lock);
		closed = evict(cache);
		pthread_mutex_unlock(&cache->lock);
		if (!closed)
			break;
		err = tdl__sys_open_beneath(cache->dir, path, &got, st);
	}
	err = check_stat(cache, path, err, st, size, error);
	if (err == 0)
		*fd = tdl__steal_fd(&got);
	return err;
}

/* The log may say other things of a path later on: these are then other files to us. */
static bool is_promised(const tdl__open_file *file, uint64_t size, const tdl__sums *sums)
{
	const tdl__sums *had = &file->verify.sums;

	return (uint64_t)file->st.st_size == size && had->has_crc == sums->has_crc &&
	       had->crc == sums->crc && (had->blocks != NULL) == (sums->blocks != NULL);
}

/* With the lock held: takes a file that is open already. */
static tdl__open_file *take_file(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
				 const tdl__sums *sums)
{
	struct tdl__slot *slot = tdl__hashmap_first(&cache->open, tdl__file_key_hash(key));

	for (; slot; slot = tdl__hashmap_next(&cache->open, slot)) {
		tdl__open_file *file = (tdl__open_file *)slot->value;

		if (!is_promised(file, size, sums) || !tdl__file_key_equal(&file->key, key))
			continue;
		if (file->holders++ == 0)
			unlist(cache, file);
		return file;
	}
	return NULL;
}

static int open_for_cache(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
			  const tdl__sums *sums, tdl__open_file *file, tdl_error *error)
{
	char path[TDL__PATH_MAX + 1];
	int r;

	file->fd = -1;
	file->key = *key;
	file->holders = 1;
	tdl__file_key_path(key, path);
	if (key->named && !(file->key.named = file->named = strdup(path)))
		return tdl__fail_nomem(error);
	r = open_data_file(cache, path, size, &file->fd, &file->st, error);
	if (r == 0 && sums->has_crc &&
	    !tdl__verify_init(&file->verify, &cache->spares, size, sums, &file->st,
			      is_right(cache, &file->st, sums->crc)))
		r = tdl__fail_nomem(error);
	return r;
}

int tdl__filecache_get(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
		       const tdl__sums *sums, tdl__open_file **out, tdl_error *error)
{
	tdl__open_file *file, *other;
	int r;

	pthread_mutex_lock(&cache->lock);
	file = take_file(cache, key, size, sums);
	pthread_mutex_unlock(&cache->lock);
	if (file) {
		*out = file;
		return 0;
	}
	file = calloc(1, sizeof *file);
	if (!file)
		return tdl__fail_nomem(error);
	r = open_for_cache(cache, key, size, sums, file, error);
	if (r < 0) {
		free_file(file);
		return r;
	}
	pthread_mutex_lock(&cache->lock);
	other = take_file(cache, key, size, sums);
	if (other) {
		/* Another thread was faster. */
		free_file(file);
		file = other;
	} else {
		while (cache->open.count >= cache->max && evict(cache))
			;
		if (!tdl__hashmap_add(&cache->open, tdl__file_key_hash(key), (uintptr_t)file)) {
			free_file(file);
			file = NULL;
		}
	}
	pthread_mutex_unlock(&cache->lock);
	if (!file)
		return tdl__fail_nomem(error);
	*out = file;
	return 0;
}

void tdl__filecache_put(tdl__filecache *cache, tdl__open_file *file)
{
	bool last;

	pthread_mutex_lock(&cache->lock);
	last = --file->holders == 0 && file->stale;
	if (file->holders == 0 && !file->stale) {
		file->older = cache->newest;
		*(cache->newest ? &cache->newest->newer : &cache->oldest) = file;
		cache->newest = file;
	}
	pthread_mutex_unlock(&cache->lock);
	if (last)
		free_file(file);
}

int tdl__filecache_open(tdl__filecache *cache, const tdl__file_key *key, uint64_t size, int *fd,
			tdl_error *error)
{
	char path[TDL__PATH_MAX + 1];
	struct stat st;

	tdl__file_key_path(key, path);
	return open_data_file(cache, path, size, fd, &st, error);
}

int tdl__filecache_stat(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
			tdl_error *error)
{
	char path[TDL__PATH_MAX + 1];
	int fd CLEANUP(tdl__close_at) = -1;
	struct stat st;
	int err;

	tdl__file_key_path(key, path);
	/* A link on the way to it would not be seen. */
	if (strchr(path, '/'))
		return open_data_file(cache, path, size, &fd, &st, error);
	err = tdl__sys_stat(cache->dir, path, &st);
	if (err == 0)
		err = S_ISLNK(st.st_mode) ? ELOOP : tdl__sys_readable(cache->dir, path);
	return check_stat(cache, path, err, &st, size, error);
}

void tdl__open_file_stale(tdl__filecache *cache, tdl__open_file *file)
{
	pthread_mutex_lock(&cache->lock);
	if (!file->stale) {
		forget(cache, file);
		file->stale = true;
	}
	pthread_mutex_unlock(&cache->lock);
}

/* Says what a read came to that did not go well. */
static int read_failed(tdl__filecache *cache, tdl__open_file *file, int err, uint64_t wrong,
		       tdl_error *error)
{
	char path[TDL__PATH_MAX + 1];

	tdl__file_key_path(&file->key, path);
	if (err == ENOMEM)
		return tdl__fail_nomem(error);
	/* The next one who asks opens it anew and finds what is there then. */
	tdl__open_file_stale(cache, file);
	if (err > 0)
		return tdl__fail_errno(error, err, "cannot read data file %s/%s", cache->table,
				       path);
	if (err == TDL__VERIFY_CHANGED)
		return unusable(cache, path, "was changed while it was read", error);
	return tdl__fail(error, TDL_ERR_CORRUPT,
			 "data file %s/%s is not what its checksum in the log says, in the %" PRIu64
			 " bytes from %" PRIu64 " on",
			 cache->table, path, tdl__verify_length(&file->verify, wrong), wrong);
}

/* Of a file without sums only the dates can tell. */
static int read_unchecked(tdl__open_file *file, void *buffer, size_t n, uint64_t offset)
{
	struct stat now;
	size_t got;
	int err = tdl__sys_pread(file->fd, buffer, n, offset, &got);

	if (err == 0)
		err = tdl__sys_fstat(file->fd, &now);
	if (err == 0 && (got != n || now.st_size != file->st.st_size ||
			 now.st_mtim.tv_sec != file->st.st_mtim.tv_sec ||
			 now.st_mtim.tv_nsec != file->st.st_mtim.tv_nsec))
		err = TDL__VERIFY_CHANGED;
	return err;
}

int tdl__open_file_read(tdl__filecache *cache, tdl__open_file *file, void *buffer, size_t n,
			uint64_t offset, tdl_error *error)
{
	uint64_t wrong = 0;
	int err = TDL__VERIFY_CHANGED;

	if (!file->verify.sums.has_crc)
		err = read_unchecked(file, buffer, n, offset);
	else if (offset <= file->verify.size && n <= file->verify.size - offset)
		err = n > 0 ? tdl__verify_read(&file->verify, file->fd, buffer, n, offset, &wrong)
			    : 0;
	return err == 0 ? 0 : read_failed(cache, file, err, wrong, error);
}

int tdl__open_file_check(tdl__filecache *cache, tdl__open_file *file, uint64_t limit, bool *checked,
			 tdl__identity *was, tdl_error *error)
{
	uint64_t wrong = 0;
	int err;

	*checked = true;
	*was = tdl__identity_of(&file->st);
	if (!file->verify.sums.has_crc)
		return 0;
	err = tdl__verify_all(&file->verify, file->fd, limit, checked, was, &wrong);
	return err == 0 ? 0 : read_failed(cache, file, err, wrong, error);
}
