# SPDX-License-Identifier: MIT
"""history.jsonl: a line a version, frozen, which only grows and is never seen half-written."""

import errno
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
import traceback

from harness import DATA, TestCase

# Seconds that readers and a writer race; by hand: a minute.
RACE = float(os.environ.get("TDL_HISTORY_RACE", "5"))
READERS = 4
PAUSE = 0.0002  # seconds between two commits


def concatenated(mnt, versions):
    return b"".join(mnt.read(f"history/v{version}.json") for version in versions)


class Lines(TestCase):
    needs_fuse = True

    def test_golden(self):
        """The lines are a format: what a release wrote, every later one writes."""
        for name in self.golden_names():
            with self.subTest(table=name), self.mount(self.golden(name)) as mnt:
                self.assertEqual(mnt.read("history.jsonl"), self.expected(name, "history.jsonl"))
        name = "0.1-one-sum"
        table = self.path(name)
        self.ok(["cp", "-r", DATA / "releases" / name, table])
        with self.mount(table) as mnt:
            self.assertEqual(mnt.read("history.jsonl"), self.expected(name, "history.jsonl"))

    def test_is_all_of_history(self):
        for name in self.golden_names():
            table = self.golden(name)
            versions = range(self.golden_versions(name))
            with self.subTest(table=name), self.mount(table) as mnt:
                whole = mnt.read("history.jsonl")
                self.assertEqual(whole, concatenated(mnt, versions))
                self.assertEqual(os.stat(mnt / "history.jsonl").st_size, len(whole))
                for size in (1, 7, 4096):
                    with open(mnt / "history.jsonl", "rb", buffering=0) as file:
                        pieces = iter(lambda: file.read(size), b"")
                        self.assertEqual(b"".join(pieces), whole, size)
                with open(mnt / "history.jsonl", "rb") as file:
                    mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
                    self.assertEqual(mapped[:], whole)
                    mapped.close()

    def test_does_not_depend_on_data_files_reader_or_index(self):
        table = self.golden("foreign")
        with self.mount(table) as mnt:
            before = mnt.read("history.jsonl")
        with self.mount(table, env={"TZ": "Asia/Kolkata"}) as mnt:  # now from the index
            self.assertEqual(mnt.read("history.jsonl"), before)
        for part in table.glob("part-*"):
            part.unlink()
        (table / "_delta_log/_history.idx").unlink(missing_ok=True)
        with self.mount(table, options=["ro"], env={"LC_ALL": "C"}) as mnt:
            self.assertEqual(mnt.read("history.jsonl"), before)
            self.assertEqual(concatenated(mnt, range(self.golden_versions("foreign"))), before)

    def test_grows_at_once_and_stays_one_file(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            path = mnt / "history.jsonl"
            first = os.stat(path)
            with open(path, "rb", buffering=0) as file:
                whole = file.read(1 << 20)
                for row in range(5):
                    self.append(table, [{"id": row}])
                    # The size first: the kernel must keep neither that nor any byte.
                    size = os.fstat(file.fileno()).st_size
                    whole += file.read(1 << 20)
                    self.assertEqual(size, len(whole))
                    self.assertEqual(json.loads(whole.splitlines()[-1])["version"], row + 2)
                self.assertEqual(file.read(1), b"")
            self.assertEqual(mnt.read("history.jsonl"), whole)
            self.assertEqual(os.stat(path).st_ino, first.st_ino)
            self.assertGreater(os.stat(path).st_mtime_ns, first.st_mtime_ns)
            with self.assertRaises(OSError) as caught:
                os.open(path, os.O_WRONLY)
            self.assertIn(caught.exception.errno, (errno.EROFS, errno.EACCES))
        with self.mount(table) as mnt:
            self.assertEqual(os.stat(mnt / "history.jsonl").st_ino, first.st_ino)
            self.assertEqual(mnt.read("history.jsonl"), whole)

    def test_not_in_a_mount_of_one_version(self):
        with self.mount(self.table(rows=[{"id": 1}]), options=["version=1"]) as mnt:
            self.assertEqual(mnt.names(), ["data.jsonl"])


class Tools(TestCase):
    needs_fuse = True

    def test_tail_n_grep_jq_wc(self):
        table = self.table()
        for row in range(5):
            self.append(table, [{"id": row}])
        with self.mount(table) as mnt:
            path = mnt / "history.jsonl"
            self.assertEqual(json.loads(self.ok(["tail", "-n", "1", path]).out)["version"], 5)
            self.assertEqual(self.ok(["tail", "-n", "1", path]).out, mnt.read("history/v5.json"))
            self.assertEqual(self.ok(["grep", "-c", "APPEND", path]).text, "5\n")
            self.assertEqual(self.ok(["wc", "-l", path]).text.split()[0], "6")
            self.assertEqual(self.ok(["cat", path]).out, concatenated(mnt, range(6)))
            said = self.ok([self.require_tool("jq"), "-c", ".version", path]).text
            self.assertEqual(said.split(), [str(v) for v in range(6)])

    def follow(self, option):
        table = self.table()
        with self.mount(table) as mnt:
            with subprocess.Popen(
                ["tail", "-n", "+1", "-s", "0.05", option, mnt / "history.jsonl"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as tail:
                try:
                    for version in range(5):
                        self.assertEqual(json.loads(tail.stdout.readline())["version"], version)
                        self.append(table, [{"id": version}])
                    self.assertEqual(json.loads(tail.stdout.readline())["version"], 5)
                finally:
                    tail.send_signal(signal.SIGTERM)
                    said = tail.communicate()[1]
            self.assertEqual(said, b"")  # neither replaced nor truncated

    def test_tail_f(self):
        self.follow("-f")

    def test_tail_F(self):
        self.follow("-F")


class Damage(TestCase):
    needs_fuse = True

    def fails_with_eio(self, call):
        with self.assertRaises(OSError) as caught:
            call()
        self.assertEqual(caught.exception.errno, errno.EIO, caught.exception)

    def commit_path(self, table, version):
        return table / "_delta_log" / f"{version:020d}.json"

    def test_an_error_behind_the_last_good_line(self):
        table = self.table()
        for row in range(4):
            self.append(table, [{"id": row}])
        with self.mount(table) as mnt:
            good = concatenated(mnt, range(3))
        self.commit_path(table, 3).write_bytes(b'{"commitInfo":{"timest')
        with self.mount(table) as mnt:
            mnt.expect_log("version 3 is damaged", "history.jsonl: ")
            path = mnt / "history.jsonl"
            self.assertEqual(os.stat(path).st_size, len(good))
            with open(path, "rb", buffering=0) as file:
                self.assertEqual(file.read(1 << 20), good)
                self.fails_with_eio(lambda: file.read(1))
                self.fails_with_eio(lambda: os.pread(file.fileno(), 9, len(good) + 1000))
                self.assertEqual(os.pread(file.fileno(), 9, 0), good[:9])
            self.fails(["cat", path], status=1)
            self.assertEqual(self.ok(["tail", "-n", "1", path]).out, good.splitlines(True)[-1])

    def test_a_commit_that_is_changed_later(self):
        """What the mount has replayed is not what is there: an error, and only at that line."""
        table = self.table()
        for row in range(4):
            self.append(table, [{"id": row}])
        with self.mount(table, env={"TINYDELTAFS_VERIFY_MS": "3600000"}) as mnt:
            lines = mnt.read("history.jsonl").splitlines(True)
            commit = self.commit_path(table, 2)
            text = commit.read_bytes()
            commit.chmod(0o644)
            commit.write_bytes(text.replace(b'"APPEND"', b'"append"'))
            mnt.expect_log("history.jsonl: ")
            mnt.allow_log("rewritten")
            with open(mnt / "history.jsonl", "rb", buffering=0) as file:
                before = b"".join(lines[:2])
                self.assertEqual(os.pread(file.fileno(), 1 << 20, 0), before)
                self.fails_with_eio(lambda: os.pread(file.fileno(), 1 << 20, len(before)))
            commit.write_bytes(text)


def commit_text(version):
    # Lines of different lengths, so that a wrong length shows.
    source = "x" * (version * 7919 % 300)
    return (
        f'{{"commitInfo":{{"timestamp":{1000 + version},"operation":"APPEND",'
        f'"readVersion":{version - 1},"source":"{source}"}}}}\n'
    ).encode()


def write(folder, shared, stop):
    """Commits versions one after the other, and tells each as soon as it is there."""
    (version,) = struct.unpack_from("q", shared)
    temporary = os.path.join(folder, ".race")
    while not stop[0]:
        version += 1
        with open(temporary, "wb", buffering=0) as file:
            file.write(commit_text(version))
        os.rename(temporary, os.path.join(folder, f"{version:020d}.json"))
        struct.pack_into("q", shared, 0, version)
        time.sleep(PAUSE)


def read_to_end(path, shared, stop):
    """Follows the file at its end. What was committed before a read must not be behind its end."""
    expected, rest = 0, b""
    with open(path, "rb", buffering=0) as file:
        while True:
            ended = stop[0]
            (committed,) = struct.unpack_from("q", shared)
            got = file.read(65536)
            if got == b"":
                if rest != b"" or expected <= committed:
                    raise AssertionError(f"an end at version {expected} of {committed}: {rest!r}")
                if ended:
                    return
                continue
            if b"\0" in got:
                raise AssertionError(f"NUL bytes behind version {expected}: {got!r}")
            *lines, rest = (rest + got).split(b"\n")
            if rest != b"" and len(got) < 65536:
                raise AssertionError(f"half of version {expected}: {rest!r}")
            for line in lines:
                if expected > 0:
                    said = json.loads(line)
                    source = "x" * (expected * 7919 % 300)
                    if said["version"] != expected or said["source"] != source:
                        raise AssertionError(f"not version {expected}: {line!r}")
                expected += 1


class Race(TestCase):
    needs_fuse = True

    def child(self, call, *args):
        pid = os.fork()
        if pid == 0:
            try:
                call(*args)
                os._exit(0)
            except BaseException:
                traceback.print_exc(file=sys.stderr)
                os._exit(1)
        return pid

    def test_readers_at_the_end_and_a_writer(self):
        table = self.table()
        shared, stop = mmap.mmap(-1, 8), mmap.mmap(-1, 1)
        with self.mount(table) as mnt:
            readers = [
                self.child(read_to_end, mnt / "history.jsonl", shared, stop)
                for _ in range(READERS)
            ]
            writer = self.child(write, str(table / "_delta_log"), shared, stop)
            time.sleep(RACE)
            stop[0] = 1
            statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in [writer, *readers]]
            self.assertEqual(statuses, [0] * (READERS + 1))
            (committed,) = struct.unpack_from("q", shared)
            self.assertGreater(committed, 100 * RACE)
            self.assertEqual(mnt.read("history.jsonl").count(b"\n"), committed + 1)

