/* SPDX-License-Identifier: MIT */
/*
 * Who holds a file open for writing, and which writers are being killed: whom to look at, in which
 * order, and when that is enough. Knows nothing of FUSE, of names or of commits.
 */
#include "holders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"

/* Whom one look has seen already. */
struct sight {
	struct tdfs_look *look;
	size_t count, room;
	pid_t *seen;
	enum tdfs_hold most;
};

static bool see_first(struct sight *sight, pid_t process)
{
	for (size_t i = 0; i < sight->count; i++)
		if (sight->seen[i] == process)
			return false;
	if (sight->count == sight->room) {
		size_t room = sight->room ? 2 * sight->room : 64;
		pid_t *seen = realloc(sight->seen, room * sizeof *seen);

		if (!seen)
			return true;
		sight->seen = seen;
		sight->room = room;
	}
	sight->seen[sight->count++] = process;
	return true;
}

/* `near`: a process that is not on its way to exec with a descriptor it merely inherited: one that
 * opened the file or wrote to it, or the closer, which cannot go on before it has our answer. */
static void see_process(struct sight *sight, pid_t process, int dir, bool near)
{
	struct tdfs_look *look = sight->look;
	enum tdfs_hold one;

	one = tdfs_proc_holds(look, dir);
	if (process == look->aside) {
		look->aside_holds = one != TDFS_NOT_HELD;
		return;
	}
	if (one == TDFS_HELD_TILL_EXEC && near)
		one = TDFS_HELD;
	if (one > sight->most)
		sight->most = one;
}

static void see_children(struct sight *sight, int dir)
{
	DIR *tasks CLEANUP(tdfs_close_dir) = tdfs_proc_dir(dir, "task");
	struct dirent *entry;

	while (tasks && sight->most < TDFS_HELD && (entry = readdir(tasks))) {
		char path[300];
		char *text CLEANUP(tdfs_free_text) = NULL;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/children", entry->d_name);
		text = tdfs_proc_text(dirfd(tasks), path);
		if (!text) {
			/* A kernel that keeps no such list. */
			if (errno == ENOENT && faccessat(dirfd(tasks), entry->d_name, F_OK, 0) == 0)
				sight->look->everyone = true;
			continue;
		}
		for (char *at = text, *end; sight->most < TDFS_HELD; at = end) {
			pid_t child = (pid_t)strtol(at, &end, 10);
			int fd CLEANUP(tdfs_close_fd) = -1;

			if (end == at)
				break;
			if (child <= 0 || !see_first(sight, child))
				continue;
			fd = tdfs_proc_open(child);
			if (fd < 0)
				continue;
			see_process(sight, child, fd, false);
			see_children(sight, fd);
		}
	}
}

static void see_everyone(struct sight *sight)
{
	DIR *proc CLEANUP(tdfs_close_dir) = tdfs_proc_dir(AT_FDCWD, "/proc");
	struct dirent *entry;

	bool blind = sight->look->blind;

	if (!proc)
		blind = true;
	while (proc && sight->most < TDFS_HELD && (entry = readdir(proc))) {
		pid_t process = tdfs_parse_pid(entry->d_name);
		int dir CLEANUP(tdfs_close_fd) = -1;

		if (process <= 0 || !see_first(sight, process))
			continue;
		dir = tdfs_proc_open(process);
		if (dir >= 0)
			see_process(sight, process, dir, false);
	}
	/* Strangers that hide are no news: where the daemon is not root, most do. */
	sight->look->blind = blind;
}

static void note_killed(struct tdfs_look *look, const struct tdfs_status *status, int dir)
{
	int signal = tdfs_proc_signal(dir);

	if (signal == 0 || look->n_killed == TDFS_KILLED_MAX)
		return;
	for (size_t i = 0; i < look->n_killed; i++)
		if (look->killed[i].process == status->process)
			return;
	look->killed[look->n_killed].process = status->process;
	look->killed[look->n_killed].signal = signal;
	memcpy(look->killed[look->n_killed].name, status->name, sizeof status->name);
	look->n_killed++;
}

/* The thread that closes, and what was just read of it. */
struct closer {
	struct tdfs_status status;
	struct tdfs_process *process; /* where it is the first thread of one */
};

/* The closer's process, where that is one of the suspects; its status is read then. */
static struct tdfs_process *among_suspects(const struct tdfs_look *look, struct closer *closer)
{
	for (size_t i = 0; i < look->count && look->closer > 0; i++) {
		struct tdfs_process *process = look->suspects[i].process;

		if (process && process->id == look->closer &&
		    tdfs_proc_status(process->dir, &closer->status))
			return tdfs_process_ref(process);
	}
	return NULL;
}

/* Its process, and whether that is being killed. */
static void see_closer(struct tdfs_look *look, struct closer *closer)
{
	int dir CLEANUP(tdfs_close_fd) = -1;

	closer->process = among_suspects(look, closer);
	if (!closer->process) {
		dir = look->closer > 0 ? tdfs_proc_open(look->closer) : -1;
		if (dir < 0 || !tdfs_proc_status(dir, &closer->status)) {
			look->blind = true;
			return;
		}
	}
	look->closing = closer->status.process;
	if (!closer->status.alive)
		note_killed(look, &closer->status, closer->process ? closer->process->dir : dir);
	if (!closer->process && look->closing == look->closer)
		closer->process = tdfs_proc_of(look->closing, &dir);
}

