/* SPDX-License-Identifier: MIT */
/*
 * The commit log on disk: which names are versions, and how a commit's file is read. Does not
 * replay, and does not publish.
 */
#include "log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "util/crc32c.h"

/* Limits against a hostile log; both are far above what writers make. */
#define LINE_MAX_BYTES ((size_t)64 << 20)
#define FILE_MAX_BYTES ((int64_t)4 << 30)

void tdl__log_name(char out[TDL__LOG_NAME_MAX], int64_t version)
{
	uint64_t rest = (uint64_t)version;

	/* By hand: replaying a million commits, snprintf() alone would take a tenth of the time. */
	for (int i = 19; i >= 0; i--, rest /= 10)
		out[i] = (char)('0' + rest % 10);
	memcpy(out + 20, ".json", sizeof ".json");
}

static bool digits(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
	}
	return true;
}

int64_t tdl__log_version(const char *name)
{
	uint64_t version = 0;

	if (strlen(name) != 25 || !digits(name, 20) || strcmp(name + 20, ".json") != 0)
		return TDL__NO_VERSION;
	for (int i = 0; i < 20; i++) {
		uint64_t digit = (uint64_t)(name[i] - '0');

		/* Versions above this are never made; and head + 2^k must not overflow. */
		if (version > (UINT64_C(1) << 62) / 10)
			return TDL__FAR_VERSION;
		version = version * 10 + digit;
	}
	return version > UINT64_C(1) << 62 ? TDL__FAR_VERSION : (int64_t)version;
}

void tdl__log_temp_name(char out[TDL__LOG_TEMP_MAX], int64_t version)
{
	char hex[TDL__HEX_MAX];

	tdl__random_hex(hex);
	snprintf(out, TDL__LOG_TEMP_MAX, ".%020" PRId64 ".%s.tmp", version, hex);
}

bool tdl__log_is_temp(const char *name)
{
	uint8_t id[16];

	return strlen(name) == 58 && name[0] == '.' && digits(name + 1, 20) && name[21] == '.' &&
	       tdl__unhex(id, name + 22) && strcmp(name + 54, ".tmp") == 0;
}

/* Puts table, file and line before what is wrong with a commit. */
static int damaged(const tdl__log *log, int64_t version, uint64_t line, const tdl_error *why,
		   tdl_error *error)
{
	char name[TDL__LOG_NAME_MAX];

	tdl__log_name(name, version);
	if (why->code == TDL_ERR_NOMEM)
		return tdl__fail_nomem(error);
	if (line == 0)
		return tdl__fail_at(error, TDL_ERR_CORRUPT, version, 0, 0,
				    "version %" PRId64 " is damaged: %s/" TDL__LOG_DIR "/%s: %s",
				    version, log->table, name, why->message);
	return tdl__fail_at(error, TDL_ERR_CORRUPT, version, line, why->column,
			    "version %" PRId64 " is damaged: %s/" TDL__LOG_DIR "/%s:%" PRIu64
			    ": %s",
			    version, log->table, name, line, why->message);
}

static int damaged_file(const tdl__log *log, int64_t version, const char *what, tdl_error *error)
{
	tdl_error why;

	tdl__fail(&why, TDL_ERR_CORRUPT, "%s", what);
	return damaged(log, version, 0, &why, error);
}

