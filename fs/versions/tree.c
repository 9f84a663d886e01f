/* SPDX-License-Identifier: MIT */
/*
 * What the read-only tree shows: names, numbers and attributes. Knows nothing of libfuse; all it
 * knows of a table comes through tinydelta.h. A new kind of node is one line in `kinds`, one in
 * `rules` and one case where its attributes differ.
 */
#include "versions/tree.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define VERSION_SHIFT 4
#define SLOTS	      (1u << VERSION_SHIFT)

static const struct {
	unsigned slot;
	bool numbered; /* one for each version */
	mode_t type;
	enum tdfs_kind parent;
} kinds[TDFS_KINDS] = {
	[TDFS_ROOT] = { 1, false, S_IFDIR, TDFS_ROOT },
	[TDFS_INCOMING] = { 2, false, S_IFDIR, TDFS_ROOT },
	[TDFS_LATEST] = { 3, false, S_IFDIR, TDFS_ROOT },
	[TDFS_HISTORY] = { 4, false, S_IFDIR, TDFS_ROOT },
	[TDFS_AT] = { 5, false, S_IFDIR, TDFS_ROOT },
	[TDFS_RECORDS] = { 8, false, S_IFREG, TDFS_ROOT },
	[TDFS_AT_README] = { 9, false, S_IFREG, TDFS_AT },
	[TDFS_VERSION] = { 0, true, S_IFDIR, TDFS_ROOT },
	[TDFS_DATA] = { 1, true, S_IFREG, TDFS_VERSION },
	[TDFS_RECORD] = { 2, true, S_IFREG, TDFS_HISTORY },
	[TDFS_LINK] = { 3, true, S_IFLNK, TDFS_AT },
};

/* Which version a name leads to. */
enum which {
	NONE,	/* the node is a fixed one */
	SAME,	/* that of the directory */
	NEWEST, /* the newest there is */
	NUMBER, /* the one whose number is in the name: `name`, digits, `suffix` */
	MOMENT, /* the newest at the time that is the name; never listed, since there are too many;
		 * `name` and the version's number are what it leads to */
};

/* The names in each directory, in the order they are listed. A directory has one NUMBER or MOMENT
 * at most, at its end. */
static const struct rule {
	enum tdfs_kind directory, kind;
	enum which which;
	const char *name, *suffix;
} rules[] = {
	{ TDFS_ROOT, TDFS_AT, NONE, "at", "" },
	{ TDFS_ROOT, TDFS_LATEST, NONE, "latest", "" },
	{ TDFS_ROOT, TDFS_HISTORY, NONE, "history", "" },
	{ TDFS_ROOT, TDFS_INCOMING, NONE, "incoming", "" },
	{ TDFS_ROOT, TDFS_RECORDS, NONE, "history.jsonl", "" },
	{ TDFS_ROOT, TDFS_VERSION, NUMBER, "v", "" },
	{ TDFS_LATEST, TDFS_DATA, NEWEST, "data.jsonl", "" },
	{ TDFS_HISTORY, TDFS_RECORD, NEWEST, "latest.json", "" },
	{ TDFS_HISTORY, TDFS_RECORD, NUMBER, "v", ".json" },
	{ TDFS_VERSION, TDFS_DATA, SAME, "data.jsonl", "" },
	{ TDFS_AT, TDFS_AT_README, NONE, "README", "" },
	{ TDFS_AT, TDFS_LINK, MOMENT, "../v", "" },
};

#define RULES (sizeof rules / sizeof *rules)

/* Offsets of directory entries: "." and "..", then the rules by their place above, then versions
 * by their number. A listing may be continued by another daemon with the same table of rules. */
#define OFFSET_DOT     0u
#define OFFSET_DOTDOT  1u
#define OFFSET_RULE    2u
#define OFFSET_VERSION 64u

_Static_assert(OFFSET_RULE + RULES <= OFFSET_VERSION, "rules and versions share no offset");

uint64_t tdfs_node_ino(struct tdfs_node node)
{
	if (!kinds[node.kind].numbered)
		return kinds[node.kind].slot;
	return ((uint64_t)node.version + 1) << VERSION_SHIFT | kinds[node.kind].slot;
}

bool tdfs_node_from_ino(uint64_t ino, struct tdfs_node *node)
{
	uint64_t above = ino >> VERSION_SHIFT;

	if (above > (uint64_t)TDFS_VERSION_MAX + 1)
		return false;
	for (unsigned kind = 0; kind < TDFS_KINDS; kind++) {
		if (kinds[kind].slot != ino % SLOTS || kinds[kind].numbered != (above > 0))
			continue;
		node->kind = (enum tdfs_kind)kind;
		node->version = above > 0 ? (int64_t)above - 1 : 0;
		return true;
	}
	return false;
}

