/* SPDX-License-Identifier: MIT */
/*
 * The thread that compares the log with what was read of it. Knows nothing of requests.
 */
#include "verify.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "msg.h"

/* Some hundredths of a core: a million commits take five minutes. */
#define AT_ONCE	 64
#define PAUSE_MS 20
#define AGAIN_MS (60 * 60 * 1000)
#define AGAIN	 "TINYDELTAFS_VERIFY_MS" /* in the environment: another time than that, for tests */

struct tdfs_verify {
	tdl_table *table;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool stop; /* under the lock */
};

/* False at the end. */
static bool pause_verify(struct tdfs_verify *verify, unsigned ms)
{
	struct timespec until;
	bool stop;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&verify->lock);
	while (!verify->stop &&
	       pthread_cond_timedwait(&verify->change, &verify->lock, &until) != ETIMEDOUT)
		;
	stop = verify->stop;
	pthread_mutex_unlock(&verify->lock);
	return !stop;
}

/* From the end of one pass to the beginning of the next. */
static unsigned again_ms(void)
{
	const char *text = getenv(AGAIN);
	unsigned long ms = !text ? 0 : strtoul(text, NULL, 10);

	return ms > 0 && ms <= UINT_MAX ? (unsigned)ms : AGAIN_MS;
}

static void *run(void *argument)
{
	struct tdfs_verify *verify = argument;
	unsigned again = again_ms(), pause = PAUSE_MS;
	bool logged = false;

	while (pause_verify(verify, pause)) {
		tdl_error error;
		int r = tdl_table_verify_log(verify->table, AT_ONCE, &error);

		/* Once a pass is enough of what may be over soon. */
		if (r < 0 && (r == TDL_ERR_CORRUPT || !logged)) {
			tdfs_msg(LOG_ERR, "%s: %s", tdl_table_path(verify->table), error.message);
			logged = true;
		}
		if (r == TDL_ERR_CORRUPT)
			break;
		if (r == 0)
			logged = false;
		pause = r == 0 ? again : PAUSE_MS;
	}
	return NULL;
}

struct tdfs_verify *tdfs_verify_start(tdl_table *table)
{
	struct tdfs_verify *verify = calloc(1, sizeof *verify);
	pthread_condattr_t clock;

	if (!verify)
		return NULL;
	verify->table = table;
	pthread_mutex_init(&verify->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&verify->change, &clock);
	pthread_condattr_destroy(&clock);
	if (pthread_create(&verify->thread, NULL, run, verify) == 0)
		return verify;
	pthread_cond_destroy(&verify->change);
	pthread_mutex_destroy(&verify->lock);
	free(verify);
	return NULL;
}

void tdfs_verify_stop(struct tdfs_verify *verify)
{
	if (!verify)
		return;
	pthread_mutex_lock(&verify->lock);
	verify->stop = true;
	pthread_cond_signal(&verify->change);
	pthread_mutex_unlock(&verify->lock);
	pthread_join(verify->thread, NULL);
	pthread_cond_destroy(&verify->change);
	pthread_mutex_destroy(&verify->lock);
	free(verify);
}
