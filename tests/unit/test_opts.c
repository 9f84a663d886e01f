/* SPDX-License-Identifier: MIT */
/*
 * The daemon's command line.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "opts.h"

static struct tdfs_options options;
static char why[256];

/* Parses a command line, split at blanks. */
static int parse(const char *line)
{
	char *words[32], *copy = strdup(line), *rest = copy, *word;
	int count = 0, result;

	while ((word = strsep(&rest, " ")))
		words[count++] = word;
	why[0] = '\0';
	result = tdfs_options_parse(&options, count, words, why, sizeof why);
	free(copy);
	return result;
}

#define GOOD(line) cr_assert_eq(parse(line), 0, "%s: %s", line, why)
#define BAD(line, reason)                                  \
	do {                                               \
		cr_assert_eq(parse(line), -1, "%s", line); \
		cr_assert_str_eq(why, reason);             \
		tdfs_options_clear(&options);              \
	} while (0)

static void clear(void)
{
	tdfs_options_clear(&options);
}

TestSuite(opts, .fini = clear);

Test(opts, plain)
{
	GOOD("table mnt");
	cr_assert_str_eq(options.table, "table");
	cr_assert_str_eq(options.mountpoint, "mnt");
	cr_assert_str_eq(options.flags, "");
	cr_assert_not(options.foreground || options.debug || options.single_threaded ||
		      options.read_only || options.auto_unmount || options.help);
	cr_assert_eq(options.access, TDFS_OWNER_ONLY);
	cr_assert_eq(options.max_threads, 10);
	cr_assert_eq(options.max_read, 1 << 20);
	cr_assert_eq(options.read_ahead_kib, 1024);
	cr_assert_null(options.fsname);
	cr_assert_null(options.subtype);
}

Test(opts, as_mount_programs_call_it)
{
	GOOD("/srv/t /mnt/t -o rw,dev,suid,noatime,nofail,_netdev,relatime,x-systemd.automount");
	cr_assert_str_eq(options.flags, "dev,suid,noatime");
	cr_assert_not(options.read_only);
}

Test(opts, list_before_operands)
{
	GOOD("-o ro,allow_other -- -table -mnt");
	cr_assert(options.read_only);
	cr_assert_eq(options.access, TDFS_ALLOW_OTHER);
	cr_assert_str_eq(options.table, "-table");
	cr_assert_str_eq(options.mountpoint, "-mnt");
}

Test(opts, letters_together)
{
	GOOD("t -fs m -oro");
	cr_assert(options.foreground && options.single_threaded && options.read_only);
	cr_assert_not(options.debug);
	clear();
	GOOD("-d t m");
	cr_assert(options.foreground && options.debug);
}

Test(opts, the_last_of_ro_and_rw_wins)
{
	GOOD("t m -o ro,rw");
	cr_assert_not(options.read_only);
	clear();
	GOOD("t m -o rw -o ro");
	cr_assert(options.read_only);
}

Test(opts, empty_elements)
{
	GOOD("t m -o ,,sync,,users, -o ,");
	cr_assert_str_eq(options.flags, "sync");
}

Test(opts, values)
{
	GOOD("t m -o max_threads=1,max_read=4096,read_ahead_kb=0,fsname=a,subtype=b");
	cr_assert_eq(options.max_threads, 1);
	cr_assert_eq(options.max_read, 4096);
	cr_assert_eq(options.read_ahead_kib, 0);
	cr_assert_str_eq(options.fsname, "a");
	cr_assert_str_eq(options.subtype, "b");
	cr_assert_not(options.has_list);
	clear();
	GOOD("t m -o list=12");
	cr_assert(options.has_list);
	cr_assert_eq(options.list, 12);
	clear();
	GOOD("t m -o list=0,list=all");
	cr_assert_not(options.has_list);
	clear();
	GOOD("t m -o max_read=99999999,fsname=first,fsname=second");
	cr_assert_eq(options.max_read, TDFS_MAX_READ, "more is not possible");
	cr_assert_str_eq(options.fsname, "second");
}

Test(opts, one_version)
{
	GOOD("t m");
	cr_assert_null(options.version);
	clear();
	GOOD("t m -o version=0,rw");
	cr_assert_str_eq(options.version, "0");
	cr_assert(options.read_only, "whatever else is said");
	clear();
	GOOD("t m -o version=@2026-11-29T18:40~2");
	cr_assert_str_eq(options.version, "@2026-11-29T18:40~2", "what it means the table says");
}

