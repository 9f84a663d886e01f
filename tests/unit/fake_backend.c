/* SPDX-License-Identifier: MIT */
/*
 * The fake backend of incoming/: the disk, the commit, the clock and /proc; and requests as the
 * kernel sends them.
 */
#include "fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The world ---------------------------------------------------------------------------- */

struct staged {
	int fd, lent; /* lent: to incoming/, while it wants it */
	char name[256];
	bool removed;
	uint64_t generation;
};

struct world world;

struct tdfs_incoming *in;

static int64_t fake_now(void *context)
{
	return world.now;
}

int fake_create(void *context, const char *name, void **file, int *fd)
{
	struct staged *staged = calloc(1, sizeof *staged);

	staged->fd = memfd_create("staged", 0);
	snprintf(staged->name, sizeof staged->name, "%s", name);
	world.creates++;
	world.live++;
	*file = staged;
	*fd = staged->lent = dup(staged->fd);
	world.lent++;
	return 0;
}

static int fake_detach(void *context, void *file)
{
	struct staged *staged = file;
	int fd = staged->lent;

	staged->lent = -1;
	world.lent--;
	return fd;
}

static int fake_open(void *context, void *file, int *fd)
{
	struct staged *staged = file;

	if (staged->lent < 0) {
		staged->lent = dup(staged->fd);
		world.lent++;
	}
	*fd = staged->lent;
	return 0;
}

static void fake_own(void *context, void *file, uid_t uid, gid_t gid, mode_t mode)
{
	snprintf(world.owned, sizeof world.owned, "%s %u:%u %o", ((struct staged *)file)->name,
		 (unsigned)uid, (unsigned)gid, (unsigned)mode);
}

static void fake_reason(void *context, void *file, const char *reason)
{
	snprintf(world.reason, sizeof world.reason, "%s", reason);
}

static int fake_rename(void *context, void *file, const char *name)
{
	snprintf(((struct staged *)file)->name, 256, "%s", name);
	return 0;
}

static void fake_remove(void *context, void *file)
{
	((struct staged *)file)->removed = true;
}

static void fake_free(void *context, void *file)
{
	struct staged *staged = file;

	if (staged->lent >= 0) {
		close(staged->lent);
		world.lent--;
	}
	close(staged->fd);
	free(file);
	world.live--;
}

static void tell(const char *what, uint64_t number)
{
	size_t have = strlen(world.told);

	snprintf(world.told + have, sizeof world.told - have, "%s%s %u", have > 0 ? ", " : "", what,
		 (unsigned)number);
}

static uint64_t fake_generation(void *context, void *file)
{
	return ((struct staged *)file)->generation;
}

static void fake_written(void *context, void *file, uint64_t generation, const void *bytes,
			 size_t size, uint64_t at)
{
	cr_expect_eq(generation, ((struct staged *)file)->generation, "no cut came in between");
	tell("written", at);
}

static void fake_cut(void *context, void *file, uint64_t size)
{
	((struct staged *)file)->generation++;
	tell("cut", size);
}

static bool fake_background(void *context, uid_t uid, void (*run)(void *), void *argument)
{
	cr_assert_lt(world.n_jobs, FAKE_JOBS);
	world.jobs[world.n_jobs++] = (struct fake_job){ run, argument };
	return true;
}

void run_jobs(void)
{
	for (unsigned i = 0; i < world.n_jobs; i++)
		world.jobs[i].run(world.jobs[i].argument);
	world.n_jobs = 0;
}

static void fake_prepare(void *context, void *file)
{
	if (world.during_prepare)
		world.during_prepare();
	world.prepared++;
}

static int fake_commit(void *context, void *file, const char *source, uid_t uid, bool renames,
		       tdl_error *error)
{
	size_t have = strlen(world.committed);
	ssize_t n;

	if (world.during_commit)
		world.during_commit();
	snprintf(world.source, sizeof world.source, "%s", source);
	world.renames = renames;
	world.uid = uid;
	if (world.code != TDL_OK && world.code != TDL_ERR_PUBLISHED) {
		error->code = world.code;
		snprintf(error->message, sizeof error->message, "%s:1: bad", source);
		return world.code;
	}
	n = pread(((struct staged *)file)->fd, world.committed + have,
		  sizeof world.committed - have - 1, 0);
	world.committed[have + (size_t)(n > 0 ? n : 0)] = '\0';
	world.commits++;
	error->code = world.code;
	error->in_doubt = world.in_doubt;
	snprintf(error->message, sizeof error->message, "%s committed",
		 world.in_doubt ? "may be" : "is");
	return world.code;
}

