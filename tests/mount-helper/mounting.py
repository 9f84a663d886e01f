# SPDX-License-Identifier: MIT
"""What the tests with mount(8) itself share: the programs where it looks for them."""

import os
import pathlib
import select
import shutil
import stat

import harness
import proc
from harness import TestCase

# For octal escapes: fstab and /proc/mounts have a blank between fields.
ESCAPED = str.maketrans({" ": r"\040", "\t": r"\011", "\n": r"\012", "\\": r"\134"})


class Mount8(TestCase):
    """self.t is a table with one row, self.m a directory to mount it on. /usr/sbin has the helper and
    the daemon in it, for this process alone."""

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
        for place, target in (
            ("mount.tinydelta", self.path("helper") / "mount.tinydelta"),
            ("mount.tinydeltafs", "mount.tinydelta"),
            ("tinydeltafs", self.path("fs") / "tinydeltafs"),
        ):
            place = pathlib.Path("/usr/sbin", place)
            place.unlink(missing_ok=True)
            place.symlink_to(target)
        self.t = self.table(rows=[{"id": 1}], name="t")
        self.m = self.path("m")
        self.m.mkdir()
        self.addCleanup(self.clear)

    def clear(self):
        for _ in range(4):
            if proc.mountinfo(self.m):
                harness.run(["umount", "-l", self.m])

    def fstab(self, *lines):
        path = self.path("fstab")
        path.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")
        path.chmod(0o644)
        self.ok(["mount", "--bind", path, "/etc/fstab"])
        self.addCleanup(harness.run, ["umount", "-l", "/etc/fstab"])

    def daemon_of(self, point):
        """The pid of the tinydeltafs that serves a mount point, whatever the path it was given."""
        return proc.daemon_of(os.path.basename(point), base=True)

    def mounts(self, point=None):
        """Fields of the lines of /proc/self/mountinfo for a mount point."""
        point = str(point or self.m).translate(ESCAPED)
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            found = [line.rstrip("\n").split(" ") for line in lines]
        return [fields for fields in found if fields[4] == point]

    def umount(self, point=None):
        point = point or self.m
        daemon = self.daemon_of(point)
        pidfd = os.pidfd_open(daemon)
        try:
            self.ok(["umount", point])
            # The daemon is not a child of ours; its end is waited for all the same.
            ended, _, _ = select.select([pidfd], [], [], harness.DAEMON_TIMEOUT)
            self.assertTrue(ended, "tinydeltafs did not end after umount")
        finally:
            os.close(pidfd)

    def open_device(self):
        """Some machines keep /dev/fuse to root; everywhere else it is open to all."""
        device = self.path("fuse")
        os.mknod(device, stat.S_IFCHR | 0o666, os.stat("/dev/fuse").st_rdev)
        device.chmod(0o666)
        self.ok(["mount", "--bind", device, "/dev/fuse"])
        self.addCleanup(harness.run, ["umount", "-l", "/dev/fuse"])

    def mount_fails(self, *words, says, status=32):
        result = self.fails(["mount", *words], status=status)
        self.assertEqual(len(result.error.splitlines()), 1, str(result))
        self.assertRegex(result.error, says)
