# SPDX-License-Identifier: MIT
"""What the command shows to people on a terminal, and what it writes as JSON for programs; files
and pipes get what they always got."""

import fcntl
import json
import os
import pty
import re
import struct
import termios
import time

import harness
from harness import TestCase

SGR = re.compile(r"\x1b\[[0-9]*m")


class PeopleCase(TestCase):
    def setUp(self):
        super().setUp()
        self.t = self.table("id:int", "region:str", name="t")
        for count in (3, 1):
            rows = [{"id": i, "region": "north"} for i in range(count)]
            self.tinydelta("append", self.t, "--file", self.file(rows, f"rows{count}.jsonl"))
        self.tinydelta("restore", self.t, "--version", 1)

    def terminal(self, *words, width=80, **environment):
        """What a terminal of this width is sent, as text."""
        variables = {"LC_ALL": "C.UTF-8", "TERM": "xterm", "TZ": "UTC", "PAGER": "cat", **environment}
        variables = {k: v for k, v in {**os.environ, **variables}.items() if v is not None}
        program = harness.program("tinydelta")
        pid, master = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
            os.execve(program, [program, *map(str, words)], variables)
        sent = b""
        try:
            while chunk := os.read(master, 65536):
                sent += chunk
        except OSError:  # its other end is closed
            pass
        os.close(master)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, sent)
        return sent.decode().replace("\r\n", "\n")

    def shown(self, *words, **how):
        """The same without colours, as lists of columns."""
        text = SGR.sub("", self.terminal(*words, **how))
        return [re.split(r" {2,}", line.rstrip()) for line in text.splitlines()]


class Terminal(PeopleCase):
    def test_history(self):
        lines = self.shown("history", self.t)
        self.assertEqual(lines[0], ["VERSION", "OPERATION", "READ", "ROWS", "TIME"])
        self.assertEqual([line[:4] for line in lines[1:]], [
            ["v0", "CREATE", "-", "0"],
            ["v1", "APPEND", "v0", "3"],
            ["v2", "APPEND", "v1", "4"],
            ["v3", "RESTORE", "v2", "3"],
        ])
        stamp = self.commit(self.t, 1)[0]["commitInfo"]["timestamp"] // 1000
        wanted = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(stamp))
        self.assertEqual(lines[2][4], wanted)
        self.assertEqual(self.shown("history", self.t, TZ="Etc/GMT-5")[2][4][:10], time.strftime(
            "%Y-%m-%d", time.gmtime(stamp + 5 * 3600)))

    def test_columns_stand_under_one_another(self):
        text = SGR.sub("", self.terminal("history", self.t, "--long"))
        lines = text.splitlines()
        for head in ("OPERATION", "USER", "AGE"):
            at = lines[0].index(head)
            for line in lines[1:]:
                self.assertEqual(line[at - 2 : at], "  ", text)
                self.assertNotEqual(line[at], " ", text)
        end = lines[0].index("ROWS") + 4
        for line in lines:
            self.assertNotEqual(line[end - 1], " ", text)
            self.assertEqual(line[end : end + 2], "  ", text)

    def test_long(self):
        lines = self.shown("history", self.t, "--long")
        self.assertEqual(lines[0][3:], ["ROWS", "BYTES", "USER", "SOURCE", "AGE"])
        user = self.commit(self.t, 1)[0]["commitInfo"]["userName"]
        self.assertEqual(lines[1][3:7], ["0", "0 B", user, "-"])
        self.assertEqual(lines[2][3:7], ["+3", "+78 B", user, "rows3.jsonl"])
        self.assertEqual(lines[4][3:7], ["-1", "-26 B", user, "v1"])
        self.assertRegex(lines[4][7], r"\A[0-9]+ (s|min)\Z")

    def test_graph(self):
        for width in (70, 80, 200):
            text = SGR.sub("", self.terminal("history", self.t, "--graph", width=width))
            lines = text.splitlines()
            self.assertEqual(max(map(len, lines)), width)
            bars = [line.count("█") for line in lines[1:]]
            self.assertEqual(bars[0], 0)
            self.assertGreater(bars[2], bars[1])
            self.assertLessEqual(abs(bars[1] - bars[2] * 3 / 4), 1)
        # A terminal that is too narrow for anything else still gets bars.
        self.assertIn("█" * 10, self.terminal("history", self.t, "--graph", "--long", width=20))

    def test_graph_of_bytes_in_another_locale(self):
        text = self.terminal("history", self.t, "--graph=bytes", LC_ALL="C")
        self.assertTrue(text.isascii())
        self.assertRegex(text, r"#{20}")
        self.assertIn("BYTES", text)

    def test_without_a_terminal(self):
        said = self.tinydelta("history", self.t, "--graph", env={"COLUMNS": "70", "LC_ALL": "C"})
        self.assertEqual(max(map(len, said.text.splitlines())), 70)
        self.assertNotIn("\x1b", said.text)

    def test_describe(self):
        lines = self.shown("describe", self.t, "--version", 2)
        fields = {line[0]: line[1:] for line in lines if len(line) == 2}
        self.assertEqual(fields["version"], ["2"])
        self.assertEqual(fields["operation"], ["APPEND"])
        self.assertEqual(fields["files"], ["2"])
        self.assertEqual(fields["rows"], ["4"])
        self.assertEqual(fields["size"], ["104 B"])
        self.assertRegex(fields["time"][0], r"\A[0-9: -]{19} \([0-9]+ (s|min) ago\)\Z")
        self.assertEqual(lines[-3:], [["COLUMN", "TYPE"], ["id", "int"], ["region", "str"]])

    def test_foreign_text_does_not_drive_the_terminal(self):
        log = self.t / "_delta_log"
        info = {"timestamp": -5, "operation": "A\x1b[31m\u202eB", "readVersion": 3, "userName": "x\ny"}
        info["source"] = "süd\u0007"
        (log / f"{4:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
        text = SGR.sub("", self.terminal("history", self.t, "--long", "-n1"))
        self.assertEqual(len(text.splitlines()), 2, text)
        for shown in ("A\\x1b[31m\\xe2\\x80\\xaeB", "x\\x0ay", "süd\\x07"):
            self.assertIn(shown, text)
        self.assertIn("s\\xc3\\xbcd", self.terminal("history", self.t, "--long", "-n1", LC_ALL="C"))
        # A time before 1970 has no date.
        self.assertEqual(self.shown("history", self.t, "-n1")[1][4], "-5 ms")


class Colours(PeopleCase):
    def test_when(self):
        for command in ("history", "describe", "vacuum"):
            words = (command, self.t)
            self.assertIn("\x1b[", self.terminal(*words), command)
            self.assertIn("\x1b[", self.terminal(*words, NO_COLOR=""), command)
            for quiet in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}, {"TERM": None}):
                self.assertNotIn("\x1b", self.terminal(*words, **quiet), (command, quiet))
                self.assertIn("\x1b", self.terminal(*words, "--color=always", **quiet), command)
            self.assertNotIn("\x1b", self.terminal(*words, "--color", "never"))
            self.assertNotIn("\x1b", self.tinydelta(*words).text)
            self.assertIn("\x1b[", self.tinydelta(*words, "--color", "always").text)

    def test_every_style_ends_on_its_line(self):
        for words in (("history", self.t, "--long", "--graph"), ("describe", self.t)):
            for line in self.terminal(*words).splitlines():
                self.assertEqual(len(re.findall(r"\x1b\[[1-9]", line)), line.count("\x1b[0m"), line)


