# SPDX-License-Identifier: MIT
"""Closes beside processes that stand in the way of a scan: a close that returns 0 has committed, bad
rows are refused, groups are one commit and the killed commit nothing, whatever others do."""

import contextlib
import errno
import os
import pathlib
import resource
import signal
import subprocess
import time

import harness
from dropping import DropCase

OWNER, ATTACKER = 64001, 64002
BOUND = 30  # seconds for one close, on a machine that is busy

PREAMBLE = """
import ctypes, os, resource, select, signal, subprocess, sys, threading, time
I = os.environ['I']
ROW, BAD = b'{"i":1}\\n', b'{"i":1}\\n{"i":"x"}\\n'
def drop(name, rows):
    f = os.open(I + '/' + name, os.O_CREAT | os.O_WRONLY); os.write(f, rows)
    try: os.close(f)
    except OSError as e: return e.errno
    return 0
def many(n):
    resource.setrlimit(resource.RLIMIT_NOFILE, (n + 100, n + 100))
    null = os.open('/dev/null', os.O_RDONLY)
    for _ in range(n): os.dup(null)
"""

# Waits in epoll_ctl() for as long as the poll has no answer, with the epoll's lock held.
STUCK = """
f = os.open(os.environ['F'], os.O_RDWR); e = select.epoll()
threading.Thread(target=lambda: e.register(f, select.EPOLLIN), daemon=True).start()
"""


