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
 * THE END OF A CLOSE (finish() in close.c). The kernel sends a FLUSH for every close of every
 * descriptor, of whatever process, and a RELEASE once after the last one, when close() has returned
 * and nobody can be told anything. So the commit must happen in a FLUSH, in the last one, and which
 * one is the last the kernel does not say. It is found out in this order:
 *
 * 1. A handle for writing that was never flushed is certainly open, or about to be: between our
 *    answer to an open and the descriptor's appearance in /proc there is a moment. While there is
 *    one, this close answers 0 and leaves the commit to a later one.
 * 2. /proc is scanned for holders, without the lock: proc/scan.h. Somebody has the file: the same.
 *    Nobody can tell: the close is refused with EAGAIN. A scan also finds the writers that are
 *    being killed, which makes the file incomplete: that must be known before any commit.
 * 3. Several closes may be scanning at once. The last of them to end decides for all, since each of
 *    them may have found a killed writer; the others answer 0.
 * 4. The lock was not held meanwhile. Where the file was opened, written, renamed or committed
 *    since the scan began, its result is about another file: it all begins anew, a few times.
 * 5. The commit. Its outcome is kept with the count of changes at that time; a later close that
 *    finds nothing changed since answers with the same, if its handle is as old.
 *
 * What is left when the last handle is released (its last close was not recognised, or never came)
 * is committed then; the log has what nobody waits for.
 *
 * Everything is guarded by tdfs_incoming.lock, but for the staged bytes themselves: `writing`
 * counts the writes that run without it, until they are validated; a commit and a cut begin when
 * there are none. So bytes are written, cut and validated in the order in which it was answered.
 */

#include <pthread.h>

#include "incoming/incoming.h"

/* How long the writer of a committed file still finds its name, in ms. */
#define TDFS_RECENT_MS 5000
/* So many recent names there are at most, of some hundred bytes each. */
#define TDFS_RECENT_MAX 65536u
/* The newest recent names whose staged file is kept open to be read. */
#define TDFS_RECENT_FILES_MAX 64u
/* After so many ms the log says who has a file that waits for a close. */
#define TDFS_WAITS_MS 10000
/* A program that copies a folder sets its mode within so many ms of its times. */
#define TDFS_COPY_MS 2000
#define TDFS_COPIERS 8u
/* The newest files, whose writer counts as a program that copies. */
#define TDFS_COPIED_MAX 1024u
/* Threads of one client that are remembered; tables of descriptors of one file. */
#define TDFS_TIDS   8u
#define TDFS_TABLES 8u
/* Clients of one staged file that are remembered, */
#define TDFS_CLIENTS_MAX 512u
/* and how many of them once nobody has it open. */
#define TDFS_CLIENTS_KEPT 16u
/* Scans that may fail one after the other, and the ms between two of them. */
#define TDFS_SCANS_MAX 20
#define TDFS_RETRY_MS  20u
/* st_blksize, what programs should write at once: one request. */
#define TDFS_BEST_WRITE (1 << 20)
/* A descriptor that exec is about to close is waited for so many ms; */
#define TDFS_EXEC_MS 100
/* so are the scans of other closes; in steps of */
#define TDFS_SCANS_MS 200
#define TDFS_STEP_MS  3u

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
	uint64_t ino;		     /* never used for another node */
	enum tdfs_kind kind;	     /* of which structure this is the first member */
	uint64_t lookups;	     /* replies that the kernel has not forgotten yet */
	unsigned users;		     /* handles, and running functions that refer to it */
	char *name;		     /* owned; NULL: unlinked */
	bool appeared;		     /* it got its name by something else than a request for it: the
				      * kernel may have found nothing there, or another's file */
	pid_t seen_by;		     /* the last thread that looked it up since it appeared, or 0 */
	struct tdfs_inode *next;     /* the next newer of all nodes */
	struct tdfs_inode *previous; /* the next older */
	mode_t mode;		     /* permission bits, as stat shows them */
	uid_t uid;		     /* owner, as stat shows it */
	gid_t gid;		     /* group, as stat shows it */
	struct timespec atime;	     /* as stat shows it */
	struct timespec mtime;	     /* last write or truncation, or what utimens() set */
	struct timespec ctime;	     /* last change of bytes, name or attributes */
};

