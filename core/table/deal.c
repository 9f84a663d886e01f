/* SPDX-License-Identifier: MIT */
/*
 * The parts of a temporary file. Knows nothing of why a record belongs to one of them.
 */
#include "table/deal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "error.h"
#include "sys.h"
#include "util/util.h"

struct part {
	struct tdl__row_record *records; /* that are not written yet */
	size_t count;
	uint64_t *blocks; /* where whole ones lie in the file */
	size_t block_count, block_cap;
};

struct tdl__deal {
	tdl_error *error;
	int fd;
	uint64_t written;
	size_t block;
	struct part parts[TDL__PARTS];
};

void tdl__deal_free(struct tdl__deal *deal)
{
	if (!deal)
		return;
	for (unsigned i = 0; i < TDL__PARTS; i++) {
		free(deal->parts[i].records);
		free(deal->parts[i].blocks);
	}
	if (deal->fd >= 0)
		close(deal->fd);
	free(deal);
}

int tdl__deal_new(size_t block, struct tdl__deal **deal, tdl_error *error)
{
	const char *folder;
	int err;

	*deal = calloc(1, sizeof **deal);
	if (!*deal)
		return tdl__fail_nomem(error);
	(*deal)->error = error;
	(*deal)->block = block;
	(*deal)->fd = -1;
	err = tdl__sys_temporary(&(*deal)->fd, &folder);
	if (err != 0)
		return tdl__fail_errno(error, err, "a temporary file in %s", folder);
	return 0;
}

int tdl__deal_put(struct tdl__deal *deal, unsigned number, const struct tdl__row_record *record)
{
	struct part *part = &deal->parts[number];
	int err;

	if (!part->records) {
		part->records = reallocarray(NULL, deal->block, sizeof *record);
		if (!part->records)
			return tdl__fail_nomem(deal->error);
	}
	part->records[part->count++] = *record;
	if (part->count < deal->block)
		return 0;
	if (!tdl__reserve(&part->blocks, &part->block_cap, part->block_count + 1,
			  sizeof *part->blocks))
		return tdl__fail_nomem(deal->error);
	err = tdl__sys_write(deal->fd, part->records, part->count * sizeof *record);
	if (err != 0)
		return tdl__fail_errno(deal->error, err, "writing a temporary file");
	part->blocks[part->block_count++] = deal->written;
	deal->written += part->count * sizeof *record;
	part->count = 0;
	return 0;
}

int tdl__deal_each(const struct tdl__deal *deal, unsigned number,
		   int (*each)(void *context, const struct tdl__row_record *record), void *context)
{
	const struct part *part = &deal->parts[number];
	struct tdl__row_record *records CLEANUP(tdl__free_at) = NULL;
	size_t size = deal->block * sizeof *records;
	int r = 0;

	if (part->block_count > 0 && !(records = malloc(size)))
		return tdl__fail_nomem(deal->error);
	for (size_t i = 0; i < part->block_count; i++) {
		size_t got = 0;
		int err = tdl__sys_pread(deal->fd, records, size, part->blocks[i], &got);

		if (err != 0 || got < size)
			return tdl__fail_errno(deal->error, err != 0 ? err : EIO,
					       "reading a temporary file");
		for (size_t k = 0; k < deal->block && r == 0; k++)
			r = each(context, &records[k]);
		if (r != 0)
			return r;
	}
	for (size_t k = 0; k < part->count && r == 0; k++)
		r = each(context, &part->records[k]);
	return r;
}
