/* SPDX-License-Identifier: MIT */
/*
 * Open data files, kept for the next read. Knows one table's directory and file names, not
 * versions.
 */
#include "filecache.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "action.h"
#include "error.h"
#include "sys.h"
#include "util.h"

struct tdl__open_file {
	tdl__file_key key;
	char *odd; /* owned copy of key.odd, or NULL */
	int fd;
	unsigned holders;
	bool stale; /* no longer to be found: closed when the last holder gives it back */
	struct stat st;
	tdl__open_file *next;	       /* in its slot */
	tdl__open_file *newer, *older; /* while nobody holds it */
};

int tdl__filecache_init(tdl__filecache *cache, int dir, const char *table, tdl_error *error)
{
	struct rlimit limit;
	size_t max = 256;

	/* Half of what the process may open: the rest is for everything else it does. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		max = limit.rlim_cur / 2 < 4096 ? limit.rlim_cur / 2 : 4096;
	*cache = (tdl__filecache){ .dir = dir, .table = table, .max = max < 8 ? 8 : max };
	cache->slot_count = 1024;
	cache->slots = calloc(cache->slot_count, sizeof(tdl__open_file *));
	if (cache->slots == NULL)
		return tdl__fail_nomem(error);
	pthread_mutex_init(&cache->lock, NULL);
	return 0;
}

static void free_file(tdl__open_file *file)
{
	if (file == NULL)
		return;
	if (file->fd >= 0)
		close(file->fd);
	free(file->odd);
	free(file);
}

void tdl__filecache_free(tdl__filecache *cache)
{
	if (cache->slots == NULL)
		return;
	for (size_t i = 0; i < cache->slot_count; i++) {
		while (cache->slots[i] != NULL) {
			tdl__open_file *file = cache->slots[i];

			cache->slots[i] = file->next;
			free_file(file);
		}
	}
	free(cache->slots);
	pthread_mutex_destroy(&cache->lock);
	cache->slots = NULL;
}

static tdl__open_file **slot_of(tdl__filecache *cache, const tdl__file_key *key)
{
	return &cache->slots[tdl__file_key_hash(key) & (cache->slot_count - 1)];
}

/* Takes an idle file out of the order of use. */
static void unlist(tdl__filecache *cache, tdl__open_file *file)
{
	*(file->newer != NULL ? &file->newer->older : &cache->newest) = file->older;
	*(file->older != NULL ? &file->older->newer : &cache->oldest) = file->newer;
	file->newer = file->older = NULL;
}

/* Takes a file out of its slot, so that it is found no more. */
static void forget(tdl__filecache *cache, tdl__open_file *file)
{
	for (tdl__open_file **at = slot_of(cache, &file->key); *at != NULL; at = &(*at)->next) {
		if (*at == file) {
			*at = file->next;
			cache->count--;
			return;
		}
	}
}

/* Closes the file that was not used for longest. False: all are in use. */
static bool evict(tdl__filecache *cache)
{
	tdl__open_file *file = cache->oldest;

	if (file == NULL)
		return false;
	unlist(cache, file);
	forget(cache, file);
	free_file(file);
	return true;
}

static int unusable(tdl__filecache *cache, const char *path, const char *what, tdl_error *error)
{
	return tdl__fail(error, TDL_ERR_CORRUPT, "data file %s/%s %s", cache->table, path, what);
}

static int open_file(tdl__filecache *cache, const char *path, uint64_t size, int *fd,
		     struct stat *st, tdl_error *error)
{
	_cleanup_close_ int got = -1;
	int why = tdl__sys_open_beneath(cache->dir, path, &got, st);

	/* A file system over the network may have forgotten the file under its old handle. */
	if (why == ESTALE)
		why = tdl__sys_open_beneath(cache->dir, path, &got, st);
	while (why == EMFILE || why == ENFILE) {
		bool closed;

		pthread_mutex_lock(&cache->lock);
		closed = evict(cache);
		pthread_mutex_unlock(&cache->lock);
		if (!closed)
			break;
		why = tdl__sys_open_beneath(cache->dir, path, &got, st);
	}
	if (why == ENOENT || why == ENOTDIR)
		return unusable(cache, path, "is missing", error);
	if (why == ELOOP || why == EXDEV)
		return unusable(cache, path, "is reached through a symbolic link", error);
	if (why == ENXIO || why == ENODEV || (why == 0 && !S_ISREG(st->st_mode)))
		return unusable(cache, path, "is no regular file", error);
	if (why != 0)
		return tdl__fail_errno(error, why, "cannot open data file %s/%s", cache->table,
				       path);
	if ((uint64_t)st->st_size != size)
		return tdl__fail(error, TDL_ERR_CORRUPT,
				 "data file %s/%s has %jd bytes, the log says %" PRIu64,
				 cache->table, path, (intmax_t)st->st_size, size);
	*fd = tdl__steal_fd(&got);
	return 0;
}

/* With the lock held: takes a file that is open already. */
static tdl__open_file *take(tdl__filecache *cache, const tdl__file_key *key)
{
	for (tdl__open_file *file = *slot_of(cache, key); file != NULL; file = file->next) {
		if (!tdl__file_key_equal(&file->key, key))
			continue;
		if (file->holders++ == 0)
			unlist(cache, file);
		return file;
	}
	return NULL;
}

int tdl__filecache_get(tdl__filecache *cache, const tdl__file_key *key, uint64_t size,
		       tdl__open_file **out, tdl_error *error)
{
	char path[TDL__PATH_MAX + 1];
	tdl__open_file *file, *other;
	int r;

	pthread_mutex_lock(&cache->lock);
	file = take(cache, key);
	pthread_mutex_unlock(&cache->lock);
	if (file != NULL) {
		if ((uint64_t)file->st.st_size == size) {
			*out = file;
			return 0;
		}
		tdl__filecache_put(cache, file);
	}

	file = calloc(1, sizeof *file);
	if (file == NULL)
		return tdl__fail_nomem(error);
	file->fd = -1;
	file->key = *key;
	file->holders = 1;
	tdl__file_key_path(key, path);
	if (key->odd != NULL && (file->key.odd = file->odd = strdup(path)) == NULL) {
		free_file(file);
		return tdl__fail_nomem(error);
	}
	r = open_file(cache, path, size, &file->fd, &file->st, error);
	if (r < 0) {
		free_file(file);
		return r;
	}
	pthread_mutex_lock(&cache->lock);
	other = take(cache, key);
	if (other != NULL) {
		/* Another thread was faster, or the log now gives the file another size, and this
		 * one is the caller's alone. */
		if ((uint64_t)other->st.st_size == size) {
			free_file(file);
			file = other;
		} else {
			file->stale = true;
			pthread_mutex_unlock(&cache->lock);
			tdl__filecache_put(cache, other);
			*out = file;
			return 0;
		}
	} else {
		while (cache->count >= cache->max && evict(cache))
			;
		file->next = *slot_of(cache, key);
		*slot_of(cache, key) = file;
		cache->count++;
	}
	pthread_mutex_unlock(&cache->lock);
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
		*(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = file;
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
	return open_file(cache, path, size, fd, &st, error);
}

int tdl__open_file_read(tdl__filecache *cache, tdl__open_file *file, void *buffer, size_t n,
			uint64_t offset, tdl_error *error)
{
	char path[TDL__PATH_MAX + 1];
	struct stat now;
	size_t got;
	int why = tdl__sys_pread(file->fd, buffer, n, offset, &got);

	if (why == 0)
		why = tdl__sys_fstat(file->fd, &now);
	if (why == 0 && got == n && now.st_size == file->st.st_size &&
	    now.st_mtim.tv_sec == file->st.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == file->st.st_mtim.tv_nsec)
		return 0;

	tdl__file_key_path(&file->key, path);
	/* The next one who asks opens it anew and finds what is there then. */
	pthread_mutex_lock(&cache->lock);
	if (!file->stale) {
		forget(cache, file);
		file->stale = true;
	}
	pthread_mutex_unlock(&cache->lock);
	if (why != 0)
		return tdl__fail_errno(error, why, "cannot read data file %s/%s", cache->table,
				       path);
	return unusable(cache, path, "was changed while it was read", error);
}
