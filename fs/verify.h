/* SPDX-License-Identifier: MIT */
#ifndef TDFS_VERIFY_H
#define TDFS_VERIFY_H

#include "tinydelta.h"

/*
 * A thread that compares with the log, unhurried and once, what the table was opened with and was
 * not read from the log (tdl_table_verify_log()). What it finds it says in one line; the table
 * knows of it by itself.
 */
struct tdfs_verify;

/* The table must outlive it. NULL where there is no thread to be had: then nothing is compared. */
struct tdfs_verify *tdfs_verify_start(tdl_table *table);
void tdfs_verify_stop(struct tdfs_verify *verify);

#endif
