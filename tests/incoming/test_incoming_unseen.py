# SPDX-License-Identifier: MIT
"""Daemons that are not shown the descriptors of all writers: what tinydeltafs(1) says holds then."""

import os
import shutil
import signal
import subprocess
import sys

import harness
from dropping import DropCase
from harness import TestCase
from users import NOBODY, UserCase

WRITER = 64001
HIDDEN = "writers of other users cannot be watched: run as root with CAP_SYS_PTRACE"


class Unseen(DropCase):
    """A root that has given up the right to look into others."""

    options = ("allow_other",)
    wrapper = ("setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace")
    says = HIDDEN
    table_user = 0
    numbered = True  # requests tell which process they are from

    def setUp(self):
        self.prepare()
        super().setUp()
        self.mnt.expect_log(self.says)

    def prepare(self):
        pass

    def start(self, **how):
        self.require_root()
        self.require_tool("setpriv")
        for top, _, names in os.walk(self.root):
            os.chmod(top, 0o777)
            for name in (top, *(os.path.join(top, n) for n in names)):
                os.chown(name, self.table_user, self.table_user)
        super().start(**{"wrapper": self.wrapper, **how})

    def as_writer(self, script, status=0):
        result = self.drop(script, user=WRITER)
        self.assertEqual(result.status, status, str(result))
        return result

    def refused(self, script):
        with self.grows(0, 0):
            self.assertNotEqual(self.drop(script, user=WRITER).status, 0)
        self.assertIn("x.error", self.mnt.names("incoming"))
        self.drop("rm $I/x")

    def test_who_opens_and_closes_is_told(self):
        self.mnt.allow_log("incoming/x")
        with self.grows(3, 7):
            self.as_writer("cp $S/s3 $I/x")
            self.as_writer("cat $S/s1 > $I/y")
            self.as_writer("tee $I/z < $S/s3 > /dev/null")
        self.assertListed()
        self.refused("cp $S/bad $I/x")
        self.refused("cat $S/bad > $I/x")
        self.assertListed()

    GROUPS = (
        "(cat $S/s1; cat $S/s1; cat $S/s1) > $I/x",
        "{ cat $S/s1; cat $S/s1; cat $S/s1; } > $I/x",
        "(cat $S/s1; (cat $S/s1); sh -c 'cat $S/s1') > $I/x",
    )
    USED_BY_OTHERS = "exec 3> $I/x; cat $S/s1 >&3; cat $S/s1 >&3; cat $S/s1 >&3; exec 3>&-"

    def test_a_group_is_one_commit(self):
        for script in (*self.GROUPS, *([self.USED_BY_OTHERS] if self.numbered else [])):
            with self.subTest(script=script):
                with self.grows(1, 3):
                    self.as_writer(script)
                self.assertListed()

    def test_a_group_in_the_middle_of_rows(self):
        with self.grows(1, 1):
            self.file(b":", "colon")
            self.as_writer("(printf '{\"i\"'; cat $S/colon; printf '1}\\n') > $I/x")

    def test_a_script_that_ends_with_the_file_open(self):
        script = "/usr/bin/python3 -c 'import os; os.write(1, b\"{\\\"i\\\":1}\\n\")' > $I/x"
        with self.grows(1, 1):
            self.as_writer(script)
        with self.grows(1, 1):
            self.as_writer("exec 3> $I/x; cat $S/s1 >&3; exit 0")

    def test_the_parent_closes_after_its_child(self):
        script = (
            "/usr/bin/python3 -c '\n"
            "import os, subprocess\n"
            "f = open(os.environ[\"I\"] + \"/x\", \"wb\", buffering=0); f.write(b\"{\\\"i\\\":1}\\n\")\n"
            "subprocess.run([\"cat\", os.environ[\"S\"] + \"/s1\"], stdout=f, check=True)\n"
            "assert os.listdir(os.environ[\"I\"]) == [\"x\"]\n"
            "f.close()\n'"
        )
        with self.grows(1, 2):
            self.as_writer(script)
        self.assertListed()

    def test_killed_writers(self):
        self.mnt.allow_log("incoming/x: incomplete: (how )?its writer")
        for number in (9, 15, 2, 13, 1, signal.SIGABRT, signal.SIGSEGV):
            for threads in (0, 3):
                script = (
                    "/usr/bin/python3 -c '\n"
                    "import os, signal, threading, time\n"
                    f"signal.signal({int(number)}, signal.SIG_DFL) if {int(number)} != 9 else None\n"
                    "f = os.open(os.environ[\"I\"] + \"/x\", os.O_CREAT | os.O_WRONLY)\n"
                    "os.write(f, b\"{\\\"i\\\":1}\\n\")\n"
                    f"for _ in range({threads}): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
                    f"os.kill(os.getpid(), {int(number)})'"
                )  # fmt: skip
                with self.subTest(signal=number, threads=threads), self.grows(0, 0):
                    self.as_writer("exec " + script, status=-number)
                    self.wait_for(lambda: "x.error" in self.mnt.names("incoming"), "x.error")
                    self.drop("rm $I/x")

    def test_ended_by_exit_with_threads(self):
        script = (
            "/usr/bin/python3 -c '\n"
            "import os, threading, time\n"
            "f = os.open(os.environ[\"I\"] + \"/x\", os.O_CREAT | os.O_WRONLY)\n"
            "os.write(f, b\"{\\\"i\\\":1}\\n\")\n"
            "for _ in range(3): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
            "os._exit(0)'"
        )
        for n in range(3):
            self.as_writer(script)
            self.commits_soon(n + 1, n + 1)

    def test_a_temporary_file_that_is_renamed(self):
        with self.grows(2, 6):
            self.as_writer("cp $S/s3 $I/x.tmp; mv $I/x.tmp $I/x")
            self.as_writer("cp $S/s3 $I/.y; mv $I/.y $I/y")
        self.assertListed()


