# SPDX-License-Identifier: MIT
"""Writers stopped and held up: kill -9 at every system call by which a commit touches the table.

strace first records the calls of an undisturbed run, and then stops one run after the other at
the next of them, before it is carried out. What must hold each time: the table has version N or
N+1, whole; earlier versions are what they were; what was acknowledged is there; vacuum names and
removes what is left over; the next commit works.
"""

import collections
import os
import re
import shutil
import signal
import subprocess

import harness
from harness import TestCase
from reference import Reference

CALLS = (
    "openat,openat2,mkdir,mkdirat,write,pwrite64,writev,pwritev,copy_file_range,ftruncate,fsync,"
    "fdatasync,link,linkat,rename,renameat,renameat2,unlink,unlinkat,rmdir,flock,fchmod,fchmodat,"
    "fchown,fchownat,close"
)
LINE = re.compile(r"(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)")
ROWS = b'{"id":7}\n{"id":8}\n'


class Stopped(TestCase):
    """A table to stop writers on, and what must hold of it afterwards."""

    def setUp(self):
        super().setUp()
        self.require_tool("strace")
        self.template = self.table(rows=[{"id": 1}], name="template")
        self.append(self.template, [{"id": 2}])
        self.rows = self.file(ROWS, "rows.jsonl")
        self.head = 2
        self.before = [Reference(self.template).read(v) for v in range(self.head + 1)]
        probe = harness.run(["strace", "-o", "/dev/null", "true"])
        if probe.status != 0:
            self.fail(f"strace does not work: {probe}")

    def fresh(self):
        shutil.rmtree(self.scratch / "t", ignore_errors=True)
        shutil.copytree(self.template, self.scratch / "t")
        return self.scratch / "t"

    def calls(self, argv):
        """(name, how many of that name before and with it) of the calls on the table."""
        log = self.path("trace")
        self.ok(["strace", "-y", "-s", "256", "-o", log, "-e", f"trace={CALLS}", *argv])
        counts, found = collections.Counter(), []
        for line in log.read_text(errors="replace").splitlines():
            match = LINE.match(line)
            if not match:
                continue
            counts[match[1]] += 1
            if str(self.scratch / "t") in match[2]:
                found.append((match[1], counts[match[1]]))
        return found

    def age(self, table):
        """Makes every file of a table as old as it is to a vacuum of a later day."""
        for folder, _, names in os.walk(table):
            for name in names:
                os.utime(os.path.join(folder, name), (1, 1))

    def check(self, table, new, acknowledged, about):
        """The demands; `new` is the content of the version that the stopped run was to make."""
        other = Reference(table)
        versions = other.versions()
        self.assertIn(len(versions), (self.head + 1, self.head + 2), about)
        self.assertEqual(versions, list(range(len(versions))), about)
        if acknowledged:
            self.assertEqual(len(versions), self.head + 2, about)
        for version, content in enumerate([*self.before, new][: len(versions)]):
            self.assertEqual(other.read(version), content, about)
        said = self.tinydelta("read", table).out
        self.assertEqual(said, other.read(versions[-1]), about)
        # What a writer was about to publish is dated ahead, and spared for that time: it comes.
        self.age(table)
        # What is left over is named before it is removed, and all of it goes.
        named = self.tinydelta("vacuum", table, "--dry-run").text.splitlines()
        removed = self.tinydelta("vacuum", table).text.splitlines()
        self.assertEqual(named[1:], removed[1:], about)
        self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n", about)
        live = {a["add"]["path"] for v in versions for a in other.actions(v) if "add" in a}
        self.assertEqual({n for n in os.listdir(table) if n.startswith("part-")}, live, about)
        stray = [n for n in os.listdir(other.log) if n.endswith(".tmp")]
        self.assertEqual(stray, [], about)
        self.assertEqual(self.append(table, b'{"id":99}\n'), len(versions), about)
        self.assertEqual(other.read(len(versions)), other.read(versions[-1]) + b'{"id":99}\n', about)