bool tdfs_node_is_directory(struct tdfs_node node)
{
	return kinds[node.kind].type == S_IFDIR;
}

mode_t tdfs_node_type(struct tdfs_node node)
{
	return kinds[node.kind].type;
}

struct tdfs_node tdfs_node_parent(struct tdfs_node node)
{
	enum tdfs_kind parent = kinds[node.kind].parent;

	return (struct tdfs_node){ parent, kinds[parent].numbered ? node.version : 0 };
}

static void spell_name(const struct rule *rule, int64_t version, char *name, size_t size)
{
	if (rule->which == NUMBER || rule->which == MOMENT)
		snprintf(name, size, "%s%" PRId64 "%s", rule->name, version, rule->suffix);
	else
		snprintf(name, size, "%s", rule->name);
}

/* The rule by which a node's own directory names it. */
static const struct rule *rule_of(struct tdfs_node node)
{
	for (size_t i = 0; i < RULES; i++)
		if (rules[i].kind == node.kind && rules[i].which != NEWEST)
			return &rules[i];
	return NULL; /* the root */
}

const char *tdfs_node_path(struct tdfs_node node, char path[TDFS_PATH_MAX])
{
	const struct rule *rule = rule_of(node);
	const struct rule *above = !rule ? NULL : rule_of(tdfs_node_parent(node));
	char name[32] = "/", parent[32];

	if (rule)
		spell_name(rule, node.version, name, sizeof name);
	if (above) {
		spell_name(above, node.version, parent, sizeof parent);
		snprintf(path, TDFS_PATH_MAX, "%s/%s", parent, name);
	} else {
		snprintf(path, TDFS_PATH_MAX, "%s", name);
	}
	return path;
}

static int not_found(tdl_error *error)
{
	*error = (tdl_error){ .code = TDL_ERR_NOT_FOUND, .version = -1 };
	snprintf(error->message, sizeof error->message, "no such name");
	return error->code;
}

/* ---- Attributes --------------------------------------------------------------------------- */

/* Times of the log are whatever a writer put there; beyond the year 9999 tools stumble. */
static struct timespec commit_time(int64_t ms)
{
	const int64_t last = 253402300799;
	int64_t seconds = ms < 0 ? 0 : ms / 1000;

	if (seconds > last)
		return (struct timespec){ .tv_sec = last };
	return (struct timespec){ .tv_sec = seconds, .tv_nsec = ms < 0 ? 0 : ms % 1000 * 1000000 };
}

/* The newest version that can be read, for times: damage behind it changes nothing there. */
static int newest_readable(const struct tdfs_tree *tree, int64_t *version, tdl_error *error)
{
	int result = tdl_table_refresh(tree->table, error);

	if (result < 0 && result != TDL_ERR_CORRUPT && result != TDL_ERR_IO)
		return result;
	*version = tdl_table_head(tree->table);
	return 0;
}

/* The newest version there is, or the reason why it cannot be read. */
static int newest(const struct tdfs_tree *tree, int64_t *version, tdl_error *error)
{
	int result = tdl_table_refresh(tree->table, error);

	if (result < 0)
		return result;
	result = tdl_table_damage(tree->table, error);
	if (result < 0)
		return result;
	*version = tdl_table_head(tree->table);
	return 0;
}

/* Whether a version is there, readable or not. Those after the newest one known are looked for. */
static int find_version(const struct tdfs_tree *tree, int64_t version, bool *readable,
			tdl_error *error)
{
	int result;

	*readable = true;
	if (version < 0 || version > TDFS_VERSION_MAX)
		return not_found(error);
	if (version <= tdl_table_head(tree->table))
		return 0;
	result = tdl_table_refresh(tree->table, error);
	if (result < 0 && result != TDL_ERR_CORRUPT)
		return result;
	if (version <= tdl_table_head(tree->table))
		return 0;
	*readable = false;
	if (tdl_table_next_version(tree->table, version - 1) == version)
		return 0;
	return not_found(error);
}

/* Whether a node is in the tree at all, its version left aside. */
static bool is_shown(const struct tdfs_tree *tree, struct tdfs_node node)
{
	return tree->only < 0 || node.kind == TDFS_ROOT ||
	       (node.kind == TDFS_DATA && node.version == tree->only);
}