# Opens a file, leaves it to an orphan, which waits a little, writes and closes; says what close said.
ORPHANS = """
import os, sys, time
limit, wait, end = int(sys.argv[1]), float(sys.argv[2]), time.monotonic() + float(sys.argv[3])
done = 0
while done < limit and (done == 0 or time.monotonic() < end):
    there, here = os.pipe()
    if os.fork() == 0:
        f = os.open(os.environ["I"] + f"/o{done}", os.O_CREAT | os.O_WRONLY)
        opener = os.getpid()
        if os.fork() > 0:
            os._exit(0)
        while os.getppid() == opener:
            time.sleep(.001)
        time.sleep(wait)
        os.write(f, b'{"i":1}\\n')
        try:
            os.close(f)
            os.write(here, b"0")
        except OSError as error:
            os.write(here, str(error).encode())
        os._exit(0)
    os.close(here)
    os.wait()
    said = os.read(there, 99)
    os.close(there)
    assert said == b"0", (done, said)
    done += 1
print(done)
"""


class OwnDaemon:
    """The daemon of somebody who lets others in."""

    table_user = NOBODY
    copied = None  # what is built may be closed to others

    def start(self, **how):
        self.require_root()
        configuration = self.path("fuse.conf")
        if not configuration.exists():
            configuration.write_text("user_allow_other\n")
            self.ok(["mount", "--bind", configuration, "/etc/fuse.conf"])
            self.addCleanup(harness.run, ["umount", "-l", "/etc/fuse.conf"])
            UserCase.open_device(self)
            self.copied = shutil.copy(harness.program("tinydeltafs"), self.scratch)
            folder = self.path("point")
            folder.mkdir()
            os.chown(folder, self.table_user, self.table_user)
        for top, _, names in os.walk(self.root):
            os.chmod(top, 0o777)
            for name in (top, *(os.path.join(top, n) for n in names)):
                os.chown(name, self.table_user, self.table_user)
        self.mnt = self.mount(self.root, self.path("point"), options=self.options, user=self.table_user)
        self.mnt.program = self.copied
        self.mnt.start()
        self.inc = self.mnt / "incoming"
        self.env = {"M": str(self.mnt), "I": str(self.inc), "S": str(self.scratch)}


class OrdinaryUser(OwnDaemon, Unseen):
    wrapper = ()

    def test_its_own_drops_are_watched(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); g = os.dup(f); os.write(f, d); os.close(f)\n"
            "assert os.listdir(I) == ['a']; os.close(g); assert os.listdir(I) == []"
        )
        self.python_gives(1, 1, script, user=NOBODY)


