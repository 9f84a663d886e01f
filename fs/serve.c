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
 * The signal thread sees that the mount serves, by asking it something itself, and then waits for
 * signals. At the end it has commits finish, takes the mount away, and only then stops the others:
 * whoever reads meanwhile is answered, and who comes later finds no mount rather than a dead one.
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

#define WAKEUP	 SIGUSR1 /* interrupts a system call, and wakes the signal thread */
#define PAUSE_MS 5

struct server {
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

static void on_wakeup(int signal_number)
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
static bool answer_request(struct server *server, struct fuse_buf *buffer)
{
	struct fuse_session *session = server->tdfs->session;
	int got = fuse_session_receive_buf(session, buffer);

	if (got > 0)
		fuse_session_process_buf(session, buffer);
	else if (got == -ENOMEM)
		pause_briefly(); /* the request is still there */
	else if (got != -EINTR && got != -EAGAIN) {
		/* So a read ends that was just taking the last request, when the connection was
		 * cut: by the last close after a lazy umount. Any other ends with ENODEV, and 0. */
		if (got < 0 && got != -ECONNABORTED)
			atomic_store(&server->result, got);
		fuse_session_exit(session);
	}
	return !fuse_session_exited(session);
}

static void answer_all(struct server *server)
{
	struct fuse_buf buffer = { .mem = NULL };

	while (answer_request(server, &buffer))
		;
	free(buffer.mem);
}

/* Once the session is at its end. It could be just about to wait for a request. */
static void stop_main(struct server *server)
{
	while (!atomic_load(&server->main_over)) {
		pthread_kill(server->main, WAKEUP);
		pause_briefly();
	}
}

static void *answer_beside(void *argument)
{
	struct server *server = argument;

	answer_all(server);
	atomic_fetch_add(&server->over, 1);
	stop_main(server);
	return NULL;
}

/* Fewer than all can do it as well, only slower. */
static void start_others(struct server *server)
{
	unsigned wanted = server->tdfs->options->max_threads;
	int err = 0;

	if (server->tdfs->options->single_threaded || wanted < 2)
		return;
	server->others = calloc(wanted - 1, sizeof *server->others);
	while (server->others && server->n_others < wanted - 1 && err == 0) {
		err = pthread_create(&server->others[server->n_others], NULL, answer_beside,
				     server);
		server->n_others += err == 0;
	}
	tdfs_gate_set(server->tdfs->gate, server->n_others + 1);
	if (server->n_others < wanted - 1)
		tdfs_msg(LOG_WARNING, "only %u of %u threads answer requests: %s",
			 server->n_others + 1, wanted, strerror(err == 0 ? ENOMEM : err));
}

static void stop_others(struct server *server)
{
	while (atomic_load(&server->over) < server->n_others) {
		for (unsigned i = 0; i < server->n_others; i++)
			pthread_kill(server->others[i], WAKEUP);
		pause_briefly();
	}
	for (unsigned i = 0; i < server->n_others; i++)
		pthread_join(server->others[i], NULL);
	free(server->others);
}

/* Returns 0, or a negative errno. */
static int serve_requests(struct server *server)
{
	struct fuse_buf greeting = { .mem = NULL };

	/* The first request settles how large the others are. */
	while (!greeting.mem && answer_request(server, &greeting))
		;
	free(greeting.mem);
	if (!fuse_session_exited(server->tdfs->session))
		start_others(server);
	if (!fuse_session_exited(server->tdfs->session))
		answer_all(server);
	atomic_store(&server->main_over, true);
	stop_others(server);
	return atomic_load(&server->result);
}

/* ---- The signal thread -------------------------------------------------------------------- */

static void tune_read_ahead(const struct server *server)
{
	unsigned kib = server->tdfs->options->read_ahead_kib;
	int err = kib == 0 ? 0 : tdfs_place_read_ahead(server->device, kib);

	if (err != 0)
		tdfs_msg(LOG_DEBUG, "read-ahead stays as it is: %s", strerror(err));
}

/* While requests are still answered. */
static void end_mount(struct server *server)
{
	if (server->tdfs->incoming)
		tdfs_incoming_stop(server->tdfs->incoming);
	if (server->device != 0)
		tdfs_place_unmount(server->device);
	fuse_session_exit(server->tdfs->session);
	stop_main(server);
}

static void *run_signal_thread(void *argument)
{
	struct server *server = argument;
	sigset_t signals;
	struct stat st;
	int caught, err;

	/* The first request after the kernel's greeting. Where the mount is gone again, it fails or
	 * finds what else is there. */
	if (stat(server->mountpoint, &st) == 0 && st.st_dev == server->device) {
		atomic_store(&server->served, true);
		tune_read_ahead(server);
		if (server->ready >= 0 && !tdfs_background_detach(server->ready))
			end_mount(server);
		err = tdfs_notify_ready();
		if (err != 0)
			tdfs_msg(LOG_WARNING, "NOTIFY_SOCKET: %s", strerror(err));
	}
	ending_signals(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, WAKEUP);
	while (!atomic_load(&server->main_over)) {
		if (sigwait(&signals, &caught) != 0)
			continue;
		if (caught == SIGHUP)
			tdfs_msg_reopen();
		else if (caught != WAKEUP)
			end_mount(server);
	}
	return NULL;
}

/* ---- The beginning and the end ------------------------------------------------------------ */

/*
 * libfuse unmounts by path. If our mount was detached (umount -l) and another one is there now,
 * that must not be taken away: a broken pipe in the place of the device makes libfuse see a dead
 * connection and skip the umount. Replacing the device has closed it, which ends our own mount.
 */
static void unmount(struct server *server)
{
	struct fuse_session *session = server->tdfs->session;
	int ends[2];

	if ((server->device == 0 || !tdfs_place_shows(server->mountpoint, server->device)) &&
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

/* From here on a signal waits for the signal thread; it can leave no dead mount behind. */
static void take_signals(void)
{
	sigset_t blocked;

	ending_signals(&blocked);
	sigaddset(&blocked, SIGHUP);
	sigaddset(&blocked, WAKEUP);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	set_signal(WAKEUP, on_wakeup);
	set_signal(SIGPIPE, SIG_IGN);
	set_signal(SIGXFSZ, SIG_IGN);
}

int tdfs_serve(struct tdfs *tdfs, struct tdfs_place *place, int ready)
{
	const char *mountpoint = place->mountpoint;
	struct server server = { .tdfs = tdfs, .mountpoint = mountpoint, .ready = ready };
	struct tdfs_verify *verify;
	struct stat below;
	pthread_t thread;
	sigset_t wakeup;
	int result;

	if (stat(mountpoint, &below) < 0) {
		tdfs_msg(LOG_ERR, "%s: %s", mountpoint, strerror(errno));
		return -1;
	}
	take_signals();
	result = tdfs_msg_thread();
	if (result != 0) {
		tdfs_msg(LOG_ERR, "cannot create a thread: %s", strerror(result));
		return -1;
	}
	if (fuse_session_mount(tdfs->session, mountpoint) != 0)
		return -1; /* libfuse or fusermount3 has said why */
	server.device = tdfs_place_device(fuse_session_fd(tdfs->session), mountpoint, below.st_dev);
	tdfs_place_release(place);
	server.main = pthread_self();
	result = pthread_create(&thread, NULL, run_signal_thread, &server);
	if (result != 0) {
		tdfs_msg(LOG_ERR, "cannot create a thread: %s", strerror(result));
		unmount(&server);
		return -1;
	}
	if (tdfs->incoming)
		tdfs_incoming_start(tdfs->incoming);
	verify = tdfs_verify_start(tdfs->table);
	sigemptyset(&wakeup);
	sigaddset(&wakeup, WAKEUP);
	pthread_sigmask(SIG_UNBLOCK, &wakeup, NULL);
	result = serve_requests(&server);
	pthread_sigmask(SIG_BLOCK, &wakeup, NULL);
	tdfs_verify_stop(verify);
	tdfs_gate_end(tdfs->gate);
	if (tdfs->incoming)
		tdfs_incoming_end(tdfs->incoming);
	/* Before the signal thread is waited for: it may be asking a mount that nobody serves any
	 * more. */
	unmount(&server);
	pthread_kill(thread, WAKEUP);
	pthread_join(thread, NULL);
	if (result < 0) {
		tdfs_msg(LOG_ERR, "%s: %s", mountpoint, strerror(-result));
		return -1;
	}
	/* In the foreground nobody waits to be told, and an umount may be quicker than the signal
	 * thread.
	 */
	if (ready >= 0 && !atomic_load(&server.served)) {
		tdfs_msg(LOG_ERR, "%s: ended before it served", mountpoint);
		return -1;
	}
	return 0;
}
