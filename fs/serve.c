/* SPDX-License-Identifier: MIT */
/*
 * The life of the mount: from mounting over the loop of requests to its end. Knows nothing of what
 * is answered.
 *
 * Two threads matter here. The loop runs in the main thread, by libfuse. The keeper sees that the
 * mount serves, by asking it something itself, and then waits for signals. libfuse's own handlers
 * are not used: they only set a flag, and a loop that waits for the next request or the next
 * thread may not look at it until a client does something. The keeper sets the flag and then
 * interrupts the main thread until it is seen.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "background.h"
#include "incoming.h"
#include "msg.h"
#include "notify.h"
#include "opts.h"
#include "place.h"

#define POKE SIGUSR1 /* interrupts a system call, and wakes the keeper */

struct keeper {
	struct tdfs *tdfs;
	const char *mountpoint;
	int ready;
	pthread_t loop;
	dev_t below;	     /* the file system that the mount point is in */
	atomic_bool over;    /* the loop has ended */
	atomic_ulong device; /* of the mount, once it has served; 0 before */
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
	sigaddset(set, SIGHUP);
}

static void tune(const struct keeper *keeper, dev_t device)
{
	unsigned kib = keeper->tdfs->options->read_ahead_kib;
	int error = kib == 0 ? 0 : tdfs_place_read_ahead(device, kib);

	if (error != 0)
		tdfs_msg(LOG_DEBUG, "read-ahead stays as it is: %s", strerror(error));
}

static void stop_loop(struct keeper *keeper)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	fuse_session_exit(keeper->tdfs->session);
	/* One could come just before the loop begins to wait. */
	while (!atomic_load(&keeper->over)) {
		pthread_kill(keeper->loop, POKE);
		nanosleep(&pause, NULL);
	}
}

static void *keep(void *argument)
{
	struct keeper *keeper = argument;
	sigset_t signals;
	struct stat st;
	int caught, error;

	/* The first request after the kernel's greeting. Where the mount is gone again, it fails or
	 * finds what was there before. */
	if (stat(keeper->mountpoint, &st) == 0 && st.st_dev != keeper->below) {
		atomic_store(&keeper->device, st.st_dev);
		tune(keeper, st.st_dev);
		if (keeper->ready >= 0 && !tdfs_background_detach(keeper->ready))
			stop_loop(keeper);
		error = tdfs_notify_ready();
		if (error != 0)
			tdfs_msg(LOG_WARNING, "NOTIFY_SOCKET: %s", strerror(error));
	}
	ending_signals(&signals);
	sigaddset(&signals, POKE);
	while (!atomic_load(&keeper->over)) {
		if (sigwait(&signals, &caught) == 0 && caught != POKE)
			stop_loop(keeper);
	}
	return NULL;
}

static int loop(struct tdfs *tdfs)
{
	const struct tdfs_options *options = tdfs->options;
	struct fuse_loop_config *config;
	int result;

	if (options->single_threaded)
		return fuse_session_loop(tdfs->session);
	config = fuse_loop_cfg_create();
	if (config == NULL)
		return -ENOMEM;
	/* Threads that come and go cost more than all the reading they do. */
	fuse_loop_cfg_set_max_threads(config, options->max_threads);
	fuse_loop_cfg_set_idle_threads(config, options->max_threads);
	fuse_loop_cfg_set_clone_fd(config, 0);
	result = fuse_session_loop_mt(tdfs->session, config);
	fuse_loop_cfg_destroy(config);
	return result;
}

/*
 * libfuse unmounts by path, whatever is there now. Where it is no more us (a lazy umount, and then
 * another mount), it must not: an end of a pipe that nobody reads, put in the place of our device,
 * makes it believe that the connection is cut already. And so it is, since that closed the device.
 */
static void unmount(struct keeper *keeper)
{
	struct fuse_session *session = keeper->tdfs->session;
	dev_t device = atomic_load(&keeper->device);
	int ends[2];

	if (device != 0 && !tdfs_place_shows(keeper->mountpoint, device) &&
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

int tdfs_serve(struct tdfs *tdfs, const char *mountpoint, int ready)
{
	struct keeper keeper = { .tdfs = tdfs, .mountpoint = mountpoint, .ready = ready };
	sigset_t blocked, poke;
	struct stat below;
	pthread_t thread;
	int result;

	if (stat(mountpoint, &below) < 0) {
		tdfs_msg(LOG_ERR, "%s: %s", mountpoint, strerror(errno));
		return -1;
	}
	keeper.below = below.st_dev;
	/* From here on a signal waits for the keeper; it can leave no dead mount behind. */
	ending_signals(&blocked);
	sigaddset(&blocked, POKE);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	set_signal(POKE, poked);
	set_signal(SIGPIPE, SIG_IGN);
	set_signal(SIGXFSZ, SIG_IGN);

	if (fuse_session_mount(tdfs->session, mountpoint) != 0)
		return -1; /* libfuse or fusermount3 has said why */
	keeper.loop = pthread_self();
	result = pthread_create(&thread, NULL, keep, &keeper);
	if (result != 0) {
		tdfs_msg(LOG_ERR, "no thread: %s", strerror(result));
		fuse_session_unmount(tdfs->session);
		return -1;
	}
	if (tdfs->incoming != NULL)
		tdfs_incoming_start(tdfs->incoming);
	sigemptyset(&poke);
	sigaddset(&poke, POKE);
	pthread_sigmask(SIG_UNBLOCK, &poke, NULL);
	result = loop(tdfs);
	pthread_sigmask(SIG_BLOCK, &poke, NULL);
	atomic_store(&keeper.over, true);
	/* While closes that are being committed can still be answered. */
	if (tdfs->incoming != NULL)
		tdfs_incoming_stop(tdfs->incoming);
	/* Before the keeper is waited for: it may be asking a mount that nobody serves any more. */
	unmount(&keeper);
	pthread_kill(thread, POKE);
	pthread_join(thread, NULL);
	/* How a read of the device ends that was just taking the last request, when the connection
	 * was cut: by the last close after a lazy umount. Any other ends with ENODEV, and 0. */
	if (result == -ECONNABORTED)
		result = 0;
	if (result < 0) {
		tdfs_msg(LOG_ERR, "%s: %s", mountpoint, strerror(-result));
		return -1;
	}
	/* In the foreground nobody waits to be told, and an umount may be quicker than the keeper.
	 */
	if (ready >= 0 && atomic_load(&keeper.device) == 0) {
		tdfs_msg(LOG_ERR, "%s: ended before it served", mountpoint);
		return -1;
	}
	return 0;
}
