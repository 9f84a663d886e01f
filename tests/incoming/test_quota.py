# SPDX-License-Identifier: MIT
"""Staging that is full: by its file system, or by a quota. The writer is told, nothing is committed,
and the next drop works."""

import errno
import os

import harness
import places
from drops import Drops
from harness import TestCase


class Full(Drops):
    """The table on a file system of its own, of a few megabytes."""

    SIZE = 4 << 20
    ERRNO = errno.ENOSPC
    log_may_say = ("No space left", "quota")

    def place(self, case):
        """Where the table is made, and what stands before the daemon."""
        folder = case.path("small")
        folder.mkdir()
        case.addCleanup(harness.run, ["umount", "-l", folder])
        case.ok(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "none", folder])
        return folder, []

    def prepare(self, case):
        case.require_root()
        folder, wrapper = self.place(case)
        table = folder / "table"
        case.tinydelta("create", table, "id:int")
        type(self)._mount = case.mount(table, wrapper=wrapper)
        self._mount.start()

    def setUp(self):
        super().setUp()
        self.text = os.strerror(self.ERRNO)
        self.big = self.file(b'{"id":1234567890}\n' * (2 * self.SIZE // 18), "big")

    def staged(self):
        found = []
        for folder, _, names in os.walk(self.table_path / "_incoming"):
            found += [os.stat(os.path.join(folder, name)).st_size for name in names if name[0] != "."]
        return found

    def next_one_works(self, *names):
        """The room is there again at once, also while the failed file is listed."""
        self.assertCommitted()
        self.assertLeft(*names)
        self.assertLess(sum(self.staged()), 65536)
        row = self.row()
        self.ok(["cp", self.file(row), self.incoming / "next"])
        self.assertCommitted(row)
        self.assertLeft(*names)

    def test_programs_are_told(self):
        for script, left in (
            ('cp "$1" "$2"', True),
            ('cat "$1" > "$2"', True),
            ('dd if="$1" of="$2" bs=64k status=none', True),
            ('rsync "$1" "$2"', False),
            ('rsync --inplace "$1" "$2"', True),
            ('tee "$2" < "$1" > /dev/null', True),
            ('mv "$1" "$2"', None),
        ):
            with self.subTest(script=script):
                self.mark()
                result = harness.run(["bash", "-c", script, "bash", self.big, self.incoming / "x"])
                self.assertNotEqual(result.status, 0)
                self.assertIn(self.text, result.error)
                self.assertTrue(self.big.exists())
                names = os.listdir(self.incoming)
                if left is not None:
                    self.assertEqual(names != [], left, names)
                self.next_one_works(*names)
                for name in os.listdir(self.incoming):
                    if os.path.exists(self.incoming / name):
                        os.unlink(self.incoming / name)

    def test_who_goes_on_writing(self):
        """A hole is never papered over."""
        path = self.incoming / "x"
        file = os.open(path, os.O_CREAT | os.O_WRONLY)
        chunk = b'{"id":1234567890}\n' * 3640
        with self.assertRaises(OSError) as caught:
            for _ in range(2 * self.SIZE // len(chunk)):
                while os.write(file, chunk) == len(chunk):
                    pass
        self.assertEqual(caught.exception.errno, self.ERRNO)
        with self.assertRaises(OSError) as caught:
            os.close(file)
        self.assertEqual(caught.exception.errno, self.ERRNO)
        self.assertIn(self.text, self.reason("x"))
        self.next_one_works("x", "x.error")

    def test_emptied_and_written_again(self):
        path = self.incoming / "x"
        file = os.open(path, os.O_CREAT | os.O_WRONLY)
        with self.assertRaises(OSError):
            while True:
                os.write(file, b'{"id":1234567890}\n' * 3640)
        os.ftruncate(file, 0)
        row = self.row()
        os.pwrite(file, row, 0)
        os.close(file)
        self.assertCommitted(row)
        self.assertLeft()

    def test_many_at_once(self):
        rows = [self.row() for _ in range(8)]
        self.sh(
            'for i in {0..7}; do cp "$1" "$2/big$i" 2>/dev/null & done; wait; rm -f "$2"/big*',
            self.big, self.incoming,
        )
        self.assertCommitted()
        self.wait_for(lambda: self.staged() == [], "nothing is staged")
        for row in rows:
            self.ok(["cp", self.file(row), self.incoming / "x"])
        self.assertCommitted(*rows)


class Quota(Full):
    """A quota for root, and a daemon that may not exceed it."""

    ERRNO = errno.EDQUOT

    def place(self, case):
        return places.quota(case, self.SIZE)


class QuotaOfBtrfs(TestCase):
    """Here, at the limit, nothing can be made, cut short or removed: the worst of cases."""

    needs_fuse = True

    def test_the_writer_is_told(self):
        folder = places.made(self, "btrfs", ["-f"])
        self.ok(["btrfs", "quota", "enable", folder])
        self.ok(["btrfs", "qgroup", "limit", "4M", folder])
        table = folder / "table"
        self.tinydelta("create", table, "id:int")
        big = self.file(b'{"id":1234567890}\n' * 600000, "big")
        small = self.file([{"id": 1}])
        with self.mount(table) as mnt:
            mnt.expect_log("Disk quota exceeded")
            for _ in range(3):
                said = self.fails(["cp", big, mnt / "incoming/x"])
                self.assertIn("Disk quota exceeded", said.error)
            self.assertEqual(self.versions(table), [0])
            self.ok(["btrfs", "qgroup", "limit", "none", folder])
            self.ok(["cp", small, mnt / "incoming/y"])
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n')
            self.ok(["cp", small, mnt / "incoming/x"])
            self.assertEqual(self.versions(table), [0, 1, 2])
            self.assertEqual(mnt.names("incoming"), [])
