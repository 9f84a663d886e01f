# SPDX-License-Identifier: MIT
"""The end of a daemon in every way there is, while it is written to, read and listed; what slow
commits hold up; and what it needs in the long run.

TDL_SOAK says how many seconds the long run lasts; tests/system/writers/full has it last half an hour.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import harness
import places
import proc
from harness import TestCase
from reference import Reference

HERE = pathlib.Path(__file__).resolve().parent
SOAK = float(os.environ.get("TDL_SOAK", "60"))
# Committed names that their writers still see: how many at the most, and for how long.
GHOST_SECONDS = 5
SANITIZED = any(os.environ.get(name) for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))


class Loaded(TestCase):
    """Droppers in processes of their own, and threads that read and list."""

    needs_fuse = True
    DROPPERS = 4

    def load(self, point, pause=0):
        self.halt = self.path("halt")
        self.droppers = [
            subprocess.Popen(
                [sys.executable, HERE / "dropper.py", point / "incoming", str(n * 10**6)]
                + [self.halt, str(pause)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for n in range(self.DROPPERS)
        ]
        for dropper in self.droppers:
            self.addCleanup(dropper.kill)
        self.said = [[] for _ in self.droppers]
        self.watching = threading.Event()
        self.watching.set()
        self.watchers = [
            threading.Thread(target=self.listen, args=(d, s))
            for d, s in zip(self.droppers, self.said)
        ]
        self.watchers += [
            threading.Thread(target=self.look, args=(look, point)) for look in (self.read, self.list)
        ]
        self.looked = 0
        for watcher in self.watchers:
            watcher.start()
        self.addCleanup(self.watching.clear)

    @staticmethod
    def listen(dropper, said):
        for line in dropper.stdout:
            said.append(line)

    def look(self, look, point):
        while self.watching.is_set():
            try:
                if not self.halt.exists():
                    look(point)
                    self.looked += 1
            except OSError:
                time.sleep(0.01)

    @staticmethod
    def read(point):
        head = json.loads((point / "history/latest.json").read_bytes())["version"]
        (point / f"v{head // 2}/data.jsonl").read_bytes()
        (point / "latest/data.jsonl").read_bytes()

    @staticmethod
    def list(point):
        os.listdir(point)
        os.listdir(point / "incoming")

    def acknowledged(self):
        return {int(line) for said in list(self.said) for line in list(said) if line[:1] != b"?"}

    def wait_for_rows(self, more, seconds=60):
        """Waits until so many more rows were acknowledged."""
        wanted = len(self.acknowledged()) + more
        deadline = time.monotonic() + seconds
        while len(self.acknowledged()) < wanted:
            self.assertLess(time.monotonic(), deadline, "nothing gets done")
            time.sleep(0.01)

    def unload(self):
        for dropper in self.droppers:
            dropper.stdin.close()
        self.watching.clear()
        for dropper in self.droppers:
            self.assertEqual(dropper.wait(harness.SOON), 0)
        for watcher in self.watchers:
            watcher.join(harness.SOON)
            self.assertFalse(watcher.is_alive(), "somebody hangs")

    def demand(self, table, all_of_them=False):
        """What was acknowledged is there, once; nothing is that nobody tried; earlier versions are
        how later ones begin; the next mount works; and nothing is left."""
        tried = {int(line[2:]) for said in self.said for line in said if line[:1] == b"?"}
        acknowledged = self.acknowledged()
        self.assertGreater(len(acknowledged), 0)
        other = Reference(table)
        head = other.head()
        self.assertEqual(other.versions(), list(range(head + 1)))
        whole = other.read(head)
        ids = [json.loads(line)["id"] for line in whole.splitlines()]
        self.assertEqual(len(ids), len(set(ids)), "a row is there twice")
        self.assertEqual(acknowledged - set(ids), set(), "an acknowledged row is lost")
        self.assertEqual(set(ids) - tried, set(), "rows from nowhere")
        if all_of_them:
            self.assertEqual(set(ids), acknowledged)
        self.assertFalse(self.processes(table), "a daemon is left")
        self.assertNotIn(str(table), pathlib.Path("/proc/self/mounts").read_text())
        with self.mount(table) as mnt:
            mnt.allow_log("left by a mount that ended")
            for version in (0, head // 2, head):
                data = mnt.read(f"v{version}/data.jsonl")
                self.assertTrue(whole.startswith(data))
                self.assertEqual(data.count(b"\n"), version)
            for name in mnt.names("incoming"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(mnt / "incoming" / name)
            self.assertEqual(mnt.names("incoming"), [])
            (mnt / "incoming/next").write_bytes(b'{"id":-1}\n')
            self.assertEqual(mnt.read("latest/data.jsonl"), whole + b'{"id":-1}\n')
        self.tinydelta("vacuum", table)
        self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n")

    @staticmethod
    def processes(table):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if os.fsencode(table) in words and b"tinydeltafs" in words[0]:
                    found.append(words)
        return found


class Ends(Loaded):
    ROUNDS = 3
    SECONDS = harness.SOON  # for an end under load

    def setUp(self):
        super().setUp()
        self.require_root()
        self.root = self.table(name="table")
        self.point = self.path("mnt")

    def rounds(self, end):
        """Mounts, lets the load run, ends it in that way; and again, with the load going on."""
        self.point.mkdir()
        for number in range(self.ROUNDS):
            mnt = self.mount(self.root, self.point).start()
            mnt.allow_log("")
            if number == 0:
                self.load(self.point)
            self.wait_for_rows(30)
            began = time.monotonic()
            end(mnt)
            self.assertLess(time.monotonic() - began, self.SECONDS)
        self.unload()
        self.demand(self.root)

    def umount(self):
        """As soon as it can be: while somebody has a file open it is refused."""
        deadline = time.monotonic() + self.SECONDS
        self.halt.touch()
        while (result := harness.run(["umount", self.point])).status != 0:
            self.assertIn("busy", result.error)
            self.assertLess(time.monotonic(), deadline)

    def test_sigterm(self):
        def end(mnt):
            mnt.daemon.send_signal(signal.SIGTERM)
            mnt.finish()

        self.rounds(end)

    def test_umount(self):
        def end(mnt):
            self.umount()
            mnt.finish()
            self.halt.unlink()

        self.rounds(end)

    def test_umount_lazily(self):
        def end(mnt):
            mnt.unmount_lazily()
            mnt.finish()

        self.rounds(end)

    def test_kill(self):
        self.rounds(lambda mnt: mnt.kill())

    def test_stopped_in_a_commit_and_killed(self):
        def end(mnt):
            mnt.daemon.send_signal(signal.SIGSTOP)
            # Whoever does not use the mount goes on.
            self.append(self.root, [{"id": -len(self.versions(self.root))}])
            mnt.kill()

        self.point.mkdir()
        for number in range(self.ROUNDS):
            mnt = self.mount(self.root, self.point).start()
            if number == 0:
                self.load(self.point)
            self.wait_for_rows(20)
            end(mnt)
        self.unload()
        ids = [json.loads(line)["id"] for line in self.tinydelta("read", self.root).out.splitlines()]
        for number in ids:
            if number < 0:
                self.said[0].append(b"? %d\n" % number)
                self.said[0].append(b"%d\n" % number)
        self.demand(self.root)

    def test_stopped_and_continued(self):
        with self.mount(self.root, self.point) as mnt:
            self.load(self.point)
            for _ in range(5):
                self.wait_for_rows(10)
                mnt.daemon.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                mnt.daemon.send_signal(signal.SIGCONT)
            self.unload()
        self.demand(self.root, all_of_them=True)

    def test_umount_and_mount_at_once(self):
        """In the background, as people do: the old daemon may not have ended when the new begins."""
        self.point.mkdir()
        program = harness.program("tinydeltafs")
        self.addCleanup(harness.run, ["umount", "-l", self.point])
        self.ok([program, self.root, self.point])
        self.load(self.point)
        for _ in range(5):
            self.wait_for_rows(20)
            self.umount()
            self.ok([program, self.root, self.point])
            self.halt.unlink()
        self.unload()
        self.ok(["umount", self.point])
        deadline = time.monotonic() + self.SECONDS
        while self.processes(self.root):
            self.assertLess(time.monotonic(), deadline, "a daemon is left")
            time.sleep(0.01)
        self.demand(self.root)


class SlowCommits(TestCase):
    """Commits that take their time hold up nobody who only looks."""

    needs_fuse = True
    COMMITS, DELAY = 20, 150  # ms for each file to be made durable; a commit makes two
    BOUND = 3.0  # one after the other they would take twice that

    def drop(self, incoming, number):
        return harness.run(["cp", self.drops / str(number), incoming])

    def test_slow_disk(self):
        table = places.nolink(self, f"delay={self.DELAY}") / "table"
        self.tinydelta("create", table, "id:int")
        self.append(table, [{"id": 0}])
        self.slow(table, b"")

    def test_large_rows(self):
        table = self.table("id:int", "text:str")
        self.append(table, [{"id": 0, "text": ""}])
        self.slow(table, b',"text":"' + b"x" * (1 << 20) + b'"')

    def slow(self, table, more):
        self.drops = self.path("drops")
        self.drops.mkdir()
        for number in range(self.COMMITS):
            (self.drops / str(number)).write_bytes(b'{"id":%d%s}\n' % (number, more))
        longest = {}

        def timed(name, call):
            began = time.monotonic()
            call()
            longest[name] = max(longest.get(name, 0), time.monotonic() - began)

        def write(name, mnt):
            with open(mnt / "incoming" / name, "wb") as out:
                out.write(b'{"id":1}')

        with self.mount(table) as mnt:
            before = len(self.versions(table))
            with concurrent.futures.ThreadPoolExecutor(self.COMMITS) as pool:
                began = time.monotonic()
                waiting = [
                    pool.submit(self.drop, mnt / "incoming", n) for n in range(self.COMMITS)
                ]
                rounds = 0
                while not all(drop.done() for drop in waiting):
                    timed("ls", lambda: os.listdir(mnt))
                    timed("ls incoming", lambda: os.listdir(mnt / "incoming"))
                    timed("stat", lambda: os.stat(mnt / "latest/data.jsonl"))
                    timed("read", lambda: mnt.read("v1/data.jsonl"))
                    timed("read latest", lambda: os.close(os.open(mnt / "latest/data.jsonl", 0)))
                    timed("history", lambda: mnt.read("history/latest.json"))
                    timed("write", lambda: write(".waits", mnt))
                    timed("df", lambda: os.statvfs(mnt))
                    rounds += 1
                took = time.monotonic() - began
                for drop in waiting:
                    self.assertEqual(drop.result().status, 0, str(drop.result()))
            os.unlink(mnt / "incoming/.waits")
            self.assertEqual(len(self.versions(table)) - before, self.COMMITS)
            if not more:
                self.assertGreater(took, self.COMMITS * self.DELAY / 1000, "they were slow")
                self.assertGreater(rounds, 10)
        print(f"# {self.COMMITS} commits took {took:.2f} s; the longest:", end="")
        print("".join(f" {name} {seconds * 1000:.0f} ms," for name, seconds in longest.items()))
        if not SANITIZED:
            for name, seconds in longest.items():
                self.assertLess(seconds, self.BOUND, name)


class Soak(Loaded):
    """In the long run memory and descriptors stay what they were."""

    def measure(self, pid):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        # Those of data files are a cache, with a limit of its own.
        descriptors = sum("/part-" not in target for _, _, target in proc.descriptors(pid))
        return {
            "memory": int(re.search(r"RssAnon:\s*(\d+)", status)[1]) << 10,
            "threads": int(re.search(r"Threads:\s*(\d+)", status)[1]),
            "descriptors": descriptors,
        }

    def warm(self, table, mnt):
        """Lets threads have large requests at the same time, written and read: buffers stay."""
        for number in range(16):
            self.append(table, [{"id": number} for _ in range(30000)])
        harness.drop_caches()

        def use(number):
            mnt.read(f"v{number + 1}/data.jsonl")
            path = mnt / f"incoming/.warm{number}"
            for _ in range(3):
                with open(path, "wb", buffering=0) as out:
                    for _ in range(4):
                        out.write(b"\n" * (1 << 20))
            os.unlink(path)

        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            list(threads.map(use, range(16)))

    def test_flat(self):
        harness.TEST_TIMEOUT = max(harness.TEST_TIMEOUT, SOAK + 120)
        table = self.table()
        with self.mount(table) as mnt:
            idle = self.measure(mnt.pid)["descriptors"]
            self.warm(table, mnt)
            self.load(mnt.point, pause=0.01)
            samples, measured, times = [], [], []
            end = time.monotonic() + SOAK
            number, next_measured = 0, 0
            # Each third of the time has a measurement, however slow the machine is.
            while time.monotonic() < end or len(measured) < 3:
                time.sleep(max(0.5, SOAK / 100))
                # What the kernel remembers of names in incoming/ the daemon must remember too.
                if time.monotonic() >= next_measured:
                    next_measured = time.monotonic() + SOAK / 10
                    harness.drop_caches()
                    measured.append((self.measure(mnt.pid), len(self.versions(table))))
                samples.append((self.measure(mnt.pid), len(self.versions(table))))
                times.append(time.monotonic())
                # Else reading the newest version takes ever longer.
                number += 1
                row = self.file(b'{"id":-%d}\n' % number, "overwrite")
                harness.run([harness.program("tinydelta"), "overwrite", table, "--file", row])
                with self.assertRaises(OSError):
                    (mnt / "incoming/bad").write_bytes(b"{")
                os.unlink(mnt / "incoming/bad")
            looked = self.looked
            self.unload()
            mnt.allow_log("incoming/bad")
            self.assertEqual(mnt.names("incoming"), [])
            versions = len(self.versions(table))
            self.assertGreaterEqual(versions, len(self.acknowledged()))
            (early, _), (late, _) = samples[len(samples) // 3], samples[-1]
            print(f"# {SOAK:.0f} s, {versions} versions, {looked} looks: {early} -> {late}")
            # Under load those of recent names come and go, and there are never more than the commits
            # of the last moments can have.
            for (sample, now), when in zip(samples, times):
                recent = [v for (_, v), t in zip(samples, times) if when - t > GHOST_SECONDS + 3]
                recent_names = now - (recent[-1] if recent else 0)
                self.assertLess(sample["descriptors"], idle + 2 * recent_names + 100)
            # Once the last of them is over, not one more than before is left.
            self.wait_for(
                lambda: self.measure(mnt.pid)["descriptors"] <= idle,
                f"descriptors as before the load ({idle})",
                GHOST_SECONDS + 10,
            )
        # They are started as they are needed, stay, and have a limit: 10 for requests, and those
        # that close, rename, wait, scan and tell for others.
        self.assertLess(late["threads"], 100)
        if not SANITIZED:
            # Buffers of requests come and go with the load: the least of a third is what stays.
            third = len(measured) // 3
            early, then = min(measured[third : 2 * third], key=lambda m: m[0]["memory"])
            late, now = min(measured[2 * third :], key=lambda m: m[0]["memory"])
            grown = late["memory"] - early["memory"]
            self.assertLess(grown, (4 << 20) + 200 * (now - then), f"memory grows: {measured}")
