/* SPDX-License-Identifier: MIT */
/*
 * What is said, and what is kept out of it: line breaks, floods, and whoever says it from waiting.
 * Knows nothing of libfuse or of the tree. Its state is the process's, as stderr and syslog are.
 *
 * Until the thread is there (in the process that mounts, and in unit tests) lines are put out at
 * once. From then on they are queued, and only the thread waits for those who read them: a log
 * that does not drain costs lines, never a request.
 */
#include "msg.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sink.h"
#include "util/escape.h"
#include "util/hash.h"

#define PROGRAM	   "tinydeltafs"
#define LINE_MAX_  2048
#define QUEUE_MAX  2000 /* lines */
#define END_MS	   1000 /* for which the end waits for who reads */
#define QUIET_SECS 60

/* The failures told last, by hash. A full table forgets the oldest, which may then be told again:
 * too much is better than too little. */
#define FAULTS 64

struct fault {
	uint64_t hash; /* 0: free */
	time_t told;
	unsigned long again;
};

/* Users because of whom there were messages lately. One whose messages are queued is kept. */
#define TALKERS	   64
#define NOBODY	   TALKERS
#define TALK_MAX   100 /* messages in QUIET_SECS */
#define TALK_SHARE (QUEUE_MAX / 4)

struct talker {
	uid_t user;
	time_t since; /* his minute began; 0: a free place */
	unsigned said, queued;
	unsigned long left_out;
};

struct line {
	struct line *next;
	struct timespec when;
	unsigned long lost; /* before it, since the queue was full */
	int priority;
	unsigned talker; /* or NOBODY */
	char text[];
};

static struct {
	pthread_mutex_t lock; /* of all below but the sink */
	bool debug;
	struct fault faults[FAULTS];
	struct talker talkers[TALKERS + 1];
	bool threaded;
	bool putting; /* the thread has a line in hand */
	struct line *first, **last;
	unsigned queued;
	unsigned long lost;
	pthread_cond_t more, less; /* queued; put out */
	struct tdfs_sink sink;	   /* the thread's, once there is one */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .sink.log = -1 };

void tdfs_msg_start(bool debug)
{
	pthread_mutex_lock(&state.lock);
	state.debug = debug;
	pthread_mutex_unlock(&state.lock);
}

int tdfs_msg_log(const char *path)
{
	return tdfs_sink_open_log(&state.sink, path);
}

int tdfs_msg_log_fd(void)
{
	return state.sink.log;
}

/* ---- The queue ---------------------------------------------------------------------------- */

static void log_lost(unsigned long lost, unsigned long *failed)
{
	char text[64];
	struct timespec now;

	if (lost == 0)
		return;
	snprintf(text, sizeof text, lost == 1 ? "%lu message was lost" : "%lu messages were lost",
		 lost);
	clock_gettime(CLOCK_REALTIME, &now);
	if (!tdfs_sink_put(&state.sink, LOG_WARNING, &now, text))
		*failed += lost;
}

/* Takes the first line, NULL where there is none; *lost: how many were before it, or behind all. */
static struct line *take_line(unsigned long *lost)
{
	struct line *line = state.first;

	if (!line) {
		*lost = state.lost;
		state.lost = 0;
		return NULL;
	}
	state.first = line->next;
	if (!state.first)
		state.last = &state.first;
	state.queued--;
	state.talkers[line->talker].queued--;
	*lost = line->lost;
	return line;
}

static void *drain(void *argument)
{
	unsigned long failed = 0; /* that could not be put out, and were not told of yet */

	pthread_mutex_lock(&state.lock);
	for (;;) {
		unsigned long lost;
		struct line *line = take_line(&lost);

		if (!line && lost == 0 && !atomic_load(&state.sink.reopen)) {
			state.putting = false;
			pthread_cond_broadcast(&state.less);
			pthread_cond_wait(&state.more, &state.lock);
			continue;
		}
		state.putting = true;
		pthread_mutex_unlock(&state.lock);
		lost += failed;
		failed = 0;
		tdfs_sink_follow(&state.sink);
		log_lost(lost, &failed);
		if (line && !tdfs_sink_put(&state.sink, line->priority, &line->when, line->text))
			failed++;
		free(line);
		pthread_mutex_lock(&state.lock);
	}
	return NULL;
}

int tdfs_msg_thread(void)
{
	pthread_condattr_t steady;
	sigset_t all, before;
	pthread_t thread;
	int err;

	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_cond_init(&state.more, &steady);
	pthread_cond_init(&state.less, &steady);
	pthread_condattr_destroy(&steady);
	state.last = &state.first;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, drain, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err == 0) {
		pthread_detach(thread);
		state.threaded = true;
	}
	return err;
}

/* With the lock held, for up to a second. */
static void wait_until_drained(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_MS / 1000;
	while (state.threaded && (state.queued > 0 || state.lost > 0 || state.putting) &&
	       pthread_cond_timedwait(&state.less, &state.lock, &until) != ETIMEDOUT)
		;
}

void tdfs_msg_detach(void)
{
	pthread_mutex_lock(&state.lock);
	wait_until_drained();
	if (state.sink.log < 0)
		openlog(PROGRAM, LOG_PID | LOG_NDELAY, LOG_DAEMON);
	atomic_store(&state.sink.detached, true);
	pthread_mutex_unlock(&state.lock);
}

void tdfs_msg_reopen(void)
{
	pthread_mutex_lock(&state.lock);
	atomic_store(&state.sink.reopen, true);
	if (state.threaded)
		pthread_cond_signal(&state.more);
	pthread_mutex_unlock(&state.lock);
}

