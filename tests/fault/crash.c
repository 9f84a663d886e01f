/* SPDX-License-Identifier: MIT */
/*
 * Recording changes to files, and making the states that a crash may leave. Knows files and
 * directories, not tables.
 */
#include "crash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "sys.h"

enum {
	NODES = 600,
	EVENTS = 4000,
	ENTRIES = 64,
	PENDING = 400,
	STATES = 1 << 17
};

/* A file or directory, known by its inode, which its descriptor keeps from being used again. */
static struct node {
	ino_t ino;
	int fd;
	bool is_dir;
	char name[96]; /* its first one */
} nodes[NODES];
static unsigned node_count;

enum kind {
	ADD,
	REMOVE,
	WRITE,
	SYNC,
	ACKNOWLEDGE
};

static struct event {
	enum kind kind;
	unsigned node; /* what was written or synced; the directory of a name */
	unsigned target;
	char name[96];
	char *bytes; /* all of the file, after a write */
	size_t n;
	int64_t acknowledged;
	unsigned sync; /* its number */
} events[EVENTS];
static unsigned event_count, sync_count;

/* ---- Recording ----------------------------------------------------------------------------- */

static int find(ino_t ino)
{
	for (unsigned i = 0; i < node_count; i++) {
		if (nodes[i].ino == ino)
			return (int)i;
	}
	return -1;
}

static unsigned add_node(int dir, const char *name)
{
	struct node *node = &nodes[node_count];
	struct stat st;

	node->fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (node->fd < 0 || fstat(node->fd, &st) < 0 || node_count == NODES)
		abort();
	node->ino = st.st_ino;
	node->is_dir = S_ISDIR(st.st_mode);
	snprintf(node->name, sizeof node->name, "%s",
		 strrchr(name, '/') ? strrchr(name, '/') + 1 : name);
	return node_count++;
}

static struct event *add_event(enum kind kind, unsigned node)
{
	struct event *event = &events[event_count++];

	if (event_count == EVENTS)
		abort();
	*event = (struct event){ .kind = kind, .node = node };
	return event;
}

/* The directory that holds a name, -1 where it is none of those recorded. */
static int holder(int dir, const char *name)
{
	const char *slash = strrchr(name, '/');
	char path[4096];
	struct stat st;

	if (!slash)
		return fstat(dir, &st) < 0 ? -1 : find(st.st_ino);
	snprintf(path, sizeof path, "%.*s", (int)(slash - name), name);
	return fstatat(dir, path, &st, 0) < 0 ? -1 : find(st.st_ino);
}

static void name_event(enum kind kind, int dir, const char *name, int target)
{
	int in = holder(dir, name);
	struct event *event;

	if (in < 0 || (kind == ADD && target < 0))
		return;
	event = add_event(kind, (unsigned)in);
	event->target = (unsigned)target;
	snprintf(event->name, sizeof event->name, "%s",
		 strrchr(name, '/') ? strrchr(name, '/') + 1 : name);
}

static void wrote(int fd)
{
	struct event *event;
	char path[64];
	struct stat st;
	int node, again;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	if (again < 0 || fstat(again, &st) < 0 || (node = find(st.st_ino)) < 0)
		abort();
	event = add_event(WRITE, (unsigned)node);
	event->n = (size_t)st.st_size;
	event->bytes = malloc(event->n + 1);
	if (pread(again, event->bytes, event->n, 0) != st.st_size)
		abort();
	close(again);
}

static void synced(int fd)
{
	struct stat st;
	int node;

	if (fstat(fd, &st) == 0 && (node = find(st.st_ino)) >= 0)
		add_event(SYNC, (unsigned)node)->sync = sync_count++;
}

static void note(enum tdl__op op, int fd, const char *name, int to_dir, const char *to)
{
	struct stat st;

	switch (op) {
	case TDL__OP_OPEN:
		if (fstat(fd, &st) == 0 && find(st.st_ino) < 0 && holder(to_dir, name) >= 0)
			name_event(ADD, to_dir, name, (int)add_node(to_dir, name));
		break;
	case TDL__OP_MKDIR:
		if (holder(fd, name) >= 0)
			name_event(ADD, fd, name, (int)add_node(fd, name));
		break;
	case TDL__OP_WRITE:
		wrote(fd);
		break;
	case TDL__OP_FSYNC:
		synced(fd);
		break;
	case TDL__OP_LINK:
	case TDL__OP_RENAME:
		if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
			name_event(ADD, to_dir, to, find(st.st_ino));
		if (op == TDL__OP_RENAME)
			name_event(REMOVE, fd, name, -1);
		break;
	case TDL__OP_UNLINK:
		name_event(REMOVE, fd, name, -1);
		break;
	default:
		break;
	}
}