/* The directory whose names a directory shows. */
static struct tdfs_node named_like(const struct tdfs_tree *tree, struct tdfs_node directory)
{
	if (tree->only >= 0 && directory.kind == TDFS_ROOT)
		return (struct tdfs_node){ TDFS_VERSION, tree->only };
	return directory;
}

int tdfs_tree_open_data(const struct tdfs_tree *tree, struct tdfs_node node,
			tdl_snapshot **snapshot, uint64_t *size, tdl_error *error)
{
	tdl_snapshot *opened;
	bool readable;
	int result = is_shown(tree, node) ? find_version(tree, node.version, &readable, error)
					  : not_found(error);

	if (result < 0)
		return result;
	result = tdl_snapshot_open(tree->table, node.version, &opened, error);
	if (result < 0)
		return result;
	result = tdl_snapshot_size(opened, size, error);
	if (result < 0) {
		tdl_snapshot_unref(opened);
		return result;
	}
	*snapshot = opened;
	return 0;
}

static int no_memory(tdl_error *error)
{
	*error = (tdl_error){ .code = TDL_ERR_NOMEM, .version = -1 };
	snprintf(error->message, sizeof error->message, "out of memory");
	return error->code;
}

void tdfs_tree_read_zone(struct tdfs_tree *tree)
{
	static const char known[] = "/zoneinfo/";
	const char *name = getenv("TZ"), *found;
	char target[PATH_MAX], offset[48];
	time_t now = time(NULL);
	struct tm tm;
	ssize_t n;

	tzset();
	if (!name) {
		n = readlink("/etc/localtime", target, sizeof target - 1);
		target[n < 0 ? 0 : n] = '\0';
		found = strstr(target, known);
		name = found ? found + sizeof known - 1 : "local time";
	}
	if (!localtime_r(&now, &tm) || strftime(offset, sizeof offset, "%Z, UTC%z", &tm) == 0)
		strcpy(offset, "UTC");
	snprintf(tree->zone, sizeof tree->zone, "%.40s (%s when this was mounted)",
		 name[0] == '\0' ? "UTC" : name, offset);
}

static int render_readme(const struct tdfs_tree *tree, char **text, size_t *length,
			 tdl_error *error)
{
	int n = asprintf(
		text,
		"Any time is a name here: at/TIME is a link to the version that was the "
		"newest then.\n"
		"\n"
		"    2026-11-29             the first instant of that day; also 20261129\n"
		"    2026-11-29T18:40       or with :05 or :05.123 behind it, and a blank for "
		"the T\n"
		"    2026-11-29T18:40Z      in UTC; +01:00 or +0100 name another zone\n"
		"    1795978989             seconds since 1970; 13 digits are milliseconds\n"
		"    -90s -30m -2h -7d -2w  so long before now\n"
		"    TIME~3                 three versions before that\n"
		"\n"
		"Times without a zone are those of %s.\n"
		"Before version 0, and later than now, there is none.\n"
		"Put a slash behind it where a tool would take the link alone: "
		"cp -r at/TIME/. DIR\n",
		tree->zone);

	if (n < 0)
		return no_memory(error);
	*length = (size_t)n;
	return 0;
}

int tdfs_tree_render(const struct tdfs_tree *tree, struct tdfs_node node, char **text,
		     size_t *length, tdl_error *error)
{
	bool readable;
	int result = is_shown(tree, node) ? find_version(tree, node.version, &readable, error)
					  : not_found(error);

	if (result < 0)
		return result;
	if (node.kind == TDFS_AT_README)
		return render_readme(tree, text, length, error);
	return tdl_table_version_json(tree->table, node.version, text, length, error);
}

bool tdfs_tree_readlink(const struct tdfs_tree *tree, struct tdfs_node node,
			char target[TDFS_PATH_MAX])
{
	if (kinds[node.kind].type != S_IFLNK || !is_shown(tree, node))
		return false;
	spell_name(rule_of(node), node.version, target, TDFS_PATH_MAX);
	return true;
}

static int check_size(uint64_t bytes, off_t *size, tdl_error *error)
{
	if (bytes > INT64_MAX) {
		*error = (tdl_error){ .code = TDL_ERR_IO, .os_error = EOVERFLOW, .version = -1 };
		snprintf(error->message, sizeof error->message, "larger than a file can be");
		return error->code;
	}
	*size = (off_t)bytes;
	return 0;
}

