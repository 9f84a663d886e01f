/* SPDX-License-Identifier: MIT */
/*
 * The machine for the sequence fuzzer. What the daemon sees of it is no more than /proc would show:
 * the process that closes, those it asks about, and what descends from them; all processes only
 * where it asks for that.
 */
#include "incoming_world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "incoming_model.h"

#define FINDS 64
#define JOBS  16

/* As incoming/ knows a process. */
struct tdfs_process {
	unsigned refs;
	pid_t id;
};

struct staged {
	struct staged *next, **link;
	int fd, lent;	  /* lent: to incoming/, while it wants it */
	ssize_t prepared; /* bytes; -1: none are */
	char bytes[4096];
};

struct find {
	uint64_t ino;
	pid_t tid;
};

struct world world;
struct tdfs_incoming *in;

struct job {
	void (*run)(void *);
	void *argument;
};

static struct staged *disk;
static struct job jobs[JOBS];
static unsigned n_jobs;
static struct find finds[FINDS];
static unsigned n_finds, references;

/* ---- Processes as incoming/ asks for them -------------------------------------------------- */

struct tdfs_process *tdfs_process_ref(struct tdfs_process *process)
{
	if (process)
		process->refs++;
	return process;
}

void tdfs_process_unref(struct tdfs_process *process)
{
	if (!process || --process->refs > 0)
		return;
	references--;
	free(process);
}

pid_t tdfs_process_id(const struct tdfs_process *process)
{
	return process->id;
}

struct tdfs_process *tdfs_process_find(pid_t tid)
{
	struct tdfs_process *process;

	if (!world_by_id(tid))
		return NULL;
	process = malloc(sizeof *process);
	if (!process)
		abort();
	*process = (struct tdfs_process){ .refs = 1, .id = tid };
	references++;
	return process;
}

void tdfs_scan_clear(struct tdfs_scan *scan)
{
	for (size_t i = 0; i < scan->count; i++)
		tdfs_process_unref(scan->candidates[i].process);
	free(scan->candidates);
	scan->candidates = NULL;
	scan->count = 0;
}

/* ---- What /proc shows --------------------------------------------------------------------- */

static void add_killed(struct tdfs_scan *scan, const struct process *process)
{
	if (process->signal == 0 || scan->n_killed == TDFS_KILLED_MAX)
		return;
	scan->killed[scan->n_killed++] = (struct tdfs_killed){ .process = process->id,
							       .signal = process->signal,
							       .name = "p" };
}

static bool fake_scan(void *context, uid_t uid, struct tdfs_scan *scan)
{
	const struct process *closing;

	if (world.slow > 0) {
		world.slow--;
		world.slows++;
		tdfs_scan_clear(scan);
		free(scan);
		return false;
	}
	between();
	closing = scan->closing_tid > 0 ? world_by_id(scan->closing_tid) : NULL;
	if (closing) {
		scan->closing_process = closing->id;
		if (closing->exiting)
			add_killed(scan, closing);
	}
	for (size_t i = 0; i < scan->count; i++) {
		struct tdfs_candidate *one = &scan->candidates[i];
		const struct process *process;

		if (!one->process)
			one->process = tdfs_process_find(one->tid);
		process = one->process ? world_by_id(one->process->id) : NULL;
		one->ended = !process || process->exiting;
		if (process && process->exiting && process != closing)
			add_killed(scan, process);
		if (one->ended && !one->clean &&
		    !(one->process && one->process->id == scan->closing_process))
			scan->all_processes = true;
	}
	if (scan->ino == 0)
		return true;
	/* The closing process is shown to nobody: then no other is looked for. */
	if (closing && world.unwatched > 0) {
		world.unwatched--;
		scan->unwatched = true;
		model_unwatched(scan->ino);
		return true;
	}
	if (scan->exclude > 0 && world_by_id(scan->exclude)) {
		scan->excluded = scan->exclude;
		scan->excluded_holds = world_process_holds(world_by_id(scan->exclude), scan->ino);
	}
	if (closing) {
		scan->held = world_family_holds(closing, scan->ino, scan->exclude);
		scan->clean = !scan->held;
		if (closing->exiting && !scan->clean)
			scan->all_processes = true;
	}
	for (size_t i = 0; i < scan->count; i++) {
		const struct tdfs_candidate *one = &scan->candidates[i];
		const struct process *process =
			one->process && !one->ended ? world_by_id(one->process->id) : NULL;

		if (process && world_family_holds(process, scan->ino, scan->exclude))
			scan->held = true;
	}
	if (scan->all_processes && world_holds(scan->ino, scan->exclude))
		scan->held = true;
	/* Of some processes nothing is seen, for lack of something or for good. */
	if (world.incomplete > 0) {
		world.incomplete--;
		world.doubts++;
		scan->incomplete = true;
	} else if (world.hidden > 0) {
		world.hidden--;
		world.doubts++;
		scan->hidden = (struct tdfs_named_process){ .process = 42, .name = "h" };
	}
	return true;
}

/* ---- Clock and disk ------------------------------------------------------------------------ */

static int64_t fake_now(void *context)
{
	return world.now;
}

static void fake_wait(void *context, unsigned ms)
{
	world.now += ms;
	between();
}