/* Whether it is no more, or so near its end that it has no descriptors. */
static bool is_over(struct tdfs_look *look, struct tdfs_suspect *suspect,
		    const struct closer *closer)
{
	struct tdfs_status status;
	size_t count;
	int dir;

	if (suspect->process && suspect->process == closer->process) {
		status = closer->status;
	} else if (suspect->process) {
		if (!tdfs_proc_status(suspect->process->dir, &status))
			return true;
	} else if (closer->process && suspect->tid == look->closer) {
		suspect->process = tdfs_process_ref(closer->process);
		status = closer->status;
	} else {
		suspect->process = tdfs_proc_find(suspect->tid, &status);
		if (!suspect->process)
			return true;
	}
	/* A first thread that has ended is a zombie while the others live. */
	if (status.alive || (status.state == 'Z' && status.threads > 1))
		return false;
	if (status.state == 'Z' || status.state == 'X')
		return true; /* it has had its last FLUSH */
	/* On its way out. As long as it has descriptors they tell, as those of any other do; after
	 * that, a FLUSH of it may be about to come that makes all the difference. */
	dir = suspect->process->dir;
	(void)tdfs_proc_table(look, dir, "fdinfo", &count);
	if (count > 0)
		return false;
	note_killed(look, &status, dir);
	return true;
}

static void see_suspect(struct tdfs_look *look, struct tdfs_suspect *suspect,
			const struct closer *closer)
{
	suspect->ended = is_over(look, suspect, closer);
	if (suspect->ended && !suspect->clean &&
	    !(suspect->process && suspect->process->id == look->closing))
		look->everyone = true;
}

/*
 * The closer and what descends from it, first. When it exits, it still has its children while it
 * closes its files, so even then this is all there is to see of it; only where it had several
 * threads may those that ended before have left children to init.
 */
static void see_nearest(struct sight *sight, const struct closer *closer)
{
	struct tdfs_look *look = sight->look;
	int opened CLEANUP(tdfs_close_fd) = -1;
	int dir;

	if (look->closing <= 0 || !see_first(sight, look->closing))
		return;
	if (!closer->process)
		opened = tdfs_proc_open(look->closing);
	dir = closer->process ? closer->process->dir : opened;
	if (dir >= 0) {
		see_process(sight, look->closing, dir, true);
		see_children(sight, dir);
	}
	look->clean = dir >= 0 && sight->most == TDFS_NOT_HELD &&
		      (closer->status.alive ||
		       (closer->status.threads == 1 && look->closer == look->closing));
	if (!closer->status.alive && !look->clean)
		look->everyone = true;
}

bool tdfs_proc_is_ours(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof text - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return tdfs_parse_pid(text) == getpid();
}

void tdfs_look(struct tdfs_look *look)
{
	struct sight sight = { .look = look };
	struct closer closer = { .process = NULL };
	struct tdfs_process *besides;

	if (look->closer >= 0)
		see_closer(look, &closer);
	besides = look->besides > 0 ? tdfs_process_find(look->besides) : NULL;
	if (besides)
		look->aside = besides->id;
	for (size_t i = 0; i < look->count; i++)
		see_suspect(look, &look->suspects[i], &closer);
	if (besides && look->ino != 0 && see_first(&sight, besides->id))
		see_process(&sight, besides->id, besides->dir, true);
	tdfs_process_unref(besides);
	if (look->ino == 0) {
		tdfs_process_unref(closer.process);
		return;
	}

	/* Those nearest first: whoever is found to hold it ends the search. */
	see_nearest(&sight, &closer);
	for (size_t i = 0; i < look->count && sight.most < TDFS_HELD; i++) {
		struct tdfs_suspect *one = &look->suspects[i];

		if (one->ended || !see_first(&sight, one->process->id))
			continue;
		see_process(&sight, one->process->id, one->process->dir, true);
		/* It has nothing, or had already begun to close what it has. */
		if (sight.most < TDFS_HELD)
			see_suspect(look, one, &closer);
	}
	for (size_t i = 0; i < look->count && sight.most < TDFS_HELD; i++)
		if (!look->suspects[i].ended && look->suspects[i].process != closer.process)
			see_children(&sight, look->suspects[i].process->dir);
	if (look->everyone && sight.most < TDFS_HELD)
		see_everyone(&sight);
	free(sight.seen);
	tdfs_process_unref(closer.process);
	look->held = sight.most != TDFS_NOT_HELD;
	look->till_exec = sight.most == TDFS_HELD_TILL_EXEC;
}

void tdfs_look_clear(struct tdfs_look *look)
{
	for (size_t i = 0; i < look->count; i++)
		tdfs_process_unref(look->suspects[i].process);
	free(look->suspects);
	look->suspects = NULL;
	look->count = 0;
}
