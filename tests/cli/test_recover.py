# SPDX-License-Identifier: MIT
"""recover: what it lists of _incoming, and taking over what no mount does by itself."""

import fcntl
import json
import os
import pathlib
import re

import harness
from harness import TestCase

FOREIGN = "00112233445566778899aabbccddeeff-00112233445566778899aabbccddeeff-0011223344556677"
HALF = "00000000000000000000000000000001"
NAMELESS = "00000000000000000000000000000002"


class Recover(TestCase):
    def left(self, folder=FOREIGN):
        """A table where a machine that is gone left half a file, and what it was making of it."""
        table = self.table(rows=[{"id": 1}])
        self.append(table, [{"id": 2}])
        there = pathlib.Path(table) / "_incoming" / folder
        there.mkdir(parents=True)
        there.chmod(0o700)
        (there / ".lock").touch()
        (there / f"{HALF}-half.jsonl").write_bytes(b'{"id":3}\n{"id"')
        (there / NAMELESS).write_bytes(b'{"id":3}\n')
        published = next(n for n in os.listdir(table) if n.startswith("part-"))
        os.link(pathlib.Path(table) / published, there / f"{published[5:37]}-done.jsonl")
        return table

    def waiting(self, table):
        return [line.split("\t") for line in self.tinydelta("recover", table).text.splitlines()]

    def test_nothing(self):
        self.assertEqual(self.tinydelta("recover", self.table()).out, b"")

    def test_what_another_machine_left(self):
        table = self.left()
        said = {fields[-1]: fields for fields in self.waiting(table)}
        self.assertEqual(set(said), {"half.jsonl", "done.jsonl"})
        self.assertEqual(said["half.jsonl"][:4], [FOREIGN, "unknown", f"user {os.getuid()}", "14"])
        # check says what to type, and that is what helps.
        problems = harness.run([harness.program("tinydelta"), "check", table]).text
        typed = re.search(r"half.jsonl: staged by another machine; .*: tinydelta (.*)$", problems, re.M)
        before = sorted(os.listdir(table))
        self.tinydelta(*typed[1].split(), "--dry-run")
        self.assertEqual(len(self.waiting(table)), 2, "a dry run takes nothing")
        self.assertIn("recovered 1 file: ", self.tinydelta(*typed[1].split()).text)
        self.assertEqual(sorted(os.listdir(table)), before)
        self.assertEqual(self.versions(table), [0, 1, 2])
        now = self.waiting(table)
        self.assertEqual([fields[1] for fields in now], ["dead"])
        self.assertEqual(now[0][-1], "half.jsonl")
        self.assertNotIn(FOREIGN, os.listdir(pathlib.Path(table) / "_incoming"))

    def test_the_next_mount_lists_it(self):
        self.require_fuse()
        table = self.left()
        with self.mount(table) as mnt:
            self.assertEqual(mnt.names("incoming"), [])
        self.tinydelta("recover", table, "--from", f"_incoming/{FOREIGN}/")
        with self.mount(table) as mnt:
            self.assertIn("half.jsonl", mnt.names("incoming"))
            self.assertEqual(mnt.read("incoming/half.jsonl"), b'{"id":3}\n{"id"')
            os.unlink(mnt / "incoming/half.jsonl")
            mnt.allow_log("incoming/half.jsonl")
        self.assertEqual(self.versions(table), [0, 1, 2], "nothing is committed by itself")

    def test_who_lives_keeps_it(self):
        table = self.left()
        there = pathlib.Path(table) / "_incoming" / FOREIGN
        before = sorted(os.listdir(there))
        for locked in (there, there / ".lock"):
            fd = os.open(locked, os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX)
            self.assertEqual({fields[1] for fields in self.waiting(table)}, {"alive"})
            result = self.tinydelta_fails("recover", table, "--from", FOREIGN)
            self.assertIn("is locked: the process that stages files there lives", result.error)
            self.assertEqual(sorted(os.listdir(there)), before)
            os.close(fd)

    def test_what_others_may_write_to(self):
        table = self.left()
        there = pathlib.Path(table) / "_incoming" / FOREIGN
        there.chmod(0o777)
        result = self.tinydelta_fails("recover", table, "--from", FOREIGN)
        self.assertIn("is not this user's alone", result.error)
        self.assertEqual(len(os.listdir(there)), 4)

    def test_root_takes_over_another_users(self):
        self.require_root()
        table = self.left()
        there = pathlib.Path(table) / "_incoming" / FOREIGN
        for path in (there, *there.iterdir()):
            os.chown(path, 4001, 4001)
        self.assertEqual({fields[2] for fields in self.waiting(table)}, {"user 4001"})
        self.tinydelta("recover", table, "--from", FOREIGN)
        self.assertEqual([fields[1:3] for fields in self.waiting(table)], [["dead", "user 0"]])

    def test_refusals(self):
        table = self.left()
        for name in ("", "..", "x", "../" + FOREIGN, FOREIGN[:-1] + "/", FOREIGN[:-3] + "/.x"):
            result = self.tinydelta_fails("recover", table, "--from", name)
            self.assertIn("no folder of", result.error)
        result = self.tinydelta_fails("recover", table, "--from", FOREIGN[:-1] + "8")
        self.assertIn("No such file or directory", result.error)
        self.assertIn("needs --from", self.tinydelta_fails("recover", table, "--dry-run", status=2).error)
        # Behind damage nobody knows what was published.
        (pathlib.Path(table) / "_delta_log" / f"{1:020d}.json").write_bytes(b"{")
        self.tinydelta_fails("recover", table, "--from", FOREIGN)
        self.assertEqual(len(os.listdir(pathlib.Path(table) / "_incoming" / FOREIGN)), 4)

    def test_json(self):
        table = self.left()
        lines = self.tinydelta("recover", table, "--from", FOREIGN, "--json").text.splitlines()
        said = [json.loads(line) for line in lines]
        self.assertEqual(said[-1], {"recovered": 1})
        self.assertEqual({s["name"] for s in said[:-1]}, {"half.jsonl", "done.jsonl"})
        self.assertEqual({s["state"] for s in said[:-1]}, {"unknown"})
