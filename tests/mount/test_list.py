# SPDX-License-Identifier: MIT
"""-o list=N: what is listed is less, what opens is the same."""

import os

from harness import TestCase


class Listed(TestCase):
    def setUp(self):
        super().setUp()
        self.t = self.table(rows=[{"id": 1}])
        for n in range(2, 6):
            self.append(self.t, [{"id": n}])

    def test_how_many_are_listed(self):
        folders = ["at", "history", "incoming", "latest"]
        for value, first in (("all", 0), ("6", 0), ("99", 0), ("9223372036854775807", 0), ("5", 1), ("1", 5), ("0", 6)):
            with self.subTest(value=value), self.mount(self.t, options=[f"list={value}"]) as mnt:
                shown = range(first, 6)
                grows = [] if value == "0" else ["history.jsonl"]
                self.assertEqual(mnt.names(), sorted([*folders, *grows, *(f"v{n}" for n in shown)]))
                self.assertEqual(mnt.names("history"), sorted(["latest.json", *(f"v{n}.json" for n in shown)]))
                for version in range(6):
                    self.assertEqual(mnt.read(f"v{version}/data.jsonl").count(b"\n"), version)
                    self.assertIn(b'"version":', mnt.read(f"history/v{version}.json"))
                self.assertEqual(mnt.read("history.jsonl").count(b"\n"), 6)

    def test_a_search_reads_what_is_listed(self):
        with self.mount(self.t, options=["list=2"]) as mnt:
            found = self.ok(["grep", "-rl", '"id":1', mnt]).text.split()
            self.assertEqual(sorted(os.path.relpath(f, mnt) for f in found), ["latest/data.jsonl", "v4/data.jsonl", "v5/data.jsonl"])

    def test_it_goes_with_the_newest(self):
        with self.mount(self.t, options=["list=1"]) as mnt:
            self.append(self.t, [{"id": 6}])
            self.assertEqual([n for n in mnt.names() if n[0] == "v"], ["v6"])

    def test_versions_behind_damage_are_the_newest(self):
        (self.t / "_delta_log" / f"{4:020}.json").write_text("x")
        for value, shown in (("1", [3, 4, 5]), ("2", [2, 3, 4, 5]), ("0", [])):
            with self.subTest(value=value), self.mount(self.t, options=[f"list={value}"]) as mnt:
                mnt.allow_log(".*")
                self.assertEqual([n for n in mnt.names() if n[0] == "v"], [f"v{n}" for n in shown])

    def test_one_version_alone_is_what_it_was(self):
        with self.mount(self.t, options=["version=2,list=0"]) as mnt:
            self.assertEqual(mnt.names(), ["data.jsonl"])
