# SPDX-License-Identifier: MIT
"""at/TIME: links to versions, and what tools make of them."""

import errno
import json
import os
import stat
import subprocess
import time

from harness import TestCase

# Version N is dated this plus N days.
DAY0 = 1_700_000_000_000
DAY = 86_400_000
# Any time behind version 2.
T = "2024-01-01T12:00Z"

# What is typed in the mount, and what then stands in "out": lines, or names and types of files.
SAME_AS_THE_VERSION = [
    "cat at/{T}/data.jsonl",
    "cd at/{T} && cat data.jsonl",
    "grep -rh id at/{T}/",
    "grep -rh id at/{T}",
    "cat $(find at/{T}/ -type f)",
    "cat $(find -L at/{T} -type f)",
    "cp -rL at/{T} {O}/a && cat {O}/a/data.jsonl",
    "cp -r at/{T}/ {O}/a && cat {O}/a/data.jsonl",
    "mkdir {O}/a && cp -r at/{T}/. {O}/a && cat {O}/a/data.jsonl",
    "tar -C at/{T}/ -cf {O}/a.tar . && tar -xOf {O}/a.tar ./data.jsonl",
    "tar -chf {O}/a.tar at/{T} && tar -xOf {O}/a.tar at/{T}/data.jsonl",
    "diff -r at/{T} v2 && cat v2/data.jsonl",
]

# Without the slash these take the link alone.
THE_LINK_ALONE = [
    "cp -r at/{T} {O}/a && readlink {O}/a",
    "cp -a at/{T} {O}/a && readlink {O}/a",
    "tar -cf {O}/a.tar at/{T} && tar -tvf {O}/a.tar | sed 's/.* -> //'",
    "find at/{T} -type l -printf '%l\\n'",
    "readlink at/{T}",
    "stat -c %N at/{T} | sed \"s/.*-> '//; s/'//\"",
]


