# SPDX-License-Identifier: MIT
"""create, append, overwrite, restore: what they print, what they log, what they refuse."""

import os
import pathlib
import pwd
import re
import subprocess
import threading

import harness
from harness import TestCase

COLUMNS = ("id:int", "region:str", "year:int")
ROW = {"id": 1, "region": "north", "year": 2025}


class Create(TestCase):
    def test_says_the_path_as_the_python_package_does(self):
        said = self.tinydelta("create", "a/./b//c", "id:int", cwd=self.scratch)
        self.assertEqual((said.text, said.err), ("created a/b/c version 0\n", b""))
        self.assertEqual(self.versions(self.scratch / "a/b/c"), [0])
        for given in ("./n", "n2/", "n3//", "./././n4/./x//", "../" + self.scratch.name + "/n5", f"{self.scratch}//n6/.",
                      f"//{self.scratch}/n7", f"///{self.scratch}/n8", "...", ".n/..x"):
            said = self.tinydelta("create", given, "id:int", cwd=self.scratch)
            self.assertEqual(said.text, f"created {pathlib.PurePosixPath(given)} version 0\n")

    def test_columns(self):
        table = self.path()
        self.tinydelta("create", table, " id : int ", "a b:str", "\u00e9:float", 'q"\\:bool')
        said = self.tinydelta("describe", table).text.splitlines()
        self.assertEqual(said[0], "version 0")
        self.assertRegex(said[1], r"\Atable_id [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
        self.assertEqual(said[2:4], ["files 0", "num_records 0"])
        self.assertEqual(
            said[4:], ["  id:int", "  a b:str", "  \u00e9:float", '  q"\\:bool']
        )
        schema = self.commit(table, 0)[1]["metaData"]["schema"]
        self.assertEqual(schema[0], {"name": "id", "type": "int"})

    def test_refused_columns(self):
        for column in ("id", ":int", " :int", "id:", "id:INT", "id:int:x", "id:long", ""):
            self.tinydelta_fails("create", self.path("t"), column)
            self.assertFalse(self.path("t").exists(), column)
        self.tinydelta_fails("create", self.path("t"), "id:int", "id:str")
        self.tinydelta_fails("create", self.path("t"), b"\xff:int".decode(errors="surrogateescape"))
        self.assertFalse(self.path("t").exists())

    def test_refuses_what_is_there(self):
        file = self.file(b"kept")
        folder = self.path()
        folder.mkdir()
        for place in (file, folder, self.table()):
            self.tinydelta_fails("create", place, "id:int")
        self.assertEqual(file.read_bytes(), b"kept")
        self.assertEqual(os.listdir(folder), [])

    def test_many_columns(self):
        table = self.table(*(f"c{i}:int" for i in range(2000)))
        self.assertEqual(len(self.tinydelta("describe", table).text.splitlines()), 2004)


class Commits(TestCase):
    def test_what_is_said(self):
        table = self.table(*COLUMNS)
        file = self.file([ROW])
        said = [
            self.tinydelta("append", table, "--file", file),
            self.tinydelta("overwrite", table, "--file", file),
            self.tinydelta("append", "--file", file, table),
            self.tinydelta("restore", table, "--version", 1),
            self.tinydelta("restore", table, "--version", "000"),
        ]
        self.assertEqual(
            [s.text for s in said],
            [
                "appended as version 1\n",
                "overwrote as version 2\n",
                "appended as version 3\n",
                "restored version 1 as version 4\n",
                "restored version 0 as version 5\n",
            ],
        )
        self.assertEqual({s.err for s in said}, {b""})
        history = re.sub(r"ts=[0-9]+", "ts=MS", self.tinydelta("history", table).text)
        self.assertEqual(
            history,
            "v0  CREATE  readVersion=None  ts=MS\nv1  APPEND  readVersion=0  ts=MS\n"
            "v2  OVERWRITE  readVersion=1  ts=MS\nv3  APPEND  readVersion=2  ts=MS\n"
            "v4  RESTORE  readVersion=3  ts=MS\nv5  RESTORE  readVersion=4  ts=MS\n",
        )
        one = b'{"id":1,"region":"north","year":2025}\n'
        for version, rows in enumerate((b"", one, one, one + one, one, b"")):
            self.assertEqual(self.tinydelta("read", table, "--version", version).out, rows)
            self.assertEqual(self.data(table, version), rows)

    def test_restore_is_byte_for_byte(self):
        for name in self.golden_names():
            table = self.golden(name)
            head = self.golden_versions(name) - 1
            for version in range(head + 1):
                said = self.tinydelta("restore", table, "--version", version)
                head += 1
                self.assertEqual(said.text, f"restored version {version} as version {head}\n")
                wanted = self.expected(name, f"v{version}.jsonl")
                self.assertEqual(self.tinydelta("read", table).out, wanted)
                self.assertEqual(self.data(table, head), wanted)

    def test_who_and_where_from(self):
        table = self.table()
        self.tinydelta("append", table, "--file", self.file([{"id": 1}], "new rows.jsonl"))
        info = self.commit(table, 1)[0]["commitInfo"]
        self.assertEqual(info["userName"], pwd.getpwuid(os.geteuid()).pw_name)
        self.assertEqual(info["source"], "new rows.jsonl")
        self.tinydelta("overwrite", table, "--file", "-", input=b'{"id":2}')
        self.tinydelta("restore", table, "--version", 1)
        for version in (2, 3):
            info = self.commit(table, version)[0]["commitInfo"]
            self.assertEqual(info["userName"], pwd.getpwuid(os.geteuid()).pw_name)
            self.assertNotIn("source", info)

    def test_user_without_a_name(self):
        self.require_root()
        table = self.table()
        self.ok(["chown", "-R", "54321", table])
        file = self.file([{"id": 1}])
        self.tinydelta("append", table, "--file", file, user=54321)
        self.assertEqual(self.commit(table, 1)[0]["commitInfo"]["userName"], "54321")

    def test_rows_are_refused_together(self):
        table = self.table()
        for content, pattern in (
            (b'{"id":1}\n{"id":"x"}\n', r"f\.jsonl:2: .*expected int"),
            (b'{"id":1}\n\n{"id":1', r"f\.jsonl:3: "),
            (b'{"id":1,"more":2}\n', r"f\.jsonl:1: .*more"),
            (b"{}", r"f\.jsonl:1: "),
            (b"", r"f\.jsonl"),
            (b" \n\r\n", r"f\.jsonl"),
            (b"\x1f\x8b\x08\x00", r"f\.jsonl.*gzip"),
        ):
            file = self.file(content, "f.jsonl")
            for command in ("append", "overwrite"):
                result = self.tinydelta_fails(command, table, "--file", file)
                self.assertRegex(result.error, pattern)
                self.assertEqual(result.out, b"")
        self.assertEqual(self.versions(table), [0])
        self.assertEqual(list(table.glob("part-*")), [])
        self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n")


class Input(TestCase):
    def test_lines_that_end_with_cr_alone(self):
        table = self.table()
        rows = self.file(b'{"id":1}\r{"id":2}\r', "mac.jsonl")
        said = self.tinydelta_fails("append", table, "--file", rows).error
        self.assertRegex(said, r"mac\.jsonl:1: byte 10: a CR alone does not end a line; convert .*tr '\\r' '\\n'$")
        self.assertEqual(self.versions(table), [0])
        # In a row and before a newline it is white space.
        self.append(table, b'{"id":\r1}\r\n')

    def test_standard_input(self):
        table = self.table()
        said = self.tinydelta("append", table, "--file", "-", input=b'{"id":1}\n{"id":2}')
        self.assertEqual(said.text, "appended as version 1\n")
        with open(self.file([{"id": 3}]), "rb") as file:
            self.tinydelta("append", table, "--file=-", stdin=file)
        self.assertEqual(self.tinydelta("read", table).out, b'{"id":1}\n{"id":2}\n{"id":3}\n')
        result = self.tinydelta_fails("append", table, "--file", "-", input=b"\n{x")
        self.assertTrue(result.error.startswith("error: stdin:2: "), result.error)
        self.tinydelta_fails("append", table, "--file", "-", input=b"")
        folder = os.open(self.scratch, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        result = self.tinydelta_fails("append", table, "--file", "-", stdin=folder)
        self.assertEqual(result.error, "error: cannot read stdin: Is a directory\n")

    def test_fifo(self):
        table = self.table()
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        writer = threading.Thread(target=lambda: fifo.write_bytes(b'{"id":1}\n'))
        writer.start()
        self.tinydelta("append", table, "--file", fifo)
        writer.join()
        program = harness.program("tinydelta")
        self.sh('"$1" append "$2" --file <(echo "{\\"id\\":2}")', program, table)
        self.sh('echo "{\\"id\\":3}" | "$1" append "$2" --file /dev/stdin', program, table)
        self.assertEqual(self.tinydelta("read", table).out, b'{"id":1}\n{"id":2}\n{"id":3}\n')

    def test_what_is_no_input(self):
        table = self.table()
        for place, says in (
            (self.scratch, "is a directory"),
            ("/dev/zero", "is neither a regular file nor a FIFO"),
            (self.path("nonexistent"), "No such file or directory"),
            ("", "No such file or directory"),
            (f"{self.file(b'')}/x", "Not a directory"),
        ):
            result = self.tinydelta_fails("append", table, "--file", place)
            self.assertTrue(result.error.startswith(f"error: {place}: {says}"), result.error)
        self.assertEqual(self.versions(table), [0])

    def test_no_right_to_read(self):
        self.require_root()
        table = self.table()
        self.ok(["chown", "-R", "54321", table])
        file = self.file([{"id": 1}])
        file.chmod(0)
        result = self.tinydelta_fails("append", table, "--file", file, user=54321)
        self.assertEqual(result.error, f"error: {file}: Permission denied\n")

    def test_no_right_to_write(self):
        self.require_root()
        table = self.table()
        file = self.file([{"id": 1}])
        for words in (
            ("append", table, "--file", file),
            ("overwrite", table, "--file", file),
            ("restore", table, "--version", "0"),
        ):
            self.assertIn("Permission denied", self.tinydelta_fails(*words, user=54321).error)
        self.assertEqual(self.versions(table), [0])

    def test_a_read_only_file_system(self):
        self.require_root()
        table = self.table(rows=[{"id": 1}])
        self.ok(["mount", "--bind", table, table])
        self.addCleanup(harness.run, ["umount", "-l", table])
        self.ok(["mount", "-o", "remount,bind,ro", table])
        file = self.file([{"id": 2}])
        before = sorted((str(p), p.stat().st_mtime_ns) for p in table.rglob("*"))
        for words in (
            ("append", table, "--file", file),
            ("overwrite", table, "--file", file),
            ("restore", table, "--version", "0"),
        ):
            said = self.tinydelta_fails(*words)
            self.assertIn(str(table), said.error)
            self.assertIn("Read-only file system", said.error)
        for words in (("read",), ("history",), ("describe",), ("vacuum", "--dry-run"), ("check",)):
            self.tinydelta(words[0], table, *words[1:])
        after = sorted((str(p), p.stat().st_mtime_ns) for p in table.rglob("*"))
        self.assertEqual(after, before)

    def test_no_room(self):
        self.require_root()
        place = self.path("small")
        place.mkdir()
        self.ok(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place])
        self.addCleanup(harness.run, ["umount", "-l", place])
        table = place / "t"
        self.tinydelta("create", table, "id:int")
        self.append(table, [{"id": 1}])
        names = sorted(os.listdir(table))
        large = self.file([{"id": n} for n in range(20000)])
        for command in ("append", "overwrite"):
            said = self.tinydelta_fails(command, table, "--file", large)
            self.assertIn("No space left on device", said.error)
            self.assertEqual(sorted(os.listdir(table)), names)
            self.assertEqual(os.listdir(table / "_incoming"), [])
            self.assertEqual(self.tinydelta("read", table).out, b'{"id":1}\n')
        self.assertEqual(self.append(table, [{"id": 2}]), 2)

    def attribute(self, flag, *paths):
        """Sets +i or +a, which root has to heed too."""
        self.require_root()
        self.require_tool("chattr")
        if harness.run(["chattr", f"+{flag}", *paths]).status != 0:
            self.skipTest("this file system has no such attributes")
        self.addCleanup(harness.run, ["chattr", f"-{flag}", *paths])

    def test_immutable_folders(self):
        for name, command, *words in (
            (".", "append", "--file", self.file([{"id": 2}])),
            ("_delta_log", "append", "--file", self.file([{"id": 2}])),
            ("_delta_log", "restore", "--version", "0"),
        ):
            with self.subTest(folder=name, command=command):
                table = self.table(rows=[{"id": 1}])
                names = sorted(os.listdir(table))
                self.attribute("i", table / name)
                said = self.tinydelta_fails(command, table, *words)
                self.ok(["chattr", "-i", table / name])
                self.assertIn("Operation not permitted", said.error)
                self.assertNotIn("link()", said.error)
                self.assertEqual(sorted(os.listdir(table)), names)
                self.assertEqual(self.versions(table), [0, 1])
                self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n")
                self.assertEqual(self.append(table, [{"id": 3}]), 2)

    def test_a_log_that_only_grows(self):
        """The temporary name of a commit cannot be removed: it is in nobody's way."""
        table = self.table(rows=[{"id": 1}])
        self.attribute("a", table / "_delta_log")
        self.assertEqual(self.append(table, [{"id": 2}]), 2)
        self.assertEqual(self.append(table, [{"id": 3}]), 3)
        self.ok(["chattr", "-a", table / "_delta_log"])
        # They are dated ahead, and kept for that long.
        self.assertEqual(self.tinydelta("vacuum", table).text, "no orphan files\n")
        for left in (table / "_delta_log").glob(".*.tmp"):
            os.utime(left, (1, 1))
        self.assertIn("deleted 2 orphan files", self.tinydelta("vacuum", table).text)
        self.assertEqual(self.tinydelta("read", table).out, b'{"id":1}\n{"id":2}\n{"id":3}\n')

    def test_the_limit_for_files_is_an_error(self):
        table = self.table()
        file = self.file([{"id": i} for i in range(100000)])
        result = harness.run(
            ["bash", "-c", 'ulimit -f 100; "$1" append "$2" --file "$3"', "bash"]
            + [harness.program("tinydelta"), table, file]
        )
        self.assertEqual(result.status, 1, str(result))
        self.assertIn("File too large", result.error)
        self.assertEqual(self.versions(table), [0])
        self.assertEqual(list(table.glob("part-*")), [])


class ReadVersion(TestCase):
    def test_still_the_newest(self):
        table = self.table()
        file = self.file([{"id": 1}])
        for number, words in enumerate(
            (
                ("append", table, "--file", file),
                ("overwrite", table, "--file", file),
                ("restore", table, "--version", "1"),
            )
        ):
            said = self.tinydelta(*words, "--read-version", number)
            self.assertIn(f"as version {number + 1}\n", said.text)

    def test_no_longer_the_newest(self):
        table = self.table(rows=[{"id": 1}])
        file = self.file([{"id": 2}])
        before = sorted(map(str, table.rglob("*")))
        for words in (
            ("append", table, "--file", file),
            ("overwrite", table, "--file", file),
            ("restore", table, "--version", "1"),
        ):
            result = self.tinydelta_fails(*words, "--read-version", "0")
            self.assertIn("another writer committed first", result.error)
            self.tinydelta_fails(*words, "--read-version", "2")
        self.assertEqual(self.versions(table), [0, 1])
        self.assertEqual(sorted(map(str, table.glob("part-*"))), [p for p in before if "part-" in p])


class AtOnce(TestCase):
    def test_appends_lose_nothing(self):
        table = self.table()
        program = harness.program("tinydelta")
        children = []
        for writer in range(4):
            file = self.file([{"id": writer}])
            script = 'for i in 1 2 3 4 5 6 7 8 9 10; do "$1" append "$2" --file "$3" || exit; done'
            children.append(
                subprocess.Popen(
                    ["bash", "-c", script, "bash", program, table, file],
                    stdout=subprocess.PIPE,
                )
            )
        said = b"".join(child.communicate(timeout=120)[0] for child in children)
        self.assertEqual([child.returncode for child in children], [0] * 4)
        versions = sorted(int(n) for n in re.findall(rb"version ([0-9]+)", said))
        self.assertEqual(versions, list(range(1, 41)))
        rows = sorted(self.tinydelta("read", table).text.split())
        self.assertEqual(rows, sorted(f'{{"id":{w}}}' for w in range(4) for _ in range(10)))

    def test_of_overwrites_that_meet_one_wins(self):
        table = self.table()
        program = harness.program("tinydelta")
        fifos = []
        children = []
        for writer in range(3):
            fifo = self.path(f"fifo{writer}")
            os.mkfifo(fifo)
            fifos.append(fifo)
            children.append(
                subprocess.Popen(
                    [program, "overwrite", table, "--file", fifo, "--read-version", "0"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
        ends = [open(fifo, "wb", buffering=0) for fifo in fifos]
        for writer, end in enumerate(ends):
            end.write(b'{"id":%d}\n' % writer)
        for end in ends:
            end.close()
        results = [child.communicate(timeout=harness.SOON) for child in children]
        self.assertEqual(sorted(child.returncode for child in children), [0, 1, 1])
        for child, (out, err) in zip(children, results):
            if child.returncode == 0:
                self.assertEqual((out, err), (b"overwrote as version 1\n", b""))
            else:
                self.assertEqual(out, b"")
                self.assertRegex(err, rb"\Aerror: .*another writer committed first[^\n]*\n\Z")
        self.assertEqual(self.versions(table), [0, 1])
        self.assertEqual(len(list(pathlib.Path(table).glob("part-*"))), 1)