void crash_record(void)
{
	make_dir("live");
	add_node(AT_FDCWD, in_scratch("live"));
	tdl__sys_done = note;
}

void crash_acknowledge(int64_t acknowledged)
{
	add_event(ACKNOWLEDGE, 0)->acknowledged = acknowledged;
}

void crash_stop_recording(void)
{
	tdl__sys_done = NULL;
}

unsigned crash_syncs(void)
{
	return sync_count;
}

const char *crash_sync_name(unsigned sync)
{
	static char text[128];

	for (unsigned i = 0; i < event_count; i++) {
		if (events[i].kind == SYNC && events[i].sync == sync)
			snprintf(text, sizeof text, "sync %u, of %s %s", sync,
				 nodes[events[i].node].is_dir ? "directory" : "file",
				 nodes[events[i].node].name);
	}
	return text;
}

void crash_free(void)
{
	for (unsigned i = 0; i < event_count; i++)
		free(events[i].bytes);
	for (unsigned i = 0; i < node_count; i++)
		close(nodes[i].fd);
	event_count = node_count = sync_count = 0;
}

/* ---- What is on the disk at a moment ------------------------------------------------------- */

struct entry {
	const char *name;
	unsigned target;
};

/* A change of names that was not synced. */
struct pending {
	unsigned dir;
	bool add;
	struct entry entry;
};

static struct {
	struct entry entries[NODES][ENTRIES]; /* that last, by directory */
	unsigned entry_count[NODES];
	struct pending pending[PENDING];
	unsigned pending_count;
	const struct event *written[NODES], *lasting[NODES]; /* the writes whose bytes count */
} disk;

static void apply(struct entry *entries, unsigned *count, const struct pending *change)
{
	unsigned at = 0;

	while (at < *count && strcmp(entries[at].name, change->entry.name) != 0)
		at++;
	if (change->add) {
		if (at == ENTRIES)
			abort();
		entries[at] = change->entry;
		*count += at == *count;
	} else if (at < *count) {
		entries[at] = entries[--*count];
	}
}

static void sync_node(unsigned node)
{
	unsigned kept = 0;

	disk.lasting[node] = disk.written[node];
	for (unsigned i = 0; i < disk.pending_count; i++) {
		struct pending *change = &disk.pending[i];

		if (change->dir == node)
			apply(disk.entries[node], &disk.entry_count[node], change);
		else
			disk.pending[kept++] = *change;
	}
	disk.pending_count = kept;
}

static void take(const struct event *event, int without)
{
	switch (event->kind) {
	case ADD:
	case REMOVE:
		if (disk.pending_count == PENDING)
			abort();
		disk.pending[disk.pending_count++] = (struct pending){
			event->node, event->kind == ADD, { event->name, event->target }
		};
		break;
	case WRITE:
		disk.written[event->node] = event;
		break;
	case SYNC:
		if ((int)event->sync != without)
			sync_node(event->node);
		break;
	case ACKNOWLEDGE:
		break;
	}
}

/* ---- States -------------------------------------------------------------------------------- */

/* How the bytes of a file that was not synced are found. */
enum bytes {
	OLD,
	WHOLE,
	ZEROS,
	CUT,
	WAYS
};

/* One state: which changes took place, and how bytes are found. */
struct state {
	uint64_t chosen[(PENDING + 63) / 64];
	enum bytes way;
};

static char made[NODES][512]; /* the path of a node in the state that is made, "" for none */