struct tdfs_error_file {
	struct tdfs_inode node;
	struct tdfs_staged *staged; /* what it tells about; NULL: that is gone */
	char *text;		    /* owned; one line and its newline */
	size_t length;		    /* of `text` */
	bool removed;	   /* with its staged file; for a moment it can be removed by name */
	uid_t remover;	   /* removed: the user who may */
	pid_t remover_tid; /* removed: the thread that still sees it */
	int64_t until;	   /* removed: when that ends, in ms */
	struct tdfs_error_file *next_removed;	  /* the next to end */
	struct tdfs_error_file *previous_removed; /* the one that ends before */
};

/* What a user has of what all share. Gone when that is nothing. */
struct tdfs_user {
	uid_t uid;
	unsigned files;	 /* staged files that are not committed */
	unsigned opens;	 /* handles on staged files */
	size_t clients;	 /* that these files are remembered with */
	int64_t told[2]; /* when the log was told that he may have no more files, opens; 0: never */
};

/* A process that opened, wrote or closed a staged file. */
struct tdfs_client {
	bool wrote;	       /* it wrote, or opened the file for writing */
	bool requested;	       /* its process was asked for */
	bool clean;	       /* at its last close neither it nor a descendant had the file */
	pid_t tids[TDFS_TIDS]; /* threads of it that were seen; 0: none */
	unsigned next_tid;     /* where the next thread goes, modulo TDFS_TIDS */
	struct tdfs_process *process; /* a reference; NULL: not found out yet */
};

/* A table of descriptors (a process, or several with CLONE_FILES). Where /proc shows nothing of a
 * writer, it is the witness. */
struct tdfs_table {
	uint64_t owner; /* the kernel's lock owner; 0: none */
	bool wrote;	/* and has not closed since: it has the file open */
};

struct tdfs_staged {
	struct tdfs_inode node;
	enum tdfs_state state;

	/* Its bytes. */
	void *file;	     /* the backend's object, owned; NULL: discarded */
	int fd;		     /* of `file`; -1: closed, while nobody has it open */
	unsigned using_file; /* calls of the backend that use `file` without the lock */
	uint64_t base;	     /* bytes that were committed before through this inode */
	uint64_t size;	     /* bytes staged behind them */
	uint64_t changes;    /* counts writes and truncations */
	unsigned writing;    /* writes that run without the lock */
	bool feeding;	     /* a write is being fed to the validator */
	bool shrank;	     /* without a request: the kernel may take it for longer than it is */
	int failed;	     /* errno of a write that failed, which left a hole; 0: none */

	/* Its preparation for a rename. */
	bool queued;	   /* waits for a thread */
	bool preparing;	   /* runs; no commit meanwhile */
	uint64_t prepared; /* `size` when it was last tried */

	/* Who has it open for writing. */
	uint64_t opens;		     /* counts handles for writing, ever */
	unsigned writers;	     /* handles for writing that are not released */
	unsigned unflushed;	     /* of them, never flushed: certainly still open */
	unsigned scanning;	     /* closes whose scan of /proc is not over */
	uid_t writer;		     /* the user who opened it last */
	struct tdfs_user *user;	     /* whose files it counts among, its maker's; or NULL */
	struct tdfs_client *clients; /* owned, `n_clients` of them, the oldest first */
	size_t n_clients;
	bool lost_holder;	     /* a client ended that may have left the file to a child */
	uid_t users[TDFS_USERS_MAX]; /* who opened it */
	unsigned n_users;	     /* in `users`; TDFS_USERS_MAX + 1: more than fit */
	struct tdfs_moment since;    /* when it was first opened */
	struct tdfs_table tables[TDFS_TABLES];
	unsigned next_table; /* where the next table goes, modulo TDFS_TABLES */

	/* The last outcome: committed, refused, or found empty. */
	uint64_t outcome_at;	   /* `changes` then */
	int answer;		   /* the errno that further closes get, or 0, */
	uint64_t answered;	   /* through handles up to this one: `opens` then */
	bool unanswered;	   /* the mount ended before a close had its answer */
	char *incomplete;	   /* why it must not be committed; NULL: it may */
	uint64_t incomplete_opens; /* `opens` when that was found: later handles may rewrite it */
	struct tdfs_error_file *error_file; /* NULL: none */
	char *committed_name;		    /* its name when it was committed; NULL: never was */

