# SPDX-License-Identifier: MIT
"""How a daemon ends and what it says: the log that nobody reads, the mount that was moved, readers
while the last commit runs, and what it needs for its end."""

import contextlib
import fcntl
import glob
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import harness
import places
import proc
from harness import TestCase, program

GOOD, BAD = b'{"id":1}\n', b'{"id":"x"}\n'
SOON = harness.SOON


class Ends(TestCase):
    needs_fuse = True

    def timed(self, call, *args, seconds=SOON):
        """Calls it in a thread, and fails where it hangs. Returns its result and how long it took."""
        box = []

        def run():
            began = time.monotonic()
            try:
                box.append(call(*args))
            except OSError as error:
                box.append(error)
            box.append(time.monotonic() - began)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            harness.abort_mounts()
            self.fail(f"{call} {args} hangs")
        return box

    def drop(self, path, data):
        """Writes a file; the errno of its close, 0 where that was none."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, data)
        try:
            os.close(fd)
        except OSError as error:
            return error.errno
        return 0

    def background(self, table, *options, **how):
        """Starts a daemon in the background; its mount point and process id."""
        point = self.path()
        point.mkdir()
        # Nobody is to wait for the end of what a daemon inherits.
        child = subprocess.run(
            [program("tinydeltafs"), table, point, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=harness.DAEMON_TIMEOUT,
            **how,
        )
        self.assertEqual(child.returncode, 0)
        self.addCleanup(harness.run, ["umount", "-l", point])
        return point, proc.daemon_of(point)

    def gone(self, pid):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (OSError, IndexError):
            return True
        return state in "ZX"


class Log(Ends):
    def private_dev(self):
        """Replaces /dev by one that is ours, for as long as the test lasts."""
        self.require_root()
        if not harness._private:
            self.skipTest("no mount namespace of its own")
        dev = self.path("dev")
        dev.mkdir()
        self.ok(["mount", "-t", "tmpfs", "none", dev])
        for name in ("fuse", "null", "zero", "full", "random", "urandom"):
            (dev / name).touch()
            self.ok(["mount", "--bind", f"/dev/{name}", dev / name])
        os.symlink("/proc/self/fd", dev / "fd")
        self.ok(["mount", "--rbind", dev, "/dev"])
        self.addCleanup(harness.run, ["umount", "-l", dev])
        self.addCleanup(harness.run, ["umount", "-l", "/dev"])

    def demand_life(self, point, table):
        """Whatever became of the log, files go on."""
        before = len(self.versions(table))
        took = 0
        for call in (
            lambda: os.listdir(point),
            lambda: os.listdir(point / "incoming"),
            lambda: (point / "v1/data.jsonl").read_bytes(),
            lambda: os.statvfs(point),
            lambda: self.drop(point / "incoming/good", GOOD),
        ):
            answer, seconds = self.timed(call)
            took = max(took, seconds)
            self.assertNotIsInstance(answer, OSError)
        self.assertEqual(answer, 0)
        self.assertEqual(len(self.versions(table)), before + 1)
        print(f"# the slowest of them took {took * 1000:.0f} ms")

    def refused(self, point, count):
        for n in range(count):
            answer, _ = self.timed(self.drop, point / f"incoming/bad{n}", BAD)
            self.assertEqual(answer, 22, f"the close of refused drop {n}")

    def test_a_syslog_that_nobody_reads(self):
        self.private_dev()
        table = self.table(rows=[{"id": 0}])
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.bind("/dev/log")
            point, pid = self.background(table)
            length = int(pathlib.Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
            count = length + 30
            self.refused(point, count)
            self.demand_life(point, table)
            # Nothing is lost that there was room for.
            log.settimeout(SOON)
            heard = [log.recv(4096) for _ in range(count)]
            self.assertEqual(len([h for h in heard if b"bad" in h]), count)
            # Again, and then the end.
            for n in range(count):
                os.unlink(point / f"incoming/bad{n}")
            self.refused(point, count)
            began = time.monotonic()
            os.kill(pid, signal.SIGTERM)
            self.wait_for(lambda: self.gone(pid), "the end beside a log that is stuck")
            took = time.monotonic() - began
            print(f"# the end took {took * 1000:.0f} ms")
            self.assertLess(took, SOON)
        self.assertFalse(os.path.ismount(point))

    def test_a_pipe_that_nobody_reads(self):
        table = self.table(rows=[{"id": 0}])
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        point = self.path()
        point.mkdir()
        child = subprocess.Popen([program("tinydeltafs"), table, point, "-f"], stderr=writer)
        os.close(writer)
        self.addCleanup(child.kill)
        self.addCleanup(harness.run, ["umount", "-l", point])
        self.wait_for(lambda: os.path.ismount(point), "mounted")
        self.refused(point, 100)  # the pipe is full long before
        self.demand_life(point, table)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.wait(SOON), 0)
        os.close(reader)

    def test_a_log_that_is_rotated(self):
        table = self.table(rows=[{"id": 0}])
        log = self.path("log")
        with self.mount(table, options=[f"log={log}"]) as mnt:
            mnt.allow_log("expected int")
            self.refused(mnt.point, 1)
            self.wait_for(lambda: b"bad0" in log.read_bytes(), "a line")
            os.rename(log, self.path("log.1"))
            (mnt / "incoming/again").write_bytes(b"")
            self.timed(self.drop, mnt / "incoming/again", BAD)
            self.wait_for(lambda: log.exists() and b"again" in log.read_bytes(), "a line in the new one")
            self.assertNotIn(b"again", self.path("log.1").read_bytes())
            # What logrotate does without "create": no message is needed, and nothing is unmounted.
            os.rename(log, self.path("log.2"))
            os.kill(mnt.pid, signal.SIGHUP)
            self.wait_for(log.exists, "a new one after SIGHUP")
            self.assertEqual(mnt.read("v1/data.jsonl"), b'{"id":0}\n')
            for name in mnt.names("incoming"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(mnt / "incoming" / name)


class Slow(Ends):
    """Where it takes a while until a file is durable."""

    DELAY = 800  # ms; a commit has two or more of them

    def setUp(self):
        super().setUp()
        self.table_path = places.nolink(self, f"delay={self.DELAY}") / "table"
        self.tinydelta("create", self.table_path, "id:int")
        self.append(self.table_path, [{"id": 0}])

    def committing(self, mnt, name="slow"):
        """Starts a drop, and returns its thread when its close has begun."""
        box = []
        fd = os.open(mnt / "incoming" / name, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, GOOD)

        def close():
            try:
                os.close(fd)
                box.append(0)
            except OSError as error:
                box.append(error.errno)

        thread = threading.Thread(target=close, daemon=True)
        thread.start()
        waiting = pathlib.Path("/sys/fs/fuse/connections", mnt.device.split(":")[1], "waiting")
        self.wait_for(lambda: int(waiting.read_text()) > 0, "the close is on its way")
        time.sleep(0.2)  # and past its look
        return thread, box

    def test_readers_are_served_until_the_last_commit_is_done(self):
        with self.mount(self.table_path) as mnt:
            thread, box = self.committing(mnt)
            began = time.monotonic()
            os.kill(mnt.pid, signal.SIGTERM)
            slowest, rounds = 0, 0
            while thread.is_alive():
                answer, seconds = self.timed(lambda: (mnt / "v1/data.jsonl").read_bytes())
                # The mount may be gone a moment before the thread knows that its commit is done.
                if answer != b'{"id":0}\n':
                    thread.join(0.2)
                if not thread.is_alive():
                    break
                self.assertEqual(answer, b'{"id":0}\n')
                slowest, rounds = max(slowest, seconds), rounds + 1
                answer, _ = self.timed(self.drop, mnt / "incoming/more", GOOD)
                if getattr(answer, "errno", None) != 30:
                    thread.join(0.2)
                if thread.is_alive():
                    self.assertEqual(answer.errno, 30, "nothing new is begun")
                time.sleep(0.02)
            print(f"# {rounds} reads, the slowest took {slowest * 1000:.0f} ms")
            self.assertGreater(rounds, 3)
            self.assertEqual(box, [0])
            self.assertEqual(mnt.daemon.wait(SOON), 0)
            print(f"# the end came after {time.monotonic() - began:.1f} s")
            self.assertFalse(os.path.ismount(mnt.point))
            self.assertEqual(self.versions(self.table_path), [0, 1, 2])
            mnt.finish()

    def test_a_close_that_comes_after_the_signal(self):
        """An error, and not committed; or 0, and committed."""
        with self.mount(self.table_path) as mnt:
            mnt.allow_log("not committed")
            first = os.open(mnt / "incoming/late", os.O_WRONLY | os.O_CREAT, 0o644)
            second = os.dup(first)
            os.close(first)
            os.write(second, b'{"id":7}\n')
            thread, box = self.committing(mnt)
            os.kill(mnt.pid, signal.SIGTERM)
            time.sleep(0.3)
            answer, _ = self.timed(os.close, second)
            self.assertEqual(mnt.daemon.wait(SOON), 0)
            thread.join(SOON)
            self.assertEqual(box, [0])
            rows = self.tinydelta("read", self.table_path).out
            self.assertEqual(b'{"id":7}' in rows, answer is None, f"close said {answer}")
            mnt.finish()

    def test_a_commit_whose_writer_cannot_be_told(self):
        with self.mount(self.table_path) as mnt:
            mnt.expect_log("slow: committed, but its writer could not be told")
            mnt.allow_log("fuse: ")
            thread, box = self.committing(mnt)
            pathlib.Path("/sys/fs/fuse/connections", mnt.device.split(":")[1], "abort").write_text("1")
            thread.join(SOON)
            self.assertEqual(box, [103])
            mnt.daemon.wait(SOON)
            self.assertEqual(self.versions(self.table_path), [0, 1, 2])
            self.ok(["umount", "-l", mnt.point])
            mnt.finish()


class End(Ends):
    def test_it_comes_soon_where_nothing_runs(self):
        table = self.table(rows=[{"id": 0}])
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.mount(table) as mnt:
                began = time.monotonic()
                os.kill(mnt.pid, number)
                self.assertEqual(mnt.daemon.wait(SOON), 0)
                took = time.monotonic() - began
                print(f"# {number.name}: {took * 1000:.0f} ms")
                self.assertLess(took, SOON)
                mnt.finish()

    def test_a_mount_that_was_moved(self):
        self.require_root()
        table = self.table(rows=[{"id": 0}])
        for how in ("rename", "move", "bind"):
            with self.subTest(how=how):
                below, moved = self.path(), self.path()
                below.mkdir()
                with self.mount(table, below / "mnt") as mnt:
                    if how == "rename":
                        os.rename(below, moved)
                        now = moved / "mnt"
                    else:
                        moved.mkdir()
                        self.ok(["mount", f"--{how}", mnt.point, moved])
                        now = moved
                    self.assertEqual((now / "v1/data.jsonl").read_bytes(), b'{"id":0}\n')
                    mnt.daemon.send_signal(signal.SIGTERM)
                    self.assertEqual(mnt.daemon.wait(SOON), 0)
                    self.assertIsNone(proc.mountinfo(now), "no dead mount")
                    self.assertIsNone(proc.mountinfo(mnt.point))
                    mnt.finish()

    def test_another_file_system_over_it(self):
        """What lies over the mount point is left alone."""
        self.require_root()
        table = self.table(rows=[{"id": 0}])
        with self.mount(table) as mnt:
            self.ok(["mount", "-t", "tmpfs", "none", mnt.point])
            (mnt / "mine").touch()
            mnt.daemon.send_signal(signal.SIGTERM)
            self.assertEqual(mnt.daemon.wait(SOON), 0)
            self.assertTrue((mnt / "mine").exists())
            self.ok(["umount", mnt.point])
            mnt.finish()

    def libgcc(self):
        needed = self.ok(["ldd", program("tinydeltafs")]).text
        if "libgcc_s" in needed:
            self.skipTest("this build is linked with it")
        found = glob.glob("/lib/*/libgcc_s.so.1") + glob.glob("/usr/lib/*/libgcc_s.so.1")
        return sorted({os.path.realpath(path) for path in found})

    def test_without_libgcc(self):
        """glibc wants it to cancel threads, and aborts where it cannot have it."""
        self.require_root()
        if not harness._private:
            self.skipTest("no mount namespace of its own")
        table = self.table(rows=[{"id": 0}])
        for how in ("umount", "signal"):
            with self.mount(table) as mnt:
                for library in self.libgcc():
                    self.ok(["mount", "--bind", "/dev/null", library])
                try:
                    if how == "umount":
                        self.ok(["umount", mnt.point])
                    else:
                        mnt.daemon.send_signal(signal.SIGTERM)
                    self.assertEqual(mnt.daemon.wait(SOON), 0)
                finally:
                    for library in self.libgcc():
                        self.ok(["umount", library])
                mnt.finish()

    def test_inherited_descriptors(self):
        """A lock that whoever mounted had is not held for as long as the mount is there."""
        table = self.table(rows=[{"id": 0}])
        lock = self.path("lock")
        for arguments in ([], ["-o", f"log={self.path('log')}"]):
            point = self.path()
            point.mkdir()
            self.sh(
                'exec 9>"$1" 11>"$1.too" 37>"$1.three"; flock 9; shift; exec "$@" 2>/dev/null',
                lock, program("tinydeltafs"), table, point, *arguments,
            )
            self.addCleanup(harness.run, ["umount", "-l", point])
            self.ok(["flock", "-n", lock, "true"])
            self.assertEqual((point / "v1/data.jsonl").read_bytes(), b'{"id":0}\n')
            self.ok(["umount", point])
        # What is named by one is used before it goes.
        read_end = self.sh(
            'exec 5<"$1" 6>>"$4"; "$2" /dev/fd/5 "$3" -o log=/dev/fd/6 && cat "$3/v1/data.jsonl"; umount "$3"',
            table, program("tinydeltafs"), point, self.path("log.too"),
        )
        self.assertEqual(read_end.out, b'{"id":0}\n')


class Two(Ends):
    ROUNDS = int(os.environ.get("TDL_ROUNDS", "8"))

    def test_two_at_once_at_one_place(self):
        table = self.table(rows=[{"id": 0}])
        for _ in range(self.ROUNDS):
            point = self.path()
            point.mkdir()
            children = [
                subprocess.Popen(
                    [program("tinydeltafs"), table, point],
                    stdout=subprocess.DEVNULL,
                    stderr=open(self.path(), "w+b"),
                )
                for _ in range(3)
            ]
            statuses = sorted(child.wait(SOON * 2) for child in children)
            with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
                there = [line for line in mounts if f" {point} " in line]
            for _ in there:
                harness.run(["umount", point])
            self.assertEqual(len(there), 1)
            self.assertEqual(statuses, [0, 1, 1])

    def test_somebody_else_locks_the_place(self):
        """Any user may lock a directory that he can read: it only takes longer."""
        table = self.table(rows=[{"id": 0}])
        point = self.path()
        point.mkdir()
        holder = subprocess.Popen(["flock", point, "sleep", "1.5"])
        self.addCleanup(holder.kill)
        self.wait_for(
            lambda: harness.run(["flock", "-n", point, "true"]).status != 0, "it is locked"
        )
        with self.mount(table, point) as mnt:
            self.assertEqual(mnt.read("v1/data.jsonl"), b'{"id":0}\n')
        holder.wait(SOON)


class Stalled(Ends):
    """The file system under the table does not answer: frozen for a snapshot, or a disk that hangs."""

    WRITERS = 40

    def freezer(self, below):
        """A process that freezes a file system at the first line, and thaws it at the next or when
        we are gone. Not started later: a fork closes our files in the child, which waits."""
        self.require_tool("fsfreeze")
        script = 'read x; fsfreeze -f "$1" || exit 1; echo frozen; read x; fsfreeze -u "$1"; echo thawed'
        child = subprocess.Popen(
            ["sh", "-c", script, "sh", below],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        self.addCleanup(child.wait)
        self.addCleanup(child.stdin.close)

        def say():
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write("\n")
            return child.stdout.readline()

        return say

    def test_readers_beside_writers_that_are_stuck(self):
        below = places.made(self, "ext4")
        table = below / "table"
        self.tinydelta("create", table, "id:int")
        self.append(table, [{"id": 0}])
        say = self.freezer(below)
        with self.mount(table) as mnt:
            mnt.read("v1/data.jsonl")
            files = [os.open(mnt / f"incoming/f{n}", os.O_WRONLY | os.O_CREAT) for n in range(self.WRITERS)]
            boxes = [[] for _ in files]
            if say() != "frozen\n":
                for fd in files:
                    os.close(fd)
                self.skipTest("this kernel does not freeze it")

            def write(fd, n):
                os.write(fd, b'{"id":%d}\n' % n)
                os.close(fd)
                boxes[n].append(0)

            writers = [threading.Thread(target=write, args=(fd, n), daemon=True) for n, fd in enumerate(files)]
            try:
                for writer in writers:
                    writer.start()
                self.wait_for(lambda: self.stuck(mnt.pid) >= 8, "they are stuck")
                slowest = 0
                for call in (
                    lambda: mnt.read("v1/data.jsonl"),
                    lambda: os.listdir(mnt),
                    lambda: os.stat(mnt / "latest/data.jsonl"),
                    lambda: os.statvfs(mnt),
                    lambda: os.listdir(mnt / "v0"),
                    lambda: mnt.read("history/latest.json"),
                ) * 3:
                    answer, seconds = self.timed(call, seconds=10)
                    self.assertNotIsInstance(answer, OSError)
                    slowest = max(slowest, seconds)
                print(f"# the slowest of them took {slowest * 1000:.0f} ms")
            finally:
                say()
            for writer in writers:
                writer.join(60)
                self.assertFalse(writer.is_alive())
            self.assertEqual(boxes, [[0]] * self.WRITERS)
            self.assertEqual(
                sorted(self.data(table, self.versions(table)[-1]).split()),
                sorted(b'{"id":%d}' % n for n in [0, *range(self.WRITERS)]),
            )

    @staticmethod
    def stuck(pid):
        """How many threads wait for what cannot be interrupted."""
        count = 0
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError, IndexError):
                count += path.read_text().rsplit(")", 1)[1].split()[0] == "D"
        return count


class Listings(Ends):
    def test_the_kernel_keeps_those_of_versions(self):
        table = self.table(rows=[{"id": 0}])
        with self.mount(table, arguments=["-d"]) as mnt:
            for _ in range(3):
                self.assertEqual(mnt.names("v1"), ["data.jsonl"])
            self.wait_for(lambda: mnt.log().count("OPENDIR") >= 3, "the log")
            first = mnt.log().count("READDIR")
            for _ in range(10):
                self.assertEqual(mnt.names("v1"), ["data.jsonl"])
            self.wait_for(lambda: mnt.log().count("OPENDIR") >= 13, "the log")
            self.assertEqual(mnt.log().count("READDIR"), first)
            self.append(table, [{"id": 1}])
            self.assertIn("v2", mnt.names())
            self.assertEqual(mnt.names("latest"), ["data.jsonl"])
