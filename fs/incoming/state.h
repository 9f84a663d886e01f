/* SPDX-License-Identifier: MIT */
#ifndef TDFS_INCOMING_STATE_H
#define TDFS_INCOMING_STATE_H

/*
 * What the files of incoming/ share: the state behind incoming.h. Nobody else includes it.
 *
 * A node has an inode number: a staged file, or an error file (NAME.error). A staged file goes
 *
 *     OPEN -> COMMITTING -> COMMITTED     a commit that succeeded
 *                        -> OPEN          one that was refused: answer, error file
 *     COMMITTED -> OPEN                   bytes came through a descriptor that had not been seen
 *
 * It is frozen while COMMITTING: whoever wants to write to it, to open it for writing, to rename
 * or to remove it, waits. So it is while its bytes are cut or its name on disk changes. A staged
 * file that is COMMITTED and still has its name is a recent name.
 *
 * A handle for writing that no close has come for is open, or about to be: between our answer to
 * an open and the descriptor's appearance in /proc there is a moment. Only where each of them has
 * seen a close, /proc is asked.
 *
 * Everything is guarded by tdfs_incoming.lock, but for the staged bytes themselves: `writing`
 * counts the writes that run without it, until they are validated; a commit and a cut begin when
 * there are none. So bytes are written, cut and validated in the order in which it was answered.
 */

#include <pthread.h>

#include "incoming/incoming.h"

#define TDFS_RECENT_MS	      5000
#define TDFS_RECENT_MAX	      65536u /* of some hundred bytes each */
#define TDFS_RECENT_FILES_MAX 64u    /* of them, those whose staged file is kept open to be read */
#define TDFS_WAITS_MS	      10000  /* until the log says who has a file that waits */
#define TDFS_COPY_MS	      2000 /* from a folder's times to its mode, in a program that copies */
#define TDFS_COPIERS	      8u
#define TDFS_COPIED_MAX	      1024u /* of the newest files, whose writer counts as one */
#define TDFS_TIDS	      8u
#define TDFS_TABLES	      8u
#define TDFS_CLIENTS_MAX      512u /* of one staged file that are remembered */
#define TDFS_CLIENTS_KEPT     16u  /* once nobody has it open */
#define TDFS_SCANS_MAX	      20   /* that may fail, one after the other */
#define TDFS_RETRY_MS	      20u
#define TDFS_BEST_WRITE	      (1 << 20) /* what programs should write at once: one request */
#define TDFS_EXEC_MS	      100 /* how long a descriptor that exec will close is waited for */
#define TDFS_SCANS_MS	      200 /* and the scans of other closes, which have a limit of their own */
#define TDFS_STEP_MS	      3u

enum tdfs_kind {
	TDFS_STAGED,
	TDFS_ERROR_FILE
};
enum tdfs_state {
	TDFS_OPEN,
	TDFS_COMMITTING,
	TDFS_COMMITTED
};

struct tdfs_inode {
	uint64_t ino;
	enum tdfs_kind kind;
	uint64_t lookups; /* that the kernel has not forgotten */
	unsigned users;	  /* handles and running functions */
	char *name;	  /* NULL: it has none any more */
	/* It got its name, or was listed again, by something else than a request for that name:
	 * what the kernel looked up before, it may have found to be nothing, or another's. */
	bool appeared;
	pid_t seen_by;			    /* the last thread that looked it up since, or 0 */
	struct tdfs_inode *next, *previous; /* all nodes, by inode number */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec atime, mtime, ctime;
};

struct tdfs_error_file {
	struct tdfs_inode node;
	struct tdfs_staged *staged; /* whose error file it is; NULL: of none any more */
	char *text;
	size_t length;
	/* Its file was removed, and it went with it; for a moment it can be removed by its name: by
	 * this user, and is seen by this thread. */
	bool removed;
	uid_t remover;
	pid_t remover_tid;
	int64_t until;
	struct tdfs_error_file *next_removed, *previous_removed;
};