static int fake_create(void *context, const char *name, void **file, int *fd)
{
	struct staged *staged = calloc(1, sizeof *staged);

	if (!staged)
		return ENOMEM;
	staged->fd = memfd_create("staged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (staged->fd < 0)
		abort();
	staged->prepared = -1;
	staged->next = disk;
	staged->link = &disk;
	if (disk)
		disk->link = &staged->next;
	disk = staged;
	world.live++;
	*file = staged;
	*fd = staged->lent = dup(staged->fd);
	return 0;
}

static int fake_detach(void *context, void *file)
{
	struct staged *staged = file;
	int fd = staged->lent;

	staged->lent = -1;
	return fd;
}

static int fake_open(void *context, void *file, int *fd)
{
	struct staged *staged = file;

	if (staged->lent < 0)
		staged->lent = dup(staged->fd);
	*fd = staged->lent;
	return 0;
}

static int fake_rename(void *context, void *file, const char *name)
{
	return 0;
}

static void fake_remove(void *context, void *file)
{
}

static void fake_free(void *context, void *file)
{
	struct staged *staged = file;

	*staged->link = staged->next;
	if (staged->next)
		staged->next->link = staged->link;
	if (staged->lent >= 0)
		close(staged->lent);
	close(staged->fd);
	free(staged);
	world.live--;
}

void world_fill(unsigned nth)
{
	struct staged *staged = disk;

	while (staged && nth-- > 0)
		staged = staged->next;
	if (staged)
		(void)fcntl(staged->fd, F_ADD_SEALS, F_SEAL_GROW);
}

/* What is prepared is a copy, which the next change of the file makes void. */
static uint64_t fake_generation(void *context, void *file)
{
	((struct staged *)file)->prepared = -1;
	return 0;
}

static void fake_written(void *context, void *file, uint64_t generation, const void *bytes,
			 size_t size, uint64_t at)
{
	((struct staged *)file)->prepared = -1;
}

static void fake_cut(void *context, void *file, uint64_t size)
{
	((struct staged *)file)->prepared = -1;
}

static void fake_prepare(void *context, void *file)
{
	struct staged *staged = file;
	char bytes[sizeof staged->bytes];
	ssize_t n = pread(staged->fd, bytes, sizeof bytes, 0);

	must(!world.committing, "nothing is prepared while it is committed");
	staged->prepared = n;
	memcpy(staged->bytes, bytes, sizeof bytes);
	between();
}

static bool fake_background(void *context, uid_t uid, void (*run)(void *), void *argument)
{
	if (n_jobs == JOBS)
		return false;
	jobs[n_jobs++] = (struct job){ run, argument };
	return true;
}

void world_background(void)
{
	while (n_jobs > 0) {
		struct job one = jobs[--n_jobs];

		one.run(one.argument);
	}
}

static int fake_commit(void *context, void *file, const char *source, uid_t uid, bool renames,
		       tdl_error *error)
{
	struct staged *staged = file;
	char bytes[4096];
	ssize_t n = pread(staged->fd, bytes, sizeof bytes, 0);
	int code;

	must(n >= 0 && n < (ssize_t)sizeof bytes, "a staged file of a size");
	if (staged->prepared >= 0)
		must(staged->prepared == n && memcmp(staged->bytes, bytes, (size_t)n) == 0,
		     "what was prepared is what is committed");
	code = model_commits(source, bytes, (size_t)n);
	world.committing = true;
	between();
	world.committing = false;
	if (code == TDL_OK && world.failing > 0) {
		world.failing--;
		code = world.code;
	}
	model_committed(bytes, (size_t)n, code);
	error->code = code;
	snprintf(error->message, sizeof error->message, "%s: code %d", source, code);
	return code;
}

/* ---- The rest of the backend --------------------------------------------------------------- */

static void fake_find(void *context, uint64_t ino, uid_t uid, pid_t tid)
{
	if (n_finds < FINDS)
		finds[n_finds++] = (struct find){ ino, tid };
}

void world_find(void)
{
	while (n_finds > 0) {
		struct find one = finds[--n_finds];

		tdfs_incoming_found(in, one.ino, one.tid, tdfs_process_find(one.tid));
	}
}

static void fake_needs_expiry(void *context)
{
}

static void fake_log(void *context, uid_t uid, const char *name, const char *text)
{
}

static int fake_errno(const tdl_error *error)
{
	return error->code == TDL_ERR_SCHEMA ? EINVAL : error->code != 0 ? EIO : 0;
}

/* ---- Beginning and end --------------------------------------------------------------------- */

void world_begin(void)
{
	static const struct tdfs_backend backend = { .now = fake_now,
						     .create = fake_create,
						     .rename = fake_rename,
						     .remove = fake_remove,
						     .detach = fake_detach,
						     .open = fake_open,
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
	n_finds = n_jobs = references = 0;
	world_processes_begin();
	in = tdfs_incoming_make(&backend, FIRST);
	if (!in)
		abort();
}

void world_end(void)
{
	world_processes_end();
	tdfs_incoming_unmake(in);
	must(world.live == 0, "no staged file stays open");
	must(references == 0, "no process is kept");
}
