# SPDX-License-Identifier: MIT
"""The read-only tree: what is read is exactly that version, and stays so."""

import errno
import hashlib
import json
import mmap
import os
import pathlib
import stat
import threading

import harness
from harness import TestCase, drop_caches
from reference import Reference


def inodes(mnt):
    """{path: inode number} of everything in the mount, from stat and from listings alike."""
    found = {}
    for folder, _, _ in os.walk(mnt):
        with os.scandir(folder) as entries:
            for entry in entries:
                ino = os.lstat(entry.path).st_ino
                if entry.inode() != ino:
                    raise AssertionError(f"{entry.path}: listed {entry.inode()}, is {ino}")
                found[os.path.relpath(entry.path, mnt)] = ino
    return found


class Golden(TestCase):
    """Tables that the Python package wrote."""

    needs_fuse = True

    def test_every_version_byte_for_byte(self):
        for name in self.golden_names():
            with self.subTest(table=name), self.mount(self.golden(name)) as mnt:
                count = self.golden_versions(name)
                for version in range(count):
                    wanted = self.expected(name, f"v{version}.jsonl")
                    path = mnt / f"v{version}/data.jsonl"
                    # The first look of all, with nothing known: the size decides what is read.
                    self.assertEqual(path.read_bytes(), wanted, path)
                    self.assertEqual(path.stat().st_size, len(wanted), path)
                    self.assertEqual(os.listdir(path.parent), ["data.jsonl"])
                last = self.expected(name, f"v{count - 1}.jsonl")
                self.assertEqual(mnt.read("latest/data.jsonl"), last)
                wanted = [f"v{v}" for v in range(count)]
                self.assertEqual(mnt.names(), sorted(["at", "history", "history.jsonl", "incoming", "latest", *wanted]))

    def test_in_pieces(self):
        for name in self.golden_names():
            with self.subTest(table=name), self.mount(self.golden(name)) as mnt:
                version = self.golden_versions(name) - 1
                wanted = self.expected(name, f"v{version}.jsonl")
                with open(mnt / f"v{version}/data.jsonl", "rb", buffering=0) as file:
                    for at in range(len(wanted) + 3):
                        self.assertEqual(os.pread(file.fileno(), 7, at), wanted[at : at + 7])
                    self.assertEqual(os.pread(file.fileno(), 100, 1 << 40), b"")
                    self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_END), len(wanted))
                    with self.assertRaises(OSError) as caught:
                        os.lseek(file.fileno(), len(wanted), os.SEEK_DATA)
                    self.assertEqual(caught.exception.errno, errno.ENXIO)

    def test_history(self):
        for name in self.golden_names():
            table = self.golden(name)
            reference = Reference(table)
            with self.subTest(table=name), self.mount(table) as mnt:
                for version in reference.versions():
                    text = mnt.read(f"history/v{version}.json")
                    self.assertEqual((mnt / f"history/v{version}.json").stat().st_size, len(text))
                    self.assertEqual(text.count(b"\n"), 1)
                    said = json.loads(text)
                    info = reference.actions(version)[0]["commitInfo"]
                    files = reference.files(version)
                    self.assertEqual(said["version"], version)
                    self.assertEqual(said["operation"], info["operation"])
                    self.assertEqual(said["timestamp"], info["timestamp"])
                    self.assertEqual(said["readVersion"], info["readVersion"])
                    self.assertEqual(said["files"], len(files))
                    # What the log says: newlines that files lack are not part of it.
                    sizes = sum(size for size, _ in files.values())
                    self.assertEqual(said["size"], sizes)
                    self.assertIn(
                        (mnt / f"v{version}/data.jsonl").stat().st_size - sizes,
                        range(len(files) + 1),
                    )
                    self.assertEqual(said["numRecords"], sum(n for _, n in files.values()))
                    columns = [(c["name"], c["type"]) for c in said["schema"]]
                    self.assertEqual(columns, reference.schema(version))
                self.assertEqual(mnt.read("history/latest.json"), text)
                wanted = [f"v{v}.json" for v in reference.versions()]
                self.assertEqual(mnt.names("history"), sorted(["latest.json", *wanted]))


