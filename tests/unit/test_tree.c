/* SPDX-License-Identifier: MIT */
/*
 * The read-only tree, on small tables with hand-written logs.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "versions/tree.h"

static char folder[] = "/tmp/test_tree.XXXXXX";
static struct tdfs_tree tree = { .only = -1 };
static tdl_error error;

static const struct tdfs_node root = { TDFS_ROOT, 0 }, latest = { TDFS_LATEST, 0 },
			      history = { TDFS_HISTORY, 0 }, incoming = { TDFS_INCOMING, 0 };

/* ---- Numbers ------------------------------------------------------------------------------ */

Test(numbers, are_for_ever)
{
	/* Backups and NFS handles hold these: no change may move them. */
	cr_assert_eq(tdfs_node_ino(root), 1);
	cr_assert_eq(tdfs_node_ino(incoming), 2);
	cr_assert_eq(tdfs_node_ino(latest), 3);
	cr_assert_eq(tdfs_node_ino(history), 4);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_AT, 0 }), 5);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_RECORDS, 0 }), 8);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_AT_README, 0 }), 9);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_VERSION, 0 }), 16);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_DATA, 0 }), 17);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_RECORD, 0 }), 18);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_LINK, 0 }), 19);
	cr_assert_eq(tdfs_node_ino((struct tdfs_node){ TDFS_DATA, 1000000 }), 16000017);
}

Test(numbers, lead_back_to_their_node)
{
	static const int64_t versions[] = { 0, 1, 15, 16, 1000000, TDFS_VERSION_MAX };

	for (int kind = 0; kind < TDFS_KINDS; kind++) {
		for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
			struct tdfs_node node = { (enum tdfs_kind)kind,
						  kind < TDFS_VERSION ? 0 : versions[i] };
			struct tdfs_node back = { TDFS_KINDS, -1 };
			uint64_t ino = tdfs_node_ino(node);

			cr_assert_gt(ino, 0);
			cr_assert_lt(ino, (uint64_t)1 << 62);
			cr_assert(tdfs_node_from_ino(ino, &back));
			cr_assert_eq(back.kind, node.kind);
			cr_assert_eq(back.version, node.version);
		}
	}
}

Test(numbers, of_nothing)
{
	static const uint64_t none[] = { 0, 6, 15, 20, 31, (uint64_t)1 << 62, UINT64_MAX };
	struct tdfs_node node;

	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		cr_assert_not(tdfs_node_from_ino(none[i], &node), "%" PRIu64, none[i]);
}

Test(numbers, paths)
{
	char path[TDFS_PATH_MAX];

	cr_assert_str_eq(tdfs_node_path(root, path), "/");
	cr_assert_str_eq(tdfs_node_path(latest, path), "latest");
	cr_assert_str_eq(tdfs_node_path((struct tdfs_node){ TDFS_VERSION, 7 }, path), "v7");
	cr_assert_str_eq(tdfs_node_path((struct tdfs_node){ TDFS_DATA, 7 }, path), "v7/data.jsonl");
	cr_assert_str_eq(tdfs_node_path((struct tdfs_node){ TDFS_RECORD, 7 }, path),
			 "history/v7.json");
	cr_assert_str_eq(tdfs_node_path((struct tdfs_node){ TDFS_LINK, 7 }, path), "at/../v7");
}

/* ---- A table ------------------------------------------------------------------------------ */

static void write_file(const char *name, const char *content)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(content, file);
	fclose(file);
}

#define META                                                              \
	"{\"metaData\":{\"id\":\"00000000-0000-0000-0000-000000000000\"," \
	"\"schema\":[{\"name\":\"i\",\"type\":\"int\"}]}}\n"

static void commit(int64_t version, int64_t timestamp, const char *actions)
{
	char name[64], content[1024];

	snprintf(name, sizeof name, "_delta_log/%020" PRId64 ".json", version);
	snprintf(content, sizeof content,
		 "{\"commitInfo\":{\"timestamp\":%" PRId64
		 ",\"operation\":\"WRITE\",\"readVersion\":null}}\n%s",
		 timestamp, actions);
	write_file(name, content);
}

