# SPDX-License-Identifier: MIT
"""A mount by an ordinary user, through fusermount3: nothing of it needs root."""

import os
import shutil
import stat

import harness
from harness import TestCase

NOBODY = 65534


class OrdinaryUser(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.require_root()  # to become somebody else
        self.require_tool("fusermount3")
        self.open_device()
        # The build directory may be closed to others.
        self.programs = {}
        for name in ("tinydelta", "tinydeltafs"):
            self.programs[name] = shutil.copy(harness.program(name), self.scratch)
        self.home = self.path("home")
        self.home.mkdir()
        os.chown(self.home, NOBODY, NOBODY)
        self.table_path = self.home / "orders"
        self.mine("tinydelta", "create", self.table_path, "id:int")
        self.point = self.home / "mnt"
        self.user(["mkdir", self.point])

    def open_device(self):
        """Some containers keep /dev/fuse for root: then this namespace gets one for all."""
        if os.stat("/dev/fuse").st_mode & 0o006 == 0o006:
            return
        folder = self.path("dev")
        folder.mkdir()
        self.ok(["mount", "-t", "tmpfs", "none", folder])
        self.addCleanup(harness.run, ["umount", "-l", folder])
        os.mknod(folder / "fuse", stat.S_IFCHR | 0o666, os.stat("/dev/fuse").st_rdev)
        os.chmod(folder / "fuse", 0o666)
        self.ok(["mount", "--bind", folder / "fuse", "/dev/fuse"])
        self.addCleanup(harness.run, ["umount", "/dev/fuse"])

    def user(self, argv):
        return self.ok(argv, user=NOBODY, cwd=self.home)

    def mine(self, name, *arguments):
        return self.user([self.programs[name], *arguments])

    def test_foreground(self):
        mount = self.mount(self.table_path, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            row = self.file([{"id": 1}], "row.jsonl")
            self.user(["cp", row, mnt / "incoming/"])
            self.assertEqual(self.user(["cat", mnt / "v1/data.jsonl"]).out, b'{"id":1}\n')
            self.assertEqual(self.user(["ls", mnt / "incoming"]).out, b"")
            self.user(["fusermount3", "-u", mnt])
            mnt.finish()

    def test_background(self):
        self.addCleanup(harness.run, ["umount", "-l", self.point])
        self.mine("tinydeltafs", self.table_path, self.point)
        # It serves when the command has returned.
        self.assertEqual(self.user(["ls", self.point]).text.split()[-1], "v0")
        self.user(["fusermount3", "-u", self.point])
        self.assertEqual(os.listdir(self.point), [])

    def test_others_do_not_see_it(self):
        mount = self.mount(self.table_path, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            said = self.fails(["ls", mnt], user=NOBODY - 1, status=None)
            self.assertIn("Permission denied", said.error)

    def test_a_table_that_may_only_be_read(self):
        table = self.table(rows=[{"id": 1}])
        mount = self.mount(table, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        mount.expect_log("nothing can be dropped: .*Permission denied")
        with mount as mnt:
            self.assertEqual(self.user(["cat", mnt / "latest/data.jsonl"]).out, b'{"id":1}\n')
            self.assertEqual(self.user(["ls", mnt / "incoming"]).out, b"")
            mode = self.user(["stat", "-c", "%a", mnt / "incoming"]).text
            self.assertEqual(mode, "555\n")
            row = self.file([{"id": 2}], "row.jsonl")
            self.fails(["cp", row, mnt / "incoming/"], user=NOBODY)
        self.assertEqual(self.versions(table), [0, 1])

    def test_a_large_version(self):
        """Passthrough, where libfuse has it, is for root: others are not even told."""
        rows = b"".join(b'{"id":%d}\n' % i for i in range(200000))
        self.mine("tinydelta", "append", self.table_path, "--file", self.file(rows))
        mount = self.mount(self.table_path, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            self.assertEqual(self.user(["cat", mnt / "v1/data.jsonl"]).out, rows)
            self.assertEqual(mnt.log(), "")