/* What a user has of what all share. Gone when that is nothing. */
struct tdfs_user {
	uid_t uid;
	unsigned files;	 /* drops that are not committed */
	unsigned opens;	 /* handles on drops */
	size_t clients;	 /* that these files are remembered with */
	int64_t told[2]; /* when the log was told that he may have no more files, opens; 0: never */
};

/* A process that opened, wrote or closed a staged file. */
struct tdfs_client {
	bool wrote; /* or opened it for writing; else it only closed a descriptor */
	bool sought;
	bool clean;	       /* neither it nor a descendant had the file when it last closed it */
	pid_t tids[TDFS_TIDS]; /* threads of it that were seen; 0: none */
	unsigned next_tid;
	struct tdfs_process *process; /* NULL: not found out yet */
};

/* A table of descriptors, by the number that the kernel has for it. Where /proc shows nothing of a
 * writer, it is the witness. */
struct tdfs_table {
	uint64_t owner; /* 0: none */
	bool wrote;	/* and has not closed since: it has the file open */
};

struct tdfs_staged {
	struct tdfs_inode node;
	enum tdfs_state state;
	void *file;	     /* the backend's; NULL: none */
	int fd;		     /* -1: closed, while nobody has it open */
	unsigned using_file; /* calls of the backend that run without the lock and a handle */
	uint64_t base;	     /* bytes that were committed before through this inode */
	uint64_t size;	     /* bytes staged behind them */
	uint64_t changes;    /* counts writes and truncations */
	uint64_t settled;    /* `changes` when it was last committed, refused or found empty */
	int answer;	     /* the outcome then: what further closes get, */
	uint64_t answered;   /* of handles up to this one: `opens` then */
	uint64_t opens;	     /* counts handles for writing */
	unsigned writers;    /* of them, those not released */
	unsigned
		unclosed; /* of them, those that not one close has come for: they are surely open */
	unsigned writing;
	bool telling;		   /* the backend of bytes that were written */
	bool queued;		   /* for its preparation */
	bool preparing;		   /* the backend does; no commit meanwhile */
	uint64_t prepared;	   /* its size when that was last tried */
	unsigned scanning;	   /* closes whose scan of /proc is not over */
	int failed;		   /* errno of a write that failed: there is a hole */
	bool shrank;		   /* implicitly: the kernel may take it for longer than it is */
	char *incomplete;	   /* why it must not be committed */
	uint64_t incomplete_opens; /* `opens` then: later handles may rewrite it */
	bool unanswered;	   /* the mount ended before a close had its answer */
	bool lost_holder;	   /* somebody who held it has ended */
	bool implicit; /* created by reopening a committed name; removed at last close if not
			  written */
	uid_t writer;  /* who opened it last for writing */
	struct tdfs_user *user; /* whose files it counts among, its maker's; or NULL */
	struct tdfs_error_file *error_file;
	struct tdfs_client *clients;
	size_t n_clients;
	uid_t users[TDFS_USERS_MAX]; /* who opened it for writing */
	unsigned n_users;	     /* TDFS_USERS_MAX + 1: more */
	struct tdfs_moment since;    /* when it was first opened so */
	struct tdfs_table tables[TDFS_TABLES];
	unsigned next_table;
	int64_t waits_since; /* that somebody else has it, for the log; 0: it does not wait */
	struct tdfs_named_process holder;
	bool waits_logged;
	char *committed_name; /* its name then */
	int64_t until;	      /* when a recent name ends, or an implicit file that nobody opens */
	bool in_recent;	      /* is in the list of recent names */
	bool keeps_file;      /* and open for those who may read it */
	struct tdfs_staged *next_recent, *previous_recent;
};

struct tdfs_handle {
	struct tdfs_handle *next, **link; /* of all, for those whose release never comes */
	struct tdfs_inode *node;
	bool reads, writes;
	bool closed;	 /* a close has come: whether it is still open, only /proc can tell */
	uint64_t serial; /* the staged file's `opens` when it was made */
	struct tdfs_user *user; /* whose opens it counts among, or NULL */
	pid_t opener;		/* a thread */
	uint64_t owner;		/* the first table that wrote or closed through it; 0: none yet */
};