static void add(int64_t version, int64_t timestamp, const char *content)
{
	char name[64], actions[256];

	snprintf(name, sizeof name, "part-%032" PRId64 ".jsonl", version);
	write_file(name, content);
	snprintf(actions, sizeof actions,
		 "{\"add\":{\"path\":\"%s\",\"size\":%zu,\"numRecords\":1}}\n", name,
		 strlen(content));
	commit(version, timestamp, actions);
}

static void open_table(void)
{
	cr_assert_eq(tdl_table_open(folder, TDL_OPEN_READ_ONLY, &tree.table, &error), 0, "%s",
		     error.message);
}

static void make_table(void)
{
	char path[256];

	cr_assert_not_null(mkdtemp(folder));
	chmod(folder, 0750);
	snprintf(path, sizeof path, "%s/_delta_log", folder);
	mkdir(path, 0755);
	commit(0, 1000, META);
	add(1, 2500, "{\"i\":1}\n");
	add(2, 3000, "{\"i\":2}");
}

static void remove_table(void)
{
	char command[256];

	tdl_table_free(tree.table);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	if (system(command) != 0)
		perror(folder);
}

TestSuite(tree, .init = make_table, .fini = remove_table);

static struct stat stat_of(enum tdfs_kind kind, int64_t version, enum tdfs_lasting wanted)
{
	enum tdfs_lasting lasting;
	struct stat st;

	cr_assert_eq(
		tdfs_tree_stat(&tree, (struct tdfs_node){ kind, version }, &st, &lasting, &error),
		0, "%s", error.message);
	cr_assert_eq(lasting, wanted);
	return st;
}

Test(tree, attributes)
{
	struct stat st;

	open_table();
	st = stat_of(TDFS_ROOT, 0, TDFS_A_MOMENT);
	cr_assert_eq(st.st_mode, S_IFDIR | 0550);
	cr_assert_eq(st.st_nlink, 1);
	cr_assert_eq(st.st_uid, geteuid());
	cr_assert_eq(st.st_mtim.tv_sec, 3);
	st = stat_of(TDFS_VERSION, 1, TDFS_FOR_EVER);
	cr_assert_eq(st.st_mode, S_IFDIR | 0550);
	cr_assert_eq(st.st_mtim.tv_sec, 2);
	cr_assert_eq(st.st_mtim.tv_nsec, 500000000);
	st = stat_of(TDFS_DATA, 2, TDFS_FOR_EVER);
	cr_assert_eq(st.st_mode, S_IFREG | 0440);
	cr_assert_eq(st.st_nlink, 1);
	cr_assert_eq(st.st_size, 16, "with the newline that the second file lacks");
	cr_assert_eq(st.st_blocks, 1);
	st = stat_of(TDFS_DATA, 0, TDFS_FOR_EVER);
	cr_assert_eq(st.st_size, 0);
	cr_assert_eq(st.st_blocks, 0);
}

Test(tree, set_id_and_sticky_bits_do_not_show)
{
	chmod(folder, 07777);
	open_table();
	cr_assert_eq(stat_of(TDFS_ROOT, 0, TDFS_A_MOMENT).st_mode, S_IFDIR | 0555);
	cr_assert_eq(stat_of(TDFS_DATA, 1, TDFS_FOR_EVER).st_mode, S_IFREG | 0444);
}

static void expect_mode_under_acl(const uint16_t (*entries)[3], size_t count, mode_t expected)
{
	unsigned char acl[4 + 8 * 8] = { 2 };
	mode_t mode;

	for (size_t i = 0; i < count; i++) {
		unsigned char *entry = acl + 4 + 8 * i;

		entry[0] = (unsigned char)entries[i][0];
		entry[2] = (unsigned char)entries[i][1];
		memset(entry + 4, entries[i][2] ? 0 : 0xff, 4);
		entry[4] = (unsigned char)(entries[i][2] ? entries[i][2] : 0xff);
	}
	if (setxattr(folder, "system.posix_acl_access", acl, 4 + 8 * count, 0) != 0)
		cr_skip("no access control lists here");
	mode = stat_of(TDFS_ROOT, 0, TDFS_A_MOMENT).st_mode & 0777;
	cr_expect_eq(mode, expected, "%o instead of %o", mode, expected);
}

