# SPDX-License-Identifier: MIT
"""Large versions of one data file, which the kernel reads by itself where libfuse, kernel and
privileges let it. What is read must be the same either way; with TDL_PASSTHROUGH=1 it must be so
that it does."""

import contextlib
import errno
import mmap
import os
import pathlib
import threading
import time

from harness import TestCase, run

DEMANDED = os.environ.get("TDL_PASSTHROUGH") == "1"
LARGE = 3 << 20
TOLD = "passthrough: the kernel reads large data files"


def rows(first, size=LARGE):
    """At least `size` bytes of rows that no other call makes."""
    line = b'{"id":%d}\n'
    count = size // 12 + 1
    return b"".join(line % (first * 10000000 + i) for i in range(count))


def brought(mount):
    """Bytes that the daemon has read from anything, /dev/fuse too."""
    text = pathlib.Path(f"/proc/{mount.pid}/io").read_text(encoding="ascii")
    return int(text.split("rchar: ", 1)[1].split("\n", 1)[0])


def descriptors(mount):
    return len(os.listdir(f"/proc/{mount.pid}/fd"))


class Passthrough(TestCase):
    needs_fuse = True

    def overwritten(self, count=1):
        """A table whose versions 1 to `count` are one large data file each, and their bytes."""
        table, wanted = self.table(), [b""]
        for version in range(1, count + 1):
            wanted.append(rows(version))
            self.tinydelta("overwrite", table, "--file", self.file(wanted[-1]))
        return table, wanted

    def settles(self, mount, base):
        """Releases come after close() has returned."""
        self.wait_for(lambda: descriptors(mount) <= base, "descriptors given back")

    def test_the_kernel_reads(self):
        table, wanted = self.overwritten()
        part = next(pathlib.Path(table).glob("part-*.jsonl"))
        # What was found right within the tick of the clock that it was changed in is not kept.
        self.wait_for(lambda: time.time() - part.stat().st_ctime > 0.05, "a file of some age")
        with self.mount(table) as mnt:
            before = brought(mnt)
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])
            if DEMANDED:
                # The daemon compares the file with its checksums, once.
                self.assertLess(brought(mnt) - before, len(wanted[1]) + LARGE // 2)
            before = brought(mnt)
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])
            if DEMANDED:
                self.assertLess(brought(mnt) - before, LARGE // 2)
            log = mnt.log()
        if DEMANDED:
            self.assertIn(TOLD, log)

    def test_told_once(self):
        table, wanted = self.overwritten(2)
        with self.mount(table) as mnt:
            for version in (1, 2, 1, 2):
                self.assertEqual(mnt.read(f"v{version}/data.jsonl"), wanted[version])
            self.assertLessEqual(mnt.log().count(TOLD), 1)

    def test_option(self):
        table, wanted = self.overwritten()
        with self.mount(table, options=["nopassthrough"]) as mnt:
            before = brought(mnt)
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])
            self.assertGreaterEqual(brought(mnt) - before, LARGE)
            self.assertEqual(mnt.log(), "")

    def test_versions_side_by_side(self):
        table, wanted = self.overwritten(3)
        with self.mount(table) as mnt, contextlib.ExitStack() as stack:
            files = [
                (version, stack.enter_context(open(mnt / f"v{version}/data.jsonl", "rb")))
                for version in (1, 2, 3, 1, 2, 3)
            ]
            for at in (0, LARGE // 2, LARGE - 5):
                for version, file in files:
                    file.seek(at)
                    self.assertEqual(file.read(100000), wanted[version][at : at + 100000])

    def test_latest_stays_what_it_was(self):
        table, wanted = self.overwritten()
        with self.mount(table) as mnt, open(mnt / "latest/data.jsonl", "rb") as old:
            self.assertEqual(old.read(10), wanted[1][:10])
            newer = rows(9)
            self.tinydelta("overwrite", table, "--file", self.file(newer))
            self.assertEqual(mnt.read("latest/data.jsonl"), newer)
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])
            old.seek(0)
            self.assertEqual(old.read(), wanted[1])
            self.append(table, b'{"id":7}\n')
            self.assertEqual(mnt.read("latest/data.jsonl"), newer + b'{"id":7}\n')

    def test_all_kinds_of_versions(self):
        """Of no file, of a small one, of two, of one that lacks its newline."""
        table = self.table()
        self.append(table, b'{"id":1}\n')
        self.append(table, rows(2))
        bare = rows(3)
        self.tinydelta("overwrite", table, "--file", self.file(bare))
        part = next(
            action["add"]["path"] for action in self.commit(table, 3) if "add" in action
        )
        self.strip_newline(table, part)
        with self.mount(table) as mnt:
            for version in (0, 1, 2, 3, 3):
                self.assertEqual(mnt.read(f"v{version}/data.jsonl"), self.data(table, version))

    def strip_newline(self, table, part):
        """Makes version 3 one whose file lacks its last newline, as other writers may leave it."""
        path = pathlib.Path(table, part)
        path.write_bytes(path.read_bytes()[:-1])
        size = path.stat().st_size
        lines = [b'{"commitInfo":{"timestamp":9,"operation":"OVERWRITE","readVersion":2}}\n']
        lines += [
            b'{"remove":{"path":"%s"}}\n' % action["add"]["path"].encode()
            for version in (1, 2)
            for action in self.commit(table, version)
            if "add" in action
        ]
        lines.append(b'{"add":{"path":"%s","size":%d,"numRecords":1}}\n' % (part.encode(), size))
        log = pathlib.Path(table, "_delta_log", f"{3:020d}.json")
        log.write_bytes(b"".join(lines))

    def test_many_handles(self):
        table, wanted = self.overwritten(2)
        with self.mount(table) as mnt:
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])
            threading.Event().wait(0.1)
            base, wrong = descriptors(mnt) + 2, []

            def reader(number):
                for turn in range(40):
                    version = 1 + (number + turn) % 2
                    with open(mnt / f"v{version}/data.jsonl", "rb") as file:
                        at = (number * 7919 + turn * 104729) % LARGE
                        file.seek(at)
                        if file.read(1000) != wanted[version][at : at + 1000]:
                            wrong.append((number, turn))

            threads = [threading.Thread(target=reader, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])
            self.settles(mnt, base)

    def test_mapped(self):
        table, wanted = self.overwritten()
        with self.mount(table) as mnt:
            with open(mnt / "v1/data.jsonl", "rb") as file:
                with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                    self.assertEqual(bytes(mapped), wanted[1])
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])

    def test_a_file_that_changes_while_it_is_open(self):
        table, _ = self.overwritten()
        part = next(pathlib.Path(table).glob("part-*.jsonl"))
        with self.mount(table) as mnt:
            mnt.allow_log("was changed while it was read", "bytes, the log says")
            # The close of a file that the kernel reads by itself fails too.
            with contextlib.suppress(OSError), open(
                mnt / "v1/data.jsonl", "rb", buffering=0
            ) as old:
                old.read(10)
                with open(part, "ab") as damaged:
                    damaged.write(b'{"id":5}\n')
                with self.assertRaises(OSError) as caught:
                    with open(mnt / "v1/data.jsonl", "rb", buffering=0) as new:
                        new.seek(2 << 20)
                        while new.read(1 << 20):
                            pass
                self.assertEqual(caught.exception.errno, errno.EIO)
            self.assertIn("v1/data.jsonl: version 1", mnt.log())

    def test_a_table_on_a_stacked_file_system(self):
        self.require_root()
        lower = self.path("lower")
        lower.mkdir()
        upper, work, merged = (self.path(name) for name in ("upper", "work", "merged"))
        for path in (upper, work, merged):
            path.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        if run(["mount", "-t", "overlay", "overlay", "-o", options, merged]).status != 0:
            options = f"lowerdir={lower}:{upper}"
            if run(["mount", "-t", "overlay", "overlay", "-o", options, merged]).status != 0:
                self.skipTest("no overlay can be mounted here")
        self.addCleanup(run, ["umount", "-l", merged])
        table, wanted = self.overwritten()
        stacked = merged / "table"
        if run(["cp", "-a", table, stacked]).status != 0:
            self.skipTest("the overlay cannot be written")
        with self.mount(stacked) as mnt:
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])
            self.assertEqual(mnt.read("v1/data.jsonl"), wanted[1])