class Plain(PeopleCase):
    """-n and --reverse choose; the lines are those of the Python package."""

    def lines(self, *words):
        return self.tinydelta("history", self.t, *words).text.splitlines()

    def test_number(self):
        everything = self.lines()
        self.assertEqual(len(everything), 4)
        self.assertEqual(self.lines("-n", 2), everything[2:])
        self.assertEqual(self.lines("-n1"), everything[3:])
        self.assertEqual(self.lines("--number=0"), [])
        for many in (4, 99, 9223372036854775807, "9" * 30):
            self.assertEqual(self.lines("-n", many), everything)
        self.assertEqual(
            self.tinydelta_fails("history", self.t, "-n", "-1").error,
            "error: option --number: out of range: -1\n",
        )

    def test_reverse(self):
        everything = self.lines()
        self.assertEqual(self.lines("--reverse"), everything[::-1])
        self.assertEqual(self.lines("--reverse", "-n2"), everything[:1:-1])

    def test_damage_is_still_told(self):
        (self.t / "_delta_log" / f"{3:020d}.json").write_text("{")
        for words in (["-n2"], ["--json"], ["--long"]):
            result = harness.run([harness.program("tinydelta"), "history", self.t, *words])
            self.assertEqual(result.status, 1)
            self.assertIn("2", result.text)
            self.assertRegex(result.error, r"\Aerror: [^\n]+\n\Z")

    def test_a_few_of_many_cost_a_few(self):
        """With the index on disk, no commit file is read but those that are asked for."""
        tool = self.require_tool("strace")
        table = self.table("id:int")
        last = self.commit(table, 0)[0]["commitInfo"]["timestamp"]
        for version in range(1, 1500):
            info = {"timestamp": last + version, "operation": "NOTHING", "readVersion": version - 1}
            text = json.dumps({"commitInfo": info}) + "\n"
            (table / "_delta_log" / f"{version:020d}.json").write_text(text)
        self.append(table, [{"id": 1}])
        for words, most in ((["-n3"], 5), (["-n3", "--long"], 8), (["-n3", "--json"], 8)):
            trace = self.path()
            argv = [tool, "-f", "-o", trace, "-e", "trace=openat,openat2", harness.program("tinydelta")]
            # The leak sanitizer cannot work under a tracer.
            env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
            said = self.ok([*argv, "history", table, *words], env=env)
            self.assertIn("1500", said.text)
            opened = set(re.findall(r'"([0-9]{20})\.json"', trace.read_text()))
            self.assertLessEqual(len(opened), most, words)


