/* SPDX-License-Identifier: MIT */
/*
 * What stands behind incoming/ in the daemon: the table's staging folder, the threads that commit,
 * the threads that read /proc, the clock and the log. Decides nothing about staged files.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "daemon.h"
#include "errmap.h"
#include "incoming/state.h"
#include "incoming/user_names.h"
#include "msg.h"
#include "opts.h"
#include "pool.h"

/* Closes, most of which wait for a scan or for their turn; what waits for them, or for a probe;
 * scans, of which some never come back; and probes, which always do. One user has a quarter. */
#define CLOSE_THREADS	 64u
#define WAIT_THREADS	 32u
#define RENAME_THREADS	 2u
#define BACK_THREADS	 4u
#define SCAN_THREADS	 16u
#define SCANS_LOST	 64u
#define PROBE_THREADS	 8u
#define SCAN_MS		 1000u /* without a step */
#define COMMITS		 16u   /* at a time: each takes memory, and the disk is one */
#define RECOVER_MS	 5000  /* umount does not wait for the daemon that it ends */
#define RECOVER_STEP_MS	 100
#define RECOVER_AGAIN_MS 3000
#define EXPIRY_STEP_MS	 1000
#define TOUCH_MS	 180000 /* well under what tinydelta-table(5) gives a process to show life */

struct tdfs_daemon {
	struct tdfs_incoming *incoming;
	const struct tdfs *tdfs;
	tdl_table *table;
	tdl_staging *staging;
	pthread_mutex_t staging_lock; /* recovery against everything else on the folder */
	struct tdfs_pool *closes, *waits, *renames, *background, *scans, *probes;
	sem_t commits; /* how many more may run */
	struct tdfs_user_names *users;
	struct tdfs_limits limits;
	int moment; /* tdfs_moment_open() */
	bool sees;  /* /proc tells of the processes that requests name */
	pthread_t expiry_thread;
	bool has_expiry_thread;
	pthread_mutex_t expiry_lock;
	pthread_cond_t expiry_cond; /* one of these has changed */
	bool needs_expiry, listed, ending;
	pthread_mutex_t stop_lock;
	bool stopped;
};

/* ---- The disk ----------------------------------------------------------------------------- */

/* Of what all users share, each but the daemon's own may have so much; of descriptors a quarter. A
 * file that waits takes about 1 KiB, a process that is remembered about 100 bytes. */
#define USER_FILES   20000u
#define USER_CLIENTS 20000u

static unsigned user_opens(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	return limit.rlim_cur / 4 > UINT_MAX ? UINT_MAX : (unsigned)(limit.rlim_cur / 4);
}

/* Descriptors that staged files do not get: with these everybody can still read, list and remove.
 */
#define KEPT_BACK 32

/* Whether a descriptor is among the last that this process may have, which gets the lowest that is
 * free. Of a process that may have few in all nothing is kept back. */
static bool is_kept_back(int fd)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	       limit.rlim_cur > 4 * (rlim_t)KEPT_BACK && (rlim_t)fd >= limit.rlim_cur - KEPT_BACK;
}

static int staged_create(void *context, const char *name, void **file, int *fd)
{
	struct tdfs_daemon *daemon = context;
	tdl_error error = { 0 };
	tdl_staged *staged;
	int r;

	pthread_mutex_lock(&daemon->staging_lock);
	r = tdl_staged_create(daemon->staging, name, &staged, &error);
	pthread_mutex_unlock(&daemon->staging_lock);
	if (r < 0)
		return tdfs_errno(&error);
	if (is_kept_back(tdl_staged_fd(staged))) {
		tdl_staged_remove(staged, NULL);
		tdl_staged_free(staged);
		return ENFILE;
	}
	*file = staged;
	*fd = tdl_staged_fd(staged);
	return 0;
}

static int staged_rename(void *context, void *file, const char *name)
{
	tdl_error error = { 0 };

	return tdl_staged_rename(file, name, &error) < 0 ? tdfs_errno(&error) : 0;
}

