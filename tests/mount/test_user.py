# SPDX-License-Identifier: MIT
"""A mount by an ordinary user, through fusermount3: nothing of it needs root."""

import os

import harness
from users import NOBODY, UserCase


class OrdinaryUser(UserCase):
    def test_foreground(self):
        mount = self.mount(self.table_path, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            row = self.file([{"id": 1}], "row.jsonl")
            self.user(["cp", row, mnt / "incoming/"])
            self.assertEqual(self.user(["cat", mnt / "v1/data.jsonl"]).out, b'{"id":1}\n')
            self.assertEqual(self.user(["ls", mnt / "incoming"]).out, b"")
            self.user(["fusermount3", "-u", mnt])
            mnt.finish()

    def test_background(self):
        self.addCleanup(harness.run, ["umount", "-l", self.point])
        self.mine("tinydeltafs", self.table_path, self.point)
        # It serves when the command has returned.
        self.assertEqual(self.user(["ls", self.point]).text.split()[-1], "v0")
        self.user(["fusermount3", "-u", self.point])
        self.assertEqual(os.listdir(self.point), [])

    def test_others_do_not_see_it(self):
        mount = self.mount(self.table_path, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            said = self.fails(["ls", mnt], user=NOBODY - 1, status=None)
            self.assertIn("Permission denied", said.error)

    def test_a_table_that_may_only_be_read(self):
        table = self.table(rows=[{"id": 1}])
        mount = self.mount(table, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        mount.expect_log("nothing can be dropped: .*Permission denied")
        with mount as mnt:
            self.assertEqual(self.user(["cat", mnt / "latest/data.jsonl"]).out, b'{"id":1}\n')
            self.assertEqual(self.user(["ls", mnt / "incoming"]).out, b"")
            mode = self.user(["stat", "-c", "%a", mnt / "incoming"]).text
            self.assertEqual(mode, "555\n")
            row = self.file([{"id": 2}], "row.jsonl")
            self.fails(["cp", row, mnt / "incoming/"], user=NOBODY)
        self.assertEqual(self.versions(table), [0, 1])

    def test_a_large_version(self):
        """Passthrough, where libfuse has it, is for root: others are not even told."""
        rows = b"".join(b'{"id":%d}\n' % i for i in range(200000))
        self.mine("tinydelta", "append", self.table_path, "--file", self.file(rows))
        mount = self.mount(self.table_path, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            self.assertEqual(self.user(["cat", mnt / "v1/data.jsonl"]).out, rows)
            self.assertEqual(mnt.log(), "")
