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

/* Makes a folder of the table, under another name first: nobody finds it with a mode that it is not
 * to have. One that is there already is not a failure. Errors: IO, NOMEM. */
int tdl__make_folder(tdl_table *table, const char *name, mode_t mode, tdl_error *error);

/* A process's folder. */
struct tdl_staging {
	tdl_table *table;		/* borrowed */
	int incoming;			/* _incoming */
	int dir;			/* the folder in it, flock()ed */
	int lock;			/* `.lock` in that, flock()ed */
	char *name;			/* the folder's, owned */
	atomic_size_t validator_memory; /* of all its files' validators while they are written */
	pthread_mutex_t renewing;	/* held by the one that makes the folder anew */
	pthread_mutex_t memory_lock;	/* guards long_rows */
	pthread_cond_t memory_left;	/* long_rows has become less */
	unsigned long_rows;		/* validators of what is being committed with a long row */
};

/* Of what is validated while it is written: a row that is longer, or more memory for all files of
 * the folder together, has to wait until it is committed. */
#define TDL__LONG_ROW	      ((size_t)1 << 20)
#define TDL__VALIDATOR_MEMORY ((size_t)64 << 20)
/* And so many of what is committed may have a long row at once. */
#define TDL__LONG_ROWS 2u

struct tdl_staged {
	tdl_staging *staging;		  /* borrowed */
	pthread_mutex_t lock;		  /* guards all below but fd and hex */
	struct tdl__validator *validator; /* owned; has read the bytes so far. NULL: none */
	void (*free_validator)(struct tdl__validator *validator);
	size_t validator_memory; /* what the validator counts for in the folder's */
	bool prepared;		 /* the validator has finished, and `part` is for a commit */
	tdl__part part;		 /* where prepared */
	uint64_t generation;	 /* counts the times the file was cut */
	bool scattered;		 /* its bytes did not come one after the other: no validator */
	int unsynced;		 /* why its bytes could not be made durable; 0: nothing failed */
	atomic_bool stop;	 /* a preparation is to stop: the file has been written to */
	int fd;			 /* -1: closed */
	char hex[TDL__HEX_MAX];	 /* its digits, those of the data file it is to become */
	bool has_about;		 /* a file on the disk tells the following three and `refused` */
	unsigned uid;		 /* the user it is to belong to */
	unsigned gid;		 /* the group */
	unsigned mode;		 /* the permission bits */
	char *refused;		 /* owned; the reason of a refusal. NULL: none */
	char *file_name;	 /* owned; in the folder. NULL: removed */
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
