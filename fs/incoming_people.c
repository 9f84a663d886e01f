/* SPDX-License-Identifier: MIT */
/*
 * Who had to do with a drop: threads as requests name them, put together to processes; asking the
 * backend who still holds it, and taking note of writers that are being killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incoming_state.h"

static bool has_tid(const struct tdfs_person *person, pid_t tid)
{
	for (unsigned i = 0; i < TDFS_TIDS; i++)
		if (person->tids[i] == tid)
			return true;
	return false;
}

static void add_tid(struct tdfs_person *person, pid_t tid)
{
	if (tid <= 0 || has_tid(person, tid))
		return;
	person->tids[person->next_tid++ % TDFS_TIDS] = tid;
}

static struct tdfs_person *find_tid(struct tdfs_drop *drop, pid_t tid)
{
	for (size_t i = 0; i < drop->n_people; i++)
		if (has_tid(&drop->people[i], tid))
			return &drop->people[i];
	return NULL;
}

static struct tdfs_person *find_process(struct tdfs_drop *drop, pid_t process)
{
	for (size_t i = 0; i < drop->n_people; i++)
		if (drop->people[i].process && tdfs_process_id(drop->people[i].process) == process)
			return &drop->people[i];
	return NULL;
}

bool tdfs_people_same(struct tdfs_drop *drop, pid_t tid, pid_t process)
{
	const struct tdfs_person *person = find_tid(drop, tid);

	return person && person->process && tdfs_process_id(person->process) == process;
}

static void remove_person(struct tdfs_drop *drop, struct tdfs_person *person)
{
	tdfs_process_unref(person->process);
	*person = drop->people[--drop->n_people];
}

void tdfs_people_clear(struct tdfs_drop *drop)
{
	while (drop->n_people > 0)
		remove_person(drop, drop->people);
	free(drop->people);
	drop->people = NULL;
}

void tdfs_people_note(struct tdfs_incoming *in, struct tdfs_drop *drop, pid_t tid, bool wrote)
{
	struct tdfs_person *person, *people;

	if (tid <= 0)
		return;
	person = find_tid(drop, tid);
	if (!person) {
		people = realloc(drop->people, (drop->n_people + 1) * sizeof *people);
		if (!people) {
			drop->orphans = true;
			return;
		}
		drop->people = people;
		person = &people[drop->n_people++];
		*person = (struct tdfs_person){ 0 };
		add_tid(person, tid);
	}
	person->wrote |= wrote;
	person->clean = false;
	/* Early, while the thread is sure to be there: it waits for the answer to its request. */
	if (person->wrote && !person->sought) {
		person->sought = true;
		in->backend.find(in->backend.context, drop->node.ino, tid);
	}
}

/* The person gets its process; two that turn out to be the same one become one. Takes over the
 * reference. */
static void introduce(struct tdfs_drop *drop, struct tdfs_person *person,
		      struct tdfs_process *process)
{
	struct tdfs_person *same;

	if (person->process || !process) {
		tdfs_process_unref(process);
		return;
	}
	same = find_process(drop, tdfs_process_id(process));
	if (!same) {
		person->process = process;
		return;
	}
	for (unsigned i = 0; i < TDFS_TIDS; i++)
		add_tid(same, person->tids[i]);
	same->wrote |= person->wrote;
	same->sought |= person->sought;
	same->clean &= person->clean;
	remove_person(drop, person);
	tdfs_process_unref(process);
}

void tdfs_incoming_found(struct tdfs_incoming *in, uint64_t ino, pid_t tid,
			 struct tdfs_process *process)
{
	struct tdfs_drop *drop;
	struct tdfs_person *person;

	tdfs_lock(in);
	drop = tdfs_drop_of(tdfs_inode_by_ino(in, ino));
	person = drop ? find_tid(drop, tid) : NULL;
	if (person)
		introduce(drop, person, process);
	else
		tdfs_process_unref(process);
	tdfs_unlock(in);
}

/* ---- Looking ------------------------------------------------------------------------------ */

static struct tdfs_look *new_look(struct tdfs_drop *drop)
{
	struct tdfs_look *look = calloc(1, sizeof *look);

	if (!look)
		return NULL;
	/* One more, for tdfs_people_wrote(). */
	look->suspects = calloc(drop->n_people + 1, sizeof *look->suspects);
	if (!look->suspects) {
		free(look);
		return NULL;
	}
	for (size_t i = 0; i < drop->n_people; i++) {
		struct tdfs_suspect *one = &look->suspects[look->count++];

		one->tid = drop->people[i].tids[0];
		one->process = tdfs_process_ref(drop->people[i].process);
		one->clean = drop->people[i].clean;
	}
	return look;
}

