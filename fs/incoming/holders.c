/* SPDX-License-Identifier: MIT */
/*
 * Who had to do with a staged file: threads as requests name them, put together to processes;
 * asking the backend who still holds it, and taking note of writers that are being killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incoming/state.h"

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

static struct tdfs_person *find_tid(struct tdfs_staged *staged, pid_t tid)
{
	for (size_t i = 0; i < staged->n_people; i++)
		if (has_tid(&staged->people[i], tid))
			return &staged->people[i];
	return NULL;
}

static struct tdfs_person *find_process(struct tdfs_staged *staged, pid_t process)
{
	for (size_t i = 0; i < staged->n_people; i++)
		if (staged->people[i].process &&
		    tdfs_process_id(staged->people[i].process) == process)
			return &staged->people[i];
	return NULL;
}

bool tdfs_people_same(struct tdfs_staged *staged, pid_t tid, pid_t process)
{
	const struct tdfs_person *person = find_tid(staged, tid);

	return person && person->process && tdfs_process_id(person->process) == process;
}

static void remove_person(struct tdfs_staged *staged, struct tdfs_person *person)
{
	tdfs_process_unref(person->process);
	*person = staged->people[--staged->n_people];
}

void tdfs_people_clear(struct tdfs_staged *staged)
{
	while (staged->n_people > 0)
		remove_person(staged, staged->people);
	free(staged->people);
	staged->people = NULL;
}

/* Whoever is known no more may have left somebody behind. */
static void forget_oldest(struct tdfs_staged *staged)
{
	staged->orphans |= !staged->people[0].clean;
	tdfs_process_unref(staged->people[0].process);
	memmove(staged->people, staged->people + 1, --staged->n_people * sizeof *staged->people);
}

void tdfs_people_note(struct tdfs_incoming *in, struct tdfs_staged *staged,
		      const struct tdfs_caller *caller, bool wrote)
{
	struct tdfs_person *person, *people;
	pid_t tid = caller->tid;

	if (tid <= 0)
		return;
	person = find_tid(staged, tid);
	if (!person) {
		people = realloc(staged->people, (staged->n_people + 1) * sizeof *people);
		if (!people) {
			staged->orphans = true;
			return;
		}
		staged->people = people;
		/* Temporary files that one process after the other appends to. */
		if (staged->n_people == TDFS_PEOPLE_MAX)
			forget_oldest(staged);
		person = &people[staged->n_people++];
		*person = (struct tdfs_person){ 0 };
		add_tid(person, tid);
	}
	person->wrote |= wrote;
	person->clean = false;
	/* Early, while the thread is sure to be there: it waits for the answer to its request. */
	if (person->wrote && !person->sought) {
		person->sought = true;
		in->backend.find(in->backend.context, staged->node.ino, caller->uid, tid);
	}
}

static void note_user(struct tdfs_staged *staged, uid_t uid)
{
	for (unsigned i = 0; i < staged->n_users && i < TDFS_USERS_MAX; i++)
		if (staged->users[i] == uid)
			return;
	if (staged->n_users < TDFS_USERS_MAX)
		staged->users[staged->n_users++] = uid;
	else
		staged->n_users = TDFS_USERS_MAX + 1;
}

void tdfs_people_opened(struct tdfs_incoming *in, struct tdfs_staged *staged,
			const struct tdfs_caller *caller)
{
	/* Nobody has it from before. */
	if (staged->writers == 1 && in->backend.moment) {
		staged->since = in->backend.moment(in->backend.context);
		staged->n_users = 0;
		memset(staged->tables, 0, sizeof staged->tables);
	}
	note_user(staged, caller->uid);
	tdfs_people_note(in, staged, caller, true);
}

static struct tdfs_table *table_of(struct tdfs_staged *staged, uint64_t owner)
{
	for (unsigned i = 0; i < TDFS_TABLES; i++)
		if (staged->tables[i].owner == owner)
			return &staged->tables[i];
	return NULL;
}