Test(tree, the_mask_of_an_acl_is_not_what_the_group_may)
{
	/* tag (1 owner, 2 user, 4 group, 8 named group, 16 mask, 32 others), rights, number */
	static const uint16_t named_only[][3] = {
		{ 1, 7, 0 }, { 2, 5, 1 }, { 4, 0, 0 }, { 16, 5, 0 }, { 32, 0, 0 },
	};
	static const uint16_t masked[][3] = {
		{ 1, 7, 0 }, { 2, 7, 1 }, { 4, 7, 0 }, { 16, 4, 0 }, { 32, 5, 0 },
	};
	static const uint16_t kept_out[][3] = {
		{ 1, 7, 0 }, { 2, 0, 1 }, { 4, 5, 0 }, { 16, 5, 0 }, { 32, 5, 0 },
	};
	static const uint16_t group_out[][3] = {
		{ 1, 7, 0 }, { 4, 5, 0 }, { 8, 0, 1 }, { 16, 5, 0 }, { 32, 5, 0 },
	};
	static const uint16_t own_group[][3] = {
		{ 1, 7, 0 }, { 4, 1, 0 }, { 8, 5, 77 }, { 16, 7, 0 }, { 32, 0, 0 },
	};
	static const uint16_t plain[][3] = { { 1, 7, 0 }, { 4, 5, 0 }, { 32, 5, 0 } };

	open_table();
	expect_mode_under_acl(named_only, 5, 0500);
	expect_mode_under_acl(masked, 5, 0544);
	expect_mode_under_acl(kept_out, 5, 0500);
	expect_mode_under_acl(group_out, 5, 0550);
	expect_mode_under_acl(plain, 3, 0555);
	if (chown(folder, (uid_t)-1, 77) == 0)
		expect_mode_under_acl(own_group, 5, 0550);
}

Test(tree, times_of_hostile_logs)
{
	commit(0, -5, META);
	add(3, 2000, "{\"i\":3}\n");
	add(4, INT64_MAX, "{\"i\":4}\n");
	add(5, -5, "{\"i\":5}\n");
	open_table();
	cr_assert_eq(tdl_table_head(tree.table), 5);
	cr_assert_eq(stat_of(TDFS_VERSION, 0, TDFS_FOR_EVER).st_mtim.tv_sec, 0);
	cr_assert_eq(stat_of(TDFS_VERSION, 0, TDFS_FOR_EVER).st_mtim.tv_nsec, 0);
	/* The clock was set back behind version 2, which is of 3000. */
	cr_assert_eq(stat_of(TDFS_VERSION, 3, TDFS_FOR_EVER).st_mtim.tv_sec, 3);
	cr_assert_eq(stat_of(TDFS_VERSION, 3, TDFS_FOR_EVER).st_mtim.tv_nsec, 1000000);
	cr_assert_eq(stat_of(TDFS_VERSION, 4, TDFS_FOR_EVER).st_mtim.tv_sec, 253402300799);
	cr_assert_eq(stat_of(TDFS_VERSION, 5, TDFS_FOR_EVER).st_mtim.tv_sec, 253402300799);
}

Test(tree, a_record_is_as_long_as_its_text)
{
	char *text;
	size_t length;

	open_table();
	cr_assert_eq(tdfs_tree_render(&tree, (struct tdfs_node){ TDFS_RECORD, 1 }, &text, &length,
				      &error),
		     0);
	cr_assert_eq(stat_of(TDFS_RECORD, 1, TDFS_FOR_EVER).st_size, (off_t)length);
	cr_assert_eq(text[length - 1], '\n');
	free(text);
}

/* Looks a name up; returns the code. */
static int lookup(struct tdfs_node directory, const char *name, struct tdfs_node *node,
		  enum tdfs_lasting *lasting)
{
	return tdfs_tree_lookup(&tree, directory, name, node, lasting, &error);
}

