# SPDX-License-Identifier: MIT
"""What the Python tests share: built programs, scratch tables, mounts, golden data.

    from harness import TestCase

    class Reading(TestCase):
        def test_first_version(self):
            table = self.table(rows=[{"id": 1}])
            with self.mount(table) as mnt:
                self.assertEqual(mnt.read("v1/data.jsonl"), b'{"id":1}\n')

Run a file with tests/lib/run_tap.py, which puts it into a private mount namespace first, so that
no mount of a test is ever seen outside and none outlives it. Nothing here sleeps or polls by
time: readiness, exits and hangs are waited for with deadlines.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

import proc

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("TDL_TEST_DATA") or SOURCE / "tests" / "data")
CI = os.environ.get("CI", "") not in ("", "0", "false")

# Against hangs only: where the disk discards what others delete, an fsync can take minutes.
COMMAND_TIMEOUT = 180  # seconds, for one command
# Seconds, for one test method: then its mounts are aborted.
TEST_TIMEOUT = int(os.environ.get("TDL_TEST_TIMEOUT", "600"))
DAEMON_TIMEOUT = 60  # seconds, for a daemon to serve and to end
# Seconds, for what happens at once where nothing else is done: others may be at work here too.
SOON = 60

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS = 0x00020000
_MS_PRIVATE_REC = (1 << 18) | 16384
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_FUSECTL = "/sys/fs/fuse/connections"

_private = False  # this process has a mount namespace of its own
_mounts = []  # the mounts that live, for the watchdog


# ---- Programs -----------------------------------------------------------------------------------


def build_root():
    """The meson build directory: TDL_BUILD, as meson sets it for its tests."""
    root = os.environ.get("TDL_BUILD")
    if not root:
        raise RuntimeError("TDL_BUILD is not set: it names the meson build directory")
    return pathlib.Path(root).resolve()


def program(name):
    """The path of a built program: tinydelta, tinydeltafs, mount.tinydelta, or one for tests."""
    folder = {"tinydelta": "core/command", "tinydeltafs": "fs", "mount.tinydelta": "mount-helper"}
    path = build_root() / folder.get(name, "tests/support") / name
    if not path.exists():
        raise RuntimeError(f"{path} has not been built")
    return str(path)


class Result:
    """How a command ended. out and err are bytes; text and error are the same as str."""

    def __init__(self, argv, status, out, err):
        self.argv, self.status, self.out, self.err = argv, status, out, err

    @property
    def text(self):
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def error(self):
        return self.err.decode("utf-8", "surrogateescape")

    def __str__(self):
        shown = " ".join(map(str, self.argv))
        return f"$ {shown}\nstatus {self.status}\nstdout: {self.out[-4000:]!r}\nstderr: {self.err[-4000:]!r}"


def environment(argv, added=None):
    """The environment of a command. Leaks cannot be looked for in a process that is traced."""
    env = {**os.environ, **(added or {})}
    if os.path.basename(argv[0]) in ("strace", "gdb") and "ASAN_OPTIONS" in env:
        env["ASAN_OPTIONS"] += ":detect_leaks=0"
        # Newer ones read the file all the same, and end where that call is made to fail.
        env["LSAN_OPTIONS"] = re.sub(r"(^|:)suppressions=[^:]*", "", env.get("LSAN_OPTIONS", ""))
    return env


def run(argv, input=b"", timeout=COMMAND_TIMEOUT, cwd=None, env=None, user=None, stdin=None):
    """Runs a command to its end. A negative status is a signal. input: bytes or str for stdin;
    env: added to the environment; user: a numeric uid (and gid) to run as."""
    if isinstance(input, str):
        input = input.encode()
    argv = [os.fspath(a) if isinstance(a, os.PathLike) else a for a in argv]
    child = subprocess.Popen(
        argv,
        stdin=stdin if stdin is not None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment(argv, env),
        user=user,
        group=user,
        extra_groups=[] if user is not None else None,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(None if stdin is not None else input, timeout=timeout)
    except subprocess.TimeoutExpired:
        abort_mounts()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate(timeout=SOON)
        raise AssertionError(f"no end after {timeout} s:\n{Result(argv, None, out, err)}") from None
    return Result(argv, child.returncode, out, err)


# ---- Mount namespace and FUSE -------------------------------------------------------------------


def enter_namespace():
    """Gives this process a private mount namespace, where it may; call it before any thread."""
    global _private
    if _libc.unshare(_CLONE_NEWNS) != 0:
        return
    if _libc.mount(None, b"/", None, _MS_PRIVATE_REC, None) != 0:
        return
    _private = True
    if os.path.isdir(_FUSECTL) and not os.path.ismount(_FUSECTL):
        _libc.mount(b"fusectl", _FUSECTL.encode(), b"fusectl", 0, None)


def why_no_fuse():
    """Why nothing can be mounted here, or None."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    if not _private and not shutil.which("fusermount3"):
        return "no right to mount and no fusermount3"
    return None