Test(opts, owner_and_mode)
{
	GOOD("t m");
	cr_assert_not(options.shown.has_uid || options.shown.has_gid || options.shown.has_umask);
	clear();
	GOOD("t m -o uid=1000,gid=0,umask=027");
	cr_assert(options.shown.has_uid && options.shown.has_gid && options.shown.has_umask);
	cr_assert_eq(options.shown.uid, 1000);
	cr_assert_eq(options.shown.gid, 0);
	cr_assert_eq(options.shown.umask, 027);
}

Test(opts, a_log)
{
	GOOD("t m -o log=/var/log/a\\,b.log");
	cr_assert_str_eq(options.log, "/var/log/a,b.log");
}

Test(opts, a_remount)
{
	GOOD("t m -o rw,user_id=0,group_id=0,remount,noatime");
	cr_assert(options.remount);
	cr_assert_str_eq(options.flags, "noatime");
}

Test(opts, commas_in_values)
{
	GOOD("t m -o fsname=a\\,b\\\\c,ro");
	cr_assert_str_eq(options.fsname, "a,b\\c");
	cr_assert(options.read_only);
	clear();
	GOOD("t m -o context=\"u:r:t:c1,c2\",ro");
	cr_assert_str_eq(options.flags, "context=\"u:r:t:c1\\,c2\"");
	cr_assert(options.read_only);
}

Test(opts, help_and_version_need_nothing_else)
{
	GOOD("-h");
	cr_assert(options.help);
	clear();
	GOOD("--version");
	cr_assert(options.show_version);
}

Test(opts, refused)
{
	BAD("t", "no mount point given");
	BAD("-f", "no table given");
	BAD("a b c", "too many arguments: c");
	BAD("a  b", "an empty path");
	BAD("a b -x", "unknown option: -x");
	BAD("a b --foreground", "unknown option: --foreground");
	BAD("a b -o", "-o needs an argument");
	BAD("a b -o bogus", "unknown option: bogus");
	BAD("a b -o alow_other", "unknown option: alow_other (did you mean allow_other?)");
	BAD("a b -o verison=3", "unknown option: verison=3 (did you mean version?)");
	BAD("a b -o bogus=1", "unknown option: bogus=1");
	BAD("a b -o ro=1", "unknown option: ro=1 (did you mean it without a value?)");
	BAD("a b -o =x", "unknown option: =x");
	BAD("a b -o list=-1", "option list: \"-1\" is not valid");
	BAD("a b -o list=", "option list: \"\" is not valid");
	BAD("a b -o list", "unknown option: list");
	BAD("a b -o max_threads=0", "option max_threads: \"0\" is not valid");
	BAD("a b -o max_threads=-1", "option max_threads: \"-1\" is not valid");
	BAD("a b -o max_threads=2x", "option max_threads: \"2x\" is not valid");
	BAD("a b -o max_read=1", "option max_read: \"1\" is not valid");
	BAD("a b -o read_ahead_kb=99999999999999999999",
	    "option read_ahead_kb: \"99999999999999999999\" is not valid");
	BAD("a b -o fsname=", "option fsname: \"\" is not valid");
	BAD("a b -o max_threads", "unknown option: max_threads (did you mean it with a value?)");
	BAD("a b -o version=", "option version: \"\" is not valid");
	BAD("a b -o version", "unknown option: version (did you mean it with a value?)");
	BAD("a b -o uid=4294967295", "option uid: \"4294967295\" is not valid");
	BAD("a b -o gid=root", "option gid: \"root\" is not valid");
	BAD("a b -o umask=8", "option umask: \"8\" is not valid");
	BAD("a b -o umask=1777", "option umask: \"1777\" is not valid");
	BAD("a b -o log=", "option log: \"\" is not valid");
	BAD("a b -o user_id=0", "unknown option: user_id");
}

Test(opts, append)
{
	char *list = NULL;

	cr_assert_eq(tdfs_options_append(&list, "a", NULL), 0);
	cr_assert_eq(tdfs_options_append(&list, "b", "x,y\\z"), 0);
	cr_assert_eq(tdfs_options_append(&list, "c", ""), 0);
	cr_assert_str_eq(list, "a,b=x\\,y\\\\z,c=");
	free(list);
}
