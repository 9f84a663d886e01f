/* SPDX-License-Identifier: MIT */
/*
 * The promises of incoming/ for the sequence fuzzer. Knows the contract and nothing of how it is
 * kept; asks the daemon only what users can ask.
 */
#include "incoming_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES	  512
#define ROWS	  4096
#define BYTES_MAX 4000
#define RECENT_MS 5000
#define REMOVED	  64
#define KNOWN_MAX 16 /* so many who wrote a file are sure to find it */

struct file {
	uint64_t ino;
	char name[256]; /* "": none, or not known yet */
	bool gone;	/* by the user's own doing, or with the last handle where it was implicit */
	bool implicit;	/* created by reopening a recent name, and nothing was done with it */
	bool committed; /* all there is of it */
	int64_t when;	/* it was */
	uint64_t base;	/* bytes committed before these */
	char bytes[BYTES_MAX];
	size_t size;
	bool touched; /* since the last outcome */
	bool silent; /* the last change was none that a close follows, or its error file was removed
		      */
	bool failed; /* a write */
	bool spoilt; /* once, perhaps: by a write or a commit that failed, or a killed writer */
	bool incomplete;	/* by a killed writer */
	bool killed;		/* one was, once: when that is found out is not known */
	unsigned incomplete_at; /* open files after this one may rewrite it */
	uint64_t friends; /* processes, by number, that opened it for writing, or wrote or renamed
			     it */
	uint64_t writers; /* those of them since its last recent name ended */
	bool unwatched;	  /* whether who closed it has it still could not be seen, once */
	bool doubted;	  /* what came in between may have been refused with it */
	int code;	  /* of its last commit */
	unsigned refused_at; /* that was refused: the open files then; 0: it was not */
};

static struct file files[FILES], *committing;
static unsigned count, rows, newest;
static uint8_t committed[ROWS];
static char renaming[32];
static bool was_committed, had_error_file; /* before the rename or unlink */
static uint64_t before;			   /* operations in between, then */

/* Error files that went with their file: the user who removed that may remove them too, for a
 * moment, and nobody else sees them. */
static struct removed {
	char name[32];
	pid_t user;
	int64_t until;
	uint64_t nested;
} removed[REMOVED];
static unsigned n_removed;

void must_at(bool holds, const char *what, int line)
{
	if (holds)
		return;
	fprintf(stderr, "model: line %d: not so: %s\n", line, what);
	abort();
}

void model_begin(void)
{
	count = rows = newest = n_removed = 0;
	committing = NULL;
	renaming[0] = '\0';
	memset(committed, 0, sizeof committed);
}

void model_row(char out[ROW])
{
	static const char digits[] = "0123456789abcdef";
	unsigned row = rows++ % ROWS;

	out[0] = digits[row >> 8];
	out[1] = digits[row >> 4 & 15];
	out[2] = digits[row & 15];
	out[3] = '\n';
}

/* ---- Helpers ------------------------------------------------------------------------------- */

static bool ends(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n >= m && strcmp(name + n - m, suffix) == 0;
}

static bool is_refused(const struct file *file)
{
	return !file->committed && file->refused_at > 0 && !file->touched;
}

static bool is_error_file(const char *name)
{
	return ends(name, ".error");
}

static bool is_ordinary(const char *name)
{
	return name[0] != '.' && !ends(name, "~") && !ends(name, ".bak");
}

static struct file *by_ino(uint64_t ino)
{
	for (unsigned i = 0; i < count; i++) {
		if (files[i].ino == ino)
			return &files[i];
	}
	return NULL;
}

static struct file *by_name(const char *name)
{
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(files[i].name, name) == 0)
			return &files[i];
	}
	return NULL;
}

static bool has_error_file(const struct file *file)
{
	uint64_t offset = 0, ino;
	char name[256];

	while (tdfs_incoming_list(in, &offset, name, &ino)) {
		size_t n = strlen(file->name);

		if (strncmp(name, file->name, n) == 0 && strcmp(name + n, ".error") == 0)
			return true;
	}
	return false;
}

static uint64_t bit(const struct process *process)
{
	return UINT64_C(1) << (process->id - 100);
}

/* Opened by the writer of a recent name and closed with nothing done: it goes with the last handle.
 */
static bool may_go(const struct file *file)
{
	return file->implicit && file->size == 0 && file->base == 0 && !world_is_open(file->ino);
}

