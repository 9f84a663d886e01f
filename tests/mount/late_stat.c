/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a daemon under test: all threads but the first wait with stat() while the
 * directory that LATE_STAT names exists. So the daemon looks at its own mount as late as a test
 * wants. Knows nothing of what it is loaded into.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The header has but one of them, under whichever name. */
struct stat;
typedef int stat_call(const char *path, struct stat *st);
stat_call stat, stat64;

static void wait_for_the_test(void)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	const char *gate = getenv("LATE_STAT");

	while (gate && gettid() != getpid() && access(gate, F_OK) == 0)
		nanosleep(&pause, NULL);
}

__attribute__((visibility("default"))) int stat(const char *path, struct stat *st)
{
	wait_for_the_test();
	return ((stat_call *)dlsym(RTLD_NEXT, "stat"))(path, st);
}

__attribute__((visibility("default"))) int stat64(const char *path, struct stat *st)
{
	wait_for_the_test();
	return ((stat_call *)dlsym(RTLD_NEXT, "stat64"))(path, st);
}