	/* A close that somebody else has yet to make. */
	int64_t waits_since;		  /* in ms; 0: none */
	struct tdfs_named_process holder; /* whose close that is, for the log */
	bool waits_logged;		  /* the log has named him */

	/* Recent names, and files that were made by reopening one. */
	bool implicit; /* made by reopening a recent name; removed at the last close if unwritten */
	int64_t until; /* end of a recent name, or of an implicit file that nobody opens; in ms */
	bool in_recent;	 /* in the list of recent names */
	bool keeps_file; /* its staged file is still open for those who may read it */
	struct tdfs_staged *next_recent;     /* the next to end */
	struct tdfs_staged *previous_recent; /* the one that ends before */
};

struct tdfs_handle {
	struct tdfs_handle *next;  /* of all, for those whose release never comes */
	struct tdfs_handle **link; /* what points to this one */
	struct tdfs_inode *node;   /* one of its `users` is this handle */
	bool reads;		   /* opened for reading */
	bool writes;		   /* opened for writing */
	bool flushed;		   /* a close has come: only /proc can tell whether it is open */
	uint64_t serial;	   /* the staged file's `opens` when it was made */
	struct tdfs_user *user;	   /* whose opens it counts among, or NULL */
	pid_t opener;		   /* the thread that opened it */
	uint64_t owner;		   /* first table that wrote or closed through it; 0: none yet */
};

struct tdfs_daemon;

/* A staged file that is no longer needed, to be closed when the lock is not held. */
struct tdfs_deferred_close {
	struct tdfs_deferred_close *next;
	void *file; /* the backend's object; NULL: only a descriptor */
	int fd;	    /* where `file` is NULL */
};

/* A thread that does to the folder what programs do that copy one. */
struct tdfs_copier {
	pid_t tid;
	int64_t until; /* in ms */
};

/* Where a node stands among all. */
struct tdfs_place {
	uint64_t ino;
	struct tdfs_inode *node; /* NULL: a gap */
};

struct tdfs_incoming {
	struct tdfs_backend backend; /* constant */
	struct tdfs_daemon *daemon;  /* constant; NULL in unit tests */
	pthread_mutex_t lock;	     /* guards all below, and all nodes and handles */
	pthread_cond_t change;	     /* a staged file's state, writing or scanning changed */
	uint64_t first;		     /* the first inode number, */
	uint64_t next;		     /* and the next one */
	struct tdfs_place *places;   /* sorted by inode number, with gaps where one was freed */
	size_t n_places;	     /* places in use, gaps included */
	size_t room;		     /* places allocated */
	size_t gaps;		     /* places without a node */
	void *names;		     /* tsearch() tree of nodes by name: users choose those, and a
				      * balanced tree has no bad case */
	void *users;		     /* tsearch() tree of tdfs_user by number */
	struct tdfs_inode *oldest;   /* first of all nodes, in the order they were made */
	struct tdfs_inode *newest;   /* last of them */
	struct tdfs_handle *handles; /* all that are not released */
	struct tdfs_staged *first_recent;	     /* the recent name that ends first */
	struct tdfs_staged *last_recent;	     /* the one that ends last */
	struct tdfs_staged *recent_files;	     /* the first that keeps its file */
	unsigned n_recent;			     /* recent names */
	unsigned n_recent_files;		     /* of them, those that keep their file */
	struct tdfs_deferred_close *deferred_closes; /* done by tdfs_unlock() */
	unsigned committing;			     /* staged files being committed or frozen */
	bool unopened;		 /* there may be implicit files that were never opened */
	bool closing;		 /* no new commits but those of the end of the mount */
	struct timespec changed; /* when the listing last changed */
	struct tdfs_copier copiers[TDFS_COPIERS];
	unsigned next_copier;		      /* where the next one goes, modulo TDFS_COPIERS */
	struct tdfs_error_file *removed;      /* the removed error file that ends first */
	struct tdfs_error_file *last_removed; /* the one that ends last */
	unsigned n_removed;		      /* removed error files */
	bool logged_hidden; /* the log says that /proc does not show all processes */
	unsigned waiting;   /* staged files with waits_since */
};