class Command(Stopped):
    def stop_everywhere(self, new, *arguments):
        argv = [harness.program("tinydelta"), arguments[0], self.scratch / "t", *arguments[1:]]
        self.fresh()
        calls = self.calls(argv)
        self.assertGreater(len(calls), 10)
        names = {name for name, _ in calls}
        self.assertIn("fsync", names)
        for name, count in calls:
            about = f"{arguments[0]} killed at {name} number {count}"
            table = self.fresh()
            result = harness.run(
                ["strace", "-o", "/dev/null", "-e", f"trace={name}"]
                + ["-e", f"inject={name}:signal=KILL:when={count}", *argv]
            )
            self.assertIn(result.status, (0, -signal.SIGKILL, 128 + signal.SIGKILL), about)
            self.check(table, new, b" version " in result.out, about)

    def interrupt_everywhere(self, *arguments):
        """A signal at any moment: what is said is what is, and nothing is left over."""
        table = self.scratch / "t"
        argv = [harness.program("tinydelta"), arguments[0], table, *arguments[1:]]
        make = shutil.rmtree if arguments[0] == "create" else lambda _: self.fresh()
        shutil.rmtree(table, ignore_errors=True)
        self.fresh()
        make(table)
        outcomes = collections.Counter()
        calls = self.calls(argv)
        self.assertGreater(len(calls), 10)
        for turn, (name, count) in enumerate(calls):
            number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[turn % 3]
            if table.exists():
                make(table)
            result = harness.run(
                ["strace", "-o", "/dev/null", "-e", f"trace={name}"]
                + ["-e", f"inject={name}:signal={number.name}:when={count}", *argv]
            )
            about = f"{number.name} at {name} number {count}: {result}"
            self.assertIn(result.status, (0, -number, 128 + number), about)
            committed = table.exists() and len(self.versions(table)) != self.versions_before(arguments[0])
            outcomes[committed] += 1
            if committed:
                self.assertRegex(result.out, rb"\A(\w+ .*version [0-9]+)\n\Z", about)
                self.assertRegex(result.error, r"\A(error: stopped by SIG\w+; already .* version [0-9]+"
                                 r": do not retry\n)?\Z", about)
            else:
                says = f"error: stopped by {number.name}: nothing was committed\n"
                self.assertEqual((result.out, result.error), (b"", says), about)
                self.assertEqual(table.exists(), arguments[0] != "create", about)
            if table.exists():
                self.assertEqual(self.tinydelta("check", table).text, "", about)
        return outcomes

    def versions_before(self, command):
        return 0 if command == "create" else self.head + 1

    def test_interrupted(self):
        for arguments in (
            ("append", "--file", self.rows),
            ("overwrite", "--file", self.rows),
            ("restore", "--version", "1"),
        ):
            outcomes = self.interrupt_everywhere(*arguments)
            self.assertGreater(outcomes[True], 2, "some come after the commit")
            self.assertGreater(outcomes[False], 5, "and some before")
        self.interrupt_everywhere("create", "id:int")

    def test_append(self):
        self.stop_everywhere(self.before[-1] + ROWS, "append", "--file", self.rows)

    def test_overwrite(self):
        self.stop_everywhere(ROWS, "overwrite", "--file", self.rows)

    def test_restore(self):
        self.stop_everywhere(self.before[1], "restore", "--version", "1")

    def test_tag(self):
        """The old tag or the new one, or with a new name none: never half of one."""
        for name, before, more in (("new", None, []), ("old", 1, ["--force"])):
            argv = [harness.program("tinydelta"), "tag", self.scratch / "t", name, "2", *more]
            if before is not None:
                self.tinydelta("tag", self.template, name, str(before))
            self.fresh()
            calls = self.calls(argv)
            self.assertIn("fsync", {call for call, _ in calls})
            for call, count in calls:
                about = f"tag killed at {call} number {count}"
                table = self.fresh()
                result = harness.run(
                    ["strace", "-o", "/dev/null", "-e", f"trace={call}"]
                    + ["-e", f"inject={call}:signal=KILL:when={count}", *argv]
                )
                tags = dict(line.split("  v") for line in self.tinydelta("tags", table).text.splitlines())
                self.assertIn(tags.get(name), ("2",) if result.out else ("2", before and str(before)), about)
                self.check(table, None, False, about)

    def test_vacuum(self):
        # Something to remove: a data file of a writer that lost, a commit that never was.
        stray = self.template / ("part-" + "0" * 32 + ".jsonl")
        stray.write_bytes(ROWS)
        temporary = self.template / "_delta_log" / (f".{9:020d}." + "0" * 32 + ".tmp")
        temporary.write_bytes(b"{}\n")
        argv = [harness.program("tinydelta"), "vacuum", self.scratch / "t"]
        self.fresh()
        for name, count in self.calls(argv):
            table = self.fresh()
            harness.run(
                ["strace", "-o", "/dev/null", "-e", f"trace={name}"]
                + ["-e", f"inject={name}:signal=KILL:when={count}", *argv]
            )
            self.check(table, None, False, f"vacuum killed at {name} number {count}")

    def test_create(self):
        argv = [harness.program("tinydelta"), "create", self.scratch / "t", "id:int"]
        shutil.rmtree(self.scratch / "t", ignore_errors=True)
        for name, count in self.calls(argv):
            about = f"create killed at {name} number {count}"
            shutil.rmtree(self.scratch / "t", ignore_errors=True)
            result = harness.run(
                ["strace", "-o", "/dev/null", "-e", f"trace={name}"]
                + ["-e", f"inject={name}:signal=KILL:when={count}", *argv]
            )
            said = harness.run([harness.program("tinydelta"), "read", self.scratch / "t"])
            if result.out:
                self.assertEqual(said.status, 0, about)
            self.assertEqual(said.out, b"", about)
            if said.status != 0:
                self.assertRegex(said.error, r"\Aerror: [^\n]+\n\Z", about)