void tdfs_people_used(struct tdfs_handle *handle, const struct tdfs_caller *caller, bool closes)
{
	struct tdfs_staged *staged = tdfs_staged_of(handle->node);
	struct tdfs_table *table;

	if (caller->owner == 0)
		return;
	if (handle->owner == 0)
		handle->owner = caller->owner;
	table = table_of(staged, caller->owner);
	if (!table && !closes) {
		table = &staged->tables[staged->next_table++ % TDFS_TABLES];
		table->owner = caller->owner;
	}
	if (table)
		table->wrote = !closes;
}

/* The person gets its process; two that turn out to be the same one become one. Takes over the
 * reference. */
static void introduce(struct tdfs_staged *staged, struct tdfs_person *person,
		      struct tdfs_process *process)
{
	struct tdfs_person *same;

	if (person->process || !process) {
		tdfs_process_unref(process);
		return;
	}
	same = find_process(staged, tdfs_process_id(process));
	if (!same) {
		person->process = process;
		return;
	}
	for (unsigned i = 0; i < TDFS_TIDS; i++)
		add_tid(same, person->tids[i]);
	same->wrote |= person->wrote;
	same->sought |= person->sought;
	same->clean &= person->clean;
	remove_person(staged, person);
	tdfs_process_unref(process);
}

void tdfs_incoming_found(struct tdfs_incoming *in, uint64_t ino, pid_t tid,
			 struct tdfs_process *process)
{
	struct tdfs_staged *staged;
	struct tdfs_person *person;

	tdfs_lock(in);
	staged = tdfs_staged_of(tdfs_inode_by_ino(in, ino));
	person = staged ? find_tid(staged, tid) : NULL;
	if (person)
		introduce(staged, person, process);
	else
		tdfs_process_unref(process);
	tdfs_unlock(in);
}

/* ---- Looking ------------------------------------------------------------------------------ */

static struct tdfs_look *new_look(const struct tdfs_staged *staged)
{
	struct tdfs_look *look = calloc(1, sizeof *look);

	if (!look)
		return NULL;
	/* One more, for tdfs_people_wrote(). */
	look->suspects = calloc(staged->n_people + 1, sizeof *look->suspects);
	if (!look->suspects) {
		free(look);
		return NULL;
	}
	for (size_t i = 0; i < staged->n_people; i++) {
		struct tdfs_suspect *one = &look->suspects[look->count++];

		one->tid = staged->people[i].tids[0];
		one->process = tdfs_process_ref(staged->people[i].process);
		one->clean = staged->people[i].clean;
	}
	look->since = staged->since;
	memcpy(look->users, staged->users, sizeof look->users);
	look->n_users = staged->n_users;
	return look;
}

/* The backend looks, without the lock. False: it was given up, and *look is gone. */
static bool ask(struct tdfs_incoming *in, struct tdfs_staged *staged, uid_t uid,
		struct tdfs_look *look)
{
	bool in_time;

	staged->node.users++;
	tdfs_unlock(in);
	in_time = in->backend.look(in->backend.context, uid, look);
	tdfs_lock(in);
	staged->node.users--;
	return in_time;
}

static void learn_processes(struct tdfs_staged *staged, const struct tdfs_look *look)
{
	for (size_t i = 0; i < look->count; i++) {
		struct tdfs_person *person = find_tid(staged, look->suspects[i].tid);

		if (person && look->suspects[i].process)
			introduce(staged, person, tdfs_process_ref(look->suspects[i].process));
	}
}