/* Only what was committed gives its name up without being asked, and what goes by itself. */
static void take(const char *name)
{
	struct file *file = by_name(name);

	if (!file)
		return;
	must(file->committed || may_go(file), "a name that is taken is not given away");
	file->gone = !file->committed;
	file->name[0] = '\0';
}

static struct file *add(const char *name, uint64_t ino)
{
	struct file *file;

	take(name);
	must(count < FILES, "room in the model");
	file = &files[count++];
	memset(file, 0, sizeof *file);
	file->ino = ino;
	snprintf(file->name, sizeof file->name, "%s", name);
	return file;
}

static bool is_blank(const struct file *file)
{
	return strspn(file->bytes, "\n") >= file->size;
}

/* It goes on behind what was committed. */
static void next_part(struct file *file)
{
	file->base += file->size;
	file->size = 0;
	/* Whose rows are committed is forgotten with the recent name. */
	if (file->gone || file->name[0] == '\0' || world.now >= file->when + RECENT_MS)
		file->writers = 0;
	file->committed = file->gone = false;
	file->code = 0;
}

static void resize(struct file *file, size_t size)
{
	must(size < BYTES_MAX, "room in the model's files");
	if (size > file->size)
		memset(file->bytes + file->size, 0, size - file->size);
	file->bytes[size] = '\0';
	file->size = size;
}

/* ---- Error files --------------------------------------------------------------------------- */

/* Its inode number; 0: it is not. */
static uint64_t listed(const char *wanted)
{
	uint64_t offset = 0, ino;
	char name[256];

	while (tdfs_incoming_list(in, &offset, name, &ino)) {
		if (strcmp(name, wanted) == 0)
			return ino;
	}
	return 0;
}

static bool is_listed(const char *name)
{
	return listed(name) != 0;
}

static pid_t user_of(const struct process *process)
{
	return process->id & 1;
}

static struct removed *find_removed(const struct process *process, const char *name)
{
	for (unsigned i = 0; i < n_removed; i++) {
		if (removed[i].user == user_of(process) && removed[i].until > world.now &&
		    strcmp(removed[i].name, name) == 0)
			return &removed[i];
	}
	return NULL;
}

static void forget_removed(const char *name)
{
	for (unsigned i = 0; i < n_removed;) {
		if (strcmp(removed[i].name, name) == 0)
			removed[i] = removed[--n_removed];
		else
			i++;
	}
}

static void add_removed(const struct process *process, const char *of)
{
	struct removed *one = &removed[n_removed];

	if (n_removed == REMOVED)
		return;
	snprintf(one->name, sizeof one->name, "%s.error", of);
	forget_removed(one->name);
	one = &removed[n_removed++];
	snprintf(one->name, sizeof one->name, "%s.error", of);
	one->user = user_of(process);
	one->until = world.now + RECENT_MS;
	one->nested = world.nested;
}

/* ---- Files and bytes ----------------------------------------------------------------------- */

static void befriend(struct file *file, const struct process *process)
{
	file->friends |= bit(process);
	file->writers |= bit(process);
}

void model_created(const struct process *process, const char *name, uint64_t ino)
{
	if (!by_ino(ino))
		add(name, ino);
}

void model_opened(const struct process *process, uint64_t ino, int flags)
{
	struct file *file = by_ino(ino);
	bool writes = (flags & O_ACCMODE) != O_RDONLY;

	newest++;
	if (!file || !writes)
		return;
	must(!file->committed, "what is committed is not opened for writing");
	if (flags & O_TRUNC) {
		must(!world_holds_unpassed(ino, process->id),
		     "what another has open is not truncated");
		file->base = 0;
		resize(file, 0);
		file->touched = true;
		file->implicit = file->silent = file->incomplete = file->failed = false;
	}
	if (file->base == 0 && file->size == 0)
		file->incomplete = false;
	befriend(file, process);
}

