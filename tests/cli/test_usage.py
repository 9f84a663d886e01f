# SPDX-License-Identifier: MIT
"""What every subcommand has in common: help, wrong use, standard output that cannot be written."""

import os
import re
import subprocess

import harness
from harness import TestCase

COMMANDS = (
    *("create", "append", "overwrite", "read", "status", "describe", "history", "diff", "changes"),
    *("restore", "tag", "tags", "vacuum", "check", "recover"),
)


class Usage(TestCase):
    def misuse(self, *words, says):
        """Wrong use: status 2, a usage line and one error line, nothing on stdout."""
        result = self.tinydelta_fails(*words, status=2)
        self.assertEqual(result.out, b"")
        lines = result.error.splitlines()
        self.assertEqual(len(lines), 2, str(result))
        self.assertTrue(lines[0].startswith("usage: tinydelta "), str(result))
        self.assertEqual(lines[1], "error: " + says)

    def test_no_command(self):
        """The commands are listed, as by --help, but on stderr and as wrong use."""
        result = self.tinydelta_fails(status=2)
        self.assertEqual(result.out, b"")
        lines = result.error.splitlines()
        self.assertTrue(lines[0].startswith("usage: tinydelta "))
        self.assertEqual(re.findall(r"(?m)^  ([a-z]+)  ", result.error), list(COMMANDS))
        self.assertEqual(lines[-1], "error: missing command")

    def test_help(self):
        whole = self.tinydelta("--help").text
        for words in (["-h"], ["help"]):
            self.assertEqual(self.tinydelta(*words).text, whole)
        self.assertEqual(self.tinydelta("-V").text, self.tinydelta("--version").text)
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", whole)
            said = self.tinydelta("help", command).text
            self.assertEqual(said, self.tinydelta(command, "--help").text)
            self.assertRegex(said, rf"\n\nExample:\n  [^\n]*tinydelta {command} [^\n]+\n\Z")
        for topic in ("versions", "times", "incoming"):
            self.assertIn(f"\n  help {topic} ", whole)
            said = self.tinydelta("help", topic).text
            self.assertIn("\nExamples:\n", said)
            self.assertLessEqual(max(map(len, said.splitlines())), 85)
        self.misuse("help", "verions", says="unknown topic: verions (did you mean versions?)")
        self.misuse("help", "hsitory", says="unknown topic: hsitory (did you mean history?)")
        self.misuse("help", "a", "b", says="unexpected argument: b")

    def test_the_examples_work(self):
        table = self.table("id:int", "region:str", "year:int", name="orders")
        self.file([{"id": 1, "region": "north", "year": 2026}, {"id": 2, "region": "south", "year": 2026}], "monday.jsonl")
        for _ in range(3):
            self.tinydelta("append", table, "--file", self.scratch / "monday.jsonl")
        for command in COMMANDS[1:]:
            example = self.tinydelta(command, "--help").text.splitlines()[-1]
            # No version is so old.
            example = re.sub(r"@-1d|@2026-11-29", "v1", example)
            path = f"{os.path.dirname(harness.program('tinydelta'))}:{os.environ['PATH']}"
            result = harness.run(["bash", "-c", example], cwd=self.scratch, env={"PATH": path})
            self.assertEqual((result.status, result.err), (1 if command == "diff" else 0, b""), str(result))

    def test_unknown_command(self):
        for word, meant in (
            ("raed", "read"),
            ("histroy", "history"),
            ("apend", "append"),
            ("vaccum", "vacuum"),
            ("overwirte", "overwrite"),
            ("crate", "create"),
            ("dif", "diff"),
        ):
            self.misuse(word, "T", says=f"unknown command: {word} (did you mean {meant}?)")
        for word in ("mount", "", "x" * 5000, "READ"):
            result = self.tinydelta_fails(word, status=2)
            self.assertNotIn("did you mean", result.error)

    def test_names_do_not_forge_lines(self):
        self.misuse(
            "a\nb\x1b[31m", says="unknown command: a\\x0ab\\x1b[31m (tinydelta --help lists them)"
        )

    def test_operands(self):
        self.misuse("create", says="missing arguments: TABLE NAME:TYPE...")
        self.misuse("create", "T", says="missing arguments: TABLE NAME:TYPE...")
        nowhere = " (the working directory is in no table)"
        for command in COMMANDS[1:]:
            operands = {"diff": "TABLE A B", "restore": "TABLE VERSION", "changes": "TABLE [A] [B]", "tag": "TABLE NAME [VERSION]"}.get(command, "TABLE")
            none = "" if command in ("diff", "tag") else nowhere
            self.misuse(command, says=f"missing arguments: {operands}{none}")
        self.misuse("diff", "1", "2", says="missing arguments: TABLE A B" + nowhere)
        self.misuse("history", "T", "U", says="unexpected argument: U")
        self.misuse("read", "--", says="missing arguments: TABLE" + nowhere)

    def test_the_table_around(self):
        """TABLE may be left out in a table, in a folder of it, and in a mount of it."""
        table = self.table(name="t")
        for row in range(2):
            self.append(table, [{"id": row}])
        rows = self.file([{"id": 9}])

        def in_it(folder):
            self.assertEqual(self.tinydelta("read", cwd=folder).text, '{"id":0}\n{"id":1}\n')
            self.assertEqual(self.tinydelta("read", "--version", "1", cwd=folder).text, '{"id":0}\n')
            self.assertIn("1 added", self.fails([harness.program("tinydelta"), "diff", "1", "v2", "--stat"], cwd=folder).text)
            said = self.tinydelta("history", cwd=folder).text
            self.assertEqual(said, self.tinydelta("history", table).text)

        in_it(table)
        in_it(table / "_delta_log")
        self.assertEqual(self.tinydelta("restore", "v1", cwd=table).text, "restored version 1 as version 3\n")
        self.assertEqual(self.tinydelta("restore", "--version=2", cwd=table).text, "restored version 2 as version 4\n")
        self.tinydelta("append", "--file", rows, cwd=table)
        self.tinydelta("restore", "2", cwd=table)
        # An operand that is there is the table.
        self.tinydelta_fails("history", "nonexistent", cwd=table)
        with self.mount(table) as mnt:
            in_it(mnt / "v1")
            for path in (mnt, mnt / "latest", mnt / "v0/data.jsonl"):
                self.assertEqual(self.tinydelta("read", path).text, '{"id":0}\n{"id":1}\n')
            self.assertIn(f"table   {table}\n", self.tinydelta("status", mnt).text)
            self.tinydelta("append", mnt, "--file", rows)
        with self.mount(table, options=["fsname=other"]) as mnt:
            said = self.tinydelta_fails("read", mnt)
            self.assertIn(f"no tinydelta table at {mnt}", said.error)

    def test_types_of_other_languages(self):
        for word, meant in (
            ("integer", "int"), ("Number", "float"), ("string", "str"), ("boolean", "bool"),
            ("INT", "int"), ("text", "str"), ("double", "float"), ("date", None), ("in", None),
        ):
            said = self.tinydelta_fails("create", self.path("new"), f"a:{word}").error
            hint = f' (did you mean {meant}?)' if meant else ""
            self.assertEqual(said, f'error: column "a" has the unknown type "{word}"{hint}; types are int, float, str, bool\n')

    def test_options(self):
        self.misuse("append", "T", says="missing option: --file")
        self.misuse("overwrite", "T", says="missing option: --file")
        self.misuse("restore", "T", says="missing VERSION")
        self.misuse("restore", "T", "1", "--version", "1", says="the version is given twice")
        self.misuse("read", "T", "--version", says="option --version needs a value")
        self.misuse("read", "T", "--bogus", says="unknown option: --bogus")
        self.misuse("read", "T", "--file", "x", says="unknown option: --file")
        self.misuse("read", "T", "-v", says="unknown option: -v")
        self.misuse("vacuum", "T", "--dry-run=yes", says="option --dry-run takes no value")

    def test_unknown_options(self):
        for command, word, meant in (
            ("append", "--fiel", "--file"),
            ("history", "--revers=1", None),
            ("history", "--grahp=rows", "--graph"),
            ("history", "--jsno", "--json"),
            ("vacuum", "--dryrun", "--dry-run"),
            ("read", "--hlep", "--help"),
            ("read", "--l", None),
        ):
            result = self.tinydelta_fails(command, "T", word, status=2)
            hint = f" (did you mean {meant}?)" if meant else ""
            if word == "--revers=1":
                self.assertIn("option --reverse takes no value", result.error)
            else:
                self.assertTrue(result.error.endswith(f"unknown option: {word}{hint}\n"), str(result))

    def test_choices(self):
        says = "option --color: not one of auto|always|never: "
        for value in ("", "a", "auto|always", "ALWAYS", "nevermore"):
            self.misuse("history", "T", f"--color={value}", says=says + value)
        self.misuse("history", "T", "--graph=x", says="option --graph: not one of rows|bytes: x")
        self.misuse("diff", "T", "1", "2", "--color", says="option --color needs a value")

    def test_given_twice(self):
        """Of two files one would be silently not there."""
        table, one, two = self.table(), self.file([{"id": 1}]), self.file([{"id": 2}])
        valued = {
            "append": {"file": (one, two), "read-version": (0, 1), "message": ("a", "b")},
            "overwrite": {"file": (one, two), "read-version": (0, 1), "message": ("a", "b")},
            "read": {"version": (0, 1)},
            "status": {"color": ("never", "always")},
            "describe": {"version": (0, 1), "color": ("never", "always")},
            "history": {
                "number": (1, 2), "color": ("auto", "never"), "graph": ("rows", "bytes"),
                "since": ("-1d", "-2d"), "until": ("-1d", "-2d"), "user": ("a", "b"),
                "source": ("a", "b"), "operation": ("a", "b"), "html": ("a", "b"),
            },
            "diff": {"color": ("auto", "never")},
            "restore": {"version": (0, 1), "read-version": (0, 1), "message": ("a", "b")},
            "tag": {"message": ("a", "b")},
            "tags": {"color": ("auto", "never")},
            "vacuum": {"older-than": (1, 2), "color": ("auto", "never")},
            "recover": {"from": ("a", "b")},
            "changes": {},
            "check": {"version": (0, 1), "older-than": (1, 2), "color": ("auto", "never")},
        }
        for command in COMMANDS[1:]:
            usage = self.tinydelta(command, "--help").text
            named = set(re.findall(r"(?m)^  (?:-\w, )?--([a-z-]+)(?: [A-Z]|\[=)", usage))
            self.assertEqual(named, set(valued[command]), "every option with a value is tried")
            needed = {"append": "--file", "overwrite": "--file"}.get(command)
            operands = [table, "0", "0"] if command == "diff" else [table]
            for name, (a, b) in valued[command].items():
                short = name[:-2] if name != "read-version" else "read"
                forms = [
                    [f"--{name}={a}", f"--{name}={b}"],
                    [f"--{name}={a}", f"--{name}={a}"],
                    [f"--{short}={a}", *operands, f"--{name}={b}"],
                ]
                if name != "graph":
                    forms += [
                        [f"--{name}", a, f"--{name}", b],
                        [f"--{name}={a}", f"--{short}", b],
                    ]
                if name == "graph":
                    forms += [["--graph", "--graph"], ["--graph", "--graph=rows"]]
                if name == "number":
                    forms += [["-n", a, "-n", b], [f"-n{a}", f"--number={b}"]]
                for words in forms:
                    words = [*words, *([] if table in words else operands)]
                    if needed and needed != f"--{name}":
                        words += [f"{needed}={one if needed == '--file' else 0}"]
                    self.misuse(command, *words, says=f"option --{name} is given twice")
        self.assertEqual(self.versions(table), [0])
        # What is said once cannot be meant otherwise when it is said again.
        self.tinydelta("vacuum", table, "--dry-run", "--dry-run", "--json", "--json")
        # Behind -- nothing is an option.
        self.misuse("append", table, "--file", one, "--", "--file", says="unexpected argument: --file")

    def test_letters(self):
        self.misuse("history", "T", "-n", says="option -n needs a value")
        self.misuse("history", "T", "-nx", says="option --number: not a whole number: x")
        self.misuse("history", "T", "-r", says="unknown option: -r")
        self.misuse("read", "T", "-n", "1", says="unknown option: -n")

    def test_numbers(self):
        for text in ("1x", "x", "", "-", "+1", " 1", "1 ", "1.0", "0x1", "1_0", "\u0661"):
            wrong = f": not a whole number: {text}"
            self.misuse("append", "T", "--file=x", "--read-version", text, says="option --read-version" + wrong)
        for text in ("1x", "x", "", "-", "+1", " 1", "1 ", "1.0", "-1", "1dd", "d", "1D", "\u0661"):
            self.misuse(
                "vacuum", "T", f"--older-than={text}", says="option --older-than: not an age: "
                f"{text} (7d, 90m, 30s, or a number of milliseconds)",
            )

    def test_numbers_out_of_range_are_no_versions(self):
        table = self.table()
        for text in ("-1", "-9223372036854775808", "9223372036854775808", "9" * 40):
            for words in (
                ("read", table, "--version", text),
                ("describe", table, f"--version={text}"),
                ("restore", table, "--version", text),
                ("append", table, "--file", os.devnull, "--read-version", text),
            ):
                result = self.tinydelta_fails(*words)
                self.assertEqual(result.error, f"error: no such version: {text} ({table} has 0 to 0)\n")
            if text[0] != "-":
                self.tinydelta_fails("vacuum", table, "--older-than", text)
        for text in ("9223372036854776s", "153000000000000w"):
            self.tinydelta_fails("vacuum", table, "--older-than", text)
        self.assertEqual(self.versions(table), [0])

    def test_options_stand_anywhere(self):
        table = self.table(rows=[{"id": 1}])
        for words in (
            ("read", "--version", "1", table),
            ("read", table, "--version=1"),
            ("read", "--vers", "0001", "--", table),
        ):
            self.assertEqual(self.tinydelta(*words).out, b'{"id":1}\n')
        harness.run(["cp", "-a", table, self.path("--version")])
        said = self.tinydelta("read", "--version", "1", "--", "--version", cwd=self.scratch)
        self.assertEqual(said.out, b'{"id":1}\n')

    def test_help(self):
        said = self.tinydelta("--help").text
        self.assertEqual(said, self.tinydelta("-h").text)
        for command in COMMANDS:
            self.assertRegex(said, rf"(?m)^  {command} ")
            helped = self.tinydelta(command, "--help").text
            self.assertEqual(helped, self.tinydelta(command, "-h").text)
            self.assertTrue(helped.startswith(f"usage: tinydelta {command} TABLE"), helped)
            # Also where the rest is missing or wrong.
            self.assertEqual(helped, self.tinydelta(command, "a", "b", "--help").text)

    def test_version(self):
        self.assertRegex(self.tinydelta("--version").text, r"\Atinydelta [0-9]+\.[0-9]+\.[0-9]+\n\Z")


