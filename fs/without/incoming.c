/* SPDX-License-Identifier: MIT */
/*
 * A daemon that only reads: incoming/ is empty.
 */
#include "incoming.h"

const struct fuse_lowlevel_ops tdfs_incoming_ops = { 0 };

int tdfs_incoming_new(struct tdfs *tdfs, struct tdfs_incoming **out, tdl_error *error)
{
	*out = NULL;
	return 0;
}

void tdfs_incoming_start(struct tdfs_incoming *incoming)
{
}

void tdfs_incoming_stop(struct tdfs_incoming *incoming)
{
}

void tdfs_incoming_free(struct tdfs_incoming *incoming)
{
}
