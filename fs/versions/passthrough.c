/* SPDX-License-Identifier: MIT */
/*
 * Which open inodes the kernel reads by itself, and from what. Knows nothing of how the others are
 * read.
 *
 * An inode is kept while it has open handles, with or without a backing file, because the first one
 * decides for all. Our count is never below the kernel's, which lets go of a handle before it tells
 * us so.
 */
#include "versions/passthrough.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "msg.h"
#include "opts.h"
#include "util/hash.h"
#include "util/hashmap.h"

/* What one read request brings is not worth the calls that passthrough takes. */
#define WORTH TDFS_MAX_READ

/*
 * What the kernel reads by itself nobody compares with its checksums, so this is done before: at
 * once up to this size, which takes some 5 ms; a larger file has been read, and so compared, by
 * ourselves before.
 */
#define CHECK_AT_ONCE (UINT64_C(64) << 20)

struct inode {
	fuse_ino_t ino;
	unsigned handles;
	int backing;	/* the kernel's number of it; 0: none */
	int fd;		/* the data file; -1: none */
	struct stat st; /* of it when it was opened */
};

struct tdfs_passthrough {
	pthread_mutex_t lock; /* of all below */
	bool usable;	      /* as far as is known */
	bool told;
	tdl__hashmap inodes;
};

struct tdfs_passthrough *tdfs_passthrough_new(void)
{
	struct tdfs_passthrough *through = calloc(1, sizeof *through);

	if (through)
		pthread_mutex_init(&through->lock, NULL);
	return through;
}

static void free_inode(struct inode *inode)
{
	if (inode->fd >= 0)
		close(inode->fd);
	free(inode);
}

void tdfs_passthrough_free(struct tdfs_passthrough *through)
{
	if (!through)
		return;
	for (size_t i = 0; through->inodes.slots && i <= through->inodes.mask; i++)
		if (through->inodes.slots[i].value != 0)
			free_inode((struct inode *)through->inodes.slots[i].value);
	tdl__hashmap_clear(&through->inodes);
	pthread_mutex_destroy(&through->lock);
	free(through);
}

void tdfs_passthrough_init(struct tdfs_passthrough *through, struct fuse_conn_info *conn)
{
	if ((conn->capable & FUSE_CAP_PASSTHROUGH) == 0)
		return;
	conn->want |= FUSE_CAP_PASSTHROUGH;
	through->usable = true;
}

static uint64_t hash_of(fuse_ino_t ino)
{
	return tdl__hash(&ino, sizeof ino);
}

static struct tdl__slot *find_slot(const struct tdfs_passthrough *through, fuse_ino_t ino)
{
	struct tdl__slot *slot = tdl__hashmap_first(&through->inodes, hash_of(ino));

	while (slot && ((struct inode *)slot->value)->ino != ino)
		slot = tdl__hashmap_next(&through->inodes, slot);
	return slot;
}

static struct inode *find_inode(const struct tdfs_passthrough *through, fuse_ino_t ino)
{
	const struct tdl__slot *slot = find_slot(through, ino);

	return slot ? (struct inode *)slot->value : NULL;
}

/* Whether the bytes of a version are those of one file, and enough of them. */
static bool is_one_file(tdl_snapshot *snapshot)
{
	const tdl_version_info *info = tdl_snapshot_info(snapshot);
	tdl_error error;
	tdl_file file;

	return info->files == 1 && info->bytes >= WORTH &&
	       tdl_snapshot_file(snapshot, 0, &file, &error) == 0 && !file.lacks_newline;
}

/* Opens the data file and makes it known to the kernel; what fails here is told by reads. */
static void back(struct inode *inode, fuse_req_t req, tdl_snapshot *snapshot, bool *refused)
{
	bool checked;
	tdl_error error;

	*refused = false;
	if (tdl_snapshot_check_file(snapshot, 0, CHECK_AT_ONCE, &checked, &error) < 0 || !checked)
		return;
	if (tdl_snapshot_open_file(snapshot, 0, &inode->fd, &error) < 0) {
		inode->fd = -1;
		return;
	}
	if (fstat(inode->fd, &inode->st) == 0)
		inode->backing = fuse_passthrough_open(req, inode->fd);
	if (inode->backing > 0)
		return;
	*refused = true;
	inode->backing = 0;
	close(inode->fd);
	inode->fd = -1;
}

