/* SPDX-License-Identifier: MIT */
/*
 * Which mount options are for whom.
 */
#include "mountopts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

/* What the daemon is given for a list; static, so that a test can compare it in one line. */
static const char *daemon_list(const char *list, bool sloppy)
{
	static char text[4096];
	struct mountopts options = { 0 };
	char why[256] = "";

	if (mountopts_parse(&options, list, sloppy, why, sizeof why) < 0)
		snprintf(text, sizeof text, "refused: %s", why);
	else
		snprintf(text, sizeof text, "%s", options.daemon);
	mountopts_clear(&options);
	return text;
}

static void expect(const char *list, const char *wanted)
{
	const char *got = daemon_list(list, false);

	cr_expect_str_eq(got, wanted, "\"%s\" gives \"%s\", not \"%s\"", list, got, wanted);
}

Test(mountopts, nothing_to_say)
{
	expect("", "");
	expect("rw", "");
	expect("defaults", "");
	expect(",", "");
	expect("rw,,users,", "");
}

Test(mountopts, ro_and_rw_last_wins)
{
	expect("ro", "ro");
	expect("rw,ro", "ro");
	expect("ro,rw", "");
	expect("ro,rw,ro", "ro");
	expect("allow_other,ro,noatime", "ro,allow_other,noatime");
}

/* The list that mount(8) was seen to make of an fstab line. */
Test(mountopts, as_mount_hands_it_on)
{
	expect("rw,noatime,noexec,nosuid,nodev,allow_other,max_threads=3,nofail,user,_netdev",
	       "noatime,noexec,nosuid,nodev,allow_other,max_threads=3");
}

Test(mountopts, what_others_want_to_know_is_dropped)
{
	static const char *const names[] = {
		"nofail",
		"_netdev",
		"noauto",
		"auto",
		"user",
		"user=anna",
		"users",
		"owner",
		"group",
		"nouser",
		"x-systemd.automount",
		"x-systemd.requires=a.service",
		"x-gvfs-show",
		"X-mount.mkdir=0755",
		"comment=hello",
		"defaults",
		"relatime",
		"norelatime",
		"nodiratime",
		"diratime",
		"strictatime",
		"nosymfollow",
		"symfollow",
		"lazytime",
		"nolazytime",
		"mand",
		"nomand",
		"nonempty",
		"helper=tinydelta",
		"uhelper=udisks2",
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char list[256];

		expect(names[i], "");
		snprintf(list, sizeof list, "noexec,%s,ro", names[i]);
		expect(list, "ro,noexec");
	}
}

Test(mountopts, unknown_ones_are_named)
{
	expect("bogus", "refused: unknown option: bogus");
	expect("ro,verison=1", "refused: unknown option: verison=1 (did you mean version?)");
	expect("alow_other,ro", "refused: unknown option: alow_other (did you mean allow_other?)");
	expect("ro,bogus=1,noexec", "refused: unknown option: bogus=1");
	expect("allow_othe", "refused: unknown option: allow_othe (did you mean allow_other?)");
	expect("allow_others", "refused: unknown option: allow_others (did you mean allow_other?)");
	expect("=", "refused: unknown option: =");
	expect("=x", "refused: unknown option: =x");
	expect("ro=1", "refused: unknown option: ro=1");
	/* They make a daemon stay in the foreground, and mount(8) wait for ever. */
	expect("debug", "refused: unknown option: debug");
	expect("user_id=0", "refused: unknown option: user_id=0");
}

Test(mountopts, values)
{
	expect("max_read", "refused: option without a value: max_read");
	expect("comment", "refused: option without a value: comment");
	expect("noexec=1", "refused: option that takes no value: noexec=1");
	expect("fsname=", "fsname=");
	expect("fsname=a=b", "fsname=a=b");
}

Test(mountopts, sloppy_drops_what_it_does_not_know)
{
	cr_expect_str_eq(daemon_list("bogus,ro,noexec=1,more=less,noexec", true), "ro,noexec");
	cr_expect_str_eq(daemon_list("\"", true), "refused: a quote is not closed: \"");
}

Test(mountopts, commas_and_backslashes)
{
	/* A label: the kernel reads its quotes. */
	expect("context=\"system_u:object_r:tmp_t:s0:c1,c2\",ro",
	       "ro,context=\"system_u:object_r:tmp_t:s0:c1\\,c2\"");
	expect("fsname=\"a,b\"", "fsname=a\\,b");
	expect("fsname=a\\b", "fsname=a\\\\b");
	/* To mount(8) a backslash is not an escape. */
	expect("fsname=a\\,noexec", "fsname=a\\\\,noexec");
	expect("x-what=\"a,bogus\"", "");
	expect("x-what=\"a,ro", "refused: a quote is not closed: x-what=\"a,ro");
}

Test(mountopts, remount)
{
	struct mountopts options = { 0 };
	char why[256];

	/* As mount(8) makes it of what /proc/mounts shows. */
	cr_assert_eq(mountopts_parse(&options,
				     "rw,nosuid,user_id=0,group_id=0,allow_other,remount,ro,exec",
				     false, why, sizeof why),
		     0);
	cr_expect(options.remount);
	cr_expect(options.read_only);
	cr_expect_eq(options.set, MS_NOSUID);
	cr_expect_eq(options.clear, MS_NOEXEC);
	mountopts_clear(&options);

	cr_assert_eq(
		mountopts_parse(&options, "remount,nosuid,suid,relatime", false, why, sizeof why),
		0);
	cr_expect_not(options.read_only);
	cr_expect_eq(options.set, MS_RELATIME);
	cr_expect_eq(options.clear, MS_NOSUID);
	mountopts_clear(&options);

	cr_assert_eq(mountopts_parse(&options, "rw", false, why, sizeof why), 0);
	cr_expect_not(options.remount);
	mountopts_clear(&options);
}
