# SPDX-License-Identifier: MIT
"""What a daemon does when something runs out: a table of resources against requests.

In each cell a request either does what it should or fails with one of the errnos of MAY; never
does it give a wrong byte, say 0 for what is not committed, or hang. When the resource is back,
everything works; and where it is not back, a umount and a signal still end the daemon with status 0.

A limit of processes (pids) shows as threads that cannot be made. The daemon watches nothing with
inotify: there is no such resource.

TDL_ALLOCATIONS says after how many allocations memory runs out at the latest.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import resource
import signal
import struct
import subprocess
import threading
import time

import harness
import places
from harness import TestCase

SANITIZED = any(os.environ.get(name) for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
ALLOCATIONS = int(os.environ.get("TDL_ALLOCATIONS", "24"))
BOUND = 30  # seconds for one request
ROWS = b'{"id":0}\n' * 1000

E = errno
DESCRIPTORS = {E.EMFILE, E.ENFILE}
MEMORY = {E.ENOMEM}
FULL = {E.ENOSPC}
QUOTA = {E.EDQUOT}
# What a request may answer with where a resource has run out, besides doing what it should. A
# close or a rename that could not be judged is EAGAIN or EIO, and has committed nothing.
UNJUDGED = {E.EAGAIN, E.EIO, E.ENOMEM}
MAY = {
    "descriptors": {
        "read": DESCRIPTORS, "list": DESCRIPTORS, "create": DESCRIPTORS, "write": DESCRIPTORS,
        "close": DESCRIPTORS | UNJUDGED, "rename": DESCRIPTORS | UNJUDGED, "unlink": DESCRIPTORS,
    },
    "threads": {
        "read": set(), "list": set(), "create": set(), "write": set(),
        "close": UNJUDGED, "rename": UNJUDGED, "unlink": set(),
    },
    "memory": {
        "read": MEMORY, "list": MEMORY, "create": MEMORY, "write": MEMORY | {E.EIO},
        "close": UNJUDGED, "rename": UNJUDGED, "unlink": MEMORY,
    },
    "disk": {
        "read": set(), "list": set(), "create": FULL, "write": FULL,
        "close": FULL, "rename": FULL, "unlink": set(),
    },
    "quota": {
        "read": set(), "list": set(), "create": QUOTA, "write": QUOTA,
        "close": QUOTA, "rename": QUOTA, "unlink": set(),
    },
    "log": {name: set() for name in ("read", "list", "create", "write", "close", "rename", "unlink")},
    "proc": {
        "read": set(), "list": set(), "create": set(), "write": set(),
        "close": UNJUDGED, "rename": UNJUDGED, "unlink": set(),
    },
}


class Exhausted(TestCase):
    needs_fuse = True
    resource = None

    def setUp(self):
        super().setUp()
        self.number = 0
        self.seen = {}

    def make(self, table=None):
        self.root = table or self.path("table")
        self.tinydelta("create", self.root, "id:int")
        self.append(self.root, ROWS)

    def umount(self, mnt):
        """The daemon's own first look at its mount may be under way."""
        self.wait_for(lambda: harness.run(["umount", mnt.point]).status == 0, "the umount")

    # -- one request --

    def attempt(self, name, call):
        """Its result, or an errno as a negative number; fails where it hangs or may not fail so."""
        box = []

        def run():
            try:
                box.append(call())
            except OSError as error:
                box.append(-error.errno)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(BOUND)
        if thread.is_alive():
            harness.abort_mounts()
            self.fail(f"{self.resource}: {name} hangs")
        answer = box[0]
        if isinstance(answer, int) and answer < 0:
            self.seen.setdefault(name, set()).add(errno.errorcode[-answer])
            self.assertIn(-answer, MAY[self.resource][name], f"{name}: {os.strerror(-answer)}")
        return answer

    def read(self, mnt):
        answer = self.attempt("read", (mnt / "v1/data.jsonl").read_bytes)
        if not isinstance(answer, int):
            self.assertEqual(answer, ROWS)

    def list(self, mnt):
        answer = self.attempt("list", lambda: set(os.listdir(mnt)))
        if not isinstance(answer, int):
            self.assertLessEqual({"v0", "v1", "latest", "incoming", "history"}, answer)
        self.attempt("list", lambda: os.listdir(mnt / "incoming"))
        self.attempt("list", lambda: os.stat(mnt / "v0/data.jsonl").st_size)

    def put(self, path, data):
        """Creates, writes and closes; how far it came and the answer."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        fd = self.attempt("create", lambda: os.open(path, flags, 0o644))
        if fd < 0:
            return "create", fd
        written = self.attempt("write", lambda: os.write(fd, data))
        return "close" if written > 0 else "write", self.attempt("close", lambda: os.close(fd) or 0)

    def committed(self, row):
        """Whether it is in the table; the log is read behind the daemon's back."""
        version = self.versions(self.root)[-1]
        data = self.data(self.root, version)
        self.assertLessEqual(data.count(row), 1, "twice")
        return row in data

    def drop(self, mnt):
        self.number += 1
        row = b'{"id":%d}\n' % (1000 + self.number)
        step, answer = self.put(mnt / f"incoming/good{self.number}", row)
        if step == "close":
            self.assertEqual(self.committed(row), answer == 0, f"close said {answer}")
        else:
            self.assertFalse(self.committed(row))

    def refuse(self, mnt):
        self.number += 1
        before = self.versions(self.root)
        path = mnt / f"incoming/bad{self.number}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        fd = self.attempt("create", lambda: os.open(path, flags, 0o644))
        if fd < 0:
            return
        written = self.attempt("write", lambda: os.write(fd, b'{"id":"x"}\n'))
        try:
            os.close(fd)
            answer = 0
        except OSError as error:
            answer = error.errno
        self.assertEqual(self.versions(self.root), before)
        if written > 0:
            self.assertNotEqual(answer, 0, "bad rows are acknowledged")
            self.assertIn(answer, {E.EINVAL} | MAY[self.resource]["close"])
        self.attempt("unlink", lambda: path.unlink(missing_ok=True))

    def rename(self, mnt):
        self.number += 1
        row = b'{"id":%d}\n' % (1000 + self.number)
        aside = mnt / f"incoming/.r{self.number}.tmp"
        step, answer = self.put(aside, row)
        if step == "close" and answer == 0:
            answer = self.attempt("rename", lambda: os.rename(aside, mnt / f"incoming/r{self.number}") or 0)
            self.assertEqual(self.committed(row), answer == 0, f"rename said {answer}")
        self.attempt("unlink", lambda: aside.unlink(missing_ok=True))

    def all_of_them(self, mnt):
        for request in (self.read, self.list, self.drop, self.refuse, self.rename):
            request(mnt)

    # -- and afterwards --

    def back(self, mnt):
        """It is there again: what was left can be removed, and everything works."""
        mine = self.resource
        self.resource = "log"  # where nothing may fail
        try:
            for name in sorted(os.listdir(mnt / "incoming")):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(mnt / "incoming" / name)
            self.all_of_them(mnt)
            self.assertEqual(os.listdir(mnt / "incoming"), [])
            version = self.versions(self.root)[-1]
            self.assertEqual(mnt.read("latest/data.jsonl"), self.data(self.root, version))
        finally:
            self.resource = mine

    def ends(self, mnt, how):
        """The end of a daemon that still lacks it: by umount, or by a signal."""
        if how == "umount":
            self.umount(mnt)
        else:
            mnt.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(mnt.daemon.wait(BOUND), 0)

    def leave_some(self, mnt):
        """What waits when the end comes: refused, temporary, half written. It may be refused itself."""
        held = []
        for name, rows, close in (
            ("bad", b"{", True),
            (".aside", b'{"id":1}\n', True),
            ("half", b'{"id":2}\n', False),
        ):
            with contextlib.suppress(OSError):
                held.append(os.open(mnt / "incoming" / name, os.O_WRONLY | os.O_CREAT))
                os.write(held[-1], rows)
                if close:
                    os.close(held.pop())
        return held

    def let_go(self, held):
        for fd in held:
            with contextlib.suppress(OSError):
                os.close(fd)

    def report(self):
        print("#", self.resource, {name: sorted(seen) for name, seen in self.seen.items()})