static void leads(struct tdfs_node directory, const char *name, enum tdfs_kind kind,
		  int64_t version, enum tdfs_lasting wanted)
{
	enum tdfs_lasting lasting;
	struct tdfs_node node;

	cr_assert_eq(lookup(directory, name, &node, &lasting), 0, "%s: %s", name, error.message);
	cr_assert_eq(node.kind, kind, "%s", name);
	cr_assert_eq(node.version, version, "%s", name);
	cr_assert_eq(lasting, wanted, "%s", name);
}

Test(tree, names)
{
	const struct tdfs_node v1 = { TDFS_VERSION, 1 }, data = { TDFS_DATA, 1 };

	open_table();
	leads(root, "latest", TDFS_LATEST, 0, TDFS_FOR_EVER);
	leads(root, "history", TDFS_HISTORY, 0, TDFS_FOR_EVER);
	leads(root, "incoming", TDFS_INCOMING, 0, TDFS_FOR_EVER);
	leads(root, "v0", TDFS_VERSION, 0, TDFS_FOR_EVER);
	leads(root, "v2", TDFS_VERSION, 2, TDFS_FOR_EVER);
	leads(v1, "data.jsonl", TDFS_DATA, 1, TDFS_FOR_EVER);
	leads(latest, "data.jsonl", TDFS_DATA, 2, TDFS_NOW);
	leads(history, "v1.json", TDFS_RECORD, 1, TDFS_FOR_EVER);
	leads(history, "latest.json", TDFS_RECORD, 2, TDFS_NOW);
	leads(v1, ".", TDFS_VERSION, 1, TDFS_NOW);
	leads(v1, "..", TDFS_ROOT, 0, TDFS_NOW);
	leads(data, "..", TDFS_VERSION, 1, TDFS_NOW);
	leads(root, "..", TDFS_ROOT, 0, TDFS_NOW);
}

Test(tree, a_time_leads_to_the_link_of_its_version)
{
	static const char *const none[] = { "",	   "x",		 ".git",      "-1y",
					    "999", "0000000000", "9999-01-01" };
	const struct tdfs_node at = { TDFS_AT, 0 };
	char target[TDFS_PATH_MAX], *text, name[256];
	enum tdfs_lasting lasting;
	struct tdfs_node node;
	struct stat st;
	size_t length;

	open_table(); /* of 1000, 2500 and 3000 ms */
	leads(root, "at", TDFS_AT, 0, TDFS_FOR_EVER);
	leads(at, "1970-01-01T00:00:01Z", TDFS_LINK, 0, TDFS_NOW);
	leads(at, "1970-01-01T00:00:02.499Z", TDFS_LINK, 0, TDFS_NOW);
	leads(at, "0000000002500", TDFS_LINK, 1, TDFS_NOW);
	leads(at, "0000000003~1", TDFS_LINK, 1, TDFS_NOW);
	leads(at, "-2h", TDFS_LINK, 2, TDFS_NOW);
	leads(at, "README", TDFS_AT_README, 0, TDFS_FOR_EVER);
	leads(at, "..", TDFS_ROOT, 0, TDFS_NOW);
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		cr_expect_eq(lookup(at, none[i], &node, &lasting), TDL_ERR_NOT_FOUND, "%s",
			     none[i]);
	memset(name, '1', 255);
	name[255] = '\0';
	cr_expect_eq(lookup(at, name, &node, &lasting), TDL_ERR_NOT_FOUND);

	st = stat_of(TDFS_LINK, 1, TDFS_FOR_EVER);
	cr_assert_eq(st.st_mode, S_IFLNK | 0777);
	cr_assert_eq(st.st_size, 5);
	cr_assert_eq(st.st_mtim.tv_sec, 2);
	cr_assert(tdfs_tree_readlink(&tree, (struct tdfs_node){ TDFS_LINK, 1 }, target));
	cr_assert_str_eq(target, "../v1");
	cr_assert_not(tdfs_tree_readlink(&tree, at, target));

	setenv("TZ", "XYZ-5", 1);
	tdfs_tree_read_zone(&tree);
	cr_assert_eq(tdfs_tree_render(&tree, (struct tdfs_node){ TDFS_AT_README, 0 }, &text,
				      &length, &error),
		     0);
	cr_assert_not_null(strstr(text, " XYZ-5 (XYZ, UTC+0500 when"));
	cr_assert_eq(stat_of(TDFS_AT_README, 0, TDFS_A_MOMENT).st_size, (off_t)length);
	cr_assert_eq(stat_of(TDFS_AT_README, 0, TDFS_A_MOMENT).st_mtim.tv_sec, 1);
	free(text);
}

