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

static int read_note(const struct tdfs_note *note, void *buffer, size_t size, uint64_t offset,
		     size_t *got)
{
	size_t left = offset < note->length ? note->length - (size_t)offset : 0;

	*got = size < left ? size : left;
	if (*got > 0)
		memcpy(buffer, note->text + offset, *got);
	return 0;
}

int tdfs_incoming_read(struct tdfs_incoming *in, struct tdfs_handle *handle, void *buffer,
		       size_t size, uint64_t offset, size_t *got)
{
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);
	size_t done = 0;
	uint64_t base;
	int fd;

	if (!handle->reads)
		return EBADF;
	/* A note's text never changes, a drop is there as long as the handle. */
	if (!drop)
		return read_note((struct tdfs_note *)handle->node, buffer, size, offset, got);
	tdfs_lock(in);
	base = drop->base;
	/* A copy: an old file may be closed by a write that comes after its publish. */
	fd = drop->fd < 0 ? -1 : dup(drop->fd);
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
			int why = errno;

			close(fd);
			return why;
		}
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(fd);
	*got = done;
	return 0;
}

/* ---- After a publish ---------------------------------------------------------------------- */

/* A published drop gets a fresh staged file, behind its published bytes. Gives the lock up. */
static int reopen(struct tdfs_incoming *in, struct tdfs_drop *drop)
{
	char *name = drop->node.name ? strdup(drop->node.name)
				     : tdfs_free_name(in, drop->published ? drop->published : "?");
	struct tdfs_inode node = drop->node;
	void *file;
	int fd, why;

	if (!name)
		return ENOMEM;
	tdfs_unlock(in);
	why = in->backend.create(in->backend.context, name, &file, &fd);
	if (why == 0 && in->backend.own)
		in->backend.own(in->backend.context, file, node.uid, node.gid, node.mode);
	tdfs_lock(in);
	while (drop->using_file > 0)
		pthread_cond_wait(&in->change, &in->lock);
	if (why == 0 && drop->state != TDFS_PUBLISHED)
		why = EAGAIN; /* somebody was faster: as well */
	if (why == 0 && !drop->node.name) {
		char *other = tdfs_free_name(in, name);

		if (!other || tdfs_inode_set_name(in, &drop->node, other) != 0)
			why = ENOMEM;
		free(other);
	}
	free(name);
	if (why && why != EAGAIN)
		return why;
	if (why == EAGAIN) {
		tdfs_unlock(in);
		in->backend.remove(in->backend.context, file);
		in->backend.free(in->backend.context, file);
		tdfs_lock(in);
		return 0;
	}
	tdfs_ghost_leave(in, drop);
	tdfs_drop_discard(in, drop);
	drop->file = file;
	drop->fd = fd;
	drop->base += drop->size;
	drop->size = 0;
	drop->state = TDFS_OPEN;
	drop->answer = 0;
	tdfs_inode_appears(&drop->node);
	in->changed = tdfs_time();
	return 0;
}

/* Makes a drop ready for bytes at `offset` or a size of it. */
static int make_writable(struct tdfs_incoming *in, struct tdfs_drop *drop,
			 const struct tdfs_caller *caller, bool appends, uint64_t offset)
{
	while (drop->state != TDFS_OPEN) {
		int why;

		if (!caller->may_wait)
			return TDFS_LATER;
		tdfs_drop_wait(in, drop);
		if (drop->state != TDFS_PUBLISHED)
			continue;
		if (!appends && offset < drop->base + drop->size)
			return EPERM;
		why = reopen(in, drop);
		if (why)
			return why;
	}
	return appends || offset >= drop->base ? 0 : EPERM;
}

/* ---- Write -------------------------------------------------------------------------------- */