static int staged_detach(void *context, void *file)
{
	return tdl_staged_detach(file);
}

static int staged_open(void *context, void *file, int *fd)
{
	tdl_error error = { 0 };

	if (tdl_staged_open(file, &error) < 0)
		return tdfs_errno(&error);
	*fd = tdl_staged_fd(file);
	return 0;
}

static void log_line(void *context, uid_t uid, const char *name, const char *text)
{
	struct tdfs_daemon *daemon = context;
	const char *table = tdl_table_path(daemon->table);
	size_t n = name ? strlen(name) : 0;

	if (!name)
		tdfs_msg_user(uid, LOG_WARNING, "%s: %s", table, text);
	else if (strncmp(text, name, n) == 0 && text[n] == ':')
		tdfs_msg_user(uid, LOG_WARNING, "%s: incoming/%s", table, text);
	else
		tdfs_msg_user(uid, LOG_WARNING, "%s: incoming/%s: %s", table, name, text);
}

static void staged_remove(void *context, void *file)
{
	tdl_error error = { 0 };

	if (tdl_staged_remove(file, &error) < 0)
		log_line(context, TDFS_NOBODY, NULL, error.message);
}

/* Where it fails, what the next daemon takes over is that one's user's alone. */
static void staged_own(void *context, void *file, uid_t uid, gid_t gid, mode_t mode)
{
	tdl_error error = { 0 };

	if (tdl_staged_own(file, uid, gid, mode, &error) < 0)
		log_line(context, TDFS_NOBODY, NULL, error.message);
}

static void staged_reason(void *context, void *file, const char *reason)
{
	(void)tdl_staged_refused(file, reason, NULL);
}

static void staged_free(void *context, void *file)
{
	tdl_staged_free(file);
}

static uint64_t staged_generation(void *context, void *file)
{
	return tdl_staged_begin(file);
}

static void staged_written(void *context, void *file, uint64_t generation, const void *bytes,
			   size_t size, uint64_t at)
{
	tdl_staged_written(file, generation, bytes, size, at);
}

static void staged_cut(void *context, void *file, uint64_t size)
{
	tdl_staged_cut(file, size);
}

static int staged_commit(void *context, void *file, const char *source, uid_t uid, bool renames,
			 tdl_error *error)
{
	struct tdfs_daemon *daemon = context;
	char user[TDFS_USER_NAME_MAX];
	tdl_commit_options options = { .size = sizeof options,
				       .read_version = TDL_LATEST,
				       .source = source,
				       .user_name = user };
	int64_t version;
	int r;

	tdfs_user_name(daemon->users, uid, user);
	while (!renames && sem_wait(&daemon->commits) != 0)
		continue;
	r = tdl_staged_commit(file, &options, &version, error);
	if (!renames)
		sem_post(&daemon->commits);
	if (r == 0 || r == TDL_ERR_PUBLISHED)
		tdfs_tree_changed(daemon->tdfs);
	return r;
}

/* ---- Time --------------------------------------------------------------------------------- */

