# SPDX-License-Identifier: MIT
"""Two implementations, one table: what each writes the other reads, also at the same time."""

import json
import os
import pathlib
import re
import subprocess
import sys

import harness
from harness import TestCase
from reference import PART, Conflict, Reference

REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "lib" / "reference.py"
COLUMNS = ("id:int", "name:str", "price:float", "paid:bool")
ROWS = [
    {"id": 1, "name": "plain", "price": 1.5, "paid": True},
    {"id": -(10**30), "name": 'quote " back \\ tab \t', "price": 1e300, "paid": False},
    {"id": None, "name": "\u00e9\u4e2d\U0001f600\u2028\u0085", "price": None, "paid": None},
]


class Golden(TestCase):
    """Tables that the Python package wrote, through all doors."""

    def test_command(self):
        for name in self.golden_names():
            table = self.golden(name)
            for version in range(self.golden_versions(name)):
                with self.subTest(table=name, version=version):
                    wanted = self.expected(name, f"v{version}.jsonl")
                    said = self.tinydelta("read", table, "--version", version)
                    self.assertEqual(said.out, wanted)
                    said = self.tinydelta("describe", table, "--version", version)
                    self.assertEqual(said.out, self.expected(name, f"describe-v{version}.txt"))
            self.assertEqual(
                self.tinydelta("history", table).out, self.expected(name, "history.txt")
            )

    def test_mount(self):
        for name in self.golden_names():
            with self.mount(self.golden(name), options=["ro"]) as mnt:
                for version in range(self.golden_versions(name)):
                    with self.subTest(table=name, version=version):
                        wanted = self.expected(name, f"v{version}.jsonl")
                        self.assertEqual(mnt.read(f"v{version}/data.jsonl"), wanted)
                        size = os.stat(mnt / f"v{version}/data.jsonl").st_size
                        self.assertEqual(size, len(wanted))
                        said = json.loads(mnt.read(f"history/v{version}.json"))
                        # By the log, which counts no newline that a file lacks.
                        self.assertIn(size - said["size"], range(said["files"] + 1))
                self.assertEqual(mnt.read("latest/data.jsonl"), wanted)

    def test_reading_changes_nothing(self):
        def listing(table):
            return sorted((str(p), p.stat().st_size) for p in table.rglob("*"))

        for name in self.golden_names():
            table = self.golden(name)
            before = listing(table)
            self.tinydelta("read", table)
            self.tinydelta("history", table)
            self.tinydelta("vacuum", table, "--dry-run")
            with self.mount(table, options=["ro"]) as mnt:
                mnt.read("latest/data.jsonl")
            self.assertEqual(listing(table), before)

    def test_golden_tables_can_go_on(self):
        for name in self.golden_names():
            table = self.golden(name)
            last = self.golden_versions(name) - 1
            self.tinydelta("restore", table, "--version", 1)
            self.assertEqual(
                self.tinydelta("read", table).out, self.expected(name, "v1.jsonl"), name
            )
            self.tinydelta("restore", table, "--version", last)
            self.assertEqual(
                self.tinydelta("read", table).out, self.expected(name, f"v{last}.jsonl"), name
            )


class Alternately(TestCase):
    def test_ours_is_read_by_the_other(self):
        table = self.table(*COLUMNS, rows=ROWS[:2])
        self.append(table, ROWS)
        self.tinydelta("overwrite", table, "--file", self.file(ROWS[1:]))
        self.append(table, ROWS[:1])
        self.tinydelta("restore", table, "--version", 2)
        other = Reference(table)
        self.assertEqual(other.versions(), [0, 1, 2, 3, 4, 5])
        for version in other.versions():
            said = self.tinydelta("read", table, "--version", version).out
            self.assertEqual(other.read(version), said, version)
        self.assertEqual(other.read(2), other.read(5))
        self.assertEqual(list(other.files(2)), list(other.files(5)))
        rows = [json.loads(line) for line in other.read(1).splitlines()]
        self.assertEqual(rows, ROWS[:2])
        for path in other.files(5):
            self.assertRegex(path, PART)

    def test_commits_have_the_form_others_know(self):
        table = self.table(*COLUMNS, rows=ROWS)
        self.tinydelta("overwrite", table, "--file", self.file(ROWS))
        self.tinydelta("restore", table, "--version", 1)
        operations = ["CREATE", "APPEND", "OVERWRITE", "RESTORE"]
        previous = 0
        for version, operation in enumerate(operations):
            raw = pathlib.Path(table, "_delta_log", f"{version:020d}.json").read_bytes()
            self.assertTrue(raw.endswith(b"\n") and b"\n\n" not in raw, raw)
            self.assertNotRegex(raw, rb'[:,] ?[ \t]["{\[]')
            actions = [json.loads(line) for line in raw.splitlines()]
            info = actions[0]["commitInfo"]
            self.assertEqual(list(info)[:3], ["timestamp", "operation", "readVersion"])
            self.assertEqual(info["operation"], operation)
            self.assertEqual(info["readVersion"], version - 1 if version else None)
            self.assertGreater(info["timestamp"], previous)
            previous = info["timestamp"]
            self.assertEqual(info["actions"], len(actions) - 1)
            for action in actions[1:]:
                self.assertEqual(len(action), 1)
                (kind, body), = action.items()
                wanted = {
                    "add": ["path", "size", "numRecords"],
                    "remove": ["path"],
                    "metaData": ["id", "schema"],
                }[kind]
                self.assertEqual(list(body)[: len(wanted)], wanted)

    def test_the_others_is_read_by_ours(self):
        table = self.path()
        other = Reference(table)
        other.create(COLUMNS)
        other.append(ROWS[:2])
        self.append(table, ROWS[:1])
        other.append(ROWS[:1])
        other.overwrite(ROWS[1:2])
        other.restore(3)
        for version in other.versions():
            said = self.tinydelta("read", table, "--version", version).out
            self.assertEqual(said, other.read(version), version)
        said = self.tinydelta("history", table).text
        self.assertEqual(
            re.sub(r"ts=[0-9]+", "ts=MS", said),
            "v0  CREATE  readVersion=None  ts=MS\nv1  APPEND  readVersion=0  ts=MS\n"
            "v2  APPEND  readVersion=1  ts=MS\nv3  APPEND  readVersion=2  ts=MS\n"
            "v4  OVERWRITE  readVersion=3  ts=MS\nv5  RESTORE  readVersion=4  ts=MS\n",
        )

    def test_a_mount_sees_the_others_commits(self):
        table = self.table(rows=[{"id": 1}])
        other = Reference(table)
        with self.mount(table) as mnt:
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n')
            other.append([{"id": 2}])
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n{"id":2}\n')
            (mnt / "incoming" / "three.jsonl").write_bytes(b'{"id":3}\n')
            other.overwrite([{"id": 4}])
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":4}\n')
            self.assertEqual(mnt.names(), ["at", "history", "history.jsonl", "incoming", "latest", *(f"v{n}" for n in range(5))])
            for version in other.versions():
                self.assertEqual(mnt.read(f"v{version}/data.jsonl"), other.read(version))