/* All of it, or as much as goes; an errno only where nothing went. */
static int write_all(int fd, const char *buffer, size_t size, uint64_t at, size_t *done)
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
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);
	bool appends = flags & O_APPEND;
	uint64_t before;
	int fd, why;

	if (!drop || !handle->writes)
		return EBADF;
	tdfs_lock(in);
	/* What the kernel appends it sends with the end as it knows it. Anywhere else belongs a
	 * write that was asked not to append (RWF_NOAPPEND). */
	if (offset < drop->base + drop->size || (offset > drop->base + drop->size && !drop->shrank))
		appends = false;
	why = make_writable(in, drop, caller, appends, offset);
	if (why == 0 && offset > INT64_MAX - size)
		why = EFBIG;
	if (why) {
		tdfs_unlock(in);
		return why;
	}
	/* Each time: who wrote is forgotten when what was written is published and its name goes.
	 */
	tdfs_people_note(in, drop, caller, true);
	tdfs_people_used(handle, caller, false);
	before = drop->size;
	written->at = appends ? before : offset - drop->base;
	/* From its beginning, by someone who came after the file was spoilt. */
	if (drop->taint && written->at == 0 && !appends && handle->serial > drop->tainted)
		tdfs_drop_rewritten(in, drop);
	if (written->at + size > drop->size)
		drop->size = written->at + size; /* the next one that appends goes behind */
	drop->writing++;
	drop->node.users++;
	written->drop = drop;
	fd = drop->fd;
	tdfs_unlock(in);

	if (in->backend.generation)
		written->generation = in->backend.generation(in->backend.context, drop->file);
	why = write_all(fd, buffer, size, written->at, &written->done);

	tdfs_lock(in);
	drop->shrank |= written->done < size;
	if (written->done < size && drop->size == written->at + size)
		drop->size = written->done > 0 && written->at + written->done > before
				     ? written->at + written->done
				     : before;
	if (why)
		drop->failed = why;
	drop->changes++;
	drop->node.mtime = drop->node.ctime = tdfs_time();
	/* They are told in the order in which they are answered, one behind at most. */
	while (drop->telling)
		pthread_cond_wait(&in->change, &in->lock);
	drop->telling = true;
	tdfs_unlock(in);
	return why;
}

void tdfs_incoming_write_end(struct tdfs_incoming *in, const void *buffer,
			     const struct tdfs_written *written)
{
	struct tdfs_drop *drop = written->drop;

	if (!drop)
		return;
	if (in->backend.written && written->done > 0)
		in->backend.written(in->backend.context, drop->file, written->generation, buffer,
				    written->done, written->at);
	tdfs_lock(in);
	drop->telling = false;
	drop->node.users--;
	drop->writing--;
	pthread_cond_broadcast(&in->change);
	tdfs_inode_settle(in, &drop->node);
	tdfs_unlock(in);
}

int tdfs_incoming_write(struct tdfs_incoming *in, const struct tdfs_caller *caller,
			struct tdfs_handle *handle, int flags, const void *buffer, size_t size,
			uint64_t offset, size_t *done)
{
	struct tdfs_written written = { 0 };
	int why = tdfs_incoming_write_begin(in, caller, handle, flags, buffer, size, offset,
					    &written);

	*done = written.done;
	tdfs_incoming_write_end(in, buffer, &written);
	return why;
}

int tdfs_incoming_sync(struct tdfs_incoming *in, const struct tdfs_caller *caller,
		       struct tdfs_handle *handle)
{
	struct tdfs_drop *drop = tdfs_drop_of(handle->node);
	int fd, why;

	if (!drop)
		return 0;
	if (!caller->may_wait)
		return TDFS_LATER;
	tdfs_lock(in);
	/* What is published is durable already. */
	fd = drop->state == TDFS_PUBLISHED || drop->fd < 0 ? -1 : dup(drop->fd);
	why = fd < 0 && drop->state != TDFS_PUBLISHED ? EIO : 0;
	tdfs_unlock(in);
	if (fd < 0)
		return why;
	why = fsync(fd) == 0 ? 0 : errno;
	close(fd);
	if (why) {
		tdfs_lock(in);
		drop->failed = why;
		drop->changes++;
		tdfs_unlock(in);
	}
	return why;
}

/* ---- Attributes --------------------------------------------------------------------------- */

/* rm and find ask for what they are about to remove. Everybody else is told that it has gone. */
static bool is_gone(const struct tdfs_note *note, const struct tdfs_caller *caller)
{
	return note && note->removed && note->node.users == 0 && caller &&
	       note->remover_tid != caller->tid;
}

