/* SPDX-License-Identifier: MIT */
/*
 * User names: asked for on threads of their own, remembered, and done without where they take too
 * long. Knows nothing of files.
 */
#include "incoming/user_names.h"

#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool.h"

#define WAIT_MS	      1000
#define REMEMBERED_MS 300000 /* a name */
#define UNKNOWN_MS    10000  /* that there was none to be had */
#define NAMES_MAX     64u

struct entry {
	uid_t uid;
	bool used, pending;
	int64_t asked; /* when the answer that is pending, or the last one, was asked for */
	int64_t until; /* the name is good */
	char name[TDFS_USER_NAME_MAX]; /* "": none */
};

struct tdfs_user_names {
	int (*lookup)(uid_t uid, char *name, size_t size); /* constant */
	struct tdfs_pool *pool;				   /* constant */
	pthread_mutex_t lock;
	pthread_cond_t answered;
	unsigned next;
	struct entry entries[NAMES_MAX];
};

struct question {
	struct tdfs_user_names *names;
	uid_t uid;
};

int tdfs_user_lookup(uid_t uid, char *name, size_t size)
{
	struct passwd entry, *found = NULL;
	char buffer[4096];
	int err = getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);

	if (err)
		return err;
	if (!found)
		return ENOENT;
	snprintf(name, size, "%s", found->pw_name);
	return 0;
}

static int64_t steady_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct tdfs_user_names *tdfs_user_names_new(int (*lookup)(uid_t uid, char *name, size_t size))
{
	static const struct tdfs_pool_options options = { .threads = 4, .share = 1 };
	struct tdfs_user_names *names = calloc(1, sizeof *names);
	pthread_condattr_t steady;

	if (!names)
		return NULL;
	names->pool = tdfs_pool_new(&options);
	if (!names->pool) {
		free(names);
		return NULL;
	}
	names->lookup = lookup;
	pthread_mutex_init(&names->lock, NULL);
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&names->answered, &steady);
	pthread_condattr_destroy(&steady);
	return names;
}

void tdfs_user_names_free(struct tdfs_user_names *names)
{
	/* Who waits for an answer that does not come keeps what it will be written to. */
	if (!names || !tdfs_pool_free(names->pool, 100))
		return;
	pthread_cond_destroy(&names->answered);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

static struct entry *find_entry(struct tdfs_user_names *names, uid_t uid)
{
	for (unsigned i = 0; i < NAMES_MAX; i++)
		if (names->entries[i].used && names->entries[i].uid == uid)
			return &names->entries[i];
	return NULL;
}

/* One that nobody waits for makes room. NULL: there is none. */
static struct entry *new_entry(struct tdfs_user_names *names, uid_t uid)
{
	for (unsigned i = 0; i < NAMES_MAX; i++) {
		struct entry *entry = &names->entries[names->next++ % NAMES_MAX];

		if (entry->pending)
			continue;
		*entry = (struct entry){ .uid = uid, .used = true };
		return entry;
	}
	return NULL;
}

static void answer_entry(void *argument)
{
	struct question *question = argument;
	struct tdfs_user_names *names = question->names;
	char name[TDFS_USER_NAME_MAX] = "";
	int err = names->lookup(question->uid, name, sizeof name);
	struct entry *entry;

	pthread_mutex_lock(&names->lock);
	entry = find_entry(names, question->uid);
	if (entry) {
		entry->pending = false;
		entry->until = steady_ms() + (err == 0 ? REMEMBERED_MS : UNKNOWN_MS);
		/* Where the server is away, its last word counts. */
		if (err == 0 || err == ENOENT)
			memcpy(entry->name, name, sizeof name);
	}
	pthread_cond_broadcast(&names->answered);
	pthread_mutex_unlock(&names->lock);
	free(question);
}

static void look_up_unlocked(struct tdfs_user_names *names, struct entry *entry)
{
	struct question *question = malloc(sizeof *question);

	if (!question)
		return;
	*question = (struct question){ .names = names, .uid = entry->uid };
	entry->pending = tdfs_pool_submit(names->pool, entry->uid, answer_entry, question);
	entry->asked = steady_ms();
	if (!entry->pending)
		free(question);
}

static void wait_for_entry(struct tdfs_user_names *names, const struct entry *entry)
{
	int64_t until = entry->asked + WAIT_MS;
	struct timespec deadline = { .tv_sec = until / 1000,
				     .tv_nsec = (long)(until % 1000) * 1000000 };

	while (entry->pending &&
	       pthread_cond_timedwait(&names->answered, &names->lock, &deadline) != ETIMEDOUT)
		;
}

void tdfs_user_name(struct tdfs_user_names *names, uid_t uid, char name[TDFS_USER_NAME_MAX])
{
	struct entry *entry;

	snprintf(name, TDFS_USER_NAME_MAX, "%u", (unsigned)uid);
	pthread_mutex_lock(&names->lock);
	entry = find_entry(names, uid);
	if (!entry)
		entry = new_entry(names, uid);
	if (entry && !entry->pending && steady_ms() >= entry->until)
		look_up_unlocked(names, entry);
	if (entry && entry->pending)
		wait_for_entry(names, entry);
	if (entry && entry->name[0] && entry->uid == uid)
		memcpy(name, entry->name, TDFS_USER_NAME_MAX);
	pthread_mutex_unlock(&names->lock);
}
