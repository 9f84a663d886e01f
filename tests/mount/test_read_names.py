# SPDX-License-Identifier: MIT
"""Listings and file handles: each version once, under numbers that stay."""

import ctypes
import errno
import os
import threading

from harness import TestCase, drop_caches
from reference import Reference

class Listing(TestCase):
    needs_fuse = True

    def test_each_version_once_while_commits_land(self):
        table = self.table()
        reference = Reference(table)
        for number in range(1, 400):
            reference.append([{"id": number}])
        with self.mount(table) as mnt:
            stop = threading.Event()

            def writer():
                number = 400
                while not stop.is_set():
                    reference.append([{"id": number}])
                    number += 1

            thread = threading.Thread(target=writer)
            thread.start()
            try:
                for _ in range(30):
                    for name, suffix in (("", ""), ("history", ".json")):
                        before = reference.head()
                        found = [n for n in os.listdir(mnt / name) if n.startswith("v")]
                        after = reference.head()
                        numbers = sorted(int(n[1 : len(n) - len(suffix)]) for n in found)
                        self.assertEqual(numbers, list(range(len(numbers))))
                        self.assertGreaterEqual(len(numbers), before + 1)
                        self.assertLessEqual(len(numbers), after + 1)
            finally:
                stop.set()
                thread.join()

    def test_offsets_outlive_the_mount(self):
        """A listing may be taken up again where it was, as NFS servers do."""
        table = self.golden("steps")

        def offsets(mnt):
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor = os.open(mnt, os.O_RDONLY | os.O_DIRECTORY)
            buffer = ctypes.create_string_buffer(256)
            found = {}
            try:
                while (got := libc.syscall(217, descriptor, buffer, 256)) > 0:
                    at = 0
                    while at < got:
                        ino = int.from_bytes(buffer.raw[at : at + 8], "little")
                        offset = int.from_bytes(buffer.raw[at + 8 : at + 16], "little")
                        length = int.from_bytes(buffer.raw[at + 16 : at + 18], "little")
                        name = buffer.raw[at + 19 : at + length].split(b"\0")[0]
                        self.assertNotIn(ino, (0, 2**64 - 1))
                        self.assertNotIn(name, found)
                        found[name] = offset
                        at += length
                self.assertEqual(got, 0)
            finally:
                os.close(descriptor)
            return found

        if os.uname().machine != "x86_64":
            self.skipTest("knows getdents64 of x86_64 only")
        with self.mount(table) as mnt:
            first = offsets(mnt)
        with self.mount(table) as mnt:
            self.assertEqual(offsets(mnt), first)
        self.assertEqual(len(first), self.golden_versions("steps") + 7)

    def test_listings_agree(self):
        table = self.golden("steps")
        with self.mount(table) as mnt:
            wanted = self.golden_versions("steps") + 5  # with one file
            self.assertEqual(len(os.listdir(mnt)), wanted)
            self.assertEqual(len(self.ok(["ls", "-U", mnt]).out.splitlines()), wanted)
            self.assertEqual(len(self.ok(["ls", "-l", mnt]).out.splitlines()), wanted + 1)
            found = self.ok(["find", mnt, "-mindepth", "1", "-maxdepth", "1"]).out.splitlines()
            self.assertEqual(len(found), wanted)
            folders = self.ok(["find", mnt, "-type", "d"]).out.splitlines()
            self.assertEqual(len(folders), wanted)

    def test_sizes_in_listings_are_those_of_the_files(self):
        table = self.golden("orders")
        with self.mount(table) as mnt:
            for version in range(self.golden_versions("orders")):
                size = int(self.ok(["ls", "-l", mnt / f"v{version}"]).text.split()[-5])
                self.assertEqual(size, len(mnt.read(f"v{version}/data.jsonl")))


class Handles(TestCase):
    """What an NFS server does: it keeps numbers, and comes back with them after years."""

    needs_fuse = True
    libc = ctypes.CDLL(None, use_errno=True)

    def handle_of(self, path):
        handle = ctypes.create_string_buffer(8 + 128)
        handle[0:4] = (128).to_bytes(4, "little")
        mount = ctypes.c_int()
        path = os.fsencode(path)
        if self.libc.name_to_handle_at(-100, path, handle, ctypes.byref(mount), 0) != 0:
            self.skipTest(f"name_to_handle_at: {os.strerror(ctypes.get_errno())}")
        return handle.raw

    def read_by(self, mnt, handle):
        folder = os.open(mnt, os.O_RDONLY | os.O_DIRECTORY)
        try:
            buffer = ctypes.create_string_buffer(handle, len(handle))
            descriptor = self.libc.open_by_handle_at(folder, buffer, os.O_RDONLY)
            if descriptor < 0:
                raise OSError(ctypes.get_errno(), "open_by_handle_at")
            with open(descriptor, "rb") as file:
                return file.read()
        finally:
            os.close(folder)

    def test_they_outlive_caches_and_mounts(self):
        self.require_root()
        table = self.table(rows=[{"id": 1}])
        self.append(table, [{"id": 2}])
        point = self.path()
        with self.mount(table, point) as mnt:
            handles = [self.handle_of(mnt / f"v{v}/data.jsonl") for v in range(3)]
            latest = self.handle_of(mnt / "latest/data.jsonl")
            drop_caches()
            self.append(table, [{"id": 3}])
            for version, handle in enumerate(handles):
                self.assertEqual(self.read_by(mnt, handle), self.data(table, version))
            self.assertEqual(self.read_by(mnt, latest), self.data(table, 2))
        with self.mount(table, point) as mnt:
            for version in (2, 0, 1):
                self.assertEqual(self.read_by(mnt, handles[version]), self.data(table, version))
        # Another table has no such version yet: stale, never something else's bytes.
        with self.mount(self.table(), point) as mnt:
            self.assertEqual(self.read_by(mnt, handles[0]), b"")
            with self.assertRaises(OSError) as caught:
                self.read_by(mnt, handles[1])
            self.assertEqual(caught.exception.errno, errno.ESTALE)