void tdfs_lock(struct tdfs_incoming *in);
/* Does the deferred closes, too. */
void tdfs_unlock(struct tdfs_incoming *in);

/* The rest with the lock held. What ends in _unlocks gives it up meanwhile: whatever was known
 * before may be wrong afterwards. */
void tdfs_sleep_unlocks(struct tdfs_incoming *in, unsigned ms);

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
void tdfs_inode_reap(struct tdfs_incoming *in, struct tdfs_inode *node);
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
void tdfs_implicit_expire_unlocks(struct tdfs_incoming *in);

/* names.c */
/* A listed staged file loses its name and what it has on disk; who has it open may go on. Gives the
 * lock up. */
void tdfs_staged_cancel_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged);

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
int tdfs_client_wrote_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
			      const struct tdfs_caller *caller);

struct tdfs_scan_result {
	bool held;			  /* somebody has it open, or may */
	bool unknown;			  /* held: nobody can tell, for the reason in why[] */
	bool till_exec;			  /* held: only by descriptors that an exec closes */
	struct tdfs_named_process holder; /* held: one who has it; process 0: not known */
	char why[160];			  /* unknown: what the close fails with */
	pid_t excluded;			  /* the process of `exclude`; 0: unknown */
	bool excluded_holds;		  /* it has the file open, too */
};
enum tdfs_scan_kind {
	TDFS_SCAN_KILLED, /* only whether a client is being killed */
	TDFS_SCAN_HOLDERS /* and who has the file open */
};
/* Scans who holds the staged file, marks it incomplete where a writer is being killed. Gives the
 * lock up meanwhile. */
/* `caller`: NULL: nobody closes it. */
struct tdfs_scan_result tdfs_holders_scan_unlocks(struct tdfs_incoming *in,
						  struct tdfs_staged *staged,
						  enum tdfs_scan_kind how,
						  const struct tdfs_caller *caller, pid_t exclude);

/* io.c */
/* Sets the size of a frozen staged file, an errno; gives the lock up meanwhile. */
int tdfs_staged_truncate_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
				 uint64_t size);

/* inodes.c: what it has on disk. */
/* Its descriptor goes, where nobody needs it; comes again (an errno; gives the lock up). */
void tdfs_staged_close_fd(struct tdfs_incoming *in, struct tdfs_staged *staged);
int tdfs_staged_open_fd_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* What its error file says is kept on disk. Gives the lock up. */
void tdfs_staged_keep_reason_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* Its owner and mode are kept on disk. Gives the lock up. */
void tdfs_staged_keep_owner_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged);

/* staged.c */
/* Not a temporary name: its last close commits it. */
bool tdfs_staged_has_final_name(const struct tdfs_staged *staged);
bool tdfs_staged_is_uncommitted(const struct tdfs_staged *staged);
/* What a killed writer left is forgiven; a hole is not, which goes only with all bytes. */
void tdfs_staged_rewritten(struct tdfs_incoming *in, struct tdfs_staged *staged);
void tdfs_staged_set_incomplete(struct tdfs_staged *staged, const char *why);
/* One line about it for the log. */
void tdfs_staged_log(struct tdfs_incoming *in, const struct tdfs_staged *staged, const char *text);
/* Waits until nobody commits it. */
void tdfs_staged_wait_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* Freezes an OPEN staged file, and waits for the writes that run. Gives the lock up. */
void tdfs_staged_freeze_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* It goes on: OPEN, unless it was committed meanwhile. */
void tdfs_staged_thaw(struct tdfs_incoming *in, struct tdfs_staged *staged);
/* commit.c */
/* Commits an OPEN staged file as `source`; gives the lock up meanwhile. Returns the answer. */
int tdfs_staged_commit_unlocks(struct tdfs_incoming *in, struct tdfs_staged *staged,
			       const char *source);
/* It is not even tried, and this is why. Returns `answer`. */
int tdfs_staged_refuse(struct tdfs_incoming *in, struct tdfs_staged *staged, int answer,
		       const char *text);

#endif