int tdfs_incoming_getattr(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
			  struct stat *st)
{
	struct tdfs_inode *node;
	int why = ESTALE;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (node && is_gone(tdfs_note_of(node), caller)) {
		why = ENOENT;
	} else if (node) {
		tdfs_inode_stat(node, st);
		why = 0;
	}
	tdfs_unlock(in);
	return why;
}

int tdfs_drop_cut(struct tdfs_incoming *in, struct tdfs_drop *drop, uint64_t size)
{
	int why = tdfs_drop_wake(in, drop);

	if (why)
		return why;
	tdfs_unlock(in);
	why = ftruncate(drop->fd, (off_t)size) == 0 ? 0 : errno;
	if (why == 0 && in->backend.cut)
		in->backend.cut(in->backend.context, drop->file, size);
	tdfs_lock(in);
	if (why == 0)
		drop->size = size;
	if (size == 0)
		drop->prepared = 0;
	return why;
}

static int set_size(struct tdfs_incoming *in, struct tdfs_drop *drop,
		    const struct tdfs_caller *caller, off_t size)
{
	int why;

	if (size < 0)
		return EINVAL;
	if (drop->state == TDFS_PUBLISHED && (uint64_t)size == drop->base + drop->size)
		return 0;
	why = make_writable(in, drop, caller, false, (uint64_t)size);
	if (why)
		return why;
	if (drop->writing > 0 && !caller->may_wait)
		return TDFS_LATER;
	tdfs_drop_freeze(in, drop);
	why = tdfs_drop_cut(in, drop, (uint64_t)size - drop->base);
	tdfs_drop_thaw(in, drop);
	/* Removed since the caller found it: the kernel looks once more. */
	if (why == EIO && !drop->file)
		return ESTALE;
	if (why)
		return why;
	drop->changes++;
	drop->node.mtime = tdfs_time();
	if (drop->size == 0) {
		drop->failed = 0;
		tdfs_drop_rewritten(in, drop);
	} else if (drop->note && !drop->taint && drop->writers == 0) {
		/* No close is on its way that would tell. */
		tdfs_note_set(in, drop,
			      "its size was changed after it was refused; close it once more, or "
			      "rename it, to have it tried again");
	}
	return 0;
}

int tdfs_incoming_setattr(struct tdfs_incoming *in, const struct tdfs_caller *caller, uint64_t ino,
			  const struct stat *change, unsigned what, struct stat *st)
{
	struct tdfs_inode *node;
	struct tdfs_drop *drop;
	struct timespec now = tdfs_time();
	int why = 0;

	tdfs_lock(in);
	node = tdfs_inode_by_ino(in, ino);
	if (!node) {
		tdfs_unlock(in);
		return ESTALE;
	}
	drop = tdfs_drop_of(node);
	node->users++;
	if (!drop)
		why = EPERM;
	else if (what & TDFS_SET_SIZE)
		why = set_size(in, drop, caller, change->st_size);
	if (why == 0) {
		if (what & TDFS_SET_MODE)
			node->mode = change->st_mode & 0777;
		if (what & TDFS_SET_UID)
			node->uid = change->st_uid;
		if (what & TDFS_SET_GID)
			node->gid = change->st_gid;
		if (drop && drop->note) {
			drop->note->node.mode = node->mode & 0444;
			drop->note->node.uid = node->uid;
			drop->note->node.gid = node->gid;
			drop->note->node.ctime = now;
		}
		if (what & (TDFS_SET_ATIME | TDFS_SET_ATIME_NOW))
			node->atime = what & TDFS_SET_ATIME_NOW ? now : change->st_atim;
		if (what & (TDFS_SET_MTIME | TDFS_SET_MTIME_NOW))
			node->mtime = what & TDFS_SET_MTIME_NOW ? now : change->st_mtim;
		node->ctime = now;
		tdfs_inode_stat(node, st);
		/* What is being committed gets them when it is refused. */
		if (drop && drop->state == TDFS_OPEN &&
		    what & (TDFS_SET_MODE | TDFS_SET_UID | TDFS_SET_GID))
			tdfs_drop_own(in, drop);
	}
	node->users--;
	tdfs_inode_settle(in, node);
	tdfs_unlock(in);
	return why;
}