/* Size and time of a version's rows. */
static int stat_data(const struct tdfs_tree *tree, struct tdfs_node node, off_t *size,
		     int64_t *time, tdl_error *error)
{
	tdl_snapshot *snapshot;
	uint64_t bytes;
	int result = tdfs_tree_open_data(tree, node, &snapshot, &bytes, error);

	if (result < 0)
		return result;
	*time = tdl_snapshot_info(snapshot)->time;
	tdl_snapshot_unref(snapshot);
	return check_size(bytes, size, error);
}

static int file_size(const struct tdfs_tree *tree, struct tdfs_node node, off_t *size,
		     tdl_error *error)
{
	uint64_t bytes;
	char *text, target[TDFS_PATH_MAX];
	size_t length;
	int result;

	if (node.kind == TDFS_RECORDS) {
		bytes = tdl_table_history_size(tree->table);
	} else if (node.kind == TDFS_LINK) {
		tdfs_tree_readlink(tree, node, target);
		bytes = strlen(target);
	} else {
		result = tdfs_tree_render(tree, node, &text, &length, error);
		if (result < 0)
			return result;
		free(text);
		bytes = length;
	}
	return check_size(bytes, size, error);
}

/* Time, and of files size, of all that is not a version's rows. */
static int stat_other(const struct tdfs_tree *tree, struct tdfs_node node, off_t *size,
		      int64_t *time, bool *readable, tdl_error *error)
{
	bool directory = tdfs_node_is_directory(node);
	tdl_version_info info;
	int64_t dated;
	int result = 0;

	if (!is_shown(tree, node))
		result = not_found(error);
	else if (node.kind == TDFS_ROOT && tree->only >= 0)
		node.version = tree->only;
	else if (kinds[node.kind].numbered || node.kind == TDFS_AT_README)
		result = find_version(tree, node.version, readable, error);
	else
		result = newest_readable(tree, &node.version, error);
	if (result < 0)
		return result;
	/* A directory of a version that cannot be read is there, without a time of its own. */
	dated = *readable || !directory ? node.version : tdl_table_head(tree->table);
	result = tdl_table_version_info(tree->table, dated, &info, error);
	if (result < 0)
		return result;
	*time = info.time;
	return directory ? 0 : file_size(tree, node, size, error);
}

static int system_error(tdl_error *error, const char *what)
{
	*error = (tdl_error){ .code = TDL_ERR_IO, .os_error = errno, .version = -1 };
	snprintf(error->message, sizeof error->message, "%s: %s", what, strerror(errno));
	return error->code;
}

/* What an access control list gives, as `system.posix_acl_access` holds it: little-endian. */
struct acl_entry {
	uint16_t tag, rights;
	uint32_t id;
};

enum {
	ACL_VERSION = 2,
	ACL_USER = 2,
	ACL_GROUP_OBJ = 4,
	ACL_GROUP = 8,
	ACL_MASK = 16
};

/*
 * Where there is a list, the group's bits of a mode are its mask, not what the group may. The
 * mount knows an owner, a group and others: whom the list lets in by name it does not let in, and
 * whom the list keeps out by name keeps out all among whom he would be.
 */
static mode_t mode_under_acl(const struct acl_entry *entries, size_t count,
			     const struct stat *table)
{
	unsigned mask = 7, group = 0, users = 7, others = table->st_mode & 7;

	for (size_t i = 0; i < count; i++)
		if (le16toh(entries[i].tag) == ACL_MASK)
			mask = le16toh(entries[i].rights);
	for (size_t i = 0; i < count; i++) {
		unsigned tag = le16toh(entries[i].tag), rights = le16toh(entries[i].rights) & mask;

		if (tag == ACL_GROUP_OBJ ||
		    (tag == ACL_GROUP && le32toh(entries[i].id) == table->st_gid))
			group |= rights;
		else if (tag == ACL_GROUP)
			others &= rights;
		else if (tag == ACL_USER)
			users &= rights;
	}
	return (table->st_mode & ~077u) | (group & users) << 3 | (others & users);
}

static mode_t table_mode(const struct tdfs_tree *tree, const struct stat *table)
{
	struct {
		uint32_t version;
		struct acl_entry entries[512];
	} acl;
	ssize_t size =
		fgetxattr(tdl_table_fd(tree->table), "system.posix_acl_access", &acl, sizeof acl);

	if (size < 0 && (errno == ENODATA || errno == EOPNOTSUPP || errno == ENOSYS))
		return table->st_mode;
	/* What cannot be read is taken for a list that lets nobody in. */
	if (size < (ssize_t)sizeof acl.version || le32toh(acl.version) != ACL_VERSION)
		return table->st_mode & ~077u;
	return mode_under_acl(acl.entries,
			      ((size_t)size - sizeof acl.version) / sizeof *acl.entries, table);
}