Test(tree, names_that_are_none)
{
	static const char *const names[] = {
		"v",
		"v01",
		"v00",
		"v3",
		"V1",
		"v1 ",
		" v1",
		"v-1",
		"v+1",
		"v1x",
		"v1.json",
		"v0x1",
		"latest",
		"Latest2",
		"data.jsonl",
		"",
		"v1\n",
		"v\xd9\xa1",
		"v1e0",
		"v4294967296",
		"v18446744073709551617",
		"v288230376151711743",
		"v99999999999999999999999999999999999999999999",
	};
	enum tdfs_lasting lasting;
	struct tdfs_node node;

	open_table();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(names[i], "latest") != 0)
			cr_assert_eq(lookup(root, names[i], &node, &lasting), TDL_ERR_NOT_FOUND,
				     "%s", names[i]);
		if (strcmp(names[i], "v1.json") != 0)
			cr_assert_eq(lookup(history, names[i], &node, &lasting), TDL_ERR_NOT_FOUND,
				     "%s", names[i]);
		cr_assert_eq(lookup(incoming, names[i], &node, &lasting), TDL_ERR_NOT_FOUND);
	}
}

Test(tree, a_commit_is_found_when_it_is_looked_for)
{
	open_table();
	add(3, 4000, "{\"i\":3}\n");
	leads(root, "v3", TDFS_VERSION, 3, TDFS_FOR_EVER);
	add(4, 5000, "{\"i\":4}\n");
	leads(latest, "data.jsonl", TDFS_DATA, 4, TDFS_NOW);
	add(5, 6000, "{\"i\":5}\n");
	cr_assert_eq(stat_of(TDFS_ROOT, 0, TDFS_A_MOMENT).st_mtim.tv_sec, 6);
}

/* ---- Damage ------------------------------------------------------------------------------- */

Test(tree, behind_a_torn_commit)
{
	const struct tdfs_node v3 = { TDFS_VERSION, 3 };
	enum tdfs_lasting lasting;
	struct tdfs_node node;
	struct stat st;

	write_file("_delta_log/00000000000000000003.json", "{\"commitInfo\":{\"timest");
	add(4, 5000, "{\"i\":4}\n");
	open_table();
	leads(latest, ".", TDFS_LATEST, 0, TDFS_NOW);
	cr_assert_eq(lookup(latest, "data.jsonl", &node, &lasting), TDL_ERR_CORRUPT);
	cr_assert_eq(lookup(history, "latest.json", &node, &lasting), TDL_ERR_CORRUPT);
	leads(root, "v2", TDFS_VERSION, 2, TDFS_FOR_EVER);
	leads(root, "v3", TDFS_VERSION, 3, TDFS_NOW);
	leads(root, "v4", TDFS_VERSION, 4, TDFS_NOW);
	cr_assert_eq(lookup(root, "v5", &node, &lasting), TDL_ERR_NOT_FOUND);
	stat_of(TDFS_VERSION, 4, TDFS_NOW);
	cr_assert_eq(lookup(v3, "data.jsonl", &node, &lasting), 0);
	cr_assert_eq(tdfs_tree_stat(&tree, node, &st, &lasting, &error), TDL_ERR_CORRUPT);
	cr_assert_eq(stat_of(TDFS_DATA, 2, TDFS_FOR_EVER).st_size, 16);
}