uint32_t tdl__log_stamp(const struct stat *st)
{
	const uint64_t all[] = {
		(uint64_t)st->st_ino,	      (uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec,
	};

	return tdl__crc32c(0, all, sizeof all);
}

static int open_commit(const tdl__log *log, int64_t version, int *fd, struct stat *stat,
		       tdl_error *error)
{
	int got CLEANUP(tdl__close_at) = -1;
	char name[TDL__LOG_NAME_MAX];
	struct stat st;
	int err;

	tdl__log_name(name, version);
	err = tdl__sys_open_beneath(log->dir, name, &got, &st);
	if (err == ENOENT)
		return tdl__fail_at(error, TDL_ERR_NOT_FOUND, version, 0, 0,
				    "%s has no version %" PRId64, log->table, version);
	if (err == ELOOP || err == EXDEV || err == ENXIO || err == ENODEV)
		return damaged_file(log, version, "is not a regular file", error);
	if (err != 0) {
		int r = tdl__fail_errno(error, err, "cannot read %s/" TDL__LOG_DIR "/%s",
					log->table, name);

		if (error)
			error->version = version;
		return r;
	}
	if (!S_ISREG(st.st_mode))
		return damaged_file(log, version, "is not a regular file", error);
	if (st.st_size > FILE_MAX_BYTES)
		return damaged_file(log, version, "is larger than 4 GiB", error);
	if (st.st_size == 0)
		return damaged_file(log, version, "is empty", error);
	*fd = tdl__steal_fd(&got);
	*stat = st;
	return 0;
}

/* Called for each line, without its newline; negative stops. `first` as in tdl__commit_line(). */
typedef int each_line(void *context, tdl__span line, bool first, tdl_error *error);

/* Counts. */
struct sums {
	uint64_t lines;	   /* that follow the first */
	uint32_t crc;	   /* over what a promise covers: those, and what it says of the first */
	uint32_t file_crc; /* over all */
	bool ended;	   /* the last line by a newline */
	struct stat st;
};

static void add_to_sums(struct sums *sums, const char *line, size_t n, bool first, bool ended)
{
	sums->file_crc = tdl__crc32c(sums->file_crc, line, n);
	sums->ended = ended;
	if (!first) {
		sums->lines++;
		sums->crc = tdl__crc32c(sums->crc, line, n);
	}
}

static int read_lines(const tdl__log *log, int64_t version, each_line *each, void *context,
		      struct sums *sums, tdl_error *error)
{
	char *buffer CLEANUP(tdl__free_at) = NULL;
	int fd CLEANUP(tdl__close_at) = -1;
	size_t cap = 0, start = 0, end = 0;
	uint64_t line = 0;
	bool eof = false;
	char stack[4096];
	char *at = stack;
	uint64_t size, total = 0;
	int r = open_commit(log, version, &fd, &sums->st, error);

	if (r < 0)
		return r;
	size = (uint64_t)sums->st.st_size;
	/* Most commits fit the stack, and then need no allocation. */
	cap = sizeof stack;
	for (;;) {
		char *newline = memchr(at + start, '\n', end - start);
		size_t next;
		tdl_error why;

		if (!newline && !eof) {
			size_t got, kept = end - start, room;

			if (start > 0) {
				memmove(at, at + start, kept);
				start = 0;
				end = kept;
			}
			if (kept == cap) {
				size_t grown = !buffer ? 0 : cap;

				if (cap >= LINE_MAX_BYTES)
					return damaged_file(log, version,
							    "has a line longer than 64 MiB", error);
				if (!tdl__reserve(&buffer, &grown, 2 * cap, 1))
					return tdl__fail_nomem(error);
				if (at == stack)
					memcpy(buffer, stack, kept);
				at = buffer;
				cap = grown;
			}
			/* A commit never grows: asking for no more than its size saves a read for
			 * its end. */
			room = size - total < cap - end ? (size_t)(size - total) : cap - end;
			r = tdl__sys_read(fd, at + end, room, &got);
			if (r != 0)
				return tdl__fail_errno(error, r,
						       "cannot read version %" PRId64 " of %s",
						       version, log->table);
			total += got;
			eof = got < room || total == size;
			end += got;
			continue;
		}
		if (!newline && start == end)
			return 0;
		next = newline ? (size_t)(newline - at) + 1 : end;
		line++;
		add_to_sums(sums, at + start, next - start, line == 1, newline != NULL);
		r = each(context, (tdl__span){ at + start, next - start - (newline ? 1 : 0) },
			 line == 1, &why);
		if (r < 0)
			return damaged(log, version, line, &why, error);
		start = next;
	}
}

/* A commit that is being read. */
struct reading {
	tdl__commit *commit;
	struct sums sums;
};

static int add_line(void *context, tdl__span line, bool first, tdl_error *error)
{
	struct reading *reading = context;
	int r = tdl__commit_line(reading->commit, line, first, error);

	if (first && reading->commit->covered > 0)
		reading->sums.crc = tdl__crc32c(0, line.p, reading->commit->covered);
	return r;
}

/* What is wrong with the whole of a commit, or NULL. */
static const char *wrong_as_a_whole(int64_t version, const struct reading *reading)
{
	const tdl__commit *commit = reading->commit;
	const struct sums *sums = &reading->sums;

	if (!commit->has_info)
		return "has no commitInfo";
	if (commit->checked &&
	    (commit->promised_lines != sums->lines || commit->promised_crc != sums->crc ||
	     (commit->covered > 0 && !sums->ended)))
		return "is not what its checksum says";
	/* What this library writes is built on the version before: anything else is the commit of
	 * another version under this one's name. */
	if ((commit->ours && commit->read_version != version - 1) ||
	    (commit->chained && (commit->previous < 0) != (version == 0)))
		return "is the commit of another version";
	return NULL;
}

int tdl__log_read(const tdl__log *log, int64_t version, tdl__commit *commit, tdl_error *error)
{
	struct reading reading = { .commit = commit };
	const char *wrong;
	int r = read_lines(log, version, add_line, &reading, &reading.sums, error);

	if (r < 0)
		return r;
	wrong = wrong_as_a_whole(version, &reading);
	if (wrong)
		return damaged_file(log, version, wrong, error);
	commit->file_crc = reading.sums.file_crc;
	commit->stamp = tdl__log_stamp(&reading.sums.st);
	return 0;
}

int tdl__log_check(int64_t version, const char *text, size_t n, tdl__commit *commit,
		   tdl_error *error)
{
	struct reading reading = { .commit = commit };
	const char *wrong = n > (uint64_t)FILE_MAX_BYTES ? "is larger than 4 GiB" : NULL;
	uint64_t line = 0;

	for (size_t at = 0; at < n && !wrong;) {
		const char *newline = memchr(text + at, '\n', n - at);
		size_t next = newline ? (size_t)(newline - text) + 1 : n;
		size_t length = next - at - (newline ? 1 : 0);

		if (length >= LINE_MAX_BYTES) {
			wrong = "has a line longer than 64 MiB";
		} else {
			int r = add_line(&reading, (tdl__span){ text + at, length }, ++line == 1,
					 error);

			if (r < 0)
				return r;
			add_to_sums(&reading.sums, text + at, next - at, line == 1,
				    newline != NULL);
		}
		at = next;
	}
	if (!wrong)
		wrong = wrong_as_a_whole(version, &reading);
	return !wrong ? 0 : tdl__fail(error, TDL_ERR_CORRUPT, "it %s", wrong);
}

static int crc_of_file(int fd, uint32_t *crc)
{
	char buffer[16384];
	size_t got;

	*crc = 0;
	do {
		int err = tdl__sys_read(fd, buffer, sizeof buffer, &got);

		if (err != 0)
			return err;
		*crc = tdl__crc32c(*crc, buffer, got);
	} while (got == sizeof buffer);
	return 0;
}

int tdl__log_compare(const tdl__log *log, int64_t version, uint32_t crc, bool content,
		     uint32_t *stamp, tdl_error *error)
{
	int fd CLEANUP(tdl__close_at) = -1;
	char name[TDL__LOG_NAME_MAX];
	struct stat st;
	uint32_t now;
	int err, r;

	tdl__log_name(name, version);
	if (!content) {
		err = tdl__sys_stat(log->dir, name, &st);
		if (err == ENOENT)
			return 0;
		if (err == 0 && tdl__log_stamp(&st) == *stamp)
			return 1;
	}
	r = open_commit(log, version, &fd, &st, error);
	if (r == TDL_ERR_NOT_FOUND || r == TDL_ERR_CORRUPT)
		return 0;
	if (r < 0)
		return r;
	err = crc_of_file(fd, &now);
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot read %s/" TDL__LOG_DIR "/%s", log->table,
				       name);
	if (now != crc)
		return 0;
	*stamp = tdl__log_stamp(&st);
	return 1;
}