static int64_t steady_ms(void *context)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_ms(void *context, unsigned ms)
{
	struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

static bool in_background(void *context, uid_t uid, void (*run)(void *), void *argument)
{
	struct tdfs_daemon *daemon = context;

	return tdfs_pool_submit(daemon->background, uid, run, argument);
}

static void staged_prepare(void *context, void *file)
{
	tdl_staged_prepare(file);
}

/* ---- /proc, in threads that can be given up ----------------------------------------------- */

static void run_scan(void *argument)
{
	tdfs_scan_run(argument);
}

static void discard_scan(void *argument)
{
	tdfs_scan_back(argument);
	tdfs_scan_clear(argument);
	free(argument);
}

static void lose_scan(void *argument)
{
	tdfs_scan_lost(argument);
}

static bool scan_processes(void *context, uid_t uid, struct tdfs_scan *scan)
{
	struct tdfs_daemon *daemon = context;
	struct tdfs_call call = { .user = uid,
				  .run = run_scan,
				  .discard = discard_scan,
				  .lost = lose_scan,
				  .argument = scan,
				  .steps = &scan->steps,
				  .limit = SCAN_MS };

	if (!daemon->sees) {
		scan->unwatched = true;
		return true;
	}
	scan->self = getpid();
	return tdfs_pool_call(scan->ino != 0 ? daemon->scans : daemon->probes, &call);
}

static struct tdfs_moment moment(void *context)
{
	struct tdfs_daemon *daemon = context;

	return tdfs_moment(daemon->moment, steady_ms(NULL));
}

struct lookup {
	struct tdfs_incoming *incoming;
	uint64_t ino;
	pid_t tid;
};

static void run_lookup(void *argument)
{
	struct lookup *lookup = argument;

	tdfs_incoming_found(lookup->incoming, lookup->ino, lookup->tid,
			    tdfs_process_find(lookup->tid));
	free(lookup);
}

static void find_process(void *context, uint64_t ino, uid_t uid, pid_t tid)
{
	struct tdfs_daemon *daemon = context;
	struct lookup *lookup = daemon->sees ? malloc(sizeof *lookup) : NULL;

	if (!lookup)
		return;
	*lookup = (struct lookup){ .incoming = daemon->incoming, .ino = ino, .tid = tid };
	/* Where it cannot be had, the next scan finds out. */
	if (!tdfs_pool_submit(daemon->probes, uid, run_lookup, lookup))
		free(lookup);
}

/* ---- Leftovers ---------------------------------------------------------------------------- */

struct leftovers {
	struct tdfs_daemon *daemon;
	unsigned count;
	char first[256];
};

static void recovered(void *context, tdl_staged *file, const tdl_left *left)
{
	struct leftovers *all = context;

	if (all->count++ == 0)
		snprintf(all->first, sizeof all->first, "%s", left->name);
	tdfs_incoming_recover(all->daemon->incoming, file, tdl_staged_fd(file), left);
}

/* Returns whether it is worth trying again. */
static bool recover_leftovers(struct tdfs_daemon *daemon)
{
	struct leftovers left = { .daemon = daemon };
	const char *table = tdl_table_path(daemon->table);
	tdl_error error = { 0 };
	unsigned busy = 0;
	int r;

	pthread_mutex_lock(&daemon->staging_lock);
	r = tdl_staging_recover(daemon->staging, recovered, &left, &busy, &error);
	pthread_mutex_unlock(&daemon->staging_lock);
	if (left.count == 1)
		tdfs_msg(LOG_NOTICE,
			 "%s: incoming/%s: left by a mount that ended before it was committed",
			 table, left.first);
	else if (left.count > 1)
		tdfs_msg(LOG_NOTICE,
			 "%s: incoming/%s and %u more: left by a mount that ended before they "
			 "were committed",
			 table, left.first, left.count - 1);
	if (r < 0)
		log_line(daemon, TDFS_NOBODY, NULL, error.message);
	return r == 0 && busy > 0;
}

/* ---- Expiry ------------------------------------------------------------------------------- */

static void needs_expiry(void *context)
{
	struct tdfs_daemon *daemon = context;

	pthread_mutex_lock(&daemon->expiry_lock);
	daemon->needs_expiry = true;
	pthread_cond_signal(&daemon->expiry_cond);
	pthread_mutex_unlock(&daemon->expiry_lock);
}

/* Somebody wants to see what there is: a daemon that ended meanwhile may have left something. */
void tdfs_incoming_listed(struct tdfs_incoming *incoming)
{
	struct tdfs_daemon *daemon = incoming->daemon;

	pthread_mutex_lock(&daemon->expiry_lock);
	daemon->listed = daemon->needs_expiry = true;
	pthread_cond_signal(&daemon->expiry_cond);
	pthread_mutex_unlock(&daemon->expiry_lock);
}

static bool was_listed(struct tdfs_daemon *daemon)
{
	bool was;

	pthread_mutex_lock(&daemon->expiry_lock);
	was = daemon->listed;
	daemon->listed = false;
	pthread_mutex_unlock(&daemon->expiry_lock);
	return was;
}

/* Returns after `ms`, at once at the end (false), and sleeps where there is nothing to do, until it
 * is time to show that this daemon lives. */
static bool wait_for_expiry(struct tdfs_daemon *daemon, long ms, bool something)
{
	struct timespec until;
	struct timespec touch;
	bool going_on;

	clock_gettime(CLOCK_MONOTONIC, &until);
	touch = until;
	touch.tv_sec += TOUCH_MS / 1000;
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&daemon->expiry_lock);
	while (!daemon->ending && !something && !daemon->needs_expiry &&
	       pthread_cond_timedwait(&daemon->expiry_cond, &daemon->expiry_lock, &touch) !=
		       ETIMEDOUT)
		;
	while (!daemon->ending && pthread_cond_timedwait(&daemon->expiry_cond, &daemon->expiry_lock,
							 &until) != ETIMEDOUT)
		;
	daemon->needs_expiry = false;
	going_on = !daemon->ending;
	pthread_mutex_unlock(&daemon->expiry_lock);
	return going_on;
}

