/* SPDX-License-Identifier: MIT */
/* Which names in incoming/ mean something. */
#include <criterion/criterion.h>
#include <string.h>

#include "incoming/name_rules.h"

Test(names, temporary)
{
	static const char *const yes[] = { ".x",	   ".",		"x~",	   "~",
					   "x.tmp",	   ".tmp",	"x.part",  "x.partial",
					   "x.swp",	   ".x.swpx",	"a.b.tmp", "x.bak",
					   "x.orig",	   "x.old",	"x.save",  "x.new",
					   "x.crdownload", "x.filepart" };
	static const char *const no[] = { "x",		 "x.jsonl", "tmp",     "x.TMP",
					  "x.tmp.jsonl", "part",    "x.parts", "x.error",
					  "v3",		 "~x",	    "x.news",  "bak",
					  "x.bak.jsonl", "xnew" };

	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
		cr_expect(tdfs_name_is_temporary(yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof no / sizeof *no; i++)
		cr_expect(!tdfs_name_is_temporary(no[i]), "%s", no[i]);
}

Test(names, too_long)
{
	char name[300];

	memset(name, 'n', sizeof name);
	name[222] = '\0';
	cr_expect(!tdfs_name_is_too_long(name));
	name[222] = 'n';
	name[223] = '\0';
	cr_expect(tdfs_name_is_too_long(name));
	/* Whatever rsync puts round a name that is not. */
	name[0] = '.';
	cr_expect(!tdfs_name_is_too_long(name));
	name[223] = 'n';
	name[255] = '\0';
	cr_expect(!tdfs_name_is_too_long(name));
	name[255] = 'n';
	name[256] = '\0';
	cr_expect(tdfs_name_is_too_long(name));
}

Test(names, error_files)
{
	cr_expect(tdfs_name_is_error_file("x.error"));
	cr_expect(tdfs_name_is_error_file(".error"));
	cr_expect(!tdfs_name_is_error_file("error"));
	cr_expect(!tdfs_name_is_error_file("x.error.jsonl"));
}
