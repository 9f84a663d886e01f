/* SPDX-License-Identifier: MIT */
#ifndef TDFS_USER_NAMES_H
#define TDFS_USER_NAMES_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The names of users, for the log of the table. Where they come from a directory server they may
 * take long, or never come: nobody waits for one for longer than a second, and then the number
 * stands in its place. Names are remembered for some minutes. Any thread may ask.
 */
struct tdfs_user_names;

#define TDFS_USER_NAME_MAX 256

/* `lookup` as tdfs_user_lookup(). NULL: out of memory. */
struct tdfs_user_names *tdfs_user_names_new(int (*lookup)(uid_t uid, char *name, size_t size));
/* Takes NULL. */
void tdfs_user_names_free(struct tdfs_user_names *names);
void tdfs_user_name(struct tdfs_user_names *names, uid_t uid, char name[TDFS_USER_NAME_MAX]);

/* Asks the system, for as long as that takes. 0; ENOENT: there is no such user; else it is not to
 * be had. */
int tdfs_user_lookup(uid_t uid, char *name, size_t size);

#endif
