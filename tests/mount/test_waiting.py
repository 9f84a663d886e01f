# SPDX-License-Identifier: MIT
"""What many files in incoming/ cost: memory, descriptors, the time to list them."""

import contextlib
import errno
import os
import re
import signal
import unittest

from dropping import DropCase
from harness import TestCase

SANITIZED = any(os.environ.get(name) for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))

OPEN_AND_REMOVE = """
for n in range(int(sys.argv[1])):
    os.mknod(f"{I}/f{n}")
    os.open(f"{I}/f{n}", os.O_RDONLY)
    os.unlink(f"{I}/f{n}")
os.kill(int(sys.argv[2]), signal.SIGSTOP)
"""


class Memory(DropCase):
    def resident(self):
        with open(f"/proc/{self.mnt.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])

    def forgotten(self, files):
        """Opens and removes files; the kernel lets go of all of them at once, as it does when it
        needs memory, since the daemon sleeps when their process ends."""
        try:
            result = self.python(OPEN_AND_REMOVE, files, self.mnt.pid)
        finally:
            os.kill(self.mnt.pid, signal.SIGCONT)
        self.assertEqual(result.status, 0, str(result))
        # Its answer comes behind what was waiting.
        os.stat(self.mnt / "v0")

    @unittest.skipIf(SANITIZED, "what was freed stays resident there")
    def test_what_the_kernel_forgets_is_freed(self):
        # So says libfuse, where the kernel still has something to forget at the end.
        self.mnt.allow_log(r"^fuse: reading device: Software caused connection abort$")
        for _ in range(4):
            self.forgotten(900)
        before = self.resident()
        for _ in range(10):
            self.forgotten(900)
        grown = self.resident() - before
        # The nodes of half of them would take 2 MB.
        self.assertLess(grown, 1000, "kB")


class Listing(DropCase):
    def seconds(self, folder):
        """Of the daemon's and our own time, for a listing: no clock that others can hold up."""

        def spent():
            with open(f"/proc/{self.mnt.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            own = os.times()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + own.user + own.system

        before = spent()
        for _ in range(5):
            names = os.listdir(folder)
        return (spent() - before) / 5, len(names)

    def test_time_grows_with_the_number(self):
        """A quadratic listing of 8,000 took seconds, with all of incoming/ held up."""
        taken = {}
        made = 0
        for many in (1000, 8000):
            for made in range(made, many):
                os.mknod(self.inc / f"f{made}.tmp")
            made = many
            taken[many], count = self.seconds(self.inc)
            self.assertEqual(count, many)
        # Eight times as much, and the coarse clock's steps.
        self.assertLess(taken[8000], 16 * taken[1000] + 0.06, taken)
        for name in os.listdir(self.inc):
            os.unlink(self.inc / name)
        self.assertListed()

    def test_files_that_come_and_go_meanwhile(self):
        """Each file that is there all the time is listed once."""
        stay = {f"stay{n}" for n in range(500)}
        for n in range(500):
            os.mknod(self.inc / f"stay{n}")
            os.mknod(self.inc / f"go{n}")
        seen = []
        with os.scandir(self.inc) as entries:
            for entry in entries:
                seen.append(entry.name)
                n = len(seen)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.inc / f"go{n * 7 % 500}")
                if n < 2000:
                    os.mknod(self.inc / f"new{n}")
        self.assertEqual(len(seen), len(set(seen)))
        self.assertLessEqual(stay, set(seen))


class KeptBack(TestCase):
    """Files that are open use up descriptors; some are kept for everybody else."""

    needs_fuse = True

    def test_reading_listing_and_removing_go_on(self):
        table = self.table(rows=[{"id": 1}])
        limit = ["prlimit", "--nofile=256:256", "--"]
        with self.mount(table, wrapper=limit) as mnt, contextlib.ExitStack() as held:
            incoming = mnt / "incoming"
            with self.assertRaises(OSError) as refused:
                for number in range(300):
                    held.enter_context(open(incoming / f"f{number:03}", "wb"))
            self.assertIn(refused.exception.errno, (errno.EMFILE, errno.ENFILE))
            self.assertGreater(number, 100)
            for _ in range(3):
                self.assertEqual(mnt.read("v1/data.jsonl"), b'{"id":1}\n')
                self.assertEqual(len(os.listdir(incoming)), number)
                self.assertIn(b'"version":1', mnt.read("history/latest.json"))
                self.assertEqual(sorted(mnt.names()), ["at", "history", "history.jsonl", "incoming", "latest", "v0", "v1"])
            # What is not there was not made.
            self.assertFalse((incoming / f"f{number:03}").exists())
            held.close()
            for name in os.listdir(incoming):
                os.unlink(incoming / name)
            (incoming / "good").write_bytes(b'{"id":2}\n')
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n{"id":2}\n')
