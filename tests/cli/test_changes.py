# SPDX-License-Identifier: MIT
"""tinydelta changes: random histories of this library and of another writer, against what the log
and the data files say of them."""

import json
import random

import harness
from harness import TestCase
from reference import Reference


def times(table):
    """The time of each version: later than that of the one before."""
    result = []
    for version in table.versions():
        stamp = table.actions(version)[0]["commitInfo"]["timestamp"]
        result.append(max(stamp, result[-1] + 1) if result else stamp)
    return result


def changed(table, version, stamp):
    """What a version changed, file by file, as the manual says it."""
    before = table.files(version - 1) if version > 0 else {}
    after = table.files(version)
    out = []
    for kind, ours, theirs in (("delete", before, after), ("insert", after, before)):
        text = f'"_change_type":"{kind}","_commit_version":{version},"_commit_timestamp":{stamp},'
        for path, said in ours.items():
            if theirs.get(path) == said:
                continue
            for line in (table.path / path).read_bytes().split(b"\n"):
                if line:
                    out.append(line.replace(b"{", b"{" + text.encode(), 1) + b"\n")
    return b"".join(out)


class Changes(TestCase):
    def test_random_histories(self):
        for seed in range(4):
            chance = random.Random(seed)
            table = self.table("id:int", "text:str")
            plain = Reference(table)
            for number in range(25):
                rows = [
                    {"id": number * 100 + i, "text": "{" * chance.randrange(4) + "\u2028ä\\"}
                    for i in range(chance.randrange(1, 40))
                ]
                action = chance.choice(["append", "append", "overwrite", "restore"])
                if action == "restore":
                    to = chance.choice(plain.versions())
                    if chance.random() < 0.5:
                        plain.restore(to)
                    else:
                        self.tinydelta("restore", table, str(to))
                elif chance.random() < 0.5:
                    getattr(plain, action)(rows)
                else:
                    self.tinydelta(action, table, "--file", self.file(rows))
            stamps = times(plain)
            expected = [changed(plain, v, stamps[v]) for v in plain.versions()]
            for version in plain.versions():
                said = self.tinydelta("changes", table, str(version)).out
                self.assertEqual(said, expected[version], f"seed {seed}, version {version}")
            self.assertEqual(self.tinydelta("changes", table).out, b"".join(expected))
            self.assertEqual(
                self.tinydelta("changes", table, "v3", "latest~2").out, b"".join(expected[4:24])
            )
            self.assertEqual(self.tinydelta("changes", table, "9", "v9").out, b"")
            for line in b"".join(expected).decode().split("\n")[:-1]:
                json.loads(line)

    def test_versions_that_are_not(self):
        table = self.table("id:int", rows=[{"id": 1}])
        result = self.tinydelta_fails("changes", table, "1", "0")
        self.assertEqual(
            result.error, "error: version 1 comes after version 0: the older one goes first\n"
        )
        self.assertIn("no such version: 7", self.tinydelta_fails("changes", table, "7").error)
        self.tinydelta_fails("changes", table, "seven~", status=2)

    def test_damage(self):
        table = self.table("id:int", rows=[{"id": 1}])
        self.append(table, [{"id": 2}])
        part = next(a["add"]["path"] for a in Reference(table).actions(2) if "add" in a)
        (harness.pathlib.Path(table) / part).write_bytes(b'{"id":3}\n')
        result = self.tinydelta_fails("changes", table)
        self.assertEqual(result.out.count(b"\n"), 1)
        self.assertIn(part, result.error)

    def test_large(self):
        """More than a block, by another reader of the same bytes, and into a pipe that ends."""
        table = self.table("id:int", "text:str")
        rows = "".join(f'{{"id":{i},"text":"{"x" * (i % 300)}"}}\n' for i in range(40000))
        self.tinydelta("append", table, "--file", self.file(rows.encode()))
        stamp = times(Reference(table))[1]
        expected = changed(Reference(table), 1, stamp)
        self.assertGreater(len(expected), 8 << 20)
        self.assertEqual(self.tinydelta("changes", table).out, expected)
        head = self.sh('"$1" changes "$2" | head -n 2', harness.program("tinydelta"), table)
        self.assertEqual(head.out, b"".join(expected.splitlines(True)[:2]))

