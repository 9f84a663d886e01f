/* SPDX-License-Identifier: MIT */
/*
 * The history's file: written from its arrays, read back into them, and every number in it
 * checked before one is used. When to write or read it is for the table to say.
 */
#include "log/index.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "log/replay.h"
#include "row/schema.h"
#include "sys.h"
#include "util/buf.h"
#include "util/crc32c.h"
#include "util/hash.h"

/* About 45 million versions. More than that is replayed. */
#define INDEX_MAX ((uint64_t)4 << 30)
#define FORMAT	  4u

struct header {
	char magic[8];
	uint32_t format;
	uint32_t order; /* 0x01020304 in the writer's byte order */
	char table_id[64];
	uint64_t versions, lists, files, no_eol, named;
	uint64_t operations, metas, text;
	uint64_t blocks, numbers;	/* files with checksums of blocks, and those */
	uint64_t log_device, log_inode; /* of the log's folder */
	uint32_t body_crc;
	uint8_t zero[72];
	uint32_t header_crc; /* of all before it */
};

_Static_assert(sizeof(struct header) == 256, "the header has a size of its own");
_Static_assert(sizeof(tdl__version) == 48 && sizeof(tdl__list) == 16, "written as they are");

static const char magic[8] = { 't', 'd', 'l', 'i', 'd', 'x', '\r', '\n' };

/* ---- What both ways need ------------------------------------------------------------------- */

/* One stretch of the file: where it is in memory. */
struct section {
	void *p;
	uint64_t bytes;
};

enum {
	SECTIONS = 12
};

/* What the history does not have in the form it is written in. */
struct apart {
	uint64_t *named; /* the named files' indexes */
	uint64_t named_count;
	uint64_t *blocks; /* two numbers for each file that has checksums of blocks */
	uint64_t block_count;
	uint32_t *numbers; /* of all blocks */
	uint64_t number_count;
	tdl__text text;
};

static void free_apart(struct apart *apart)
{
	free(apart->named);
	free(apart->blocks);
	free(apart->numbers);
	tdl__text_free(&apart->text);
}

/* The stretches behind the header, in order. */
static void sections(const tdl__history *history, const struct apart *apart,
		     struct section out[SECTIONS])
{
	const tdl__filelist *files = &history->files;
	uint64_t n = files->count;

	out[0] = (struct section){ history->versions, history->count * sizeof(tdl__version) };
	out[1] = (struct section){ files->lists, files->list_count * sizeof(tdl__list) };
	out[2] = (struct section){ files->ids, n * 16 };
	out[3] = (struct section){ files->ends, n * 8 };
	out[4] = (struct section){ files->records, n * 8 };
	out[5] = (struct section){ files->crcs, n * 4 };
	out[6] = (struct section){ files->flags, n };
	out[7] = (struct section){ files->no_eol, files->no_eol_count * 8 };
	out[8] = (struct section){ apart->named, apart->named_count * 8 };
	out[9] = (struct section){ apart->blocks, apart->block_count * 16 };
	out[10] = (struct section){ apart->numbers, apart->number_count * 4 };
	out[11] = (struct section){ apart->text.p, apart->text.n };
}

static const char *id_of(const tdl__history *history, uint32_t meta)
{
	return history->metas[meta]->table_id;
}

