/* SPDX-License-Identifier: MIT */
/*
 * tinydeltafs: from the command line to a session that serves, and back. What is made here is
 * undone here, in the opposite order.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "buffers.h"
#include "daemon.h"
#include "daemonize.h"
#include "gate.h"
#include "incoming/incoming.h"
#include "mountpoint.h"
#include "msg.h"
#include "ops.h"
#include "opts.h"
#include "remount.h"
#include "serve.h"
#include "util/util.h"
#include "versions/open_file.h"
#include "versions/passthrough.h"
#include "versions/tree.h"

#define EXIT_USAGE 2

static const char usage[] =
	"usage: tinydeltafs TABLE MOUNTPOINT [-f] [-d] [-s] [-o OPTION[,OPTION...]]\n"
	"\n"
	"  -f  stay in the foreground, with messages on stderr\n"
	"  -d  the same, and show every request\n"
	"  -s  answer one request at a time\n"
	"  -h  show this help\n"
	"  -V  show the version\n"
	"\n"
	"  -o ro               nothing can be dropped, nothing is written\n"
	"  -o version=VERSION  that version alone, read-only: its directory is the root\n"
	"  -o list=N           list only the N newest versions; the others open all the same\n"
	"  -o allow_other      let other users in, as far as the table's modes let them\n"
	"  -o allow_root       let root in\n"
	"  -o uid=N,gid=N      show this owner instead of the table's\n"
	"  -o umask=M          show all modes without these bits instead of the table's\n"
	"  -o auto_unmount     unmount when the daemon dies\n"
	"  -o log=FILE         messages to the end of this file instead of syslog\n"
	"  -o max_threads=N    threads that answer requests (10)\n"
	"  -o max_read=N       bytes in one read request (1048576)\n"
	"  -o read_ahead_kb=N  how far the kernel reads ahead (1024; 0: its own choice)\n"
	"  -o nopassthrough    never let the kernel read data files by itself\n"
	"  -o fsname=NAME      source in the list of mounts (the table's path)\n"
	"  -o subtype=NAME     type in the list of mounts (tinydeltafs)\n"
	"\n"
	"Unmount with: umount MOUNTPOINT, or as an ordinary user: fusermount3 -u MOUNTPOINT\n";

static void log_of_libfuse(enum fuse_log_level level, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

static void log_of_libfuse(enum fuse_log_level level, const char *format, va_list args)
{
	const char *text;
	char line[1024];
	size_t length;

	vsnprintf(line, sizeof line, format, args);
	length = strlen(line);
	if (length > 0 && line[length - 1] == '\n')
		line[length - 1] = '\0';
	text = strncmp(line, "fuse: ", 6) == 0 ? line + 6 : line;
	/* Where passthrough is not to be had, reads go the ordinary way. */
	tdfs_msg(strncmp(text, "passthrough_", 12) == 0 ? LOG_DEBUG : (int)level, "%s", text);
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* The option list that libfuse gets: ours alone, since all that users may say has been read. */
static char *session_options(const struct tdfs_options *options, const char *table)
{
	char *list = NULL, max_read[16];
	bool whole;

	snprintf(max_read, sizeof max_read, "%u", options->max_read);
	whole = tdfs_options_append(&list, "default_permissions", NULL) == 0 &&
		tdfs_options_append(&list, "max_read", max_read) == 0 &&
		tdfs_options_append(&list, "fsname", options->fsname ? options->fsname : table) ==
			0 &&
		tdfs_options_append(&list, "subtype",
				    options->subtype ? options->subtype : "tinydeltafs") == 0 &&
		tdfs_options_append(&list, options->read_only ? "ro" : "rw", NULL) == 0;
	if (whole && options->access == TDFS_ALLOW_OTHER)
		whole = tdfs_options_append(&list, "allow_other", NULL) == 0;
	if (whole && options->access == TDFS_ALLOW_ROOT)
		whole = tdfs_options_append(&list, "allow_root", NULL) == 0;
	if (whole && options->auto_unmount)
		whole = tdfs_options_append(&list, "auto_unmount", NULL) == 0;
	if (whole && options->debug)
		whole = tdfs_options_append(&list, "debug", NULL) == 0;
	if (whole && options->flags[0] != '\0')
		whole = tdfs_options_append(&list, options->flags, NULL) == 0;
	if (whole)
		return list;
	free(list);
	return NULL;
}

static struct fuse_session *new_session(struct tdfs *tdfs, const char *table)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session = NULL;
	char *list = session_options(tdfs->options, table);

	if (!list || fuse_opt_add_arg(&args, "tinydeltafs") < 0 ||
	    fuse_opt_add_arg(&args, "-o") < 0 || fuse_opt_add_arg(&args, list) < 0)
		tdfs_msg(LOG_ERR, "out of memory");
	else
		session = fuse_session_new(&args, &tdfs_ops, sizeof tdfs_ops, tdfs);
	fuse_opt_free_args(&args);
	free(list);
	return session;
}

/* Where the table cannot be written, incoming/ stays empty and closed. */
static int open_incoming(struct tdfs *tdfs, tdl_error *error)
{
	if (tdfs->options->read_only)
		return 0;
	if (tdl_table_writable(tdfs->table, error) < 0) {
		tdfs_msg(LOG_NOTICE, "%s: nothing can be dropped: %s", tdl_table_path(tdfs->table),
			 error->message);
		return 0;
	}
	return tdfs_incoming_new(tdfs, &tdfs->incoming, error);
}

/* A single version must be there, and all its files, before it is shown. */
static int check_version(const struct tdfs *tdfs, tdl_error *error)
{
	tdl_snapshot *snapshot;
	int result;

	if (tdfs->tree->only < 0)
		return 0;
	result = tdl_snapshot_open(tdfs->table, tdfs->tree->only, &snapshot, error);
	if (result < 0)
		return result;
	result = tdl_snapshot_present(snapshot, error);
	tdl_snapshot_unref(snapshot);
	return result;
}

