/* SPDX-License-Identifier: MIT */
/*
 * What the log knows of staged files: whether they were published, and whether what was published
 * is still there.
 */
#include "commit/added.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "util/crc32c.h"

#define PART_NAME_MAX 44
#define PIECE	      ((size_t)1 << 20)

static void part_name(char out[PART_NAME_MAX], const char *hex)
{
	snprintf(out, PART_NAME_MAX, "part-%.32s.jsonl", hex);
}

static struct tdl__slot *find_name(const tdl__added *added, const tdl__filelist *files,
				   const tdl__file_key *key)
{
	struct tdl__slot *slot = tdl__hashmap_first(&added->names, tdl__file_key_hash(key));

	for (; slot; slot = tdl__hashmap_next(&added->names, slot)) {
		tdl__file_key other = tdl__filelist_key(files, slot->value - 1);

		if (tdl__file_key_equal(key, &other))
			return slot;
	}
	return NULL;
}

/* With the history's read lock held. */
static bool read_on(tdl__added *added, const tdl__filelist *files)
{
	/* All are there at once, as a rule, each of another name. */
	if (!tdl__hashmap_reserve(&added->names, files->count))
		return false;
	for (; added->seen < files->count; added->seen++) {
		tdl__file_key key = tdl__filelist_key(files, added->seen);
		struct tdl__slot *slot = find_name(added, files, &key);

		if (slot)
			slot->value = added->seen + 1;
		else
			tdl__hashmap_put(&added->names, tdl__file_key_hash(&key), added->seen + 1);
	}
	return true;
}

/* What the log says of a file: its size, and its checksum where it has one. */
struct recorded {
	bool known, has_crc;
	uint64_t size;
	uint32_t crc;
};

static int find_recorded(tdl__added *added, const char *hex, struct recorded *recorded,
			 tdl_error *error)
{
	tdl__history *history = &added->table->history;
	tdl__file_key key = { .named = NULL };
	bool room;

	*recorded = (struct recorded){ 0 };
	tdl__unhex(key.id, hex);
	pthread_rwlock_rdlock(&history->lock);
	room = read_on(added, &history->files);
	if (room) {
		const struct tdl__slot *slot = find_name(added, &history->files, &key);

		if (slot) {
			uint64_t index = slot->value - 1;

			recorded->known = true;
			recorded->size = tdl__filelist_size(&history->files, index);
			recorded->has_crc = (history->files.flags[index] & TDL__FILE_HAS_CRC) != 0;
			recorded->crc = history->files.crcs[index];
		}
	}
	pthread_rwlock_unlock(&history->lock);
	return room ? 0 : tdl__fail_nomem(error);
}

int tdl__added_fate(tdl__added *added, const char *hex, enum tdl__fate *fate, tdl_error *error)
{
	char name[PART_NAME_MAX];
	struct recorded recorded;
	struct stat st;
	int err, r = find_recorded(added, hex, &recorded, error);

	if (r < 0)
		return r;
	*fate = TDL__FATE_NONE;
	if (!recorded.known)
		return 0;
	part_name(name, hex);
	err = tdl__sys_stat(added->table->dir, name, &st);
	if (err != 0 && err != ENOENT)
		return tdl__fail_errno(error, err, "cannot look at data file %s/%s",
				       added->table->path, name);
	*fate = err == 0 ? TDL__FATE_PUBLISHED : TDL__FATE_LOST;
	return 0;
}

static int check_bytes(int fd, const struct recorded *recorded, bool *same)
{
	char *buffer CLEANUP(tdl__free_at) = malloc(PIECE);
	uint32_t crc = 0;
	uint64_t at = 0;
	struct stat st;
	int err = !buffer ? ENOMEM : tdl__sys_fstat(fd, &st);

	*same = err == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == recorded->size;
	while (err == 0 && *same && recorded->has_crc) {
		size_t got;

		err = tdl__sys_pread(fd, buffer, PIECE, at, &got);
		if (err != 0 || got == 0)
			break;
		crc = tdl__crc32c(crc, buffer, got);
		at += got;
	}
	*same = *same && (!recorded->has_crc || crc == recorded->crc);
	return err;
}

int tdl__added_mend(tdl__added *added, int dir, const char *name, bool *mended, tdl_error *error)
{
	tdl_table *table = added->table;
	int fd CLEANUP(tdl__close_at) = -1;
	char part[PART_NAME_MAX];
	struct recorded recorded;
	struct stat st;
	bool same = false;
	int err, r = find_recorded(added, name, &recorded, error);

	*mended = false;
	if (r < 0)
		return r;
	part_name(part, name);
	err = tdl__sys_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd);
	if (err == 0)
		err = check_bytes(fd, &recorded, &same);
	if (err == ENOMEM)
		return tdl__fail_nomem(error);
	/* It is not what is missing. */
	if (err == ENOENT || err == ELOOP || err == ENXIO || (err == 0 && !same))
		return 0;
	if (err == 0)
		err = tdl__sys_fstat(table->dir, &st);
	if (err == 0 && tdl__table_set_owner(table, fd, tdl__table_file_mode(&st), NULL) < 0)
		err = EIO;
	if (err == 0)
		err = tdl__sys_link(dir, name, table->dir, part);
	if (err == EPERM || err == EOPNOTSUPP || err == ENOSYS || err == EMLINK)
		err = tdl__sys_rename(dir, name, table->dir, part, false);
	if (err == 0)
		err = tdl__sys_fsync_dir(table->dir);
	if (err != 0)
		return tdl__fail_errno(error, err, "cannot put back data file %s/%s", table->path,
				       part);
	*mended = true;
	return 0;
}

void tdl__added_clear(tdl__added *added)
{
	tdl__hashmap_clear(&added->names);
	*added = (tdl__added){ 0 };
}