class Reading(TestCase):
    needs_fuse = True

    def test_attributes(self):
        table = self.table(rows=[{"id": 1}])
        os.chmod(table, 0o750)
        with self.mount(table) as mnt:
            for name in ("", "latest", "history", "v0", "v1"):
                st = os.stat(mnt / name)
                self.assertEqual(stat.filemode(st.st_mode), "dr-xr-x---", name)
                self.assertEqual(st.st_nlink, 1, name)
            stamp = self.commit(table, 1)[0]["commitInfo"]["timestamp"]
            for name in ("v1", "v1/data.jsonl", "history/v1.json"):
                st = os.stat(mnt / name)
                times = {st.st_mtime_ns, st.st_ctime_ns, st.st_atime_ns}
                self.assertEqual(times, {stamp * 1000000}, name)
            st = os.stat(mnt / "v1/data.jsonl")
            self.assertEqual(stat.filemode(st.st_mode), "-r--r-----")
            self.assertEqual((st.st_nlink, st.st_size, st.st_blocks), (1, 9, 1))
            self.assertEqual((st.st_uid, st.st_gid), (os.geteuid(), os.getegid()))

    def test_inode_numbers_are_distinct_and_outlive_the_mount(self):
        table = self.golden("steps")
        with self.mount(table) as mnt:
            first = inodes(mnt)
        with self.mount(table) as mnt:
            self.assertEqual(inodes(mnt), first)
        newest = self.golden_versions("steps") - 1
        self.assertEqual(first.pop("latest/data.jsonl"), first[f"v{newest}/data.jsonl"])
        self.assertEqual(first.pop("history/latest.json"), first[f"history/v{newest}.json"])
        self.assertEqual(len(set(first.values())), len(first))

    def test_latest_stays_where_it_was_opened(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            with open(mnt / "latest/data.jsonl", "rb", buffering=0) as before:
                self.assertEqual(before.read(4), b'{"id')
                self.append(table, [{"id": 2}])
                self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n{"id":2}\n')
                self.assertEqual(before.read(), b'":1}\n')
                self.assertEqual(os.fstat(before.fileno()).st_size, 9)

    def test_latest_is_new_at_each_look(self):
        table = self.table()
        reference = Reference(table)
        wanted = b""
        with self.mount(table) as mnt:
            for number in range(1, 60):
                row = {"id": number}
                if number % 2:
                    self.append(table, [row])
                else:
                    reference.append([row])
                wanted += harness.rows_text([row])
                st = os.stat(mnt / "latest/data.jsonl")
                self.assertEqual(st.st_size, len(wanted))
                self.assertEqual(mnt.read("latest/data.jsonl"), wanted)
                self.assertEqual(os.stat(mnt / f"v{number}/data.jsonl").st_ino, st.st_ino)
                said = json.loads(mnt.read("history/latest.json"))
                self.assertEqual(said["version"], number)

    def test_a_version_is_there_as_soon_as_it_is_committed(self):
        table = self.table()
        with self.mount(table) as mnt:
            for version in range(1, 6):
                self.assertFalse((mnt / f"v{version}").exists())
                self.assertFalse((mnt / f"history/v{version}.json").exists())
                self.append(table, [{"id": version}])
                if version % 2:
                    self.assertIn(f"v{version}", mnt.names())
                self.assertTrue((mnt / f"v{version}/data.jsonl").exists())
                self.assertTrue((mnt / f"history/v{version}.json").exists())

    def test_a_working_directory_outlives_commits(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            here = os.open(".", os.O_RDONLY)
            try:
                os.chdir(mnt / "latest")
                self.append(table, [{"id": 2}])
                self.assertEqual(pathlib.Path("data.jsonl").read_bytes(), b'{"id":1}\n{"id":2}\n')
                self.assertEqual(os.getcwd(), str(mnt / "latest"))
                os.chdir(mnt / "v1")
                self.append(table, [{"id": 3}])
                self.assertEqual(os.getcwd(), str(mnt / "v1"))
            finally:
                os.chdir(here)
                os.close(here)

    def test_readers_while_commits_land(self):
        """Every read of latest is one whole version, never less and never a mixture."""
        table = self.table()
        reference = Reference(table)
        stop = threading.Event()
        wrong = []
        seen = set()

        def reader(mnt):
            while not stop.is_set():
                with open(mnt / "latest/data.jsonl", "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    text = file.read()
                rows = [json.loads(line)["id"] for line in text.splitlines()]
                if len(text) != size or rows != list(range(1, len(rows) + 1)):
                    wrong.append((size, text))
                seen.add(len(rows))

        with self.mount(table) as mnt:
            readers = [threading.Thread(target=reader, args=(mnt,)) for _ in range(3)]
            for thread in readers:
                thread.start()
            for number in range(1, 200):
                reference.append([{"id": number}])
            stop.set()
            for thread in readers:
                thread.join()
            self.assertEqual(wrong, [])
            self.assertGreater(len(seen), 3)
            self.assertEqual(len(mnt.read("latest/data.jsonl").splitlines()), 199)

    def test_versions_do_not_get_mixed_up_in_caches(self):
        table = self.table()
        reference = Reference(table)
        for number in range(1, 40):
            reference.append([{"id": number}])
        reference.restore(7)
        wanted = {v: reference.read(v) for v in reference.versions()}
        with self.mount(table) as mnt:
            for turn in range(3):
                for version in sorted(wanted, key=lambda v: hash((v, turn))):
                    self.assertEqual(mnt.read(f"v{version}/data.jsonl"), wanted[version])
                drop_caches()

    def test_mapped(self):
        table = self.table(rows=[{"id": n} for n in range(5000)])
        with self.mount(table) as mnt, open(mnt / "v1/data.jsonl", "rb") as file:
            wanted = self.data(table, 1)
            for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
                with mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ) as mapped:
                    self.assertEqual(mapped[:], wanted)

    def test_direct(self):
        table = self.table(rows=[{"id": n} for n in range(5000)])
        with self.mount(table) as mnt:
            said = self.ok(["dd", f"if={mnt}/v1/data.jsonl", "iflag=direct", "bs=4k"])
            self.assertEqual(said.out, self.data(table, 1))

    def test_space_is_that_of_the_table(self):
        table = self.table()
        with self.mount(table) as mnt:
            ours, theirs = os.statvfs(mnt), os.statvfs(table)
            self.assertEqual(ours.f_blocks * ours.f_frsize, theirs.f_blocks * theirs.f_frsize)
            self.assertGreater(ours.f_bavail, 0)
            self.assertEqual(ours.f_namemax, 255)
            self.ok(["df", mnt])
            self.ok(["df", "-i", mnt])

    def test_many_handles(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table, wrapper=["prlimit", "--nofile=64:4096"]) as mnt:
            base = len(os.listdir(f"/proc/{mnt.pid}/fd"))
            files = [open(mnt / "v1/data.jsonl", "rb") for _ in range(900)]
            self.assertEqual({file.read() for file in files}, {b'{"id":1}\n'})
            for file in files:
                file.close()
            self.assertLess(len(os.listdir(f"/proc/{mnt.pid}/fd")), base + 40)


class Stable(TestCase):
    """Nothing moves that should not."""

    needs_fuse = True

    def test_times(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            first = os.stat(mnt / "v1/data.jsonl")
            root = os.stat(mnt)
            self.assertEqual(root.st_mtime_ns, first.st_mtime_ns)
        self.append(table, [{"id": 2}])
        with self.mount(table) as mnt:
            again = os.stat(mnt / "v1/data.jsonl")
            self.assertEqual(tuple(first)[:2] + tuple(first)[3:], tuple(again)[:2] + tuple(again)[3:])
            newest = os.stat(mnt / "v2/data.jsonl").st_mtime_ns
            self.assertGreater(newest, first.st_mtime_ns)
            for name in ("", "latest", "history"):
                self.assertEqual(os.stat(mnt / name).st_mtime_ns, newest, name)

    def test_a_drop_moves_the_times_of_the_root(self):
        with self.mount(self.table()) as mnt:
            for number in range(1, 30):
                before = {name: os.stat(mnt / name) for name in ("", "latest", "history")}
                (mnt / f"incoming/{number}").write_bytes(b'{"id":1}\n')
                newest = os.stat(mnt / f"v{number}").st_mtime_ns
                for name, st in before.items():
                    self.assertLess(st.st_mtime_ns, newest)
                    self.assertEqual(os.stat(mnt / name).st_mtime_ns, newest, name)

    def test_hashes_while_caches_are_dropped(self):
        table = self.table(rows=[{"id": n} for n in range(300000)])
        wanted = hashlib.sha256(self.data(table, 1)).hexdigest()
        with self.mount(table) as mnt:
            for _ in range(3):
                said = self.ok(["sha256sum", mnt / "v1/data.jsonl", mnt / "latest/data.jsonl"])
                self.assertEqual(said.text.split()[::2], [wanted, wanted])
                drop_caches()