struct info {
	char *text;
	size_t length;
};

static int keep_info(void *context, tdl__span line, bool first, tdl_error *error)
{
	struct info *info = context;
	tdl__span value;
	char *copy;
	size_t at;

	if (!tdl__json_valid(line, 128, &at) || !tdl__json_member(line, "commitInfo", &value))
		return 0;
	copy = malloc(value.n + 1);
	if (!copy)
		return tdl__fail_nomem(error);
	memcpy(copy, value.p, value.n);
	copy[value.n] = '\0';
	free(info->text);
	info->text = copy;
	info->length = value.n;
	return 0;
}

int tdl__log_read_info(const tdl__log *log, int64_t version, uint32_t crc, char **text,
		       size_t *length, tdl_error *error)
{
	struct info info = { 0 };
	struct sums sums = { 0 };
	int r = read_lines(log, version, keep_info, &info, &sums, error);

	if (r == 0 && sums.file_crc != crc)
		r = damaged_file(log, version, "is not what it was", error);
	if (r == 0 && !info.text)
		r = damaged_file(log, version, "has no commitInfo", error);
	if (r < 0) {
		free(info.text);
		return r;
	}
	*text = info.text;
	*length = info.length;
	return 0;
}

int tdl__log_probe(const tdl__log *log, int64_t version, bool *there, tdl_error *error)
{
	char name[TDL__LOG_NAME_MAX];
	struct stat st;
	int err;

	*there = false;
	tdl__log_name(name, version);
	err = tdl__sys_stat(log->dir, name, &st);
	if (err != 0 && err != ENOENT)
		return tdl__fail_errno(error, err, "cannot look for %s/" TDL__LOG_DIR "/%s",
				       log->table, name);
	*there = err == 0;
	return 0;
}