Test(tree, a_data_file_that_is_too_short)
{
	enum tdfs_lasting lasting;
	tdl_snapshot *snapshot;
	struct stat st;
	uint64_t size;

	write_file("part-00000000000000000000000000000002.jsonl", "{\"i\":");
	open_table();
	cr_assert_eq(
		tdfs_tree_stat(&tree, (struct tdfs_node){ TDFS_DATA, 2 }, &st, &lasting, &error),
		TDL_ERR_CORRUPT);
	cr_assert_eq(tdfs_tree_open_data(&tree, (struct tdfs_node){ TDFS_DATA, 2 }, &snapshot,
					 &size, &error),
		     TDL_ERR_CORRUPT);
	cr_assert_eq(stat_of(TDFS_DATA, 1, TDFS_FOR_EVER).st_size, 8);
}

/* ---- Listings ----------------------------------------------------------------------------- */

static void listed(struct tdfs_node directory, uint64_t offset, const char *wanted)
{
	char names[512] = "";
	struct tdfs_entry entry;

	while (tdfs_tree_entry(&tree, directory, offset, &entry) > 0) {
		cr_assert_gt(entry.next, offset, "offsets grow");
		cr_assert_gt(tdfs_node_ino(entry.node), 0);
		offset = entry.next;
		strcat(strcat(names, entry.name), " ");
	}
	cr_assert_str_eq(names, wanted);
}

Test(tree, listings)
{
	open_table();
	listed(root, 0, ". .. at latest history incoming history.jsonl v0 v1 v2 ");
	listed(latest, 0, ". .. data.jsonl ");
	listed(history, 0, ". .. latest.json v0.json v1.json v2.json ");
	listed(incoming, 0, ". .. ");
	listed((struct tdfs_node){ TDFS_VERSION, 1 }, 0, ". .. data.jsonl ");
	listed(root, UINT64_MAX, "");
	listed(root, (uint64_t)1 << 63, "");
}

Test(tree, a_listing_goes_on_where_it_was)
{
	uint64_t offset = 0;
	struct tdfs_entry entry;

	open_table();
	while (tdfs_tree_entry(&tree, root, offset, &entry) > 0 && strcmp(entry.name, "v1") != 0)
		offset = entry.next;
	add(3, 4000, "{\"i\":3}\n");
	tdl_table_refresh(tree.table, NULL);
	listed(root, entry.next, "v2 v3 ");
	/* And so it does in a daemon started later. */
	tdl_table_free(tree.table);
	open_table();
	listed(root, entry.next, "v2 v3 ");
}

Test(tree, names_in_listings_have_the_numbers_they_lead_to)
{
	static const enum tdfs_kind kinds[] = { TDFS_ROOT, TDFS_LATEST, TDFS_HISTORY,
						TDFS_VERSION };

	open_table();
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct tdfs_node directory = { kinds[i], kinds[i] == TDFS_VERSION ? 2 : 0 };
		enum tdfs_lasting lasting;
		struct tdfs_entry entry;
		struct tdfs_node node;

		for (uint64_t offset = 0; tdfs_tree_entry(&tree, directory, offset, &entry) > 0;
		     offset = entry.next) {
			cr_assert_eq(lookup(directory, entry.name, &node, &lasting), 0);
			cr_assert_eq(tdfs_node_ino(node), tdfs_node_ino(entry.node), "%s",
				     entry.name);
		}
	}
}

Test(tree, listings_with_damage)
{
	write_file("_delta_log/00000000000000000003.json", "");
	add(7, 5000, "{\"i\":7}\n");
	open_table();
	listed(root, 0, ". .. at latest history incoming history.jsonl v0 v1 v2 v3 v7 ");
	listed(latest, 0, ". .. data.jsonl ");
}

/* ---- One version alone --------------------------------------------------------------------- */

static int look_up(enum tdfs_kind kind, const char *name, struct tdfs_node *node)
{
	enum tdfs_lasting lasting;

	return tdfs_tree_lookup(&tree, (struct tdfs_node){ kind, 0 }, name, node, &lasting, &error);
}

