# SPDX-License-Identifier: MIT
"""tinydelta history: which versions, who made them and why, and the pager."""

import json
import os
import pty
import re

import harness
from harness import TestCase


class HistoryCase(TestCase):
    def setUp(self):
        super().setUp()
        self.t = self.table(name="t")
        for name in ("monday.jsonl", "tuesday.jsonl", "wednesday.jsonl"):
            self.tinydelta("append", self.t, "--file", self.file([{"id": 1}], name))
        self.tinydelta("restore", self.t, 2, "-m", "back to tuesday")

    def chosen(self, *words, table=None):
        said = self.tinydelta("history", table or self.t, "--json", *words).text
        return [json.loads(line)["version"] for line in said.splitlines()]

    def dated(self):
        """A table whose versions are of every hour of 2026-11-29 UTC."""
        table = self.table(name="dated")
        for version in range(1, 24):
            stamp = 1795910400000 + version * 3600000
            info = {"timestamp": stamp, "operation": "APPEND", "readVersion": version - 1}
            path = table / "_delta_log" / f"{version:020d}.json"
            path.write_text(json.dumps({"commitInfo": info}) + "\n")
        first = table / "_delta_log" / f"{0:020d}.json"
        actions = self.commit(table, 0)
        actions[0] = {"commitInfo": {"timestamp": 1795910400000, "operation": "CREATE"}}
        first.chmod(0o644)
        first.write_text("".join(json.dumps(action) + "\n" for action in actions))
        return table


class Choosing(HistoryCase):
    def test_times(self):
        table = self.dated()
        for words, wanted in (
            (["--since", "2026-11-29T05:00Z"], range(5, 24)),
            (["--since", "@2026-11-29T05:00Z"], range(5, 24)),
            (["--since", "2026-11-29T05:00:00.001Z"], range(6, 24)),
            (["--until", "2026-11-29T05:00Z"], range(0, 6)),
            (["--until", "2026-11-29T04:59:59.999Z"], range(0, 5)),
            (["--since", "2026-11-29T03:00Z", "--until", "2026-11-29T05:00Z"], range(3, 6)),
            (["--since", "2026-11-29T05:00Z", "--until", "2026-11-29T03:00Z"], ()),
            (["--until", "1795910399"], ()),
            (["--since", "2026-11-30"], ()),
            (["--since", "2026-11-29T05:00Z", "-n", "2"], (22, 23)),
            (["--until", "2026-11-29T05:00Z", "-n", "2"], (4, 5)),
            (["--until", "2026-11-29T05:00Z", "--reverse", "-n", "2"], (5, 4)),
        ):
            self.assertEqual(self.chosen(*words, table=table), list(wanted), words)
        self.assertEqual(self.chosen("--since", "-1h"), [0, 1, 2, 3, 4])
        self.assertEqual(self.chosen("--until", "-1h"), [])
        said = self.tinydelta_fails("history", self.t, "--since", "yesterday", status=2)
        self.assertIn('not a time: "yesterday"', said.error)

    def test_names(self):
        user = self.commit(self.t, 1)[0]["commitInfo"]["userName"]
        for words, wanted in (
            (["--user", user], [0, 1, 2, 3, 4]),
            (["--user", user + "x"], []),
            (["--source", "tuesday.jsonl"], [2]),
            (["--source", "*esday.jsonl"], [2, 3]),
            (["--source", "*"], [0, 1, 2, 3, 4]),
            (["--source", "?*", "-n", "1"], [3]),
            (["--source", "[mt]*", "--reverse"], [2, 1]),
            (["--operation", "append"], [1, 2, 3]),
            (["--operation", "RESTORE", "--user", "?*"], [4]),
            (["--operation", "append", "-n", "0"], []),
        ):
            self.assertEqual(self.chosen(*words), wanted, words)
        said = self.tinydelta("history", self.t, "--source", "monday.jsonl").text
        self.assertRegex(said, r"\Av1  APPEND  readVersion=0  ts=[0-9]+\n\Z")

    def test_what_a_restore_brought_back_and_who_created(self):
        self.assertEqual(self.commit(self.t, 4)[0]["commitInfo"]["restoredVersion"], 2)
        lines = self.tinydelta("history", self.t, "--long").text.splitlines()
        self.assertRegex(lines[5], r"^v4 +RESTORE +v3 +-1 .* v2 ")
        user = self.commit(self.t, 1)[0]["commitInfo"]["userName"]
        self.assertEqual(self.commit(self.t, 0)[0]["commitInfo"]["userName"], user)