class OlderOnes(OwnDaemon, DropCase):
    """A process of the same user that nobody may look into, as ssh-agent is, and that was there
    before the file: it cannot have inherited it, and decides nothing."""

    options = ("allow_other",)
    table_user = 64013  # nobody else's

    def setUp(self):
        self.require_root()
        self.addCleanup(harness.run, ["umount", "-l", "/etc/passwd"])
        closed = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print(flush=True); time.sleep(999)"
        agent = subprocess.Popen(
            [sys.executable, "-c", closed], user=self.table_user, group=self.table_user, stdout=subprocess.PIPE
        )
        self.addCleanup(agent.stdout.close)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        agent.stdout.readline()
        super().setUp()
        self.mnt.expect_log(HIDDEN)

    def start(self, **how):
        # fusermount3 serves nobody without a name.
        with open("/etc/passwd", "rb") as known:
            names = self.file(known.read() + b"tdl-older:x:%d:%d::/:/bin/sh\n" % (self.table_user, self.table_user), "passwd")
        self.ok(["mount", "--bind", names, "/etc/passwd"])
        super().start(**how)

    def orphans(self, limit, wait, seconds):
        before = self.rows()
        result = self.drop(sys.executable, "-c", ORPHANS, str(limit), str(wait), str(seconds), user=self.table_user)
        self.assertEqual(result.status, 0, str(result))
        self.assertEqual(self.rows() - before, int(result.out))
        self.assertEqual(self.mnt.names("incoming"), [])
        return int(result.out)

    def test_a_file_that_is_long_in_the_making(self):
        self.orphans(1, 2.5, 0)

    def test_a_busy_machine(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
        try:
            self.orphans(300, 0, 8)
        finally:
            for one in busy:
                one.kill()
                one.wait()


class Hidepid(Unseen):
    """Not even that there are other processes is shown."""

    def prepare(self):
        self.require_root()
        self.ok(["mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"])
        self.addCleanup(harness.run, ["umount", "-l", "/proc"])

    test_killed_writers = None  # how a process ended is not to be seen then


class OtherProc(Unseen):
    """In a process namespace of its own, with the /proc of another one, which tells it nothing."""

    wrapper = ("unshare", "--pid", "--fork", "--kill-child")
    says = "writers cannot be watched: /proc is not that of this process"
    numbered = False

    test_killed_writers = None

    def test_the_opener_lets_others_use_it_first(self):
        """Nothing tells them from the opener, so when each is finished is not to be known: more
        commits than one, perhaps, and no row less."""
        self.as_writer(self.USED_BY_OTHERS)
        self.wait_for(lambda: self.rows() == 3, "three rows")
        self.assertLessEqual(len(self.versions(self.root)) - 1, 3)
        self.wait_for(lambda: not self.mnt.names("incoming"), "nothing that waits")


class Container(TestCase):
    """Daemon and writers in a process namespace with its own /proc: all is as without one."""

    needs_fuse = True

    def test_what_is_seen_there(self):
        self.require_root()
        script = r"""
        set -e
        cd "$1"
        "$2" table mnt
        [ "$(ps -e | wc -l)" -lt 20 ]
        (cat s1; sleep .1; sh -c "cat s1") > mnt/incoming/group
        [ "$(ls mnt | grep -c '^v')" = 2 ]
        ! cp bad mnt/incoming/bad 2> bad.err
        grep -q "Invalid argument" bad.err
        sh -c 'exec 3> mnt/incoming/killed; cat s1 >&3; kill -9 $$' || true
        ls mnt/incoming | tr '\n' ' '
        grep -q "was killed by signal 9" mnt/incoming/killed.error
        python3 -c 'import os; f = os.open("mnt/incoming/held", os.O_CREAT | os.O_WRONLY); os.write(f, b"{\"i\":1}\n")
g = os.dup(f); os.close(f); assert "held" in os.listdir("mnt/incoming"); os.close(g)
assert "held" not in os.listdir("mnt/incoming")'
        umount mnt
        """
        for name, text in (("s1", b'{"i":1}\n'), ("bad", b'{"i":"x"}\n')):
            self.file(text, name)
        self.table("i:int", name="table")
        self.path("mnt").mkdir()
        said = self.ok([
            "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script,
            "sh", self.scratch, harness.program("tinydeltafs"),
        ]).text.split()  # fmt: skip
        self.assertEqual(said, ["bad", "bad.error", "killed", "killed.error"])
        self.assertEqual(self.versions(self.scratch / "table"), [0, 1, 2])
