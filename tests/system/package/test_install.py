# SPDX-License-Identifier: MIT
"""From `meson dist` to `ninja uninstall`: the tarball builds by itself, installs under any prefix,
works from there and goes without a trace."""

import json
import os
import pathlib
import re
import shutil

import harness
from harness import SOURCE, TestCase

PREFIX = "opt/tiny delta"


class Install(TestCase):
    def setUp(self):
        super().setUp()
        # The checkout may be another user's.
        git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        self.env = {**git, "HOME": str(self.scratch)}

    def run_ok(self, *argv, **how):
        return self.ok(argv, env={**self.env, **how.pop("env", {})}, timeout=280, **how)

    def unpacked(self):
        """What is in the tarball of the checkout, or a copy of a tree that is none."""
        # One that `meson dist` has unpacked lies in a checkout, and is none.
        top = harness.run(["git", "-C", SOURCE, "rev-parse", "--show-toplevel"], env=self.env)
        if top.status != 0 or pathlib.Path(top.text.rstrip("\n")) != SOURCE:
            tree = self.path("tree")
            names = ("core", "fs", "mount-helper", "tests", "meson.build", "README.md", "LICENSE")
            tree.mkdir()
            self.ok(["cp", "-a", *(SOURCE / name for name in names), tree])
            return tree
        build = self.path("for-dist")
        self.run_ok("meson", "setup", build, SOURCE)
        self.run_ok("meson", "dist", "-C", build, "--no-tests", "--allow-dirty", "--formats", "gztar")
        (tarball,) = (build / "meson-dist").glob("*.tar.gz")
        self.ok(["tar", "xf", tarball, "-C", self.scratch])
        (tree,) = self.scratch.glob("tinydeltafs-*")
        return tree

    def files(self, root):
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir())

    def test_from_the_tarball_to_nothing(self):
        build, target = self.path("build"), self.path("target")
        self.run_ok("meson", "setup", "--buildtype=release", f"--prefix=/{PREFIX}", build, self.unpacked())
        # What is installed, and two unit tests for all: what else there is takes minutes.
        known = self.run_ok("ninja", "-C", build, "-t", "targets", "all").text
        wanted = json.loads(self.run_ok("meson", "introspect", "--installed", build).out)
        wanted = {os.path.relpath(path, build) for path in wanted}
        wanted |= {"tests/unit/test_util", "tests/unit/test_opts"}
        targets = set(re.findall(r"^([^:\n]+): ", known, re.MULTILINE))
        self.run_ok("ninja", "-C", build, *sorted(wanted & targets))
        for name in ("util", "opts"):
            if (build / "tests/unit" / f"test_{name}").exists():
                self.run_ok(build / "tests/unit" / f"test_{name}", "-j1")

        destination = {"DESTDIR": str(target)}
        install = ["meson", "install", "-C", build, "--no-rebuild", "--quiet"]
        self.run_ok(*install, env=destination)
        installed = self.files(target)
        self.assertIn(f"{PREFIX}/bin/tinydeltafs", installed)
        helper = ("usr/sbin/mount.tinydelta", "usr/sbin/mount.tinydeltafs")
        self.assertLessEqual(set(helper), set(installed))
        for name in installed:
            inside = name.startswith(f"{PREFIX}/") or name in helper
            self.assertTrue(inside, f"{name} is outside of the prefix")
        self.works_in(target)

        self.run_ok(*install, env=destination)
        self.assertEqual(self.files(target), installed, "installed twice")
        self.run_ok("ninja", "-C", build, "uninstall", env=destination)
        self.assertEqual(self.files(target) if target.exists() else [], [])
        self.into_a_home(build, wanted & targets)

    def into_a_home(self, build, targets):
        """The same by a user who may write nowhere else; and found by mount(8) through links."""
        home, user = self.path("home"), 65534 if os.geteuid() == 0 else None
        prefix = home / ".local"
        home.mkdir()
        self.run_ok("meson", "configure", f"--prefix={prefix}", build)
        self.run_ok("ninja", "-C", build, *sorted(targets))
        if user:
            self.ok(["chown", "-R", f"{user}:{user}", home, build])
        self.run_ok("meson", "install", "-C", build, "--no-rebuild", "--quiet", user=user)
        installed = self.files(home)
        for name in ("bin/tinydeltafs", "sbin/mount.tinydelta", "sbin/mount.tinydeltafs"):
            self.assertIn(f".local/{name}", installed)
        log = (build / "meson-logs" / "install-log.txt").read_text().splitlines()
        outside = [n for n in log if n.startswith("/") and not f"{n}/".startswith(f"{prefix}/")]
        self.assertEqual(outside, [])
        table = home / "orders"
        self.ok([prefix / "bin/tinydelta", "create", table, "id:int"], user=user)
        if harness.why_no_fuse() or os.geteuid() != 0 or not harness._private:
            return
        mnt = self.path("mnt-of-home")
        mnt.mkdir()
        linked = self.path("linked")
        linked.mkdir()
        (linked / "mount.tinydelta").symlink_to(prefix / "sbin/mount.tinydelta")
        self.ok([linked / "mount.tinydelta", table, mnt])
        self.ok(["umount", mnt])

    def works_in(self, target):
        """The programs where they were meant to be: the prefix is bound to its place."""
        if harness.why_no_fuse() or os.geteuid() != 0 or not harness._private:
            return
        prefix = pathlib.Path("/", PREFIX)
        cover = self.path("opt")
        shutil.copytree(target / "opt", cover, symlinks=True)
        self.ok(["mount", "--bind", cover, "/opt"])
        try:
            table, mnt = self.path("orders"), self.path("mnt")
            mnt.mkdir()
            self.ok([prefix / "bin/tinydelta", "create", table, "id:int"])
            helper = target / "usr/sbin/mount.tinydelta"
            self.ok([helper, table, mnt, "-o", "rw"])
            self.ok(["cp", self.file([{"id": 1}]), mnt / "incoming" / "x"])
            self.assertEqual((mnt / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
            self.ok(["umount", mnt])
        finally:
            self.ok(["umount", "-l", "/opt"])