class Delayed(Stopped):
    """What another writer does between two steps of a commit."""

    def between(self, name, count, act, *arguments):
        """Runs `tinydelta arguments...`, does act() while its call `count` of `name` is held up,
        and returns the Result. The call is known to be held up when its temporary commit is there."""
        log = self.scratch / "t" / "_delta_log"
        argv = ["strace", "-o", "/dev/null", "-e", f"trace={name}"]
        argv += ["-e", f"inject={name}:delay_enter=1000000:when={count}"]
        argv += [harness.program("tinydelta"), *map(str, arguments)]
        child = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(argv)
        )
        self.addCleanup(child.kill)
        while child.poll() is None and not any(n.endswith(".tmp") for n in os.listdir(log)):
            pass
        act()
        out, err = child.communicate(timeout=harness.SOON)
        return harness.Result(arguments, child.returncode, out, err)

    # The second link is the publish: the part is there, and no commit names it yet.

    def test_a_vacuum_that_knows_no_locks(self):
        table = self.fresh()
        other = Reference(table)
        gone = []
        result = self.between(
            "linkat", 2, lambda: gone.extend(other.vacuum()), "append", table, "--file", self.rows
        )
        self.assertEqual(gone, [], "what is being published is dated ahead")
        self.check(table, self.before[-1] + ROWS, True, str(result))

    def test_a_vacuum_that_heeds_nothing(self):
        table = self.fresh()
        other = Reference(table)
        gone = []
        result = self.between(
            "linkat",
            2,
            lambda: gone.extend(other.vacuum(older_than=-(10**12))),
            *("append", table, "--file", self.rows),
        )
        self.assertEqual(len(gone), 1, "the other took the part away")
        self.assertEqual(result.status, 0, str(result))
        self.check(table, self.before[-1] + ROWS, True, str(result))

    def test_our_own_vacuum_waits(self):
        table = self.fresh()
        said = []
        result = self.between(
            "linkat",
            2,
            lambda: said.append(self.tinydelta("vacuum", table).text),
            *("append", table, "--file", self.rows),
        )
        self.assertEqual(said, ["no orphan files\n"])
        self.check(table, self.before[-1] + ROWS, True, str(result))

    def test_an_append_goes_on_after_a_lost_race(self):
        table = self.fresh()
        other = Reference(table)
        result = self.between(
            *("linkat", 2, lambda: other.append([{"id": 5}])),
            *("append", table, "--file", self.rows),
        )
        self.assertEqual(result.text, f"appended as version {self.head + 2}\n", str(result))
        self.assertEqual(other.read(self.head + 2), self.before[-1] + b'{"id":5}\n' + ROWS)
        info = other.actions(self.head + 2)[0]["commitInfo"]
        self.assertEqual(info["readVersion"], self.head + 1)

    def test_an_overwrite_gives_up_after_a_lost_race(self):
        for arguments in (["overwrite", "--file", self.rows], ["restore", "--version", "1"]):
            table = self.fresh()
            other = Reference(table)
            link = 1 if arguments[0] == "restore" else 2
            result = self.between(
                *("linkat", link, lambda: other.append([{"id": 5}])),
                *(arguments[0], table, *arguments[1:]),
            )
            self.assertEqual(result.status, 1, str(result))
            self.assertIn("another writer committed first", result.error)
            self.assertEqual(other.read(other.head()), self.before[-1] + b'{"id":5}\n')
            parts = [n for n in os.listdir(table) if n.startswith("part-")]
            self.assertEqual(len(parts), 3, "the loser's data file is gone")


