# SPDX-License-Identifier: MIT
"""Completion: the program says what may stand where, and bash, zsh and fish offer it."""

import os
import pty
import re
import select
import signal
import time

import harness
from harness import SOURCE, TestCase

COMMANDS = (
    *("create", "append", "overwrite", "read", "status", "describe", "history", "diff", "changes"),
    *("restore", "tag", "tags", "vacuum", "check", "recover"),
)
TOPICS = ("versions", "times", "incoming")
OPTION = r"(?m)^  (?:-[a-z], )?(--[a-z-]+)"
OURS = SOURCE / "core" / "command" / "completion"
DAEMONS = SOURCE / "fs" / "completion"


class CompletionCase(TestCase):
    def setUp(self):
        super().setUp()
        self.t = self.table(rows=[{"id": 1}], name="t")
        for _ in range(9):
            self.append(self.t, [{"id": 2}])
        folders = [os.path.dirname(harness.program(name)) for name in ("tinydelta", "tinydeltafs")]
        self.env = {"PATH": ":".join([*folders, os.environ["PATH"]]), "HOME": str(self.scratch)}

    @property
    def all(self):
        return ["latest", *(str(version) for version in range(10, -1, -1))]


class Offers(CompletionCase):
    """What the program offers to every shell."""

    def offered(self, *words):
        said = self.tinydelta("complete", *words, cwd=self.scratch, env=self.env)
        self.assertEqual(said.err, b"")
        return [line.split("\t")[0] for line in said.text.splitlines()]

    def test_commands(self):
        self.assertEqual(
            sorted(self.offered("")), sorted([*COMMANDS, "help", "--help", "--version"])
        )
        self.assertEqual(self.offered("re"), ["read", "restore", "recover"])
        self.assertEqual(self.offered("no"), [])
        self.assertEqual(self.offered(), [])
        self.assertEqual(self.offered("bogus", "x"), [])
        self.assertEqual(self.offered("help", ""), [*COMMANDS, *TOPICS])
        self.assertEqual(self.offered("help", "ti"), ["times"])

    def test_each_says_what_it_is(self):
        for line in self.tinydelta("complete", "h").text.splitlines():
            self.assertRegex(line, r"\A[a-z]+\t[A-Za-z]")
        about = self.tinydelta("complete", "read", self.t, "--version", "10").text
        self.assertRegex(about, r"\A10\tAPPEND, [0-9]{4}-[0-9-]+ [0-9:]+\n\Z")

    def test_options_are_those_of_the_help(self):
        for command in COMMANDS:
            said = self.tinydelta(command, "--help").text
            known = sorted(set(re.findall(OPTION, said)))
            self.assertEqual(sorted(self.offered(command, "t", "--")), known, command)

    def test_versions(self):
        (self.t / "_delta_log" / "9.json").write_bytes(b"")
        self.assertEqual(self.offered("read", "t", "--version", ""), self.all)
        self.assertEqual(self.offered("read", "--version", "1", "t", "--version", "1"), ["10", "1"])
        self.assertEqual(self.offered("read", "t", "--version=v1"), ["--version=v10", "--version=v1"])
        self.assertEqual(self.offered("restore", "--version=1", "t", "--read-version", ""), self.all[1:])
        self.assertEqual(self.offered("restore", "t", "lat"), ["latest"])
        self.assertEqual(self.offered("read", "~/t", "--version", "10"), ["10"])
        self.assertEqual(self.offered("read", "nonexistent", "--version", ""), [])
        self.assertEqual(self.offered("diff", "t", ""), self.all)
        self.assertEqual(self.offered("diff", "--stat", "t", "3", "1"), ["10", "1"])
        self.assertEqual(self.offered("diff", "t", "3", "4", "1"), [])
        self.assertEqual(self.offered("changes", "t", "10"), ["10"])
        self.assertEqual(self.offered("diff", "--color", "always", "t"), [":folders"])

    def test_of_the_table_around(self):
        inside = {"cwd": self.t / "_delta_log", "env": self.env}
        said = self.tinydelta("complete", "read", "--version", "10", **inside).text
        self.assertTrue(said.startswith("10\t"), said)
        said = self.tinydelta("complete", "restore", "v1", **inside).text
        self.assertEqual([line.split("\t")[0] for line in said.splitlines()], [":folders", "v10", "v1"])

    def test_a_long_log_is_not_offered_whole(self):
        table = self.table(name="long")
        for version in range(1, 1500):
            info = '{"commitInfo":{"timestamp":1,"operation":"A\\tB\\nC","readVersion":0}}\n'
            (table / "_delta_log" / f"{version:020d}.json").write_text(info)
        self.assertEqual(self.offered("diff", "long", "")[:3], ["latest", "1499", "1498"])
        self.assertLess(len(self.offered("diff", "long", "")), 300)
        self.assertEqual(self.offered("diff", "long", "7"), [*map(str, range(799, 699, -1)), *map(str, range(79, 69, -1)), "7"])

    def test_files_and_choices(self):
        self.assertEqual(self.offered("append", "t", "--file", ""), [":files"])
        self.assertEqual(self.offered("append", "t", "--file=x"), [":files"])
        self.assertEqual(self.offered("append", ""), [":folders"])
        self.assertEqual(self.offered("append", "t", ""), [])
        self.assertEqual(self.offered("append", "--", "--"), [":folders"])
        self.assertEqual(self.offered("history", "t", "--color", "a"), ["auto", "always"])
        self.assertEqual(self.offered("diff", "t", "--color=n"), ["--color=never"])
        self.assertEqual(self.offered("history", "t", "--graph="), ["--graph=rows", "--graph=bytes"])
        self.assertEqual(self.offered("history", "t", "--graph", "b"), [])
        self.assertEqual(self.offered("history", "t", "-n", ""), [])
        self.assertEqual(self.offered("create", "t", "a"), [])
        self.assertEqual(self.offered("create", "t", "a:b"), ["a:bool"])

    def test_commits_nothing(self):
        self.offered("restore", "t", "1")
        self.offered("append", "t", "--file", "/dev/null", "")
        self.assertEqual(self.versions(self.t)[-1], 10)