bool tdl__log_is_there(const tdl__log *log, int64_t version)
{
	bool there;

	return tdl__log_probe(log, version, &there, NULL) == 0 && there;
}

bool tdl__log_exists(const tdl__log *log, int64_t version)
{
	bool there = true;

	tdl__log_probe(log, version, &there, NULL);
	return there;
}

struct listing {
	int64_t above;
	int64_t *versions;
	size_t count, cap;
	bool far, failed;
};

static bool list_one(void *context, const char *name)
{
	struct listing *listing = context;
	int64_t version = tdl__log_version(name);

	if (version == TDL__FAR_VERSION)
		listing->far = true;
	if (version < 0 || version <= listing->above)
		return true;
	if (!tdl__reserve(&listing->versions, &listing->cap, listing->count + 1, sizeof version)) {
		listing->failed = true;
		return false;
	}
	listing->versions[listing->count++] = version;
	return true;
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

int tdl__log_list(const tdl__log *log, int64_t above, int64_t **versions, size_t *count, bool *far,
		  tdl_error *error)
{
	struct listing listing = { .above = above };
	int err = tdl__sys_list(log->dir, list_one, &listing);

	if (err != 0 || listing.failed) {
		free(listing.versions);
		return err == 0 ? tdl__fail_nomem(error)
				: tdl__fail_errno(error, err, "cannot list %s/" TDL__LOG_DIR,
						  log->table);
	}
	if (listing.count > 1)
		qsort(listing.versions, listing.count, sizeof *listing.versions, by_number);
	*versions = listing.versions;
	*count = listing.count;
	*far = listing.far;
	return 0;
}

int tdl__log_probe_past_gap(const tdl__log *log, int64_t head, unsigned *turn, int64_t *found,
			    tdl_error *error)
{
	/* 2, 3, 4, 8, 16, ... 2^40 beyond the head. */
	const unsigned near = 3, all = 41;
	unsigned only = turn ? near + (*turn)++ % (all - near) : 0;

	for (unsigned i = 0; i < all; i++) {
		int64_t far = i < near ? i + 2 : INT64_C(1) << i;
		bool there;
		int r;

		if (i >= near && turn && i != only)
			continue;
		r = tdl__log_probe(log, head + far, &there, error);
		if (r < 0)
			return r;
		if (there) {
			*found = head + far;
			return 0;
		}
	}
	*found = -1;
	return 0;
}
