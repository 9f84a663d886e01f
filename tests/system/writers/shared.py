# SPDX-License-Identifier: MIT
"""Two clients of one shared file system, whose mounts TDL_SHARED names (two directories, separated
by a colon), write one table. tests/system/writers/gluster runs it."""

import fcntl
import json
import os
import pathlib
import subprocess
import tempfile
import time

import harness
import test_writers
from harness import TestCase
from reference import Reference


class Clients(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        names = os.environ.get("TDL_SHARED", "").split(":")
        if len(names) != 2:
            self.fail("TDL_SHARED names no two directories")
        folder = pathlib.Path(tempfile.mkdtemp(dir=names[0])).name
        self.here, self.there = (pathlib.Path(name, folder) for name in names)

    def made(self):
        """A table's two paths."""
        self.tinydelta("create", self.here / "table", "id:int")
        return self.here / "table", self.there / "table"


class Shared(Clients, test_writers.Writers):
    """Everything that writers do at once, half of it through either client."""

    test_here = test_xfs = test_btrfs = test_tmpfs = test_without_hard_links = None

    def test_two_clients(self):
        self.together(self.here, test_writers.APPENDS, self.there)


class Visible(Clients):
    def test_what_one_commits_the_other_has(self):
        here, there = self.made()
        slowest = 0
        with self.mount(here) as one, self.mount(there) as two:
            for number in range(1, 41):
                source, target = (one, two) if number % 2 else (two, one)
                (source / f"incoming/{number}").write_bytes(b'{"id":%d}\n' % number)
                committed = time.monotonic()
                while json.loads(target.read("history/latest.json"))["version"] < number:
                    self.assertLess(time.monotonic(), committed + harness.SOON, f"version {number} stays hidden")
                slowest = max(slowest, time.monotonic() - committed)
                self.assertEqual(target.read(f"v{number}/data.jsonl"), source.read("latest/data.jsonl"))
        print(f"# visible to the other client after at most {slowest * 1000:.0f} ms")

    def test_one_wins(self):
        here, there = self.made()
        for number in range(20):
            row = self.file(b'{"id":%d}\n' % number, "row")
            racers = [
                subprocess.Popen(
                    [harness.program("tinydelta"), "append", table, "--file", row]
                    + ["--read-version", str(number)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
                for table in (here, there)
            ]
            ended = [(racer.communicate(timeout=harness.SOON), racer.returncode) for racer in racers]
            self.assertEqual(sorted(status for _, status in ended), [0, 1], ended)
        self.assertEqual(Reference(there).versions(), list(range(21)))


class Vacuumed(Clients, test_writers.TwoClients):
    """What one client acknowledges the other's vacuum leaves alone."""

    test_without_links = test_commands_beside_a_vacuum = test_no_lock_is_seen = None

    def test_drops_beside_a_vacuum(self):
        self.dropped_beside_a_vacuum(*self.made())

    def test_the_lock_is_seen(self):
        here, there = self.made()
        self.append(here, [{"id": 1}])
        with open(here / "_delta_log/_writers.lock", "r+") as one, open(
            there / "_delta_log/_writers.lock", "r+"
        ) as two:
            fcntl.flock(one, fcntl.LOCK_SH)
            with self.assertRaises(BlockingIOError):
                fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Recovered(Clients):
    """What a daemon that died leaves is the next one's of the same machine, and of no other."""

    def as_another_machine(self):
        other = self.file("0123456789abcdef0123456789abcdef\n", "machine-id")
        self.ok(["mount", "--bind", other, "/etc/machine-id"])
        self.addCleanup(harness.run, ["umount", "/etc/machine-id"])

    def test_by_its_own_machine_only(self):
        here, there = self.made()
        dead = self.mount(here)
        dead.start()
        drop = open(dead / "incoming/half", "wb", buffering=0)
        drop.write(b'{"id":1}\n')
        dead.kill()
        try:
            drop.close()
        except OSError:
            pass
        folders = os.listdir(there / "_incoming")
        self.assertEqual(len(folders), 1)
        self.as_another_machine()
        with self.mount(there) as mnt:
            self.assertEqual(mnt.names("incoming"), [])
            self.assertIn(folders[0], os.listdir(there / "_incoming"))
        self.ok(["umount", "/etc/machine-id"])
        with self.mount(there) as mnt:
            self.assertEqual(mnt.names("incoming"), ["half", "half.error"])
            self.assertEqual(mnt.read("incoming/half"), b'{"id":1}\n')
            os.unlink(mnt / "incoming/half")
            mnt.allow_log("incoming/half")
