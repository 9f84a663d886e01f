# SPDX-License-Identifier: MIT
"""A table by someone who means harm, served by root to everyone: what it shows, how long it takes,
and how much memory."""

import ctypes
import json
import os
import pathlib
import re
import socket
import stat
import threading
import time

import harness
from harness import TestCase

SECRET = b'{"id":"the secret of another"}\n'
OURS = b'{"id":"what is in the table."}\n'
assert len(SECRET) == len(OURS)

SANITIZED = bool(os.environ.get("ASAN_OPTIONS"))
# For anything that is asked of a table, on a busy machine; sanitizers take a multiple.
MOST_SECONDS = 180 if SANITIZED else 60
MOST_MEMORY = 200 << 20
MANY = 10**5 if SANITIZED else 10**6
RENAME_EXCHANGE = 2
AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


def exchange(one, other):
    _libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)


def memory(pid):
    """The most memory that a process has had, in bytes."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", text)[1]) << 10


class Hostile(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.require_root()
        self.outside = self.path("outside")
        self.outside.mkdir()
        (self.outside / "part.jsonl").write_bytes(SECRET)
        self.root = self.table("id:str", name="table")
        self.log = self.root / "_delta_log"
        self.started = time.monotonic()

    def commit_text(self, version, *actions):
        info = {"timestamp": version, "operation": "APPEND", "readVersion": version - 1}
        lines = [json.dumps({"commitInfo": info}), *actions]
        return "".join(line + "\n" for line in lines)

    def add(self, version, path, size=len(OURS)):
        """A commit that adds one data file."""
        action = json.dumps({"add": {"path": path, "size": size, "numRecords": 1}})
        (self.log / f"{version:020d}.json").write_text(self.commit_text(version, action))

    def everyone(self):
        return self.mount(self.root, options=["allow_other"])

    def cat(self, mnt, name, **how):
        return harness.run(["cat", mnt / name], user=65534, timeout=MOST_SECONDS, **how)

    def bounded(self, mnt):
        """What was asked took neither long nor much; and the daemon is well."""
        self.assertLess(time.monotonic() - self.started, MOST_SECONDS)
        if not SANITIZED:
            self.assertLess(memory(mnt.pid), MOST_MEMORY)
        self.assertEqual(mnt.read("v0/data.jsonl"), b"")

    def unreadable(self, mnt, name, why):
        mnt.expect_log(why)
        mnt.allow_log("")
        said = self.cat(mnt, name)
        self.assertEqual(said.out, b"")
        self.assertIn("Input/output error", said.error)


class Paths(Hostile):
    def test_swapped_while_it_runs(self):
        """A directory on the way to a data file takes turns with a link to the outside."""
        count = 400
        inside, link = self.root / "d", self.root / "l"
        inside.mkdir()
        link.symlink_to(self.outside)
        for version in range(1, count):
            name = f"part{version}.jsonl"
            (inside / name).write_bytes(OURS)
            (self.outside / name).write_bytes(SECRET)
            removed = json.dumps({"remove": {"path": f"d/part{version - 1}.jsonl"}})
            added = {"add": {"path": f"d/{name}", "size": len(OURS), "numRecords": 1}}
            (self.log / f"{version:020d}.json").write_text(
                self.commit_text(version, removed, json.dumps(added))
            )
        done = threading.Event()

        def swap():
            while not done.is_set():
                exchange(inside, link)

        swapper = threading.Thread(target=swap)
        swapper.start()
        self.addCleanup(swapper.join)
        self.addCleanup(done.set)
        read = refused = 0
        with self.everyone() as mnt:
            mnt.allow_log("is reached through a symbolic link")
            for version in range(1, count):
                try:
                    self.assertEqual(mnt.read(f"v{version}/data.jsonl"), OURS)
                    read += 1
                except OSError:
                    refused += 1
            self.assertGreater(read, 0)
            self.assertGreater(refused, 0)

    def test_paths_that_lead_out(self):
        name = "part.jsonl"
        (self.root / "link").symlink_to(self.outside)
        (self.root / "file").symlink_to(self.outside / name)
        for path in (
            f"../outside/{name}",
            f"link/../../outside/{name}",
            str(self.outside / name),
            f"link/{name}",
            "file",
            f"./../outside/{name}",
            f"/proc/self/root{self.outside}/{name}",
            "_delta_log/00000000000000000000.json",
            "x" * 5000,
        ):
            with self.subTest(path=path[:80]), self.everyone() as mnt:
                self.add(1, path)
                self.unreadable(mnt, "v1/data.jsonl", ".")
                for asked in (["read"], ["vacuum", "--dry-run"], ["describe"], ["history"]):
                    said = harness.run(
                        [harness.program("tinydelta"), asked[0], self.root, *asked[1:]]
                    )
                    self.assertNotIn(b"secret", said.out + said.err)
                self.bounded(mnt)
                os.unlink(self.log / f"{1:020d}.json")

    def test_the_log_is_elsewhere(self):
        for name in ("_delta_log", "_incoming"):
            with self.subTest(name=name):
                elsewhere = self.path(f"elsewhere{name}")
                elsewhere.mkdir()
                table = self.table("id:str", name=f"with{name}")
                (table / name).exists() and os.rename(table / name, elsewhere / name)
                (table / name).symlink_to(elsewhere)
                before = sorted(p.name for p in elsewhere.rglob("*"))
                rows = self.file(OURS)
                harness.run([harness.program("tinydelta"), "append", table, "--file", rows])
                harness.run([harness.program("tinydelta"), "vacuum", table])
                self.assertEqual(sorted(p.name for p in elsewhere.rglob("*")), before)

    def test_a_dead_daemons_folder_of_another(self):
        """Whoever may write to _incoming can make what looks like the folder of a daemon that died:
        in it, links to files that are not theirs."""
        self.append(self.root, OURS)
        with self.everyone() as mnt:
            mine = os.listdir(self.root / "_incoming")[0]
        theirs = self.root / "_incoming" / (mine[:-16] + "0" * 16)
        theirs.mkdir(mode=0o700)
        victim = self.outside / "part.jsonl"
        os.chmod(victim, 0o600)
        os.link(victim, theirs / ("1" * 32 + "-x"))
        os.symlink(victim, theirs / ("2" * 32 + "-y"))
        os.mkfifo(theirs / ("3" * 32 + "-z"))
        os.chown(theirs, 65534, 65534)
        before = os.stat(victim)
        with self.everyone() as mnt:
            mnt.allow_log("")
            self.assertEqual(mnt.names("incoming"), [])
            self.bounded(mnt)
        after = os.stat(victim)
        self.assertEqual(
            (after.st_mode, after.st_uid, after.st_nlink), (before.st_mode, before.st_uid, 2)
        )


class WhatIsNoFile(Hostile):
    def special(self):
        """(name, how to make it)"""

        def device(kind, major, minor):
            return lambda path: os.mknod(path, kind | 0o666, os.makedev(major, minor))

        def listen(path):
            place = socket.socket(socket.AF_UNIX)
            self.addCleanup(place.close)
            os.chdir(path.parent)
            place.bind(path.name)

        return {
            "fifo": os.mkfifo,
            "zeroes": device(stat.S_IFCHR, 1, 5),
            "terminal": device(stat.S_IFCHR, 5, 0),
            "no such device": device(stat.S_IFCHR, 250, 250),
            "block": device(stat.S_IFBLK, 7, 200),
            "socket": listen,
            "directory": os.mkdir,
            "dangling": lambda path: os.symlink("nowhere", path),
            "loop": lambda path: os.symlink(path.name, path),
        }

    def test_as_a_data_file(self):
        self.addCleanup(os.chdir, os.getcwd())
        for name, make in self.special().items():
            with self.subTest(kind=name):
                part = self.root / "part"
                make(part)
                self.add(1, "part")
                with self.everyone() as mnt:
                    self.unreadable(mnt, "v1/data.jsonl", "part (is|cannot)|cannot open")
                    self.tinydelta_fails("read", self.root)
                    self.bounded(mnt)
                os.rmdir(part) if name == "directory" else os.unlink(part)

    def test_as_a_commit(self):
        self.addCleanup(os.chdir, os.getcwd())
        commit = self.log / f"{1:020d}.json"
        for name, make in self.special().items():
            with self.subTest(kind=name):
                make(commit)
                with self.everyone() as mnt:
                    self.unreadable(mnt, "latest/data.jsonl", ".")
                    self.assertIn("v1", mnt.names())
                    self.tinydelta_fails("append", self.root, "--file", self.file(OURS))
                    self.bounded(mnt)
                os.rmdir(commit) if name == "directory" else os.unlink(commit)

    def test_as_the_index(self):
        self.addCleanup(os.chdir, os.getcwd())
        self.append(self.root, OURS)
        index = self.log / "_history.idx"
        for name, make in self.special().items():
            with self.subTest(kind=name):
                if index.exists():
                    os.unlink(index)
                make(index)
                with self.everyone() as mnt:
                    mnt.allow_log("")
                    self.assertEqual(self.cat(mnt, "latest/data.jsonl").out, OURS)
                    self.bounded(mnt)
                if name == "directory":
                    os.rmdir(index)
                elif os.path.lexists(index):
                    os.unlink(index)


class TooMuch(Hostile):
    def test_a_terabyte_that_is_not_there(self):
        size = 1 << 40
        with open(self.root / "part", "wb") as part:
            part.truncate(size)
        self.add(1, "part", size)
        with self.everyone() as mnt:
            # Zeros to its end, and a newline behind what has none.
            self.assertEqual(os.stat(mnt / "v1/data.jsonl").st_size, size + 1)
            with open(mnt / "v1/data.jsonl", "rb", buffering=0) as data:
                self.assertEqual(os.pread(data.fileno(), 100, size - 2), b"\0\0\n")
                self.assertEqual(os.pread(data.fileno(), 100, size + 1), b"")
            self.assertEqual(self.cat(mnt, "history/v1.json").status, 0)
            self.bounded(mnt)

    def test_sizes_that_add_up_to_more_than_there_is(self):
        for size in (1 << 62, (1 << 63) - 1, 1 << 63, 1 << 64):
            adds = [
                json.dumps({"add": {"path": p, "size": size, "numRecords": size}}) for p in "ab"
            ]
            (self.log / f"{1:020d}.json").write_text(self.commit_text(1, *adds))
            with self.subTest(size=size), self.everyone() as mnt:
                self.unreadable(mnt, "v1/data.jsonl", ".")
                self.bounded(mnt)

    def test_a_million_actions(self):
        add = '{"add":{"path":"part-%032x.jsonl","size":31,"numRecords":1}}'
        text = self.commit_text(1, *(add % n for n in range(MANY)))
        (self.log / f"{1:020d}.json").write_text(text)
        self.started = time.monotonic()
        with self.everyone() as mnt:
            record = json.loads(mnt.read("history/v1.json"))
            # A record is the log's: it stays as it is where files are missing.
            self.assertEqual((record["files"], record["size"]), (MANY, 31 * MANY))
            self.unreadable(mnt, "v1/data.jsonl", "is missing")
            self.bounded(mnt)

    def test_deep_and_long(self):
        for name, line in {
            "deep lists": '{"x":' + "[" * 10**6,
            "deep objects": '{"a":' * 10**6,
            "deep and whole": '{"x":' + "[" * 10**5 + "]" * 10**5 + "}",
            "deep commitInfo": '{"commitInfo":' + "[" * 10**5 + "]" * 10**5 + "}",
            "many members": "{" + ",".join(f'"k{n}":{n}' for n in range(10**6)) + "}",
            "long text": '{"x":"' + "y" * (20 << 20) + '"}',
            "long number": '{"add":{"path":"a","numRecords":1,"size":' + "9" * 10**6 + "}}",
            "long path": '{"add":{"path":"' + "a/" * 10**6 + 'a","numRecords":1,"size":1}}',
        }.items():
            (self.log / f"{1:020d}.json").write_text(self.commit_text(1, line))
            self.started = time.monotonic()
            with self.subTest(what=name), self.everyone() as mnt:
                mnt.allow_log("")
                said = self.cat(mnt, "latest/data.jsonl")
                self.assertEqual(said.out, b"")
                self.cat(mnt, "history/v1.json")
                self.bounded(mnt)

    def test_a_line_without_end(self):
        with open(self.log / f"{1:020d}.json", "wb") as commit:
            commit.truncate(4 << 30)
        with self.everyone() as mnt:
            self.unreadable(mnt, "latest/data.jsonl", "longer than 64 MiB")
            self.bounded(mnt)
            os.truncate(self.log / f"{1:020d}.json", 1 << 40)
        with self.everyone() as mnt:
            self.unreadable(mnt, "latest/data.jsonl", "larger than 4 GiB")
            self.bounded(mnt)

    def test_numbers_of_versions(self):
        for version in ("99999999999999999999", "18446744073709551615", "09223372036854775807"):
            far = self.log / f"{version}.json"
            far.write_text(self.commit_text(1))
            with self.subTest(version=version), self.everyone() as mnt:
                self.unreadable(mnt, "latest/data.jsonl", ".")
                self.assertFalse([name for name in mnt.names() if name.startswith("v") and len(name) > 5])
                self.assertLess(len(mnt.names()), 9)
                self.fails(["ls", mnt / "v99999999999999999999"], status=2)
                self.fails(["ls", mnt / "v-1"], status=2)
                self.tinydelta_fails("append", self.root, "--file", self.file(OURS))
                self.bounded(mnt)
            os.unlink(far)

    def columns(self, count, width=1):
        schema = [{"name": f"{n:0{width}d}", "type": "int"} for n in range(count)]
        action = json.dumps({"metaData": {"id": "x", "schema": schema}})
        (self.log / f"{1:020d}.json").write_text(self.commit_text(1, action))

    def test_ten_thousand_columns(self):
        self.columns(10**4)
        row = json.dumps({str(n): n for n in reversed(range(10**4))}) + "\n"
        with self.everyone() as mnt:
            (mnt / "incoming/row").write_text(row)
            stored = json.loads(mnt.read("latest/data.jsonl"))
            self.assertEqual(list(stored), [str(n) for n in range(10**4)])
            self.bounded(mnt)
            self.columns(10**4 + 1)
        with self.everyone() as mnt:
            self.unreadable(mnt, "v1/data.jsonl", "column")
            self.bounded(mnt)

    def test_columns_that_change_each_time(self):
        """A schema of its own for each version costs memory for each: it must stay in proportion."""
        schema = [{"name": f"{n:030d}", "type": "int"} for n in range(1000)]
        for version in range(1, 101):
            schema[0]["name"] = f"v{version}"
            action = json.dumps({"metaData": {"id": "x", "schema": schema}})
            (self.log / f"{version:020d}.json").write_text(self.commit_text(version, action))
        with self.everyone() as mnt:
            self.assertEqual(self.cat(mnt, "v100/data.jsonl").status, 0)
            self.bounded(mnt)

