/* SPDX-License-Identifier: MIT */
/*
 * System calls: what is opened beneath a directory and what is not, with openat2() and without;
 * interrupted and short calls; copies; listings.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faults.h"
#include "scratch.h"
#include "sys.h"

static int dir;

static void begin(void)
{
	scratch_begin();
	make_dir("d");
	make_dir("d/sub");
	make_dir("d/sub/deep");
	put("d/file", "file");
	put("d/sub/deep/file", "deep");
	put("outside", "outside");
	dir = open(in_scratch("d"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void end(void)
{
	faults_off();
	close(dir);
	scratch_end();
}

TestSuite(sys, .init = begin, .fini = end);

static int open_beneath(const char *path)
{
	struct stat st;
	int fd = -1, why = tdl__sys_open_beneath(dir, path, &fd, &st);

	if (why == 0)
		close(fd);
	else
		cr_assert_eq(fd, -1);
	return why;
}

static void expect_safe_opens(void)
{
	unsigned before = open_descriptors();
	static char deep[4096];
	char *at = deep;

	cr_assert_eq(symlink("file", in_scratch("d/link")), 0);
	cr_assert_eq(symlink("../outside", in_scratch("d/out")), 0);
	cr_assert_eq(symlink("sub", in_scratch("d/sublink")), 0);
	cr_assert_eq(symlink("/", in_scratch("d/root")), 0);
	cr_assert_eq(mkfifo(in_scratch("d/fifo"), 0600), 0);
	cr_assert_eq(open_beneath("file"), 0);
	cr_assert_eq(open_beneath("sub/deep/file"), 0);
	cr_assert_eq(open_beneath("missing"), ENOENT);
	cr_assert_eq(open_beneath("sub/missing/file"), ENOENT);
	cr_assert_eq(open_beneath("file/x"), ENOTDIR);
	cr_assert_eq(open_beneath("link"), ELOOP);
	cr_assert_eq(open_beneath("out"), ELOOP);
	cr_assert(open_beneath("sublink/deep/file") != 0);
	cr_assert(open_beneath("root/etc/passwd") != 0);
	/* Opened without waiting for a writer; what it is, the caller looks at. */
	cr_assert_eq(open_beneath("fifo"), 0);
	memset(deep, 'n', 300);
	cr_assert_eq(open_beneath(deep), ENAMETOOLONG);
	for (int i = 0; i < 1000; i++)
		at += sprintf(at, "ab/");
	strcpy(at, "c");
	cr_assert_eq(open_beneath(deep), ENOENT);
	cr_assert_eq(open_descriptors(), before);
}

Test(sys, opens_beneath, .timeout = 10)
{
	cr_assert_eq(open_beneath("../outside"), EXDEV);
	cr_assert_eq(open_beneath("/etc/passwd"), EXDEV);
	expect_safe_opens();
}

/* Old kernels do not have openat2(), and some sandboxes refuse it. */
static void refuse_openat2(int why)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)why),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		cr_skip_test("no filter for system calls: %s", strerror(errno));
	cr_assert(syscall(SYS_openat2, AT_FDCWD, "/", NULL, 0) == -1 && errno == why);
}

Test(sys, opens_beneath_without_openat2, .timeout = 10)
{
	refuse_openat2(ENOSYS);
	expect_safe_opens();
}

Test(sys, opens_beneath_where_openat2_is_refused, .timeout = 10)
{
	refuse_openat2(EPERM);
	expect_safe_opens();
}

