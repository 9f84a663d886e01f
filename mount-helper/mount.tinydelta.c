/* SPDX-License-Identifier: MIT */
/*
 * mount.tinydelta: what mount(8), fstab and systemd run for the type tinydelta. It checks, starts
 * the daemon and says how that went; it knows nothing of tables.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "launch.h"
#include "mountopts.h"
#include "mounts.h"
#include "remount.h"
#include "status.h"
#include "util/util.h"

#define FUSE_TYPE "fuse.tinydeltafs"

static const char usage[] =
	"usage: mount.tinydelta TABLE DIRECTORY [-fnsv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]";

static const char *const help[] = {
	usage,
	"",
	"Mounts a tinydelta table; mount -t tinydelta runs it.",
	"",
	"  -f             check the arguments, but mount nothing",
	"  -n             taken and ignored: there is no mtab to write",
	"  -s             ignore options that are not known",
	"  -v             say which program is run",
	"  -N NAMESPACE   mount in this mount namespace, a file or a process id",
	"  -o OPTIONS     options, separated by commas",
	"  -t TYPE        taken and ignored: tinydelta, with any subtype, or tinydeltafs",
	"  -h, --help     show this help and exit",
	"  -V, --version  show the version and exit",
};

struct arguments {
	const char *table, *directory, *namespace;
	char *list; /* all -o, joined; owned */
	bool fake, sloppy, verbose;
};

/* One line on stderr, whatever is in the names that it quotes. */
static void __attribute__((format(printf, 1, 2))) print_error(const char *format, ...)
{
	char text[8192];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fputs("mount.tinydelta: ", stderr);
	for (const char *at = text; *at != '\0'; at++) {
		unsigned char c = (unsigned char)*at;

		if (c < 0x20 || c == 0x7f)
			fprintf(stderr, "\\x%02x", c);
		else
			fputc(c, stderr);
	}
	fputc('\n', stderr);
}

static int fail(int status, const char *why)
{
	print_error("%s", why);
	return status;
}

static int misuse(const char *what)
{
	fprintf(stderr, "%s\n", usage);
	return fail(STATUS_USAGE, what);
}

static bool add_list(struct arguments *arguments, const char *list)
{
	char *joined;

	if (asprintf(&joined, "%s,%s", arguments->list ? arguments->list : "", list) < 0)
		return false;
	free(arguments->list);
	arguments->list = joined;
	return true;
}

static bool add_operand(struct arguments *arguments, const char *word)
{
	const char **place = !arguments->table ? &arguments->table : &arguments->directory;

	if (*place)
		return false;
	*place = word;
	return true;
}

