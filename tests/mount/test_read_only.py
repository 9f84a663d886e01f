# SPDX-License-Identifier: MIT
"""Nothing but incoming/ can be changed, and modes follow the table's directory."""

import errno
import os
import stat

import harness
from harness import TestCase

class ReadOnly(TestCase):
    """Nothing but incoming/ can be changed, and whoever tries is told so plainly."""

    needs_fuse = True

    def refused(self, mnt, *wanted):
        calls = {
            "open for writing": lambda: os.open(mnt / "v1/data.jsonl", os.O_WRONLY),
            "open for both": lambda: os.open(mnt / "latest/data.jsonl", os.O_RDWR),
            "append": lambda: os.open(mnt / "v1/data.jsonl", os.O_WRONLY | os.O_APPEND),
            "truncating open": lambda: os.open(mnt / "v1/data.jsonl", os.O_WRONLY | os.O_TRUNC),
            "odd truncating open": lambda: os.open(mnt / "v1/data.jsonl", os.O_RDONLY | os.O_TRUNC),
            "open record": lambda: os.open(mnt / "history/v1.json", os.O_WRONLY),
            "truncate": lambda: os.truncate(mnt / "v1/data.jsonl", 0),
            "create in root": lambda: os.open(mnt / "x", os.O_CREAT | os.O_WRONLY),
            "create in a version": lambda: os.open(mnt / "v1/x", os.O_CREAT | os.O_WRONLY),
            "create in latest": lambda: os.open(mnt / "latest/x", os.O_CREAT | os.O_WRONLY),
            "create in history": lambda: os.open(mnt / "history/x", os.O_CREAT | os.O_WRONLY),
            "create a version to come": lambda: os.mkdir(mnt / "v99"),
            "mkdir": lambda: os.mkdir(mnt / "v1/x"),
            "mknod": lambda: os.mknod(mnt / "v1/x"),
            "mkfifo": lambda: os.mkfifo(mnt / "x"),
            "symlink": lambda: os.symlink("x", mnt / "x"),
            "link": lambda: os.link(mnt / "v1/data.jsonl", mnt / "x"),
            "unlink": lambda: os.unlink(mnt / "v1/data.jsonl"),
            "rmdir": lambda: os.rmdir(mnt / "v1"),
            "rmdir latest": lambda: os.rmdir(mnt / "latest"),
            "rename": lambda: os.rename(mnt / "v1", mnt / "w1"),
            "rename file": lambda: os.rename(mnt / "v1/data.jsonl", mnt / "v1/x"),
            "rename into incoming": lambda: os.rename(
                mnt / "v1/data.jsonl", mnt / "incoming/x"
            ),
            "chmod": lambda: os.chmod(mnt / "v1/data.jsonl", 0o666),
            "chown": lambda: os.chown(mnt / "v1", 1, 1),
            "utime": lambda: os.utime(mnt / "v1/data.jsonl"),
            "utime of root": lambda: os.utime(mnt, (1, 1)),
        }
        for name, call in calls.items():
            with self.subTest(call=name), self.assertRaises(OSError) as caught:
                call()
            self.assertIn(caught.exception.errno, wanted, f"{name}: {caught.exception}")

    def test_for_root(self):
        self.require_root()
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            self.refused(mnt, errno.EROFS)
            with self.assertRaises(OSError) as caught:
                os.setxattr(mnt / "v1/data.jsonl", "user.a", b"1")
            self.assertIn(caught.exception.errno, (errno.EOPNOTSUPP, errno.EROFS))
            self.assertEqual(mnt.read("v1/data.jsonl"), b'{"id":1}\n')

    def test_mounted_read_only(self):
        table = self.table(rows=[{"id": 1}])
        before = sorted(os.listdir(table))
        with self.mount(table, options=["ro"]) as mnt:
            self.refused(mnt, errno.EROFS, errno.EACCES)
            self.assertEqual(mnt.names("incoming"), [])
            self.assertEqual(stat.S_IMODE(os.stat(mnt / "incoming").st_mode) & 0o222, 0)
            with self.assertRaises(OSError) as caught:
                os.open(mnt / "incoming/x", os.O_CREAT | os.O_WRONLY)
            self.assertIn(caught.exception.errno, (errno.EROFS, errno.EACCES))
            self.assertFalse(os.access(mnt / "v1/data.jsonl", os.W_OK))
        self.assertEqual(sorted(os.listdir(table)), before)
        self.assertEqual(self.versions(table), [0, 1])

    def test_for_others(self):
        self.require_root()
        table = self.table(rows=[{"id": 1}])
        script = (
            'cd "$1"; ! touch v1/x && ! touch v1/data.jsonl && ! mkdir x && ! rm -f v1/data.jsonl'
            " && ! mv v1 w && ! test -w v1/data.jsonl && ! test -w v1 && cat v1/data.jsonl"
        )
        with self.mount(table, options=["allow_other"]) as mnt:
            said = self.ok(["bash", "-c", script, "bash", mnt], user=65534)
            self.assertEqual(said.out, b'{"id":1}\n')
            self.assertNotIn("implemented", said.error)
            for line in said.error.splitlines():
                self.assertRegex(line, "Read-only file system|Permission denied|not permitted")

    def test_sync_and_ioctl_are_answered(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            for name in ("", "v1", "v1/data.jsonl"):
                descriptor = os.open(mnt / name, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
            said = harness.run(["lsattr", mnt / "v1/data.jsonl"])
            self.assertNotIn("not implemented", said.error)
            self.ok(["sync", "-f", mnt / "v1"])


class Permissions(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.require_root()

    def test_modes_follow_the_table(self):
        table = self.table(rows=[{"id": 1}])
        os.chmod(table, 0o700)
        with self.mount(table, options=["allow_other"]) as mnt:
            said = self.fails(["cat", mnt / "v1/data.jsonl"], user=65534)
            self.assertIn("Permission denied", said.error)
            self.fails(["ls", mnt], user=65534, status=2)
        os.chmod(table, 0o755)
        with self.mount(table, options=["allow_other"]) as mnt:
            self.assertEqual(
                self.ok(["cat", mnt / "v1/data.jsonl"], user=65534).out, b'{"id":1}\n'
            )

    def test_a_table_closed_later_is_closed(self):
        table = self.table(rows=[{"id": 1}])
        os.chmod(table, 0o755)
        with self.mount(table, options=["allow_other"]) as mnt:
            self.ok(["cat", mnt / "v1/data.jsonl"], user=65534)
            os.chmod(table, 0o700)
            # The kernel knows the root's attributes for a moment.
            self.ok(["sleep", "0.1"])
            self.fails(["cat", mnt / "v1/data.jsonl"], user=65534)

    def test_others_are_out_without_allow_other(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            self.fails(["ls", mnt], user=65534, status=2)

    def test_owner(self):
        table = self.table(rows=[{"id": 1}])
        os.chown(table, 1234, 5678)
        with self.mount(table) as mnt:
            for name in ("", "v1", "v1/data.jsonl", "history/v1.json", "latest"):
                st = os.stat(mnt / name)
                self.assertEqual((st.st_uid, st.st_gid), (1234, 5678), name)
