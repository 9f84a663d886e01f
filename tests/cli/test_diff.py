# SPDX-License-Identifier: MIT
"""tinydelta diff: rows removed and added, from the list of files where that says it all."""

import collections
import json
import os
import random
import re
import subprocess

import harness
from harness import TestCase


class Diff(TestCase):
    def setUp(self):
        super().setUp()
        self.t = self.table("id:int", "s:str", name="t")

    def rows(self, *ids, s="x"):
        return [{"id": i, "s": s} for i in ids]

    def line(self, i, s="x"):
        return f'{{"id":{i},"s":"{s}"}}'

    def overwrite(self, rows):
        self.tinydelta("overwrite", self.t, "--file", self.file(rows))

    def diff(self, a, b, *words, status=1, **how):
        result = self.fails(
            [harness.program("tinydelta"), "diff", self.t, str(a), str(b), *words], status, **how
        )
        self.assertEqual(result.err, b"", str(result))
        return result.text

    def test_appended(self):
        self.append(self.t, self.rows(2, 1))
        self.append(self.t, self.rows(3))
        self.assertEqual(self.diff(0, 2), "".join(f"+{self.line(i)}\n" for i in (2, 1, 3)))
        self.assertEqual(self.diff(2, 1), f"-{self.line(3)}\n")
        self.assertEqual(self.diff(0, 1, "--stat"), "2 added, 0 removed\n")
        self.assertEqual(self.diff(2, 0, "--stat"), "0 added, 3 removed\n")

    def test_same(self):
        self.append(self.t, self.rows(1))
        self.append(self.t, self.rows(2))
        self.tinydelta("restore", self.t, "--version", 1)
        self.assertEqual(self.diff(1, 3, status=0), "")
        self.assertEqual(self.diff(2, 2, status=0), "")
        self.assertEqual(self.diff(1, 3, "--stat", status=0), "0 added, 0 removed\n")

    def test_one_name_of_which_the_log_says_two_things(self):
        """A file that both versions name is passed over only where it is said to be the same."""
        self.append(self.t, self.rows(1))
        log = self.t / "_delta_log"
        add = self.commit(self.t, 1)[-1]["add"]
        for version, size in ((2, add["size"]), (3, add["size"] * 2)):
            add.update(size=size, crc32c=add["crc32c"] ^ 1)
            lines = [
                {"commitInfo": {"timestamp": 9, "operation": "APPEND", "readVersion": version - 1}},
                {"add": add},
            ]
            (log / f"{version:020d}.json").write_text(
                "".join(json.dumps(line) + "\n" for line in lines)
            )
            message = self.fails(
                [harness.program("tinydelta"), "diff", self.t, "1", str(version)], 2
            ).err
            self.assertIn(add["path"].encode(), message)

    def test_same_rows_in_other_files_and_order(self):
        self.append(self.t, self.rows(1, 2, 3))
        self.overwrite(self.rows(3, 1, 2))
        self.assertEqual(self.diff(1, 2, status=0), "")

    def test_changed(self):
        self.append(self.t, self.rows(1, 2, 3))
        self.overwrite(self.rows(1) + self.rows(2, s="y") + self.rows(3, 4))
        self.assertEqual(
            self.diff(1, 2), f"-{self.line(2)}\n+{self.line(2, 'y')}\n+{self.line(4)}\n"
        )
        self.assertEqual(self.diff(1, 2, "--stat"), "2 added, 1 removed\n")

    def test_as_often_as_they_are_there(self):
        self.append(self.t, self.rows(1, 1, 2))
        self.overwrite(self.rows(1, 2, 2, 2))
        self.assertEqual(
            self.diff(1, 2), f"-{self.line(1)}\n" + f"+{self.line(2)}\n" * 2
        )

    def test_rows_in_common_files_are_not_read(self):
        self.append(self.t, self.rows(*range(5000)))
        self.append(self.t, self.rows(1))
        self.tinydelta("restore", self.t, "--version", 1)
        self.append(self.t, self.rows(2))
        tool = self.require_tool("strace")
        trace = self.path()
        argv = [tool, "-f", "-o", trace, "-e", "trace=read,pread64", harness.program("tinydelta")]
        # The leak sanitizer cannot work under a tracer.
        env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        said = self.fails([*argv, "diff", self.t, "2", "4"], env=env)
        self.assertEqual(said.text, f"-{self.line(1)}\n+{self.line(2)}\n")
        self.assertNotIn('{\\"id\\":4999', trace.read_text())

    def test_foreign_files(self):
        """Blank lines, a missing last newline, an added file that was there before."""
        table = self.golden("foreign")
        last = self.golden_versions("foreign") - 1

        def rows(version):
            lines = self.expected("foreign", f"v{version}.jsonl").split(b"\n")
            return collections.Counter(line for line in lines if line.strip())

        for a in range(last + 1):
            for b in range(last + 1):
                result = harness.run([harness.program("tinydelta"), "diff", table, str(a), str(b)])
                gone, came = rows(a) - rows(b), rows(b) - rows(a)
                wanted = sorted(b"-" + r for r in gone.elements())
                wanted += sorted(b"+" + r for r in came.elements())
                found = sorted(
                    result.out.splitlines(), key=lambda line: (line[:1] == b"+", line)
                )
                self.assertEqual(found, wanted, (a, b))
                self.assertEqual(result.status, 1 if wanted else 0)

    def test_against_another_way(self):
        picked = random.Random(4)
        before = [self.line(picked.randrange(3000), "y" * picked.randrange(40)) for _ in range(9000)]
        after = picked.sample(before, 8000)
        after += [self.line(picked.randrange(9000)) for _ in range(500)]
        picked.shuffle(after)
        self.append(self.t, "".join(f"{r}\n" for r in before))
        self.overwrite("".join(f"{r}\n" for r in after))

        def left(rows, others):
            """The later ones of equal rows, in their order."""
            others = collections.Counter(others)
            for row in rows:
                if others[row] > 0:
                    others[row] -= 1
                else:
                    yield row

        wanted = ["-" + row for row in left(before, after)] + ["+" + row for row in left(after, before)]
        self.assertEqual(self.diff(1, 2).splitlines(), wanted)

    def test_rows_far_apart(self):
        """Half of all rows wait for their like: what is kept of each is small."""
        count = 600000
        text = "".join(f'{{"id":{i},"s":"{"x" * 120}"}}\n' for i in range(count))
        self.append(self.t, text)
        half = len(text) // 2
        half = text.index("\n", half) + 1
        self.overwrite(text[half:] + '{"id":-7,"s":""}\n' + text[:half])
        script = 'ulimit -v 100000; "$@"'
        argv = [harness.program("tinydelta"), "diff", self.t, "1", "2"]
        # A sanitizer takes memory of its own.
        with open(harness.program("tinydelta"), "rb") as program:
            sanitized = re.search(rb"__[at]san_init", program.read())
        limit = [] if sanitized else ["bash", "-c", script, "bash"]
        result = self.fails([*limit, *argv])
        self.assertEqual(result.text, '+{"id":-7,"s":""}\n')

    def test_colours(self):
        self.append(self.t, self.rows(1))
        self.overwrite(self.rows(2))
        said = self.diff(1, 2, "--color=always")
        self.assertEqual(
            said, f"\x1b[31m-{self.line(1)}\x1b[0m\n\x1b[32m+{self.line(2)}\x1b[0m\n"
        )
        self.assertNotIn("\x1b", self.diff(1, 2))

    def trouble(self, *words, says):
        result = self.fails([harness.program("tinydelta"), "diff", *map(str, words)], status=2)
        self.assertRegex(result.error.splitlines()[-1], says)
        self.assertEqual(result.out, b"")

    def test_trouble(self):
        self.append(self.t, self.rows(1))
        self.trouble(self.t, 0, 2, says="no such version: 2")
        self.trouble(self.t, 9, 1, says="no such version: 9")
        self.trouble(self.t, "x", 1, says=rf"\Aerror: no such tag: x \({self.t} has versions 0 to 1\)\Z")
        self.trouble(self.t, "9" * 30, 1, says="no such version: 9999")
        self.trouble(self.path("nowhere"), 0, 1, says="no tinydelta table")
        self.trouble(self.t, 0, says="missing arguments")
        self.trouble(self.t, 0, 1, 1, says="unexpected argument")
        self.overwrite(self.rows(2))
        (part,) = {add["add"]["path"] for add in self.commit(self.t, 1) if "add" in add}
        os.truncate(self.t / part, 3)
        self.trouble(self.t, 1, 2, says=re.escape(part))

    def test_output_that_cannot_be_written(self):
        self.append(self.t, self.rows(1))
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(
                [harness.program("tinydelta"), "diff", self.t, "0", "1"],
                stdout=full, stderr=subprocess.PIPE, check=False, timeout=harness.SOON,
            )
        self.assertEqual(ended.returncode, 2)
        self.assertEqual(ended.stderr, b"error: standard output: No space left on device\n")