void tdfs_tree_own(const struct tdfs_tree *tree, const struct stat *table, mode_t most,
		   struct stat *st)
{
	const struct tdfs_shown *shown = &tree->shown;

	st->st_mode |= most & (shown->has_umask ? ~shown->umask : table_mode(tree, table));
	st->st_uid = shown->has_uid ? shown->uid : table->st_uid;
	st->st_gid = shown->has_gid ? shown->gid : table->st_gid;
}

int tdfs_tree_stat(const struct tdfs_tree *tree, struct tdfs_node node, struct stat *st,
		   enum tdfs_lasting *lasting, tdl_error *error)
{
	bool directory = tdfs_node_is_directory(node), readable = true;
	struct stat table;
	off_t size = 0;
	int64_t time;
	int result = node.kind == TDFS_DATA
			     ? stat_data(tree, node, &size, &time, error)
			     : stat_other(tree, node, &size, &time, &readable, error);

	if (result < 0)
		return result;
	if (fstat(tdl_table_fd(tree->table), &table) < 0)
		return system_error(error, "the table's directory");
	*st = (struct stat){
		.st_ino = tdfs_node_ino(node),
		.st_mode = kinds[node.kind].type,
		.st_nlink = 1,
		.st_size = size,
		.st_blocks = size / 512 + (size % 512 != 0),
		.st_blksize = directory ? 4096 : 128 << 10,
	};
	tdfs_tree_own(tree, &table, directory ? 0555 : 0444, st);
	if (kinds[node.kind].type == S_IFLNK)
		st->st_mode |= 0777; /* nobody asks a link's, and everywhere they are these */
	st->st_mtim = st->st_ctim = st->st_atim = commit_time(time);
	if (kinds[node.kind].numbered)
		*lasting = readable ? TDFS_FOR_EVER : TDFS_NOW;
	else if (node.kind == TDFS_RECORDS) /* the kernel takes a size that it knows for the end */
		*lasting = TDFS_NOW;
	else
		*lasting = TDFS_A_MOMENT;
	return 0;
}

/* ---- Names -------------------------------------------------------------------------------- */