void model_wrote(const struct process *process, const struct open_file *open, const char *bytes,
		 size_t size, uint64_t offset, size_t done, int why)
{
	struct file *file = by_ino(open->ino);
	uint64_t end;
	size_t at;

	if (!file || (open->flags & O_ACCMODE) == O_RDONLY) {
		must(why == EBADF, "what is not open for writing is not written");
		return;
	}
	end = file->base + (file->committed ? file->size : 0);
	if (open->flags & O_APPEND && offset > file->base + file->size)
		offset = file->base + file->size;
	if (offset < end) {
		must(why == EPERM, "what is committed is not written again");
		return;
	}
	if (file->committed)
		next_part(file);
	at = (size_t)(offset - file->base);
	file->doubted = false;
	file->touched = true;
	file->implicit = file->silent = false;
	befriend(file, process);
	if (file->incomplete && at == 0 && (!(open->flags & O_APPEND) || file->size > 0) &&
	    open->serial > file->incomplete_at)
		file->incomplete = false;
	if (why != 0) {
		must(done == 0, "a write that failed wrote nothing");
		file->failed = file->spoilt = true;
		return;
	}
	must(done == size, "a write writes all");
	if (at + size > file->size)
		resize(file, at + size);
	memcpy(file->bytes + at, bytes, size);
}

void model_cut(uint64_t ino, uint64_t size, int why)
{
	struct file *file = by_ino(ino);

	if (!file) {
		must(why == EPERM, "an error file is not cut");
		return;
	}
	if (size < file->base + (file->committed ? file->size : 0)) {
		must(why == EPERM, "what is committed is not cut");
		return;
	}
	if (why != 0 || (file->committed && size == file->base + file->size))
		return;
	if (file->committed)
		next_part(file);
	resize(file, (size_t)(size - file->base));
	file->touched = true;
	file->implicit = false;
	file->silent = true;
	if (file->size == 0)
		file->incomplete = file->failed = false;
}

void model_read(uint64_t ino, const char *bytes, size_t got, uint64_t offset, int why)
{
	const struct file *file = by_ino(ino);
	size_t at, left;

	if (!file || file->failed)
		return;
	if (offset < file->base) {
		must(why == EPERM, "what was committed before is not read");
		return;
	}
	/* A committed file that nobody had open any more may be gone from the disk. */
	if (why != 0) {
		must(why == EIO && (file->committed || file->gone), "what is there is read");
		return;
	}
	at = (size_t)(offset - file->base);
	left = at < file->size ? file->size - at : 0;
	must(got == (left < 256 ? left : 256), "as much is read as there is");
	must(memcmp(bytes, file->bytes + at, got) == 0, "what was written is read");
}

/* Nothing shows whether a process that is exiting had a file open that it once wrote. */
void model_dies(const struct process *process)
{
	for (unsigned i = 0; i < count; i++) {
		if (files[i].friends & bit(process))
			files[i].spoilt = files[i].killed = true;
	}
}

void model_killed(const struct process *process, uint64_t ino)
{
	struct file *file = by_ino(ino);

	if (!file || file->committed || !is_ordinary(file->name) ||
	    !(file->writers & bit(process)) || committing == file)
		return;
	file->incomplete = true;
	file->incomplete_at = newest;
}

static void refused(struct file *file)
{
	file->spoilt = true;
	file->touched = false;
	file->refused_at = newest;
}

void model_unwatched(uint64_t ino)
{
	struct file *file = by_ino(ino);

	if (file)
		file->unwatched = true;
}

void model_closed(const struct process *process, const struct open_file *open, int answer,
		  bool alone)
{
	struct file *file = by_ino(open->ino);

	if (!file || (open->flags & O_ACCMODE) == O_RDONLY) {
		must(answer == 0, "the close of what is only read does not fail");
		return;
	}
	/* It could not be judged. */
	if (answer == EAGAIN && world.doubts + world.slows > 0) {
		file->spoilt = true;
		if (alone && !file->committed && file->touched)
			refused(file);
		else
			file->doubted = true;
	}
	must(answer == 0 || file->spoilt || world.closing, "a close fails for a reason");
	if (!alone)
		return;
	if (is_refused(file) && !file->killed && open->serial > file->refused_at)
		must(answer == 0, "who changed nothing since a refusal is told nothing of it");
	if (answer != 0)
		must(!file->committed || file->code == TDL_ERR_PUBLISHED,
		     "a close that failed has committed nothing");
	else if (world.slows == 0 && !file->committed && !file->gone && file->name[0] != '\0' &&
		 is_ordinary(file->name) && file->size > 0 && file->touched && !is_blank(file) &&
		 !file->killed && !file->failed && !file->unwatched && !file->doubted)
		must(world_holds(file->ino, 0) || world_is_unclosed(file->ino),
		     "the last close commits");
}

/* ---- Names --------------------------------------------------------------------------------- */

