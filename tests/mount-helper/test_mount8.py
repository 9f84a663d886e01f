# SPDX-License-Identifier: MIT
"""The real mount(8), umount(8) and fstab with mount.tinydelta where they look for it: an overlay on
/usr/sbin that only this process sees."""

import errno
import os
import pathlib
import select
import signal
import subprocess

import harness
from mounting import Mount8

USER = 65534


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

    def test_one_version(self):
        self.append(self.t, [{"id": 2}])
        self.ok(["mount", "-t", "tinydelta", "-o", "version=1,nofail", self.t, self.m])
        self.assertEqual(os.listdir(self.m), ["data.jsonl"])
        self.assertEqual((self.m / "data.jsonl").read_bytes(), b'{"id":1}\n')
        (fields,) = self.mounts()
        self.assertIn("ro", fields[fields.index("-") + 3].split(","))
        self.umount()

    def test_owner_mode_and_log(self):
        log = self.path("log")
        self.t.chmod(0o700)
        options = f"allow_other,uid={USER},gid={USER},umask=027,log={log}"
        self.ok(["mount", "-t", "tinydelta", "-o", options, self.t, self.m])
        st = (self.m / "v1" / "data.jsonl").stat()
        self.assertEqual((st.st_uid, st.st_gid, st.st_mode & 0o7777), (USER, USER, 0o440))
        self.ok(["cat", self.m / "v1" / "data.jsonl"], user=USER)
        self.assertEqual(log.read_bytes(), b"")
        self.umount()

    def test_serves_others_at_once(self):
        """A bind mount made right after mount(8) returns shows the table; it stays dead when the
        daemon has died, and is not an empty directory."""
        other = self.path("bind")
        other.mkdir()
        self.addCleanup(harness.run, ["umount", "-l", other])
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        self.ok(["mount", "--bind", self.m, other])
        self.assertEqual((other / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
        os.kill(self.daemon_of(self.m), signal.SIGKILL)
        self.ok(["umount", "-l", self.m])
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        with self.assertRaises(OSError) as dead:
            os.listdir(other)
        self.assertIn(dead.exception.errno, (errno.ENOTCONN, errno.ECONNABORTED))
        self.umount()

    def test_a_table_on_a_read_only_file_system(self):
        self.ok(["mount", "--bind", self.t, self.t])
        self.addCleanup(harness.run, ["umount", "-l", self.t])
        self.ok(["mount", "-o", "remount,bind,ro", self.t])
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        self.assertEqual((self.m / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
        self.fails(["cp", self.file([{"id": 2}]), self.m / "incoming" / "x"])
        self.umount()

    def test_no_device(self):
        empty = self.path("dev")
        empty.mkdir()
        for name in ("null",):
            os.mknod(empty / name, 0o020666, os.stat("/dev/null").st_rdev)
        self.ok(["mount", "--bind", empty, "/dev"])
        try:
            result = harness.run(["/usr/bin/mount", "-t", "tinydelta", self.t, self.m])
        finally:
            self.ok(["umount", "-l", "/dev"])
        self.assertEqual(result.status, 32, str(result))
        self.assertRegex(result.error, r"\Atinydeltafs: [^\n]*fuse[^\n]*\n\Z")
        self.assertEqual(self.mounts(), [])

    def test_commits_in_the_background(self):
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        threads = os.listdir(f"/proc/{self.daemon_of(self.m)}/task")
        self.assertGreater(len(threads), 1)
        for i in range(5):
            self.ok(["cp", self.file([{"id": i}]), self.m / "incoming" / "x"])
        self.assertEqual(self.versions(self.t), list(range(7)))
        self.umount()

    def test_a_security_label(self):
        label = 'context="system_u:object_r:tmp_t:s0:c1,c2"'
        result = harness.run(["mount", "-t", "tinydelta", "-o", label, self.t, self.m])
        if result.status == 0:
            self.umount()
        else:
            self.assertEqual(result.status, 32)
            self.assertEqual(len(result.error.splitlines()), 1, str(result))

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
        fails("-t", "tinydelta", "-o", "version=2", t, m, says="no such version: 2")
        fails("-t", "tinydelta", t, self.path("nowhere"), says="nowhere: No such file")
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
        self.mount_fails("-t", "tinydelta", self.t, self.m, says="is gone: run 'umount ")
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
        self.open_device()
        self.ok(["chown", "-R", f"{USER}:{USER}", self.t, self.m])
        self.fstab(f"{self.t} {self.m} tinydelta noauto,user,nofail 0 0")
        self.ok(["mount", self.m], user=USER)
        daemon = self.daemon_of(self.m)
        self.assertEqual(os.stat(f"/proc/{daemon}").st_uid, USER)
        said = self.ok(["cat", self.m / "v1" / "data.jsonl"], user=USER)
        self.assertEqual(said.out, b'{"id":1}\n')
        (fields,) = self.mounts()
        self.assertLessEqual({"nosuid", "nodev", "noexec"}, set(fields[5].split(",")))
        row = self.file([{"id": 2}])
        self.ok(["cp", row, self.m / "incoming" / "x"], user=USER)
        self.assertEqual(self.versions(self.t), [0, 1, 2])
        self.fails(["umount", self.m], status=None, user=USER - 1)
        self.ok(["umount", self.m], user=USER)
        self.assertEqual(self.mounts(), [])
        self.ok(["mount", self.m], user=USER)
        self.ok(["fusermount3", "-u", self.m], user=USER)
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
            other.communicate(timeout=harness.SOON)