/* The backend looks, without the lock. False: it took too long, and *look is gone. */
static bool ask(struct tdfs_incoming *in, struct tdfs_drop *drop, struct tdfs_look *look)
{
	bool in_time;

	drop->node.users++;
	tdfs_unlock(in);
	in_time = in->backend.look(in->backend.context, look);
	tdfs_lock(in);
	drop->node.users--;
	return in_time;
}

static void learn_processes(struct tdfs_drop *drop, const struct tdfs_look *look)
{
	for (size_t i = 0; i < look->count; i++) {
		struct tdfs_person *person = find_tid(drop, look->suspects[i].tid);

		if (person && look->suspects[i].process)
			introduce(drop, person, tdfs_process_ref(look->suspects[i].process));
	}
}

static void learn_killed(struct tdfs_drop *drop, const struct tdfs_look *look, pid_t closer)
{
	for (size_t i = 0; i < look->n_killed; i++) {
		const struct tdfs_killed *killed = &look->killed[i];
		struct tdfs_person *person = find_process(drop, killed->process);
		const char *what;
		char why[160];

		if (!person)
			person = find_tid(drop, killed->process);
		if (!person && killed->process == look->closing)
			person = find_tid(drop, closer);
		if (!person || !person->wrote)
			continue;
		/* strsignal() allocates for the signals that have no name. */
		what = sigdescr_np(killed->signal);
		snprintf(why, sizeof why,
			 "incomplete: its writer %s (process %d) was killed by signal %d%s%s%s",
			 killed->name, (int)killed->process, killed->signal, what ? " (" : "",
			 what ? what : "", what ? ")" : "");
		tdfs_drop_taint(drop, why);
	}
}

/* People who come and go are forgotten; those who may have left somebody behind leave a mark. */
static void learn_ended(struct tdfs_drop *drop, const struct tdfs_look *look)
{
	/* Those that did not fit into the list of the killed are needed in a later look. */
	bool forget = look->n_killed < TDFS_KILLED_MAX;

	for (size_t i = 0; i < look->count; i++) {
		struct tdfs_person *person = find_tid(drop, look->suspects[i].tid);

		if (!look->suspects[i].ended)
			continue;
		if (!person || !person->clean)
			drop->orphans = true;
		if (person && forget)
			remove_person(drop, person);
	}
}

struct tdfs_verdict tdfs_people_look(struct tdfs_incoming *in, struct tdfs_drop *drop,
				     enum tdfs_sight how, pid_t closer, pid_t besides)
{
	struct tdfs_verdict verdict = { .held = how != TDFS_LOOK_KILLED };
	struct tdfs_look *look = new_look(drop);
	struct tdfs_person *person;

	if (!look)
		return verdict;
	look->ino = how == TDFS_LOOK_KILLED ? 0 : drop->node.ino;
	look->everyone = drop->orphans || how == TDFS_LOOK_EVERYWHERE;
	look->closer = closer;
	look->besides = besides;
	if (!ask(in, drop, look)) {
		/* Whoever closes waits for our answer: now or never it shows why. */
		if (closer > 0 && how != TDFS_LOOK_KILLED)
			(void)tdfs_people_look(in, drop, TDFS_LOOK_KILLED, closer, besides);
		return verdict;
	}
	learn_processes(drop, look);
	person = look->closing > 0 ? find_process(drop, look->closing) : NULL;
	if (!person && closer > 0)
		person = find_tid(drop, closer);
	if (person && look->ino != 0)
		person->clean = look->clean;
	learn_killed(drop, look, closer);
	learn_ended(drop, look);
	verdict.held = look->held;
	verdict.till_exec = look->till_exec;
	verdict.aside = look->aside;
	verdict.aside_holds = look->aside_holds;
	if (look->blind && !in->blind) {
		in->blind = true;
		in->backend.say(in->backend.context, NULL,
				"not all processes can be seen in /proc: a file that one of those "
				"still has open may be committed early");
	}
	tdfs_look_clear(look);
	free(look);
	return verdict;
}

int tdfs_people_wrote(struct tdfs_incoming *in, struct tdfs_drop *drop,
		      const struct tdfs_caller *caller)
{
	struct tdfs_person *person;
	struct tdfs_process *process;
	struct tdfs_look *look;
	int wrote = 0;

	if (caller->tid <= 0)
		return 0;
	person = find_tid(drop, caller->tid);
	if (person && person->wrote)
		return 1;
	if (drop->n_people == 0)
		return 0;
	if (!caller->may_wait)
		return TDFS_LATER;
	look = new_look(drop);
	if (!look)
		return 0;
	look->closer = -1;
	look->suspects[look->count++].tid = caller->tid;
	if (!ask(in, drop, look))
		return 0;
	process = look->suspects[look->count - 1].process;
	look->count--;
	learn_processes(drop, look);
	look->count++;
	if (process) {
		person = find_process(drop, tdfs_process_id(process));
		if (person) {
			add_tid(person, caller->tid);
			wrote = person->wrote;
		}
	}
	tdfs_look_clear(look);
	free(look);
	return wrote;
}