def abort_mounts():
    """Ends every live mount of this process the hard way, so that whatever hangs in one returns."""
    for mount in list(_mounts):
        mount.abort()


def drop_caches():
    """Makes the kernel forget names and attributes that are not in use, where it lets us."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Mount:
    """A table that a foreground tinydeltafs serves. Use it through TestCase.mount().

    `mnt / "v1"` is a path; pid is the daemon's; device the mount's "0:57". user: the numeric uid
    that runs the daemon; wrapper: what stands before it on its command line, as in strace.
    """

    def __init__(self, case, table, point, options=(), arguments=(), env=None, user=None, wrapper=()):
        self.case, self.table, self.point = case, table, pathlib.Path(point)
        self.options, self.arguments, self.env, self.user = options, arguments, env, user
        self.wrapper = wrapper
        self.program = None  # another copy of tinydeltafs than the built one
        # What is told once where the kernel reads by itself is never a surprise.
        self.expected, self.allowed = [], [r"passthrough: the kernel reads large data files"]
        self.daemon = None
        self.device = None
        self.log_path = None

    def __truediv__(self, name):
        return self.point / name

    def __fspath__(self):
        return str(self.point)

    def __str__(self):
        return str(self.point)

    @property
    def pid(self):
        return self.daemon.pid

    def read(self, name):
        return (self.point / name).read_bytes()

    def names(self, name=""):
        return sorted(os.listdir(self.point / name))

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="surrogateescape")

    def expect_log(self, *patterns):
        """Log lines in which one of these regular expressions is found are no surprise, and each
        of them must be found in one."""
        self.expected += patterns
        self.allowed += patterns

    def allow_log(self, *patterns):
        """Log lines in which one of these regular expressions is found are no surprise."""
        self.allowed += patterns

    def start(self):
        self.point.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="log.", dir=self.case.scratch)
        self.log_path = pathlib.Path(name)
        argv = [*self.wrapper, self.program or program("tinydeltafs"), str(self.table), str(self.point), "-f"]
        if self.options:
            argv += ["-o", ",".join(self.options)]
        # Waited for before it is started, so that no change of the mount table is missed.
        with open("/proc/self/mountinfo", "rb") as mounts:
            mounts.read()
            before = proc.mountinfo(self.point)
            self.daemon = subprocess.Popen(
                [*argv, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env=environment(argv, self.env),
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user is not None else None,
                preexec_fn=_die_with_parent,
            )
            os.close(descriptor)
            _mounts.append(self)
            try:
                self._wait_until_mounted(mounts, before)
                # Waits for the daemon's first answer; others, root too, may not look into a user's.
                run(["stat", self.point], user=self.user, timeout=DAEMON_TIMEOUT)
            except BaseException:
                self.kill()
                raise
        return self

    def _wait_until_mounted(self, mounts, before):
        pidfd = os.pidfd_open(self.daemon.pid)
        try:
            events = select.poll()
            events.register(pidfd, select.POLLIN)
            events.register(mounts.fileno(), select.POLLPRI)
            deadline = time.monotonic() + DAEMON_TIMEOUT
            while True:
                now = proc.mountinfo(self.point)
                if now and now != before:
                    self.device = now[0]
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not mounted after {DAEMON_TIMEOUT} s; log:\n{self.log()}")
                for descriptor, _ in events.poll(left * 1000):
                    if descriptor == pidfd:
                        status = self.daemon.wait()
                        raise AssertionError(
                            f"tinydeltafs ended with status {status} before it served; log:\n{self.log()}"
                        )
        finally:
            os.close(pidfd)

    def abort(self):
        """Cuts the connection: whatever waits for the daemon gets ECONNABORTED."""
        if self.device:
            with contextlib.suppress(OSError):
                pathlib.Path(_FUSECTL, self.device.split(":")[1], "abort").write_text("1")
        if self.daemon and self.daemon.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.daemon.send_signal(signal.SIGKILL)

    def kill(self):
        """Kills the daemon and clears the mount point away; nothing is demanded of the log."""
        if self.daemon is None:
            return
        if self.daemon.poll() is None:
            self.daemon.kill()
        # One that was just asking its own mount for the first time waits for its own answer, and no
        # signal ends that: its connection has to.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.daemon.wait(5)
        if self.daemon.poll() is None:
            self.abort()
        self._reap()
        self._detach()
        if self in _mounts:
            _mounts.remove(self)

    def _reap(self):
        try:
            return self.daemon.wait(DAEMON_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.abort()
            self.daemon.wait(DAEMON_TIMEOUT)
            raise AssertionError(
                f"tinydeltafs did not end within {DAEMON_TIMEOUT} s; log:\n{self.log()}"
            ) from None

    def _detach(self):
        if _private:
            _libc.umount2(os.fsencode(self.point), _MNT_DETACH)
        elif proc.mountinfo(self.point):
            run(["fusermount3", "-u", "-z", str(self.point)])

    def unmount(self):
        """Unmounts, waits for the daemon, demands status 0 and a log without surprises. Returns
        the log."""
        argv = ["umount"] if _private else ["fusermount3", "-u"]
        result = run([*argv, str(self.point)])
        # In the foreground the daemon may look at its own mount just now, for the first time; and
        # whoever was killed is not gone before the kernel has closed its files.
        deadline = time.monotonic() + SOON
        while b"busy" in result.err and time.monotonic() < deadline:
            time.sleep(0.01)
            result = run([*argv, str(self.point)])
        if result.status != 0:
            users = proc.users_of(self.point)
            self.kill()
            raise AssertionError(f"{result}\nused by: {users}\nlog:\n{self.log()}")
        return self.finish()

    def unmount_lazily(self):
        """Takes the mount away; the daemon serves until the last file is closed."""
        # So says libfuse, where the connection is cut under the last request.
        self.allow_log(r"^fuse: reading device: Software caused connection abort$")
        self.case.ok(["umount", "-l", self.point])

    def finish(self):
        """As unmount(), for a test that has ended the mount itself (umount, SIGTERM)."""
        try:
            status = self._reap()
        finally:
            self._detach()
            if self in _mounts:
                _mounts.remove(self)
        log = self.log()
        self.case.assertEqual(status, 0, f"status of tinydeltafs; log:\n{log}")
        for pattern in self.expected:
            self.case.assertRegex(log, pattern, "expected in the log")
        surprises = [
            line for line in log.splitlines() if not any(re.search(p, line) for p in self.allowed)
        ]
        if "-d" not in self.arguments and "debug" not in self.options:
            self.case.assertEqual(surprises, [], "the daemon's log has surprises")
        return log

    def __enter__(self):
        return self.start() if self.daemon is None else self

    def __exit__(self, kind, value, trace):
        if self not in _mounts:
            return
        if kind is None:
            self.unmount()
        else:
            self.kill()
            with contextlib.suppress(Exception):
                value.args = (f"{value}\nlog of tinydeltafs:\n{self.log()[-8000:]}",)


# ---- Test cases ---------------------------------------------------------------------------------


def rows_text(rows):
    """Bytes of JSON lines from bytes, str, or a list of objects."""
    if isinstance(rows, bytes):
        return rows
    if isinstance(rows, str):
        return rows.encode()
    return "".join(
        json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in rows
    ).encode()


class TestCase(unittest.TestCase):
    """A test with a scratch directory of its own (self.scratch) that is gone afterwards."""

    needs_fuse = False  # set it in a class all of whose tests mount
    maxDiff = 4000

    def setUp(self):
        base = os.environ.get("TDL_TEST_TMP") or tempfile.gettempdir()
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="tdl-", dir=base)).resolve()
        self.scratch.chmod(0o755)
        self.addCleanup(self._remove_scratch)
        self.addCleanup(self._end_mounts)
        watchdog = threading.Timer(TEST_TIMEOUT, abort_mounts)
        watchdog.daemon = True
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        self._count = 0
        if self.needs_fuse:
            self.require_fuse()

    def _end_mounts(self):
        for mount in list(_mounts):
            mount.kill()

    def _remove_scratch(self):
        def retry(function, path, _):
            # Tests take permissions away; an ordinary user needs them back to clear up. What the
            # scratch directory lies in is not ours.
            with contextlib.suppress(OSError):
                if os.fspath(path) != str(self.scratch):
                    os.chmod(os.path.dirname(path), stat.S_IRWXU)
                os.chmod(path, stat.S_IRWXU)
                function(path)

        shutil.rmtree(self.scratch, onerror=retry)

    def require_fuse(self):
        """Skips the test where nothing can be mounted; in CI that is a failure."""
        reason = why_no_fuse()
        if reason and CI:
            self.fail(f"FUSE is not usable: {reason}")
        if reason:
            self.skipTest(f"FUSE is not usable: {reason}")

    def require_root(self):
        if os.geteuid() != 0:
            if CI:
                self.fail("needs root")
            self.skipTest("needs root")

    def require_tool(self, name):
        """The path of a program that not every machine has; in CI all are there."""
        path = shutil.which(name)
        if not path:
            if CI:
                self.fail(f"{name} is not installed")
            self.skipTest(f"{name} is not installed")
        return path

    # -- commands --

    def ok(self, argv, **how):
        """Runs a command that must end with status 0; returns its Result."""
        result = run(argv, **how)
        self.assertEqual(result.status, 0, str(result))
        return result

    def fails(self, argv, status=1, **how):
        """Runs a command that must end with `status` (None: anything but 0); returns its Result."""
        result = run(argv, **how)
        if status is None:
            self.assertNotEqual(result.status, 0, str(result))
        else:
            self.assertEqual(result.status, status, str(result))
        return result

    def sh(self, script, *args, **how):
        """Runs a bash script that must succeed, with args as $1, $2 ...; returns its Result."""
        return self.ok(["bash", "-c", script, "bash", *map(str, args)], **how)

    def tinydelta(self, *args, **how):
        """Runs `tinydelta args...`, which must succeed; returns its Result."""
        return self.ok([program("tinydelta"), *map(str, args)], **how)

    def tinydelta_fails(self, *args, status=1, **how):
        """Runs `tinydelta args...`, which must be refused: one line "error: ..." for status 1."""
        result = self.fails([program("tinydelta"), *map(str, args)], status=status, **how)
        if status == 1:
            self.assertRegex(result.error, r"\Aerror: [^\n]+\n\Z", str(result))
        return result

    def state(self):
        """What is worth knowing where a wait was in vain."""
        return ""

    def wait_for(self, condition, what, seconds=SOON):
        """For what happens behind the backs of those who caused it."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"{what}: not within {seconds} s; {self.state()}")
            time.sleep(0.005)

    # -- tables --

    def path(self, name=None):
        """A path in the scratch directory that does not exist yet."""
        if name is None:
            self._count += 1
            name = f"p{self._count}"
        return self.scratch / name

    def file(self, content, name=None):
        """A file in the scratch directory with these rows, bytes or text."""
        path = self.path(name)
        path.write_bytes(rows_text(content))
        return path

    def table(self, *columns, rows=None, name=None):
        """A new table, by default with the one column id:int; rows, where given, are version 1."""
        path = self.path(name)
        self.tinydelta("create", path, *(columns or ("id:int",)))
        if rows is not None:
            self.append(path, rows)
        return path

    def append(self, table, rows):
        """Appends rows with the command; returns the version made."""
        said = self.tinydelta("append", table, "--file", self.file(rows)).text
        return int(said.rsplit(" ", 1)[1])

    def versions(self, table):
        """The version numbers in the log, ascending."""
        return sorted(
            int(name[:20])
            for name in os.listdir(pathlib.Path(table, "_delta_log"))
            if re.fullmatch(r"[0-9]{20}\.json", name)
        )

    def commit(self, table, version):
        """The actions of one commit, as objects."""
        path = pathlib.Path(table, "_delta_log", f"{version:020d}.json")
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]

    def data(self, table, version):
        """The bytes of a version, worked out from the log in Python, independent of the library."""
        live = {}
        for number in range(version + 1):
            for action in self.commit(table, number):
                if "add" in action:
                    live[action["add"]["path"]] = True
                elif "remove" in action:
                    live.pop(action["remove"]["path"], None)
        whole = b""
        for path in live:
            part = pathlib.Path(table, path).read_bytes()
            whole += part if not part or part.endswith(b"\n") else part + b"\n"
        return whole

    def mount(self, table, point=None, options=(), arguments=(), **how):
        """A Mount for `with`; point is a new directory unless given."""
        self.require_fuse()
        return Mount(self, table, point or self.path(), options, arguments, **how)

    # -- golden data --

    def golden(self, name):
        """A copy, in the scratch directory, of a table that the Python package wrote."""
        path = self.path()
        shutil.copytree(DATA / "tables" / name, path)
        return path

    @staticmethod
    def golden_names():
        return sorted(os.listdir(DATA / "tables"))

    @staticmethod
    def expected(table, name):
        """What the Python package printed: ("orders", "v1.jsonl"), "history.txt", ..."""
        return (DATA / "expected" / table / name).read_bytes()

    @staticmethod
    def golden_versions(table):
        """How many versions a golden table has: 0 to this less one."""
        return len(list((DATA / "expected" / table).glob("v*.jsonl")))