class Messages(HistoryCase):
    def message(self, version):
        return self.commit(self.t, version)[0]["commitInfo"].get("userMetadata")

    def test_every_command_that_commits(self):
        rows = self.file([{"id": 9}])
        self.t = self.path("new")
        self.tinydelta("create", self.t, "id:int", "-m", "why not")
        self.tinydelta("append", self.t, "--file", rows, "--message=a \u2603\n\"b\"\u2028")
        self.tinydelta("overwrite", self.t, "-mshort", "--file", rows)
        self.tinydelta("restore", self.t, 1, "--mess", "c")
        self.tinydelta("append", self.t, "--file", rows)
        found = [self.message(version) for version in range(5)]
        self.assertEqual(found, ["why not", "a \u2603\n\"b\"\u2028", "short", "c", None])
        said = self.tinydelta("history", self.t, "--json").text.splitlines()
        self.assertEqual([json.loads(line).get("userMetadata") for line in said], found)
        lines = self.tinydelta("history", self.t, "--long", env={"LC_ALL": "C.UTF-8"}).text.split("\n")
        self.assertTrue(lines[0].endswith("MESSAGE"))
        self.assertTrue(lines[2].endswith('a \u2603\\x0a"b"\\xe2\\x80\\xa8'), lines[2])
        # No version has one: no column is wasted on it.
        lines = self.tinydelta("history", self.t, "--long", "-n", "1").text.splitlines()
        self.assertTrue(lines[0].endswith("AGE"), lines)
        self.tinydelta("check", self.t)

    def test_limits(self):
        rows = self.file([{"id": 9}])
        longest = "x" * 65536
        self.tinydelta("append", self.t, "--file", rows, "-m", longest)
        self.assertEqual(self.message(5), longest)
        said = self.tinydelta_fails("append", self.t, "--file", rows, "-m", longest + "x")
        self.assertIn("the message has 65537 bytes", said.error)
        for words in (["append", self.t, "--file", rows], ["create", self.path("n"), "id:int"], ["restore", self.t, "1"]):
            said = self.tinydelta_fails(*words, "-m", b"\xff".decode("utf-8", "surrogateescape"))
            self.assertEqual(said.error, "error: the message is not UTF-8\n")
        self.assertEqual(self.versions(self.t)[-1], 5)
        self.assertFalse(self.path("n").exists())


class Json(HistoryCase):
    def test_what_was_committed(self):
        rows = self.file([{"id": 1}, {"id": 2}])
        new = self.path("new")

        def said(*words):
            return json.loads(self.tinydelta(*words, "--json").text)

        self.assertEqual(
            said("create", new, "id:int"),
            {"version": 0, "rows": 0, "bytes": 0, "numRecords": 0, "size": 0},
        )
        for version in (1, 2):
            self.assertEqual(
                said("append", new, "--file", rows),
                {"version": version, "rows": 2, "bytes": 18, "numRecords": 2 * version, "size": 18 * version},
            )
        for words in (["overwrite", new, "--file", rows], ["restore", new, "2"], ["restore", new, "1"]):
            got = said(*words)
            self.assertEqual(got["rows"], {3: -2, 4: 2, 5: -2}[got["version"]])
            self.assertEqual(got["bytes"], 9 * got["rows"])
        self.tinydelta_fails("append", new, "--json", "--file", self.file("x"))


