# SPDX-License-Identifier: MIT
"""A user who is not root, with a home, a table and a mount point in it."""

import os
import shutil
import stat

import harness
from harness import TestCase

NOBODY = 65534


class UserCase(TestCase):
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