Test(sys, reads_and_writes_go_on)
{
	char buffer[100];
	size_t got;
	int fd = open(in_scratch("new"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	faults_fail_op(TDL__OP_WRITE, 1, 3, TDL__SYS_SHORT);
	cr_assert_eq(tdl__sys_write(fd, "0123456789", 10), 0);
	cr_assert_eq(faults_off(), 4);
	faults_fail_op(TDL__OP_WRITE, 1, 3, EINTR);
	cr_assert_eq(tdl__sys_write(fd, "abc", 3), 0);
	faults_off();
	faults_fail_op(TDL__OP_READ, 1, 4, TDL__SYS_SHORT);
	cr_assert_eq(tdl__sys_pread(fd, buffer, sizeof buffer, 2, &got), 0);
	faults_off();
	cr_assert_eq(got, 11);
	cr_assert_eq(memcmp(buffer, "23456789abc", 11), 0);
	lseek(fd, 0, SEEK_SET);
	faults_fail_op(TDL__OP_READ, 2, 2, EINTR);
	cr_assert_eq(tdl__sys_read(fd, buffer, 5, &got), 0);
	cr_assert_eq(got, 5);
	cr_assert_eq(tdl__sys_read(fd, buffer, 100, &got), 0);
	cr_assert_eq(got, 8);
	faults_off();
	close(fd);
}

/* Between files, from what copy_file_range() does not take, and from one that is too short. */
Test(sys, copies)
{
	size_t n = (5 << 20) + 7;
	char *bytes = malloc(n), *copied;
	int from = open(in_scratch("from"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int to = open(in_scratch("to"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int memory = memfd_create("from", MFD_CLOEXEC);
	size_t got;

	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)(i * 31 >> 3);
	cr_assert_eq(tdl__sys_write(from, bytes, n), 0);
	cr_assert_eq(tdl__sys_write(memory, bytes, n), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(ftruncate(to, 0), 0);
		lseek(to, 0, SEEK_SET);
		cr_assert_eq(tdl__sys_copy(i == 0 ? from : memory, to, n - 3), 0);
		/* The position is behind what was copied. */
		cr_assert_eq(tdl__sys_write(to, "end", 3), 0);
		copied = get_bytes("to", &got);
		cr_assert_eq(got, n);
		cr_assert_eq(memcmp(copied, bytes, n - 3), 0);
		cr_assert_eq(memcmp(copied + n - 3, "end", 3), 0);
		free(copied);
	}
	lseek(to, 0, SEEK_SET);
	cr_assert_eq(tdl__sys_copy(from, to, n + 1), ENODATA);
	free(bytes);
	close(from);
	close(to);
	close(memory);
}

Test(sys, syncing_what_cannot_be_synced)
{
	static const int reasons[] = { EINVAL, ENOTSUP, EBADF, ENOSYS };

	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		faults_fail_op(TDL__OP_FSYNC, 1, 100, reasons[i]);
		cr_assert_eq(tdl__sys_fsync_dir(dir), 0);
		cr_assert_eq(tdl__sys_fsync(dir), reasons[i]);
		faults_off();
	}
	faults_fail_op(TDL__OP_FSYNC, 1, 1, EIO);
	cr_assert_eq(tdl__sys_fsync_dir(dir), EIO);
	faults_off();
}

static bool count_three(void *context, const char *name)
{
	cr_assert(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
	return ++*(int *)context < 3;
}

static bool count_all(void *context, const char *name)
{
	++*(int *)context;
	return true;
}

Test(sys, listings_do_not_disturb_each_other)
{
	unsigned before = open_descriptors();
	int few, all;

	for (int i = 0; i < 3; i++) {
		few = all = 0;
		cr_assert_eq(tdl__sys_list(dir, count_three, &few), 0);
		cr_assert_eq(tdl__sys_list(dir, count_all, &all), 0);
		cr_assert_eq(all, 2);
		cr_assert_eq(few, 2);
	}
	cr_assert_eq(open_descriptors(), before);
}

Test(sys, renames)
{
	put("d/a", "a");
	put("d/b", "b");
	cr_assert_eq(tdl__sys_rename(dir, "a", dir, "b", false), EEXIST);
	cr_assert_eq(tdl__sys_rename(dir, "a", dir, "b", true), 0);
	cr_assert_not(is_there("d/a"));
	cr_assert_eq(tdl__sys_link(dir, "b", dir, "c"), 0);
	cr_assert_eq(tdl__sys_link(dir, "b", dir, "c"), EEXIST);
	cr_assert_eq(tdl__sys_unlink(dir, "b"), 0);
	cr_assert_eq(tdl__sys_unlink(dir, "b"), ENOENT);
}