class Output(TestCase):
    def run_to(self, target, *words):
        with open(target, "wb") as out:
            return subprocess.run(
                [harness.program("tinydelta"), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=harness.SOON,
                check=False,
            )

    def test_full(self):
        table = self.table(rows=[{"id": 1}])
        for words in (
            ("--help",),
            ("read", "--help"),
            ("read", table),
            ("describe", table),
            ("history", table),
            ("vacuum", table),
        ):
            ended = self.run_to("/dev/full", *words)
            self.assertEqual(ended.returncode, 1, words)
            self.assertEqual(
                ended.stderr, b"error: standard output: No space left on device\n", words
            )

    def test_full_after_a_commit(self):
        table = self.table()
        file = self.file([{"id": 1}])
        ended = self.run_to("/dev/full", "append", table, "--file", file)
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(
            ended.stderr,
            b"error: standard output: No space left on device; "
            b"already appended as version 1: do not retry\n",
        )
        self.assertEqual(self.versions(table), [0, 1])

    def test_closed(self):
        table = self.table(rows=[{"id": 1}])
        before = sorted(p.read_bytes() for p in table.glob("part-*"))
        program = harness.program("tinydelta")
        for command in ("read", "history"):
            result = harness.run(
                ["bash", "-c", '"$1" "$2" "$3" >&-', "bash", program, command, table]
            )
            self.assertEqual(result.status, 1)
            self.assertEqual(result.error, "error: standard output: Bad file descriptor\n")
        result = harness.run(
            ["bash", "-c", '"$1" append "$2" --file - <&- >&- 2>&-', "bash", program, table]
        )
        self.assertEqual(result.status, 1)
        self.assertEqual(sorted(p.read_bytes() for p in table.glob("part-*")), before)
        self.assertEqual(self.versions(table), [0, 1])

    def test_nobody_reads(self):
        table = self.table(rows=[{"id": i} for i in range(200000)])
        script = 'set -o pipefail; "$1" "$2" "$3" | head -n 1'
        for command in ("read", "history"):
            result = harness.run(
                ["bash", "-c", script, "bash", harness.program("tinydelta"), command, table]
            )
            self.assertIn(result.status, (0, 141), str(result))
            self.assertEqual(result.err, b"")
        # Where the signal is ignored, as under some supervisors.
        result = harness.run(
            ["bash", "-c", "trap '' PIPE; " + script]
            + ["bash", harness.program("tinydelta"), "read", table]
        )
        self.assertEqual((result.status, result.err), (1, b""), str(result))
        self.assertEqual(result.out, b'{"id":0}\n')
