# SPDX-License-Identifier: MIT
"""Many short processes, and a mount, over one table: what they say is what a plain replay of the
log says at that moment, or they refuse. An index is made every few versions, and the table is
copied, moved, set back, edited and restored between the steps.

TDL_TEST_STEPS is how many steps each test takes, TDL_TEST_SEED where they begin.
"""

import json
import os
import random
import shutil
import uuid

import harness
from harness import TestCase
from reference import Reference

STEPS = int(os.environ.get("TDL_TEST_STEPS", "60"))
SEED = int(os.environ.get("TDL_TEST_SEED", "1"))
INDEX = "_delta_log/_history.idx"


def name_of(version):
    return f"{version:020d}.json"


class World:
    """A table that a test walks through, and what is true of it."""

    def __init__(self, case, seed):
        self.case, self.random = case, random.Random(seed)
        self.seed, self.step, self.row = seed, 0, 0
        self.done = []
        self.backup = None
        self.mnt = None
        self.answers = self.refusals = self.indexed = 0
        self.fresh()

    def fresh(self):
        """Another table, as one side or the other makes it."""
        self.unmount()
        self.path = self.case.path()
        self.whole = True  # nobody laid hands on the log
        if self.random.random() < 0.5:
            Reference(self.path).create(["id:int"])
        else:
            self.case.ok([harness.program("tinydelta_indexed"), "create", self.path, "id:int"])

    @property
    def truth(self):
        return Reference(self.path)

    def log(self, version):
        return self.path / "_delta_log" / name_of(version)

    def wrong(self, what):
        self.case.fail(f"seed {self.seed}, step {self.step}: {what}\n" + "\n".join(self.done[-12:]))

    # -- what is asked --

    def command(self, *words, input=b""):
        result = harness.run(
            [harness.program("tinydelta_indexed"), words[0], self.path, *map(str, words[1:])], input
        )
        if result.status != 0 and not result.error.startswith("error: "):
            self.wrong(str(result))
        return result

    def same(self, result, wanted, what):
        if result.status == 0:
            self.answers += 1
            if result.out != wanted:
                self.wrong(f"{what}: {result.out!r}, and not {wanted!r}")
        else:
            self.refusals += 1
            if self.whole:
                self.wrong(f"{what}: {result.error}")

    def compare(self):
        truth = self.truth
        head = truth.head()
        version = self.random.randint(0, head)
        self.indexed += (self.path / INDEX).exists()
        self.same(self.command("read"), truth.read(head), "read")
        result = self.command("read", "--version", version)
        self.same(result, truth.read(version), f"read {version}")
        result = self.command("history", "--json")
        if result.status == 0:
            said = [json.loads(line)["version"] for line in result.out.splitlines()]
            if said != list(range(head + 1)):
                self.wrong(f"history: {said}")
        self.ask_mount(truth, head, version)

    def ask_mount(self, truth, head, version):
        if self.mnt is None:
            return
        good = True
        for name, number in (("latest", head), (f"v{version}", version)):
            try:
                said = self.mnt.read(f"{name}/data.jsonl")
            except OSError as error:
                good = False
                self.refusals += 1
                if self.whole:
                    self.wrong(f"{name} of the mount: {error}")
            else:
                self.answers += 1
                # One that was not noticed yet is asked for the newest first.
                if said != truth.read(number):
                    self.wrong(f"{name} of the mount: {said!r}, not {truth.read(number)!r}")
        if not good:
            self.unmount()

    # -- what is done --

    def rows(self):
        rows = []
        for _ in range(self.random.randint(1, 3)):
            self.row += 1
            rows.append({"id": self.row})
        return rows

    def by_command(self):
        what = self.random.choice(("append", "append", "overwrite", "restore"))
        head = self.truth.head()
        if what == "restore":
            result = self.command(what, "--version", self.random.randint(0, head))
        else:
            result = self.command(what, "--file", "-", input=harness.rows_text(self.rows()))
        if (result.status == 0) != (self.truth.head() == head + 1):
            self.wrong(str(result))
        if result.status != 0 and self.whole:
            self.wrong(str(result))
        return f"command {what}: {result.status}"

    def by_reference(self):
        what = self.random.choice(("append", "append", "overwrite", "restore"))
        truth = self.truth
        if what == "restore":
            truth.restore(self.random.randint(0, truth.head()))
        else:
            getattr(truth, what)(self.rows())
        return f"reference {what}"

    def by_hand(self):
        """What only other programs write: files added again, removed, removed and added."""
        truth = self.truth
        head = truth.head()
        live = truth.files(head)
        actions = []
        for path, (size, records) in list(live.items()):
            add = {"add": {"path": path, "size": size, "numRecords": records}}
            remove = {"remove": {"path": path}}
            actions += self.random.choice(([], [], [add], [remove], [remove, add]))
        actions.append({"remove": {"path": f"part-{uuid.uuid4().hex}.jsonl"}})
        time = self.random.choice((0, 1, 2**40, 2**62))  # another machine's clock
        info = {"timestamp": time, "operation": "MERGE", "readVersion": head}
        text = "".join(json.dumps(a) + "\n" for a in [{"commitInfo": info}, *actions])
        self.log(head + 1).write_text(text)
        return f"by hand: {len(actions)} actions"

    def by_mount(self):
        if self.mnt is None:
            self.mnt = self.case.mount(self.path)
            self.mnt.program = harness.program("tinydeltafs_indexed")
            self.mnt.allow_log("")
            try:
                self.mnt.start()
            except AssertionError:
                self.mnt = None
                if self.whole:
                    raise
                return "mount: refused"
        head = self.truth.head()
        try:
            (self.mnt / "incoming/x").write_bytes(harness.rows_text(self.rows()))
            good = True
        except OSError as error:
            good = False
            if self.whole:
                self.wrong(f"drop: {error}")
        if good != (self.truth.head() == head + 1):
            self.wrong(f"the drop said {good}")
        if not good:
            self.unmount()
        return f"drop: {good}"

    def unmount(self):
        if self.mnt is not None:
            self.mnt.unmount()
        self.mnt = None
        return "unmount"

    def vacuum(self):
        truth = self.truth
        named = {a["add"]["path"] for v in truth.versions() for a in truth.actions(v) if "add" in a}
        result = self.command("vacuum")
        if result.status != 0 and self.whole:
            self.wrong(str(result))
        gone = [path for path in named if not (self.path / path).exists()]
        if gone:
            self.wrong(f"vacuum deleted {gone}")
        return f"vacuum: {result.out!r}"

    # -- what befalls a table --

    def copied(self):
        """And it goes on in the copy, while something else is tried on the original."""
        self.unmount()
        other = self.case.path()
        self.case.ok(["cp", "-a", self.path, other])
        self.by_hand()
        self.command("read")
        self.path = other
        return "copied"

    def moved(self):
        self.unmount()
        other = self.case.path()
        self.path.rename(other)
        self.path = other
        return "moved"

    def set_back(self):
        head = self.truth.head()
        by = min(self.random.randint(1, 6), head)
        for version in range(head - by + 1, head + 1):
            self.log(version).unlink()
        if by > 0:
            self.whole = False
        return f"set back by {by}"

    def edited(self):
        """In place, to another size or the same; by a link of its own, or in the same file."""
        version = self.random.randint(0, self.truth.head())
        lines = self.log(version).read_text().splitlines(keepends=True)
        at = self.random.randrange(len(lines))
        if at == 0 or "metaData" in lines[at]:
            return "edited: no"
        same = self.random.random() < 0.5
        lines[at] = " " * (len(lines[at]) - 1) + "\n" if same else ""
        text = "".join(lines)
        if "tinydeltafs/" in text:  # else it is damage, and no lie
            first = json.loads(lines[0])
            for name in ("crc32c", "actions", "previous", "engineInfo"):
                first["commitInfo"].pop(name, None)
            lines[0] = json.dumps(first)
            text = lines[0] + "\n" + "".join(lines[1:])
        # A mount keeps what it has shown, and looks at the newest only.
        if version < self.truth.head():
            self.unmount()
        stat = os.stat(self.log(version))
        if self.random.random() < 0.5:
            self.log(version).write_text(text)
        else:
            other = self.path / "_delta_log/edited"
            other.write_text(text)
            other.rename(self.log(version))
        if self.random.random() < 0.5:
            os.utime(self.log(version), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.whole = False
        return f"edited {version}, {'the same size' if same else 'shorter'}"

    def saved(self):
        if self.backup is not None:
            shutil.rmtree(self.backup)
        self.backup = self.case.path()
        self.case.ok(["cp", "-a", self.path, self.backup])
        shutil.rmtree(self.backup / "_incoming", ignore_errors=True)
        return "saved"

    def restored(self):
        if self.backup is None:
            return "restored: no"
        if shutil.which("rsync") and self.random.random() < 0.5:
            self.case.ok(
                ["rsync", "-a", "--delete", "--exclude=_incoming", f"{self.backup}/", f"{self.path}/"]
            )
        else:
            for name in os.listdir(self.path):
                if name != "_delta_log" and name != "_incoming":
                    (self.path / name).unlink()
            for path in (self.path / "_delta_log").iterdir():
                path.unlink()
            self.case.ok(["cp", "-a", f"{self.backup}/.", self.path])
        self.whole = False
        return "restored"

    def unindexed(self):
        (self.path / INDEX).unlink(missing_ok=True)
        return "index removed"

    WORK = (by_command, by_command, by_reference, by_reference, by_hand, by_mount, vacuum, unmount)
    HANDS = (copied, moved, set_back, edited, saved, restored, unindexed)

    def walk(self, steps, hands):
        for self.step in range(steps):
            what = self.random.choice(self.WORK)
            if hands and self.random.random() < 0.2:
                what = self.random.choice(self.HANDS)
            self.done.append(what(self))
            self.compare()
            # One that is damaged for good, or long, makes way.
            if self.truth.head() > 60 or (not self.whole and self.random.random() < 0.1):
                self.fresh()
        self.unmount()


class Differential(TestCase):
    """Steps against the plain replay."""

    needs_fuse = True

    def setUp(self):
        super().setUp()
        cache = self.path()
        cache.mkdir(mode=0o700)
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = str(cache)
        if before is None:
            self.addCleanup(os.environ.pop, "XDG_CACHE_HOME", None)
        else:
            self.addCleanup(os.environ.__setitem__, "XDG_CACHE_HOME", before)

    def test_processes_in_turn(self):
        world = World(self, SEED)
        world.walk(STEPS, hands=False)
        self.assertEqual(world.refusals, 0)
        self.assertGreater(world.indexed, STEPS / 3, "there was hardly an index")

    def test_whatever_befalls_the_table(self):
        world = World(self, SEED + 1000000)
        world.walk(STEPS, hands=True)
        self.assertGreater(world.answers, world.refusals / 2, "it refuses nearly everything")
        self.assertGreater(world.indexed, STEPS / 5, "there was hardly an index")
