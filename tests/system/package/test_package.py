# SPDX-License-Identifier: MIT
"""The Debian packages: built from this tree, free of lintian's errors, installed, mounted from,
and removed without a trace. And the unit files beside them."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
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
        lines = lines.replace("/srv/orders", str(here / "table")).replace("/mnt/orders", f"{here}/orders")
        lines = lines.replace("/home/ada/orders", str(here / "table"))
        lines = lines.replace("/home/ada/mnt", str(here / "mnt"))
        tab = self.path("fstab")
        tab.write_text(lines)
        result = harness.run([tool, "--verify", "--tab-file", tab])
        self.assertNotIn("[E]", result.text, str(result))


class Service(TestCase):
    """tinydeltafs@.service, its commands run as systemd runs them: each when it is their turn."""

    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        self.home.mkdir()
        self.table(rows=[{"id": 1}], name="home/orders")
        self.point = self.home / "mnt" / "orders"
        text = (UNITS / "tinydeltafs@.service").read_text()
        self.unit = re.findall(r"(?m)^(\w+)=(.*)$", text)
        self.assertIn(("Type", "notify"), self.unit)
        self.addCleanup(harness.run, ["umount", "-l", self.point])

    def commands(self, key):
        for name, value in self.unit:
            if name == key:
                value = value.replace("%h", str(self.home)).replace("%i", "orders")
                words = [word.replace("$$", "$") for word in shlex.split(value)]
                yield [harness.program(w) if w == "tinydeltafs" else w for w in words]

    def started(self, address):
        """Runs what starts it; returns the main process when that has said that it serves."""
        for argv in self.commands("ExecStartPre"):
            self.ok(argv)
        (argv,) = self.commands("ExecStart")
        shown = "@" + address[1:] if address[0] == "\0" else address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
            heard.bind(address)
            heard.settimeout(harness.DAEMON_TIMEOUT)
            daemon = subprocess.Popen(argv, env={**os.environ, "NOTIFY_SOCKET": shown})
            self.addCleanup(daemon.kill)
            self.assertEqual(heard.recv(100), b"READY=1")
        self.assertEqual((self.point / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
        return daemon

    def stopped(self, daemon, number, status):
        daemon.send_signal(number)
        self.assertEqual(daemon.wait(harness.DAEMON_TIMEOUT), status)

    def clear(self):
        for argv in self.commands("ExecStopPost"):
            self.ok(argv)

    def test_restarts_after_every_end(self):
        address = str(self.path("notify"))
        daemon = self.started(address)
        self.stopped(daemon, signal.SIGKILL, -signal.SIGKILL)
        with self.assertRaises(OSError):
            os.listdir(self.point)
        self.clear()
        self.assertEqual(os.listdir(self.point), [], "what is dead is taken away")
        # An address that is not a file; then the manager itself has gone, and nobody has cleared.
        daemon = self.started(f"\0tinydeltafs-test-{self.scratch.name}")
        self.stopped(daemon, signal.SIGKILL, -signal.SIGKILL)
        daemon = self.started(str(self.path()))
        self.stopped(daemon, signal.SIGTERM, 0)
        self.clear()
        self.assertEqual(os.listdir(self.point), [])

    def test_another_mount_is_left_alone(self):
        self.point.mkdir(parents=True)
        with self.mount(self.home / "orders", self.point) as mnt:
            for argv in self.commands("ExecStartPre"):
                self.ok(argv)
            (argv,) = self.commands("ExecStart")
            self.fails(argv, status=1)
            self.clear()
            self.assertEqual(mnt.read("v1/data.jsonl"), b'{"id":1}\n')

    def test_a_socket_that_cannot_be(self):
        for address in ("relative", "/" + "x" * 200, str(self.path("nobody"))):
            with self.mount(self.home / "orders", env={"NOTIFY_SOCKET": address}) as mnt:
                mnt.expect_log("NOTIFY_SOCKET: ")
                self.wait_for(lambda m=mnt: "NOTIFY_SOCKET" in m.log(), "the warning")


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

        if os.geteuid() != 0 or not self.copy_of_the_system():
            self.skipTest("built and checked; installed only by root, in a copy of the system")
        packages = sorted(p for p in out.glob("*.deb") if "dbgsym" not in p.name)
        names = [p.name.split("_")[0] for p in packages]
        self.assertEqual(names, ["libtinydelta-dev", "libtinydelta0", "tinydeltafs"])
        before = self.files_of_the_system()
        plain = {"DEBIAN_FRONTEND": "noninteractive"}
        self.ok(["dpkg", "-i", *packages], env=plain)
        try:
            self.used_as_installed()
        finally:
            self.ok(["dpkg", "-P", *names], env=plain)
        self.assertEqual(self.files_of_the_system(), before)

    def copy_of_the_system(self):
        """What is installed is seen by this process alone, and dpkg's lock is its own: others may be
        installing just now, or testing these packages too."""
        if not harness._private:
            return False
        layers = self.path("layers")
        layers.mkdir()
        self.ok(["mount", "-t", "tmpfs", "none", layers])
        self.addCleanup(harness.run, ["umount", "-l", layers])
        for folder in ("/usr", "/etc", "/var"):
            upper, work = (layers / kind / folder[1:] for kind in ("upper", "work"))
            upper.mkdir(parents=True)
            work.mkdir(parents=True)
            options = f"lowerdir={folder},upperdir={upper},workdir={work}"
            if harness.run(["mount", "-t", "overlay", "-o", options, "overlay", folder]).status != 0:
                return False
            self.addCleanup(harness.run, ["umount", "-l", folder])
        return True

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
