/* SPDX-License-Identifier: MIT */
#ifndef TDL_STAGING_H
#define TDL_STAGING_H

#include <stdatomic.h>

#include "commit/publish.h"
#include "table/table.h"

/*
 * _incoming/: a folder for each process that stages files, named by machine, boot and a random
 * part, and locked with flock() while the process lives: itself, and the file `.lock` in it, since
 * some shared file systems (GlusterFS) have locks of directories that other clients do not see. In
 * it a file is <32 hex>-<name> (staged under a name) or <32 hex> (the process's own, without one),
 * the hex being those of the data file it is to become.
 */

/* A process's folder. */
struct tdl_staging {
	tdl_table *table;
	int incoming; /* _incoming */
	int dir;      /* the folder; its description holds a lock, */
	int lock;     /* and so does that of the file in it */
	char *name;
	atomic_size_t validator_memory; /* of all its files' validators while they are written */
	pthread_mutex_t renewing;	/* one at a time makes the folder anew */
	pthread_mutex_t memory_lock;
	pthread_cond_t memory_left; /* long_rows has become less */
	unsigned long_rows;	    /* validators of what is committed that have one */
};

/* Of what is validated while it is written: a row that is longer, or more memory for all files of
 * the folder together, has to wait until it is committed. */
#define TDL__LONG_ROW	      ((size_t)1 << 20)
#define TDL__VALIDATOR_MEMORY ((size_t)64 << 20)
/* And so many of what is committed may have a long row at once. */
#define TDL__LONG_ROWS 2u

struct tdl_staged {
	tdl_staging *staging;
	pthread_mutex_t lock;		  /* of what is known of its bytes while it is written: */
	struct tdl__validator *validator; /* its validator, or NULL; or one that is done: */
	bool prepared;			  /* `part` is what a commit of the file needs */
	tdl__part part;
	void (*free_validator)(struct tdl__validator *validator);
	size_t validator_memory; /* what it counts for in the folder's */
	uint64_t generation;	 /* counts the times it was cut */
	bool scattered;		 /* nothing: they did not come one after the other */
	int unsynced;		 /* why they could not be made durable, or 0 */
	atomic_bool stop;	 /* its preparation: it has been written to */
	int fd;
	char hex[TDL__HEX_MAX];
	/* Of whom the file that tells about it says so, and what it says of a refusal; with the
	 * lock held. */
	bool has_about;
	unsigned uid, gid, mode;
	char *refused;	 /* or NULL */
	char *file_name; /* in the folder; NULL: it is gone; changed with the lock held */
};

/* Writes this long are validated while the file is written; most files are shorter. */
#define TDL__VALIDATE_MIN ((size_t)64 << 10)

/* Makes a nameless file with these hex digits (NULL: fresh ones). Errors: IO, NOMEM. */
int tdl__staged_create_nameless(tdl_staging *staging, const char *hex, tdl_staged **file,
				tdl_error *error);

/* An object for a file in the folder, with no descriptor yet; takes over the name, which may be
 * NULL. NULL: no memory. */
tdl_staged *tdl__staged_new(tdl_staging *staging, char *file_name);
/* Leaves its file on the disk for whoever recovers it: it is this process's no more. */
void tdl__staged_forget(tdl_staged *file);
/*
 * Where somebody took the file's name away (a clone of this machine that does not see our locks),
 * gives it one again, in a folder that is made anew, with a copy of its bytes; *again says whether.
 * The descriptor keeps its number. Errors: IO.
 */
int tdl__staged_secure(tdl_staged *file, bool *again, tdl_error *error);
/* Whether `name` is that of a file which tells about a staged one. */
bool tdl__about_parse(const char *name);
/* Moves what is known about a file from the folder that it was in, and fills all of *left but name
 * and time; `reason` is to be freed. */
void tdl__about_take(tdl_staged *file, int from, const struct stat *st, tdl_left *left);
/* Why the staged file with these hex digits was refused, made printable, where it is as it was
 * then. False: nobody knows. */
bool tdl__about_reason(int dir, const char *hex, const struct stat *st, char out[TDL_MESSAGE_MAX]);
/* Removes it; with the lock held. */
void tdl__about_forget(tdl_staged *file);
/* Says that files cannot be staged in the table, and why (an errno). */
int tdl__cannot_stage(const tdl_table *table, int err, tdl_error *error);

/* Whether `name` is a staged file's; *staged_name gets the name it was staged under, "" for none.
 */
bool tdl__staged_parse(const char *name, const char **staged_name);

/* Whether a name in the table is that of an _incoming that was never finished. */
bool tdl__incoming_is_temp(const char *name);

/* Whether a name is that of a process's folder, of whatever machine. */
bool tdl__folder_parse(const char *name);

/*
 * Where a file system has no hard links a staged file is renamed to its data file's name, and until
 * it is published this, an empty file <32 hex>+<name>, says so and keeps the name. *staged_name
 * gets it. A file without a name has none.
 */
bool tdl__moved_parse(const char *name, const char **staged_name);

/* How a folder of _incoming stands to this process. */
enum tdl__folder {
	TDL__FOLDER_FOREIGN, /* of another machine, or no staging folder at all */
	TDL__FOLDER_BUSY,    /* its process lives */
	TDL__FOLDER_DEAD,    /* its process is gone; *dead holds its locks now */
};
struct tdl__dead {
	int dir, lock; /* lock: -1 where there is no such file */
};
/* Of a machine with this one's id and another boot id, a process that has touched its lock file so
 * recently is taken to live, locked or not. */
#define TDL__LIFE_MS 600000
enum tdl__folder tdl__folder_trylock(int incoming, const char *name, struct tdl__dead *dead);
/* The same for whoever says that its process is gone: it counts as dead unless it is locked, of
 * whatever machine it is. FOREIGN: it cannot be opened, and errno says why. */
enum tdl__folder tdl__folder_lock(int incoming, const char *name, struct tdl__dead *dead);
/*
 * Whether a folder was made by this user's own kind: what is in it is what it seems to be. Whoever
 * may write to _incoming can make a folder with links in it to what is not theirs, for us to take
 * over, give away, publish or delete.
 */
bool tdl__folder_is_ours(const tdl_table *table, int dir);
/* Gives the locks up. */
void tdl__dead_close(struct tdl__dead *dead);
/* Removes the folder, if it is empty, while it is locked. */
void tdl__dead_remove(int incoming, const char *name, const struct tdl__dead *dead);
#define TDL__DEAD_NONE ((struct tdl__dead){ -1, -1 })

#endif
