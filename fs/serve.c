/* SPDX-License-Identifier: MIT */
/*
 * The life of the mount: from mounting over the loops of requests to its end. Knows nothing of what
 * is answered.
 *
 * The threads that answer requests are as many as the options say, from the beginning to the end;
 * the main thread is one of them. libfuse's own loop ends its threads by cancelling them, for which
 * glibc has to load a library just then, and aborts where it cannot: when all descriptors are in
 * use, or in an image without it. Here nothing is cancelled. A thread that waits for a request is
 * interrupted until it sees that it is the end.
 *
 * The keeper sees that the mount serves, by asking it something itself, and then waits for signals.
 * At the end it has commits finish, takes the mount away, and only then stops the others: whoever
 * reads meanwhile is answered, and who comes later finds no mount rather than a dead one.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemonize.h"
#include "gate.h"
#include "incoming/incoming.h"
#include "msg.h"
#include "notify.h"
#include "opts.h"
#include "verify.h"

#define POKE	 SIGUSR1 /* interrupts a system call, and wakes the keeper */
#define PAUSE_MS 5

struct keeper {
	struct tdfs *tdfs;
	const char *mountpoint;
	int ready;
	dev_t device;	    /* of the mount; 0: not known, and nothing is taken away */
	atomic_bool served; /* somebody has been answered there */
	pthread_t main;
	pthread_t *others; /* that answer requests too */
	unsigned n_others;
	atomic_bool main_over; /* the main thread answers no more */
	atomic_uint over;      /* how many of the others do not */
	atomic_int result;     /* 0, or a negative errno of one that could not go on */
};

static void poked(int signal_number)
{
	/* That it interrupts is all it is for. */
}

static void ending_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
}

static void pause_briefly(void)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };

	nanosleep(&pause, NULL);
}

/* ---- Answering requests ------------------------------------------------------------------- */

/* One request. False: there will be no more. */
static bool answer(struct keeper *keeper, struct fuse_buf *buffer)
{
	struct fuse_session *session = keeper->tdfs->session;
	int got = fuse_session_receive_buf(session, buffer);

	if (got > 0)
		fuse_session_process_buf(session, buffer);
	else if (got == -ENOMEM)
		pause_briefly(); /* the request is still there */
	else if (got != -EINTR && got != -EAGAIN) {
		/* So a read ends that was just taking the last request, when the connection was
		 * cut: by the last close after a lazy umount. Any other ends with ENODEV, and 0. */
		if (got < 0 && got != -ECONNABORTED)
			atomic_store(&keeper->result, got);
		fuse_session_exit(session);
	}
	return !fuse_session_exited(session);
}

static void answer_all(struct keeper *keeper)
{
	struct fuse_buf buffer = { .mem = NULL };

	while (answer(keeper, &buffer))
		;
	free(buffer.mem);
}

/* Once the session is at its end. It could be just about to wait for a request. */
static void stop_main(struct keeper *keeper)
{
	while (!atomic_load(&keeper->main_over)) {
		pthread_kill(keeper->main, POKE);
		pause_briefly();
	}
}

static void *answer_beside(void *argument)
{
	struct keeper *keeper = argument;

	answer_all(keeper);
	atomic_fetch_add(&keeper->over, 1);
	stop_main(keeper);
	return NULL;
}

/* Fewer than all can do it as well, only slower. */
static void start_others(struct keeper *keeper)
{
	unsigned wanted = keeper->tdfs->options->max_threads;
	int why = 0;

	if (keeper->tdfs->options->single_threaded || wanted < 2)
		return;
	keeper->others = calloc(wanted - 1, sizeof *keeper->others);
	while (keeper->others != NULL && keeper->n_others < wanted - 1 && why == 0) {
		why = pthread_create(&keeper->others[keeper->n_others], NULL, answer_beside,
				     keeper);
		keeper->n_others += why == 0;
	}
	tdfs_gate_set(keeper->tdfs->gate, keeper->n_others + 1);
	if (keeper->n_others < wanted - 1)
		tdfs_msg(LOG_WARNING, "only %u of %u threads answer requests: %s",
			 keeper->n_others + 1, wanted, strerror(why == 0 ? ENOMEM : why));
}

static void stop_others(struct keeper *keeper)
{
	while (atomic_load(&keeper->over) < keeper->n_others) {
		for (unsigned i = 0; i < keeper->n_others; i++)
			pthread_kill(keeper->others[i], POKE);
		pause_briefly();
	}
	for (unsigned i = 0; i < keeper->n_others; i++)
		pthread_join(keeper->others[i], NULL);
	free(keeper->others);
}

/* Returns 0, or a negative errno. */
static int loop(struct keeper *keeper)
{
	struct fuse_buf greeting = { .mem = NULL };

	/* The first request settles how large the others are. */
	while (greeting.mem == NULL && answer(keeper, &greeting))
		;
	free(greeting.mem);
	if (!fuse_session_exited(keeper->tdfs->session))
		start_others(keeper);
	if (!fuse_session_exited(keeper->tdfs->session))
		answer_all(keeper);
	atomic_store(&keeper->main_over, true);
	stop_others(keeper);
	return atomic_load(&keeper->result);
}

/* ---- The keeper --------------------------------------------------------------------------- */