Test(tree, one_version)
{
	static const struct tdfs_node others[] = { { TDFS_LATEST, 0 },	{ TDFS_HISTORY, 0 },
						   { TDFS_RECORDS, 0 }, { TDFS_INCOMING, 0 },
						   { TDFS_VERSION, 1 }, { TDFS_DATA, 2 },
						   { TDFS_RECORD, 1 } };
	static const char *const names[] = { "v1", "latest", "incoming", "history", "data.json" };
	struct tdfs_entry entry;
	enum tdfs_lasting lasting;
	struct tdfs_node node;
	tdl_snapshot *snapshot;
	uint64_t size;
	struct stat st;
	char *text;
	size_t length;

	open_table();
	tree.only = 1;
	st = stat_of(TDFS_ROOT, 0, TDFS_A_MOMENT);
	cr_assert_eq(st.st_ino, 1);
	cr_assert_eq(st.st_mtim.tv_sec, 2, "that of its commit");
	cr_assert_eq(look_up(TDFS_ROOT, "data.jsonl", &node), 0);
	cr_assert_eq(node.kind, TDFS_DATA);
	cr_assert_eq(node.version, 1);
	cr_assert_eq(look_up(TDFS_ROOT, "..", &node), 0);
	cr_assert_eq(node.kind, TDFS_ROOT);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		cr_assert_eq(look_up(TDFS_ROOT, names[i], &node), TDL_ERR_NOT_FOUND);
	/* Numbers that an NFS client has kept of a mount of everything. */
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		cr_assert_eq(tdfs_tree_stat(&tree, others[i], &st, &lasting, &error),
			     TDL_ERR_NOT_FOUND);
		cr_assert_eq(look_up(others[i].kind, "data.jsonl", &node), TDL_ERR_NOT_FOUND);
		cr_assert_eq(tdfs_tree_entry(&tree, others[i], 0, &entry), 0);
	}
	cr_assert_eq(tdfs_tree_open_data(&tree, others[4], &snapshot, &size, &error),
		     TDL_ERR_NOT_FOUND);
	cr_assert_eq(tdfs_tree_render(&tree, others[5], &text, &length, &error), TDL_ERR_NOT_FOUND);
	cr_assert_eq(tdfs_tree_entry(&tree, root, 0, &entry), 1);
	cr_assert_eq(tdfs_tree_entry(&tree, root, entry.next, &entry), 1);
	cr_assert_str_eq(entry.name, "..");
	cr_assert_eq(entry.node.kind, TDFS_ROOT);
	cr_assert_eq(tdfs_tree_entry(&tree, root, entry.next, &entry), 1);
	cr_assert_str_eq(entry.name, "data.jsonl");
	cr_assert_eq(entry.node.version, 1);
	cr_assert_eq(tdfs_tree_entry(&tree, root, entry.next, &entry), 0);
}

Test(tree, owner_and_modes_as_told)
{
	struct stat st;

	open_table();
	tree.shown = (struct tdfs_shown){ .has_uid = true,
					  .uid = 12,
					  .has_gid = true,
					  .gid = 34,
					  .has_umask = true,
					  .umask = 007 };
	st = stat_of(TDFS_DATA, 1, TDFS_FOR_EVER);
	cr_assert_eq(st.st_uid, 12);
	cr_assert_eq(st.st_gid, 34);
	cr_assert_eq(st.st_mode, S_IFREG | 0440);
	tree.shown.umask = 0;
	/* Whatever is asked for, nothing becomes writable, and no file can be run. */
	cr_assert_eq(stat_of(TDFS_DATA, 1, TDFS_FOR_EVER).st_mode, S_IFREG | 0444);
	cr_assert_eq(stat_of(TDFS_VERSION, 1, TDFS_FOR_EVER).st_mode, S_IFDIR | 0555);
	cr_assert_eq(stat_of(TDFS_ROOT, 0, TDFS_A_MOMENT).st_mode, S_IFDIR | 0555);
	tree.shown.umask = 0777;
	cr_assert_eq(stat_of(TDFS_ROOT, 0, TDFS_A_MOMENT).st_mode, S_IFDIR);
}