class Json(PeopleCase):
    def objects(self, *words):
        said = self.tinydelta(*words)
        self.assertTrue(said.text.endswith("\n"))
        return [json.loads(line) for line in said.text.splitlines()]

    def test_history(self):
        found = self.objects("history", self.t, "--json")
        self.assertEqual([one["version"] for one in found], [0, 1, 2, 3])
        self.assertEqual(found[2]["numRecords"], 4)
        self.assertEqual(found[1]["source"], "rows3.jsonl")
        self.assertEqual(self.objects("history", self.t, "--json", "-n1", "--reverse"), found[3:])
        for words in (["--long"], ["--graph"]):
            self.tinydelta_fails("history", self.t, "--json", *words, status=2)

    def test_it_is_what_the_mount_shows(self):
        with self.mount(self.t) as mnt:
            for version in range(4):
                wanted = mnt.read(f"history/v{version}.json")
                said = self.tinydelta("history", self.t, "--json").out.splitlines(keepends=True)
                self.assertEqual(said[version], wanted)

    def test_describe(self):
        (found,) = self.objects("describe", self.t, "--json", "--version", 1)
        (wanted,) = self.objects("history", self.t, "--json", "-n3")[:1]
        table_id = self.tinydelta("describe", self.t).text.splitlines()[1].split()[1]
        self.assertEqual(found, {**wanted, "tableId": table_id})

    def test_nobody_but_the_table_says_its_id(self):
        info = {"timestamp": 1, "operation": "X", "readVersion": 3, "tableId": "forged"}
        (self.t / "_delta_log" / f"{4:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
        (found,) = self.objects("describe", self.t, "--json")
        self.assertNotEqual(found["tableId"], "forged")

    def test_vacuum(self):
        self.assertEqual(
            self.objects("vacuum", self.t, "--json"), [{"dryRun": False, "files": []}]
        )
        names = sorted(f"part-{digit * 32}.jsonl" for digit in "ab")
        for name in names:
            (self.t / name).write_bytes(b"")
        wanted = {"dryRun": True, "files": names}
        self.assertEqual(self.objects("vacuum", self.t, "--json", "--dry-run"), [wanted])
        self.assertEqual(self.objects("vacuum", self.t, "--json"), [{**wanted, "dryRun": False}])

    def test_on_a_terminal_it_is_the_same(self):
        for words in (("history", self.t), ("describe", self.t), ("vacuum", self.t)):
            self.assertEqual(
                self.terminal(*words, "--json"), self.tinydelta(*words, "--json").text
            )


class Check(PeopleCase):
    def setUp(self):
        super().setUp()
        self.name = f"part-{'a' * 32}.jsonl"

    def test_on_a_terminal(self):
        self.assertEqual(self.shown("check", self.t), [["no problems"]])

    def test_laid_out(self):
        (self.t / self.name).write_bytes(b"x")
        argv = [harness.program("tinydelta"), "check", self.t, "--color=always"]
        result = self.fails(argv, env={"LC_ALL": "C.UTF-8"})
        self.assertRegex(
            result.text, r"\A\x1b\[36mleftover\x1b\[0m  \x1b\[1m" + self.name + r"\x1b\[0m  \w[^\n]*\n\Z"
        )

    def test_json(self):
        self.assertEqual(self.tinydelta("check", self.t, "--json").out, b"")
        (self.t / self.name).write_bytes(b"x")
        (commit,) = [self.t / "_delta_log" / f"{2:020d}.json"]
        commit.write_bytes(b"{")
        plain = self.fails([harness.program("tinydelta"), "check", self.t]).text.splitlines()
        said = self.fails([harness.program("tinydelta"), "check", self.t, "--json"]).text
        found = [json.loads(line) for line in said.splitlines()]
        self.assertEqual(len(found), len(plain))
        for one, line in zip(found, plain):
            place = one["path"] + (f":{one['line']}" if one["line"] else "")
            self.assertEqual(line, f"{place}: {one['text']}")
            self.assertIn(one["severity"], ("damage", "suspect", "leftover"))
        self.assertEqual(found[0]["severity"], "damage")
        self.assertEqual(found[0]["version"], 2)

    def test_repaired(self):
        (self.t / self.name).write_bytes(b"x")
        said = self.tinydelta("check", self.t, "--repair", "--older-than", "0", "--json").text
        self.assertEqual(json.loads(said), {"removed": self.name})
