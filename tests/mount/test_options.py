# SPDX-License-Identifier: MIT
"""Options of tinydeltafs: one version alone, another owner and other modes, a log file."""

import errno
import os
import re

import harness
from harness import TestCase, program

OTHER = 1234
NOBODY = 65534


class Options(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.t = self.table("i:int", rows=[{"i": 1}], name="table")
        self.append(self.t, [{"i": 2}])

    def fails_to_mount(self, options, says, status=1):
        point = self.path()
        point.mkdir()
        result = self.fails([program("tinydeltafs"), self.t, point, "-o", options], status=status)
        self.assertRegex(result.error, rf"\Atinydeltafs: [^\n]*{says}[^\n]*\n\Z", str(result))
        self.assertFalse(os.path.ismount(point))


class OneVersion(Options):
    def test_its_directory_is_the_root(self):
        with self.mount(self.t, options=["version=1"]) as mnt:
            self.assertEqual(mnt.names(), ["data.jsonl"])
            self.assertEqual(mnt.read("data.jsonl"), b'{"i":1}\n')
            stamp = self.commit(self.t, 1)[0]["commitInfo"]["timestamp"]
            for path in (mnt.point, mnt / "data.jsonl"):
                self.assertEqual(os.stat(path).st_mtime_ns // 10**6, stamp)
            for name in ("v1", "v2", "latest", "incoming", "history", "data.jsonl/x"):
                with self.assertRaises(OSError):
                    os.stat(mnt / name)
            said = self.ok(["find", mnt, "-ls"]).text
            self.assertEqual(len(said.splitlines()), 2)
            self.ok(["cp", "-a", f"{mnt}/.", self.path("copy")])
            self.assertEqual(self.path("copy").joinpath("data.jsonl").read_bytes(), b'{"i":1}\n')

    def test_it_stays_what_it_is(self):
        with self.mount(self.t, options=["version=2"]) as mnt:
            before = os.stat(mnt / "data.jsonl")
            self.append(self.t, [{"i": 3}])
            self.tinydelta("restore", self.t, "--version", 0)
            self.assertEqual(mnt.read("data.jsonl"), b'{"i":1}\n{"i":2}\n')
            self.assertEqual(os.stat(mnt / "data.jsonl"), before)
            with self.mount(self.t) as whole:
                # The same inode number as in a mount of everything.
                self.assertEqual(os.stat(whole / "v2/data.jsonl").st_ino, before.st_ino)

    def test_an_empty_version(self):
        with self.mount(self.t, options=["version=0"]) as mnt:
            self.assertEqual(mnt.read("data.jsonl"), b"")

    def test_nothing_can_be_written(self):
        before = sorted(p.name for p in self.t.rglob("*"))
        for options in (["version=1"], ["version=1", "rw"]):
            with self.mount(self.t, options=options) as mnt:
                with open("/proc/self/mounts", encoding="utf-8") as mounts:
                    (line,) = [m for m in mounts if f" {mnt} " in m]
                self.assertRegex(line, r" fuse\.tinydeltafs ro,")
                for change in (
                    lambda: (mnt / "new").write_bytes(b""),
                    lambda: (mnt / "data.jsonl").write_bytes(b""),
                    lambda: os.mkdir(mnt / "d"),
                    lambda: os.unlink(mnt / "data.jsonl"),
                    lambda: os.chmod(mnt.point, 0o777),
                ):
                    with self.assertRaises(OSError) as refused:
                        change()
                    self.assertEqual(refused.exception.errno, errno.EROFS)
        self.assertEqual(sorted(p.name for p in self.t.rglob("*")), before)

    def test_no_such_version(self):
        self.fails_to_mount("version=3", "no such version: 3")
        self.fails_to_mount("version=9223372036854775807", "no such version")
        self.fails_to_mount("version=2~3", "no such version: 2~3")
        self.fails_to_mount("version=x", "no such tag: x")
        self.fails_to_mount("version=head", 'not a version: "head"')
        self.fails_to_mount("version=@2020-01-01", "no version of .* at 2020-01-01")
        self.fails_to_mount("version=", 'option version: "" is not valid', status=2)

    def test_a_version_by_any_name(self):
        for text, rows in (("v1", 1), ("latest", 2), ("latest~1", 1), ("@-0s~2", 0)):
            with self.mount(self.t, options=[f"version={text}"]) as mnt:
                self.assertEqual(mnt.read("data.jsonl").count(b"\n"), rows, text)
                # What it named at the mount it stays.
                if text == "latest":
                    self.append(self.t, [{"i": 3}])
                    self.assertEqual(mnt.read("data.jsonl").count(b"\n"), rows)
                    (self.t / "_delta_log" / f"{3:020d}.json").unlink()

    def test_a_damaged_version(self):
        (self.t / "_delta_log" / f"{2:020d}.json").write_text("{")
        self.fails_to_mount("version=2", "00000000000000000002.json")
        with self.mount(self.t, options=["version=1"]) as mnt:
            self.assertEqual(mnt.read("data.jsonl"), b'{"i":1}\n')
        (part,) = [a["add"]["path"] for a in self.commit(self.t, 1) if "add" in a]
        (self.t / part).unlink()
        self.fails_to_mount("version=1", re.escape(part))

    def test_in_the_background(self):
        point = self.path()
        point.mkdir()
        self.addCleanup(harness.run, ["umount", "-l", point])
        self.ok([program("tinydeltafs"), self.t, point, "-o", "version=1"])
        self.assertEqual(os.listdir(point), ["data.jsonl"])
        self.ok(["umount", point])


class Shown(Options):
    """uid=, gid=, umask="""

    def setUp(self):
        super().setUp()
        self.require_root()
        self.t.chmod(0o700)

    def stat(self, path):
        st = os.stat(path)
        return st.st_uid, st.st_gid, oct(st.st_mode & 0o7777)

    def test_owner(self):
        with self.mount(self.t, options=["allow_other", f"uid={OTHER}", f"gid={OTHER + 1}"]) as mnt:
            for name, mode in (
                ("", "0o500"), ("v1", "0o500"), ("v1/data.jsonl", "0o400"), ("latest", "0o500"),
                ("history/v1.json", "0o400"), ("incoming", "0o700"),
            ):
                self.assertEqual(self.stat(mnt / name), (OTHER, OTHER + 1, mode), name)
            said = self.ok(["cat", mnt / "v1/data.jsonl"], user=OTHER)
            self.assertEqual(said.out, b'{"i":1}\n')
            self.fails(["cat", mnt / "v1/data.jsonl"], user=NOBODY)
            row = self.file([{"i": 3}])
            self.ok(["cp", row, mnt / "incoming/"], user=OTHER)
            self.fails(["cp", row, mnt / "incoming/other"], user=NOBODY)
            self.assertEqual(mnt.read("latest/data.jsonl")[-8:], b'{"i":3}\n')
        # What is written belongs to the table's owner all the same.
        self.assertEqual({p.stat().st_uid for p in self.t.glob("part-*")}, {0})

    def test_mask(self):
        for mask, directory, file, incoming in (
            ("077", "0o500", "0o400", "0o700"),
            ("022", "0o555", "0o444", "0o755"),
            ("027", "0o550", "0o440", "0o750"),
            ("0", "0o555", "0o444", "0o1777"),
        ):
            with self.mount(self.t, options=["allow_other", f"umask={mask}"]) as mnt:
                self.assertEqual(self.stat(mnt.point)[2], directory)
                self.assertEqual(self.stat(mnt / "v1")[2], directory)
                self.assertEqual(self.stat(mnt / "v1/data.jsonl")[2], file)
                self.assertEqual(self.stat(mnt / "incoming")[2], incoming)
                readable = mask in ("022", "0")
                result = harness.run(["cat", mnt / "v1/data.jsonl"], user=NOBODY)
                self.assertEqual(result.status == 0, readable, str(result))
                for path in (mnt / "v1/data.jsonl", mnt / "v1/new"):
                    result = self.fails(["sh", "-c", 'echo >> "$0"', path], status=None)

    def test_others_stay_out(self):
        """Root mounts for one user alone."""
        with self.mount(self.t, options=["allow_other", f"uid={OTHER}", "umask=077"]) as mnt:
            self.ok(["cat", mnt / "v1/data.jsonl"], user=OTHER)
            result = self.fails(["cat", mnt / "v1/data.jsonl"], user=OTHER + 1)
            self.assertIn("Permission denied", result.error)
            result = self.fails(["cp", self.file([{"i": 3}]), f"{mnt}/incoming/"], user=OTHER + 1)
            self.assertIn("Permission denied", result.error)
        self.assertEqual(self.versions(self.t), [0, 1, 2])

    def test_one_version_for_everyone(self):
        with self.mount(self.t, options=["version=1", "allow_other", "umask=0"]) as mnt:
            self.assertEqual(self.stat(mnt.point)[2], "0o555")
            self.ok(["cat", mnt / "data.jsonl"], user=NOBODY)


class Log(Options):
    LINE = r"[0-9]{4}-[01][0-9]-[0-3][0-9] [0-9:]{8}\.[0-9]{3} tinydeltafs\[[0-9]+\]: "

    def damage(self):
        (part,) = [a["add"]["path"] for a in self.commit(self.t, 1) if "add" in a]
        os.truncate(self.t / part, 3)
        return part

    def test_to_a_file(self):
        log = self.file("before\n", "log")
        part = self.damage()
        point = self.path()
        point.mkdir()
        self.addCleanup(harness.run, ["umount", "-l", point])
        self.ok([program("tinydeltafs"), "table", point, "-o", "log=log"], cwd=self.scratch)
        with self.assertRaises(OSError):
            (point / "v1/data.jsonl").read_bytes()
        self.ok(["umount", point])
        lines = log.read_text().splitlines()
        self.assertEqual(lines[0], "before")
        self.assertRegex(lines[1], rf"\A{self.LINE}.*{part}")
        for line in lines[1:]:
            self.assertRegex(line, rf"\A{self.LINE}")

    def test_copied_and_truncated(self):
        log = self.path("log")
        point = self.path()
        point.mkdir()
        self.addCleanup(harness.run, ["umount", "-l", point])
        part = self.damage()
        self.ok([program("tinydeltafs"), self.t, point, "-o", f"log={log}"])
        self.assertEqual(log.read_bytes(), b"")
        harness.run(["cat", point / "v1/data.jsonl"])
        self.wait_for(lambda: part in log.read_text(), "a line in the log")
        os.truncate(log, 0)
        harness.run(["cat", point / "v2/data.jsonl"])
        self.wait_for(lambda: part in log.read_text(), "another line")
        self.assertRegex(log.read_text(), rf"\A{self.LINE}.*{part}")
        self.assertEqual(log.stat().st_mode & 0o777 & ~0o640, 0)
        self.ok(["umount", point])

    def test_in_the_foreground_it_is_said_twice(self):
        log = self.path("log")
        mount = self.mount(self.t, options=[f"log={log}"])
        part = self.damage()
        mount.expect_log(part)
        with mount as mnt:
            with self.assertRaises(OSError):
                mnt.read("v1/data.jsonl")
        self.assertIn(part, log.read_text())

    def test_names_with_everything(self):
        log = self.path("a, \"log\"\\ file")
        name = str(log).replace("\\", "\\\\").replace(",", "\\,")
        with self.mount(self.t, options=[f"log={name}"]):
            self.assertEqual(log.read_bytes(), b"")

    def test_why_it_failed_is_in_it_too(self):
        log = self.path("log")
        self.fails_to_mount(f"log={log},version=7", "no such version: 7")
        self.assertIn("no such version: 7", log.read_text())

    def test_no_file(self):
        self.fails_to_mount(f"log={self.scratch}", "Is a directory")
        self.fails_to_mount(f"log={self.path()}/x", "No such file")
        os.mkfifo(self.path("fifo"))
        self.fails_to_mount(f"log={self.path('fifo')}", "fifo")
        self.fails_to_mount("log=", 'option log: "" is not valid', status=2)
