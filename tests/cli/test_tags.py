# SPDX-License-Identifier: MIT
"""Tags: names that people give to versions."""

import json
import os
import pathlib
import shutil
import stat
import subprocess

import harness
from harness import TestCase

NO_NAMES = [
    *("7", "007", "v7", "latest", "head", "first", "newest", "next", "now", "all"),
    *("a~", "a^", "a:b", "@a", "a@b", "a/b", "a..b", "..", ".a", "-a", "a\nb", "a\x1b[31m", "", "x" * 201, "\u2028"),
]
NAMES = ["july", "v7a", "Latest", "a.b", "a b", "\u00fc", "\U0001f600", "x" * 200, "v", "_", "$(id)", "a\\b", "7a"]


class Tags(TestCase):
    def setUp(self):
        super().setUp()
        self.t = self.table(rows=[{"id": 1}], name="t")
        self.append(self.t, [{"id": 2}])
        self.append(self.t, [{"id": 3}])

    @property
    def folder(self):
        return self.t / "_tags"

    def listed(self):
        return json.loads("[" + self.tinydelta("tags", self.t, "--json").text.replace("}\n{", "},{") + "]")

    def finds(self, *words):
        """What a command prints that finds something wrong: status 1, and nothing on stderr."""
        result = self.fails([harness.program("tinydelta"), *words])
        self.assertEqual(result.err, b"")
        return result.text

    def test_a_tag_names_its_version_everywhere(self):
        self.assertEqual(self.tinydelta("tags", self.t).text, "")
        self.assertEqual(self.tinydelta("tag", self.t, "july", "v2", "-m", "as it \u00fcas").text, "tagged version 2 as july\n")
        self.assertEqual(self.tinydelta("tag", self.t, "newer").text, "tagged version 3 as newer\n")
        self.assertEqual(self.tinydelta("tags", self.t).text, "july  v2\nnewer  v3\n")
        july = self.listed()[0]
        self.assertEqual((july["tag"], july["version"], july["message"]), ("july", 2, "as it \u00fcas"))
        self.assertIn("userName", july)
        self.assertEqual(self.tinydelta("read", self.t, "--version", "july").out.count(b"\n"), 2)
        self.assertEqual(self.tinydelta("read", self.t, "--version", "july~1").out.count(b"\n"), 1)
        said = self.fails([harness.program("tinydelta"), "diff", self.t, "july", "newer"]).text
        self.assertEqual(said, '+{"id":3}\n')
        self.assertEqual(self.tinydelta("restore", self.t, "july").text, "restored version 2 as version 4\n")
        self.tinydelta_fails("read", self.t, "--version", "july~3")

    def test_a_mount_of_a_tag(self):
        self.tinydelta("tag", self.t, "july", "2")
        with self.mount(self.t, options=["version=july"]) as mnt:
            self.assertEqual(mnt.read("data.jsonl").count(b"\n"), 2)

    def test_one_that_is_there_stays(self):
        self.tinydelta("tag", self.t, "july", "2")
        before = (self.folder / "july").read_bytes()
        self.assertIn("--force moves it", self.tinydelta_fails("tag", self.t, "july", "3").error)
        self.assertEqual((self.folder / "july").read_bytes(), before)
        self.tinydelta("tag", self.t, "july", "3", "--force")
        self.tinydelta("tag", self.t, "august", "1", "--force")
        self.assertEqual(self.tinydelta("tags", self.t).text, "august  v1\njuly  v3\n")
        self.assertEqual(self.tinydelta("tag", self.t, "--delete", "july").text, "deleted tag july\n")
        self.assertEqual(self.tinydelta_fails("tag", self.t, "--delete", "july").error, "error: no such tag: july\n")
        self.tinydelta_fails("tag", self.t, "--delete", "july", "3", status=2)
        self.assertEqual(os.listdir(self.folder), ["august"])

    def test_names(self):
        for name in NO_NAMES:
            with self.subTest(name=name):
                result = self.tinydelta_fails("tag", self.t, "--", name, "1", status=2)
                self.assertIn("not a name for a tag", result.error)
                self.assertEqual(result.error.count("\n"), 1)
        self.assertFalse(self.folder.exists())
        for name in NAMES:
            with self.subTest(name=name):
                self.tinydelta("tag", self.t, name, "1")
                self.assertEqual(self.tinydelta("read", self.t, "--version", name).out.count(b"\n"), 1)
        self.assertEqual([tag["tag"] for tag in self.listed()], sorted(NAMES, key=str.encode))

    def test_versions_that_are_not_there(self):
        self.tinydelta_fails("tag", self.t, "july", "4")
        self.tinydelta_fails("tag", self.t, "july", "june")
        self.tinydelta_fails("tag", self.t, "july", "a/b", status=2)
        (self.t / "_delta_log" / f"{3:020}.json").chmod(0o600)
        (self.t / "_delta_log" / f"{3:020}.json").write_text("x")
        self.tinydelta_fails("tag", self.t, "july", "3")
        self.tinydelta_fails("tag", self.t, "july")
        self.tinydelta("tag", self.t, "july", "2")

    def test_too_long_a_message(self):
        # Behind the ends of an argument on some systems: half of it, each byte six.
        self.assertIn("too long", self.tinydelta_fails("tag", self.t, "july", "-m", "\u00fc" * 11000).error)
        self.assertFalse(os.path.exists(self.folder / "july"))

    def test_what_strangers_put_there(self):
        self.tinydelta("tag", self.t, "good", "1")
        whole = (self.folder / "good").read_text()
        contents = {
            "empty": "", "half": whole[:-5], "array": "[]", "number": "7", "two": whole + whole,
            "no-version": '{"tableId":"x"}', "negative": whole.replace('"version":1', '"version":-1'),
            "float": whole.replace('"version":1', '"version":1.0'),
            "far": whole.replace('"version":1', '"version":9999999999999999999'),
            "later": whole.replace('"version":1', '"version":4'),
            "text": whole.replace('"version":1', '"version":"1"'),
            "foreign": whole.replace('"tableId":"', '"tableId":"x'), "large": whole + " " * 65536,
            "deep": whole[:-2] + ',"x":' + "[" * 5000 + "]" * 5000 + "}",
        }
        for name, text in contents.items():
            (self.folder / name).write_text(text)
        (self.folder / "bytes").write_bytes(b'{"version":1,"tableId":"\xff"}')
        (self.folder / "link").symlink_to(self.folder / "good")
        (self.folder / "folder").mkdir()
        os.mkfifo(self.folder / "fifo")
        (self.folder / "v7").write_text(whole)
        (self.folder / ".hidden").write_text("x")
        (self.folder / "a\nb").write_text(whole)
        bad = {*contents, "bytes", "link", "folder", "fifo", "v7", "a\\x0ab"}
        lines = self.finds("tags", self.t, "--json").splitlines()
        found = {tag["tag"]: tag for tag in map(json.loads, lines)}
        self.assertEqual(set(found), bad | {"good"})
        for name in bad:
            self.assertIsNone(found[name]["version"], name)
            self.assertTrue(found[name]["error"], name)
        for name in sorted(bad - {"v7", "a\\x0ab"}):
            with self.subTest(name=name):
                self.assertEqual(self.tinydelta_fails("read", self.t, "--version", name).error.count("\n"), 1)
        named = {line.split(":")[0] for line in self.finds("check", self.t).splitlines()}
        self.assertEqual(named, {f"_tags/{name}" for name in bad})
        self.assertEqual(self.tinydelta("vacuum", self.t).text, "no orphan files\n")
        self.assertEqual(self.tinydelta("history", self.t).text.count("\n"), 4)
        self.tinydelta("tag", self.t, "half", "2", "--force")
        self.tinydelta("tag", self.t, "--delete", "fifo")

    def test_what_the_folder_can_be(self):
        self.folder.symlink_to(self.scratch)
        self.tinydelta_fails("tag", self.t, "july", "1")
        self.tinydelta_fails("tags", self.t)
        self.assertIn("_tags: ", self.finds("check", self.t))
        self.assertEqual(self.tinydelta("history", self.t).text.count("\n"), 4)

    def test_a_copy_has_them_and_another_table_has_not(self):
        self.tinydelta("tag", self.t, "july", "2")
        copy, other = self.path(), self.table(rows=[{"id": 1}])
        shutil.copytree(self.t, copy)
        self.assertEqual(self.tinydelta("tags", copy).text, "july  v2\n")
        shutil.copytree(self.folder, other / "_tags")
        self.assertIn("of another table", self.finds("tags", other))

    def test_the_history_shows_them(self):
        plain = self.tinydelta("history", self.t).text
        lines = self.tinydelta("history", self.t, "--json").text
        self.tinydelta("tag", self.t, "july", "2")
        self.tinydelta("tag", self.t, "b", "2")
        self.assertEqual(self.tinydelta("history", self.t).text, plain, "as the Python command prints it")
        after = self.tinydelta("history", self.t, "--json").text.splitlines()
        self.assertEqual([json.loads(line).get("tags") for line in after], [None, None, ["b", "july"], None])
        self.assertEqual(after[3] + "\n", lines.splitlines(True)[3])
        for option in ("--graph", "--long"):
            shown = self.tinydelta("history", self.t, option).text.splitlines()
            self.assertIn("TAGS", shown[0])
            self.assertEqual([("b,july" in line) for line in shown], [False, False, False, True, False])

    def test_two_at_once(self):
        """Of those who make one name at once one wins, and all others are told."""
        rounds = int(os.environ.get("TDL_TAG_ROUNDS", "12"))
        program = harness.program("tinydelta")
        for turn in range(rounds):
            made = [
                subprocess.Popen(
                    [program, "tag", self.t, f"t{turn}", str(version)],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment([program]),
                )
                for version in (1, 2, 3)
            ]
            ends = [(child.communicate(timeout=60), child.returncode) for child in made]
            won = [version for version, (_, status) in zip((1, 2, 3), ends) if status == 0]
            self.assertEqual(len(won), 1, ends)
            for (_, err), status in ends:
                self.assertTrue(status == 0 or b"already" in err, err)
            self.assertEqual(json.loads((self.folder / f"t{turn}").read_bytes())["version"], won[0])
        self.assertEqual([n for n in os.listdir(self.t / "_delta_log") if n.endswith(".tmp")], [])

    def test_a_team(self):
        """Who may write to the table may make, move and remove its tags; who may not, not."""
        self.require_root()
        one, other = 4001, 4002
        os.chown(self.t, one, 4000)
        self.t.chmod(0o2775)
        for path in (self.t / "_delta_log", *(self.t / "_delta_log").iterdir()):
            os.chown(path, one, 4000)
        (self.t / "_delta_log").chmod(0o2775)
        self.scratch.chmod(0o755)
        program = harness.program("tinydelta")

        def by(user, groups, *words):
            done = subprocess.run(
                [program, words[0], self.t, *words[1:]], user=user, group=user, extra_groups=groups, cwd="/",
                capture_output=True, env={**os.environ, "HOME": "/nonexistent"}, timeout=60,
            )
            return done.returncode, done.stderr.decode()

        self.assertEqual(by(one, [4000], "tag", "july", "1"), (0, ""))
        st = os.stat(self.folder)
        self.assertEqual((stat.S_IMODE(st.st_mode), st.st_gid), (0o2775, 4000))
        self.assertEqual(stat.S_IMODE(os.stat(self.folder / "july").st_mode), 0o444)
        self.assertEqual(by(other, [4000], "tag", "july", "2", "--force"), (0, ""))
        self.assertEqual(by(one, [4000], "tag", "july", "--delete"), (0, ""))
        status, said = by(4003, [], "tag", "july", "2")
        self.assertEqual((status, said.count("\n")), (1, 1), said)
        self.assertEqual(by(4003, [], "tags"), (0, ""))
        self.assertEqual([p.name for p in pathlib.Path(self.folder).iterdir()], [])
