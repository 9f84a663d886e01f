# SPDX-License-Identifier: MIT
"""mount.tinydelta by itself: its arguments, what it hands to the daemon, its exit statuses. The
daemon is a script here that writes down how it was called."""

import os
import shutil

import harness
from harness import TestCase

DAEMON = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done > "$0.called"
printf '%s' "$PATH" > "$0.path"
[ ! -e "$0.do" ] || . "$0.do"
"""


class Helper(TestCase):
    def setUp(self):
        super().setUp()
        # Beside a folder "fs", as in a build directory.
        (self.scratch / "helper").mkdir()
        (self.scratch / "fs").mkdir()
        self.helper = self.scratch / "helper" / "mount.tinydelta"
        shutil.copy(harness.program("mount.tinydelta"), self.helper)
        self.daemon = self.scratch / "fs" / "tinydeltafs"
        self.daemon.write_text(DAEMON)
        self.daemon.chmod(0o755)
        self.point = self.path("mnt")
        self.point.mkdir()

    def called(self):
        """The daemon's arguments; None where it was not called."""
        try:
            return open(f"{self.daemon}.called", encoding="utf-8").read().split("\0")[:-1]
        except FileNotFoundError:
            return None

    def daemon_does(self, script):
        open(f"{self.daemon}.do", "w", encoding="utf-8").write(script)

    def gives(self, arguments, wanted, **how):
        result = self.ok([self.helper, *arguments], **how)
        self.assertEqual(self.called(), wanted, str(result))
        return result

    def refuses(self, arguments, status, pattern, **how):
        """Ends so, with one line that says it (after the usage, where that was wrong)."""
        result = self.fails([self.helper, *arguments], status=status, **how)
        lines = result.error.splitlines()
        if lines and lines[0].startswith("usage: "):
            del lines[0]
        self.assertEqual(len(lines), 1, str(result))
        self.assertRegex(lines[0], r"\Amount\.tinydelta: " + pattern, str(result))
        return result


class Arguments(Helper):
    def test_as_mount_calls_it(self):
        self.gives(["/t", self.point, "-o", "rw"], ["--", "/t", str(self.point)])
        self.gives(
            ["/t", self.point, "-n", "-s", "-v", "-o", "ro,nofail,noexec", "-t", "tinydelta.sub"],
            ["-o", "ro,noexec", "--", "/t", str(self.point)],
        )
        self.gives(
            ["/t", self.point, "-snv", "-o", "rw,allow_other"],
            ["-o", "allow_other", "--", "/t", str(self.point)],
        )

    def test_options_before_and_between(self):
        self.gives(
            ["-o", "ro", "/t", "-o", "noexec", self.point, "-o", "rw"],
            ["-o", "noexec", "--", "/t", str(self.point)],
            env={"POSIXLY_CORRECT": "1"},
        )
        self.gives(["--", "-t", self.point], ["--", "-t", str(self.point)])

    def test_odd_names(self):
        for name in ("with blank", "new\nline", "a,b", "-x", "\\", "'\"$(exit 3)", "\u00e9"):
            point = self.path(name)
            point.mkdir()
            self.gives(
                ["-o", "ro", "--", name, name], ["-o", "ro", "--", name, name], cwd=self.scratch
            )

    def test_fake_mounts_nothing(self):
        self.gives(["/t", self.point, "-f", "-o", "rw"], None)
        self.gives(["/t", self.path(), "-fnsv", "-o", "rw,nofail,x-what=1"], None)
        self.refuses(["/t", self.point, "-f", "-o", "bogus"], 1, "unknown option: bogus")
        self.gives(["/t", self.point, "-f", "-s", "-o", "bogus"], None)

    def test_every_option_of_an_fstab_line(self):
        line = (
            "rw,nofail,noauto,user,_netdev,x-systemd.automount,x-systemd.requires=a.service,"
            "x-gvfs-show,comment=a,X-mount.mkdir,defaults,noatime,relatime,nodiratime,lazytime,"
            "exec,dev,suid,,nonempty"
        )
        self.gives(
            ["/t", self.point, "-o", line],
            ["-o", "noatime,exec,dev,suid", "--", "/t", str(self.point)],
        )

    def test_unknown_option(self):
        self.refuses(["/t", self.point, "-o", "ro,bogus=1"], 1, r"unknown option: bogus=1\Z")
        self.assertIsNone(self.called())
        self.gives(
            ["/t", self.point, "-s", "-o", "ro,bogus=1"], ["-o", "ro", "--", "/t", str(self.point)]
        )

    def test_wrong_use(self):
        for words in (
            [],
            ["/t"],
            ["/t", self.point, "/more"],
            ["/t", self.point, "-o"],
            ["/t", self.point, "-x"],
            ["/t", self.point, "--bogus"],
            ["/t", self.point, "-t", "ext4"],
            ["/t", self.point, "-t", "tinydeltas"],
        ):
            result = self.refuses(words, 1, "")
            self.assertTrue(result.error.startswith("usage: mount.tinydelta "), str(result))
            self.assertEqual(result.out, b"")
        self.assertIsNone(self.called())

    def test_help_and_version(self):
        for word in ("-h", "--help"):
            result = self.ok([self.helper, word])
            self.assertTrue(result.text.startswith("usage: mount.tinydelta "), str(result))
        for word in ("-V", "--version"):
            self.assertRegex(self.ok([self.helper, word]).text, r"\Amount\.tinydelta [0-9.]+\n\Z")

    def test_verbose_says_what_is_run(self):
        result = self.gives(["/t", self.point, "-v"], ["--", "/t", str(self.point)])
        self.assertIn(f"{self.daemon} ", result.text)


