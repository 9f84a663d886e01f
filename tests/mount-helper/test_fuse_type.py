# SPDX-License-Identifier: MIT
"""mount -t fuse.tinydeltafs: the helper of libfuse runs the daemon through a shell, and hands on
options that libfuse itself would refuse."""

import errno
import os

import harness
from mounting import Mount8

TYPE = "fuse.tinydeltafs"


class FuseType(Mount8):
    def setUp(self):
        super().setUp()
        self.require_tool("mount.fuse")

    def flags(self):
        (fields,) = self.mounts()
        return set(fields[5].split(","))

    def all_flags(self):
        """Of the mount and of its file system."""
        (fields,) = self.mounts()
        return {*fields[5].split(","), *fields[-1].split(",")} - ({"rw"} if "ro" in fields[5].split(",") else set())

    def test_every_option_of_an_fstab_line(self):
        options = (
            "rw,nofail,noauto,user,_netdev,x-systemd.automount,comment=a,defaults,noatime,relatime,"
            "nodiratime,lazytime,strictatime,iversion,mand,exec,dev,suid,nonempty"
        )
        for verbose in ([], ["-nsv"]):
            self.ok(["mount", *verbose, "-t", TYPE, "-o", options, self.t, self.m])
            self.assertEqual((self.m / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
            self.umount()

    def test_options_of_ours(self):
        self.ok(["mount", "-t", TYPE, "-o", "version=1,max_threads=2,umask=0", self.t, self.m])
        self.assertEqual(os.listdir(self.m), ["data.jsonl"])
        self.assertEqual(self.m.stat().st_mode & 0o777, 0o555)
        self.umount()

    def test_the_empty_environment(self):
        self.ok(["env", "-i", "/usr/bin/mount", "-t", TYPE, self.t, self.m])
        self.umount()

    def test_fstab_twice(self):
        self.fstab(f"{self.t} {self.m} {TYPE} nofail,relatime,nodiratime 0 0")
        self.ok(["mount", "-a"])
        self.ok(["mount", "-a"])
        self.assertEqual(len(self.mounts()), 1)
        self.umount()

    def test_failures(self):
        for options, says in (("version=9", "no such version"), ("bogus", "unknown option: bogus")):
            result = self.fails(["mount", "-t", TYPE, "-o", options, self.t, self.m], status=None)
            self.assertRegex(result.error, rf"\A[^\n]*{says}[^\n]*\n\Z")
        self.assertEqual(self.mounts(), [])

    def test_remount(self):
        """As the type in /proc/mounts says, without a word of ours: mount -o remount,ro DIR."""
        for first in (TYPE, "tinydelta"):
            self.ok(["mount", "-t", first, "-o", "noexec", self.t, self.m])
            daemon = self.daemon_of(self.m)
            self.ok(["mount", "-o", "remount,ro", self.m])
            self.assertLessEqual({"ro", "noexec"}, self.flags())
            with self.assertRaises(OSError) as refused:
                (self.m / "incoming" / "x").write_bytes(b"")
            self.assertEqual(refused.exception.errno, errno.EROFS)
            self.ok(["mount", "-o", "remount,rw,noatime", self.m])
            self.assertLessEqual({"rw", "noatime", "noexec"}, self.flags())
            self.ok(["cp", self.file([{"id": 2}]), self.m / "incoming" / "x"])
            self.assertEqual(self.daemon_of(self.m), daemon)
            self.assertEqual(len(self.mounts()), 1)
            self.umount()

    def test_remount_forgets_no_flag(self):
        """Whatever the mount has, a remount that is about something else leaves."""
        flags = ("noexec", "nosuid", "nodev", "noatime", "nodiratime", "nosymfollow", "sync")
        routes = (
            lambda what: ["mount", "-o", f"remount,{what}", self.m],
            lambda what: ["mount", "-t", "tinydelta", "-o", f"remount,{what}", self.t, self.m],
            lambda what: ["mount", "-t", "tinydeltafs", "-o", f"remount,{what}", self.t, self.m],
            lambda what: ["/usr/sbin/mount.tinydelta", self.t, self.m, "-o", f"remount,{what}"],
        )
        self.ok(["mount", "-t", "tinydelta", self.t, self.m])
        for flag in flags:
            # Without a helper, as an administrator would on any file system.
            bind = [] if flag == "sync" else ["bind,"]
            self.ok(
                ["mount", "-i", "-o", f"remount,{''.join(bind)}{flag}", self.m],
                env={"LIBMOUNT_FORCE_MOUNT2": "always"},
            )
            self.assertIn(flag, self.all_flags())
            for route in routes:
                for what in ("ro", "rw"):
                    self.ok(route(what))
                    self.assertLessEqual({flag, what}, self.all_flags(), f"{route(what)}")
        self.umount()

    def test_flags_that_only_a_remount_sets(self):
        self.ok(["mount", "-t", TYPE, "-o", "nosymfollow,nodiratime", self.t, self.m])
        self.umount()
        for kind in (TYPE, "tinydelta"):
            self.ok(["mount", "-t", kind, self.t, self.m])
            self.ok(["mount", "-o", "remount,nodiratime,nosymfollow", self.m])
            self.assertLessEqual({"nodiratime", "nosymfollow"}, self.all_flags())
            self.ok(["mount", "-o", "remount,diratime,symfollow", self.m])
            self.assertFalse({"nodiratime", "nosymfollow"} & self.all_flags())
            self.umount()

    def test_every_name_of_the_type(self):
        for kind in ("tinydelta", "tinydeltafs", TYPE):
            self.ok(["mount", "-t", kind, "-o", "ro", self.t, self.m])
            self.assertEqual((self.m / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
            self.umount()
            self.fstab(f"{self.t} {self.m} {kind} nofail,noexec 0 0")
            self.ok(["mount", "-a"])
            self.ok(["mount", "-a"])
            self.ok(["mount", "-o", "remount,ro", self.m])
            self.assertLessEqual({"ro", "noexec"}, self.flags())
            self.assertEqual(len(self.mounts()), 1)
            self.umount()
            self.ok(["umount", "/etc/fstab"])

    def test_bind_remount(self):
        self.ok(["mount", "-t", TYPE, self.t, self.m])
        self.ok(["mount", "-o", "remount,bind,ro", self.m])
        self.assertIn("ro", self.flags())
        self.umount()

    def test_remount_that_cannot_be(self):
        self.ok(["mount", "-t", TYPE, "-o", "ro", self.t, self.m])
        result = self.fails(["mount", "-o", "remount,rw", self.m], status=None)
        self.assertRegex(result.error, r"\Atinydeltafs: [^\n]*umount it and mount it again[^\n]*\n\Z")
        self.assertIn("ro", self.flags())
        self.umount()
        result = self.fails(
            [harness.program("tinydeltafs"), self.t, self.m, "-o", "remount,rw"], status=1
        )
        self.assertEqual(self.mounts(), [])