/* Returns -1 to go on, else the exit status. */
static int parse_arguments(int argc, char **argv, struct arguments *arguments)
{
	static const struct option words[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int letter;

	opterr = 0;
	/* The minus sign makes operands come as 1, wherever they stand: mount(8) puts them first.
	 */
	while ((letter = getopt_long(argc, argv, "-:fhno:st:vN:V", words, NULL)) != -1)
		switch (letter) {
		case 1:
			if (!add_operand(arguments, optarg))
				return misuse("too many arguments");
			break;
		case 'f':
			arguments->fake = true;
			break;
		case 's':
			arguments->sloppy = true;
			break;
		case 'v':
			arguments->verbose = true;
			break;
		case 'n':
			break;
		case 'o':
			if (!add_list(arguments, optarg))
				return fail(STATUS_SYSTEM, "out of memory");
			break;
		case 't':
			if (strcmp(optarg, "tinydelta") != 0 &&
			    strcmp(optarg, "tinydeltafs") != 0 &&
			    strncmp(optarg, "tinydelta.", 10) != 0)
				return misuse("-t: not the type tinydelta");
			break;
		case 'N':
			arguments->namespace = optarg;
			break;
		case 'h':
			for (size_t i = 0; i < sizeof help / sizeof help[0]; i++)
				puts(help[i]);
			return STATUS_DONE;
		case 'V':
			printf("mount.tinydelta %s\n", TINYDELTA_VERSION);
			return STATUS_DONE;
		case ':':
			return misuse("an option needs an argument");
		default:
			return misuse("unknown option");
		}
	for (; optind < argc; optind++)
		if (!add_operand(arguments, argv[optind]))
			return misuse("too many arguments");
	if (!arguments->directory)
		return misuse("needs a table and a directory");
	return -1;
}

static int enter_namespace(const char *namespace, char *why, size_t size)
{
	char path[64];
	int fd, result;

	if (*namespace != '\0' && namespace[strspn(namespace, "0123456789")] == '\0' &&
	    strlen(namespace) < 20) {
		snprintf(path, sizeof path, "/proc/%s/ns/mnt", namespace);
		namespace = path;
	}
	fd = open(namespace, O_RDONLY | O_CLOEXEC);
	result = fd < 0 ? -1 : setns(fd, CLONE_NEWNS);
	if (result != 0)
		snprintf(why, size, "namespace %s: %s", namespace, strerror(errno));
	if (fd >= 0)
		close(fd);
	return result;
}

/* Whether one of ours is the uppermost mount on the directory; of `table`, where that is given. */
static bool is_mounted(const char *directory, const char *table)
{
	char *place CLEANUP(tdl__free_at) = realpath(directory, NULL);
	char *source CLEANUP(tdl__free_at) = NULL;
	struct mounted mounted;
	FILE *mounts;
	bool found;

	if (!place)
		return false;
	mounts = fopen("/proc/self/mountinfo", "re");
	if (!mounts)
		return false;
	found = mounts_find(mounts, place, &mounted);
	fclose(mounts);
	if (!found)
		return false;
	found = strcmp(mounted.type, FUSE_TYPE) == 0;
	if (found && table) {
		source = realpath(table, NULL);
		found = source && strcmp(mounted.source, source) == 0;
	}
	mounted_clear(&mounted);
	return found;
}

static int mount_table(const struct arguments *arguments, const struct mountopts *options)
{
	const char *table = arguments->table, *directory = arguments->directory;
	char why[4096];
	struct program program;
	struct statvfs st;
	int status;

	if (launch_find(&program, why, sizeof why) < 0)
		return fail(STATUS_SYSTEM, why);
	if (arguments->namespace && (launch_pin(&program, why, sizeof why) < 0 ||
				     enter_namespace(arguments->namespace, why, sizeof why) < 0))
		return fail(STATUS_SYSTEM, why);
	/* stat() may be answered from what the kernel remembers of the root directory. */
	if (statvfs(directory, &st) != 0 && errno == ENOTCONN) {
		print_error("%s: the daemon of what is mounted here is gone: run 'umount %s' first",
			    directory, directory);
		return STATUS_MOUNT;
	}
	if (options->remount) {
		if (!is_mounted(directory, NULL)) {
			print_error("%s: no tinydelta table is mounted here", directory);
			return STATUS_MOUNT;
		}
		if (remount(directory, options, why, sizeof why) < 0)
			return fail(STATUS_MOUNT, why);
		return STATUS_DONE;
	}
	if (is_mounted(directory, table)) {
		print_error("%s: is already mounted on %s", table, directory);
		return STATUS_MOUNT;
	}
	if (arguments->verbose) {
		printf("mount.tinydelta: running %s%s%s -- %s %s\n", program.path,
		       *options->daemon != '\0' ? " -o " : "", options->daemon, table, directory);
		fflush(stdout);
	}
	status = launch_run(&program, options->daemon, table, directory, why, sizeof why);
	if (*why != '\0')
		fail(status, why);
	return status;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct mountopts options = { 0 };
	char why[4096];
	int status = parse_arguments(argc, argv, &arguments);

	if (status >= 0)
		goto out;
	if (mountopts_parse(&options, arguments.list ? arguments.list : "", arguments.sloppy, why,
			    sizeof why) < 0)
		status = fail(STATUS_USAGE, why);
	else if (arguments.fake)
		status = STATUS_DONE;
	else
		status = mount_table(&arguments, &options);
out:
	mountopts_clear(&options);
	free(arguments.list);
	return status;
}