class Terminal(HistoryCase):
    def at(self, columns, *words, **environment):
        """What a terminal is sent, and the status."""
        variables = {k: v for k, v in os.environ.items() if k != "LESS"}
        variables.update({"LC_ALL": "C.UTF-8", "TERM": "xterm", **environment})
        program = harness.program("tinydelta")
        pid, master = pty.fork()
        if pid == 0:
            os.system(f"stty cols {columns} -onlcr")
            os.execve(program, [program, *map(str, words)], variables)
        sent = b""
        try:
            while chunk := os.read(master, 65536):
                sent += chunk
        except OSError:
            pass
        os.close(master)
        return sent.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_long_names_are_cut(self):
        source = self.file([{"id": 1}], "orders-of-the-northern-region-2026-11-29-\u2603.jsonl")
        self.tinydelta("append", self.t, "--file", source, "-m", "one two three " * 9)
        for width, graph in ((80, []), (90, ["--graph"]), (120, ["--graph"])):
            text, _ = self.at(width, "history", self.t, "--long", *graph, PAGER="", NO_COLOR="1")
            lines = text.splitlines()
            self.assertLessEqual(max(map(len, lines)), width, text)
            self.assertIn("orders-of-t", lines[-1])
            self.assertIn("\u2026", lines[-1])
        # Programs get all of it.
        said = self.tinydelta("history", self.t, "--long", env={"LC_ALL": "C.UTF-8"}).text
        self.assertIn(source.name, said)
        text, _ = self.at(80, "history", self.t, "--long", PAGER="", LC_ALL="C", NO_COLOR="1")
        self.assertIn("...", text)
        self.assertTrue(text.isascii())

    def test_pager(self):
        shows = "sed 's/^/> /'"
        text, status = self.at(80, "history", self.t, PAGER=shows, NO_COLOR="1")
        self.assertEqual(status, 0)
        lines = text.splitlines()
        self.assertEqual(len(lines), 6)
        self.assertTrue(all(line.startswith("> ") for line in lines), text)
        self.assertIn("FRX", self.at(80, "history", self.t, PAGER='echo "$LESS"')[0])
        self.assertIn("Z", self.at(80, "history", self.t, PAGER='echo "$LESS"', LESS="Z")[0])
        for pager in ("cat", "", "no-such-program", "/no/such/program x"):
            text, status = self.at(80, "history", self.t, PAGER=pager, NO_COLOR="1")
            self.assertEqual((len(text.splitlines()), status), (6, 0), pager)
        self.assertFalse(self.at(80, "history", self.t, "--json", PAGER=shows)[0].startswith(">"))
        self.assertFalse(self.at(80, "describe", self.t, PAGER=shows)[0].startswith(">"))
        self.assertFalse(self.at(80, "history", self.t, PAGER=shows, TERM="dumb")[0].startswith(">"))
        said = self.tinydelta("history", self.t, env={"PAGER": shows, "TERM": "xterm"}).text
        self.assertFalse(said.startswith(">"))

    def test_pager_that_is_closed_early(self):
        table = self.table(name="long")
        for version in range(1, 3000):
            info = {"timestamp": 1, "operation": "X" * 200, "readVersion": 0}
            path = table / "_delta_log" / f"{version:020d}.json"
            path.write_text(json.dumps({"commitInfo": info}) + "\n")
        text, status = self.at(80, "history", table, PAGER="head -n 2", NO_COLOR="1")
        self.assertEqual((len(text.splitlines()), status), (2, 0), text)

    def test_less(self):
        self.require_tool("less")
        text, status = self.at(80, "history", self.t, PAGER="less", NO_COLOR="1")
        self.assertEqual(status, 0)
        self.assertEqual(len(re.findall(r"v[0-4] +[A-Z]", text)), 5, text)
