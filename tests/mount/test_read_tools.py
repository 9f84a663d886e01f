# SPDX-License-Identifier: MIT
"""Everyday tools on a mount: what they copy is what was committed, and none takes two versions
for one file or sees anything change."""

import json
import os
import pathlib

from harness import TestCase, program


class Tools(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.table_path = self.golden("orders")
        self.count = self.golden_versions("orders")

    def whole(self, version):
        return self.expected("orders", f"v{version}.jsonl")

    def check_copy(self, folder, with_latest=True):
        folder = pathlib.Path(folder)
        for version in range(self.count):
            copy = folder / f"v{version}/data.jsonl"
            self.assertEqual(copy.read_bytes(), self.whole(version), copy)
            self.assertEqual(copy.stat().st_nlink, 1, copy)
        if with_latest:
            self.assertEqual((folder / "latest/data.jsonl").read_bytes(), self.whole(self.count - 1))

    def test_cp(self):
        with self.mount(self.table_path) as mnt:
            copy = self.path()
            self.ok(["cp", "-a", mnt, copy])
            self.check_copy(copy)
            for version in range(self.count):
                ours, theirs = os.stat(mnt / f"v{version}/data.jsonl"), os.stat(
                    copy / f"v{version}/data.jsonl"
                )
                self.assertEqual(ours.st_mtime_ns, theirs.st_mtime_ns)
            single = self.path()
            self.ok(["cp", "--sparse=always", mnt / "v1/data.jsonl", single])
            self.assertEqual(single.read_bytes(), self.whole(1))

    def test_tar(self):
        with self.mount(self.table_path) as mnt:
            archive, copy = self.path(), self.path()
            said = self.ok(["tar", "cf", archive, "-C", mnt, "."])
            self.assertEqual(said.error, "")
            self.assertNotIn("link to", self.ok(["tar", "tvf", archive]).text)
            copy.mkdir()
            self.ok(["tar", "xf", archive, "-C", copy])
            self.check_copy(copy)

    def test_rsync(self):
        self.require_tool("rsync")
        with self.mount(self.table_path) as mnt:
            copy = self.path()
            # incoming/ changes when something is dropped, or a mount begins.
            most = ["--exclude=/incoming", f"{mnt}/", copy]
            self.assertEqual(self.ok(["rsync", "-aH", *most]).error, "")
            self.check_copy(copy)
            # A second run finds nothing to do: sizes and times are what they were.
            for options in ("-anHi", "-acnHi"):
                self.assertEqual(self.ok(["rsync", options, *most]).text, "")
        with self.mount(self.table_path, mnt.point):
            self.assertEqual(self.ok(["rsync", "-anHi", *most]).text, "")

    def test_diff(self):
        table = self.table(rows=[{"id": 1}])
        self.append(table, [{"id": 2}])
        self.tinydelta("restore", table, "--version", "1")
        with self.mount(table) as mnt:
            self.assertEqual(self.ok(["diff", "-r", mnt / "v1", mnt / "v3"]).text, "")
            self.assertEqual(self.ok(["diff", mnt / "v3/data.jsonl", mnt / "latest/data.jsonl"]).text, "")
            self.ok(["cmp", mnt / "v1/data.jsonl", mnt / "v3/data.jsonl"])
            said = self.fails(["diff", "-r", mnt / "v1", mnt / "v2"], status=1)
            self.assertIn('> {"id":2}', said.text)

    def test_grep(self):
        with self.mount(self.table_path) as mnt:
            found = self.ok(["grep", "-rc", "region", mnt / "v1"]).text
            rows = self.whole(1).count(b"\n")
            self.assertEqual(found, f"{mnt}/v1/data.jsonl:{rows}\n")

    def test_find(self):
        with self.mount(self.table_path) as mnt:
            found = self.ok(["find", mnt, "-name", "data.jsonl"]).text.split()
            self.assertEqual(len(found), self.count + 1)
            newer = self.ok(
                ["find", mnt, "-mindepth", "1", "-maxdepth", "1", "-name", "v*"]
                + ["-newer", mnt / "v1"]
            ).text.split()
            self.assertEqual(sorted(newer), [f"{mnt}/v{v}" for v in range(2, self.count)])
            said = self.ok(["find", mnt, "-type", "f", "-exec", "sha256sum", "{}", "+"])
            # data.jsonl and a record of each version and of the newest, history.jsonl, at/README.
            self.assertEqual(len(said.text.splitlines()), 2 * (self.count + 1) + 2)

    def test_du(self):
        with self.mount(self.table_path) as mnt:
            for version in range(self.count):
                size = len(self.whole(version))
                said = self.ok(["du", "-b", mnt / f"v{version}/data.jsonl"]).text.split()[0]
                self.assertEqual(int(said), size)
                blocks = self.ok(["du", "-B1", mnt / f"v{version}/data.jsonl"]).text.split()[0]
                self.assertLess(int(blocks) - size, 513)
                self.assertGreaterEqual(int(blocks), size)

    def test_jq(self):
        self.require_tool("jq")
        with self.mount(self.table_path) as mnt:
            said = self.ok(["jq", "-c", ".region", mnt / "latest/data.jsonl"]).text.split("\n")
            wanted = [json.loads(row)["region"] for row in self.whole(self.count - 1).splitlines()]
            self.assertEqual([json.loads(line) for line in said if line], wanted)
            said = self.ok(["jq", ".version", mnt / "history/latest.json"]).text
            self.assertEqual(int(said), self.count - 1)

    def test_make(self):
        self.require_tool("make")
        rule = self.file("out: mnt/v1/data.jsonl\n\tcp $< $@\n", "Makefile")
        with self.mount(self.table_path, self.path("mnt")):
            self.ok(["make", "-f", rule, "out"], cwd=self.scratch)
            said = self.ok(["make", "-f", rule, "out"], cwd=self.scratch)
            self.assertIn("up to date", said.text)

    def test_tail(self):
        table = self.table(rows=[{"id": 1}])
        with self.mount(table) as mnt:
            said = self.ok(["tail", "-n", "1", mnt / "latest/data.jsonl"])
            self.assertEqual(said.out, b'{"id":1}\n')
            script = (
                'timeout 20 tail ---disable-inotify -F -s 0.05 -n 0 "$1/latest/data.jsonl" 2>/dev/null |'
                ' { (sleep 0.3; "$2" append "$3" --file "$4" >/dev/null) & grep -m1 \'"id":2\'; }'
            )
            self.sh(script, mnt, program("tinydelta"), table, self.file([{"id": 2}]))