class At(TestCase):
    def setUp(self):
        super().setUp()
        self.require_fuse()
        self.t = self.path("t")
        (self.t / "_delta_log").mkdir(parents=True)
        for version in range(3):
            info = {"timestamp": DAY0 + version * DAY, "operation": "APPEND", "readVersion": None}
            lines = [{"commitInfo": info}]
            if version == 0:
                schema = [{"name": "id", "type": "int"}]
                lines.append({"metaData": {"id": "11111111-2222-4333-8444-555555555555", "schema": schema}})
            else:
                row = f'{{"id":{version}}}\n'
                name = f"part-{version:032x}.jsonl"
                (self.t / name).write_text(row)
                lines.append({"add": {"path": name, "size": len(row), "numRecords": 1}})
            path = self.t / "_delta_log" / f"{version:020}.json"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def typed(self, mnt, command):
        out = self.path()
        out.mkdir()
        command = command.format(T=T, O=out)
        done = subprocess.run(["sh", "-ec", command], cwd=mnt, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr.decode()}")
        return done.stdout.decode()

    def test_what_tools_make_of_a_link(self):
        with self.mount(self.t) as mnt:
            rows = mnt.read("v2/data.jsonl").decode()
            for command in SAME_AS_THE_VERSION:
                with self.subTest(command=command):
                    self.assertEqual(self.typed(mnt, command), rows)
            for command in THE_LINK_ALONE:
                with self.subTest(command=command):
                    self.assertEqual(self.typed(mnt, command), "../v2\n")

    def test_rsync(self):
        self.require_tool("rsync")
        with self.mount(self.t) as mnt:
            rows = mnt.read("v2/data.jsonl").decode()
            self.assertEqual(self.typed(mnt, "rsync -a at/{T}/ {O}/a && cat {O}/a/data.jsonl"), rows)
            self.assertEqual(self.typed(mnt, "rsync -a at/{T} {O}/ && readlink {O}/{T}"), "../v2\n")

    def test_only_its_readme_is_listed(self):
        with self.mount(self.t, env={"TZ": "XYZ-5"}) as mnt:
            os.stat(mnt / "at" / T)
            self.assertEqual(mnt.names("at"), ["README"])
            self.assertIn("XYZ-5 (XYZ, UTC+0500", mnt.read("at/README").decode())
            self.assertEqual(os.stat(mnt / "at/README").st_size, len(mnt.read("at/README")))
            held = self.typed(mnt, "find . -type l")
            self.assertEqual(held, "")

    def test_names_that_tools_look_for_leave_no_trace(self):
        with self.mount(self.t) as mnt:  # the harness looks for unexpected lines in its log
            for name in (".git", ".hg", ".svn", ".Trash", ".Trash-0", ".DS_Store", "CVS", "autorun.inf", "x" * 255):
                self.assertFalse(os.path.lexists(mnt / "at" / name), name)
                self.assertFalse(os.path.lexists(mnt / "at" / T / name), name)

    def test_nothing_is_cached(self):
        with self.mount(self.t) as mnt:
            self.assertEqual(os.readlink(mnt / "at/-0s"), "../v2")
            self.append(self.t, [{"id": 3}])
            self.wait_for(lambda: os.readlink(mnt / "at/-0s") == "../v3", "the new version")
            soon = f"{time.time() + 0.3:.3f}".replace(".", "")
            self.assertFalse(os.path.lexists(mnt / "at" / soon), "it lies in the future")
            self.wait_for(lambda: os.path.lexists(mnt / "at" / soon), "it has come")

    def test_what_a_link_is(self):
        with self.mount(self.t) as mnt:
            found = os.lstat(mnt / "at" / T)
            self.assertTrue(stat.S_ISLNK(found.st_mode))
            self.assertEqual(stat.S_IMODE(found.st_mode), 0o777)
            self.assertEqual(found.st_size, len("../v2"))
            self.assertEqual(found.st_mtime_ns, os.stat(mnt / "v2").st_mtime_ns)
            self.assertEqual(found.st_ino, os.lstat(mnt / "at/2024-01-02").st_ino)
            self.assertEqual(os.stat(mnt / "at" / T).st_ino, os.stat(mnt / "v2").st_ino)
            for change in (
                lambda: os.unlink(mnt / "at" / T),
                lambda: os.symlink("../v1", mnt / "at" / "x"),
                lambda: os.rename(mnt / "at" / T, mnt / "at" / "x"),
                lambda: os.mkdir(mnt / "at" / "x"),
                lambda: open(mnt / "at" / "x", "w"),
            ):
                with self.assertRaises(OSError) as failure:
                    change()
                self.assertIn(failure.exception.errno, (errno.EROFS, errno.EACCES))

    def test_memory_does_not_grow_with_names(self):
        """The kernel and the daemon know one link a version, whatever its names."""
        with self.mount(self.t) as mnt:
            numbers = {os.lstat(mnt / "at" / str(DAY0 + n * (DAY // 500))).st_ino for n in range(1500)}
            self.assertEqual(len(numbers), 3)

    def test_damage_is_an_error(self):
        log = self.t / "_delta_log" / f"{2:020}.json"
        log.write_text("{\n")
        with self.mount(self.t) as mnt:
            mnt.allow_log(".*")
            with self.assertRaises(OSError) as failure:
                os.readlink(mnt / "at" / T)
            self.assertEqual(failure.exception.errno, errno.EIO)
            self.assertEqual(os.readlink(mnt / "at" / str(DAY0 + 1)), "../v0")
            self.assertFalse(os.path.lexists(mnt / "at" / str(DAY0 - 1)))

    def test_a_mount_of_one_version_has_none(self):
        with self.mount(self.t, options=["version=1"]) as mnt:
            self.assertEqual(mnt.names(), ["data.jsonl"])
            self.assertFalse(os.path.lexists(mnt / "at"))
