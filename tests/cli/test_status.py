# SPDX-License-Identifier: MIT
"""tinydelta status: the newest version, what waits and why, where it is mounted, what takes space."""

import json
import os

from harness import TestCase


class Status(TestCase):
    def said(self, table, **how):
        return json.loads(self.tinydelta("status", table, "--json", **how).text)

    def test_a_table(self):
        table = self.table(rows=[{"id": 1}, {"id": 2}])
        said = self.said(table)
        stamp = self.commit(table, 1)[0]["commitInfo"]["timestamp"]
        self.assertEqual(
            {k: said[k] for k in ("table", "version", "operation", "timestamp", "numRecords", "size", "files")},
            {"table": str(table), "version": 1, "operation": "APPEND", "timestamp": stamp,
             "numRecords": 2, "size": 18, "files": 1},
        )
        self.assertEqual((said["damage"], said["incoming"], said["mounts"]), (None, [], []))
        text = self.tinydelta("status", table, env={"TZ": "Asia/Kolkata"}).text
        self.assertIn("newest  v1 (APPEND), ", text)
        self.assertIn("holds   2 rows, 18 B in 1 file\n", text)
        self.assertIn("times   in IST (UTC+05:30)\n", text)
        self.assertNotIn("\nincoming\n", text)

    def test_space(self):
        table = self.table()
        for _ in range(3):
            self.tinydelta("overwrite", table, "--file", self.file(b'{"id":1}\n' * 100000))
        said = self.said(table)
        self.assertEqual(said["size"], 900000)
        # All versions' data files: what only the oldest has, too.
        self.assertGreaterEqual(said["space"]["data"], 2700000)
        self.assertGreater(said["space"]["log"], 0)

    def test_damage(self):
        table = self.table(rows=[{"id": 1}])
        log = table / "_delta_log" / f"{2:020d}.json"
        log.write_bytes(b"{")
        self.assertIn("version 2 is damaged", self.said(table)["damage"])
        self.assertIn("damage  version 2 is damaged", self.tinydelta("status", table).text)

    def test_what_waits_and_where_it_is_mounted(self):
        self.require_fuse()
        table = self.table()
        with self.mount(table) as mnt:
            with self.assertRaises(OSError):
                (mnt / "incoming/bad\x1b[1m").write_bytes(b'{"id":1}\n{"id":"x"}\n')
            (mnt / "incoming/.later.tmp").write_bytes(b'{"id":1}\n')
            mnt.expect_log("incoming/bad.*: ")
            said = self.said(table)
            self.assertEqual(said["mounts"], [str(mnt)])
            found = {waiting["name"]: waiting for waiting in said["incoming"]}
            bad, later = found["bad\\x1b[1m"], found[".later.tmp"]
            self.assertEqual((bad["state"], bad["size"]), ("refused", 20))
            self.assertIn('"id" expected int, got string "x"', bad["reason"])
            self.assertEqual((later["state"], later["reason"], later["user"]), ("open", None, os.geteuid()))
            text = self.tinydelta("status", table).text
            self.assertIn("\nincoming\n", text)
            self.assertRegex(text, r'  bad\\x1b\[1m  20 B, [0-9]+ s ago: refused, .*expected int')
            self.assertIn("waits to be written to the end, or for another name", text)
            self.assertIn(f"\nmounted here at\n  {mnt}\n", text)
            self.assertNotIn("\x1b", text)
        said = self.said(table)
        self.assertEqual(said["mounts"], [])
        self.assertEqual({w["name"]: w["state"] for w in said["incoming"]},
                         {"bad\\x1b[1m": "refused", ".later.tmp": "left"})
        self.assertIn("left by a mount that is gone; the next one lists it", self.tinydelta("status", table).text)