/* The digits between a rule's name and suffix: decimal, without leading zeros. */
static bool parse_number(const struct rule *rule, const char *name, int64_t *version)
{
	size_t prefix = strlen(rule->name);
	const char *digits = name + prefix;
	int64_t value = 0;

	if (strncmp(name, rule->name, prefix) != 0 || *digits < '0' || *digits > '9' ||
	    (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'))
		return false;
	for (; *digits >= '0' && *digits <= '9'; digits++) {
		if (value > TDFS_VERSION_MAX / 10)
			return false;
		value = value * 10 + (*digits - '0');
	}
	if (value > TDFS_VERSION_MAX || strcmp(digits, rule->suffix) != 0)
		return false;
	*version = value;
	return true;
}

/* The version of a name in at/. What is no time at all is as little there as any other name: tools
 * that look for .git or .Trash in every directory are none to be told of. */
static int find_moment(const struct tdfs_tree *tree, const char *name, int64_t *version,
		       tdl_error *error)
{
	char text[NAME_MAX + 2];
	int result;

	if ((size_t)snprintf(text, sizeof text, "@%s", name) >= sizeof text)
		return not_found(error);
	result = tdl_table_find_version(tree->table, text, version, error);
	if (result == TDL_ERR_MISUSE || (result == 0 && *version > TDFS_VERSION_MAX))
		return not_found(error);
	return result;
}

static int follow_rule(const struct tdfs_tree *tree, const struct rule *rule,
		       struct tdfs_node directory, const char *name, int64_t number,
		       struct tdfs_node *node, enum tdfs_lasting *lasting, tdl_error *error)
{
	struct tdfs_node found = { rule->kind, 0 };
	bool readable = true;
	int result = 0;

	switch (rule->which) {
	case NONE:
		break;
	case SAME:
		found.version = directory.version;
		break;
	case NEWEST:
		result = newest(tree, &found.version, error);
		break;
	case NUMBER:
		found.version = number;
		result = find_version(tree, number, &readable, error);
		break;
	case MOMENT:
		result = find_moment(tree, name, &found.version, error);
		break;
	}
	if (result < 0)
		return result;
	*node = found;
	*lasting = rule->which == NEWEST || rule->which == MOMENT || !readable ? TDFS_NOW
									       : TDFS_FOR_EVER;
	return 0;
}

int tdfs_tree_lookup(const struct tdfs_tree *tree, struct tdfs_node directory, const char *name,
		     struct tdfs_node *node, enum tdfs_lasting *lasting, tdl_error *error)
{
	if (!is_shown(tree, directory))
		return not_found(error);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		*node = name[1] == '\0' ? directory : tdfs_node_parent(directory);
		*lasting = TDFS_NOW;
		return 0;
	}
	directory = named_like(tree, directory);
	for (size_t i = 0; i < RULES; i++) {
		int64_t number = 0;

		if (rules[i].directory != directory.kind)
			continue;
		if (rules[i].which == MOMENT   ? true
		    : rules[i].which == NUMBER ? parse_number(&rules[i], name, &number)
					       : strcmp(rules[i].name, name) == 0)
			return follow_rule(tree, &rules[i], directory, name, number, node, lasting,
					   error);
	}
	return not_found(error);
}

/* What a name that leads to the newest version shows as its number in a listing: where the newest
 * cannot be read, that one's. The name itself is judged when it is looked up. */
static int64_t newest_shown(const struct tdfs_tree *tree)
{
	tdl_error error;

	if (tdl_table_damage(tree->table, &error) < 0 && error.version >= 0 &&
	    error.version <= TDFS_VERSION_MAX)
		return error.version;
	return tdl_table_head(tree->table);
}

/* The first version that is listed; those behind damage are newer than the newest known. */
static int64_t first_listed(const struct tdfs_tree *tree)
{
	int64_t head = tdl_table_head(tree->table);

	if (!tree->has_list || tree->list > (uint64_t)head)
		return 0;
	return tree->list == 0 ? TDFS_VERSION_MAX + 1 : head + 1 - (int64_t)tree->list;
}

/* Whether a name is listed; not so what holds all versions, where none of them is. */
static bool is_listed(const struct tdfs_tree *tree, const struct rule *rule)
{
	return rule->which != MOMENT &&
	       !(rule->kind == TDFS_RECORDS && tree->has_list && tree->list == 0);
}

int tdfs_tree_entry(const struct tdfs_tree *tree, struct tdfs_node directory, uint64_t offset,
		    struct tdfs_entry *entry)
{
	const struct rule *numbered = NULL;
	int64_t version;

	if (!is_shown(tree, directory))
		return 0;
	if (offset <= OFFSET_DOTDOT) {
		tdl_error ignored; /* what exists is listed, readable or not */

		if (offset == OFFSET_DOT && named_like(tree, directory).kind != TDFS_VERSION)
			tdl_table_refresh(tree->table, &ignored);
		*entry = (struct tdfs_entry){ .node = directory, .next = offset + 1 };
		strcpy(entry->name, offset == OFFSET_DOT ? "." : "..");
		if (offset == OFFSET_DOTDOT)
			entry->node = tdfs_node_parent(directory);
		return 1;
	}
	directory = named_like(tree, directory);
	for (size_t i = 0; i < RULES; i++) {
		if (rules[i].directory != directory.kind)
			continue;
		if (rules[i].which == NUMBER) {
			numbered = &rules[i];
		} else if (is_listed(tree, &rules[i]) && OFFSET_RULE + i >= offset) {
			*entry = (struct tdfs_entry){ .node = { rules[i].kind, 0 },
						      .next = OFFSET_RULE + i + 1 };
			if (rules[i].which == SAME)
				entry->node.version = directory.version;
			else if (rules[i].which == NEWEST)
				entry->node.version = newest_shown(tree);
			spell_name(&rules[i], 0, entry->name, sizeof entry->name);
			return 1;
		}
	}
	if (!numbered || offset > OFFSET_VERSION + (uint64_t)TDFS_VERSION_MAX)
		return 0;
	version = offset <= OFFSET_VERSION ? 0 : (int64_t)(offset - OFFSET_VERSION);
	if (version < first_listed(tree))
		version = first_listed(tree);
	version = tdl_table_next_version(tree->table, version - 1);
	if (version < 0 || version > TDFS_VERSION_MAX)
		return 0;
	*entry = (struct tdfs_entry){ .node = { numbered->kind, version },
				      .next = OFFSET_VERSION + (uint64_t)version + 1 };
	spell_name(numbered, version, entry->name, sizeof entry->name);
	return 1;
}