/* Called with the lock held: lines come out in the order in which they were said. */
static void queue(unsigned talker, int priority, const struct timespec *when, const char *text)
{
	struct line *line = NULL;

	if (state.queued < QUEUE_MAX)
		line = malloc(sizeof *line + strlen(text) + 1);
	pthread_cond_signal(&state.more);
	if (!line) {
		state.lost++;
		return;
	}
	*line = (struct line){
		.when = *when, .priority = priority, .lost = state.lost, .talker = talker
	};
	strcpy(line->text, text);
	state.lost = 0;
	*state.last = line;
	state.last = &line->next;
	state.queued++;
	state.talkers[talker].queued++;
}

static void put_of(unsigned talker, int priority, const char *text)
{
	char clean[LINE_MAX_];
	struct timespec now;

	tdl__printable(clean, sizeof clean, text, strlen(text));
	clock_gettime(CLOCK_REALTIME, &now);
	if (state.threaded)
		queue(talker, priority, &now, clean);
	else
		(void)tdfs_sink_put(&state.sink, priority, &now, clean);
}

static void put_line(int priority, const char *text)
{
	put_of(NOBODY, priority, text);
}

void tdfs_msg(int priority, const char *format, ...)
{
	char text[LINE_MAX_];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	pthread_mutex_lock(&state.lock);
	if (priority != LOG_DEBUG || state.debug)
		put_line(priority, text);
	pthread_mutex_unlock(&state.lock);
}

/* ---- Users -------------------------------------------------------------------------------- */

static void log_left_out(struct talker *talker)
{
	char text[120];

	if (talker->left_out > 0) {
		snprintf(text, sizeof text, "%lu more messages because of user %u were left out",
			 talker->left_out, (unsigned)talker->user);
		put_line(LOG_WARNING, text);
	}
	talker->left_out = 0;
}

/* NOBODY: all places are taken by users whose messages nobody has read yet. */
static unsigned find_talker(uid_t user, time_t now)
{
	unsigned oldest = NOBODY;

	for (unsigned i = 0; i < TALKERS; i++) {
		struct talker *one = &state.talkers[i];

		if (one->since != 0 && one->user == user)
			return i;
		if (one->queued == 0 &&
		    (oldest == NOBODY || one->since < state.talkers[oldest].since))
			oldest = i;
	}
	if (oldest != NOBODY) {
		log_left_out(&state.talkers[oldest]);
		state.talkers[oldest] = (struct talker){ .user = user, .since = now };
	}
	return oldest;
}

/* With the lock held: whether the user may have one more message. */
static bool may_talk(unsigned at, time_t now)
{
	struct talker *talker = &state.talkers[at];

	if (at == NOBODY)
		return false;
	if (now - talker->since >= QUIET_SECS) {
		log_left_out(talker);
		talker->since = now;
		talker->said = 0;
	}
	if (talker->said >= TALK_MAX || talker->queued >= TALK_SHARE) {
		talker->left_out++;
		return false;
	}
	talker->said++;
	return true;
}

static void log_repeats(unsigned at, int priority, const char *text)
{
	char last[120];

	put_of(at, priority, text);
	if (state.talkers[at].said < TALK_MAX)
		return;
	snprintf(last, sizeof last,
		 "%d messages because of user %u within a minute: until it is over, no more",
		 TALK_MAX, (unsigned)state.talkers[at].user);
	put_of(at, LOG_WARNING, last);
}

void tdfs_msg_user(uid_t user, int priority, const char *format, ...)
{
	char text[LINE_MAX_];
	struct timespec now;
	unsigned talker = NOBODY;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&state.lock);
	if (user == (uid_t)-1 || user == geteuid()) {
		put_line(priority, text);
	} else {
		talker = find_talker(user, now.tv_sec + 1);
		if (may_talk(talker, now.tv_sec + 1))
			log_repeats(talker, priority, text);
		else if (talker == NOBODY)
			state.lost++;
	}
	pthread_mutex_unlock(&state.lock);
}

void tdfs_msg_end(void)
{
	pthread_mutex_lock(&state.lock);
	for (unsigned i = 0; i < TALKERS; i++)
		log_left_out(&state.talkers[i]);
	wait_until_drained();
	atomic_store(&state.sink.hurry, true);
	pthread_mutex_unlock(&state.lock);
}

/* ---- Failures ----------------------------------------------------------------------------- */

void tdfs_msg_fault(const char *table, const char *where, const tdl_error *error)
{
	char text[LINE_MAX_ - 64];
	char counted[LINE_MAX_];
	struct fault *fault = NULL, *oldest = &state.faults[0];
	struct timespec now;
	uint64_t hash;

	snprintf(text, sizeof text, "%s: %s%s%s", table, !where ? "" : where, !where ? "" : ": ",
		 error->message);
	hash = tdl__hash(text, strlen(text)) | 1;
	clock_gettime(CLOCK_MONOTONIC, &now);

	pthread_mutex_lock(&state.lock);
	for (size_t i = 0; i < FAULTS && !fault; i++) {
		if (state.faults[i].hash == hash)
			fault = &state.faults[i];
		else if (state.faults[i].hash == 0 || state.faults[i].told < oldest->told)
			oldest = &state.faults[i];
	}
	if (fault && now.tv_sec - fault->told < QUIET_SECS) {
		fault->again++;
	} else if (fault && fault->again > 0) {
		snprintf(counted, sizeof counted, "%s (%lu times more)", text, fault->again);
		put_line(LOG_ERR, counted);
		*fault = (struct fault){ .hash = hash, .told = now.tv_sec };
	} else {
		put_line(LOG_ERR, text);
		fault = !fault ? oldest : fault;
		*fault = (struct fault){ .hash = hash, .told = now.tv_sec };
	}
	pthread_mutex_unlock(&state.lock);
}