/*
 * Takes over what a daemon leaves that is just ending, and ends recent names. A daemon that lives
 * may end at any time; then it is a look from time to time that finds what it leaves.
 */
static void *run_expiry(void *argument)
{
	struct tdfs_daemon *daemon = argument;
	int64_t until = steady_ms(NULL) + RECOVER_MS, next, touch = steady_ms(NULL) + TOUCH_MS;
	bool more = true, others;

	while ((others = recover_leftovers(daemon)) && steady_ms(NULL) < until)
		if (!wait_for_expiry(daemon, RECOVER_STEP_MS, true))
			return NULL;
	next = steady_ms(NULL) + RECOVER_AGAIN_MS;
	while (wait_for_expiry(daemon, EXPIRY_STEP_MS, more || others)) {
		more = tdfs_incoming_expire(daemon->incoming);
		if (steady_ms(NULL) >= touch) {
			(void)tdl_staging_touch(daemon->staging);
			touch = steady_ms(NULL) + TOUCH_MS;
		}
		if (steady_ms(NULL) < next || !(others || was_listed(daemon)))
			continue;
		others = recover_leftovers(daemon);
		next = steady_ms(NULL) + RECOVER_AGAIN_MS;
	}
	return NULL;
}

/* ---- Coming and going --------------------------------------------------------------------- */

static bool make_threads(struct tdfs_daemon *daemon)
{
	const struct tdfs_pool_options closes = { .threads = CLOSE_THREADS,
						  .share = CLOSE_THREADS / 4 };
	const struct tdfs_pool_options waits = { .threads = WAIT_THREADS,
						 .share = WAIT_THREADS / 4 };
	const struct tdfs_pool_options renames = { .threads = RENAME_THREADS };
	const struct tdfs_pool_options background = { .threads = BACK_THREADS,
						      .share = BACK_THREADS / 4 };
	const struct tdfs_pool_options scans = { .threads = SCAN_THREADS,
						 .share = SCAN_THREADS / 4,
						 .lost = SCANS_LOST,
						 .begin = tdfs_scan_thread };
	const struct tdfs_pool_options probes = { .threads = PROBE_THREADS,
						  .begin = tdfs_scan_thread };

	daemon->closes = tdfs_pool_new(&closes);
	daemon->waits = tdfs_pool_new(&waits);
	daemon->renames = tdfs_pool_new(&renames);
	daemon->background = tdfs_pool_new(&background);
	daemon->scans = tdfs_pool_new(&scans);
	daemon->probes = tdfs_pool_new(&probes);
	daemon->users = tdfs_user_names_new(tdfs_user_lookup);
	return daemon->closes && daemon->waits && daemon->renames && daemon->background &&
	       daemon->scans && daemon->probes && daemon->users;
}