static int out_of_memory(tdl_error *error)
{
	*error = (tdl_error){ .code = TDL_ERR_NOMEM, .version = -1 };
	snprintf(error->message, sizeof error->message, "out of memory");
	return error->code;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether a date that a writer set ahead was put right. */
static bool was_put_right(const struct timespec *before, const struct timespec *now)
{
	return before->tv_sec > now->tv_sec && before->tv_sec > time(NULL);
}

enum state {
	SAME,
	TOUCHED, /* what it holds may be the same */
	CHANGED
};

/* What became of a data file since it was opened; *st is what it is now. With the lock held. */
static enum state inode_state(const struct inode *inode, struct stat *st)
{
	const struct stat *was = &inode->st;

	if (fstat(inode->fd, st) != 0 || st->st_size != was->st_size)
		return CHANGED;
	if (!is_same_time(&st->st_mtim, &was->st_mtim))
		return was_put_right(&was->st_mtim, &st->st_mtim) ? TOUCHED : CHANGED;
	return is_same_time(&st->st_ctim, &was->st_ctim) ? SAME : TOUCHED;
}

/*
 * Whether the data file that the kernel reads for an inode is what it was when it was opened. One
 * that only has another mode or name, or whose date was put right after its commit, is compared
 * once more: so it is said of what was read until now, unless somebody changed it to and fro.
 */
static bool is_as_it_was(struct tdfs_passthrough *through, fuse_ino_t ino, tdl_snapshot *snapshot)
{
	enum state state = SAME;
	struct inode *inode;
	struct stat st;
	tdl_error error;
	bool checked;

	pthread_mutex_lock(&through->lock);
	inode = find_inode(through, ino);
	if (inode && inode->backing > 0)
		state = inode_state(inode, &st);
	pthread_mutex_unlock(&through->lock);
	if (state != TOUCHED)
		return state == SAME;
	if (tdl_snapshot_check_file(snapshot, 0, UINT64_MAX, &checked, &error) < 0)
		return false;
	pthread_mutex_lock(&through->lock);
	inode = find_inode(through, ino);
	if (inode && inode->backing > 0 && inode->st.st_ino == st.st_ino)
		inode->st = st;
	pthread_mutex_unlock(&through->lock);
	return true;
}

static int was_changed(tdl_snapshot *snapshot, tdl_error *error)
{
	int64_t version = tdl_snapshot_info(snapshot)->version;
	tdl_file file;

	if (tdl_snapshot_file(snapshot, 0, &file, error) < 0)
		return error->code;

	*error = (tdl_error){ .code = TDL_ERR_CORRUPT, .version = version };
	snprintf(error->message, sizeof error->message,
		 "version %jd: data file %.400s was changed while it was read", (intmax_t)version,
		 file.path);
	return error->code;
}

int tdfs_passthrough_open(struct tdfs_passthrough *through, fuse_req_t req, fuse_ino_t ino,
			  tdl_snapshot *snapshot, struct fuse_file_info *fi, tdl_error *error)
{
	struct inode *fresh = NULL, *inode;
	bool refused = false, tell = false;
	int result = 0;

	if (!is_one_file(snapshot))
		return 0;
	pthread_mutex_lock(&through->lock);
	inode = find_inode(through, ino);
	if (!inode && through->usable) {
		/* Opening files is not for a lock that every open takes. */
		pthread_mutex_unlock(&through->lock);
		fresh = calloc(1, sizeof *fresh);
		if (!fresh)
			return out_of_memory(error);
		*fresh = (struct inode){ .ino = ino, .fd = -1 };
		back(fresh, req, snapshot, &refused);
		pthread_mutex_lock(&through->lock);
		inode = find_inode(through, ino);
	}
	if (refused)
		through->usable = false;
	/* Without memory for it this open is served by ourselves. */
	if (!inode && fresh && tdl__hashmap_add(&through->inodes, hash_of(ino), (uintptr_t)fresh)) {
		inode = fresh;
		fresh = NULL;
		tell = inode->backing > 0 && !through->told;
		through->told |= tell;
	}
	if (inode) {
		inode->handles++;
		fi->backing_id = inode->backing;
		/* There are no pages of it here; the kernel takes the mere wish for a mistake. */
		if (inode->backing > 0) {
			fi->keep_cache = 0;
			fi->noflush = 0;
		}
	}
	pthread_mutex_unlock(&through->lock);
	if (fresh) {
		/* Another thread was faster. */
		if (fresh->backing > 0)
			fuse_passthrough_close(req, fresh->backing);
		free_inode(fresh);
	}
	if (inode && !is_as_it_was(through, ino, snapshot)) {
		tdfs_passthrough_close(through, req, ino);
		result = was_changed(snapshot, error);
	}
	if (tell)
		tdfs_msg(LOG_INFO, "passthrough: the kernel reads large data files by itself");
	return result;
}

int tdfs_passthrough_check(struct tdfs_passthrough *through, fuse_ino_t ino, tdl_snapshot *snapshot,
			   tdl_error *error)
{
	return is_as_it_was(through, ino, snapshot) ? 0 : was_changed(snapshot, error);
}

void tdfs_passthrough_close(struct tdfs_passthrough *through, fuse_req_t req, fuse_ino_t ino)
{
	struct tdl__slot *slot;
	struct inode *inode;

	pthread_mutex_lock(&through->lock);
	slot = find_slot(through, ino);
	inode = slot ? (struct inode *)slot->value : NULL;
	if (inode && --inode->handles == 0)
		tdl__hashmap_remove(&through->inodes, slot);
	else
		inode = NULL;
	pthread_mutex_unlock(&through->lock);
	if (!inode)
		return;
	if (inode->backing > 0)
		fuse_passthrough_close(req, inode->backing);
	free_inode(inode);
}