static bool fake_scan(void *context, uid_t uid, struct tdfs_scan *scan)
{
	if (!world.in_time || world.lost > 0) {
		world.lost -= world.lost > 0;
		tdfs_scan_clear(scan);
		free(scan);
		return false;
	}
	if (world.during_scan)
		world.during_scan();
	scan->closing_process = scan->closing_tid > 0 ? scan->closing_tid : 0;
	world.candidates = scan->count;
	world.all_processes = scan->all_processes;
	if (scan->ino != 0 && (world.unwatched || world.incomplete > 0)) {
		scan->unwatched = world.unwatched;
		scan->incomplete = world.incomplete > 0;
		world.incomplete -= scan->incomplete;
	} else if (scan->ino != 0) {
		scan->held = world.held;
		if (world.held)
			scan->holder =
				(struct tdfs_named_process){ .process = 4711, .name = "agent" };
		if (world.hidden)
			scan->hidden =
				(struct tdfs_named_process){ .process = world.hidden, .name = "h" };
		scan->till_exec = world.held && world.till_exec;
		scan->excluded = scan->exclude;
		scan->excluded_holds = world.own;
	}
	if (world.killed) {
		scan->killed[scan->n_killed++] =
			(struct tdfs_killed){ .process = world.killed,
					      .signal = world.signal ? world.signal : 9,
					      .name = "p" };
	}
	return true;
}

static void fake_find(void *context, uint64_t ino, uid_t uid, pid_t tid)
{
}

static void fake_wait(void *context, unsigned ms)
{
	world.now += ms;
	if (world.waits > 0 && --world.waits == 0)
		world.held = false;
}

static void fake_needs_expiry(void *context)
{
}

static void fake_log(void *context, uid_t uid, const char *name, const char *text)
{
	snprintf(world.logged, sizeof world.logged, "%s: %s", name ? name : "", text);
}

static int fake_errno(const tdl_error *error)
{
	return error->code == TDL_ERR_SCHEMA ? EINVAL : error->code ? EIO : 0;
}

void fake_setup(void)
{
	struct tdfs_backend backend = { .limits = &world.limits,
					.now = fake_now,
					.create = fake_create,
					.rename = fake_rename,
					.remove = fake_remove,
					.detach = fake_detach,
					.open = fake_open,
					.own = fake_own,
					.reason = fake_reason,
					.free = fake_free,
					.generation = fake_generation,
					.written = fake_written,
					.cut = fake_cut,
					.commit = fake_commit,
					.background = fake_background,
					.prepare = fake_prepare,
					.scan = fake_scan,
					.find = fake_find,
					.wait = fake_wait,
					.needs_expiry = fake_needs_expiry,
					.log = fake_log,
					.to_errno = fake_errno };

	memset(&world, 0, sizeof world);
	world.in_time = true;
	in = tdfs_incoming_make(&backend, FIRST);
	cr_assert_not_null(in);
}

void recover_leftovers(const char *name, const char *text, const char *reason)
{
	tdl_left left = { .name = name,
			  .mtime = 1234000,
			  .uid = 1000,
			  .gid = 100,
			  .mode = 0640,
			  .reason = reason };
	void *file;
	int fd;

	fake_create(NULL, name, &file, &fd);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	tdfs_incoming_recover(in, file, fd, &left);
}

void fake_teardown(void)
{
	run_jobs();
	tdfs_incoming_unmake(in);
	cr_expect_eq(world.live, 0, "staged files are closed");
}

/* ---- Requests ----------------------------------------------------------------------------- */

struct tdfs_caller who(pid_t tid)
{
	return (struct tdfs_caller){ .tid = tid, .uid = 1000, .gid = 100, .may_wait = true };
}

struct tdfs_handle *create(pid_t tid, const char *name, int flags)
{
	struct tdfs_caller caller = who(tid);
	struct tdfs_handle *handle = NULL;
	struct stat st;