static void end_requests(struct tdfs_daemon *daemon)
{
	tdfs_pool_free(daemon->closes, UINT_MAX / 2);
	tdfs_pool_free(daemon->waits, UINT_MAX / 2);
	tdfs_pool_free(daemon->renames, UINT_MAX / 2);
	tdfs_pool_free(daemon->background, UINT_MAX / 2);
	daemon->closes = daemon->waits = daemon->renames = daemon->background = NULL;
}

static struct tdfs_daemon *volatile left_to_stuck_threads;

static void daemon_free(struct tdfs_daemon *daemon)
{
	if (!daemon)
		return;
	end_requests(daemon);
	tdfs_user_names_free(daemon->users);
	/* A thread that is stuck in /proc may come back to what it looked for: all of it stays, and
	 * can be found, until the process is gone. */
	if (!tdfs_pool_free(daemon->scans, 1000) || !tdfs_pool_free(daemon->probes, 1000)) {
		left_to_stuck_threads = daemon;
		return;
	}
	if (daemon->moment >= 0)
		close(daemon->moment);
	sem_destroy(&daemon->commits);
	tdfs_incoming_unmake(daemon->incoming);
	tdl_staging_free(daemon->staging);
	pthread_mutex_destroy(&daemon->staging_lock);
	pthread_mutex_destroy(&daemon->expiry_lock);
	pthread_mutex_destroy(&daemon->stop_lock);
	pthread_cond_destroy(&daemon->expiry_cond);
	free(daemon);
}

/* Inode numbers that no daemon before this one has used. */
static uint64_t first_inode(void)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		random = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	return TDFS_INO_STAGED + (random & ((UINT64_C(1) << 61) - 1));
}

int tdfs_incoming_new(struct tdfs *tdfs, struct tdfs_incoming **incoming, tdl_error *error)
{
	struct tdfs_daemon *daemon = calloc(1, sizeof *daemon);
	struct tdfs_backend backend = { .context = daemon,
					.limits = &daemon->limits,
					.now = steady_ms,
					.create = staged_create,
					.rename = staged_rename,
					.remove = staged_remove,
					.detach = staged_detach,
					.open = staged_open,
					.own = staged_own,
					.reason = staged_reason,
					.generation = staged_generation,
					.written = staged_written,
					.cut = staged_cut,
					.free = staged_free,
					.commit = staged_commit,
					.background = in_background,
					.prepare = staged_prepare,
					.scan = scan_processes,
					.moment = moment,
					.find = find_process,
					.wait = wait_ms,
					.needs_expiry = needs_expiry,
					.log = log_line,
					.to_errno = tdfs_errno };
	pthread_condattr_t steady;
	int r = TDL_ERR_NOMEM;

	if (daemon) {
		daemon->limits = (struct tdfs_limits){ .files = USER_FILES,
						       .opens = user_opens(),
						       .clients = USER_CLIENTS,
						       .exempt = geteuid() };
		daemon->moment = -1;
		sem_init(&daemon->commits, 0, COMMITS);
		pthread_mutex_init(&daemon->staging_lock, NULL);
		pthread_mutex_init(&daemon->expiry_lock, NULL);
		pthread_mutex_init(&daemon->stop_lock, NULL);
		pthread_condattr_init(&steady);
		pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
		pthread_cond_init(&daemon->expiry_cond, &steady);
		pthread_condattr_destroy(&steady);
		daemon->tdfs = tdfs;
		daemon->table = tdfs->table;
		r = tdl_staging_open(tdfs->table, &daemon->staging, error);
		if (r == 0) {
			daemon->incoming = tdfs_incoming_make(&backend, first_inode());
			if (daemon->incoming && make_threads(daemon)) {
				daemon->incoming->daemon = daemon;
				*incoming = daemon->incoming;
				return 0;
			}
			r = TDL_ERR_NOMEM;
		}
		daemon_free(daemon);
	}
	if (error && r == TDL_ERR_NOMEM) {
		*error = (tdl_error){ .code = r, .os_error = ENOMEM, .version = -1 };
		snprintf(error->message, sizeof error->message, "out of memory");
	}
	return r;
}

