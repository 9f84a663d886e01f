/* SPDX-License-Identifier: MIT */
/*
 * Bytes and attributes of what is in incoming/: read, write, truncate, stat. Knows nothing of
 * when a file is finished; it counts the changes by which others decide that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "incoming/name_rules.h"
#include "incoming/state.h"

/* ---- Read --------------------------------------------------------------------------------- */

static int read_error_file(const struct tdfs_error_file *error_file, void *buffer, size_t size,
			   uint64_t offset, size_t *got)
{
	size_t left = offset < error_file->length ? error_file->length - (size_t)offset : 0;

	*got = size < left ? size : left;
	if (*got > 0)
		memcpy(buffer, error_file->text + offset, *got);
	return 0;
}

int tdfs_incoming_read(struct tdfs_incoming *in, struct tdfs_handle *handle, void *buffer,
		       size_t size, uint64_t offset, size_t *got)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);
	size_t done = 0;
	uint64_t base;
	int fd;

	if (!handle->reads)
		return EBADF;
	/* An error file's text never changes, a staged file is there as long as the handle. */
	if (!staged)
		return read_error_file((struct tdfs_error_file *)handle->node, buffer, size, offset,
				       got);
	tdfs_lock(in);
	base = staged->base;
	/* A copy: an old file may be closed by a write that comes after its commit. */
	fd = staged->fd < 0 ? -1 : dup(staged->fd);
	tdfs_unlock(in);
	if (fd < 0)
		return EIO;
	if (offset < base) {
		close(fd);
		return EPERM;
	}
	while (done < size) {
		ssize_t n = pread(fd, (char *)buffer + done, size - done,
				  (off_t)(offset - base + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && done == 0) {
			int err = errno;

			close(fd);
			return err;
		}
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(fd);
	*got = done;
	return 0;
}

/* ---- After a commit ----------------------------------------------------------------------- */

/* A committed staged file gets a fresh staged file, behind its committed bytes. Gives the lock up.
 */
static int reopen_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	char *name =
		staged->node.name
			? strdup(staged->node.name)
			: tdfs_free_name(in, staged->committed_name ? staged->committed_name : "?");
	struct tdfs_inode node = staged->node;
	void *file;
	int fd, err;

	if (!name)
		return ENOMEM;
	tdfs_unlock(in);
	err = in->backend.create(in->backend.context, name, &file, &fd);
	if (err == 0 && in->backend.own)
		in->backend.own(in->backend.context, file, node.uid, node.gid, node.mode);
	tdfs_lock(in);
	while (staged->using_file > 0)
		pthread_cond_wait(&in->change, &in->lock);
	if (err == 0 && staged->state != TDFS_COMMITTED)
		err = EAGAIN; /* somebody was faster: as well */
	if (err == 0 && !staged->node.name) {
		char *other = tdfs_free_name(in, name);

		if (!other || tdfs_inode_set_name(in, &staged->node, other) != 0)
			err = ENOMEM;
		free(other);
	}
	free(name);
	if (err && err != EAGAIN)
		return err;
	if (err == EAGAIN) {
		tdfs_unlock(in);
		in->backend.remove(in->backend.context, file);
		in->backend.free(in->backend.context, file);
		tdfs_lock(in);
		return 0;
	}
	tdfs_recent_leave(in, staged);
	tdfs_staged_discard(in, staged);
	staged->file = file;
	staged->fd = fd;
	staged->base += staged->size;
	staged->size = 0;
	staged->state = TDFS_OPEN;
	staged->answer = 0;
	tdfs_quota_add(in, staged);
	tdfs_inode_appears(&staged->node);
	in->changed = tdfs_time();
	return 0;
}

/* Makes a staged file ready for bytes at `offset` or a size of it. */
static int make_writable_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
				 const struct tdfs_caller *caller, bool appends, uint64_t offset)
{
	while (staged->state != TDFS_OPEN) {
		int err;

		if (!caller->may_wait)
			return TDFS_LATER;
		tdfs_staged_wait_unlocks(in, staged);
		if (staged->state != TDFS_COMMITTED)
			continue;
		if (!appends && offset < staged->base + staged->size)
			return EPERM;
		err = reopen_unlocks(in, staged);
		if (err)
			return err;
	}
	return appends || offset >= staged->base ? 0 : EPERM;
}

/* ---- Write -------------------------------------------------------------------------------- */