class Daemon(Helper):
    def test_its_status(self):
        for status in (1, 2, 4, 32, 64, 126, 127, 255):
            self.daemon_does(f"echo said so >&2; exit {status}")
            wanted = 1 if status == 2 else 32
            result = self.fails([self.helper, "/t", self.point, "-o", "rw"], status=wanted)
            self.assertEqual(result.error, "said so\n")

    def test_a_signal(self):
        self.daemon_does("kill -KILL $$")
        self.refuses(["/t", self.point], 32, r"tinydeltafs was ended by signal 9\Z")

    def test_not_there(self):
        self.daemon.unlink()
        if os.path.exists("/usr/local/bin/tinydeltafs"):
            self.skipTest("an installed one is found")
        self.refuses(["/t", self.point], 2, "cannot find .*/tinydeltafs")

    def test_beside_the_helper(self):
        if os.path.exists("/usr/local/bin/tinydeltafs"):
            self.skipTest("an installed one is found")
        beside = self.helper.with_name("tinydeltafs")
        os.rename(self.daemon, beside)
        self.daemon = beside
        self.gives(["/t", self.point], ["--", "/t", str(self.point)])

    def test_cannot_be_run(self):
        self.daemon.write_text(f"#!{self.path()}\n")
        self.refuses(["/t", self.point], 2, "cannot run .*: No such file or directory")

    def test_path(self):
        self.gives(["/t", self.point], ["--", "/t", str(self.point)], env={"PATH": "/a:/b"})
        path = f"{self.daemon}.path"
        self.assertEqual(open(path, encoding="utf-8").read(), "/a:/b")
        self.ok(["env", "-i", self.helper, "/t", self.point, "-o", "rw"])
        self.assertIn("/usr/bin", open(path, encoding="utf-8").read().split(":"))

    def test_gets_no_descriptors(self):
        self.daemon_does('ls -l /proc/self/fd | sed -n "s/.* -> //p" > "$0.fds"')
        self.ok([self.helper, "/t", self.point])
        left = [
            line
            for line in open(f"{self.daemon}.fds", encoding="utf-8").read().splitlines()
            if not line.startswith(("pipe:", "/proc/", str(self.daemon)))
        ]
        self.assertEqual(left, [])

    def test_messages_are_one_line(self):
        self.refuses(["/t", self.point, "-o", "a\nb\x1b[2J"], 1, r"unknown option: a\\x0ab\\x1b")


class Places(Helper):
    def test_remount_of_what_is_not_mounted(self):
        self.refuses(
            ["/t", self.point, "-o", "remount,ro"], 32, ".*no tinydelta table is mounted here"
        )
        self.assertIsNone(self.called())

    def test_a_namespace(self):
        self.require_root()
        nowhere = self.path()
        self.refuses(["/t", self.point, "-N", nowhere], 2, f"namespace {nowhere}: ")
        self.refuses(["/t", self.point, "-N", "/dev/null"], 2, "namespace /dev/null: ")
        self.assertIsNone(self.called())
