# SPDX-License-Identifier: MIT
"""Data files in which a byte was changed, their length and date as they were: through a mount and
by the commands what is read is right or an error, never other bytes. TDL_FLIPS says how many places
of the large table are tried."""

import contextlib
import errno
import json
import os
import pathlib
import random
import shutil
import subprocess

from harness import DATA, TestCase, program

MIB = 1 << 20
FLIPS = int(os.environ.get("TDL_FLIPS", "24"))
WRONG = "is not what its checksum in the log says"


def rows(size, seed):
    """Rows of at least this many bytes."""
    made, total, number = [], 0, seed
    while total < size:
        made.append(b'{"id":%d}\n' % number)
        total += len(made[-1])
        number += 7919
    return b"".join(made)


def flip(path, at):
    """Changes a byte, and leaves the dates; called again it takes that back."""
    info = os.stat(path)
    with open(path, "r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), at)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def uncached(path):
    """Makes the kernel forget what it has of a file in a mount."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Flipped(TestCase):
    needs_fuse = True

    def part(self, table, version):
        for action in self.commit(table, version):
            if "add" in action:
                return table / action["add"]["path"]
        raise AssertionError("no file added")

    def read(self, path, at, count):
        """Bytes, or None for an I/O error."""
        try:
            with open(path, "rb", buffering=0) as file:
                return os.pread(file.fileno(), count, at)
        except OSError as error:
            self.assertEqual(error.errno, errno.EIO, error)
            return None

    def large(self):
        """Versions, each with its bytes; the data files and, for each, the versions it is in."""
        table = self.table()
        first, second, third = rows(5 * MIB + 1234, 1), rows(300000, 2), rows(3 * MIB, 3)
        foreign = b'{"id":5}\n{"id":6}'
        self.append(table, first)
        self.append(table, second)
        self.tinydelta("overwrite", table, "--file", self.file(third))
        # As other writers restore version 1: without a word on checksums.
        log = table / "_delta_log"
        add = next(a["add"] for a in self.commit(table, 1) if "add" in a)
        for name in ("crc32c", "blocks", "rows"):
            del add[name]
        (table / "foreign").write_bytes(foreign)
        lines = [
            {"commitInfo": {"timestamp": 9, "operation": "RESTORE", "readVersion": 3}},
            {"remove": {"path": self.part(table, 3).name}},
            {"add": add},
            {"add": {"path": "foreign", "size": len(foreign), "numRecords": 2}},
        ]
        (log / f"{4:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        versions = [b"", first, first + second, third, first + foreign + b"\n"]
        parts = [
            (self.part(table, 1), len(first), {1: 0, 2: 0, 4: 0}),
            (self.part(table, 2), len(second), {2: len(first)}),
            (self.part(table, 3), len(third), {3: 0}),
        ]
        return table, versions, parts

    def through_a_mount(self, options, index):
        table, versions, parts = self.large()
        if not index:
            (table / "_delta_log/_history.idx").unlink(missing_ok=True)
        chance = random.Random(7)
        with self.mount(table, options=options) as mnt:
            mnt.allow_log(WRONG, "passthrough: the kernel reads", "was changed while it was read")
            paths = [mnt / f"v{version}/data.jsonl" for version in range(5)]
            for turn in range(FLIPS):
                part, size, holders = parts[turn % 3]
                at = chance.randrange(size)
                block = at - at % MIB
                end = min(size, block + MIB)
                for path in paths:
                    uncached(path)
                flip(part, at)
                for version, wanted in enumerate(versions):
                    places = [(chance.randrange(len(wanted) + 1), chance.choice((1, 4096, 3 * MIB)))]
                    if version in holders:
                        places.insert(0, (holders[version] + at, 1))
                        places.append((holders[version], len(wanted)))
                    for start, count in places:
                        got = self.read(paths[version], start, count)
                        if got is not None:
                            self.assertEqual(got, wanted[start : start + count][: len(got)])
                        if version not in holders:
                            self.assertIsNotNone(got)
                        elif got is not None:
                            first = holders[version]
                            self.assertFalse(
                                start < first + end and start + len(got) > first + at,
                                f"{len(got)} bytes at {start} with one changed at {at} of {part}",
                            )
                flip(part, at)
                for version in holders:
                    where = holders[version] + at
                    self.assertEqual(
                        self.read(paths[version], where, 100), versions[version][where : where + 100]
                    )
            for path, wanted in zip(paths, versions):
                self.assertEqual(path.read_bytes(), wanted)

    def test_copied(self):
        self.through_a_mount(["nopassthrough"], index=True)

    def test_copied_without_an_index(self):
        self.through_a_mount(["nopassthrough"], index=False)

    def test_passed_through_where_that_is(self):
        self.through_a_mount([], index=True)

    def test_every_byte_of_a_small_table(self):
        self.every_byte(index=True)

    def test_every_byte_of_a_small_table_without_an_index(self):
        self.every_byte(index=False)

    def every_byte(self, index):
        table = self.table()
        content = [b"", b'{"id":1}\n{"id":2}\n', b'{"id":1}\n{"id":2}\n{"id":3}\n']
        self.append(table, content[1])
        self.append(table, b'{"id":3}\n')
        parts = [self.part(table, version) for version in (1, 2)]
        if not index:
            (table / "_delta_log/_history.idx").unlink(missing_ok=True)
        with self.mount(table, options=["nopassthrough"]) as mnt:
            mnt.allow_log(WRONG)
            for number, part in enumerate(parts, 1):
                for at in range(part.stat().st_size):
                    for version in range(3):
                        uncached(mnt / f"v{version}/data.jsonl")
                    flip(part, at)
                    for version, wanted in enumerate(content):
                        got = self.read(mnt / f"v{version}/data.jsonl", 0, 100)
                        self.assertEqual(got, None if version >= number else wanted)
                    flip(part, at)
            for version, wanted in enumerate(content):
                self.assertEqual(mnt.read(f"v{version}/data.jsonl"), wanted)

    def test_every_byte_by_the_commands(self):
        table = self.table()
        content = {1: b'{"id":1}\n', 2: b'{"id":2}\n{"id":3}\n'}
        for version, text in content.items():
            self.tinydelta("overwrite", table, "--file", self.file(text))
        for version, text in content.items():
            part = self.part(table, version)
            for at in range(len(text)):
                flip(part, at)
                bad = self.tinydelta_fails("read", table, "--version", version)
                self.assertEqual(bad.out, b"")
                self.assertRegex(bad.error, f"{part.name} {WRONG}, in the {len(text)} bytes from 0")
                other = 3 - version
                self.assertEqual(
                    self.tinydelta("read", table, "--version", other).out, content[other]
                )
                if at % 5 == 0:
                    bad = self.tinydelta_fails("diff", table, "1", "2", status=2)
                    self.assertIn(WRONG, bad.error)
                    bad = self.tinydelta_fails("restore", table, "--version", version)
                    self.assertIn(WRONG, bad.error)
                flip(part, at)
        self.assertEqual(self.versions(table)[-1], 2)

    def test_large_by_the_commands(self):
        table, versions, parts = self.large()
        chance = random.Random(8)
        for turn in range(max(3, FLIPS // 4)):
            part, size, holders = parts[turn % 3]
            at = chance.randrange(size)
            flip(part, at)
            for version, wanted in enumerate(versions):
                with open(self.path(f"out{turn}-{version}"), "w+b") as out:
                    argv = [program("tinydelta"), "read", table, "--version", str(version)]
                    status = subprocess.run(argv, stdout=out, stderr=subprocess.PIPE).returncode
                    out.seek(0)
                    got = out.read()
                self.assertEqual(status, int(version in holders))
                self.assertEqual(got, wanted[: len(got)])
                self.assertTrue(version in holders or len(got) == len(wanted))
                if version in holders:
                    self.assertLessEqual(len(got), holders[version] + at)
            flip(part, at)

    def test_a_bad_block_among_good_ones(self):
        table, versions, parts = self.large()
        part, size, _ = parts[0]
        backup = self.path("backup")
        shutil.copy2(part, backup)
        flip(part, 2 * MIB + 77)
        with self.mount(table, options=["nopassthrough"]) as mnt:
            mnt.expect_log(f"v1/data.jsonl: .*{part.name} {WRONG}, in the {MIB} bytes from {2 * MIB} on")
            mnt.allow_log(WRONG)
            path = mnt / "v1/data.jsonl"
            # What is wanted alone is read, whatever the kernel would like to have besides.
            for at in (0, MIB + 5, 2 * MIB - 4096, 3 * MIB, 4 * MIB + 9):
                self.assertEqual(self.read(path, at, 4096), versions[1][at : at + 4096])
            self.assertIsNone(self.read(path, 2 * MIB, 4096))
            self.assertIsNone(self.read(path, 3 * MIB - 1, 1))
            self.assertEqual(mnt.read("v3/data.jsonl"), versions[3])
            copy = self.path("copy")
            for _ in range(3):
                said = self.fails(["cp", path, copy], status=1)
                self.assertIn("Input/output error", said.error)
                self.assertEqual(copy.read_bytes(), versions[1][: copy.stat().st_size])
                self.assertLessEqual(copy.stat().st_size, 2 * MIB)
            self.assertEqual(mnt.log().count(WRONG), 1, "one line for one block of one version")
            # Put back in its place, under its name.
            shutil.copy2(backup, self.path("again"))
            os.rename(self.path("again"), part)
            self.assertEqual(mnt.read("v1/data.jsonl"), versions[1])
            flip(part, 5 * MIB)
            uncached(path)
            self.assertIsNone(self.read(path, 5 * MIB, 1))
            flip(part, 5 * MIB)
            self.assertEqual(mnt.read("v1/data.jsonl"), versions[1])

    def test_changed_while_it_is_open(self):
        """What the kernel has of it stays right, what it has not is an error."""
        table, versions, parts = self.large()
        part = parts[0][0]
        with self.mount(table, options=["nopassthrough"]) as mnt:
            mnt.allow_log(WRONG)
            with open(mnt / "v1/data.jsonl", "rb", buffering=0) as file:
                self.assertEqual(os.pread(file.fileno(), 100, 0), versions[1][:100])
                flip(part, 50)
                flip(part, 4 * MIB + 5)
                self.assertEqual(os.pread(file.fileno(), 100, 0), versions[1][:100])
                with self.assertRaises(OSError) as caught:
                    os.pread(file.fileno(), 100, 4 * MIB)
                self.assertEqual(caught.exception.errno, errno.EIO)
                # Another mode or date is not damage.
                flip(part, 50)
                flip(part, 4 * MIB + 5)
                os.chmod(part, 0o600)
                self.assertEqual(os.pread(file.fileno(), 100, 4 * MIB), versions[1][4 * MIB :][:100])
                os.utime(part)
                self.assertEqual(os.pread(file.fileno(), 100, 5 * MIB), versions[1][5 * MIB :][:100])

    def test_a_table_of_an_earlier_release(self):
        """Which has one checksum for a file of any size."""
        table = self.path("old")
        shutil.copytree(DATA / "releases/0.1-one-sum", table)
        part = self.part(table, 1)
        wanted = part.read_bytes()
        self.assertGreater(len(wanted), MIB)
        with self.mount(table, options=["nopassthrough"]) as mnt:
            mnt.allow_log(WRONG)
            path = mnt / "v1/data.jsonl"
            self.assertEqual(path.read_bytes(), wanted)
            uncached(path)
            flip(part, len(wanted) - 5)
            self.assertIsNone(self.read(path, 0, 1), "no byte of it is known to be right")
            flip(part, len(wanted) - 5)
            self.assertEqual(path.read_bytes(), wanted)
        self.assertEqual(self.tinydelta("read", table, "--version", 1).out, wanted)
        flip(part, 9)
        with contextlib.suppress(FileNotFoundError):
            pathlib.Path(table, "_delta_log/_history.idx").unlink()
        self.assertEqual(self.tinydelta_fails("read", table, "--version", 1).out, b"")