class Hostile(DropCase):
    options = ("allow_other",)

    def setUp(self):
        super().setUp()
        self.require_root()  # to become two others
        self.mnt.unmount()
        os.chmod(self.root, 0o777)
        for name in ("_delta_log", "_incoming"):
            if (self.root / name).exists():
                os.chmod(self.root / name, 0o777)
        self.start()
        self.mnt.allow_log("incoming/")
        self.children = []
        self.addCleanup(self.end_children)

    def end_children(self):
        """And theirs: all that is in their sessions."""
        sessions = {child.pid for child in self.children}
        deadline = time.monotonic() + BOUND
        while sessions and time.monotonic() < deadline:
            living = self.living(sessions)
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not living:
                break
            time.sleep(0.02)
        for child in self.children:
            child.wait()
        self.children.clear()

    @staticmethod
    def living(sessions):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, IndexError):
                words = path.read_text().rsplit(")", 1)[1].split()
                if int(words[3]) in sessions and words[0] not in "ZX":
                    found.append(int(path.parent.name))
        return found

    def begin(self, script, user, **env):
        """A process that goes on until the test ends; returns the line that it has printed, or
        b"ready". Who waits for a poll cannot even be killed before that has ended."""
        child = subprocess.Popen(
            ["/usr/bin/python3", "-c", PREAMBLE + script + "\nprint('ready', flush=True); signal.pause()"],
            env={**os.environ, **self.env, **env}, user=user, group=user, extra_groups=[],
            stdout=subprocess.PIPE, preexec_fn=harness._die_with_parent, start_new_session=True,
        )  # fmt: skip
        self.children.append(child)
        self.addCleanup(child.stdout.close)
        return child.stdout.readline().strip()

    def ask(self, script, user=OWNER, status=0, **how):
        began = time.monotonic()
        result = harness.run(
            ["/usr/bin/python3", "-c", PREAMBLE + script], env={**self.env, **how.pop("env", {})}, user=user
        )
        self.assertEqual(result.status, status, str(result))
        self.assertLess(time.monotonic() - began, how.pop("bound", BOUND))
        return result.text.strip()

    def all_is_right(self, user=OWNER):
        """What the contract says, of each kind of close, right now."""
        for n in range(3):
            with self.grows(0, 0):
                self.assertEqual(self.ask("print(drop('bad', BAD))", user), "22")
            self.drop("rm $I/bad")
        for n in range(3):
            with self.grows(1, 1):
                self.assertEqual(self.ask("print(drop('good', ROW))", user), "0")
        with self.grows(1, 2):
            result = self.drop("(cat $S/s1; sleep .1; cat $S/s1) > $I/group", user=user)
            self.assertEqual(result.status, 0, str(result))
        with self.grows(0, 0):
            self.ask(
                "f = os.open(I + '/killed', os.O_CREAT | os.O_WRONLY); os.write(f, ROW); os.kill(os.getpid(), 9)",
                user, status=-9,
            )  # fmt: skip
        self.assertIn("killed.error", self.mnt.names("incoming"))
        self.drop("rm $I/killed")
        self.assertListed()

    @contextlib.contextmanager
    def stuck_polls(self):
        """A FUSE mount whose polls are never answered; gives a function that waits for the next."""
        point = self.path("stuck")
        point.mkdir()
        child = subprocess.Popen(
            [harness.build_root() / "tests/incoming/stuck_poll", point], stdout=subprocess.PIPE
        )
        try:
            self.assertEqual(child.stdout.readline(), b"mounted\n")
            self.env["F"] = str(point / "f")

            def polled():
                self.assertEqual(child.stdout.readline(), b"polled\n")

            yield polled
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            self.ok(["umount", "-l", point])

    def test_processes_that_swallow_scans(self):
        """They may write here, and do: each of their own closes is refused or committed."""
        with self.stuck_polls() as polled:
            for n in range(12):
                told = self.begin(f"{STUCK}time.sleep(.2); print(drop('evil{n}', ROW), flush=True)", ATTACKER)
                polled()
                self.assertEqual(told, b"11", "EAGAIN: it cannot be seen who has it")
            self.assertEqual(self.versions(self.root), [0])
            self.drop("rm $I/evil*")
            self.all_is_right()
            self.all_is_right(0)
        self.end_children()
        self.all_is_right()

    def test_strangers_that_swallow_scans(self):
        """They have no access; but where a writer ends with the file open, everybody is scanned."""
        leave = (
            "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
            "f = os.open(I + '/thr', os.O_CREAT | os.O_WRONLY); os.write(f, ROW); os._exit(0)"
        )
        with self.stuck_polls() as polled:
            for _ in range(12):
                self.begin(STUCK, ATTACKER)
                polled()
            for _ in range(12):
                with self.grows(1, 1):
                    self.ask(leave)
            self.all_is_right()

    def test_an_orphan_among_strangers_that_swallow(self):
        with self.stuck_polls() as polled:
            for _ in range(4):
                self.begin(STUCK, ATTACKER)
                polled()
            script = (
                "if os.fork() == 0:\n"
                "    f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, ROW)\n"
                "    if os.fork() == 0:\n"
                "        time.sleep(1); os.write(f, ROW); os._exit(0)\n"
                "    os._exit(0)\n"
                "os.wait(); assert os.listdir(I) == ['a'], os.listdir(I); os._exit(0)"
            )
            self.ask(script)
            self.commits_soon(1, 2)

    def test_a_child_that_swallows(self):
        """Whether the writer's own child still has the file, nobody can say: then it is said."""
        with self.stuck_polls() as polled:
            script = (
                "r, w = os.pipe(); f = os.open(I + '/mine', os.O_CREAT | os.O_WRONLY); os.write(f, ROW)\n"
                "if os.fork() == 0:\n" + "".join(f"    {line}\n" for line in STUCK.strip().split("\n")) +
                "    time.sleep(.2); os.write(w, b'x'); signal.pause()\n"
                "os.read(r, 1)\n"
                "try: os.close(f)\n"
                "except OSError as e: print(e.errno, flush=True)\n"
                "else: print(0, flush=True)\n"
                "os.killpg(0, 9)"
            )  # fmt: skip
            with self.grows(0, 0):
                self.assertEqual(self.begin(script, OWNER), b"11")
                polled()
            self.assertListed("mine", "mine.error")
            self.assertRegex(self.mnt.read("incoming/mine.error"), rb"process \d+ \(python3\) still has it")
            # Its own close, when it ends, changes nothing.
        self.end_children()
        self.assertListed("mine", "mine.error")
        self.gives(1, 1, "mv $I/mine $I/again")

    def test_a_closer_with_very_many_descriptors(self):
        script = "many(19000); print(drop('big', %s))"
        with self.grows(0, 0):
            self.assertEqual(self.ask(script % "BAD", 0), "22")
            self.drop("rm $I/big")
        with self.grows(1, 1):
            self.assertEqual(self.ask(script % "ROW", 0), "0")

    def test_a_closer_with_very_many_children(self):
        script = (
            "many(3000)\nfor _ in range(60):\n    if os.fork() == 0: signal.pause(); os._exit(0)\n"
            "print(drop('a', %s), flush=True); signal.signal(15, signal.SIG_IGN); os.killpg(0, 15)"
        )
        with self.grows(0, 0):
            self.assertEqual(self.ask(script % "BAD", 0, bound=120), "22")
            self.drop("rm $I/a")
        with self.grows(1, 1):
            self.assertEqual(self.ask(script % "ROW", 0, bound=120), "0")

    def test_a_crowd_of_another_user(self):
        """Drops beside them are as right, and not kept waiting by theirs."""
        crowd = (
            "many(5000)\ndef forever():\n    while True:\n"
            "        try: drop(f'big{os.getpid()}', ROW)\n        except OSError: return\n"
            "threading.Thread(target=forever, daemon=True).start()"
        )
        for _ in range(24):
            self.begin(crowd, ATTACKER)
        for n in range(3):
            self.assertEqual(self.ask(f"print(drop('bad{n}', BAD))"), "22")
            result = self.drop(f"(cat $S/s1; cat $S/s1) > $I/group{n}", user=OWNER)
            self.assertEqual(result.status, 0, str(result))
            self.assertNotIn(f"group{n}", self.mnt.names("incoming"))
        self.end_children()


