# SPDX-License-Identifier: MIT
"""The real mount(8), umount(8) and fstab with mount.tinydelta where they look for it: an overlay on
/usr/sbin that only this process sees."""

import contextlib
import errno
import os
import pathlib
import select
import shutil
import signal
import stat
import subprocess

import harness
from harness import TestCase

USER = 65534


class Mount8(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.require_root()
        if not harness._private:
            self.skipTest("no mount namespace of its own")
        layers = self.path("layers")
        layers.mkdir()
        self.ok(["mount", "-t", "tmpfs", "none", layers])
        self.addCleanup(harness.run, ["umount", "-l", layers])
        (layers / "upper").mkdir()
        (layers / "work").mkdir()
        options = f"lowerdir=/usr/sbin,upperdir={layers}/upper,workdir={layers}/work"
        result = harness.run(["mount", "-t", "overlay", "-o", options, "overlay", "/usr/sbin"])
        if result.status != 0:
            self.skipTest(f"no overlay: {result.error.strip()}")
        self.addCleanup(harness.run, ["umount", "-l", "/usr/sbin"])
        # Copies that every user may run, beside one another as in a build directory.
        for folder, name in (("helper", "mount.tinydelta"), ("fs", "tinydeltafs")):
            self.path(folder).mkdir()
            shutil.copy(harness.program(name), self.path(folder))
        helper = pathlib.Path("/usr/sbin/mount.tinydelta")
        helper.unlink(missing_ok=True)
        helper.symlink_to(self.path("helper") / "mount.tinydelta")
        self.t = self.table(rows=[{"id": 1}], name="t")
        self.m = self.path("m")
        self.m.mkdir()
        self.addCleanup(self.clear)

    def clear(self):
        for _ in range(4):
            if harness._mountinfo(self.m):
                harness.run(["umount", "-l", self.m])

    def fstab(self, *lines):
        path = self.file("".join(f"{line}\n" for line in lines), "fstab")
        path.chmod(0o644)
        self.ok(["mount", "--bind", path, "/etc/fstab"])
        self.addCleanup(harness.run, ["umount", "-l", "/etc/fstab"])

    def daemon_of(self, point):
        """The pid of the tinydeltafs that serves a mount point."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/tinydeltafs") and os.fsencode(point) in words:
                    return int(entry.name)
        return None

    def mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as lines:
            return [line.split() for line in lines if f" {self.m} " in line]

    def umount(self):
        daemon = self.daemon_of(self.m)
        pidfd = os.pidfd_open(daemon)
        try:
            self.ok(["umount", self.m])
            # The daemon is no child of ours; its end is waited for all the same.
            ended, _, _ = select.select([pidfd], [], [], harness.DAEMON_TIMEOUT)
            self.assertTrue(ended, "tinydeltafs did not end after umount")
        finally:
            os.close(pidfd)

    def mount_fails(self, *words, says, status=32):
        result = self.fails(["mount", *words], status=status)
        self.assertEqual(len(result.error.splitlines()), 1, str(result))
        self.assertRegex(result.error, says)


class Mounting(Mount8):
    def test_serves_when_mount_returns(self):
        for _ in range(10):
            result = self.ok(["mount", "-t", "tinydelta", self.t, self.m])
            self.assertEqual((result.out, result.err), (b"", b""))
            self.assertEqual((self.m / "latest" / "data.jsonl").read_bytes(), b'{"id":1}\n')
            self.umount()

    def test_a_pipe_is_not_held(self):
        # Ends only when the daemon, too, has let go of standard output.
        said = self.sh('mount -t tinydelta "$1" "$2" 2>&1 | cat', self.t, self.m)
        self.assertEqual(said.out, b"")
        self.umount()

    def test_what_proc_mounts_shows(self):
        self.ok(["mount", "-t", "tinydelta", "-o", "noatime,noexec", self.t, self.m])
        (fields,) = self.mounts()
        rest = fields[fields.index("-") + 1 :]
        self.assertEqual(rest[:2], ["fuse.tinydeltafs", str(self.t)])
        self.assertLessEqual({"rw", "noatime", "noexec"}, set(fields[5].split(",")))
        self.umount()

    def test_a_relative_table(self):
        self.ok(["mount", "-t", "tinydelta", "t", "m"], cwd=self.scratch)
        self.assertEqual(os.listdir(self.m / "v1"), ["data.jsonl"])
        self.umount()

    def test_an_empty_environment(self):
        self.ok(["env", "-i", "/usr/bin/mount", "-t", "tinydelta", self.t, self.m])
        self.assertEqual(os.listdir(self.m / "v1"), ["data.jsonl"])
        self.umount()

    def test_every_option_of_an_fstab_line(self):
        options = (
            "rw,nofail,noauto,user,_netdev,x-systemd.automount,x-systemd.requires=a.service,"
            "x-gvfs-show,comment=a,X-mount.mkdir,defaults,noatime,relatime,nodiratime,lazytime,"
            "exec,dev,suid"
        )
        self.ok(["mount", "-fnsv", "-t", "tinydelta", "-o", options, self.t, self.m])
        self.assertEqual(self.mounts(), [])
        self.ok(["mount", "-t", "tinydelta.sub", "-o", options, self.t, self.m])
        self.assertEqual(len(self.mounts()), 1)
        self.umount()

    def test_read_only(self):
        for options, read_only in (
            (["-r"], True),
            (["-o", "ro"], True),
            (["-o", "rw"], False),
            (["-o", "rw,ro"], True),
            (["-o", "ro,rw"], False),
        ):
            self.ok(["mount", "-t", "tinydelta", *options, self.t, self.m])
            (fields,) = self.mounts()
            self.assertEqual("ro" in fields[5].split(","), read_only, options)
            if read_only:
                result = self.fails(["cp", self.file([{"id": 2}]), self.m / "incoming" / "x"])
                self.assertIn("Read-only file system", result.error)
            self.umount()
        self.assertEqual(self.versions(self.t), [0, 1])

    def test_failures(self):
        fails, t, m = self.mount_fails, self.t, self.m
        fails("-t", "tinydelta", self.path("nonexistent"), m, says="No such file")
        fails("-t", "tinydelta", self.file(b""), m, says="tinydeltafs: .")
        fails("-t", "tinydelta", "-o", "bogus=1", t, m, says="unknown option: bogus=1", status=1)
        fails("-t", "tinydelta", "-o", "max_read=x", t, m, says="max_read", status=1)
        fails("-t", "tinydelta", t, t, says="tinydeltafs: .")
        damaged = self.table(rows=[{"id": 1}])
        (damaged / "_delta_log" / f"{0:020d}.json").write_bytes(b"{")
        for index in damaged.glob("_delta_log/_history.idx"):
            index.unlink()
        fails("-t", "tinydelta", damaged, m, says="tinydeltafs: .")
        self.assertEqual(self.mounts(), [])

    def test_twice(self):
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        self.mount_fails("-t", "tinydelta", self.t, self.m, says="already mounted")
        link = self.path("link")
        link.symlink_to(self.t)
        self.mount_fails("-t", "tinydelta", link, f"{self.m}/", says="already mounted")
        self.assertEqual(len(self.mounts()), 1)
        self.umount()

    def test_a_dead_mount(self):
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        daemon = self.daemon_of(self.m)
        pidfd = os.pidfd_open(daemon)
        os.kill(daemon, signal.SIGKILL)
        select.select([pidfd], [], [], harness.DAEMON_TIMEOUT)
        os.close(pidfd)
        self.mount_fails("-t", "tinydelta", self.t, self.m, says="lost its daemon; umount it first")
        self.ok(["umount", self.m])
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        self.assertEqual((self.m / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
        self.umount()


class Remounting(Mount8):
    def flags(self):
        (fields,) = self.mounts()
        return set(fields[5].split(","))

    def remount(self, options):
        self.ok(["mount", "-t", "tinydelta", "-o", f"remount,{options}", self.t, self.m])

    def test_flags(self):
        self.ok(["mount", "-t", "tinydelta", "-o", "noexec,nosuid", self.t, self.m])
        daemon = self.daemon_of(self.m)
        before = self.flags()
        self.remount("ro")
        self.assertEqual(self.flags(), (before - {"rw"}) | {"ro"})
        with self.assertRaises(OSError) as refused:
            (self.m / "incoming" / "x").write_bytes(b"")
        self.assertEqual(refused.exception.errno, errno.EROFS)
        self.remount("ro,noatime")
        flags = {"noatime", "noexec", "nosuid", "nodev"}
        self.assertEqual(self.flags() & flags, flags)
        # mount(8) does not hand these on; the helper takes them.
        self.ok(["/usr/sbin/mount.tinydelta", self.t, self.m, "-o", "rw,ro,remount,exec,atime"])
        self.assertEqual(self.flags() & flags, {"nosuid", "nodev"})
        self.assertEqual(self.daemon_of(self.m), daemon)
        self.umount()

    def test_back_to_writable(self):
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        self.remount("ro")
        self.remount("rw")
        self.assertIn("rw", self.flags())
        self.ok(["cp", self.file([{"id": 2}]), self.m / "incoming" / "x"])
        self.assertEqual(self.versions(self.t), [0, 1, 2])
        self.umount()

    def test_mounted_read_only_stays_so(self):
        self.ok(["mount", "-t", "tinydelta", "-o", "ro", self.t, self.m])
        self.mount_fails(
            "-t", "tinydelta", "-o", "remount,rw", self.t, self.m, says="was mounted read-only"
        )
        self.assertIn("ro", self.flags())
        self.umount()


class Fstab(Mount8):
    def test_mount_all_twice(self):
        self.fstab(
            f"{self.t} {self.m} tinydelta nofail,x-what=1 0 0",
            f"{self.path('nonexistent')} {self.path('nowhere')} tinydelta noauto 0 0",
        )
        self.ok(["mount", "-a"])
        self.ok(["mount", "-a"])
        self.assertEqual(len(self.mounts()), 1)
        self.ok(["mount", "-o", "remount,ro", self.m])
        self.assertIn("ro", self.mounts()[0][5].split(","))
        self.umount()

    def test_verify(self):
        self.fstab(f"{self.t} {self.m} tinydelta nofail,x-systemd.automount,allow_other 0 0")
        self.require_tool("findmnt")
        result = self.ok(["findmnt", "--verify"])
        self.assertIn("0 parse errors, 0 errors", result.text + result.error)

    def test_a_user(self):
        if not os.stat("/usr/bin/mount").st_mode & 0o4000:
            self.skipTest("mount is not setuid")
        # Some machines keep it to root; everywhere else it is open to all.
        device = self.path("fuse")
        os.mknod(device, stat.S_IFCHR | 0o666, os.stat("/dev/fuse").st_rdev)
        device.chmod(0o666)
        self.ok(["mount", "--bind", device, "/dev/fuse"])
        self.addCleanup(harness.run, ["umount", "-l", "/dev/fuse"])
        self.ok(["chown", "-R", f"{USER}:{USER}", self.t, self.m])
        self.fstab(f"{self.t} {self.m} tinydelta noauto,user,nofail 0 0")
        self.ok(["mount", self.m], user=USER)
        daemon = self.daemon_of(self.m)
        self.assertEqual(os.stat(f"/proc/{daemon}").st_uid, USER)
        said = self.ok(["cat", self.m / "v1" / "data.jsonl"], user=USER)
        self.assertEqual(said.out, b'{"id":1}\n')
        (fields,) = self.mounts()
        self.assertLessEqual({"nosuid", "nodev", "noexec"}, set(fields[5].split(",")))
        self.fails(["umount", self.m], status=None, user=USER - 1)
        self.ok(["umount", self.m], user=USER)
        self.assertEqual(self.mounts(), [])


class Namespace(Mount8):
    def test_another_namespace(self):
        other = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self.assertEqual(other.stdout.readline(), b"ready\n")
            self.ok(["mount", "-N", str(other.pid), "-t", "tinydelta", self.t, self.m])
            self.assertEqual(self.mounts(), [])
            inside = pathlib.Path(f"/proc/{other.pid}/mountinfo").read_text(encoding="utf-8")
            self.assertIn(f" {self.m} ", inside)
            self.ok(["umount", "-N", str(other.pid), self.m])
        finally:
            other.communicate(timeout=20)