	cr_assert_eq(tdfs_incoming_create(in, &caller, name, 0644, flags, &st, &handle), 0);
	return handle;
}

/* 0 where the name is not there. */
uint64_t lookup(pid_t tid, const char *name, struct stat *st)
{
	struct tdfs_caller caller = who(tid);
	struct stat own;

	if (!st)
		st = &own;
	return tdfs_incoming_lookup(in, &caller, name, st) == 0 ? st->st_ino : 0;
}

int open_it(pid_t tid, const char *name, int flags, struct tdfs_handle **handle)
{
	struct tdfs_caller caller = who(tid);
	uint64_t ino = lookup(tid, name, NULL);

	return ino ? tdfs_incoming_open(in, &caller, ino, flags, handle) : ENOENT;
}

/* As the kernel does: a stale inode is looked up again, once. */
struct tdfs_handle *reopen(pid_t tid, const char *name, int flags)
{
	struct tdfs_handle *handle = NULL;
	int why = open_it(tid, name, flags, &handle);

	if (why == ESTALE)
		why = open_it(tid, name, flags, &handle);
	if (why == ENOENT)
		return create(tid, name, flags);
	cr_assert_eq(why, 0);
	return handle;
}

static int write_with(pid_t tid, struct tdfs_handle *handle, int flags, const char *text,
		      uint64_t offset)
{
	struct tdfs_caller caller = who(tid);
	size_t done = 0;

	caller.owner = (uint64_t)tid;
	int why =
		tdfs_incoming_write(in, &caller, handle, flags, text, strlen(text), offset, &done);

	cr_expect(why || done == strlen(text));
	return why;
}

int write_at(pid_t tid, struct tdfs_handle *handle, const char *text, uint64_t offset)
{
	return write_with(tid, handle, 0, text, offset);
}

int append_at(pid_t tid, struct tdfs_handle *handle, const char *text, uint64_t offset)
{
	return write_with(tid, handle, O_APPEND, text, offset);
}

int flush(pid_t tid, struct tdfs_handle *handle)
{
	struct tdfs_caller caller = who(tid);
	int answer;

	caller.owner = (uint64_t)tid;
	answer = tdfs_incoming_flush_begin(in, &caller, handle);

	return answer == TDFS_LATER ? tdfs_incoming_flush(in, &caller, handle) : answer;
}

void release(struct tdfs_handle *handle)
{
	struct tdfs_caller caller = who(0);

	cr_expect_eq(tdfs_incoming_release(in, &caller, handle), 0);
}

/* As the kernel does, both look the names up first. */
int rename_it(pid_t tid, const char *from, const char *to)
{
	struct tdfs_caller caller = who(tid);

	(void)lookup(tid, from, NULL);
	(void)lookup(tid, to, NULL);
	return tdfs_incoming_rename(in, &caller, from, to, 0);
}

int unlink_it(pid_t tid, const char *name)
{
	struct tdfs_caller caller = who(tid);

	(void)lookup(tid, name, NULL);
	return tdfs_incoming_unlink(in, &caller, name);
}

int write_staged(pid_t tid, const char *name, const char *text)
{
	struct tdfs_handle *handle = reopen(tid, name, O_WRONLY | O_TRUNC);
	int answer;

	cr_assert_eq(write_at(tid, handle, text, 0), 0);
	answer = flush(tid, handle);
	release(handle);
	return answer;
}

/* The listing, with blanks between. */
const char *listing(void)
{
	static char names[1024];
	uint64_t offset = 0, ino;
	char name[256];

	names[0] = '\0';
	while (tdfs_incoming_list(in, &offset, name, &ino)) {
		strcat(names, names[0] ? " " : "");
		strcat(names, name);
	}
	return names;
}

const char *error_text(const char *name)
{
	static char text[512];
	struct tdfs_handle *handle;
	size_t got = 0;

	cr_assert_eq(open_it(1, name, O_RDONLY, &handle), 0);
	cr_assert_eq(tdfs_incoming_read(in, handle, text, sizeof text - 1, 0, &got), 0);
	text[got] = '\0';
	release(handle);
	return text;
}