class Descriptors(Exhausted):
    resource = "descriptors"
    LEFT = range(0, 21) if not SANITIZED else (0, 1, 2, 3, 4, 6, 9, 13, 20)

    @contextlib.contextmanager
    def left(self, mnt, count):
        """So many descriptors can be opened besides those that are open."""
        taken = {int(name) for name in os.listdir(f"/proc/{mnt.pid}/fd")}
        free = (number for number in range(1 << 20) if number not in taken)
        limit = next(number for index, number in enumerate(free) if index == count)
        soft, hard = resource.prlimit(mnt.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(mnt.pid, resource.RLIMIT_NOFILE, (limit, hard))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):  # it was the end
                resource.prlimit(mnt.pid, resource.RLIMIT_NOFILE, (soft, hard))

    def test_requests(self):
        self.make()
        with self.mount(self.root) as mnt:
            mnt.allow_log(".")
            for count in self.LEFT:
                with self.subTest(left=count):
                    with self.left(mnt, count):
                        self.all_of_them(mnt)
                    self.back(mnt)
        self.report()

    def test_the_end(self):
        self.make()
        for how in ("umount", "signal"):
            for count in (0, 1, 2, 5):
                with self.subTest(how=how, left=count), self.mount(self.root) as mnt:
                    mnt.allow_log(".")
                    with self.left(mnt, count):
                        self.ends(mnt, how)
                    mnt.finish()


