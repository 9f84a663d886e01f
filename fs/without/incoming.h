/* SPDX-License-Identifier: MIT */
#ifndef TDFS_INCOMING_H
#define TDFS_INCOMING_H

#include "daemon.h"

int tdfs_incoming_new(struct tdfs *tdfs, struct tdfs_incoming **out, tdl_error *error);
void tdfs_incoming_start(struct tdfs_incoming *incoming);
void tdfs_incoming_stop(struct tdfs_incoming *incoming);
void tdfs_incoming_free(struct tdfs_incoming *incoming);

#endif
