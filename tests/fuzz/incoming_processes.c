/* SPDX-License-Identifier: MIT */
/*
 * Processes and their descriptors for the sequence fuzzer. Knows nothing of the daemon but that it
 * has handles.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "incoming_model.h"
#include "incoming_world.h"

#define PROCESSES 64
#define WAY_MAX	  4

static struct process processes[PROCESSES];
static struct open_file *files, *way[WAY_MAX];
static unsigned serials;

struct process *world_by_id(pid_t id)
{
	for (unsigned i = 0; i < world.count; i++) {
		if (processes[i].id == id && !processes[i].dead)
			return &processes[i];
	}
	return NULL;
}

/* ---- Who holds what ------------------------------------------------------------------------ */

static bool writes(const struct open_file *file)
{
	return (file->flags & O_ACCMODE) != O_RDONLY;
}

bool world_process_holds(const struct process *process, uint64_t ino)
{
	for (unsigned i = 0; i < DESCRIPTORS && !process->exiting && !process->dead; i++) {
		if (process->table[i] && process->table[i]->ino == ino && writes(process->table[i]))
			return true;
	}
	return false;
}

/* A process, and those that descend from it: the children of the dead are init's. */
bool world_family_holds(const struct process *process, uint64_t ino, pid_t exclude)
{
	if (process->dead)
		return false;
	if (process->id != exclude && world_process_holds(process, ino))
		return true;
	for (unsigned i = 0; i < world.count; i++) {
		if (processes[i].parent == process->id && !processes[i].dead &&
		    world_family_holds(&processes[i], ino, exclude))
			return true;
	}
	return false;
}

bool world_holds(uint64_t ino, pid_t exclude)
{
	for (unsigned i = 0; i < world.count; i++) {
		if (processes[i].id != exclude && world_process_holds(&processes[i], ino))
			return true;
	}
	return false;
}

bool world_holds_unpassed(uint64_t ino, pid_t exclude)
{
	for (unsigned i = 0; i < world.count; i++) {
		const struct process *process = &processes[i];

		for (unsigned k = 0; k < DESCRIPTORS && !process->exiting && process->id != exclude;
		     k++) {
			const struct open_file *file = process->table[k];

			if (file && file->ino == ino && writes(file) && !file->passed)
				return true;
		}
	}
	return false;
}

bool world_is_unclosed(uint64_t ino)
{
	for (struct open_file *file = files; file; file = file->next) {
		if (!file->gone && !file->closed && file->ino == ino && writes(file))
			return true;
	}
	return false;
}

bool world_is_open(uint64_t ino)
{
	for (struct open_file *file = files; file; file = file->next) {
		if (!file->gone && file->ino == ino && writes(file))
			return true;
	}
	return false;
}

/* ---- Descriptors --------------------------------------------------------------------------- */

struct process *world_process_at(unsigned index)
{
	return &processes[index];
}

struct process *world_process(unsigned nth)
{
	struct process *found = NULL;

	for (unsigned i = 0; i < world.count; i++) {
		if (!processes[i].dead && !processes[i].exiting && !processes[i].busy) {
			found = &processes[i];
			if (nth-- == 0)
				break;
		}
	}
	return found;
}

void world_fork(const struct process *parent)
{
	struct process *child = &processes[world.count];

	if (!parent || world.count == PROCESSES)
		return;
	*child = *parent;
	child->id = 100 + (pid_t)world.count++;
	child->parent = parent->id;
	child->busy = false;
	child->closing = 0;
	for (unsigned i = 0; i < DESCRIPTORS; i++) {
		if (child->table[i])
			child->table[i]->descriptors++;
	}
}

void world_reap(void)
{
	for (unsigned i = 0; i < world.count; i++) {
		processes[i].busy = false;
		if (processes[i].leaving)
			processes[i].dead = true;
	}
}

static struct open_file **free_slot(struct process *process)
{
	for (unsigned i = 0; i < DESCRIPTORS; i++) {
		if (!process->table[i])
			return &process->table[i];
	}
	return NULL;
}

bool world_full(const struct process *process)
{
	return !free_slot((struct process *)process);
}

struct open_file *world_open(struct process *process, struct tdfs_handle *handle, uint64_t ino,
			     int flags)
{
	struct open_file *file = calloc(1, sizeof *file), **slot = free_slot(process);

	if (!file)
		abort();
	*file = (struct open_file){
		.handle = handle, .ino = ino, .flags = flags, .serial = ++serials, .next = files
	};
	files = file;
	must(slot != NULL, "a table has room");
	*slot = file;
	file->descriptors = 1;
	return file;
}

struct open_file *world_nth(struct process *process, unsigned nth)
{
	struct open_file *found = NULL;

	for (unsigned i = 0; i < DESCRIPTORS && !process->exiting; i++) {
		if (process->table[i]) {
			found = process->table[i];
			if (nth-- == 0)
				break;
		}
	}
	return found;
}

void world_dup(struct process *process, struct open_file *file)
{
	struct open_file **slot = free_slot(process);

	if (!file || !slot)
		return;
	*slot = file;
	file->descriptors++;
}

bool world_take(struct process *process, struct open_file *file)
{
	for (unsigned i = 0; i < DESCRIPTORS; i++) {
		if (process->table[i] == file) {
			process->table[i] = NULL;
			file->descriptors--;
			file->closed = true;
			return true;
		}
	}
	return false;
}

unsigned world_table(struct process *process, struct open_file *out[DESCRIPTORS])
{
	unsigned count = 0;

	for (unsigned i = 0; i < DESCRIPTORS; i++) {
		if (process->table[i])
			out[count++] = process->table[i];
	}
	return count;
}

void world_released(struct open_file *file)
{
	file->gone = true;
	file->handle = NULL;
}

void world_send(struct process *process, unsigned nth)
{
	struct open_file *file = process ? world_nth(process, nth) : NULL;

	for (unsigned i = 0; i < WAY_MAX && file; i++) {
		if (!way[i]) {
			way[i] = file;
			file->passed = true;
			file->descriptors++;
			return;
		}
	}
}

void world_receive(struct process *process)
{
	for (unsigned i = 0; i < WAY_MAX && process; i++) {
		struct open_file **slot = way[i] ? free_slot(process) : NULL;

		if (slot) {
			*slot = way[i];
			way[i] = NULL;
			return;
		}
	}
}

bool world_lose(void)
{
	for (unsigned i = 0; i < WAY_MAX; i++) {
		struct open_file *file = way[i];

		if (file) {
			way[i] = NULL;
			file->descriptors--;
			lost(file);
			return true;
		}
	}
	return false;
}

/* ---- Beginning and end --------------------------------------------------------------------- */

void world_processes_begin(void)
{
	memset(processes, 0, sizeof processes);
	memset(way, 0, sizeof way);
	serials = 0;
	world.count = 3;
	for (unsigned i = 0; i < world.count; i++)
		processes[i] = (struct process){ .id = 100 + (pid_t)i, .parent = 1 };
}

void world_processes_end(void)
{
	while (files) {
		struct open_file *next = files->next;

		must(files->gone, "every handle is released");
		free(files);
		files = next;
	}
}
