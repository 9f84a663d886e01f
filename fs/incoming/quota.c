/* SPDX-License-Identifier: MIT */
/*
 * What one user may have of what all share, so that nobody can take it all: files that wait, open
 * ones, memory for who had to do with them. Knows only numbers; who is limited, and to how much, is
 * the backend's.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "incoming/state.h"

#define TOLD_MS 60000

static int compare_users(const void *a, const void *b)
{
	uid_t one = ((const struct tdfs_user *)a)->uid, other = ((const struct tdfs_user *)b)->uid;

	return (one > other) - (one < other);
}

static struct tdfs_user *find_user(struct tdfs_incoming *in, uid_t uid)
{
	struct tdfs_user wanted = { .uid = uid }, **found;

	found = tfind(&wanted, &in->users, compare_users);
	return found ? *found : NULL;
}

/* NULL: no memory; then it is not counted. */
static struct tdfs_user *need_user(struct tdfs_incoming *in, uid_t uid)
{
	struct tdfs_user *user = find_user(in, uid);

	if (user)
		return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->uid = uid;
	if (!tsearch(user, &in->users, compare_users)) {
		free(user);
		return NULL;
	}
	return user;
}

static void reap_user(struct tdfs_incoming *in, struct tdfs_user *user)
{
	if (user->files > 0 || user->opens > 0)
		return;
	tdelete(user, &in->users, compare_users);
	free(user);
}

/* Of what the user may not have more than so many; NULL: he is nobody who is limited. */
static const struct tdfs_limits *limits_of(const struct tdfs_incoming *in,
					   const struct tdfs_user *user)
{
	const struct tdfs_limits *limits = in->backend.limits;

	return limits && user && user->uid != limits->exempt ? limits : NULL;
}

static void log_full(struct tdfs_incoming *in, struct tdfs_user *user, int64_t *told,
		     const char *text)
{
	int64_t now = in->backend.now(in->backend.context);

	if (*told != 0 && now - *told < TOLD_MS)
		return;
	*told = now;
	in->backend.log(in->backend.context, user->uid, NULL, text);
}

int tdfs_quota_file(struct tdfs_incoming *in, uid_t uid)
{
	struct tdfs_user *user = find_user(in, uid);
	const struct tdfs_limits *limits = limits_of(in, user);
	char text[160];

	if (!limits || limits->files == 0 || user->files < limits->files)
		return 0;
	snprintf(text, sizeof text,
		 "user %u has %u files in incoming/ that are not committed, and can have no more: "
		 "remove some",
		 (unsigned)uid, user->files);
	log_full(in, user, &user->told[0], text);
	return EDQUOT;
}

int tdfs_quota_open(struct tdfs_incoming *in, uid_t uid)
{
	struct tdfs_user *user = find_user(in, uid);
	const struct tdfs_limits *limits = limits_of(in, user);
	char text[160];

	if (!limits || limits->opens == 0 || user->opens < limits->opens)
		return 0;
	snprintf(text, sizeof text,
		 "user %u has opened files in incoming/ %u times at once, and can open no more: "
		 "close some",
		 (unsigned)uid, user->opens);
	log_full(in, user, &user->told[1], text);
	return EMFILE;
}

bool tdfs_quota_clients(const struct tdfs_incoming *in, const struct tdfs_staged *staged)
{
	const struct tdfs_limits *limits = limits_of(in, staged->user);

	return !limits || limits->clients == 0 || staged->user->clients < limits->clients;
}

void tdfs_quota_add(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	if (staged->user)
		return;
	staged->user = need_user(in, staged->node.uid);
	if (!staged->user)
		return;
	staged->user->files++;
	staged->user->clients += staged->n_clients;
}

void tdfs_quota_remove(struct tdfs_incoming *in, struct tdfs_staged *staged)
{
	struct tdfs_user *user = staged->user;

	if (!user)
		return;
	staged->user = NULL;
	user->files--;
	user->clients -= staged->n_clients;
	reap_user(in, user);
}

void tdfs_quota_opened(struct tdfs_incoming *in, struct tdfs_handle *handle, uid_t uid)
{
	handle->user = need_user(in, uid);
	if (handle->user)
		handle->user->opens++;
}

void tdfs_quota_closed(struct tdfs_incoming *in, struct tdfs_handle *handle)
{
	if (!handle->user)
		return;
	handle->user->opens--;
	reap_user(in, handle->user);
	handle->user = NULL;
}