class AtOnce(TestCase):
    """All kinds of writers on one table: no number is given twice, no acknowledged row is lost."""

    ROUNDS = 25

    def start(self, script, *arguments):
        """A bash loop that prints every id whose commit was acknowledged."""
        child = subprocess.Popen(
            ["bash", "-c", script, "bash", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.scratch,
        )
        self.addCleanup(child.kill)
        return child

    def test_writers_of_all_kinds(self):
        table = self.table()
        with self.mount(table) as mnt:
            # $1 the first id, $2 how many, $3.. the way
            loop = 'for ((i = $1; i < $1 + $2; i++)); do echo "{\\"id\\":$i}" > in.$i; %s && echo $i; done'
            retry = "until python3 %s append %s in.$i >/dev/null 2>&1; do :; done" % (
                REFERENCE,
                table,
            )
            retry = retry.replace("python3", sys.executable)
            ours = f"{harness.program('tinydelta')} append {table} --file in.$i >/dev/null"
            drop = f"cp in.$i {mnt}/incoming/"
            children = [
                self.start(loop % how, 1000 * n, self.ROUNDS)
                for n, how in enumerate([retry, ours, ours, drop, drop])
            ]
            acknowledged = []
            seen = {}
            while any(c.poll() is None for c in children):
                # Whatever version is there stays what it was.
                for name in mnt.names():
                    if name.startswith("v"):
                        data = mnt.read(f"{name}/data.jsonl")
                        self.assertEqual(seen.setdefault(name, data), data, name)
            for child in children:
                out, err = child.communicate(timeout=harness.SOON)
                self.assertEqual(child.returncode, 0, err)
                acknowledged += map(int, out.split())
            self.assertEqual(len(acknowledged), 5 * self.ROUNDS)
            head = len(self.versions(table)) - 1
            self.assertEqual(self.versions(table), list(range(head + 1)))
            self.assertEqual(head, len(acknowledged))
            ids = [json.loads(line)["id"] for line in mnt.read("latest/data.jsonl").splitlines()]
            self.assertEqual(sorted(ids), sorted(acknowledged))
            for version in range(head + 1):
                data = mnt.read(f"v{version}/data.jsonl")
                self.assertEqual(data, self.data(table, version))
                self.assertEqual(seen.get(f"v{version}", data), data)

    def test_the_others_vacuum_takes_nothing_acknowledged(self):
        table = self.table()
        other = Reference(table)
        append = self.start(
            'for ((i = 0; i < $1; i++)); do echo "{\\"id\\":$i}" > row; '
            f"{harness.program('tinydelta')} append {table} --file row >/dev/null && echo $i; done",
            self.ROUNDS * 2,
        )
        while append.poll() is None:
            other.vacuum()
        out, err = append.communicate(timeout=harness.SOON)
        self.assertEqual(append.returncode, 0, err)
        data = other.read(other.head())
        ids = [json.loads(line)["id"] for line in data.splitlines()]
        self.assertEqual(ids, list(map(int, out.split())))

    def test_a_lost_race_is_said(self):
        table = self.table(rows=[{"id": 1}])
        other = Reference(table)
        head = other.head()
        other.append([{"id": 2}])
        for command in (
            ["append", table, "--file", self.file([{"id": 3}]), "--read-version", head],
            ["overwrite", table, "--file", self.file([{"id": 3}]), "--read-version", head],
            ["restore", table, "--version", 0, "--read-version", head],
        ):
            before = sorted(os.listdir(table))
            said = self.tinydelta_fails(*command)
            self.assertIn("another writer committed first", said.error)
            self.assertEqual(sorted(os.listdir(table)), before)
        self.assertEqual(other.head(), head + 1)
        self.assertRaises(Conflict, other._commit, head + 1, "APPEND", head, [])
