/* SPDX-License-Identifier: MIT */
/*
 * Reads that are compared with the sums in the log. Knows descriptors and sums, no names.
 */
#include "table/verify.h"

#include <errno.h>
#include <string.h>

#include "sys.h"
#include "util/crc32c.h"
#include "util/util.h"

/* What is read at once: it is summed while it is still in the processor's cache. */
#define SLICE ((size_t)256 << 10)

/*
 * File systems date changes by a clock that ticks every few milliseconds. What is found right
 * within this time of a change might be changed once more without another date: so it is not
 * remembered.
 */
#define TICK_NS INT64_C(40000000)

tdl__identity tdl__identity_of(const struct stat *st)
{
	return (tdl__identity){ st->st_dev, st->st_ino, st->st_size, st->st_mtim, st->st_ctim };
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool tdl__identity_same(const tdl__identity *a, const tdl__identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       is_same_time(&a->modified, &b->modified) && is_same_time(&a->changed, &b->changed);
}

/* Whether a file that was changed now might show the same identity. */
static bool is_fresh(const tdl__identity *identity)
{
	struct timespec now;
	int64_t seconds, age;

	clock_gettime(CLOCK_REALTIME, &now);
	seconds = (int64_t)now.tv_sec - identity->changed.tv_sec;
	if (seconds < -1 || seconds > 1)
		return false;
	age = seconds * 1000000000 + now.tv_nsec - identity->changed.tv_nsec;
	return age > -TICK_NS && age < TICK_NS;
}

/* ---- Memory -------------------------------------------------------------------------------- */

void tdl__spares_init(tdl__spares *spares)
{
	*spares = (tdl__spares){ 0 };
	pthread_mutex_init(&spares->lock, NULL);
}

void tdl__spares_free(tdl__spares *spares)
{
	while (spares->count > 0)
		free(spares->buffers[--spares->count]);
	pthread_mutex_destroy(&spares->lock);
}

static void *get_spare(tdl__spares *spares)
{
	void *buffer = NULL;

	pthread_mutex_lock(&spares->lock);
	if (spares->count > 0)
		buffer = spares->buffers[--spares->count];
	pthread_mutex_unlock(&spares->lock);
	return buffer ? buffer : malloc(SLICE);
}

static void put_spare(tdl__spares *spares, void *buffer)
{
	pthread_mutex_lock(&spares->lock);
	if (spares->count < sizeof spares->buffers / sizeof *spares->buffers) {
		spares->buffers[spares->count++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&spares->lock);
	free(buffer);
}

/* ---- Blocks -------------------------------------------------------------------------------- */

static uint64_t block_size(const tdl__verify *verify)
{
	return verify->sums.blocks || verify->size == 0 ? TDL__BLOCK : verify->size;
}

static uint64_t block_count(const tdl__verify *verify)
{
	uint64_t size = block_size(verify);

	return verify->size / size + (verify->size % size != 0);
}

uint64_t tdl__verify_length(const tdl__verify *verify, uint64_t offset)
{
	uint64_t left = verify->size - offset, size = block_size(verify);

	return left < size ? left : size;
}

bool tdl__verify_init(tdl__verify *verify, tdl__spares *spares, uint64_t size,
		      const tdl__sums *sums, const struct stat *st, bool all)
{
	uint64_t count;

	*verify = (tdl__verify){
		.spares = spares, .size = size, .sums = *sums, .was = tdl__identity_of(st)
	};
	count = block_count(verify);
	verify->checked = calloc((size_t)(count / 64 + 1), sizeof *verify->checked);
	if (!verify->checked)
		return false;
	if (all)
		memset(verify->checked, 0xff, (size_t)(count / 64 + 1) * sizeof *verify->checked);
	else
		verify->left = count;
	pthread_mutex_init(&verify->lock, NULL);
	pthread_cond_init(&verify->idle, NULL);
	return true;
}

void tdl__verify_clear(tdl__verify *verify)
{
	if (!verify->checked)
		return;
	pthread_cond_destroy(&verify->idle);
	pthread_mutex_destroy(&verify->lock);
	free(verify->checked);
	verify->checked = NULL;
}

/* With the lock held. */
static bool is_checked(const tdl__verify *verify, uint64_t block)
{
	return (verify->checked[block / 64] >> block % 64 & 1) != 0;
}

/* How many blocks from `first` to `last` were compared already, or how many were not, whichever
 * the first one is. */
static uint64_t run_of(tdl__verify *verify, uint64_t first, uint64_t last, bool *checked)
{
	uint64_t at = first;

	pthread_mutex_lock(&verify->lock);
	*checked = is_checked(verify, first);
	while (at <= last && is_checked(verify, at) == *checked)
		at++;
	pthread_mutex_unlock(&verify->lock);
	return at - first;
}

/* Remembers that a block was right while the file was what it has been since it was *was. */
static void remember_block(tdl__verify *verify, uint64_t block, const tdl__identity *was)
{
	if (is_fresh(was))
		return;
	pthread_mutex_lock(&verify->lock);
	if (tdl__identity_same(&verify->was, was) && !is_checked(verify, block)) {
		verify->checked[block / 64] |= UINT64_C(1) << block % 64;
		verify->left--;
	}
	pthread_mutex_unlock(&verify->lock);
}

/* Takes note of what the file is now, and returns whether that is what it was. */
static bool must_recheck(tdl__verify *verify, const tdl__identity *was, const tdl__identity *now)
{
	uint64_t count = block_count(verify);

	pthread_mutex_lock(&verify->lock);
	if (!tdl__identity_same(&verify->was, now)) {
		verify->was = *now;
		verify->left = count;
		memset(verify->checked, 0, (size_t)(count / 64 + 1) * sizeof *verify->checked);
	}
	pthread_mutex_unlock(&verify->lock);
	return tdl__identity_same(was, now);
}

static tdl__identity identity(tdl__verify *verify)
{
	tdl__identity was;

	pthread_mutex_lock(&verify->lock);
	was = verify->was;
	pthread_mutex_unlock(&verify->lock);
	return was;
}

static int identify(tdl__verify *verify, int fd, tdl__identity *now)
{
	struct stat st;
	int err = tdl__sys_fstat(fd, &st);

	if (err != 0)
		return err;
	*now = tdl__identity_of(&st);
	return (uint64_t)now->size == verify->size ? 0 : TDL__VERIFY_CHANGED;
}

static int read_exactly(int fd, void *buffer, size_t n, uint64_t offset)
{
	size_t got;
	int err = tdl__sys_pread(fd, buffer, n, offset, &got);

	return err != 0 ? err : got == n ? 0 : TDL__VERIFY_CHANGED;
}

/* A stretch of a file that is wanted, and where. */
struct wanted {
	char *out;
	uint64_t from, to;
};

/* Reads a block and compares it. The part of it that is wanted is what was compared, and is not
 * right before this returns 0. `apart` is for the rest. */
static int compare_block(const tdl__verify *verify, int fd, uint64_t block,
			 const struct wanted *wanted, char *apart)
{
	uint64_t at = block * block_size(verify), end = at + tdl__verify_length(verify, at);
	uint32_t sum = verify->sums.blocks ? verify->sums.blocks[block] : verify->sums.crc;
	uint32_t crc = 0;

	while (at < end) {
		uint64_t stop = end - at < SLICE ? end : at + SLICE;
		char *slice = apart;
		int err;

		/* Up to and from what is wanted, so that this needs no copy. */
		if (at < wanted->from && wanted->from < stop)
			stop = wanted->from;
		else if (at < wanted->to && wanted->to < stop)
			stop = wanted->to;
		if (at >= wanted->from && stop <= wanted->to)
			slice = wanted->out + (at - wanted->from);
		err = read_exactly(fd, slice, (size_t)(stop - at), at);
		if (err != 0)
			return err;
		crc = tdl__crc32c(crc, slice, (size_t)(stop - at));
		at = stop;
	}
	return crc == sum ? 0 : TDL__VERIFY_WRONG;
}

static int check_block(const tdl__verify *verify, int fd, uint64_t block,
		       const struct wanted *wanted)
{
	uint64_t at = block * block_size(verify), end = at + tdl__verify_length(verify, at);
	char *apart = NULL;
	int err;

	if ((at < wanted->from || end > wanted->to) && !(apart = get_spare(verify->spares)))
		return ENOMEM;
	err = compare_block(verify, fd, block, wanted, apart);
	if (apart)
		put_spare(verify->spares, apart);
	return err;
}

/* With the lock held. */
static unsigned find_busy(const tdl__verify *verify, uint64_t block)
{
	unsigned at = 0;

	while (at < verify->busy_count && verify->busy[at] != block)
		at++;
	return at;
}

/* The kernel's requests go across blocks, and come at the same time: so each block is compared by
 * one thread, for whom the others wait. False: another one has done it. */
static bool begin_block(tdl__verify *verify, uint64_t block)
{
	bool waited = false, needed;

	pthread_mutex_lock(&verify->lock);
	while (find_busy(verify, block) < verify->busy_count) {
		pthread_cond_wait(&verify->idle, &verify->lock);
		waited = true;
	}
	needed = !waited || !is_checked(verify, block);
	if (needed && verify->busy_count < TDL__BUSY_MAX)
		verify->busy[verify->busy_count++] = block;
	pthread_mutex_unlock(&verify->lock);
	return needed;
}

static void end_compared_block(tdl__verify *verify, uint64_t block)
{
	unsigned at;

	pthread_mutex_lock(&verify->lock);
	at = find_busy(verify, block);
	if (at < verify->busy_count)
		verify->busy[at] = verify->busy[--verify->busy_count];
	pthread_cond_broadcast(&verify->idle);
	pthread_mutex_unlock(&verify->lock);
}

/* Compares a block, and remembers it. *done is false where another thread did it instead. */
static int check_once(tdl__verify *verify, int fd, uint64_t block, const struct wanted *wanted,
		      bool *done, uint64_t *wrong)
{
	tdl__identity was = identity(verify), now;
	int err;

	*done = begin_block(verify, block);
	if (!*done)
		return 0;
	err = check_block(verify, fd, block, wanted);
	if (err == TDL__VERIFY_WRONG)
		*wrong = block * block_size(verify);
	if (err == 0)
		err = identify(verify, fd, &now);
	if (err == 0 && must_recheck(verify, &was, &now))
		remember_block(verify, block, &was);
	end_compared_block(verify, block);
	return err;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads what was compared before, as far as it is trusted; *trusted says whether any was. */
static int read_once(tdl__verify *verify, int fd, const struct wanted *wanted, bool trust,
		     bool *trusted, uint64_t *wrong)
{
	uint64_t size = block_size(verify), last = (wanted->to - 1) / size;

	*trusted = false;
	for (uint64_t block = wanted->from / size; block <= last;) {
		bool checked, done;
		uint64_t run = run_of(verify, block, last, &checked);
		uint64_t from = block * size > wanted->from ? block * size : wanted->from;
		uint64_t to = last - block < run ? wanted->to : (block + run) * size;
		int err;

		if (checked && trust) {
			*trusted = true;
			err = read_exactly(fd, wanted->out + (from - wanted->from),
					   (size_t)(to - from), from);
			block += run;
		} else {
			err = check_once(verify, fd, block, wanted, &done, wrong);
			/* Now that it is right it can be read. */
			block += done ? 1 : 0;
			trust = trust || !done;
		}
		if (err != 0)
			return err;
	}
	return 0;
}

int tdl__verify_read(tdl__verify *verify, int fd, void *buffer, size_t n, uint64_t offset,
		     uint64_t *wrong)
{
	struct wanted wanted = { buffer, offset, offset + n };

	for (bool trust = true;; trust = false) {
		tdl__identity was = identity(verify), now;
		bool trusted;
		int err = read_once(verify, fd, &wanted, trust, &trusted, wrong);

		if (err == 0 && trusted)
			err = identify(verify, fd, &now);
		/* What was not compared just now is right only if the file is what it was then. */
		if (err != 0 || !trusted || must_recheck(verify, &was, &now))
			return err;
	}
}

int tdl__verify_all(tdl__verify *verify, int fd, uint64_t limit, bool *done, tdl__identity *was,
		    uint64_t *wrong)
{
	const struct wanted nothing = { NULL, UINT64_MAX, UINT64_MAX };
	uint64_t count = block_count(verify);

	for (int tries = 0; tries < 3; tries++) {
		tdl__identity now;
		bool too_much;
		int err;

		pthread_mutex_lock(&verify->lock);
		*was = verify->was;
		too_much = verify->left > 0 && verify->left > limit / block_size(verify) &&
			   verify->size > limit;
		pthread_mutex_unlock(&verify->lock);
		if (too_much) {
			*done = false;
			return 0;
		}
		for (uint64_t block = 0; block < count; block++) {
			bool checked, did;

			run_of(verify, block, block, &checked);
			err = checked ? 0 : check_once(verify, fd, block, &nothing, &did, wrong);
			if (err != 0)
				return err;
		}
		err = identify(verify, fd, &now);
		if (err != 0)
			return err;
		*done = must_recheck(verify, was, &now);
		if (*done)
			return 0;
	}
	return TDL__VERIFY_CHANGED;
}

bool tdl__verify_is_done(tdl__verify *verify, tdl__identity *what)
{
	bool done;

	if (!verify->checked)
		return false;
	pthread_mutex_lock(&verify->lock);
	done = verify->left == 0;
	*what = verify->was;
	pthread_mutex_unlock(&verify->lock);
	return done;
}
