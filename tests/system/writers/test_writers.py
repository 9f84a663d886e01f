# SPDX-License-Identifier: MIT
"""Many processes write one table, through the command and two daemons, while it is overwritten and
restored and another's vacuum runs; on several file systems.

TDL_APPENDS says how many rows each process appends to the table that has the most to bear; 200,
as tests/system/writers/full has it, take minutes.
"""

import json
import os
import pathlib
import subprocess
import sys

import harness
import places
from harness import TestCase
from reference import Reference

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = HERE.parents[1] / "lib" / "reference.py"
APPENDS = int(os.environ.get("TDL_APPENDS", "15"))

# Overwrites and restores until $4 of each were done; prints each id that took the place of all.
CHANGER = """
for ((i = 1; i <= $3; i++)); do
	until said=$(echo "{\\"id\\":-$i}" | "$1" overwrite "$2" --file - 2>&1); do
		[[ $said == *"another writer committed first"* ]] || { echo "$said" >&2; exit 1; }
	done
	echo "-$i"
	until said=$("$1" restore "$2" --version $((i * 2)) 2>&1); do
		[[ $said == *"another writer committed first"* || $said == *"no such version"* ]] ||
			{ echo "$said" >&2; exit 1; }
	done
done
"""


class Log:
    """The versions of a table, worked out commit after commit and independent of the library."""

    def __init__(self, table):
        self.other = Reference(table)
        self.live, self.parts = {}, {}
        self.commits, self.version = [], []

    def read_on(self):
        """Takes in the commits there are; each must be what it was when it was first seen."""
        while (path := self.other.log / f"{len(self.commits):020d}.json").exists():
            self.commits.append(path.read_bytes())
            for action in self.other.actions(len(self.commits) - 1):
                if "add" in action:
                    self.live[action["add"]["path"]] = True
                elif "remove" in action:
                    self.live.pop(action["remove"]["path"], None)
            self.version.append(b"".join(map(self.part, self.live)))

    def part(self, name):
        if name not in self.parts:
            self.parts[name] = (self.other.path / name).read_bytes()
        return self.parts[name]

    def ids(self, number):
        """The ids that commit `number` brought with a data file of its own."""
        actions = self.other.actions(number)
        if actions[0]["commitInfo"]["operation"] == "RESTORE":
            return []
        paths = [a["add"]["path"] for a in actions if "add" in a]
        return [json.loads(line)["id"] for p in paths for line in self.part(p).splitlines()]


