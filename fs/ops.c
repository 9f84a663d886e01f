/* SPDX-License-Identifier: MIT */
/*
 * The one table of requests that libfuse gets: hands each on to the tree or to incoming/, by inode
 * number, and answers those that neither takes.
 *
 * Every request that a tool can cause has an answer here, because libfuse's own for a missing
 * function is ENOSYS: users would read "Function not implemented", and the kernel would not ask
 * again, for no file of the mount. Left out on purpose are those where that is wanted: reading
 * extended attributes (one ENOSYS saves a request with each write), locks and access (the kernel's
 * own do), lseek and copy_file_range (the kernel falls back to what is right for files without
 * holes).
 */
#include "ops.h"

#include <errno.h>

#include "buffers.h"
#include "opts.h"
#include "versions/passthrough.h"

_Static_assert(TDFS_MAX_READ <= TDFS_BUFFER_SIZE, "an answer has room");

static bool is_incoming(const struct tdfs *tdfs, fuse_ino_t ino)
{
	return ino >= TDFS_INO_STAGED || (ino == TDFS_INO_INCOMING && tdfs->incoming);
}

/* Hands a request on to whom `ino` belongs. Where that one has no function for it, the answer is
 * `refusal` in incoming/ and `refusal_of_tree` elsewhere. */
#define HAND_ON(request, ino, refusal_of_tree, refusal, ...)                          \
	do {                                                                          \
		bool staged_ = is_incoming(tdfs_of(req), ino);                        \
		const struct fuse_lowlevel_ops *ops_ =                                \
			staged_ ? &tdfs_incoming_ops : &tdfs_tree_ops;                \
                                                                                      \
		if (ops_->request)                                                    \
			ops_->request(req, __VA_ARGS__);                              \
		else                                                                  \
			fuse_reply_err(req, staged_ ? (refusal) : (refusal_of_tree)); \
	} while (0)

static void want(struct fuse_conn_info *conn, unsigned capability, bool wanted)
{
	if (wanted)
		conn->want |= conn->capable & capability;
	else
		conn->want &= ~capability;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	const struct tdfs *tdfs = userdata;

	want(conn, FUSE_CAP_ASYNC_READ, true);
	want(conn, FUSE_CAP_PARALLEL_DIROPS, true);
	want(conn, FUSE_CAP_ATOMIC_O_TRUNC, true);
	/* Inode numbers are for ever, and "." and ".." can be looked up in any of them. */
	want(conn, FUSE_CAP_EXPORT_SUPPORT, true);
	/* `ls -l` gets attributes with the names; `ls` of a hundred thousand versions does not. */
	want(conn, FUSE_CAP_READDIRPLUS, true);
	want(conn, FUSE_CAP_READDIRPLUS_AUTO, true);
	/* Slower than a copy for what is in the page cache. */
	want(conn, FUSE_CAP_SPLICE_READ, false);
	want(conn, FUSE_CAP_SPLICE_WRITE, false);
	want(conn, FUSE_CAP_SPLICE_MOVE, false);
	/* Written bytes reach us in the order and at the time they are written. */
	want(conn, FUSE_CAP_WRITEBACK_CACHE, false);
	want(conn, FUSE_CAP_HANDLE_KILLPRIV, false);
	if (!tdfs->options->no_passthrough)
		tdfs_passthrough_init(tdfs->passthrough, conn);
	conn->max_read = tdfs->options->max_read;
	conn->max_write = TDFS_MAX_READ;
	conn->max_readahead = TDFS_MAX_READ;
	/* Read-ahead counts as background; the kernel's twelve starve several readers. */
	conn->max_background = 64;
	conn->congestion_threshold = 48;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	HAND_ON(lookup, parent, ENOENT, ENOENT, parent, name);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	if (is_incoming(tdfs_of(req), ino) && tdfs_incoming_ops.forget)
		tdfs_incoming_ops.forget(req, ino, nlookup);
	else
		fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	/* Nothing is kept for the tree's; the others are picked out there. */
	if (tdfs_of(req)->incoming && tdfs_incoming_ops.forget_multi)
		tdfs_incoming_ops.forget_multi(req, count, forgets);
	else
		fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	HAND_ON(getattr, ino, EIO, EIO, ino, fi);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		       struct fuse_file_info *fi)
{
	HAND_ON(setattr, ino, EROFS, EPERM, ino, st, to_set, fi);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	HAND_ON(readlink, ino, EINVAL, EINVAL, ino);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	HAND_ON(mknod, parent, EROFS, EPERM, parent, name, mode, rdev);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	HAND_ON(mkdir, parent, EROFS, EPERM, parent, name, mode);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	HAND_ON(unlink, parent, EROFS, EPERM, parent, name);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	HAND_ON(rmdir, parent, EROFS, ENOTDIR, parent, name);
}

static void op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	HAND_ON(symlink, parent, EROFS, EPERM, link, parent, name);
}

/* Between the two worlds nothing moves. EROFS and not EXDEV: mv would copy, and what it copied
 * into incoming/ would be committed, before it finds that it cannot remove the source. */
static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned flags)
{
	if (is_incoming(tdfs_of(req), parent) != is_incoming(tdfs_of(req), new_parent))
		fuse_reply_err(req, EROFS);
	else
		HAND_ON(rename, parent, EROFS, EPERM, parent, name, new_parent, new_name, flags);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	if (is_incoming(tdfs_of(req), ino) != is_incoming(tdfs_of(req), new_parent))
		fuse_reply_err(req, EROFS);
	else
		HAND_ON(link, new_parent, EROFS, EPERM, ino, new_parent, new_name);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	HAND_ON(open, ino, EIO, EIO, ino, fi);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	HAND_ON(create, parent, EROFS, EPERM, parent, name, mode, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	HAND_ON(read, ino, EIO, EIO, ino, size, offset, fi);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	HAND_ON(write, ino, EROFS, EPERM, ino, bytes, size, offset, fi);
}

static void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	HAND_ON(flush, ino, 0, 0, ino, fi);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	HAND_ON(release, ino, 0, 0, ino, fi);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	HAND_ON(fsync, ino, 0, 0, ino, datasync, fi);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	HAND_ON(opendir, ino, ENOTDIR, ENOTDIR, ino, fi);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	HAND_ON(readdir, ino, ENOTDIR, ENOTDIR, ino, size, offset, fi);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
			   struct fuse_file_info *fi)
{
	HAND_ON(readdirplus, ino, ENOTDIR, ENOTDIR, ino, size, offset, fi);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	HAND_ON(releasedir, ino, 0, 0, ino, fi);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	HAND_ON(fsyncdir, ino, 0, 0, ino, datasync, fi);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	tdfs_tree_ops.statfs(req, ino);
}

static void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *argument,
		     struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size,
		     size_t out_size)
{
	fuse_reply_err(req, ENOTTY);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
			 struct fuse_file_info *fi)
{
	HAND_ON(fallocate, ino, EROFS, EOPNOTSUPP, ino, mode, offset, length, fi);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
			size_t size, int flags)
{
	HAND_ON(setxattr, ino, EROFS, EPERM, ino, name, value, size, flags);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	HAND_ON(removexattr, ino, EROFS, EPERM, ino, name);
}

const struct fuse_lowlevel_ops tdfs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.removexattr = op_removexattr,
	.ioctl = op_ioctl,
	.fallocate = op_fallocate,
};