class Preloaded(Exhausted):
    """With a library between the daemon and its C library."""

    def setUp(self):
        super().setUp()
        if SANITIZED:
            self.skipTest("the sanitizers have an allocator and threads of their own")
        library = harness.build_root() / "tests/system/exhaustion/exhaust.so"
        orders = self.path("orders")
        orders.write_bytes(bytes(32))
        with open(orders, "r+b") as file:
            self.orders = mmap.mmap(file.fileno(), 32)
        self.env = {"LD_PRELOAD": str(library), "EXHAUST": str(orders)}

    def order(self, succeed=0, fail=0, thread=0):
        self.orders[8:16] = struct.pack("q", 0)
        self.orders[0:8] = struct.pack("q", succeed)
        self.orders[16:24] = struct.pack("q", thread)
        self.orders[8:16] = struct.pack("q", fail)

    def failed(self):
        return struct.unpack("q", self.orders[24:32])[0]


class Threads(Preloaded):
    resource = "threads"

    def test_requests(self):
        self.make()
        with self.mount(self.root, env=self.env) as mnt:
            mnt.allow_log(".")
            self.order(thread=E.EAGAIN)
            self.all_of_them(mnt)
            self.order()
            self.back(mnt)
            self.all_of_them(mnt)
            # With those that are there now.
            self.order(thread=E.EAGAIN)
            self.all_of_them(mnt)
            self.order()
        self.report()

    def test_the_end(self):
        self.make()
        for how in ("umount", "signal"):
            self.order()
            with self.subTest(how=how), self.mount(self.root, env=self.env) as mnt:
                mnt.allow_log(".")
                self.order(thread=E.EAGAIN)
                self.let_go(self.leave_some(mnt))
                self.ends(mnt, how)
                self.order()
                mnt.finish()

    def test_at_the_start(self):
        """It says so and mounts nothing, or it serves."""
        self.make()
        self.order(thread=E.EAGAIN)
        point = self.path()
        point.mkdir()
        began = time.monotonic()
        result = harness.run([harness.program("tinydeltafs"), self.root, point], env=self.env)
        self.assertEqual(result.status, 1, str(result))
        self.assertIn("cannot create a thread", result.error)
        self.assertLess(time.monotonic() - began, BOUND)
        self.assertFalse(os.path.ismount(point))


class Memory(Preloaded):
    resource = "memory"

    def test_requests(self):
        self.make()
        failed = 0
        with self.mount(self.root, env=self.env) as mnt:
            mnt.allow_log(".")
            for request in (self.read, self.list, self.drop, self.refuse, self.rename):
                for count in range(ALLOCATIONS):
                    with self.subTest(request=request.__name__, succeed=count):
                        self.order(succeed=count, fail=1)
                        request(mnt)
                        self.order()
                for count in (0, 3, 10):
                    with self.subTest(request=request.__name__, succeed=count, all=True):
                        self.order(succeed=count, fail=1 << 40)
                        request(mnt)
                        self.order()
                failed, before = self.failed(), failed
                self.assertGreater(failed, before, request.__name__)
                self.back(mnt)
        self.report()

    def test_the_end(self):
        self.make()
        for how in ("umount", "signal"):
            with self.subTest(how=how), self.mount(self.root, env=self.env) as mnt:
                mnt.allow_log(".")
                self.order(fail=1 << 40)
                self.ends(mnt, how)
                self.order()
                mnt.finish()