struct tdfs_daemon;

/* A staged file that is no longer needed, to be closed when the lock is not held. */
struct tdfs_deferred_close {
	struct tdfs_deferred_close *next;
	void *file; /* NULL: only a descriptor of it */
	int fd;
};

/* A thread that does to the folder what programs do that copy one. */
struct tdfs_copier {
	pid_t tid;
	int64_t until;
};

/* Where a node stands among all. */
struct tdfs_place {
	uint64_t ino;
	struct tdfs_inode *node; /* NULL: a gap */
};

struct tdfs_incoming {
	struct tdfs_backend backend; /* constant */
	struct tdfs_daemon *daemon;  /* constant; NULL in unit tests */
	pthread_mutex_t lock;
	pthread_cond_t change; /* some staged file's state, writing or looking changed */
	uint64_t first, next;  /* inode numbers */
	/* In the order of their numbers, with gaps where one was freed; and a tree of names, since
	 * users choose those: tsearch() has no bad case. */
	struct tdfs_place *places;
	size_t n_places, room, gaps;
	void *names;
	void *users; /* tdfs_user, by number */
	struct tdfs_inode *oldest, *newest;
	struct tdfs_handle *handles;
	struct tdfs_staged *first_recent, *last_recent, *recent_files;
	unsigned n_recent, n_recent_files;
	struct tdfs_deferred_close *deferred_closes;
	unsigned committing; /* staged files being committed */
	bool unopened;	     /* there may be some that are `implicit` and were never opened */
	bool closing;	     /* no new commits but tdfs_incoming_settle()'s */
	struct timespec changed;
	struct tdfs_copier copiers[TDFS_COPIERS];
	unsigned next_copier;
	struct tdfs_error_file *removed, *last_removed; /* in the order of their ends */
	unsigned n_removed;
	bool logged_hidden; /* logged that /proc does not show all processes */
	unsigned waiting;   /* staged files that may have waits_since */
};

void tdfs_lock(struct tdfs_incoming *in);
/* Does the deferred closes, too. */
void tdfs_unlock(struct tdfs_incoming *in);

/* The rest with the lock held. */
void tdfs_sleep_unlocked(struct tdfs_incoming *in, unsigned ms);

/* inodes.c: names and inode numbers. */

/* Takes over `file`, unless it returns NULL (no memory). */
struct tdfs_staged *tdfs_staged_new(struct tdfs_incoming *in, const char *name, mode_t mode,
				    uid_t uid, gid_t gid, void *file, int fd);
struct tdfs_inode *tdfs_inode_by_ino(struct tdfs_incoming *in, uint64_t ino);
struct tdfs_inode *tdfs_inode_by_name(struct tdfs_incoming *in, const char *name);
bool tdfs_inode_listed(const struct tdfs_inode *node);
bool tdfs_inode_is_recent(const struct tdfs_inode *node);
/* Renames a node; NULL takes its name away. Nothing else may have the name. An errno. */
int tdfs_inode_set_name(struct tdfs_incoming *in, struct tdfs_inode *node, const char *name);
void tdfs_inode_appears(struct tdfs_inode *node);
/* Whether the kernel has asked for it in the caller's name and so has checked what he may do with
 * it; or the caller owns it. Else the answer to whatever changes the name is ESTALE, on which the
 * kernel looks the name up again and checks. */
