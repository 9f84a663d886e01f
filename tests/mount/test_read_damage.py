# SPDX-License-Identifier: MIT
"""A damaged table: what is whole stays readable, what is not is an I/O error with a line in the
log, and latest never falls back to an older version."""

import errno
import json
import os
import pathlib
import shutil
import time

from harness import TestCase

AT_START = r"^tinydeltafs: [^:]*: (version \d+ is damaged|gap in the log): "  # said by the mount itself
ROWS = [b'{"id":0}\n', b'{"id":1}\n', b'{"id":2}\n']


class Damage(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.table_path = self.table()
        for rows in ROWS:
            self.append(self.table_path, rows)

    def log_file(self, version):
        return self.table_path / "_delta_log" / f"{version:020d}.json"

    def test_a_commit_that_changes_under_a_mount(self):
        """It was read from the log, or the index said what it is: both are looked at again, and a
        mount that has found nothing wrong goes on looking."""
        self.tinydelta("history", self.table_path)
        with self.mount(self.table_path, env={"TINYDELTAFS_VERIFY_MS": "50"}) as mnt:
            (mnt / "incoming/mine").write_bytes(b'{"id":3}\n')
            self.append(self.table_path, b'{"id":4}\n')
            self.assertEqual(mnt.read("latest/data.jsonl").count(b"\n"), 5)
            time.sleep(0.5)  # some passes, in which nothing is found
            self.assertEqual(mnt.log(), "")
            self.rewrite(4, alone=True, numRecords=2)
            mnt.expect_log("the log of .* was rewritten: version 4 is not what it was; mount anew")
            self.wait_for(lambda: mnt.log() != "", "the mount to notice it")
            self.assertEqual(len(mnt.log().splitlines()), 1)
            self.assertEqual(mnt.read("v3/data.jsonl"), b"".join(ROWS))
            self.fails_with_eio((mnt / "v4/data.jsonl").read_bytes)
            self.fails_with_eio((mnt / "latest/data.jsonl").read_bytes)
            mnt.expect_log("incoming/late: ")
            self.fails_with_eio(lambda: (mnt / "incoming/late").write_bytes(b'{"id":5}\n'))
            mnt.allow_log("v4|latest|version 4")
        self.assertEqual(self.versions(self.table_path)[-1], 5)

    def part(self, version):
        """The data file that a version added."""
        for action in self.commit(self.table_path, version):
            if "add" in action:
                return self.table_path / action["add"]["path"]
        raise AssertionError("no file added")

    def rewrite(self, version, alone=False, **changes):
        """Changes members of the add action of a commit, and drops what guards it: in it, and in
        those behind it, which vouch for it, unless it is to be changed alone."""
        behind = version
        while self.log_file(behind).exists() and not (alone and behind > version):
            actions = self.commit(self.table_path, behind)
            for name in ("crc32c", "actions", "previous", "engineInfo"):
                actions[0]["commitInfo"].pop(name, None)
            for action in actions:
                if behind == version and "add" in action:
                    action["add"].pop("crc32c", None)
                    action["add"].update(changes)
            text = "".join(json.dumps(action) + "\n" for action in actions)
            self.log_file(behind).write_text(text)
            behind += 1

    def fails_with_eio(self, call):
        with self.assertRaises(OSError) as caught:
            call()
        self.assertEqual(caught.exception.errno, errno.EIO, caught.exception)

    def check(self, readable, exists, *log, log_is_damaged=True):
        """The first `readable` versions are whole; those in `exists` are shown, and are EIO. The
        size of a version is what the log says: a stat need not look at its data files."""
        with self.mount(self.table_path) as mnt:
            mnt.expect_log(*log, *(f"v{version}/data.jsonl: " for version in exists))
            if log_is_damaged:
                mnt.expect_log(AT_START)
            for version in exists:
                path = mnt / f"v{version}/data.jsonl"
                self.assertTrue(path.parent.is_dir())
                self.fails_with_eio(path.read_bytes)
                self.assertEqual(os.listdir(path.parent), ["data.jsonl"])
                if log_is_damaged:
                    self.fails_with_eio(path.stat)
                    self.fails(["ls", "-l", path.parent], status=None)
            self.fails_with_eio((mnt / "latest/data.jsonl").read_bytes)
            if log_is_damaged:
                self.fails_with_eio((mnt / "latest/data.jsonl").stat)
            self.assertEqual(mnt.names("latest"), ["data.jsonl"])
            for version in range(readable):
                wanted = b"".join(ROWS[:version])
                self.assertEqual(mnt.read(f"v{version}/data.jsonl"), wanted)
            shown = [f"v{v}" for v in [*range(readable), *exists]]
            self.assertEqual(mnt.names(), sorted(["at", "history", "history.jsonl", "incoming", "latest", *shown]))
            # As a loop would: the log has a line for it, not a thousand.
            for _ in range(50):
                self.fails_with_eio((mnt / "latest/data.jsonl").read_bytes)
            self.assertLess(len(mnt.log().splitlines()), 20)
            for line in mnt.log().splitlines():
                self.assertTrue(line.startswith(f"tinydeltafs: {self.table_path}: "), line)

    # -- the log --

    def broken_commit(self, content, *log):
        self.log_file(2).write_bytes(content)
        self.check(2, [2, 3], "latest/data.jsonl: .*00000000000000000002.json", *log)

    def test_torn_commit(self):
        whole = self.log_file(2).read_bytes()
        self.broken_commit(whole[: len(whole) // 2])

    def test_commit_torn_at_a_line(self):
        whole = self.log_file(2).read_bytes()
        self.broken_commit(whole[: whole.index(b"\n") + 1])

    def test_empty_commit(self):
        self.broken_commit(b"")

    def test_commit_of_nul_bytes(self):
        self.broken_commit(b"\0" * len(self.log_file(2).read_bytes()))

    def test_commit_that_is_no_json(self):
        self.broken_commit(b"hello\n")

    def test_commit_of_other_bytes(self):
        whole = self.log_file(2).read_bytes()
        self.broken_commit(whole.replace(b'"numRecords":1', b'"numRecords":2'))

    def test_gap(self):
        self.log_file(2).unlink()
        self.check(2, [3], "latest/data.jsonl: ")

    def test_damage_that_comes_and_goes(self):
        with self.mount(self.table_path) as mnt:
            self.assertEqual(mnt.read("latest/data.jsonl"), b"".join(ROWS))
            whole = self.log_file(3).read_bytes()
            self.log_file(4).write_bytes(whole[:20])
            self.fails_with_eio((mnt / "latest/data.jsonl").read_bytes)
            self.assertTrue((mnt / "v4").is_dir())
            self.fails_with_eio((mnt / "v4/data.jsonl").read_bytes)
            self.assertEqual(mnt.read("v3/data.jsonl"), b"".join(ROWS))
            mnt.expect_log("latest/data.jsonl", "v4/data.jsonl")
            # The reason goes away, and so does the damage.
            self.log_file(4).unlink()
            self.assertEqual(mnt.read("latest/data.jsonl"), b"".join(ROWS))
            self.assertFalse((mnt / "v4").exists())
            self.append(self.table_path, b'{"id":3}\n')
            self.assertEqual(mnt.read("latest/data.jsonl"), b"".join(ROWS) + b'{"id":3}\n')
            self.assertEqual(mnt.read("v4/data.jsonl"), b"".join(ROWS) + b'{"id":3}\n')

    def test_commit_that_is_changed_later(self):
        """What was read of the log is kept: a version does not turn into another one."""
        with self.mount(self.table_path) as mnt:
            wanted = [mnt.read(f"v{version}/data.jsonl") for version in range(4)]
            self.rewrite(1, alone=True, path=self.part(2).name)
            whole = self.log_file(2).read_bytes()
            self.log_file(2).write_bytes(whole.replace(b'"numRecords":1', b'"numRecords":7'))
            for version in (3, 2, 1, 0):
                self.assertEqual(mnt.read(f"v{version}/data.jsonl"), wanted[version])
            # What is only in the commit itself is not there any more.
            mnt.expect_log("history/v2.json: .*is not what it was")
            self.fails_with_eio((mnt / "history/v2.json").read_bytes)
            self.assertEqual(json.loads(mnt.read("history/v3.json"))["numRecords"], 3)
            # Nor does it stay hidden from who begins afresh.
            self.tinydelta_fails("read", self.table_path)

    def test_history_behind_damage(self):
        self.log_file(2).write_bytes(b"")
        with self.mount(self.table_path) as mnt:
            mnt.expect_log("history/v2.json", "history/latest.json", "history/v3.json", AT_START)
            self.assertEqual(json.loads(mnt.read("history/v1.json"))["version"], 1)
            for name in ("v2", "v3", "latest"):
                self.fails_with_eio((mnt / f"history/{name}.json").read_bytes)
            self.assertEqual(len(mnt.names("history")), 5)

    # -- unsafe paths --

    def unsafe(self, path):
        target = self.path("elsewhere.jsonl")
        target.write_bytes(ROWS[1])
        self.rewrite(2, path=path.replace("TARGET", str(target)))
        self.check(2, [2, 3], "latest/data.jsonl: ")

    def test_path_that_climbs(self):
        self.unsafe("../elsewhere.jsonl")

    def test_path_that_climbs_in_its_middle(self):
        self.unsafe("a/../../elsewhere.jsonl")

    def test_absolute_path(self):
        self.unsafe("TARGET")

    def test_path_of_the_system(self):
        self.unsafe("/etc/passwd")

    def test_path_with_an_empty_component(self):
        self.unsafe("a//b")

    def test_path_with_a_dot(self):
        self.unsafe("./" + self.part(2).name)

    def test_empty_path(self):
        self.unsafe("")

    # -- data files --

    def broken_data(self):
        self.check(2, [2, 3], f"v2/data.jsonl: .*{self.part(2).name}", log_is_damaged=False)

    def test_missing_data_file(self):
        self.part(2).unlink()
        self.broken_data()

    def test_short_data_file(self):
        self.part(2).write_bytes(b'{"id":')
        self.broken_data()

    def test_long_data_file(self):
        self.part(2).write_bytes(ROWS[1] + b'{"id":9}\n')
        self.broken_data()

    def test_zeros_in_place_of_rows(self):
        """The right size, and nothing in it: what a crash leaves where nobody synced."""
        self.part(2).write_bytes(b"\0" * len(ROWS[1]))
        self.broken_data()

    def test_symbolic_link(self):
        part = self.part(2)
        target = self.path("elsewhere.jsonl")
        shutil.move(part, target)
        part.symlink_to(target)
        self.broken_data()

    def test_link_to_a_file_of_the_table(self):
        part = self.part(2)
        kept = self.table_path / "kept.jsonl"
        part.rename(kept)
        part.symlink_to("kept.jsonl")
        self.broken_data()

    def test_symbolic_link_on_the_way(self):
        part = self.part(2)
        elsewhere = self.path("folder")
        elsewhere.mkdir()
        shutil.move(part, elsewhere / "x.jsonl")
        (self.table_path / "sub").symlink_to(elsewhere)
        self.rewrite(2, path="sub/x.jsonl")
        self.check(2, [2, 3], "v2/data.jsonl: .*sub/x.jsonl", log_is_damaged=False)

    def test_fifo(self):
        part = self.part(2)
        part.unlink()
        os.mkfifo(part)
        self.broken_data()

    def test_directory(self):
        part = self.part(2)
        part.unlink()
        part.mkdir()
        self.broken_data()

    def test_data_file_in_a_folder(self):
        """Not damage: the log may name one."""
        part = self.part(2)
        (self.table_path / "sub").mkdir()
        part.rename(self.table_path / "sub/x.jsonl")
        self.rewrite(2, path="sub/x.jsonl")
        with self.mount(self.table_path) as mnt:
            self.assertEqual(mnt.read("latest/data.jsonl"), b"".join(ROWS))

    def test_cut_while_it_is_read(self):
        table = self.table(rows=[{"id": n} for n in range(200000)])
        part = next(pathlib.Path(table).glob("part-*.jsonl"))
        with self.mount(table) as mnt, open(mnt / "v1/data.jsonl", "rb", buffering=0) as file:
            mnt.expect_log("v1/data.jsonl: .*" + part.name)
            self.assertEqual(len(file.read(100)), 100)
            os.truncate(part, 4096)
            with self.assertRaises(OSError) as caught:
                while file.read(1 << 20):
                    pass
                # Where the kernel reads by itself, this is when it is noticed.
                file.close()
            self.assertEqual(caught.exception.errno, errno.EIO)

    def test_tools_say_so(self):
        self.part(2).unlink()
        with self.mount(self.table_path) as mnt:
            mnt.expect_log("v2/data.jsonl", "v3/data.jsonl")
            for argv in (
                ["cat", mnt / "v3/data.jsonl"],
                ["cp", mnt / "v3/data.jsonl", self.path()],
                ["grep", "-r", "id", mnt / "v2"],
                ["tar", "cf", self.path(), "-C", mnt, "v1", "v2"],
                ["rsync", "-a", f"{mnt}/v2/", self.path()],
                ["diff", "-r", mnt / "v1", mnt / "v2"],
            ):
                said = self.fails(argv, status=None)
                self.assertIn("Input/output error", said.error)