void model_seen(const struct process *process, const char *name, const struct stat *st)
{
	struct file *file = by_ino(st->st_ino);

	if (is_error_file(name)) {
		must(is_listed(name) || find_removed(process, name),
		     "nobody but who removed a file finds the error file that went with it");
		return;
	}
	if (!file) {
		/* A recent name that its writer opened for writing gives way to an empty file. */
		must(st->st_size == 0, "what nobody wrote is empty");
		add(name, st->st_ino)->implicit = true;
		return;
	}
	if (file->name[0] != '\0')
		must(strcmp(file->name, name) == 0, "a file is found under its name");
	must(!file->gone, "what was removed is not found");
	if (!file->failed)
		must((uint64_t)st->st_size == file->base + file->size, "sizes are true");
	if (!file->committed)
		return;
	must(file->friends & bit(process), "others see no recent name");
	must(world.now < file->when + RECENT_MS, "recent names end");
}

void model_not_seen(const struct process *process, const char *name)
{
	const struct file *file = by_name(name);
	const struct removed *went = find_removed(process, name);

	if (is_error_file(name))
		must(!is_listed(name) && (!went || went->nested != world.nested),
		     "who removed a file finds the error file that went with it");
	if (!file)
		return;
	if (file->committed)
		must(!(file->writers & bit(process)) || world.now >= file->when + RECENT_MS ||
			     world.slows > 0 || __builtin_popcountll(file->writers) > KNOWN_MAX,
		     "writers see their recent names");
	else
		must(may_go(file), "what is not committed is found");
}

static void replace(const char *name, const struct file *by)
{
	struct file *file = by_name(name);

	if (!file || file == by)
		return;
	file->gone = file->gone || !file->committed;
	file->name[0] = '\0';
}

void model_renames(const struct process *process, uint64_t ino, const char *to)
{
	struct file *file = by_ino(ino);

	snprintf(renaming, sizeof renaming, "%s", to);
	before = world.nested;
	was_committed = file && file->committed;
	had_error_file = file && is_refused(file) && !file->killed && has_error_file(file);
	if (file && !file->committed && !is_error_file(to))
		file->incomplete = false;
}

void model_renamed(const struct process *process, uint64_t ino, const char *from, const char *to,
		   int why)
{
	struct file *file = by_ino(ino);

	renaming[0] = '\0';
	if (!file) {
		must(why != 0, "an error file is not renamed");
		return;
	}
	if (why == EAGAIN && world.doubts + world.slows > 0 && !file->committed) {
		refused(file);
		return;
	}
	if (why != 0 && (was_committed || !file->committed || file->code != TDL_ERR_PUBLISHED))
		return;
	must(strcmp(file->name, from) == 0 || file->name[0] == '\0', "it had the old name");
	/* Another's that came while it was committed: it stays, and who renamed cannot see it. */
	if (file->committed && before != world.nested && listed(to) != 0 && listed(to) != ino) {
		file->name[0] = '\0';
		return;
	}
	replace(to, file);
	file->incomplete = file->implicit = false;
	snprintf(file->name, sizeof file->name, "%s", to);
	if (file->committed) {
		befriend(file, process);
		return;
	}
	if (had_error_file && !is_ordinary(to))
		must(has_error_file(file), "why it was refused goes with what is only renamed");
	if (world.slows == 0 && is_ordinary(to) && file->size > 0 && !is_blank(file))
		must(world_holds(ino, 0) || world_is_unclosed(ino),
		     "a rename to an ordinary name commits");
	file->touched = true;
	file->silent = !world_is_open(ino);
}

void model_unlinks(const char *name)
{
	const struct file *file = by_name(name);

	had_error_file = is_error_file(name) ? is_listed(name) : file && has_error_file(file);
}

void model_unlinked(const struct process *process, const char *name, int why)
{
	struct file *file;

	if (why != 0)
		return;
	if (is_error_file(name)) {
		must(had_error_file || find_removed(process, name),
		     "what went with its file is removed by who removed that");
		forget_removed(name);
		for (unsigned i = 0; i < count; i++) {
			size_t n = strlen(files[i].name);

			if (n > 0 && strlen(name) == n + 6 && strncmp(name, files[i].name, n) == 0)
				files[i].silent = true;
		}
		return;
	}
	file = by_name(name);
	must(file != NULL, "what is removed was there");
	if (file->committed)
		must(file->friends & bit(process), "others remove no recent name");
	else if (had_error_file)
		add_removed(process, name);
	file->gone = file->gone || !file->committed;
	file->name[0] = '\0';
}