static void put_file(const char *path, unsigned node, enum bytes way, uint64_t *hash)
{
	const struct event *now = disk.written[node], *old = disk.lasting[node];
	size_t n = now ? now->n : 0;
	char *bytes = calloc(1, n + 1);

	if (now == old || way == WHOLE) {
		memcpy(bytes, n > 0 ? now->bytes : "", n);
	} else if (way == OLD) {
		n = old && old->n < n ? old->n : 0;
		memcpy(bytes, n > 0 ? old->bytes : "", n);
	} else if (way == CUT) {
		n /= 2;
		memcpy(bytes, n > 0 ? now->bytes : "", n);
	}
	for (size_t i = 0; i < n; i++)
		*hash = (*hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	if (path)
		put_bytes(path, bytes, n);
	free(bytes);
}

static uint64_t mix(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

/* Makes a directory of the state, or only tells what it would be: the sum of what every name
 * holds, in any order. */
static uint64_t make(const char *path, unsigned dir, const struct state *state, bool really)
{
	struct entry entries[ENTRIES];
	unsigned count = disk.entry_count[dir];
	uint64_t sum = 0;

	memcpy(entries, disk.entries[dir], count * sizeof *entries);
	for (unsigned i = 0; i < disk.pending_count; i++) {
		if (disk.pending[i].dir == dir && (state->chosen[i / 64] >> i % 64 & 1) != 0)
			apply(entries, &count, &disk.pending[i]);
	}
	if (really)
		make_dir(path);
	for (unsigned i = 0; i < count; i++) {
		unsigned target = entries[i].target;
		uint64_t hash;
		char at[512];

		snprintf(at, sizeof at, "%s/%s", path, entries[i].name);
		hash = mix(UINT64_C(0xcbf29ce484222325), at);
		if (nodes[target].is_dir) {
			hash += make(at, target, state, really);
		} else if (really && made[target][0] != '\0') {
			if (link(in_scratch("%s", made[target]), in_scratch("%s", at)) < 0)
				abort();
		} else {
			put_file(really ? at : NULL, target, state->way, &hash);
			if (really)
				snprintf(made[target], sizeof made[target], "%s", at);
		}
		sum += hash * 31 + hash / 7;
	}
	return sum;
}

static uint64_t seen[STATES];
static unsigned seen_count;

static bool is_new(uint64_t hash)
{
	unsigned at = (unsigned)(hash % STATES);

	if (seen_count > STATES / 4 * 3)
		abort();
	for (; seen[at] != 0; at = (at + 1) % STATES) {
		if (seen[at] == hash)
			return false;
	}
	seen[at] = hash;
	seen_count++;
	return true;
}

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return random_state ^ random_state >> 29;
}

/* Every choice where there are few, else none, all and some. */
enum {
	FEW = 7,
	SAMPLES = 128
};

static void choose(struct state *state, unsigned number)
{
	if (disk.pending_count <= FEW) {
		state->chosen[0] = number;
		return;
	}
	for (size_t i = 0; i < sizeof state->chosen / sizeof *state->chosen; i++)
		state->chosen[i] = number == 0 ? 0 : number == 1 ? UINT64_MAX : next_random();
}

static char moment[200];

const char *crash_moment(void)
{
	return moment;
}

static void describe(unsigned at, const struct state *state)
{
	static const char *const ways[] = { "old", "whole", "zeros", "cut" };
	static const char *const kinds[] = { "add", "remove", "write", "sync", "acknowledge" };
	const struct event *event = &events[at];

	snprintf(moment, sizeof moment,
		 "crash after event %u (%s %s in or of %s), unsynced bytes %s, %u names open: %llx",
		 at, kinds[event->kind], event->name, nodes[event->node].name, ways[state->way],
		 disk.pending_count, (unsigned long long)state->chosen[0]);
}

/* All states of this moment. False: check() had enough. */
static bool each_state_at(unsigned at, int64_t acknowledged, bool (*check)(int64_t acknowledged),
			  unsigned *count)
{
	unsigned choices = disk.pending_count <= FEW ? 1u << disk.pending_count : SAMPLES;

	for (unsigned number = 0; number < choices * WAYS; number++) {
		struct state state = { .way = (enum bytes)(number % WAYS) };

		choose(&state, number / WAYS);
		if (!is_new(make("crash", 0, &state, false) * 31 + (uint64_t)acknowledged + 2))
			continue;
		memset(made, 0, sizeof made);
		make("crash", 0, &state, true);
		describe(at, &state);
		++*count;
		if (!check(acknowledged))
			return false;
		remove_tree("crash");
	}
	return true;
}

unsigned crash_each_state(int without, bool (*check)(int64_t acknowledged))
{
	int64_t acknowledged = -1;
	bool looking = without < 0;
	unsigned count = 0;

	memset(&disk, 0, sizeof disk);
	memset(seen, 0, sizeof seen);
	seen_count = 0;
	random_state = 20260701;
	for (unsigned at = 0; at < event_count; at++) {
		take(&events[at], without);
		if (events[at].kind == ACKNOWLEDGE)
			acknowledged = events[at].acknowledged;
		/* Before it, all is as with it. */
		looking = looking || (events[at].kind == SYNC && (int)events[at].sync == without);
		if (looking && !each_state_at(at, acknowledged, check, &count))
			break;
	}
	if (is_there("crash"))
		remove_tree("crash");
	return count;
}
