# SPDX-License-Identifier: MIT
"""Whatever a program does to a file in incoming/, its bytes are those of a plain file after the same
calls: they are committed as they are, or refused."""

import json
import os
import time

import harness
from harness import TestCase

# By hand: TDL_SAME_BYTES_ROUNDS=100000.
ROUNDS = int(os.environ.get("TDL_SAME_BYTES_ROUNDS", "2000"))
SEED = int(os.environ.get("TDL_SAME_BYTES_SEED", time.time_ns() % 1000000))
PROCESSES = 4


class SameBytes(TestCase):
    needs_fuse = True

    def committed(self, table):
        """Of each commit by the name that was dropped: the size and checksum of its data file."""
        found = {}
        for entry in sorted((table / "_delta_log").glob("0*.json"))[1:]:
            actions = {}
            for line in entry.read_text().splitlines():
                actions.update(json.loads(line))
            name = actions["commitInfo"]["source"]
            self.assertNotIn(name, found, "committed twice")
            found[name] = (actions["add"]["size"], actions["add"]["crc32c"])
        return found

    def test_any_order_of_calls(self):
        table = self.table("i:int")
        plain = self.path("plain")
        plain.mkdir()
        program = harness.build_root() / "tests/mount/same_bytes"
        print(f"# seed {SEED}, {ROUNDS} files", flush=True)
        with self.mount(table) as mnt:
            mnt.allow_log(r"incoming/\d+-\d+:\d+: ")
            result = self.ok(
                [program, mnt / "incoming", plain, str(SEED), str(ROUNDS), str(PROCESSES)],
                timeout=150 + ROUNDS // 10,
            )
            self.assertEqual(mnt.names("incoming"), [])
        accepted = {}
        for line in result.text.splitlines():
            name, size, checksum = line.split()
            accepted[name] = (int(size), int(checksum))
        self.assertGreater(len(accepted), ROUNDS // 20)
        self.assertEqual(self.committed(table), accepted)
        self.tinydelta("check", table)