class Daemon(Stopped):
    """The same of a drop through a mount: the daemon is stopped inside the commit."""

    DROP_CALLS = (
        *("openat", "openat2", "pwrite64", "write", "fchmod", "fsync", "flock"),
        *("linkat", "renameat2", "unlinkat", "close"),
    )
    MOST = 40  # calls of one name by one thread in a drop

    def drop(self, table, name, count):
        """Drops a file on a daemon that is killed when one of its threads makes call `count` of
        `name`. Returns whether cp said yes, and whether the daemon died."""
        with self.mount(table) as mount:
            tracer = subprocess.Popen(
                ["strace", "-f", "-o", "/dev/null", "-e", f"trace={name}"]
                + ["-e", f"inject={name}:signal=KILL:when={count}", "-p", str(mount.pid)],
                stderr=subprocess.PIPE,
            )
            alive = True
            try:
                self.assertIn(b"attached", tracer.stderr.readline())
                copied = harness.run(["cp", self.rows, mount / "incoming/rows.jsonl"])
                alive = harness.run(["ls", mount]).status == 0
            finally:
                # Told to leave a process that is just dying, strace waits for it for ever; it ends
                # by itself with what it traces.
                if alive:
                    tracer.terminate()
                tracer.communicate(timeout=harness.SOON)
            if not alive:
                mount.kill()
        return copied.status == 0, not alive

    def recover(self, table, about):
        """What a dead daemon left is listed by the next one as incomplete, and can be removed."""
        with self.mount(table) as mnt:
            left = mnt.names("incoming")
            for name in left:
                self.assertIn(name, ("rows.jsonl", "rows.jsonl.error"), about)
            if "rows.jsonl" in left:
                (mnt / "incoming/rows.jsonl").unlink()
            self.assertEqual(mnt.names("incoming"), [], about)
            mnt.allow_log("")

    def test_drop(self):
        self.require_fuse()
        kills = collections.Counter()
        for name in self.DROP_CALLS:
            for count in range(1, self.MOST + 1):
                about = f"drop, daemon killed at {name} number {count}"
                table = self.fresh()
                acknowledged, died = self.drop(table, name, count)
                self.recover(table, about)
                self.check(table, self.before[-1] + ROWS, acknowledged, about)
                if not died:
                    self.assertTrue(acknowledged, about)
                    break
                kills[name] += 1
        # One for each file and directory, two for what makes a part and a version.
        self.assertGreaterEqual(kills["fsync"], 4, kills)
        self.assertGreaterEqual(kills["linkat"], 2, kills)