static void learn_killed(struct tdfs_staged *staged, const struct tdfs_look *look, pid_t closer)
{
	for (size_t i = 0; i < look->n_killed; i++) {
		const struct tdfs_killed *killed = &look->killed[i];
		struct tdfs_person *person = find_process(staged, killed->process);
		const char *what;
		char why[160], by[32];

		if (!person)
			person = find_tid(staged, killed->process);
		if (!person && killed->process == look->closing)
			person = find_tid(staged, closer);
		if (!person || !person->wrote)
			continue;
		/* strsignal() allocates for the signals that have no name. */
		what = killed->signal > 0 ? sigdescr_np(killed->signal) : NULL;
		snprintf(by, sizeof by, killed->signal > 0 ? "signal %d" : "a signal",
			 killed->signal);
		if (killed->signal < 0)
			snprintf(why, sizeof why,
				 "incomplete: how its writer %s (process %d) ended cannot be seen: "
				 "it "
				 "may have been killed",
				 killed->name, (int)killed->process);
		else
			snprintf(why, sizeof why,
				 "incomplete: its writer %s (process %d) was killed by %s%s%s%s",
				 killed->name, (int)killed->process, by, what ? " (" : "",
				 what ? what : "", what ? ")" : "");
		tdfs_staged_set_incomplete(staged, why);
	}
}

/* People who come and go are forgotten; those who may have left somebody behind leave a mark. */
static void learn_ended(struct tdfs_staged *staged, const struct tdfs_look *look)
{
	/* Those that did not fit into the list of the killed are needed in a later look. */
	bool forget = look->n_killed < TDFS_KILLED_MAX;

	for (size_t i = 0; i < look->count; i++) {
		struct tdfs_person *person = find_tid(staged, look->suspects[i].tid);

		if (!look->suspects[i].ended)
			continue;
		if (!person || !person->clean)
			staged->orphans = true;
		if (person && forget)
			remove_person(staged, person);
	}
}

/* ---- Where /proc shows nothing ------------------------------------------------------------ */

/* Whether a handle was opened by the process that closes now; its threads and tables witness it. */
static bool is_opener(struct tdfs_staged *staged, const struct tdfs_handle *handle,
		      const struct tdfs_caller *closer, pid_t closing)
{
	if (closer->tid > 0 && handle->opener == closer->tid)
		return true;
	if (closing > 0 && handle->opener > 0)
		return tdfs_people_same(staged, handle->opener, closing);
	return handle->owner == closer->owner;
}

/*
 * The closer's descriptors are not to be seen, nor whose else they are. Another table that wrote
 * and has not closed since has the file for sure. And who did not open the file has it from
 * someone who may well go on with it: a later close commits, or the end of the last descriptor.
 */
static bool others_have_it(struct tdfs_incoming *in, struct tdfs_staged *staged,
			   const struct tdfs_caller *closer, pid_t closing)
{
	for (unsigned i = 0; i < TDFS_TABLES; i++)
		if (staged->tables[i].wrote && staged->tables[i].owner != closer->owner)
			return true;
	/* Not a close: a rename. */
	if (closer->owner == 0)
		return false;
	for (struct tdfs_handle *handle = in->handles; handle; handle = handle->next)
		if (handle->node == &staged->node && handle->writes &&
		    !is_opener(staged, handle, closer, closing))
			return true;
	return false;
}

static void say_blind(struct tdfs_incoming *in)
{
	if (in->blind)
		return;
	in->blind = true;
	in->backend.say(in->backend.context, NULL,
			"not all processes can be seen in /proc: a file of one of those is "
			"committed when the process that opened it closes it, or when nobody has "
			"it any more");
}

/* ---- The verdict -------------------------------------------------------------------------- */

static void learn(struct tdfs_incoming *in, struct tdfs_staged *staged,
		  const struct tdfs_look *look, const struct tdfs_caller *closer,
		  struct tdfs_verdict *verdict)
{
	struct tdfs_person *person;
	pid_t tid = closer ? closer->tid : 0;

