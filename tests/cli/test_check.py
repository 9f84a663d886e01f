# SPDX-License-Identifier: MIT
"""check: what it names and in what order, and how little it changes."""

import os
import re
import socket
import time

import harness
from harness import TestCase

PART = "part-00000000000000000000000000000bad.jsonl"
TEMPORARY = "_delta_log/.00000000000000000003.0123456789abcdef0123456789abcdef.tmp"


class Check(TestCase):
    def golden(self, name):
        """Dated some years back, so that it does not matter what today's clock says."""
        table = super().golden(name)
        for commit in (table / "_delta_log").glob("*.json"):
            commit.write_bytes(
                re.sub(
                    rb'"timestamp":( ?)(\d{13})',
                    lambda m: b'"timestamp":%b%d' % (m[1], int(m[2]) - 5 * 365 * 86400000),
                    commit.read_bytes(),
                )
            )
        return table

    def test_a_version_from_the_future(self):
        table = self.golden("orders")
        commit = self.commit(table, 1)
        commit.write_bytes(re.sub(rb'("timestamp": ?)\d{13}', rb"\g<1>4102444800000", commit.read_bytes()))
        self.assertEqual(
            self.problems(table),
            [
                f"_delta_log/{1:020d}.json:1: is dated 2100-01-01T00:00:00Z, which lies in the future "
                "(a clock was ahead)"
            ],
        )
        self.assertEqual(self.problems(table, "--version", 0, status=0), [])

    def problems(self, table, *words, status=1):
        """The lines of a check that found something."""
        result = harness.run([harness.program("tinydelta"), "check", table, *map(str, words)])
        self.assertEqual((result.status, result.err), (status, b""), str(result))
        return result.text.splitlines()

    def commit(self, table, version):
        return table / "_delta_log" / f"{version:020d}.json"

    def test_a_good_table(self):
        for name in ("orders", "steps"):
            table = self.golden(name)
            self.assertEqual(self.tinydelta("check", table).out, b"")
            for version in range(self.golden_versions(name)):
                self.assertEqual(self.tinydelta("check", table, "--version", version).out, b"")

    def test_what_the_command_makes(self):
        table = self.table(rows=[{"id": 1}, {"id": 2}])
        self.tinydelta("restore", table, "--version", 0)
        self.assertEqual(self.tinydelta("check", table).out, b"")

    def test_the_worst_first(self):
        table = self.golden("foreign")
        (table / PART).write_bytes(b"x")
        (table / "part-cccccccccccccccccccccccccccccccc.jsonl").unlink()
        lines = self.problems(table)
        self.assertEqual(
            [line.split(" ")[0] for line in lines],
            [
                "part-cccccccccccccccccccccccccccccccc.jsonl:",
                "part-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.jsonl:",
                "part-dddddddddddddddddddddddddddddddd.jsonl:1:",
                f"{PART}:",
            ],
        )
        self.assertRegex(lines[0], r": is missing \(versions? [0-9 to,]+\)$")

    def test_a_line_of_the_log(self):
        table = self.golden("orders")
        commit = self.commit(table, 3)
        commit.write_bytes(commit.read_bytes()[:-9])
        line = commit.read_bytes().count(b"\n") + 1
        (said,) = self.problems(table)
        self.assertTrue(said.startswith(f"_delta_log/{commit.name}:{line}: not valid JSON"), said)
        self.assertIn("(versions 3 to 4 cannot be read)", self.problems(table)[0])
        self.assertEqual(self.problems(table, "--version", 2, status=0), [])
        self.assertEqual(len(self.problems(table, "--version", 4)), 1)

    def test_repair_removes_what_vacuum_would(self):
        table = self.golden("orphans")
        before = {p.name for p in table.rglob("*")}
        self.assertEqual(len(self.problems(table)), 2)
        self.assertEqual({p.name for p in table.rglob("*")}, before)
        said = self.tinydelta("check", table, "--repair", "--older-than", 0).text
        self.assertEqual(said, f"{PART}: removed\n{TEMPORARY}: removed\n")
        left = {p.name for p in table.rglob("*") if p.suffix not in (".idx", ".lock")}
        self.assertEqual(left, before - {PART, TEMPORARY.split("/")[1]})
        self.assertEqual(self.tinydelta("check", table, "--repair").out, b"")

    def test_repair_keeps_what_another_may_be_about_to_commit(self):
        """The Python package links a data file long before it commits it."""
        table = self.golden("orphans")
        # A copy has the times of the checkout, however old that is.
        for name in (PART, TEMPORARY):
            os.utime(table / name)
        lines = self.problems(table, "--repair")
        self.assertEqual([line.split(":")[0] for line in lines], [TEMPORARY, PART])
        old = time.time() - 3700
        os.utime(table / PART, (old, old))
        self.assertEqual(self.problems(table, "--repair", "--older-than", 4000000), lines)
        self.assertEqual(self.problems(table, "--repair"), [f"{PART}: removed", lines[0]])
        os.utime(table / TEMPORARY, (time.time() + 300,) * 2)
        self.tinydelta("check", table, "--repair", "--older-than", 0)
        self.assertTrue((table / TEMPORARY).exists(), "dated in the future")
        said = self.tinydelta_fails("check", table, "--older-than", 0, status=2)
        self.assertIn("--older-than needs --repair", said.error)

    def test_repair_leaves_damage_alone(self):
        table = self.golden("orphans")
        self.commit(table, 2).write_bytes(b"{}\n")
        lines = self.problems(table, "--repair", "--older-than", 0)
        self.assertEqual(len(lines), 1)
        self.assertIn("has no commitInfo", lines[0])
        self.assertTrue((table / PART).exists())
        self.assertEqual(self.commit(table, 2).read_bytes(), b"{}\n")

    def test_something_else_where_the_lock_belongs(self):
        """Writers and vacuum say what it is and what to do, and so does check."""
        table = self.table(rows=[{"id": 1}])
        lock = table / "_delta_log/_writers.lock"
        text = "where the lock of the table's writers belongs (remove it)"
        elsewhere = self.file("")

        def listen(path):
            # The name of a socket is short.
            folder = os.open(path.parent, os.O_RDONLY)
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(f"/proc/self/fd/{folder}/{path.name}")
            os.close(folder)

        for what, make in (
            ("a directory", os.mkdir),
            ("a FIFO", os.mkfifo),
            ("a symbolic link", lambda path: os.symlink(elsewhere, path)),
            ("a symbolic link", lambda path: os.symlink("nowhere", path)),
            ("a socket", listen),
        ):
            lock.unlink(missing_ok=True)
            make(lock)
            (table / PART).write_bytes(b"")  # else a vacuum has nothing to do
            for words in (("append", table, "--file", self.file([{"id": 2}])), ("vacuum", table)):
                said = self.tinydelta_fails(*words)
                self.assertEqual(said.out, b"")
                wanted = rf"\A[^\n]*/_delta_log/_writers\.lock is {what} {re.escape(text)}: nothing was changed"
                self.assertRegex(said.error, wanted + r"\n\Z")
            (table / PART).unlink()
            self.assertEqual(
                self.problems(table),
                [f"_delta_log/_writers.lock: is {what} {text}: nobody can commit or vacuum"],
            )
            self.assertEqual(self.problems(table, "--version", 1, status=0), [])
            (os.rmdir if what == "a directory" else os.unlink)(lock)
        self.assertEqual(self.versions(table)[-1], 1)
        self.append(table, [{"id": 2}])
        self.assertEqual(self.problems(table, status=0), [])

    def test_refusals(self):
        table = self.golden("orders")
        result = self.tinydelta_fails("check", table, "--version", 5)
        self.assertEqual(result.out, b"")
        self.assertIn("no such version: 5", result.error)
        self.assertIn("no tinydelta table", self.tinydelta_fails("check", table / "x").error)
        self.commit(table, 0).write_bytes(b"{")
        result = self.tinydelta_fails("check", table)
        self.assertIn(f"{self.commit(table, 0)}:1: not valid JSON", result.error)

    def test_names_forge_no_lines(self):
        table = self.table(rows=[{"id": 1}])
        add = '{"add":{"path":"a\\nb: fine","size":1,"numRecords":1}}\n'
        info = '{"commitInfo":{"timestamp":1,"operation":"A","readVersion":1}}\n'
        self.commit(table, 2).write_text(info + add)
        self.assertEqual(self.problems(table), ["a\\x0ab: fine: is missing (version 2)"])