bool tdfs_inode_checked(const struct tdfs_inode *node, const struct tdfs_caller *caller);
/* Frees it where nothing refers to it any more. */
void tdfs_inode_settle(struct tdfs_incoming *in, struct tdfs_inode *node);
void tdfs_inode_stat(const struct tdfs_inode *node, struct stat *st);
/* NULL for an error file. */
static inline struct tdfs_staged *tdfs_staged_of(struct tdfs_inode *node)
{
	return node && node->kind == TDFS_STAGED ? (struct tdfs_staged *)node : NULL;
}
/* The name, a number behind it where something else is called so already. Free it. */
char *tdfs_free_name(struct tdfs_incoming *in, const char *name);
/* Frees what it has on disk and its descriptor, once the lock is not held. */
void tdfs_staged_discard(struct tdfs_incoming *in, struct tdfs_staged *staged);
struct timespec tdfs_time(void);

/* Puts NAME.error beside a staged file, in place of the one it had; takes it away. */
void tdfs_error_file_set(struct tdfs_incoming *in, struct tdfs_staged *staged, const char *text);
void tdfs_error_file_clear(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* The same, since the staged file is being removed: rm incoming/NAME* names both. */
void tdfs_error_file_unlink(struct tdfs_incoming *in, struct tdfs_staged *staged,
			    const struct tdfs_caller *caller);
/* NULL for a staged file. */
struct tdfs_error_file *tdfs_error_file_of(struct tdfs_inode *node);
/* One that was removed ends. */
void tdfs_error_file_end(struct tdfs_incoming *in, struct tdfs_error_file *error_file);
/* Whether it can be removed once more by the caller. */
bool tdfs_error_file_removable(const struct tdfs_error_file *error_file,
			       const struct tdfs_caller *caller);

/* quota.c: what one user may have. An errno, once a minute with a line in the log, where he may not
 * have one more: EDQUOT, EMFILE. */
int tdfs_quota_file(struct tdfs_incoming *in, uid_t uid);
int tdfs_quota_open(struct tdfs_incoming *in, uid_t uid);
/* Whether one more process can be remembered with it. */
bool tdfs_quota_clients(const struct tdfs_incoming *in, const struct tdfs_staged *staged);
/* A staged file counts for its owner; it does no more. */
void tdfs_quota_add(struct tdfs_incoming *in, struct tdfs_staged *staged);
void tdfs_quota_remove(struct tdfs_incoming *in, struct tdfs_staged *staged);
void tdfs_quota_opened(struct tdfs_incoming *in, struct tdfs_handle *handle, uid_t uid);
void tdfs_quota_closed(struct tdfs_incoming *in, struct tdfs_handle *handle);

/* recent.c */
void tdfs_recent_add(struct tdfs_incoming *in, struct tdfs_staged *staged);
void tdfs_recent_expire(struct tdfs_incoming *in);
/* It is recent no longer, but lives on under its name. */
void tdfs_recent_leave(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* The name goes; a staged file that nobody reads goes too. */
void tdfs_recent_end(struct tdfs_incoming *in, struct tdfs_staged *staged);

/* open.c */
/* Those end that were made for an open which never came. Gives the lock up meanwhile. */
void tdfs_implicit_expire(struct tdfs_incoming *in);

/* names.c */
/* A listed staged file loses its name and what it has on disk; who has it open may go on. Gives the
 * lock up. */
void tdfs_staged_cancel(struct tdfs_incoming *in, struct tdfs_staged *staged);

/* clients.c */
void tdfs_client_add(struct tdfs_incoming *in, struct tdfs_staged *staged,
		     const struct tdfs_caller *caller, bool wrote);
/* Somebody opens it for writing; writes or closes through a handle. */
void tdfs_client_opened(struct tdfs_incoming *in, struct tdfs_staged *staged,
			const struct tdfs_caller *caller);
void tdfs_client_used(struct tdfs_handle *handle, const struct tdfs_caller *caller, bool closes);
void tdfs_clients_clear(struct tdfs_staged *staged);
/* One more of its threads. */
void tdfs_client_add_tid(struct tdfs_client *client, pid_t tid);
void tdfs_client_remove(struct tdfs_staged *staged, struct tdfs_client *client);
/* NULL: there is none. */
struct tdfs_client *tdfs_client_by_tid(struct tdfs_staged *staged, pid_t tid);
struct tdfs_client *tdfs_client_by_process(struct tdfs_staged *staged, pid_t process);
/* The client gets its process; two that turn out to be the same one become one. Takes over the
 * reference. */
void tdfs_client_set_process(struct tdfs_staged *staged, struct tdfs_client *client,
			     struct tdfs_process *process);
/* Whether the thread, which used the staged file, is known to belong to the process. */
bool tdfs_client_is_process(struct tdfs_staged *staged, pid_t tid, pid_t process);

/* holders.c */
/* Nobody has it open: some are enough, for those who look for what they wrote. */
void tdfs_clients_rest(struct tdfs_staged *staged);
/* Whether the thread belongs to a process that wrote the staged file: 0 or 1; TDFS_LATER where
 * /proc must be asked and the caller may not wait. Gives the lock up meanwhile. */
int tdfs_client_wrote(struct tdfs_incoming *in, struct tdfs_staged *staged,
		      const struct tdfs_caller *caller);

struct tdfs_scan_result {
	bool held;    /* for all that can be said */
	bool unknown; /* that cannot be said; why[] tells the reason */
	bool till_exec;
	struct tdfs_named_process holder; /* where held; process 0: not known */
	char why[160];
	pid_t excluded; /* the process of `exclude`; 0: unknown */
	bool excluded_holds;
};
/* Scans who holds the staged file, marks it incomplete where a writer is being killed. Gives the
 * lock up meanwhile. */
enum tdfs_scan_kind {
	TDFS_SCAN_KILLED,
	TDFS_SCAN_HOLDERS
};
/* `caller`: NULL: nobody closes it. */
struct tdfs_scan_result tdfs_holders_scan(struct tdfs_incoming *in, struct tdfs_staged *staged,
					  enum tdfs_scan_kind how, const struct tdfs_caller *caller,
					  pid_t exclude);

/* io.c */
/* Sets the size of a frozen staged file, an errno; gives the lock up meanwhile. */
int tdfs_staged_truncate(struct tdfs_incoming *in, struct tdfs_staged *staged, uint64_t size);

/* inodes.c: what it has on disk. */
/* Its descriptor goes, where nobody needs it; comes again (an errno; gives the lock up). */
void tdfs_staged_close_fd(struct tdfs_incoming *in, struct tdfs_staged *staged);
int tdfs_staged_open_fd(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* What its error file says is kept on disk. Gives the lock up. */
void tdfs_staged_keep_reason(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* Its owner and mode are kept on disk. Gives the lock up. */
void tdfs_staged_keep_owner(struct tdfs_incoming *in, struct tdfs_staged *staged);

/* staged.c */
/* Not a temporary name: its last close commits it. */
bool tdfs_staged_has_final_name(const struct tdfs_staged *staged);
bool tdfs_staged_is_uncommitted(const struct tdfs_staged *staged);
/* What a killed writer left is forgiven; a hole is not, which goes only with all bytes. */
void tdfs_staged_rewritten(struct tdfs_incoming *in, struct tdfs_staged *staged);
void tdfs_staged_set_incomplete(struct tdfs_staged *staged, const char *why);
/* One line about it for the log. */
void tdfs_drop_say(struct tdfs_incoming *in, const struct tdfs_staged *staged, const char *text);
/* Waits until nobody commits it. */
void tdfs_staged_wait(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* Freezes an OPEN staged file, and waits for the writes that run. Gives the lock up. */
void tdfs_staged_freeze(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* It goes on: OPEN, unless it was committed meanwhile. */
void tdfs_staged_thaw(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* commit.c */
/* Commits an OPEN staged file as `source`; gives the lock up meanwhile. Returns the answer. */
int tdfs_staged_commit(struct tdfs_incoming *in, struct tdfs_staged *staged, const char *source);
/* It is not even tried, and this is why. Returns `answer`. */
int tdfs_staged_refuse(struct tdfs_incoming *in, struct tdfs_staged *staged, int answer,
		       const char *text);

#endif
