/* SPDX-License-Identifier: MIT */
#ifndef REMOUNT_H
#define REMOUNT_H

#include <stddef.h>

#include "mountopts.h"

/*
 * Changes the flags of the mount on `directory`, which is one of ours, as the options say; those
 * not named stay. The daemon runs on and is not asked: its own options cannot be changed. Returns
 * 0, or -1 with one line in `why` (size bytes).
 */
int remount(const char *directory, const struct mountopts *options, char *why, size_t size);

#endif
