/* SPDX-License-Identifier: MIT */
/*
 * What an open file of the read-only tree reads from. Knows nothing of libfuse.
 */
#include "versions/open_file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tdfs_reader {
	struct tdfs_reader *previous, *next; /* under the lock of all */
	struct tdfs_node node;
	tdl_table *growing;	/* of history.jsonl; borrowed */
	tdl_snapshot *snapshot; /* of a version */
	char *text;		/* of a record */
	size_t length;
};

struct tdfs_readers {
	pthread_mutex_t lock;
	struct tdfs_reader *first; /* under the lock */
};

struct tdfs_readers *tdfs_readers_new(void)
{
	struct tdfs_readers *readers = calloc(1, sizeof *readers);

	if (readers)
		pthread_mutex_init(&readers->lock, NULL);
	return readers;
}

static void free_reader(struct tdfs_reader *reader)
{
	tdl_snapshot_unref(reader->snapshot);
	free(reader->text);
	free(reader);
}

void tdfs_readers_free(struct tdfs_readers *readers)
{
	struct tdfs_reader *next;

	if (!readers)
		return;
	for (struct tdfs_reader *at = readers->first; at; at = next) {
		next = at->next;
		free_reader(at);
	}
	pthread_mutex_destroy(&readers->lock);
	free(readers);
}

int tdfs_reader_open(struct tdfs_readers *readers, const struct tdfs_tree *tree,
		     struct tdfs_node node, struct tdfs_reader **out, tdl_error *error)
{
	struct tdfs_reader *reader = calloc(1, sizeof *reader);
	uint64_t size;
	int result;

	if (!reader) {
		*error = (tdl_error){ .code = TDL_ERR_NOMEM, .version = -1 };
		snprintf(error->message, sizeof error->message, "out of memory");
		return error->code;
	}
	reader->node = node;
	if (node.kind == TDFS_RECORDS && tree->only < 0) {
		reader->growing = tree->table;
		result = 0;
	} else if (node.kind == TDFS_DATA) {
		result = tdfs_tree_open_data(tree, node, &reader->snapshot, &size, error);
	} else {
		result = tdfs_tree_render(tree, node, &reader->text, &reader->length, error);
	}
	if (result < 0) {
		free(reader);
		return result;
	}
	pthread_mutex_lock(&readers->lock);
	reader->next = readers->first;
	if (reader->next)
		reader->next->previous = reader;
	readers->first = reader;
	pthread_mutex_unlock(&readers->lock);
	*out = reader;
	return 0;
}

void tdfs_reader_close(struct tdfs_readers *readers, struct tdfs_reader *reader)
{
	pthread_mutex_lock(&readers->lock);
	if (reader->next)
		reader->next->previous = reader->previous;
	if (reader->previous)
		reader->previous->next = reader->next;
	else
		readers->first = reader->next;
	pthread_mutex_unlock(&readers->lock);
	free_reader(reader);
}

bool tdfs_reader_grows(const struct tdfs_reader *reader)
{
	return reader->growing != NULL;
}

struct tdfs_node tdfs_reader_node(const struct tdfs_reader *reader)
{
	return reader->node;
}

tdl_snapshot *tdfs_reader_snapshot(const struct tdfs_reader *reader)
{
	return reader->snapshot;
}

int tdfs_reader_read(struct tdfs_reader *reader, void *buffer, size_t count, uint64_t offset,
		     size_t *got, tdl_error *error)
{
	size_t from;

	if (reader->growing)
		return tdl_table_history_read(reader->growing, buffer, count, offset, got, error);
	if (reader->snapshot)
		return tdl_snapshot_read(reader->snapshot, buffer, count, offset, got, error);
	from = offset < reader->length ? (size_t)offset : reader->length;
	if (count > reader->length - from)
		count = reader->length - from;
	memcpy(buffer, reader->text + from, count);
	*got = count;
	return 0;
}