/* ---- Commits ------------------------------------------------------------------------------- */

static bool is_commit_of(const struct file *file, const char *source, const char *bytes, size_t n)
{
	return !file->committed && !file->gone && file->size == n &&
	       memcmp(file->bytes, bytes, n) == 0 &&
	       (file->name[0] == '\0' || strcmp(file->name, source) == 0 ||
		strcmp(renaming, source) == 0);
}

int model_commits(const char *source, const char *bytes, size_t n)
{
	struct file *file = by_ino(world.finishing);

	/* At the end of the mount it may be any. */
	if (!file && world.closing)
		file = by_name(source);
	for (unsigned i = 0; i < count && !file && world.closing; i++) {
		if (is_commit_of(&files[i], source, bytes, n))
			file = &files[i];
	}
	must(file != NULL, "only a close, a release, a rename and the end commit");
	must(is_commit_of(file, source, bytes, n), "what is committed is what was written");
	must(n > 0, "nothing is not committed");
	must(is_ordinary(source), "a temporary name is not committed");
	must(!file->failed, "a file with a hole is not committed");
	must(!file->incomplete || world.slows > 0, "a killed writer's file is not committed");
	must(!world_holds_unpassed(file->ino, 0) || file->unwatched,
	     "what is held is not committed");
	committing = file;
	if (memchr(bytes, '\0', n))
		return TDL_ERR_SCHEMA;
	return is_blank(file) ? TDL_ERR_EMPTY : TDL_OK;
}

void model_committed(const char *bytes, size_t n, int code)
{
	struct file *file = committing;

	committing = NULL;
	file->code = code;
	file->touched = false;
	file->refused_at = code != TDL_OK && code != TDL_ERR_EMPTY ? newest : 0;
	file->spoilt = file->spoilt || (code != TDL_OK && code != TDL_ERR_EMPTY);
	if (code != TDL_OK && code != TDL_ERR_PUBLISHED)
		return;
	file->committed = true;
	file->unwatched = file->doubted = false;
	file->when = world.now;
	for (size_t at = 0; at + ROW <= n; at += ROW) {
		unsigned row;
		char text[ROW] = { bytes[at], bytes[at + 1], bytes[at + 2], '\0' };

		if (sscanf(text, "%x", &row) != 1)
			continue;
		must(row < ROWS && !committed[row], "no row is committed twice");
		committed[row] = 1;
	}
}

/* ---- Everything ---------------------------------------------------------------------------- */

static void check_listed(struct file *file, const char *name)
{
	struct stat st;

	must(!file->committed, "what is committed is not listed");
	must(!file->gone, "what was removed is not listed");
	if (file->name[0] == '\0') {
		take(name);
		snprintf(file->name, sizeof file->name, "%s", name);
	}
	must(strcmp(file->name, name) == 0, "a file is listed under its name");
	must(tdfs_incoming_getattr(in, NULL, file->ino, &st) == 0, "what is listed is there");
	/* A file with a hole is given up when it is closed. */
	if (file->failed && (uint64_t)st.st_size == file->base) {
		resize(file, 0);
		file->failed = world_is_open(file->ino) && !has_error_file(file);
	}
	must((uint64_t)st.st_size == file->base + file->size, "sizes are true");
	/* Nothing is said of a file without rows. */
	if (!is_blank(file) && file->touched && !file->silent && is_ordinary(name) &&
	    !world_is_open(file->ino) && !world.closing)
		must(has_error_file(file), "what is not committed has an error file that says why");
}

void model_check(void)
{
	bool listed[FILES] = { false };
	uint64_t offset = 0, ino;
	char name[256];

	while (tdfs_incoming_list(in, &offset, name, &ino)) {
		struct file *file = by_ino(ino);

		if (is_error_file(name)) {
			forget_removed(name);
			continue;
		}
		if (!file) {
			file = add(name, ino);
			file->implicit = true;
		}
		must(!listed[file - files], "nothing is listed twice");
		listed[file - files] = true;
		check_listed(file, name);
	}
	for (unsigned i = 0; i < count; i++) {
		struct file *file = &files[i];

		if (listed[i] || file->gone || file->committed)
			continue;
		must(may_go(file), "what is not committed is listed");
		file->gone = true;
		file->name[0] = '\0';
	}
}

void model_end(void)
{
	model_check();
}
