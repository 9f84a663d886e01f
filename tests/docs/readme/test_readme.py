# SPDX-License-Identifier: MIT
"""The README is true: its ```console blocks are typed in, top to bottom, and must show what they
say; its demonstration runs; its commands and files exist."""

import os
import re
import shutil
import xml.dom.minidom

import harness
from harness import SOURCE, TestCase

README = (SOURCE / "README.md").read_text(encoding="utf-8")


def typed(block):
    """The commands of a block, each with the output shown under it. A here-document's lines stand
    behind "> "."""
    lines = block.splitlines()
    found = []
    while lines:
        command = lines.pop(0)
        assert command.startswith("$ "), f"not a command: {command}"
        command = command[2:]
        here = re.search(r"<<'(\w+)'", command)
        while here:
            line = lines.pop(0)
            assert line.startswith("> "), f"not in the here-document: {line}"
            command += "\n" + line[2:]
            if line[2:] == here[1]:
                break
        output = []
        while lines and not lines[0].startswith("$ "):
            output.append(lines.pop(0))
        found.append((command, "\n".join(output)))
    return found


def shown(text):
    """Text as compared: columns and line breaks of listings depend on the terminal."""
    return " ".join(text.split())


class Readme(TestCase):
    def test_console_blocks(self):
        self.require_fuse()
        for tool in ("jq", "sqlite3"):
            self.require_tool(tool)
        blocks = re.findall(r"^```(console|sh)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
        self.assertGreater(len(blocks), 5)
        programs = {os.path.dirname(harness.program(n)) for n in ("tinydelta", "tinydeltafs")}
        path = ":".join(sorted(programs)) + ":" + os.environ["PATH"]
        self.addCleanup(harness.run, ["umount", "-l", self.path("mnt")])
        for kind, block in blocks:
            if kind == "sh":
                self.other_tools(block, path)
                continue
            for command, output in typed(block):
                result = harness.run(
                    ["bash", "-c", f"exec 2>&1\n{command}"], cwd=self.scratch, env={"PATH": path}
                )
                self.assertEqual(shown(result.text), shown(output), f"$ {command}")
                wanted = 1 if re.match("(tinydelta )?diff ", command) else 0
                self.assertEqual(result.status, wanted, f"$ {command}\n{result}")

    def other_tools(self, block, path):
        """What not every machine has: run where it is there."""
        for line in block.splitlines():
            tool = re.match(r"duckdb|python3 -c '(import \w+)", line)
            if tool is None:
                continue
            probe = ["bash", "-c", f"python3 -c '{tool[1]}'" if tool[1] else "command -v duckdb"]
            if harness.run(probe).status == 0:
                self.ok(["bash", "-c", line], cwd=self.scratch, env={"PATH": path})

    def test_picture(self):
        """It still shows what a terminal does; the shapes depend on how long the run took."""
        self.require_fuse()

        def texts(svg):
            found = re.findall(r"<text([^>]*)>([^<]*)</text>", svg)
            return [(re.findall("class=[^ ]*", a), t) for a, t in found if not set(t) <= set("█▏▎▍▌▋▊▉")]

        drawn = self.ok(["/usr/bin/python3", SOURCE / "tests" / "docs" / "readme" / "picture.py"], timeout=120).text
        kept = (SOURCE / "tests" / "docs" / "readme" / "picture.svg").read_text(encoding="utf-8")
        self.assertEqual(texts(drawn), texts(kept))
        xml.dom.minidom.parseString(kept)

    def test_synopsis_is_the_help(self):
        wanted = re.search(r"^## The tinydelta command\n\n((?:    .*\n)+)", README, re.MULTILINE)[1]
        names = re.findall(r"^  ([a-z]+)  ", self.tinydelta("--help").text, re.MULTILINE)
        usages = [self.tinydelta(n, "--help").text.splitlines()[0] for n in names]
        self.assertEqual(
            [line.strip() for line in wanted.splitlines()],
            [usage.removeprefix("usage: ") for usage in usages],
        )

    def test_mount_options_are_the_help(self):
        for line in self.ok([harness.program("tinydeltafs"), "-h"]).text.splitlines():
            line = line.removeprefix("usage: ").strip()
            if not line.startswith("Unmount with"):
                self.assertIn(line, README)

    def test_paths_exist(self):
        layout = README[README.index("## Where things live") :]
        for name in re.findall(r"`((?:core|fs|mount-helper|tests|\.ci)/[^` *]*)`", layout):
            self.assertTrue((SOURCE / name).exists(), name)


class Demonstration(TestCase):
    def without(self, *hidden, user="0"):
        """Runs it where these programs or devices are not there; returns what it says, which is one
        line, said before anything is done."""
        self.require_root()
        # Nothing that could be installed or mounted: what is hidden is only hidden from this.
        script = """
            set -e
            mount --make-rprivate /
            mount -t tmpfs none /mnt
            for folder in /usr/bin /usr/sbin; do
                mkdir -p /mnt/upper$folder /mnt/work$folder
                mount -t overlay -o "lowerdir=$folder,upperdir=/mnt/upper$folder,workdir=/mnt/work$folder" overlay $folder ||
                    exit 77
                (cd $folder && rm -f $HIDDEN)
            done
            case $HIDDEN in
            *fuse*) mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 ;;
            # Some machines keep the device to root.
            *) mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse ;;
            esac
            exec setpriv --reuid="$1" --regid="$1" --clear-groups bash "$2" --unmount
        """
        tmp = self.path("tmp")
        tmp.mkdir(exist_ok=True)
        tmp.chmod(0o777)
        demo = self.scratch / "checkout" / "tests" / "demo"
        if not demo.exists():
            demo.parent.mkdir(parents=True)
            shutil.copy(SOURCE / "tests" / "demo", demo)
        result = harness.run(
            ["unshare", "--mount", "bash", "-c", script, "bash", user, demo],
            env={"HIDDEN": " ".join(os.path.basename(h) for h in hidden), "TMPDIR": str(tmp), "TDL_DEMO_BUILD": str(self.path("build"))},
        )
        if result.status == 77:
            self.skipTest(f"no overlay: {result.error.strip()}")
        self.assertEqual(result.status, 1, str(result))
        self.assertEqual(os.listdir(tmp), [])
        self.assertFalse(self.path("build").exists())
        self.assertEqual(result.out, b"", str(result))
        self.assertRegex(result.error, r"\Atests/demo: [^\n]+\n\Z", str(result))
        return result.error

    def test_says_at_once_what_is_missing(self):
        self.require_fuse()
        said = self.without("jq", "apt-get")
        self.assertIn("please install what Debian calls: jq", said)
        said = self.without("jq", "sudo", user="65534")
        self.assertIn("no sudo; as root: apt-get install jq", said)
        for user in ("0", "65534"):
            said = self.without("/dev/fuse", user=user)
            self.assertIn("cannot mount: there is no /dev/fuse (try: modprobe fuse;", said)

    def test_runs_and_unmounts(self):
        self.require_fuse()
        self.path("tmp").mkdir()
        result = self.ok(
            ["bash", SOURCE / "tests" / "demo", "--unmount"],
            env={"TMPDIR": str(self.path("tmp")), "TDL_DEMO_BUILD": str(self.path("build"))},
            timeout=harness.TEST_TIMEOUT,
        )
        self.assertEqual(os.listdir(self.path("tmp")), [], "nothing is left behind")
        for text in (
            "created orders version 0",
            '{"id":3,"region":"north","year":2026}',
            'broken.jsonl:2: "year" expected int, got string "soon"',
            "restored version 1 as version 3",
            "the same",
        ):
            self.assertIn(text, result.text)
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            self.assertNotIn(str(self.scratch), mounts.read())

    def test_wrong_use(self):
        self.fails(["bash", SOURCE / "tests" / "demo", "--what"], status=2)
