# SPDX-License-Identifier: MIT
"""The manual pages and the completion say what the programs take."""

import re

import harness
from harness import SOURCE, TestCase

COMMANDS = (
    *("create", "append", "overwrite", "read", "status", "describe", "history", "diff", "changes"),
    *("restore", "tag", "tags", "vacuum", "check", "recover"),
)
OPTION = r"(?m)^  (?:-[a-z], )?(--[a-z-]+)"
PAGE = SOURCE / "core" / "command" / "tinydelta.1"
HELPER_PAGE = SOURCE / "mount-helper" / "mount.tinydelta.8"
FORMAT_PAGE = SOURCE / "core" / "tinydelta-table.5"
DAEMON_PAGE = SOURCE / "fs" / "tinydeltafs.1"


class Pages(TestCase):
    def test_lint(self):
        tool = self.require_tool("mandoc")
        made = harness.build_root() / "core" / "tinydelta.3"
        for page in (PAGE, HELPER_PAGE, FORMAT_PAGE, DAEMON_PAGE, made):
            result = harness.run([tool, "-T", "lint", "-W", "warning", page])
            self.assertEqual((result.status, result.out), (0, b""), str(result))

    def shown(self, page, section):
        """A section as it is read, in one line."""
        tool = self.require_tool("mandoc")
        text = self.ok([tool, "-T", "ascii", "-O", "width=1000", page]).text
        text = re.sub(r".\x08", "", text)
        found = re.search(rf"(?ms)^{section}\n(.*?)(?=^[A-Z])", text)
        self.assertIsNotNone(found, f"{page} has no {section}")
        return found[1]

    def test_synopsis_is_what_help_shows(self):
        lines = [
            " ".join(line.split()) for line in self.shown(PAGE, "SYNOPSIS").splitlines() if line
        ]
        wanted = []
        for command in COMMANDS:
            usage = self.tinydelta(command, "--help").text.splitlines()[0]
            wanted.append(usage.removeprefix("usage: ").replace("NAME:TYPE...", "NAME:TYPE ..."))
        self.assertEqual(lines, wanted + ["tinydelta help [COMMAND|TOPIC]", "tinydelta --help | --version"])

    def test_every_option_is_explained(self):
        shown = self.shown(PAGE, "DESCRIPTION")
        explained = set(re.findall(r"(?m)^ +(?:-[a-z], )?(--[a-z-]+)(?: [A-Z]+|\[=[a-z|]+\])?(?:  |$)", shown))
        known = {"--help", "--version"}
        for command in COMMANDS:
            known.update(re.findall(OPTION, self.tinydelta(command, "--help").text))
            self.assertRegex(shown, rf"(?m)^ +{command} \[?TABLE")
        self.assertEqual(explained, known)

    def test_the_helpers_letters(self):
        helper = harness.program("mount.tinydelta")
        said = self.ok([helper, "--help"]).text
        letters = re.findall(r"(?m)^  (-[a-zA-Z])\b", said)
        self.assertEqual(len(letters), 9)
        shown = self.shown(HELPER_PAGE, "DESCRIPTION")
        self.assertEqual(re.findall(r"(?m)^ +(-[a-zA-Z])\b", shown), letters)

    def test_the_helpers_options(self):
        """Each mount option that the page names is taken, and what the daemon is given is named."""
        shown, rest, _ = self.shown(HELPER_PAGE, "MOUNT OPTIONS").partition("Options that concern")
        self.assertTrue(rest)
        named = set()
        for line in re.findall(r"(?m)^ {5}(\S.*?)(?:  |$)", shown):
            named.update(re.findall(r"([a-z_]+)(?:=[A-Z]+)?(?:,|$)", line))
        source = (SOURCE / "mount-helper" / "mountopts.c").read_text()
        passed = set(re.findall(r'\{ "([a-z_]+)", PASS', source))
        self.assertGreater(len(passed), 10)
        self.assertEqual(passed - named, set(), "options without a word in the page")
        self.assertEqual(named - passed, {"ro", "rw", "remount"}, "the page names others")


    def test_the_daemon_knows_what_the_helper_hands_it(self):
        source = (SOURCE / "mount-helper" / "mountopts.c").read_text()
        passed = re.findall(r'\{ "([a-z_]+)", PASS(\w*)', source)
        for name, kind in passed:
            value = {"": "", "_VALUE": "=8192", "_LABEL": "=x"}[kind]
            nowhere = self.path("nowhere")
            result = self.fails(
                [harness.program("tinydeltafs"), "-o", name + value, "--", nowhere, nowhere],
                status=None,
                cwd=self.scratch,
            )
            self.assertNotIn("unknown option", result.error, name)

    def test_the_helper_hands_on_what_the_daemon_knows(self):
        source = (SOURCE / "mount-helper" / "mountopts.c").read_text()
        page = (SOURCE / "fs" / "tinydeltafs.1").read_text()
        listed = page[page.index(".It Fl o Ar options") : page.index(".It Fl s")]
        documented = set()
        for line in re.findall(r"(?m)^\.It Cm (.*)$", listed):
            documented.update(re.findall(r"[a-z_]{2,}", re.sub(r"\bAr \w+", "", line)))
        self.assertGreater(len(documented), 10)
        passed = set(re.findall(r'\{ "([a-z_]+)", PASS', source)) | {"ro", "rw", "remount"}
        self.assertEqual(documented - passed, set())
