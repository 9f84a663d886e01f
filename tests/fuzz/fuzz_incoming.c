/* SPDX-License-Identifier: MIT */
/*
 * incoming/ under any sequence of requests, against the contract of incoming.h. An input is a
 * program: each operation is a few bytes. world.c plays the machine, model.c remembers what was
 * promised and checks it; here the bytes become requests, as the kernel would send them. While the
 * daemon looks into /proc, waits or commits, the next operations come in between; those that would
 * have to wait go on when the first is answered.
 * With FUZZ_TRACE set, it tells what it does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "incoming_model.h"
#include "incoming_world.h"

#define LATER_MAX 32

struct program {
	const uint8_t *at, *end;
};

/* A request that waits, or a close of which the second half is due. */
struct later {
	enum {
		FLUSH,
		RELEASE
	} what;
	struct process *process;
	struct open_file *file;
};

static struct program program;
static struct later later[LATER_MAX];
static unsigned n_later, depth;
static bool names_locked; /* the kernel has one change of names at a time in a directory */

static void __attribute__((format(printf, 1, 2))) trace(const char *format, ...)
{
	static int wanted = -1;
	va_list args;

	if (wanted < 0)
		wanted = getenv("FUZZ_TRACE") != NULL;
	if (!wanted)
		return;
	fprintf(stderr, "%*s", (int)depth * 8, "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

static unsigned next(unsigned limit)
{
	return program.at < program.end ? *program.at++ % limit : 0;
}

static const char *a_name(void)
{
	static const char *const names[] = { "a", "b", ".t", "c~", "a.2", "d.bak", "a.error" };

	return names[next(7)];
}

/* Of two users: what they may do with each other's files is the kernel's affair, as long as it can
 * know of them. */
static uid_t uid_of(const struct process *process)
{
	return 1000 + (uid_t)(process->id & 1);
}

static struct tdfs_caller caller_of(const struct process *process, bool may_wait)
{
	return (struct tdfs_caller){ .tid = process ? process->id : 0,
				     .uid = process ? uid_of(process) : 0,
				     .gid = 100,
				     .may_wait = may_wait };
}

/* As the kernel numbers its table of descriptors. */
static uint64_t table_of(const struct process *process)
{
	return process ? 7000 + (uint64_t)process->id : 0;
}

static struct process *a_process(void)
{
	struct process *process = world_process(next(8));

	/* Until its request is answered it makes no other. */
	if (process)
		process->busy = depth == 0;
	return process;
}

/* A request of the outermost level may wait once it was tried; those in between may not, and are as
 * if they had never been made. */
#define REQUEST(result, process, call)                                 \
	do {                                                           \
		struct tdfs_caller caller = caller_of(process, false); \
		result = call;                                         \
		if (result == TDFS_LATER && depth == 0) {              \
			caller.may_wait = true;                        \
			result = call;                                 \
			must(result != TDFS_LATER, "waits for ever");  \
		}                                                      \
	} while (0)

/* ---- Open and close ----------------------------------------------------------------------- */

static void opened(struct process *process, struct tdfs_handle *handle, uint64_t ino, int flags)
{
	struct open_file *file = world_open(process, handle, ino, flags);

	if (!file)
		abort();
	model_opened(process, ino, flags);
}

static void do_open(struct process *process, const char *name, int flags, bool create)
{
	uint64_t before = world.nested;
	struct tdfs_handle *handle = NULL;
	struct stat st;
	int why = 0;

	if (!process || world_full(process))
		return;
	/* As the kernel does: what is there is opened; what is stale is looked up again, once. */
	for (int tries = 0; tries < 2; tries++) {
		REQUEST(why, process, tdfs_incoming_lookup(in, &caller, name, &st));
		if (why)
			break;
		model_seen(process, name, &st);
		if (create && flags & O_EXCL) {
			tdfs_incoming_forget(in, st.st_ino, 1);
			return;
		}
		REQUEST(why, process, tdfs_incoming_open(in, &caller, st.st_ino, flags, &handle));
		trace("%d opens %s (%d), flags %o: %d", process->id, name, (int)(st.st_ino - FIRST),
		      (unsigned)flags, why);
		if (why == 0)
			opened(process, handle, st.st_ino, flags);
		tdfs_incoming_forget(in, st.st_ino, 1);
		if (why != ESTALE)
			return;
	}
	/* What came in between may have made it just now. */
	if (why == ENOENT && before == world.nested)
		model_not_seen(process, name);
	if (why != ENOENT || !create || (depth > 0 && names_locked))
		return;
	REQUEST(why, process, tdfs_incoming_create(in, &caller, name, 0644, flags, &st, &handle));
	trace("%d creates %s, flags %o: %d", process->id, name, (unsigned)flags, why);
	must(why != ESTALE || before != world.nested, "a name that nobody has is free");
	if (why)
		return;
	must(st.st_uid == uid_of(process), "create gives nobody another's file");
	model_created(process, name, st.st_ino);
	opened(process, handle, st.st_ino, flags);
	tdfs_incoming_forget(in, st.st_ino, 1);
}

static void do_mknod(struct process *process, const char *name)
{
	struct stat st;
	int why;

	if (!process || (depth > 0 && names_locked))
		return;
	REQUEST(why, process, tdfs_incoming_create(in, &caller, name, 0644, 0, &st, NULL));
	if (why)
		return;
	model_created(process, name, st.st_ino);
	tdfs_incoming_forget(in, st.st_ino, 1);
}

static void flush_now(struct process *process, struct open_file *file)
{
	struct tdfs_caller caller = caller_of(process, true);
	uint64_t step = world.nested;
	int answer;

	caller.owner = table_of(process);

	world.finishing = file->ino;
	answer = tdfs_incoming_flush(in, &caller, file->handle);
	world.finishing = 0;
	trace("%d has closed %d: %d", process->id, (int)(file->ino - FIRST), answer);
	model_closed(process, file, answer, step == world.nested && n_later == 0);
}

static void release_now(struct open_file *file)
{
	struct tdfs_caller caller = { .may_wait = true };

	world.finishing = file->ino;
	must(tdfs_incoming_release(in, &caller, file->handle) == 0, "release waits");
	world.finishing = 0;
	world_released(file);
}

static void release_if_last(struct open_file *file)
{
	struct tdfs_caller caller = { 0 };

	if (file->descriptors > 0 || file->flushing > 0 || file->releasing)
		return;
	file->releasing = true;
	if (tdfs_incoming_release(in, &caller, file->handle) == 0)
		world_released(file);
	else if (depth == 0)
		release_now(file);
	else
		later[n_later++] = (struct later){ .what = RELEASE, .file = file };
}

/* One descriptor is closed; it is out of the process's table already. */
static void close_one(struct process *process, struct open_file *file)
{
	struct tdfs_caller caller = caller_of(process, false);
	int answer;

	caller.owner = table_of(process);
	if (!world_take(process, file))
		return;
	trace("%d closes %d", process->id, (int)(file->ino - FIRST));
	file->flushing++;
	process->closing++;
	answer = tdfs_incoming_flush_begin(in, &caller, file->handle);
	if (answer != TDFS_LATER) {
		model_closed(process, file, answer, false);
	} else if (depth == 0) {
		flush_now(process, file);
	} else {
		later[n_later++] =
			(struct later){ .what = FLUSH, .process = process, .file = file };
		return;
	}
	file->flushing--;
	process->closing--;
	release_if_last(file);
}

static bool room_for_later(void)
{
	return n_later < LATER_MAX - 16;
}

static void run_later(void)
{
	while (n_later > 0) {
		struct later one = later[--n_later];

		if (one.what == RELEASE) {
			release_now(one.file);
			continue;
		}
		flush_now(one.process, one.file);
		one.file->flushing--;
		one.process->closing--;
		release_if_last(one.file);
	}
}

static void do_close(void)
{
	struct process *process = a_process();
	struct open_file *file = process ? world_nth(process, next(4)) : NULL;

	if (file && room_for_later())
		close_one(process, file);
}

/* The process ends: its table goes at once, then each file is closed. */
static void do_exit(struct process *process, int signal)
{
	struct open_file *files[DESCRIPTORS];
	unsigned count;

	/* Killed or not, a thread does not leave its close before that is answered. */
	if (!process || !room_for_later() || process->exiting || process->closing > 0)
		return;
	process->exiting = true;
	process->signal = signal;
	count = world_table(process, files);
	trace("%d ends, signal %d", process->id, signal);
	if (signal != 0)
		model_dies(process);
	for (unsigned i = 0; i < count && signal != 0; i++) {
		if ((files[i]->flags & O_ACCMODE) != O_RDONLY)
			model_killed(process, files[i]->ino);
	}
	for (unsigned i = 0; i < count; i++)
		close_one(process, files[i]);
	/* It is there until its last close is answered. */
	process->leaving = true;
}

/* ---- Bytes -------------------------------------------------------------------------------- */

static void do_write(void)
{
	static const char blank[] = "\n\n\n\n";
	struct process *process = a_process();
	struct open_file *file = process ? world_nth(process, next(4)) : NULL;
	unsigned how = next(16), rows = 1 + how % 3;
	char bytes[3 * ROW];
	uint64_t offset;
	size_t done = 0;
	struct stat st;
	int why;

	if (!file)
		return;
	for (unsigned i = 0; i < rows; i++)
		model_row(bytes + i * ROW);
	if (how == 15)
		memcpy(bytes, blank, ROW);
	if (how == 14)
		file->flags ^= O_APPEND;
	/* Mostly behind what is there, else somewhere. */
	offset = how < 9 ? file->position : (uint64_t)next(8) * ROW;
	/* As the kernel does, which knows the size, but for what is asked not to append. */
	if (file->flags & O_APPEND && tdfs_incoming_getattr(in, NULL, file->ino, &st) == 0 &&
	    (how != 13 || offset > (uint64_t)st.st_size))
		offset = (uint64_t)st.st_size;
	REQUEST(why, process,
		(caller.owner = table_of(process),
		 tdfs_incoming_write(in, &caller, file->handle, file->flags, bytes, rows * ROW,
				     offset, &done)));
	trace("%d writes %u to %d at %d: %d", process->id, rows * ROW, (int)(file->ino - FIRST),
	      (int)offset, why);
	if (why == TDFS_LATER)
		return;
	model_wrote(process, file, bytes, rows * ROW, offset, done, why);
	if (why == 0)
		file->position = offset + done;
}

static void do_truncate(struct process *process, const char *name)
{
	struct stat st, change = { .st_size = (off_t)next(6) * ROW };
	int why;

	if (!process)
		return;
	REQUEST(why, process, tdfs_incoming_lookup(in, &caller, name, &st));
	if (why)
		return;
	model_seen(process, name, &st);
	REQUEST(why, process,
		tdfs_incoming_setattr(in, &caller, st.st_ino, &change, TDFS_SET_SIZE, &st));
	trace("%d cuts %s to %d: %d", process->id, name, (int)change.st_size, why);
	if (why != TDFS_LATER)
		model_cut(st.st_ino, (uint64_t)change.st_size, why);
	tdfs_incoming_forget(in, st.st_ino, 1);
}

static void do_sync(void)
{
	struct process *process = a_process();
	struct open_file *file = process ? world_nth(process, next(4)) : NULL;
	int why;

	if (file)
		REQUEST(why, process, tdfs_incoming_sync(in, &caller, file->handle));
}

static void do_read(void)
{
	struct process *process = a_process();
	struct open_file *file = process ? world_nth(process, next(4)) : NULL;
	char bytes[256];
	size_t got = 0;

	if (file && (file->flags & O_ACCMODE) == O_RDWR) {
		uint64_t offset = (uint64_t)next(4) * ROW;
		int why = tdfs_incoming_read(in, file->handle, bytes, sizeof bytes, offset, &got);

		model_read(file->ino, bytes, got, offset, why);
	}
}

/* ---- Names -------------------------------------------------------------------------------- */

static void do_lookup(struct process *process, const char *name)
{
	uint64_t before = world.nested;
	struct stat st;
	int why;

	if (!process)
		return;
	REQUEST(why, process, tdfs_incoming_lookup(in, &caller, name, &st));
	if (why == ENOENT && before == world.nested)
		model_not_seen(process, name);
	if (why)
		return;
	model_seen(process, name, &st);
	tdfs_incoming_forget(in, st.st_ino, 1);
}

static void do_rename(struct process *process, const char *from, const char *to, unsigned flags)
{
	struct stat st;
	uint64_t ino, over = 0;
	int why;

	if (!process || depth > 0)
		return;
	names_locked = true;
	REQUEST(why, process, tdfs_incoming_lookup(in, &caller, from, &st));
	if (why)
		return;
	ino = st.st_ino;
	model_seen(process, from, &st);
	REQUEST(why, process, tdfs_incoming_lookup(in, &caller, to, &st));
	if (why == 0)
		over = st.st_ino;
	if (over != ino) {
		model_renames(process, ino, to);
		world.finishing = ino;
		REQUEST(why, process,
			tdfs_incoming_rename(in, &caller, from, to, flags ? RENAME_NOREPLACE : 0));
		world.finishing = 0;
		trace("%d renames %s to %s: %d", process->id, from, to, why);
		model_renamed(process, ino, from, to, why);
	}
	tdfs_incoming_forget(in, ino, 1);
	if (over != 0)
		tdfs_incoming_forget(in, over, 1);
}

static void do_unlink(struct process *process, const char *name)
{
	uint64_t before = world.nested;
	struct stat st;
	int why;

	if (!process || (depth > 0 && names_locked))
		return;
	names_locked = names_locked || depth == 0;
	/* As the kernel does, which checks what it has found. */
	REQUEST(why, process, tdfs_incoming_lookup(in, &caller, name, &st));
	if (why == ENOENT && before == world.nested)
		model_not_seen(process, name);
	if (why)
		return;
	model_seen(process, name, &st);
	tdfs_incoming_forget(in, st.st_ino, 1);
	model_unlinks(name);
	REQUEST(why, process, tdfs_incoming_unlink(in, &caller, name));
	trace("%d removes %s: %d", process->id, name, why);
	model_unlinked(process, name, why);
}

/* ---- The program -------------------------------------------------------------------------- */

static void see_less(unsigned how)
{
	if (how < 4)
		world.slow = 1 + how % 2;
	else if (how == 4)
		world.incomplete = 1 + next(3);
	else if (how == 5)
		world.incomplete = 30; /* more than a close waits for */
	else if (how == 6)
		world.hidden = 1 + next(3);
	else
		world.unwatched = 1 + next(4);
	trace("scans: %u slow, %u incomplete, %u hidden, %u unwatched", world.slow,
	      world.incomplete, world.hidden, world.unwatched);
}

static void operation(void)
{
	static const int flags[] = { O_WRONLY, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND,
				     O_RDWR,   O_RDWR | O_TRUNC,   O_WRONLY | O_EXCL,
				     O_RDONLY, O_RDWR | O_APPEND };
	unsigned what = next(32);
	struct process *process;
	const char *name;
	unsigned how;

	switch (what) {
	case 0:
	case 1:
	case 2:
	case 3:
		process = a_process();
		how = next(16);
		do_open(process, a_name(), flags[how % 8], how < 14);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
	case 8:
		do_write();
		break;
	case 9:
	case 10:
	case 11:
	case 12:
		do_close();
		break;
	case 13:
		process = a_process();
		trace("%d forks", process ? process->id : 0);
		world_fork(process);
		break;
	case 14:
		do_exit(a_process(), 0);
		break;
	case 15:
		do_exit(a_process(), 9);
		break;
	case 16:
		process = a_process();
		if (process)
			world_dup(process, world_nth(process, next(4)));
		break;
	case 17:
	case 18:
		process = a_process();
		how = next(8);
		name = a_name();
		do_rename(process, name, a_name(), how == 0);
		break;
	case 19:
		process = a_process();
		do_unlink(process, a_name());
		break;
	case 20:
		process = a_process();
		do_truncate(process, a_name());
		break;
	case 21:
	case 22:
		process = a_process();
		do_lookup(process, a_name());
		break;
	case 23:
		world.now += 1 + next(8) * 900;
		trace("it is %d", (int)world.now);
		(void)tdfs_incoming_expire(in);
		break;
	case 24:
		world.code = (int[]){ TDL_OK, TDL_ERR_SCHEMA, TDL_ERR_IO, TDL_ERR_PUBLISHED,
				      TDL_ERR_NOMEM }[next(5)];
		world.failing = 1 + next(3);
		trace("commits fail: %d, %u times", world.code, world.failing);
		break;
	case 25:
		see_less(next(8));
		break;
	case 26:
		process = a_process();
		trace("%d sends", process ? process->id : 0);
		world_send(process, next(4));
		break;
	case 27:
		process = a_process();
		trace("%d receives", process ? process->id : 0);
		world_receive(process);
		break;
	case 28:
		trace("the disk is full");
		world_fill(next(8));
		break;
	case 29:
		do_sync();
		do_read();
		break;
	case 30:
		process = a_process();
		do_mknod(process, a_name());
		break;
	default:
		if (depth == 0)
			world_background();
		world_find();
		break;
	}
}

void between(void)
{
	if (depth > 0)
		return;
	depth++;
	for (unsigned n = next(5); n > 0 && program.at < program.end; n--) {
		world.nested++;
		operation();
	}
	depth--;
}

/* What is left when everybody has gone. */
static void end(bool abruptly)
{
	if (abruptly) {
		tdfs_incoming_close(in);
		world.closing = true;
	}
	for (unsigned i = 0; i < world.count; i++) {
		struct process *process = world_process_at(i);

		if (!process->exiting)
			do_exit(process, 0);
		run_later();
		model_check();
	}
	while (world_lose())
		run_later();
	tdfs_incoming_close(in);
	world.closing = true;
	tdfs_incoming_commit_remaining(in);
	world_background();
	world_find();
	model_end();
}

void lost(struct open_file *file)
{
	release_if_last(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool abruptly = size > 0 && data[0] & 1;

	if (size < 4 || size > 1000)
		return 0;
	program = (struct program){ data + 1, data + size };
	n_later = depth = 0;
	model_begin();
	world_begin();
	while (program.at < program.end) {
		names_locked = false;
		operation();
		run_later();
		world_reap();
		model_check();
	}
	end(abruptly);
	world_end();
	return 0;
}
