/* SPDX-License-Identifier: MIT */
/*
 * A FUSE file system of somebody hostile: `stuck_poll DIR` mounts it there, with one file, f.
 * Whoever polls that never gets an answer; for each of them one line is printed. Ends with its
 * parent.
 */
#define FUSE_USE_VERSION 314

#include <errno.h>
#include <fuse_lowlevel.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define FILE_INO ((fuse_ino_t)2)

static void fill(fuse_ino_t ino, struct stat *st)
{
	memset(st, 0, sizeof *st);
	st->st_ino = ino;
	st->st_mode = ino == FILE_INO ? S_IFREG | 0666 : S_IFDIR | 0755;
	st->st_nlink = 1;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = { .ino = FILE_INO,
					  .attr_timeout = 60,
					  .entry_timeout = 60 };

	if (strcmp(name, "f") != 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill(FILE_INO, &entry.attr);
	fuse_reply_entry(req, &entry);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	fill(ino, &st);
	fuse_reply_attr(req, &st, 60);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fuse_reply_open(req, fi);
}

static void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
		    struct fuse_pollhandle *handle)
{
	puts("polled");
	fflush(stdout);
}

int main(int count, char **arguments)
{
	static const struct fuse_lowlevel_ops ops = {
		.lookup = op_lookup, .getattr = op_getattr, .open = op_open, .poll = op_poll
	};
	char *options[] = { arguments[0], (char *)"-oallow_other", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, options);
	struct fuse_session *session;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	session = count == 2 ? fuse_session_new(&args, &ops, sizeof ops, NULL) : NULL;
	if (!session || fuse_session_mount(session, arguments[1]) != 0)
		return 1;
	puts("mounted");
	fflush(stdout);
	fuse_session_loop(session);
	return 0;
}