class Disk(Exhausted):
    resource = "disk"
    before = ()  # a command that is held to the limit

    def place(self):
        below = places.made(self, "tmpfs")
        self.ok(["mount", "-o", "remount,size=4m", below])
        return below

    def begin(self):
        self.below = self.place()
        self.make(self.below / "table")

    def started(self):
        return self.mount(self.root, wrapper=self.before)

    def test_requests(self):
        self.begin()
        with self.started() as mnt:
            mnt.allow_log(".")
            for left in (0, 1, 2, 3, 4, 8):  # pages
                with self.subTest(left=left):
                    self.fill(left)
                    self.all_of_them(mnt)
                    os.unlink(self.below / "fill")
                    self.back(mnt)
        self.report()

    def test_the_end(self):
        self.begin()
        for how in ("umount", "signal"):
            with self.subTest(how=how), self.started() as mnt:
                mnt.allow_log(".")
                held = self.leave_some(mnt)
                self.fill(0)
                self.let_go(held)
                self.ends(mnt, how)
                os.unlink(self.below / "fill")
                mnt.finish()

    def fill(self, left):
        harness.run([*self.before, "dd", "if=/dev/zero", f"of={self.below / 'fill'}", "bs=4096"])
        size = os.stat(self.below / "fill").st_size
        os.truncate(self.below / "fill", max(0, size - left * 4096))


class Quota(Disk):
    resource = "quota"

    def place(self):
        below, self.before = places.quota(self, 4 << 20)
        return below


class Log(Exhausted):
    resource = "log"

    def test_requests_and_a_signal(self):
        self.run_with(lambda child, point: child.send_signal(signal.SIGTERM))

    def test_requests_and_a_umount(self):
        self.run_with(lambda child, point: self.wait_for(
            lambda: harness.run(["umount", point]).status == 0, "the umount"))

    def run_with(self, how):
        """stderr is a pipe that nobody reads, and it is full."""
        self.make()
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        point = self.path()
        point.mkdir()
        argv = [harness.program("tinydeltafs"), self.root, point, "-f"]
        child = subprocess.Popen(argv, stderr=writer, stdout=subprocess.DEVNULL)
        os.close(writer)
        self.addCleanup(child.kill)
        self.addCleanup(harness.run, ["umount", "-l", point])
        self.wait_for(lambda: os.path.ismount(point), "mounted")
        for _ in range(5):
            self.all_of_them(point)
        how(child, point)
        self.assertEqual(child.wait(BOUND), 0)
        os.close(reader)


class Proc(Exhausted):
    resource = "proc"

    def test_requests(self):
        """/proc is covered."""
        self.require_root()
        if not harness._private:
            self.skipTest("no mount namespace of its own")
        self.make()
        with self.mount(self.root) as mnt:
            mnt.allow_log(".")
            self.ok(["mount", "-t", "tmpfs", "none", "/proc"])
            try:
                self.all_of_them(mnt)
            finally:
                self.ok(["umount", "/proc"])
            self.back(mnt)
        self.report()

    def test_the_end(self):
        """With a group half-way, whose writers nobody can see."""
        self.require_root()
        if SANITIZED:
            self.skipTest("the leak sanitizer reads /proc at the end")
        if not harness._private:
            self.skipTest("no mount namespace of its own")
        self.make()
        for how in ("umount", "signal"):
            with self.subTest(how=how), self.mount(self.root) as mnt:
                mnt.allow_log(".")
                self.ok(["mount", "-t", "tmpfs", "none", "/proc"])
                try:
                    self.let_go(self.leave_some(mnt))
                    self.ends(mnt, how)
                finally:
                    self.ok(["umount", "/proc"])
                mnt.finish()
