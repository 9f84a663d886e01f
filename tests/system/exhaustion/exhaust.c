/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a daemon under test: allocations and new threads fail as a file says, which the
 * test writes to. Knows nothing of what it is loaded into.
 *
 * EXHAUST names a file of four numbers: how many allocations succeed from now on, and how many
 * fail then (0: none); the errno of pthread_create() (0: it works); how many allocations failed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

struct orders {
	atomic_long succeed, fail, thread, failed;
};

static struct orders none, *orders = &none;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

__attribute__((constructor)) static void begin(void)
{
	const char *name = getenv("EXHAUST");
	int fd = !name ? -1 : open(name, O_RDWR | O_CLOEXEC);
	void *map = MAP_FAILED;

	if (fd >= 0)
		map = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		orders = map;
}

static int refused(void)
{
	if (atomic_load(&orders->fail) <= 0)
		return 0;
	if (atomic_load(&orders->succeed) > 0 && atomic_fetch_sub(&orders->succeed, 1) > 0)
		return 0;
	if (atomic_fetch_sub(&orders->fail, 1) <= 0)
		return 0;
	atomic_fetch_add(&orders->failed, 1);
	errno = ENOMEM;
	return 1;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
	return refused() ? NULL : __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
	return refused() ? NULL : __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t size)
{
	return refused() ? NULL : __libc_realloc(old, size);
}

__attribute__((visibility("default"))) int posix_memalign(void **to, size_t alignment, size_t size)
{
	void *got = refused() ? NULL : __libc_memalign(alignment, size);

	if (!got)
		return ENOMEM;
	*to = got;
	return 0;
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
							  const pthread_attr_t *attributes,
							  void *(*run)(void *), void *argument)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	long why = atomic_load(&orders->thread);

	if (!real)
		real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
				void *))dlsym(RTLD_NEXT, "pthread_create");
	return why != 0 ? (int)why : real(thread, attributes, run, argument);
}