/* All of it, or as much as goes; an errno only where nothing went. */
static int write_staged_bytes(int fd, const char *buffer, size_t size, uint64_t at, size_t *done)
{
	*done = 0;
	while (*done < size) {
		ssize_t n = pwrite(fd, buffer + *done, size - *done, (off_t)(at + *done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return *done > 0 ? 0 : n < 0 ? errno : EIO;
		*done += (size_t)n;
	}
	return 0;
}

int tdfs_incoming_write_begin(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			      struct tdfs_handle *handle, int flags, const void *buffer,
			      size_t size, uint64_t offset, struct tdfs_written *written)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);
	bool appends = flags & O_APPEND;
	uint64_t before;
	int fd, err;

	if (!staged || !handle->writes)
		return EBADF;
	tdfs_lock(in);
	/* What the kernel appends it sends with the end as it knows it. Anywhere else belongs a
	 * write that was asked not to append (RWF_NOAPPEND). */
	if (offset < staged->base + staged->size ||
	    (offset > staged->base + staged->size && !staged->shrank))
		appends = false;
	err = make_writable_unlocks(in, staged, caller, appends, offset);
	if (err == 0 && offset > INT64_MAX - size)
		err = EFBIG;
	if (err) {
		tdfs_unlock(in);
		return err;
	}
	/* Each time: who wrote is forgotten when what was written is committed and its name goes.
	 */
	tdfs_client_add(in, staged, caller, true);
	tdfs_client_used(handle, caller, false);
	before = staged->size;
	written->at = appends ? before : offset - staged->base;
	/* From its beginning, by someone who came after the file was spoilt. */
	if (staged->incomplete && written->at == 0 && !appends &&
	    handle->serial > staged->incomplete_opens)
		tdfs_staged_rewritten(in, staged);
	if (written->at + size > staged->size)
		staged->size = written->at + size; /* the next one that appends goes behind */
	staged->writing++;
	staged->node.users++;
	written->staged = staged;
	fd = staged->fd;
	tdfs_unlock(in);

	if (in->backend.generation)
		written->generation = in->backend.generation(in->backend.context, staged->file);
	err = write_staged_bytes(fd, buffer, size, written->at, &written->done);

	tdfs_lock(in);
	staged->shrank |= written->done < size;
	if (written->done < size && staged->size == written->at + size)
		staged->size = written->done > 0 && written->at + written->done > before
				       ? written->at + written->done
				       : before;
	if (err)
		staged->failed = err;
	staged->changes++;
	staged->node.mtime = staged->node.ctime = tdfs_time();
	/* Feed the validator in reply order, at most one write behind. */
	while (staged->feeding)
		pthread_cond_wait(&in->change, &in->lock);
	staged->feeding = true;
	tdfs_unlock(in);
	return err;
}

void tdfs_incoming_write_end(struct tdfs_incoming *in, const void *buffer,
			     const struct tdfs_written *written)
{
	struct tdfs_staged *staged = written->staged;

	if (!staged)
		return;
	if (in->backend.written && written->done > 0)
		in->backend.written(in->backend.context, staged->file, written->generation, buffer,
				    written->done, written->at);
	tdfs_lock(in);
	staged->feeding = false;
	staged->node.users--;
	staged->writing--;
	pthread_cond_broadcast(&in->change);
	tdfs_inode_reap(in, &staged->node);
	tdfs_unlock(in);
}

int tdfs_incoming_write(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			struct tdfs_handle *handle, int flags, const void *buffer, size_t size,
			uint64_t offset, size_t *done)
{
	struct tdfs_written written = { 0 };
	int err = tdfs_incoming_write_begin(in, caller, handle, flags, buffer, size, offset,
					    &written);

	*done = written.done;
	tdfs_incoming_write_end(in, buffer, &written);
	return err;
}

int tdfs_incoming_sync(struct tdfs_incoming *in, const struct tdfs_caller *caller,
		       struct tdfs_handle *handle)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);
	int fd, err;

	if (!staged)
		return 0;
	if (!caller->may_wait)
		return TDFS_LATER;
	tdfs_lock(in);
	/* What is committed is durable already. */
	fd = staged->state == TDFS_COMMITTED || staged->fd < 0 ? -1 : dup(staged->fd);
	err = fd < 0 && staged->state != TDFS_COMMITTED ? EIO : 0;
	tdfs_unlock(in);
	if (fd < 0)
		return err;
	err = fsync(fd) == 0 ? 0 : errno;
	close(fd);
	if (err) {
		tdfs_lock(in);
		staged->failed = err;
		staged->changes++;
		tdfs_unlock(in);
	}
	return err;
}