/* Those who are let in besides the daemon's own user. */
static void log_what_is_hidden(struct tdfs_daemon *daemon)
{
	bool others = daemon->tdfs->options->access == TDFS_ALLOW_OTHER || geteuid() == 0;

	if (!daemon->sees)
		log_line(daemon, TDFS_NOBODY, NULL,
			 "writers cannot be watched: /proc is not that of this process");
	else if (others && !tdfs_sees_others())
		log_line(daemon, TDFS_NOBODY, NULL,
			 "writers of other users cannot be watched: run as root with "
			 "CAP_SYS_PTRACE");
	else
		return;
	daemon->incoming->logged_hidden = true;
}

void tdfs_incoming_start(struct tdfs_incoming *incoming)
{
	struct tdfs_daemon *daemon = incoming->daemon;
	sigset_t all, before;

	/* A signal may end it all before it has begun. */
	pthread_mutex_lock(&daemon->stop_lock);
	if (daemon->stopped) {
		pthread_mutex_unlock(&daemon->stop_lock);
		return;
	}
	daemon->sees = tdfs_proc_is_ours();
	daemon->moment = tdfs_moment_open();
	tdfs_scan_begin();
	log_what_is_hidden(daemon);
	/* Once before the first request, so that it is all there. */
	(void)recover_leftovers(daemon);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	daemon->has_expiry_thread =
		pthread_create(&daemon->expiry_thread, NULL, run_expiry, daemon) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!daemon->has_expiry_thread)
		log_line(daemon, TDFS_NOBODY, NULL,
			 "cannot create the thread that ends names of committed files");
	pthread_mutex_unlock(&daemon->stop_lock);
}

bool tdfs_incoming_later(struct tdfs_incoming *incoming, uid_t uid, enum tdfs_queue queue,
			 void (*run)(void *), void *argument)
{
	struct tdfs_daemon *daemon = incoming->daemon;
	struct tdfs_pool *const pools[] = { [TDFS_QUEUE_WAITS] = daemon->waits,
					    [TDFS_QUEUE_CLOSES] = daemon->closes,
					    [TDFS_QUEUE_RENAMES] = daemon->renames };

	return tdfs_pool_submit(pools[queue], uid, run, argument);
}

static void stop_expiry(struct tdfs_daemon *daemon)
{
	pthread_mutex_lock(&daemon->expiry_lock);
	daemon->ending = true;
	pthread_cond_signal(&daemon->expiry_cond);
	pthread_mutex_unlock(&daemon->expiry_lock);
	if (daemon->has_expiry_thread)
		pthread_join(daemon->expiry_thread, NULL);
	daemon->has_expiry_thread = false;
}

void tdfs_incoming_stop(struct tdfs_incoming *incoming)
{
	struct tdfs_daemon *daemon = incoming->daemon;

	pthread_mutex_lock(&daemon->stop_lock);
	if (!daemon->stopped) {
		stop_expiry(daemon);
		/* Commits that run finish, those that wait do not begin. */
		tdfs_incoming_close(incoming);
		tdfs_incoming_commit_remaining(incoming);
	}
	daemon->stopped = true;
	pthread_mutex_unlock(&daemon->stop_lock);
}

void tdfs_incoming_end(struct tdfs_incoming *incoming)
{
	struct tdfs_daemon *daemon = incoming->daemon;

	/* First, so that what is under way has its answer before it is settled. */
	tdfs_incoming_close(incoming);
	end_requests(daemon);
	tdfs_incoming_stop(incoming);
}

void tdfs_incoming_free(struct tdfs_incoming *incoming)
{
	struct tdfs_daemon *daemon = incoming ? incoming->daemon : NULL;

	if (!daemon)
		return;
	end_requests(daemon);
	daemon_free(daemon);
}
