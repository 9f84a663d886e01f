/* SPDX-License-Identifier: MIT */
#ifndef TDFS_TREE_H
#define TDFS_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "opts.h"
#include "tinydelta.h"

/*
 * The read-only tree: which names there are, their inode numbers and their attributes.
 *
 * A node is a kind and, for what belongs to a version, its number. Its inode number is computed
 * from these two and nothing else:
 *
 *     fixed nodes	slot			1..15
 *     of version N	(N + 1) << 4 | slot	slot 0..15
 *
 * so that it is the same for ever, on every machine, across remounts; nothing is kept for an inode
 * the kernel knows, and a million versions cost nothing. A slot, once given, is never reused.
 *
 * latest/data.jsonl is not a node of its own: its name leads to the data node of the newest
 * version. The same holds for history/latest.json. A name in at/ leads to the one link to its
 * version, so that nothing grows with the names that are asked for.
 */
enum tdfs_kind {
	TDFS_ROOT,
	TDFS_INCOMING, /* as it is where nothing can be dropped: an empty directory */
	TDFS_LATEST,
	TDFS_HISTORY,
	TDFS_RECORDS, /* history.jsonl */
	TDFS_AT,
	TDFS_AT_README, /* at/README */
	TDFS_VERSION,	/* vN */
	TDFS_DATA,	/* vN/data.jsonl */
	TDFS_RECORD,	/* history/vN.json */
	TDFS_LINK,	/* at/T, the symbolic link to vN, whatever T is */
	TDFS_KINDS
};

struct tdfs_node {
	enum tdfs_kind kind;
	int64_t version; /* 0 for the fixed ones */
};

/* Versions beyond have no inode number, and no entry. */
#define TDFS_VERSION_MAX (((int64_t)1 << 58) - 2)

uint64_t tdfs_node_ino(struct tdfs_node node);
/* False where no node can have this number. Whether its version exists is not looked at. */
bool tdfs_node_from_ino(uint64_t ino, struct tdfs_node *node);
bool tdfs_node_is_directory(struct tdfs_node node);
/* S_IFDIR, S_IFREG or S_IFLNK. */
mode_t tdfs_node_type(struct tdfs_node node);
/* The directory that a node is in. */
struct tdfs_node tdfs_node_parent(struct tdfs_node node);
/* The path in the mount, for messages: "v3/data.jsonl". */
#define TDFS_PATH_MAX 64
const char *tdfs_node_path(struct tdfs_node node, char path[TDFS_PATH_MAX]);

/*
 * The tree of one table. Constant, so any number of threads may use it. With `only` there is
 * nothing but one version, and the root is its directory.
 */
struct tdfs_tree {
	tdl_table *table;
	int64_t only; /* -1: all of them */
	struct tdfs_shown shown;
	bool has_list; /* no more versions than `list` are listed, the newest; looked up are all */
	uint64_t list;
	char zone[96]; /* what at/README calls the zone of times that name none */
};

/* Reads the zone of this process, as TZ or /etc/localtime say it, for the life of the tree. */
void tdfs_tree_read_zone(struct tdfs_tree *tree);

/* How long what is told of a node or name holds. */
enum tdfs_lasting {
	TDFS_NOW,      /* ask again each time */
	TDFS_A_MOMENT, /* some milliseconds: one path after another need not ask about the root */
	TDFS_FOR_EVER, /* a version never changes */
};

/*
 * The permissions and the owner that a directory or a file shows: `most`, of which what the table's
 * directory has remains, or what the options say. Fills in st_mode's permissions, st_uid, st_gid.
 */
void tdfs_tree_own(const struct tdfs_tree *tree, const struct stat *table, mode_t most,
		   struct stat *st);

/*
 * Fills the attributes of a node. Directories take r and x from the table's directory as it is
 * now, files r, both its owner; times are those of the commit, of the newest one for directories
 * that show all versions. Errors: NOT_FOUND, CORRUPT, IO, NOMEM.
 */
int tdfs_tree_stat(const struct tdfs_tree *tree, struct tdfs_node node, struct stat *st,
		   enum tdfs_lasting *lasting, tdl_error *error);

/*
 * The node called `name` in a directory; "." and ".." too. *lasting is for the name, not for the
 * node's attributes. A name that leads to the newest version or to that of a time looks for new
 * commits first, and a version that is not known yet does. Errors: NOT_FOUND, CORRUPT, IO, NOMEM.
 */
int tdfs_tree_lookup(const struct tdfs_tree *tree, struct tdfs_node directory, const char *name,
		     struct tdfs_node *node, enum tdfs_lasting *lasting, tdl_error *error);

/* An entry of a directory. `next` is the offset to go on at, the same for a name for ever. */
struct tdfs_entry {
	char name[32];
	struct tdfs_node node;
	uint64_t next;
};

/*
 * The first entry at or after `offset` (0: the first of all, after a look for new commits). Every
 * version that is to be listed and exists all the time between the first and the last call is met
 * exactly once. Returns 1, or 0 at the end.
 */
int tdfs_tree_entry(const struct tdfs_tree *tree, struct tdfs_node directory, uint64_t offset,
		    struct tdfs_entry *entry);

/* Opens what a data node holds. As tdl_snapshot_open(), and the size is known to be right. */
int tdfs_tree_open_data(const struct tdfs_tree *tree, struct tdfs_node node,
			tdl_snapshot **snapshot, uint64_t *size, tdl_error *error);
/* The text of a record node or of at/README; free it with free(). */
int tdfs_tree_render(const struct tdfs_tree *tree, struct tdfs_node node, char **text,
		     size_t *length, tdl_error *error);
/* What a link node leads to. False: it is none, or is not shown. */
bool tdfs_tree_readlink(const struct tdfs_tree *tree, struct tdfs_node node,
			char target[TDFS_PATH_MAX]);

#endif