/* Everything from opening the table to closing it. */
static int mount_table(const struct tdfs_options *options, struct tdfs_place *place, int ready)
{
	const char *table = place->table;
	struct tdfs tdfs = { .options = options };
	struct tdfs_tree tree;
	int64_t version = -1;
	int status = EXIT_FAILURE;
	tdl_error error;

	if (tdl_table_open(table, options->read_only ? TDL_OPEN_READ_ONLY : 0, &tdfs.table,
			   &error) < 0) {
		tdfs_msg(LOG_ERR, "%s", error.message);
		return status;
	}
	/* What it names is decided now, for the life of the mount. */
	if (options->version &&
	    tdl_table_find_version(tdfs.table, options->version, &version, &error) < 0) {
		tdfs_msg(LOG_ERR, "%s", error.message);
		goto free_table;
	}
	tree = (struct tdfs_tree){ tdfs.table,	      version,	     options->shown,
				   options->has_list, options->list, "" };
	tdfs_tree_read_zone(&tree);
	tdfs.tree = &tree;
	tdfs.buffers = tdfs_buffers_new();
	tdfs.readers = tdfs_readers_new();
	tdfs.passthrough = tdfs_passthrough_new();
	tdfs.gate = tdfs_gate_new();
	if (!tdfs.buffers || !tdfs.readers || !tdfs.passthrough || !tdfs.gate) {
		tdfs_msg(LOG_ERR, "out of memory");
		goto free_readers;
	}
	if (check_version(&tdfs, &error) < 0) {
		tdfs_msg(LOG_ERR, "%s", error.message);
		goto free_readers;
	}
	if (open_incoming(&tdfs, &error) < 0) {
		tdfs_msg(LOG_ERR, "%s: %s", table, error.message);
		goto free_readers;
	}
	tdfs.session = new_session(&tdfs, table);
	if (!tdfs.session)
		goto close_incoming;
	if (tdfs_serve(&tdfs, place, ready) == 0)
		status = EXIT_SUCCESS;
	fuse_session_destroy(tdfs.session);
close_incoming:
	tdfs_incoming_free(tdfs.incoming);
free_readers:
	tdfs_gate_free(tdfs.gate);
	tdfs_passthrough_free(tdfs.passthrough);
	tdfs_readers_free(tdfs.readers);
	tdfs_buffers_free(tdfs.buffers);
free_table:
	tdl_table_free(tdfs.table);
	return status;
}

/* The fusermount3 of older releases looks at the mount as root, who may not see that of a user,
 * and leaves it dead. */
static bool auto_unmount_works(const struct tdfs_options *options)
{
	if (!options->auto_unmount || geteuid() == 0 || options->access != TDFS_OWNER_ONLY ||
	    fuse_version() >= FUSE_MAKE_VERSION(3, 15))
		return true;
	tdfs_msg(LOG_ERR,
		 "option auto_unmount: needs allow_other or allow_root, or libfuse 3.15 "
		 "(this is %s)",
		 fuse_pkgversion());
	return false;
}

static int run(const struct tdfs_options *options)
{
	char why[TDL_MESSAGE_MAX];
	struct tdfs_place place;
	int status, ready = -1;

	if (options->remount)
		return tdfs_remount(options);
	if (!auto_unmount_works(options))
		return EXIT_FAILURE;
	if (tdfs_place_find(options->table, options->mountpoint, &place, why, sizeof why) < 0) {
		tdfs_msg(LOG_ERR, "%s", why);
		return EXIT_FAILURE;
	}
	/* Not before: a path may have named one of them, as /dev/fd/5. */
	tdfs_background_close_others(place.claim, tdfs_msg_log_fd());
	if (options->foreground || tdfs_background_fork(&ready, &status))
		status = mount_table(options, &place, ready);
	tdfs_place_clear(&place);
	return status;
}

/*
 * Large buffers go back to the system when they are freed: glibc would begin to keep them, as much
 * for every thread as its largest ever was. And threads share two heaps: where they have eight
 * for each core, every one of them keeps what the busiest moment left in it.
 */
static void give_memory_back(void)
{
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 2);
#endif
}

static bool start_log(const struct tdfs_options *options)
{
	int err = !options->log ? 0 : tdfs_msg_log(options->log);

	if (err == EINVAL)
		tdfs_msg(LOG_ERR, "%s: cannot log to it: not a regular file", options->log);
	else if (err != 0)
		tdfs_msg(LOG_ERR, "%s: %s", options->log, strerror(err));
	return err == 0;
}

int main(int argc, char **argv)
{
	struct tdfs_options options;
	char why[TDL_MESSAGE_MAX];
	int status = EXIT_USAGE;

	if (!tdl__open_standard_streams())
		return EXIT_FAILURE;
	if (tdfs_options_parse(&options, argc > 0 ? argc - 1 : 0, argv + 1, why, sizeof why) < 0) {
		tdfs_msg(LOG_ERR, "%s (see tinydeltafs -h)", why);
	} else if (options.help || options.show_version) {
		if (options.help)
			fputs(usage, stdout);
		else
			printf("tinydeltafs %s\nFUSE library version %s\n", TINYDELTA_VERSION,
			       fuse_pkgversion());
		status = fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	} else {
		tdfs_msg_start(options.debug);
		fuse_set_log_func(log_of_libfuse);
		raise_descriptor_limit();
		give_memory_back();
		status = start_log(&options) ? run(&options) : EXIT_FAILURE;
	}
	tdfs_msg_end();
	tdfs_options_clear(&options);
	return status;
}