/* ---- Attributes --------------------------------------------------------------------------- */

/* rm and find ask for what they are about to remove. Everybody else is told that it has gone. */
static bool is_gone(const struct tdfs_error_file *error_file, const struct tdfs_caller *caller)
{
	return error_file && error_file->removed && error_file->node.users == 0 && caller &&
	       error_file->remover_tid != caller->tid;
}

int tdfs_incoming_getattr(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
			  struct stat *st)
{
	struct tdfs_inode *node;
	int err = ESTALE;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (node && is_gone(tdfs_error_file_of(node), caller)) {
		err = ENOENT;
	} else if (node) {
		tdfs_inode_stat(node, st);
		err = 0;
	}
	tdfs_unlock(in);
	return err;
}

int tdfs_staged_truncate_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
				 uint64_t size)
{
	int err = tdfs_staged_open_fd_unlocks(in, staged);

	if (err)
		return err;
	tdfs_unlock(in);
	err = ftruncate(staged->fd, (off_t)size) == 0 ? 0 : errno;
	if (err == 0 && in->backend.cut)
		in->backend.cut(in->backend.context, staged->file, size);
	tdfs_lock(in);
	if (err == 0)
		staged->size = size;
	if (size == 0)
		staged->prepared = 0;
	return err;
}

static int set_size_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
			    const struct tdfs_caller *caller, off_t size)
{
	int err;

	if (size < 0)
		return EINVAL;
	if (staged->state == TDFS_COMMITTED && (uint64_t)size == staged->base + staged->size)
		return 0;
	err = make_writable_unlocks(in, staged, caller, false, (uint64_t)size);
	if (err)
		return err;
	if (staged->writing > 0 && !caller->may_wait)
		return TDFS_LATER;
	tdfs_staged_freeze_unlocks(in, staged);
	err = tdfs_staged_truncate_unlocks(in, staged, (uint64_t)size - staged->base);
	tdfs_staged_thaw(in, staged);
	/* Removed since the caller found it: the kernel looks once more. */
	if (err == EIO && !staged->file)
		return ESTALE;
	if (err)
		return err;
	staged->changes++;
	staged->node.mtime = tdfs_time();
	if (staged->size == 0) {
		staged->failed = 0;
		tdfs_staged_rewritten(in, staged);
	} else if (staged->error_file && !staged->incomplete && staged->writers == 0) {
		/* No close is on its way that would tell. */
		tdfs_error_file_set(
			in, staged,
			"its size was changed after it was refused; close it once more, or "
			"rename it, to have it tried again");
	}
	return 0;
}

int tdfs_incoming_setattr(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
			  const struct stat *change, unsigned what, struct stat *st)
{
	struct tdfs_inode *node;
	struct tdfs_staged *staged;
	struct timespec now = tdfs_time();
	int err = 0;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (!node) {
		tdfs_unlock(in);
		return ESTALE;
	}
	staged = tdfs_staged_of(node);
	node->users++;
	if (!staged)
		err = EPERM;
	else if (what & TDFS_SET_SIZE)
		err = set_size_unlocks(in, staged, caller, change->st_size);
	if (err == 0) {
		if (what & TDFS_SET_MODE)
			node->mode = change->st_mode & 0777;
		if (what & TDFS_SET_UID)
			node->uid = change->st_uid;
		if (what & TDFS_SET_GID)
			node->gid = change->st_gid;
		if (staged && staged->error_file) {
			staged->error_file->node.mode = node->mode & 0444;
			staged->error_file->node.uid = node->uid;
			staged->error_file->node.gid = node->gid;
			staged->error_file->node.ctime = now;
		}
		if (what & (TDFS_SET_ATIME | TDFS_SET_ATIME_NOW))
			node->atime = what & TDFS_SET_ATIME_NOW ? now : change->st_atim;
		if (what & (TDFS_SET_MTIME | TDFS_SET_MTIME_NOW))
			node->mtime = what & TDFS_SET_MTIME_NOW ? now : change->st_mtim;
		node->ctime = now;
		tdfs_inode_stat(node, st);
		/* What is being committed gets them when it is refused. */
		if (staged && staged->state == TDFS_OPEN &&
		    what & (TDFS_SET_MODE | TDFS_SET_UID | TDFS_SET_GID))
			tdfs_staged_keep_owner_unlocks(in, staged);
	}
	node->users--;
	tdfs_inode_reap(in, node);
	tdfs_unlock(in);
	return err;
}