bool tdl__index_is_temp(const char *name)
{
	uint8_t id[16];

	return strlen(name) == 37 && name[0] == '.' && tdl__unhex(id, name + 1) &&
	       strcmp(name + 33, ".idx") == 0;
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void add_text(tdl__text *text, const char *string)
{
	tdl__text_add(text, string, strlen(string) + 1);
}

static void make_index_text(const tdl__history *history, tdl__text *text)
{
	for (size_t i = 0; i < history->files.named_count; i++)
		add_text(text, history->files.named[i].path);
	for (size_t i = 0; i < history->operation_count; i++)
		add_text(text, history->operations[i]);
	for (size_t i = 0; i < history->meta_count; i++) {
		const tdl__meta *meta = history->metas[i];

		if (meta->schema)
			tdl__action_metadata(text, meta->table_id, meta->schema);
		else
			tdl__text_add(text, "\n", 1);
	}
}

static bool write_sections(int fd, const struct header *header, const struct section *all)
{
	if (tdl__sys_write(fd, header, sizeof *header) != 0)
		return false;
	for (int i = 0; i < SECTIONS; i++) {
		if (tdl__sys_write(fd, all[i].p, all[i].bytes) != 0)
			return false;
	}
	return true;
}

static bool set_apart(const tdl__history *history, struct apart *apart)
{
	const tdl__filelist *files = &history->files;

	apart->named_count = files->named_count;
	apart->block_count = files->block_count;
	apart->number_count = files->number_count;
	apart->named = calloc(files->named_count + 1, sizeof *apart->named);
	apart->blocks = calloc(files->block_count + 1, 2 * sizeof *apart->blocks);
	apart->numbers = calloc(files->number_count + 1, sizeof *apart->numbers);
	if (!apart->named || !apart->blocks || !apart->numbers)
		return false;
	for (size_t i = 0; i < files->named_count; i++)
		apart->named[i] = files->named[i].index;
	tdl__filelist_save_blocks(files, apart->blocks, apart->numbers);
	make_index_text(history, &apart->text);
	return !apart->text.failed;
}

/* With the read lock held. */
static bool write_index(tdl__history *history, int fd)
{
	struct apart apart CLEANUP(free_apart) = { 0 };
	struct header header = {
		.format = FORMAT,
		.order = 0x01020304,
		.versions = history->count,
		.lists = history->files.list_count,
		.files = history->files.count,
		.no_eol = history->files.no_eol_count,
		.named = history->files.named_count,
		.operations = history->operation_count,
		.metas = history->meta_count,
		.blocks = history->files.block_count,
		.numbers = history->files.number_count,
	};
	struct section all[SECTIONS];
	const char *id;
	struct stat st;

	/* What was shown and is not in the log any more, or what is not known to be, is not for
	 * others. */
	if (history->count == 0 || history->rewritten || !set_apart(history, &apart))
		return false;
	id = id_of(history, history->versions[0].meta);
	if (strlen(id) >= sizeof header.table_id || tdl__sys_fstat(history->log.dir, &st) != 0)
		return false;
	header.log_device = st.st_dev;
	header.log_inode = st.st_ino;
	memcpy(header.magic, magic, sizeof magic);
	memcpy(header.table_id, id, strlen(id));
	header.text = apart.text.n;
	sections(history, &apart, all);
	for (int i = 0; i < SECTIONS; i++)
		header.body_crc = tdl__crc32c(header.body_crc, all[i].p, all[i].bytes);
	header.header_crc = tdl__crc32c(0, &header, offsetof(struct header, header_crc));
	return write_sections(fd, &header, all);
}

bool tdl__index_save(tdl__history *history, int dir, const char *name)
{
	int fd CLEANUP(tdl__close_at) = -1;
	char hex[TDL__HEX_MAX], temp[64];
	struct stat st;
	bool done;

	tdl__random_hex(hex);
	snprintf(temp, sizeof temp, ".%s.idx", hex);
	if (tdl__sys_fstat(dir, &st) != 0 ||
	    tdl__sys_open(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &fd) != 0)
		return false;
	pthread_rwlock_rdlock(&history->lock);
	done = write_index(history, fd);
	pthread_rwlock_unlock(&history->lock);
	/* Whoever may read the log may use it. No fsync: what a crash leaves of it is found out. */
	if (geteuid() == 0)
		tdl__sys_chown(fd, st.st_uid, st.st_gid);
	done = done && tdl__sys_chmod(fd, (st.st_mode & 0444) | 0600) == 0 &&
	       tdl__sys_rename(dir, temp, dir, name, true) == 0;
	if (!done)
		tdl__sys_unlink(dir, temp);
	return done;
}

/* ---- Reading ------------------------------------------------------------------------------- */

static bool read_header(int fd, const struct stat *st, struct header *header)
{
	uint64_t size = (uint64_t)st->st_size, need = sizeof *header;
	size_t got;

	/* With fewer blocks than bytes it is not what anybody wrote, and could take up memory that
	 * it does not take on the disk; a file system that packs files makes them less small. */
	if (!S_ISREG(st->st_mode) || size > INDEX_MAX ||
	    (size > 65536 && (uint64_t)st->st_blocks * 512 < size / 8) ||
	    tdl__sys_has_hole(fd, size) || tdl__sys_read(fd, header, sizeof *header, &got) != 0 ||
	    got != sizeof *header)
		return false;
	if (memcmp(header->magic, magic, sizeof magic) != 0 || header->format != FORMAT ||
	    header->order != 0x01020304 ||
	    header->header_crc != tdl__crc32c(0, header, offsetof(struct header, header_crc)) ||
	    header->table_id[sizeof header->table_id - 1] != '\0')
		return false;
	/* No count can overflow a product once it is bounded by the file's size. */
	if (header->versions == 0 || header->versions > size || header->lists == 0 ||
	    header->lists > size || header->files > size || header->no_eol > size ||
	    header->named > size || header->operations > size || header->metas == 0 ||
	    header->metas > size || header->text > size || header->blocks > size ||
	    header->numbers > size)
		return false;
	need += header->versions * sizeof(tdl__version) + header->lists * 16 + header->files * 37 +
		header->no_eol * 8 + header->named * 8 + header->blocks * 16 + header->numbers * 4 +
		header->text;
	return need == size;
}

/* Gives an array (which may have memory already, and keeps it on failure) room for `count`. */
static bool allocate(void *array, size_t *cap, uint64_t count, size_t size)
{
	void **at = array, *got;

	if (count == 0)
		return true;
	got = reallocarray(*at, count, size);
	if (!got)
		return false;
	*at = got;
	*cap = (size_t)count;
	return true;
}

static bool read_body(int fd, const struct header *header, tdl__history *history,
		      struct apart *apart)
{
	tdl__filelist *files = &history->files;
	struct section all[SECTIONS];
	size_t cap;
	uint32_t crc = 0;

	if (!allocate(&history->versions, &history->cap, header->versions, sizeof(tdl__version)) ||
	    !allocate(&files->lists, &files->list_cap, header->lists, 16) ||
	    !allocate(&files->ids, &files->ids_cap, header->files, 16) ||
	    !allocate(&files->ends, &files->ends_cap, header->files, 8) ||
	    !allocate(&files->records, &files->records_cap, header->files, 8) ||
	    !allocate(&files->crcs, &files->crcs_cap, header->files, 4) ||
	    !allocate(&files->flags, &files->flags_cap, header->files, 1) ||
	    !allocate(&files->no_eol, &files->no_eol_cap, header->no_eol, 8) ||
	    !allocate(&apart->named, &cap, header->named, 8) ||
	    !allocate(&apart->blocks, &cap, header->blocks, 16) ||
	    !allocate(&apart->numbers, &cap, header->numbers, 4) ||
	    !allocate(&apart->text.p, &apart->text.cap, header->text, 1))
		return false;
	history->count = header->versions;
	files->list_count = header->lists;
	files->count = header->files;
	files->no_eol_count = header->no_eol;
	apart->named_count = header->named;
	apart->block_count = header->blocks;
	apart->number_count = header->numbers;
	apart->text.n = header->text;
	sections(history, apart, all);
	for (int i = 0; i < SECTIONS; i++) {
		size_t got;

		if (tdl__sys_read(fd, all[i].p, all[i].bytes, &got) != 0 || got != all[i].bytes)
			return false;
		crc = tdl__crc32c(crc, all[i].p, got);
	}
	return crc == header->body_crc;
}

/* The next text of the file, which ends in NUL. */
static const char *next_text(const tdl__text *text, size_t *at)
{
	size_t left = text->n - *at;
	const char *start = left > 0 ? text->p + *at : NULL;
	const char *end = left > 0 ? memchr(start, '\0', left) : NULL;

	if (!end)
		return NULL;
	*at += (size_t)(end - start) + 1;
	return start;
}

static bool read_named(tdl__history *history, const struct header *header, const uint64_t *named,
		       const tdl__text *text, size_t *at)
{
	tdl__filelist *files = &history->files;

	for (uint64_t i = 0; i < header->named; i++) {
		const char *path = next_text(text, at);
		char *copy;

		/* As in the log: a name that leaves the table, or one that needs no text, is wrong.
		 */
		if (!path || !tdl__path_safe(path) || !tdl__file_key_of(path).named ||
		    named[i] >= header->files || (i > 0 && named[i] <= named[i - 1]) ||
		    (files->flags[named[i]] & TDL__FILE_NAMED) == 0)
			return false;
		copy = strdup(path);
		if (!copy || !tdl__reserve(&files->named, &files->named_cap, files->named_count + 1,
					   sizeof *files->named)) {
			free(copy);
			return false;
		}
		files->named[files->named_count++] = (tdl__named_file){ named[i], copy };
	}
	return true;
}

static bool take_operations(tdl__history *history, const struct header *header,
			    const tdl__text *text, size_t *at)
{
	for (uint64_t i = 0; i < header->operations; i++) {
		const char *name = next_text(text, at);
		char *copy = name ? strdup(name) : NULL;

		if (!copy || !tdl__reserve(&history->operations, &history->operation_cap,
					   history->operation_count + 1, sizeof copy)) {
			free(copy);
			return false;
		}
		history->operations[history->operation_count++] = copy;
	}
	return true;
}

static bool take_metas(tdl__history *history, const struct header *header, const tdl__text *text,
		       size_t *at)
{
	bool good = true;
	tdl__commit commit = { 0 };

	for (uint64_t i = 0; i < header->metas && good; i++) {
		const char *start = *at < text->n ? text->p + *at : NULL;
		const char *end = *at < text->n ? memchr(start, '\n', text->n - *at) : NULL;

		tdl__commit_clear(&commit);
		good = end &&
		       tdl__commit_line(&commit, (tdl__span){ start, (size_t)(end - start) }, false,
					NULL) == 0 &&
		       tdl__history_add_meta(history, &commit) == 0;
		if (good)
			*at += (size_t)(end - start) + 1;
	}
	tdl__commit_free(&commit);
	return good && *at == text->n;
}

static bool flags_hold(const tdl__filelist *files)
{
	const unsigned all = TDL__FILE_HAS_CRC | TDL__FILE_EOL_KNOWN | TDL__FILE_NO_EOL |
			     TDL__FILE_NAMED | TDL__FILE_BLOCKS | TDL__FILE_ROWS;
	size_t named = 0, no_eol = 0, blocks = 0;

	for (size_t i = 0; i < files->count; i++) {
		unsigned flags = files->flags[i];

		if ((flags & ~all) != 0)
			return false;
		if ((flags & TDL__FILE_NAMED) != 0)
			named++;
		if ((flags & TDL__FILE_BLOCKS) != 0)
			blocks++;
		else if ((flags & TDL__FILE_ROWS) != 0)
			return false;
		if ((flags & TDL__FILE_BLOCKS) != 0 && (flags & TDL__FILE_HAS_CRC) == 0)
			return false;
		if ((flags & TDL__FILE_NO_EOL) != 0 &&
		    (no_eol >= files->no_eol_count || files->no_eol[no_eol++] != i))
			return false;
	}
	return named == files->named_count && no_eol == files->no_eol_count &&
	       blocks == files->block_count;
}

/* No list may hold 2^63 bytes or rows, counted over every file up to the next list. */
static bool sums_hold(const tdl__filelist *files)
{
	for (size_t list = 0; list < files->list_count; list++) {
		uint64_t first = files->lists[list].first;
		uint64_t next =
			list + 1 < files->list_count ? files->lists[list + 1].first : files->count;
		uint64_t bytes = 0, rows = 0;

		if (first > next || next > files->count ||
		    files->lists[list].eol_known > next - first)
			return false;
		for (uint64_t i = first; i < next; i++) {
			uint64_t size = tdl__filelist_size(files, i);
			uint64_t records = tdl__filelist_records(files, i);

			if (size > INT64_MAX || records > INT64_MAX ||
			    bytes + size > (uint64_t)INT64_MAX ||
			    rows + records > (uint64_t)INT64_MAX)
				return false;
			bytes += size;
			rows += records;
		}
		for (uint64_t i = 0; i < files->lists[list].eol_known; i++) {
			if ((files->flags[first + i] & TDL__FILE_EOL_KNOWN) == 0)
				return false;
		}
	}
	return true;
}

static bool versions_hold(const tdl__history *history)
{
	const tdl__filelist *files = &history->files;

	for (size_t i = 0; i < history->count; i++) {
		const tdl__version *version = &history->versions[i];
		uint64_t next;

		if (version->list >= files->list_count ||
		    version->operation >= history->operation_count ||
		    version->meta >= history->meta_count || version->read_version < -1 ||
		    version->record_end < (i > 0 ? version[-1].record_end : 0) ||
		    version->record_end > INT64_MAX)
			return false;
		next = version->list + 1 < files->list_count ? files->lists[version->list + 1].first
							     : files->count;
		if (version->files > next - files->lists[version->list].first)
			return false;
	}
	/* The newest version is on the newest list, and that ends with it. */
	return history->versions[history->count - 1].list == files->list_count - 1 &&
	       history->versions[history->count - 1].files ==
		       files->count - files->lists[files->list_count - 1].first;
}

/* Whether it was made of this very log, and not of a copy or of another's. */
static bool is_bound(const tdl__history *history, const struct header *header)
{
	struct stat st;

	return tdl__sys_fstat(history->log.dir, &st) == 0 && st.st_dev == header->log_device &&
	       st.st_ino == header->log_inode &&
	       tdl__log_exists(&history->log, (int64_t)header->versions - 1);
}

/* ---- Whether the log still is what was replayed ------------------------------------------- */

/* When an index is read all commits of a log of so many are looked at, within the longer time; of a
 * longer one as many as the shorter time allows. The rest is for tdl_table_verify_log(). */
#define CHECKS	      4096
#define CHECKS_MS     50
#define MORE_MS	      5
#define NEWEST_CHECKS 256

static int64_t ms_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

/* The commit to look at as the nth: the newest, then all the others from the oldest on; of a long
 * log those all over it. */
static uint64_t pick(uint64_t nth, uint64_t count)
{
	if (nth < NEWEST_CHECKS)
		return count - 1 - nth;
	if (count <= CHECKS)
		return nth - NEWEST_CHECKS;
	return tdl__hash(&nth, sizeof nth) % count;
}

/* Whether a commit is what the index says of it. One that is only dated otherwise, or linked, is
 * stamped anew. */
static bool holds(tdl__history *history, uint64_t version, bool content)
{
	tdl__version *at = &history->versions[version];
	uint32_t stamp = at->stamp;

	if (tdl__log_compare(&history->log, (int64_t)version, at->crc, content, &stamp, NULL) != 1)
		return false;
	history->restamped += stamp != at->stamp;
	at->stamp = stamp;
	return true;
}

static bool log_holds(tdl__history *history)
{
	uint64_t count = history->count;
	struct timespec start;

	/* What the next commit is built on, and what says whose table it is: by their bytes. */
	if (!holds(history, count - 1, true) || !holds(history, 0, true))
		return false;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (uint64_t nth = 0; nth < count; nth++) {
		if (nth % 64 == 0 && ms_since(&start) >= (count <= CHECKS ? CHECKS_MS : MORE_MS))
			break;
		if (!holds(history, pick(nth, count), false))
			return false;
	}
	return true;
}

/* The times of versions follow from their timestamps. */
static bool make_times(tdl__history *history)
{
	int64_t before = 0;

	for (size_t i = 0; i < history->count; i++) {
		if (!tdl__times_add(&history->times, i, before, history->versions[i].timestamp))
			return false;
		before = tdl__history_time(history, i);
	}
	return true;
}

static bool load(tdl__history *history, int dir, const char *name)
{
	struct apart apart CLEANUP(free_apart) = { 0 };
	const tdl__text *text = &apart.text;
	int fd CLEANUP(tdl__close_at) = -1;
	struct header header;
	struct stat st;
	size_t at = 0;

	return tdl__sys_open_beneath(dir, name, &fd, &st) == 0 && read_header(fd, &st, &header) &&
	       header.versions < INT64_MAX && is_bound(history, &header) &&
	       read_body(fd, &header, history, &apart) &&
	       read_named(history, &header, apart.named, text, &at) &&
	       take_operations(history, &header, text, &at) &&
	       take_metas(history, &header, text, &at) &&
	       tdl__filelist_load_blocks(&history->files, apart.blocks, apart.block_count,
					 apart.numbers, apart.number_count) &&
	       flags_hold(&history->files) && sums_hold(&history->files) &&
	       versions_hold(history) && make_times(history) &&
	       strcmp(id_of(history, history->versions[0].meta), header.table_id) == 0 &&
	       log_holds(history);
}

uint64_t tdl__index_covers(int dir, const char *name)
{
	int fd CLEANUP(tdl__close_at) = -1;
	struct header header;
	struct stat st;

	return tdl__sys_open_beneath(dir, name, &fd, &st) == 0 && read_header(fd, &st, &header)
		       ? header.versions
		       : 0;
}

void tdl__index_load(tdl__history *history, int dir, const char *name)
{
	/* What turns out to be wrong is thrown away whole. */
	if (load(history, dir, name))
		history->from_index = true;
	else
		tdl__history_clear(history);
}
