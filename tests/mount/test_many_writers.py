# SPDX-License-Identifier: MIT
"""Many programs drop files at once, while a reader compares everything with its first look."""

import json
import subprocess

import harness
from harness import TestCase


class ManyWriters(TestCase):
    needs_fuse = True
    LOOPS, FILES = 8, 100

    def test_loops_of_cp(self):
        table = self.table()
        drops = self.path("drops")
        drops.mkdir()
        for loop in range(self.LOOPS):
            for number in range(self.FILES):
                row = b'{"id":%d}\n' % (loop * self.FILES + number)
                (drops / f"{loop}-{number}.jsonl").write_bytes(row)
        with self.mount(table) as mnt:
            loops = [
                subprocess.Popen(
                    ["bash", "-c", 'for ((i = 0; i < $3; i++)); do cp "$1-$i.jsonl" "$2" || exit; done']
                    + ["bash", drops / str(loop), mnt / "incoming/", str(self.FILES)],
                    stderr=subprocess.PIPE,
                )
                for loop in range(self.LOOPS)
            ]
            for loop in loops:
                self.addCleanup(loop.kill)
            seen, newest = {}, 0
            while any(loop.poll() is None for loop in loops):
                head = json.loads(mnt.read("history/latest.json"))["version"]
                self.assertGreaterEqual(head, newest, "latest went back")
                newest = head
                # All that is new, and something old.
                for version in {*range(len(seen), head + 1), head // 2}:
                    data = mnt.read(f"v{version}/data.jsonl")
                    self.assertEqual(seen.setdefault(version, data), data, f"v{version} changed")
                    self.assertEqual(data.count(b"\n"), version)
            for loop in loops:
                _, err = loop.communicate(timeout=harness.SOON)
                self.assertEqual((loop.returncode, err), (0, b""))
            self.assertEqual(mnt.names("incoming"), [])
            total = self.LOOPS * self.FILES
            self.assertEqual(self.versions(table), list(range(total + 1)))
            whole = mnt.read("latest/data.jsonl")
            ids = sorted(json.loads(line)["id"] for line in whole.splitlines())
            self.assertEqual(ids, list(range(total)))
            for version, data in seen.items():
                self.assertTrue(whole.startswith(data), f"v{version} is not how v{total} begins")