class Shells(CompletionCase):
    def bash(self, script, function, line):
        program = (
            'source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; compopt() { :; }; "$3"; '
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        said = self.sh(program, script, line, function, cwd=self.scratch, env=self.env)
        self.assertEqual(said.err, b"")
        return said.text.split()

    def test_bash(self):
        def offered(line):
            return self.bash(OURS / "tinydelta.bash", "_tinydelta", line)

        self.file(b"", "rows.jsonl")
        self.path("folder").mkdir()
        self.assertEqual(offered("tinydelta his"), ["history"])
        self.assertEqual(offered("tinydelta read t --version "), self.all)
        # Of a word that bash cuts, the part behind the cut.
        self.assertEqual(offered("tinydelta read t --version=1"), ["10", "1"])
        self.assertEqual(offered("tinydelta history t --graph="), ["rows", "bytes"])
        self.assertEqual(offered("tinydelta create t a:f"), ["float"])
        self.assertEqual(offered("tinydelta append t --file r"), ["rows.jsonl"])
        self.assertEqual(offered("tinydelta append f"), ["folder"])

    def test_bash_for_the_daemon(self):
        def offered(line):
            return self.bash(DAEMONS / "tinydeltafs.bash", "_tinydeltafs", line)

        said = self.ok([harness.program("tinydeltafs"), "-h"]).text
        known = {name for name in re.findall(r"-o ([a-z_]+)", said)}
        found = {name.removesuffix("=") for name in offered("tinydeltafs t m -o ")}
        self.assertEqual(found, known | {"gid"})
        self.assertEqual(offered("tinydeltafs t m -o ro,allow_"), ["ro,allow_other", "ro,allow_root"])
        self.assertEqual(offered("tinydeltafs t m -o ro,version=1"), ["10", "1"])
        self.assertEqual(offered("tinydeltafs -"), ["-V", "-d", "-f", "-h", "-o", "-s"])
        self.path("folder").mkdir()
        self.assertEqual(offered("tinydeltafs fo"), ["folder"])

    def typed(self, shell, setup, keys, until):
        """What a shell's line looks like after the keys."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.scratch)
            os.environ.update(self.env, TERM="xterm", PS1="$ ", LC_ALL="C.UTF-8")
            os.execvp(shell[0], shell)
        sent = b""
        deadline = time.monotonic() + harness.SOON

        def wait(pattern):
            nonlocal sent
            while not re.search(pattern, sent):
                left = deadline - time.monotonic()
                self.assertGreater(left, 0, sent)
                if select.select([terminal], [], [], left)[0]:
                    sent += os.read(terminal, 65536)

        try:
            os.write(terminal, setup.encode() + b"; echo re''ady\n")
            wait(rb"ready\r*\n")
            sent = b""
            os.write(terminal, keys.encode())
            wait(until)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)

    def test_bash_at_a_terminal(self):
        script = OURS / "tinydelta.bash"
        shell = ["bash", "--norc", "--noprofile", "-i"]
        self.typed(shell, f"source {script}", "tinydelta hist\tt --graph=by\t", rb"history t --graph=bytes")
        self.typed(shell, f"source {script}", "tinydelta create n a:fl\t", rb"a:float")

    def test_zsh(self):
        self.require_tool("zsh")
        folder = self.path("functions")
        folder.mkdir()
        (folder / "_tinydelta").symlink_to(OURS / "tinydelta.zsh")
        (folder / "_tinydeltafs").symlink_to(DAEMONS / "tinydeltafs.zsh")
        setup = (
            f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; setopt no_auto_menu; "
            "unset zle_bracketed_paste"
        )
        shell = ["zsh", "-f", "-i"]
        self.typed(shell, setup, "tinydelta hist\t", rb"history")
        self.typed(shell, setup, "tinydelta restore t late\t", rb"latest")
        self.typed(shell, setup, "tinydelta read t --version 10\t\x01echo '\x05'\n", rb"\nt?.*--version 10")
        self.typed(shell, setup, "tinydelta restore t \t", rb"newest version")
        self.typed(shell, setup, "tinydeltafs t m -o nopass\t", rb"nopassthrough")

    def test_fish(self):
        fish = self.require_tool("fish")

        def offered(line):
            script = f"source {OURS}/tinydelta.fish; source {DAEMONS}/tinydeltafs.fish; complete -C {line!r}"
            said = self.ok([fish, "--no-config", "-c", script], cwd=self.scratch, env=self.env)
            return [text.split("\t")[0] for text in said.text.splitlines()]

        self.file(b"", "rows.jsonl")
        self.assertEqual(offered("tinydelta his"), ["history"])
        self.assertEqual(offered("tinydelta read t --version "), self.all)
        self.assertEqual(offered("tinydelta append t --file ro"), ["rows.jsonl"])
        self.assertIn("--graph=rows", offered("tinydelta history t --graph="))
        self.assertEqual(offered("tinydeltafs t m -o ro,nopass"), ["ro,nopassthrough"])

    def test_shellcheck(self):
        tool = self.require_tool("shellcheck")
        tests = SOURCE / "tests"
        scripts = [OURS / "tinydelta.bash", DAEMONS / "tinydeltafs.bash"]
        self.ok([tool, *scripts, tests / "run", tests / "demo", tests / "fresh"])