	learn_processes(staged, look);
	verdict->held = look->held;
	verdict->till_exec = look->till_exec;
	verdict->holder = look->holder;
	verdict->aside = look->aside;
	verdict->aside_holds = look->aside_holds;
	if (look->ino != 0 && !look->held && look->unwatched && closer) {
		verdict->held = others_have_it(in, staged, closer, look->closing);
		say_blind(in);
	} else if (look->ino != 0 && look->hidden.process != 0 &&
		   (!look->held || look->till_exec)) {
		verdict->held = verdict->unknown = true;
		verdict->till_exec = false;
		snprintf(verdict->why, sizeof verdict->why,
			 "not committed: whether process %d (%s) still has it open cannot be seen; "
			 "rename it to commit it, or write it again",
			 (int)look->hidden.process, look->hidden.name);
	}
	person = look->closing > 0 ? find_process(staged, look->closing) : NULL;
	if (!person && tid > 0)
		person = find_tid(staged, tid);
	if (person && look->ino != 0)
		person->clean = look->clean;
	learn_killed(staged, look, tid);
	learn_ended(staged, look);
}

/* One look; false: it was given up, or not complete for lack of something. */
static bool look_once(struct tdfs_incoming *in, struct tdfs_staged *staged, enum tdfs_sight how,
		      const struct tdfs_caller *closer, pid_t besides, struct tdfs_verdict *verdict)
{
	struct tdfs_look *look = new_look(staged);
	bool complete;

	if (!look)
		return false;
	look->ino = how == TDFS_LOOK_KILLED ? 0 : staged->node.ino;
	look->everyone = staged->orphans;
	look->closer = closer ? closer->tid : -1;
	look->besides = besides;
	if (!ask(in, staged, closer ? closer->uid : staged->writer, look))
		return false;
	complete = !look->blind || look->held;
	if (complete)
		learn(in, staged, look, closer, verdict);
	tdfs_look_clear(look);
	free(look);
	return complete;
}

struct tdfs_verdict tdfs_people_look(struct tdfs_incoming *in, struct tdfs_staged *staged,
				     enum tdfs_sight how, const struct tdfs_caller *closer,
				     pid_t besides)
{
	struct tdfs_verdict verdict = { 0 };

	for (int tries = 0; tries < TDFS_LOOKS_MAX; tries++) {
		if (tries > 0)
			tdfs_sleep_unlocked(in, TDFS_RETRY_MS);
		if (look_once(in, staged, how, closer, besides, &verdict))
			return verdict;
	}
	/* Whoever closes waits for our answer: now or never it shows why. */
	if (closer && how != TDFS_LOOK_KILLED)
		(void)look_once(in, staged, TDFS_LOOK_KILLED, closer, besides, &verdict);
	verdict = (struct tdfs_verdict){ .held = how != TDFS_LOOK_KILLED };
	verdict.unknown = verdict.held;
	snprintf(verdict.why, sizeof verdict.why,
		 "not committed: who still has it open cannot be seen for lack of descriptors, "
		 "memory or threads; rename it to commit it, or write it again");
	return verdict;
}

int tdfs_people_wrote(struct tdfs_incoming *in, struct tdfs_staged *staged,
		      const struct tdfs_caller *caller)
{
	struct tdfs_person *person;
	struct tdfs_process *process;
	struct tdfs_look *look;
	int wrote = 0;

	if (caller->tid <= 0)
		return 0;
	person = find_tid(staged, caller->tid);
	if (person && person->wrote)
		return 1;
	if (staged->n_people == 0)
		return 0;
	if (!caller->may_wait)
		return TDFS_LATER;
	look = new_look(staged);
	if (!look)
		return 0;
	look->closer = -1;
	look->suspects[look->count++].tid = caller->tid;
	if (!ask(in, staged, caller->uid, look))
		return 0;
	process = look->suspects[look->count - 1].process;
	look->count--;
	learn_processes(staged, look);
	look->count++;
	if (process) {
		person = find_process(staged, tdfs_process_id(process));
		if (person) {
			add_tid(person, caller->tid);
			wrote = person->wrote;
		}
	}
	tdfs_look_clear(look);
	free(look);
	return wrote;
}