class Writers(TestCase):
    needs_fuse = True
    PROCESSES = 8

    def start(self, argv):
        child = subprocess.Popen(
            [os.fspath(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.addCleanup(child.kill)
        return child

    def together(self, place, appends, also=None):
        """Lets them all loose on a table in `place`, and demands what must hold. `also` is another
        path of that place, for every other of them."""
        command = harness.program("tinydelta")
        table, other = place / "table", (also or place) / "table"
        self.tinydelta("create", table, "id:int")
        vacuum = self.start(
            ["bash", "-c", 'while "$@" >/dev/null; do :; done', "bash"]
            + [sys.executable, REFERENCE, "vacuum", table]
        )
        with self.mount(table) as one, self.mount(other) as two:
            children = [
                self.start(
                    [sys.executable, HERE / "worker.py", command, (table, other)[n % 2], str(n * 1000)]
                    + [str(appends), one / "incoming", two / "incoming"]
                )
                for n in range(self.PROCESSES)
            ]
            changes = max(2, appends // 4)
            children.append(
                self.start(["bash", "-c", CHANGER, "bash", command, table, str(changes)])
            )
            log, seen = Log(table), {}
            while any(child.poll() is None for child in children):
                self.watch(log, (one, two), seen)
            acknowledged = []
            for child in children:
                out, err = child.communicate(timeout=harness.SOON)
                self.assertEqual((child.returncode, err), (0, b""))
                acknowledged += map(int, out.split())
            self.assertIsNone(vacuum.poll(), "the vacuum ran all the while")
            vacuum.kill()
            vacuum.communicate()
            self.assertEqual(len(acknowledged), self.PROCESSES * appends + changes)
            self.demand(log, (one, two), seen, acknowledged, changes)
            for mnt in (one, two):
                self.assertEqual(mnt.names("incoming"), [])
        self.assertEqual(os.listdir(table / "_incoming"), [])
        self.tinydelta("vacuum", table)
        left = {n for n in os.listdir(table) if n.startswith("part-")}
        self.assertEqual(left, set(log.parts), "what no version has is gone, the rest is there")

    def watch(self, log, mounts, seen):
        """Reads what is new, and something old, through both mounts."""
        log.read_on()
        for mnt in mounts:
            head = json.loads(mnt.read("history/latest.json"))["version"]
            first = seen.setdefault(mnt, 0)
            self.assertGreaterEqual(head + 1, first, "latest went back")
            for version in {*range(first, head + 1), head // 2}:
                data = mnt.read(f"v{version}/data.jsonl")
                log.read_on()
                self.assertEqual(data, log.version[version], f"v{version}")
            seen[mnt] = head + 1

    def demand(self, log, mounts, seen, acknowledged, changes):
        log.read_on()
        head = len(log.commits) - 1
        self.assertEqual(log.other.versions(), list(range(head + 1)), "no gap")
        # A version each: the creation, every acknowledged row, and the restores.
        self.assertEqual(head, len(acknowledged) + changes)
        ids = [i for number in range(head + 1) for i in log.ids(number)]
        self.assertEqual(sorted(ids), sorted(acknowledged), "each row once, and no other")
        before = -1
        for number, commit in enumerate(log.commits):
            self.assertEqual((log.other.log / f"{number:020d}.json").read_bytes(), commit)
            info = log.other.actions(number)[0]["commitInfo"]
            self.assertGreater(info["timestamp"], before)
            self.assertEqual(info["readVersion"], number - 1 if number else None)
            before = info["timestamp"]
            for mnt in mounts:
                self.assertEqual(mnt.read(f"v{number}/data.jsonl"), log.version[number])
        for name, data in log.parts.items():
            self.assertEqual((log.other.path / name).read_bytes(), data, name)
        self.assertEqual(self.tinydelta("read", log.other.path).out, log.version[head])

    def test_here(self):
        self.together(self.scratch, APPENDS)

    def test_xfs(self):
        self.together(places.made(self, "xfs"), max(4, APPENDS // 4))

    def test_btrfs(self):
        self.together(places.made(self, "btrfs"), max(4, APPENDS // 4))

    def test_tmpfs(self):
        self.together(places.made(self, "tmpfs"), max(4, APPENDS // 4))

    def test_without_hard_links(self):
        self.together(places.nolink(self), max(4, APPENDS // 4))


class NoHardLinks(TestCase):
    """The parts of a table's life that make or move files, where link() is refused."""

    needs_fuse = True

    def test_commands(self):
        place = places.nolink(self)
        with self.assertRaises(OSError):
            os.link(self.file("x"), place / "x")
        table = place / "table"
        self.tinydelta("create", table, "id:int")
        self.assertEqual(self.append(table, [{"id": 1}]), 1)
        self.tinydelta("overwrite", table, "--file", self.file([{"id": 2}]))
        self.tinydelta("restore", table, "--version", "1")
        self.tinydelta_fails("append", table, "--file", self.file([{"id": 1.5}]))
        self.tinydelta_fails("append", table, "--read-version", "1", "--file", self.file([{"id": 1}]))
        other = Reference(table)
        self.assertEqual([other.read(v) for v in range(4)], [b"", *(b'{"id":%d}\n' % i for i in (1, 2, 1))])
        self.assertEqual(os.listdir(table / "_incoming"), [])
        self.assertEqual(len([n for n in os.listdir(table) if n.startswith("part-")]), 2)
        self.assertEqual([n for n in os.listdir(other.log) if n.endswith(".tmp")], [])

    def test_vacuum(self):
        table = places.nolink(self) / "table"
        self.tinydelta("create", table, "id:int")
        self.append(table, [{"id": 1}])
        stray = "part-" + "0" * 32 + ".jsonl"
        (table / stray).write_bytes(b'{"id":9}\n')
        self.assertIn(stray, self.tinydelta("vacuum", table).text)
        self.assertFalse((table / stray).exists())
        self.assertEqual(self.tinydelta("read", table).out, b'{"id":1}\n')

    def test_staging_and_recovery(self):
        table = places.nolink(self) / "table"
        self.tinydelta("create", table, "id:int")
        point = self.path("mnt")
        mnt = self.mount(table, point).start()
        (mnt / "incoming/good").write_bytes(b'{"id":1}\n')
        # One that is rewritten on the way: its bytes are not those that are stored.
        (mnt / "incoming/spaced").write_bytes(b'{ "id" : 2 }\n')
        (mnt / "incoming/.waits").write_bytes(b'{"id":3}\n')
        self.fails(["cp", self.file(b"no"), mnt / "incoming/bad"])
        self.assertEqual(mnt.names("incoming"), [".waits", "bad", "bad.error"])
        mnt.kill()
        with self.mount(table, point) as mnt:
            mnt.allow_log("")
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n{"id":2}\n')
            self.assertLessEqual({".waits", "bad"}, set(mnt.names("incoming")))
            os.rename(mnt / "incoming/.waits", mnt / "incoming/now")
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n{"id":2}\n{"id":3}\n')
            os.unlink(mnt / "incoming/bad")
            self.assertEqual(mnt.names("incoming"), [])


class TwoClients(TestCase):
    """Two clients of one shared file system, on which locks of directories are each client's own
    (GlusterFS, CephFS, MooseFS, NFS): what one acknowledges the other's vacuum leaves alone."""

    needs_fuse = True
    DROPS = int(os.environ.get("TDL_DROPS", "60"))

    def clients(self, *options):
        below = self.path("below")
        below.mkdir()
        here, there = (places.nolink(self, *options, below=below) for _ in range(2))
        self.tinydelta("create", here / "table", "id:int")
        return here / "table", there / "table"

    def dropped_beside_a_vacuum(self, here, there):
        vacuum = subprocess.Popen(
            ["bash", "-c", 'while "$@" >/dev/null; do :; done', "bash"]
            + [harness.program("tinydelta"), "vacuum", there],
            stderr=subprocess.PIPE,
        )
        self.addCleanup(vacuum.kill)
        with self.mount(here) as mnt:
            for number in range(self.DROPS):
                (mnt / f"incoming/{number}").write_bytes(b'{"id":%d}\n' % number)
        self.assertIsNone(vacuum.poll(), "the vacuum ran all the while")
        vacuum.kill()
        vacuum.communicate()
        self.demand(there, self.DROPS)

    def demand(self, table, drops):
        rows = self.tinydelta("read", table).out
        self.assertEqual(rows, b"".join(b'{"id":%d}\n' % i for i in range(drops)))
        self.assertEqual(self.tinydelta("check", table).text, "")

    def test_drops_beside_a_vacuum(self):
        self.dropped_beside_a_vacuum(*self.clients("links"))

    def test_without_links(self):
        self.dropped_beside_a_vacuum(*self.clients())

    def test_commands_beside_a_vacuum(self):
        here, there = self.clients("links")
        vacuum = subprocess.Popen(
            ["bash", "-c", 'while "$@" >/dev/null; do :; done', "bash"]
            + [harness.program("tinydelta"), "vacuum", there]
        )
        self.addCleanup(vacuum.kill)
        for number in range(self.DROPS // 2):
            self.append(here, [{"id": number}])
        self.assertIsNone(vacuum.poll(), "the vacuum ran all the while")
        vacuum.kill()
        vacuum.wait()
        self.demand(there, self.DROPS // 2)

    def test_no_lock_is_seen(self):
        """Where locks of files are local as well, what is being committed is known by its date: an
        append can fail, but what is acknowledged stays."""
        here, there = self.clients("links", "locallocks")
        vacuum = subprocess.Popen(
            ["bash", "-c", 'while "$@" >/dev/null; do :; done', "bash"]
            + [harness.program("tinydelta"), "vacuum", there],
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(vacuum.kill)
        expected = b""
        for number in range(self.DROPS // 2):
            row = b'{"id":%d}\n' % number
            said = harness.run(
                [harness.program("tinydelta"), "append", here, "--file", self.file(row)]
            )
            if said.status == 0:
                expected += row
        vacuum.kill()
        vacuum.wait()
        self.assertEqual(self.tinydelta("read", there).out, expected)


class NeitherLinksNorFlags(TestCase):
    """Without RENAME_NOREPLACE too nothing is exclusive: refused, with the reason, and as it was."""

    needs_fuse = True

    @staticmethod
    def tree(table):
        return {
            str(p.relative_to(table)): p.read_bytes() if p.is_file() else None
            for p in table.rglob("*")
        }

    def refused(self, table, *command):
        before = self.tree(table)
        said = self.tinydelta_fails(*command)
        self.assertRegex(said.error, r"neither link\(\) nor renameat2\(RENAME_NOREPLACE\)")
        self.assertEqual(self.tree(table), before)

    def foreign(self, place):
        """A table that somebody made elsewhere and copied there."""
        table = self.table(rows=[{"id": 1}])
        self.ok(["cp", "-r", table, place / "table"])
        return place / "table"

    def test_create(self):
        place = places.nolink(self, "noflags")
        self.refused(place, "create", place / "table", "id:int")
        self.refused(place, "create", place / "a/b", "id:int")

    def test_commands(self):
        table = self.foreign(places.nolink(self, "noflags"))
        rows = self.file([{"id": 2}])
        self.refused(table, "append", table, "--file", rows)
        self.refused(table, "overwrite", table, "--file", rows)
        self.refused(table, "restore", table, "--version", "0")
        self.assertEqual(self.tinydelta("read", table).out, b'{"id":1}\n')

    def test_drops(self):
        table = self.foreign(places.nolink(self, "noflags"))
        before = self.tree(table)
        with self.mount(table) as mnt:
            mnt.expect_log(r"neither link\(\) nor renameat2")
            said = self.fails(["cp", self.file([{"id": 2}], "drop"), mnt / "incoming"])
            self.assertIn("not supported", said.error)
            note = mnt.read("incoming/drop.error").decode()
            self.assertRegex(note, r"neither link\(\) nor renameat2")
            self.assertEqual(mnt.read("incoming/drop"), b'{"id":2}\n', "the rows are kept")
            os.unlink(mnt / "incoming/drop")
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n')
        self.assertEqual(self.tree(table), before)
