# SPDX-License-Identifier: MIT
"""The Debian packages: built from this tree, free of lintian's errors, installed, mounted from,
and removed without a trace. And the unit files beside them."""

import os
import pathlib
import shutil
import unittest

import harness
from harness import SOURCE, TestCase

UNITS = SOURCE / "mount-helper" / "systemd"


class Units(TestCase):
    def test_systemd_accepts_them(self):
        tool = self.require_tool("systemd-analyze")
        folder = self.path("units")
        folder.mkdir()
        for unit in UNITS.iterdir():
            if unit.suffix != ".example":
                shutil.copy(unit, folder)
        # What they run is looked for where it is installed.
        service = folder / "tinydeltafs@.service"
        text = service.read_text().replace("ExecStart=tinydeltafs", f"ExecStart={harness.program('tinydeltafs')}")
        service.write_text(text)
        (folder / "tinydeltafs@.service").rename(folder / "tinydeltafs@x.service")
        for unit in sorted(folder.iterdir()):
            result = harness.run([tool, "verify", "--man=no", unit], env={"SYSTEMD_UNIT_PATH": f"{folder}:"})
            self.assertEqual((result.status, result.err), (0, b""), str(result))

    def test_findmnt_accepts_the_lines_of_fstab(self):
        tool = self.require_tool("findmnt")
        here = self.path("here")
        for name in ("table", "orders", "orders-ro", "orders-auto", "mnt"):
            (here / name).mkdir(parents=True)
        lines = (UNITS / "fstab.example").read_text()
        lines = lines.replace("/var/lib/orders", str(here / "table")).replace("/srv/", f"{here}/")
        lines = lines.replace("/home/ada/orders", str(here / "table"))
        lines = lines.replace("/home/ada/mnt", str(here / "mnt"))
        tab = self.path("fstab")
        tab.write_text(lines)
        result = harness.run([tool, "--verify", "--tab-file", tab])
        self.assertNotIn("[E]", result.text, str(result))


class Packages(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for tool in ("dpkg-buildpackage", "dh", "lintian"):
            if shutil.which(tool) is None:
                if harness.CI:
                    raise AssertionError(f"{tool} is not installed")
                raise unittest.SkipTest(f"{tool} is not installed")

    def build(self):
        out = self.path("packages")
        self.ok([SOURCE / "mount-helper" / "debian" / "build", out], timeout=540)
        return out

    def test_built_installed_and_removed(self):
        out = self.build()
        said = harness.run(["lintian", "--allow-root", "--fail-on", "error", next(out.glob("*.changes"))])
        self.assertEqual(said.status, 0, str(said))

        if not harness.CI or os.geteuid() != 0:
            self.skipTest("built and checked; installed only in CI, by root")
        packages = sorted(p for p in out.glob("*.deb") if "dbgsym" not in p.name)
        names = [p.name.split("_")[0] for p in packages]
        self.assertEqual(names, ["libtinydelta-dev", "libtinydelta0", "tinydeltafs"])
        before = self.files_of_the_system()
        self.ok(["dpkg", "-i", *packages])
        try:
            self.used_as_installed()
        finally:
            self.ok(["dpkg", "-P", *names])
        self.assertEqual(self.files_of_the_system(), before)

    def files_of_the_system(self):
        roots = ("/usr/bin", "/usr/sbin", "/usr/include", "/usr/lib/x86_64-linux-gnu/pkgconfig", "/usr/share/doc")
        return {str(p) for root in roots for p in pathlib.Path(root).glob("*tinydelta*")}

    def used_as_installed(self):
        table, mnt, rows = self.path("orders"), self.path("mnt"), self.path("new.jsonl")
        mnt.mkdir()
        rows.write_text('{"id":1}\n')
        self.ok(["/usr/bin/tinydelta", "create", table, "id:int"])
        self.ok(["mount", "-t", "tinydelta", table, mnt])
        try:
            self.ok(["cp", rows, mnt / "incoming"])
            self.assertEqual((mnt / "v1" / "data.jsonl").read_text(), '{"id":1}\n')
        finally:
            self.ok(["umount", mnt])