static void tune(const struct keeper *keeper)
{
	unsigned kib = keeper->tdfs->options->read_ahead_kib;
	int error = kib == 0 ? 0 : tdfs_place_read_ahead(keeper->device, kib);

	if (error != 0)
		tdfs_msg(LOG_DEBUG, "read-ahead stays as it is: %s", strerror(error));
}

/* While requests are still answered. */
static void end(struct keeper *keeper)
{
	if (keeper->tdfs->incoming != NULL)
		tdfs_incoming_stop(keeper->tdfs->incoming);
	if (keeper->device != 0)
		tdfs_place_unmount(keeper->device);
	fuse_session_exit(keeper->tdfs->session);
	stop_main(keeper);
}

static void *keep(void *argument)
{
	struct keeper *keeper = argument;
	sigset_t signals;
	struct stat st;
	int caught, error;

	/* The first request after the kernel's greeting. Where the mount is gone again, it fails or
	 * finds what else is there. */
	if (stat(keeper->mountpoint, &st) == 0 && st.st_dev == keeper->device) {
		atomic_store(&keeper->served, true);
		tune(keeper);
		if (keeper->ready >= 0 && !tdfs_background_detach(keeper->ready))
			end(keeper);
		error = tdfs_notify_ready();
		if (error != 0)
			tdfs_msg(LOG_WARNING, "NOTIFY_SOCKET: %s", strerror(error));
	}
	ending_signals(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, POKE);
	while (!atomic_load(&keeper->main_over)) {
		if (sigwait(&signals, &caught) != 0)
			continue;
		if (caught == SIGHUP)
			tdfs_msg_reopen();
		else if (caught != POKE)
			end(keeper);
	}
	return NULL;
}

/* ---- The beginning and the end ------------------------------------------------------------ */

/*
 * libfuse unmounts by path, whatever is there now. Where it is no more us (a lazy umount, and then
 * another mount), it must not: an end of a pipe that nobody reads, put in the place of our device,
 * makes it believe that the connection is cut already. And so it is, since that closed the device.
 */
static void unmount(struct keeper *keeper)
{
	struct fuse_session *session = keeper->tdfs->session;
	int ends[2];

	if ((keeper->device == 0 || !tdfs_place_shows(keeper->mountpoint, keeper->device)) &&
	    pipe2(ends, O_CLOEXEC) == 0) {
		close(ends[0]);
		dup3(ends[1], fuse_session_fd(session), O_CLOEXEC);
		close(ends[1]);
	}
	fuse_session_unmount(session);
}

static void set_signal(int number, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	sigaction(number, &action, NULL);
}

/* From here on a signal waits for the keeper; it can leave no dead mount behind. */
static void take_signals(void)
{
	sigset_t blocked;

	ending_signals(&blocked);
	sigaddset(&blocked, SIGHUP);
	sigaddset(&blocked, POKE);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	set_signal(POKE, poked);
	set_signal(SIGPIPE, SIG_IGN);
	set_signal(SIGXFSZ, SIG_IGN);
}

int tdfs_serve(struct tdfs *tdfs, struct tdfs_place *place, int ready)
{
	const char *mountpoint = place->mountpoint;
	struct keeper keeper = { .tdfs = tdfs, .mountpoint = mountpoint, .ready = ready };
	struct tdfs_verify *verify;
	struct stat below;
	pthread_t thread;
	sigset_t poke;
	int result;

	if (stat(mountpoint, &below) < 0) {
		tdfs_msg(LOG_ERR, "%s: %s", mountpoint, strerror(errno));
		return -1;
	}
	take_signals();
	result = tdfs_msg_thread();
	if (result != 0) {
		tdfs_msg(LOG_ERR, "no thread: %s", strerror(result));
		return -1;
	}
	if (fuse_session_mount(tdfs->session, mountpoint) != 0)
		return -1; /* libfuse or fusermount3 has said why */
	keeper.device = tdfs_place_device(fuse_session_fd(tdfs->session), mountpoint, below.st_dev);
	tdfs_place_release(place);
	keeper.main = pthread_self();
	result = pthread_create(&thread, NULL, keep, &keeper);
	if (result != 0) {
		tdfs_msg(LOG_ERR, "no thread: %s", strerror(result));
		unmount(&keeper);
		return -1;
	}
	if (tdfs->incoming != NULL)
		tdfs_incoming_start(tdfs->incoming);
	verify = tdfs_verify_start(tdfs->table);
	sigemptyset(&poke);
	sigaddset(&poke, POKE);
	pthread_sigmask(SIG_UNBLOCK, &poke, NULL);
	result = loop(&keeper);
	pthread_sigmask(SIG_BLOCK, &poke, NULL);
	tdfs_verify_stop(verify);
	tdfs_gate_end(tdfs->gate);
	if (tdfs->incoming != NULL)
		tdfs_incoming_end(tdfs->incoming);
	/* Before the keeper is waited for: it may be asking a mount that nobody serves any more. */
	unmount(&keeper);
	pthread_kill(thread, POKE);
	pthread_join(thread, NULL);
	if (result < 0) {
		tdfs_msg(LOG_ERR, "%s: %s", mountpoint, strerror(-result));
		return -1;
	}
	/* In the foreground nobody waits to be told, and an umount may be quicker than the keeper.
	 */
	if (ready >= 0 && !atomic_load(&keeper.served)) {
		tdfs_msg(LOG_ERR, "%s: ended before it served", mountpoint);
		return -1;
	}
	return 0;
}