class Shares(Hostile):
    """What one user may have of what all share; the daemon has few descriptors."""

    LIMIT = 400

    def start(self, **how):
        super().start(wrapper=["prlimit", f"--nofile={self.LIMIT}"], **how)

    def test_open_files(self):
        script = (
            "held = []\n"
            "try:\n"
            "    for n in range(2000): held.append(os.open(I + f'/.open{n}', os.O_CREAT | os.O_WRONLY))\n"
            "except OSError as e: print(e.errno, len(held), flush=True)"
        )
        told = self.begin(script, ATTACKER).split()
        self.assertEqual(told, [str(errno.EMFILE).encode(), str(self.LIMIT // 4).encode()])
        self.mnt.expect_log(f"user {ATTACKER} has opened files in incoming/ {self.LIMIT // 4} times at once")
        for rows, answer, commits in (("BAD", "22", 0), ("ROW", "0", 1)):
            with self.grows(commits, commits):
                self.assertEqual(self.ask(f"print(drop('owners{answer}', {rows}))", OWNER), answer)
        self.end_children()
        self.drop("rm -f $I/.open* $I/owners*")
        self.all_is_right(ATTACKER)

    def test_log_lines(self):
        """Whoever drops bad files all the time is told of every one, the log of a hundred a minute."""
        script = "for n in range(150): print(drop(f'bad{n}', BAD), len(open(I + f'/bad{n}.error').read()) > 9)"
        self.assertEqual(set(self.ask(script, ATTACKER).splitlines()), {"22 True"})
        self.assertEqual(self.ask("print(drop('owners', BAD))", OWNER), "22")
        self.wait_for(lambda: "incoming/owners" in self.mnt.log(), "the owner's line")
        lines = [line for line in self.mnt.log().splitlines() if "incoming/bad" in line]
        self.assertEqual(len(lines), 100)
        self.mnt.expect_log(f"100 messages because of user {ATTACKER} within a minute")
        self.mnt.expect_log(f"50 more messages because of user {ATTACKER} were left out")
        self.drop("rm $I/*")


for inherited in dir(Hostile):
    if inherited.startswith("test_"):
        setattr(Shares, inherited, None)


class FewDescriptors(DropCase):
    def limit(self, left):
        pid = self.mnt.pid
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        limit = len(os.listdir(f"/proc/{pid}/fd")) + left
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))

    def few(self, command):
        """With n descriptors left it is one commit of two rows, or none and an error."""
        self.require_root()
        self.mnt.allow_log("")
        hard = resource.prlimit(self.mnt.pid, resource.RLIMIT_NOFILE)[1]
        commits = 0
        for left in range(12):
            with self.subTest(left=left):
                versions, rows = len(self.versions(self.root)), self.rows()
                self.limit(left)
                status = command().status
                resource.prlimit(self.mnt.pid, resource.RLIMIT_NOFILE, (hard, hard))
                versions, rows = len(self.versions(self.root)) - versions, self.rows() - rows
                self.assertIn((versions, rows), ((0, 0), (1, 2)))
                commits += versions
                if versions == 0:
                    self.assertTrue(status != 0 or self.mnt.names("incoming"), "it is told")
                self.drop("rm -f $I/x")
        self.assertGreater(commits, 0)

    def test_a_group_is_one_commit(self):
        """To see who has a file takes none of the daemon's descriptors."""
        self.few(lambda: self.drop("(cat $S/s1; sleep .1; cat $S/s1) > $I/x"))


class OwnTables(DropCase):
    """A thread with a table of descriptors of its own."""

    script = (
        "libc = __import__('ctypes').CDLL(None)\n"
        "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d[:%d])\n"
        "ready, go = threading.Event(), threading.Event()\n"
        "def work():\n"
        "    assert libc.unshare(0x400) == 0; ready.set(); go.wait()\n"
        "    os.write(f, d[%d:] + d); os.close(f)\n"
        "t = threading.Thread(target=work, daemon=True); t.start(); ready.wait()\n"
        "os.close(f); assert os.listdir(I) == ['a'], os.listdir(I)\n"
        "go.set(); t.join(); assert os.listdir(I) == []"
    )

    def test_the_other_closes_between_rows(self):
        self.python_gives(1, 2, self.script % (8, 8))

    def test_the_other_closes_in_the_middle_of_a_row(self):
        self.python_gives(1, 2, self.script % (3, 3))

    def test_among_many_threads(self):
        crowd = "for _ in range(60): threading.Thread(target=time.sleep, args=(20,), daemon=True).start()\n"
        self.python_gives(1, 2, crowd + self.script % (3, 3) + "\nos._exit(0)")
