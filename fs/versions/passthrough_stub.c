/* SPDX-License-Identifier: MIT */
/*
 * In place of passthrough.c where libfuse has no passthrough.
 */
#include "versions/passthrough.h"

#include <stdlib.h>

struct tdfs_passthrough *tdfs_passthrough_new(void)
{
	return malloc(1);
}

void tdfs_passthrough_free(struct tdfs_passthrough *through)
{
	free(through);
}

void tdfs_passthrough_init(struct tdfs_passthrough *through, struct fuse_conn_info *conn)
{
	/* Nothing to ask for. */
}

int tdfs_passthrough_open(struct tdfs_passthrough *through, fuse_req_t req, fuse_ino_t ino,
			  tdl_snapshot *snapshot, struct fuse_file_info *fi, tdl_error *error)
{
	return 0;
}

int tdfs_passthrough_check(struct tdfs_passthrough *through, fuse_ino_t ino, tdl_snapshot *snapshot,
			   tdl_error *error)
{
	return 0;
}

void tdfs_passthrough_close(struct tdfs_passthrough *through, fuse_req_t req, fuse_ino_t ino)
{
	/* Nothing was counted. */
}
