# SPDX-License-Identifier: MIT
"""vacuum: what it deletes, what it keeps, what it says."""

import os
import pathlib

from harness import TestCase

PART = "part-00000000000000000000000000000bad.jsonl"
TEMPORARY = "_delta_log/.00000000000000000003.0123456789abcdef0123456789abcdef.tmp"


def listing(table):
    return sorted(str(p.relative_to(table)) for p in table.rglob("*") if p.is_file())


class Vacuum(TestCase):
    def test_orphans(self):
        table = self.golden("orphans")
        before = listing(table)
        said = self.tinydelta("vacuum", table, "--dry-run")
        self.assertEqual(said.text, f"would delete 2 orphan files\n{PART}\n{TEMPORARY}\n")
        self.assertEqual(listing(table), before)
        said = self.tinydelta("vacuum", table)
        self.assertEqual((said.text, said.err), (f"deleted 2 orphan files\n{PART}\n{TEMPORARY}\n", b""))
        left = [name for name in listing(table) if not name.endswith(("_history.idx", "_writers.lock"))]
        self.assertEqual(left, [name for name in before if name not in (PART, TEMPORARY)])
        self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n")
        self.assertEqual(self.tinydelta("vacuum", table, "--dry-run").text, "no orphan files\n")
        for version in range(self.golden_versions("orphans")):
            said = self.tinydelta("read", table, "--version", version)
            self.assertEqual(said.out, self.expected("orphans", f"v{version}.jsonl"))

    def test_one(self):
        table = self.golden("orders")
        (table / PART).write_bytes(b"")
        said = self.tinydelta("vacuum", table, "--dry-run").text
        self.assertEqual(said, f"would delete 1 orphan file\n{PART}\n")
        self.assertEqual(self.tinydelta("vacuum", table).text, f"deleted 1 orphan file\n{PART}\n")

    def test_sorted(self):
        table = self.table(rows=[{"id": 1}])
        names = [f"part-{digit * 32}.jsonl" for digit in "b0a9f1"]
        for name in names:
            (table / name).write_bytes(b"x")
        said = self.tinydelta("vacuum", table).text
        self.assertEqual(said, "deleted 6 orphan files\n" + "".join(f"{n}\n" for n in sorted(names)))

    def test_age(self):
        table = self.golden("orders")
        (table / PART).write_bytes(b"")
        hour = 3600 * 1000
        said = self.tinydelta("vacuum", table, "--older-than", hour).text
        self.assertEqual(said, "no orphan files\n")
        self.assertTrue((table / PART).exists())
        old = os.stat(table / PART).st_mtime - 2 * 3600
        os.utime(table / PART, (old, old))
        said = self.tinydelta("vacuum", table, "--older-than", hour).text
        self.assertEqual(said, f"deleted 1 orphan file\n{PART}\n")

    def test_what_is_not_the_tables_stays(self):
        table = self.golden("orders")
        names = [
            "part-x.jsonl",
            "part-" + "A" * 32 + ".jsonl",
            "part-" + "a" * 31 + ".jsonl",
            "part-" + "a" * 33 + ".jsonl",
            "part-" + "a" * 32 + ".json",
            "notes.txt",
            "_delta_log/notes",
            "_delta_log/00000000000000000009.json.bak",
            "_delta_log/.x.tmp",
        ]
        for name in names:
            (table / name).write_bytes(b"x")
        folder = table / f"part-{'d' * 32}.jsonl"
        folder.mkdir()
        self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n")
        for name in names:
            self.assertTrue((table / name).exists(), name)
        self.assertTrue(folder.is_dir())

    def test_versions_of_old_stay(self):
        table = self.table(rows=[{"id": 1}])
        self.tinydelta("overwrite", table, "--file", self.file([{"id": 2}]))
        self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n")
        self.assertEqual(self.tinydelta("read", table, "--version", 1).out, b'{"id":1}\n')

    def test_a_damaged_log_deletes_nothing(self):
        table = self.golden("orphans")
        pathlib.Path(table, "_delta_log", f"{2:020d}.json").write_bytes(b"")
        before = listing(table)
        for words in ((), ("--dry-run",)):
            result = self.tinydelta_fails("vacuum", table, *words)
            self.assertEqual(result.out, b"")
        self.assertEqual(listing(table), before)
