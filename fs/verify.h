/* SPDX-License-Identifier: MIT */
#ifndef TDFS_VERIFY_H
#define TDFS_VERIFY_H

#include "tinydelta.h"

/*
 * A thread that compares the log, unhurried, with what was read of it or said by the index
 * (tdl_table_verify_log()), and an hour after that begins anew. What it finds it says in one line;
 * the table knows of it by itself.
 */
struct tdfs_verify;

/* The table must outlive it. NULL where there is no thread to be had: then nothing is compared. */
struct tdfs_verify *tdfs_verify_start(tdl_table *table);
void tdfs_verify_stop(struct tdfs_verify *verify);

#endif
