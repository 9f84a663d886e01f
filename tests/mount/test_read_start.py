# SPDX-License-Identifier: MIT
"""How the daemon starts, what it refuses, and how it ends."""

import os
import pathlib
import re
import select
import signal
import subprocess
import time

import harness
import proc
from harness import TestCase, program


def mounts_at(path):
    """Lines of /proc/self/mounts for a mount point."""
    lines = pathlib.Path("/proc/self/mounts").read_text(errors="surrogateescape").splitlines()
    return [line for line in lines if line.split(" ")[1] == str(path)]


class Starting(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.table_path = self.table(rows=[{"id": 1}], name="orders")
        self.point = self.path("mnt")
        self.point.mkdir()
        self.addCleanup(harness.run, ["umount", "-l", self.point])

    def start(self, *arguments, **how):
        return self.ok([program("tinydeltafs"), *arguments], **how)

    def refused(self, table, point, reason, *arguments, status=1):
        """One line, which says why, and nothing mounted."""
        before = pathlib.Path("/proc/self/mounts").read_text()
        said = self.fails([program("tinydeltafs"), table, point, *arguments], status=status)
        self.assertEqual(len(said.error.splitlines()), 1, said.error)
        self.assertRegex(said.error, reason)
        self.assertTrue(said.error.startswith("tinydeltafs: "), said.error)
        self.assertEqual(said.out, b"")
        self.assertEqual(pathlib.Path("/proc/self/mounts").read_text(), before)

    def ended(self, pid):
        """Waits for the end of a daemon that is not our child."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([descriptor], [], [], harness.SOON)[0])
        finally:
            os.close(descriptor)

    def daemon(self):
        return proc.daemon_of(self.point)

    # -- starting --

    def test_it_serves_when_the_command_returns(self):
        for _ in range(20):
            self.start(self.table_path, self.point)
            self.assertEqual((self.point / "v1/data.jsonl").read_bytes(), b'{"id":1}\n')
            pid = self.daemon()
            self.ok(["umount", self.point])
            self.assertTrue(self.ended(pid))

    def test_output_ends_when_the_command_returns(self):
        self.sh('out=$("$1" "$2" "$3" 2>&1) && test -z "$out"', program("tinydeltafs"),
                self.table_path, self.point, timeout=harness.SOON)
        self.sh('"$1" "$2" "$3" 2>&1 | cat', program("tinydeltafs"), self.table_path,
                self.path_made("other"), timeout=harness.SOON)
        self.ok(["umount", self.scratch / "other"])
        self.ok(["umount", self.point])

    def path_made(self, name):
        path = self.path(name)
        path.mkdir()
        return path

    def test_what_the_daemon_keeps(self):
        self.start("orders", "mnt", cwd=self.scratch)
        pid = proc.daemon_of("orders", "mnt")
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
        self.assertNotEqual(os.getsid(pid), os.getsid(0))
        for descriptor in range(3):
            self.assertEqual(os.readlink(f"/proc/{pid}/fd/{descriptor}"), "/dev/null")
        for number, flags, target in proc.descriptors(pid):
            if number > 2:
                self.assertTrue(flags & os.O_CLOEXEC, target)
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        soft, hard = re.search(r"Max open files\s+(\S+)\s+(\S+)", limits).groups()
        self.assertEqual(soft, hard)
        self.ok(["umount", self.point])
        self.assertTrue(self.ended(pid))

    def test_closed_standard_streams(self):
        self.sh('"$1" "$2" "$3" <&- >&- 2>&-', program("tinydeltafs"), self.table_path, self.point)
        self.assertEqual((self.point / "v1/data.jsonl").read_bytes(), b'{"id":1}\n')
        self.ok(["umount", self.point])

    def test_nothing_in_the_environment(self):
        self.ok(["env", "-i", program("tinydeltafs"), self.table_path, self.point])
        self.ok(["umount", self.point])

    def test_list_of_mounts(self):
        for name in ("plain", "with space", "comma,and\\backslash", "näme"):
            table = self.table(rows=[{"id": 1}], name=name)
            self.start(table, self.point)
            line = mounts_at(self.point)
            self.assertEqual(len(line), 1)
            source, _, kind, flags = line[0].split(" ")[:4]
            source = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), source)
            self.assertEqual(source, str(table))
            self.assertEqual(kind, "fuse.tinydeltafs")
            self.assertIn("default_permissions", flags)
            self.ok(["umount", self.point])

    def test_options(self):
        self.start(self.table_path, self.point, "-o", "ro,noatime,noexec,fsname=a,subtype=b,nofail")
        source, _, kind, flags = mounts_at(self.point)[0].split(" ")[:4]
        self.assertEqual((source, kind), ("a", "fuse.b"))
        self.assertTrue({"ro", "noatime", "noexec"} <= set(flags.split(",")), flags)
        self.ok(["umount", self.point])
        self.start("-o", "rw,allow_other,max_read=65536", "--", self.table_path, self.point)
        self.assertIn("allow_other", mounts_at(self.point)[0])
        self.assertIn("max_read=65536", mounts_at(self.point)[0])
        self.assertEqual((self.point / "v1/data.jsonl").read_bytes(), b'{"id":1}\n')
        self.ok(["umount", self.point])

    def test_read_ahead(self):
        self.require_root()
        for options, wanted in (("rw", "1024"), ("read_ahead_kb=256", "256")):
            self.start(self.table_path, self.point, "-o", options)
            st = os.stat(self.point)
            bdi = f"/sys/class/bdi/{os.major(st.st_dev)}:{os.minor(st.st_dev)}/read_ahead_kb"
            self.assertEqual(pathlib.Path(bdi).read_text().strip(), wanted)
            self.ok(["umount", self.point])

    def test_single_threaded(self):
        with self.mount(self.table_path, arguments=["-s"]) as mnt:
            self.assertEqual(mnt.read("latest/data.jsonl"), b'{"id":1}\n')
            self.sh('for i in 1 2 3 4 5 6 7 8; do cat "$1"/v1/data.jsonl & done; wait', mnt)

    def test_help_and_version(self):
        said = self.start("-h")
        self.assertIn("usage: tinydeltafs TABLE MOUNTPOINT", said.text)
        self.assertRegex(self.start("-V").text, r"\Atinydeltafs [0-9.]+\n")

    # -- refusals --

    def test_wrong_use(self):
        self.refused(self.table_path, self.point, "unknown option: bogus", "-o", "bogus", status=2)
        self.refused(self.table_path, self.point, "too many arguments", "more", status=2)
        said = self.fails([program("tinydeltafs")], status=2)
        self.assertRegex(said.error, r"\Atinydeltafs: no table given[^\n]*\n\Z")

    def test_no_table(self):
        self.refused(self.scratch / "none", self.point, "none: No such file or directory")
        self.refused(self.path_made("empty"), self.point, "empty")
        self.refused(self.file("x", "file"), self.point, "file: .*directory")

    def test_no_mount_point(self):
        self.refused(self.table_path, self.scratch / "none", "none: No such file or directory")
        self.refused(self.table_path, self.file("x"), "must be a directory")

    def test_broken_first_version(self):
        (self.table_path / "_delta_log/00000000000000000000.json").write_text("{")
        self.refused(self.table_path, self.point, "version 0|00000000000000000000.json")

    def test_inside_over_and_above_the_table(self):
        inside = self.table_path / "mnt"
        inside.mkdir()
        self.refused(self.table_path, inside, "inside the table")
        self.refused(self.table_path, self.table_path, "the table itself")
        self.refused(self.table_path, self.table_path / "_delta_log", "inside the table")
        self.refused(self.table_path, self.scratch, "would hide the table")
        self.refused(self.table_path, "/", "would hide the table")
        link = self.path("link")
        link.symlink_to(self.table_path)
        self.refused(link, self.table_path, "the table itself")
        self.refused(self.table_path, link / "mnt", "inside the table")

    def test_inside_through_a_bind_mount(self):
        self.require_root()
        inside = self.table_path / "mnt"
        inside.mkdir()
        bind = self.path_made("bind")
        self.ok(["mount", "--bind", self.table_path, bind])
        self.addCleanup(harness.run, ["umount", "-l", bind])
        self.refused(self.table_path, bind / "mnt", "inside the table")
        self.refused(bind, inside, "inside the table")
        self.refused(self.table_path, bind, "the table itself")
        self.refused(bind, self.table_path, "the table itself")

    def test_mounted_already(self):
        self.start(self.table_path, self.point)
        self.refused(self.table_path, self.point, "already mounted")
        link = self.path("link")
        link.symlink_to(self.point)
        self.refused(self.table_path, link, "already mounted")
        other = self.table(name="other")
        self.refused(other, self.point, "already mounted")
        self.assertEqual(len(mounts_at(self.point)), 1)
        # A version is not a table.
        self.refused(self.point / "v1", self.path_made("second"), "v1")
        # Twice, in two places, is fine.
        second = self.scratch / "second"
        self.start(self.table_path, second)
        self.assertEqual((second / "v1/data.jsonl").read_bytes(), b'{"id":1}\n')
        self.ok(["umount", second])
        self.ok(["umount", self.point])

    def test_a_mount_point_with_files_in_it(self):
        (self.point / "x").write_text("x")
        self.start(self.table_path, self.point, "-o", "nonempty")
        self.assertNotIn("x", os.listdir(self.point))
        self.ok(["umount", self.point])
        self.assertEqual(os.listdir(self.point), ["x"])

    def test_dead_mount(self):
        self.start(self.table_path, self.point)
        pid = self.daemon()
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(self.ended(pid))
        # Not an empty directory, for which rsync --delete would take it.
        said = self.fails(["ls", self.point], status=2)
        self.assertIn("not connected", said.error)
        self.refused(self.table_path, self.point, f"dead; first run: umount {self.point}")
        self.ok(["umount", self.point])
        self.start(self.table_path, self.point)
        self.assertEqual((self.point / "v1/data.jsonl").read_bytes(), b'{"id":1}\n')
        self.ok(["umount", self.point])

    # -- ending --

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for arguments in ([], ["-s"]):
                mount = self.mount(self.table_path, self.point, arguments=arguments)
                with self.subTest(signal=number, arguments=arguments), mount as mnt:
                    os.kill(mnt.pid, number)
                    mnt.daemon.wait(harness.SOON)
                    self.assertEqual(mounts_at(self.point), [])
                    mnt.finish()

    def test_signals_while_files_are_open(self):
        for arguments in ([], ["-s"]):
            mount = self.mount(self.table_path, self.point, arguments=arguments)
            with self.subTest(arguments=arguments), mount as mnt:
                holder = subprocess.Popen(
                    ["sh", "-c", 'cd "$1/v1" && exec 5<data.jsonl && echo && exec cat', "sh", mnt],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
                holder.stdout.readline()
                os.kill(mnt.pid, signal.SIGTERM)
                mnt.daemon.wait(harness.SOON)
                # Long before the holder would have gone by itself.
                self.assertIsNone(holder.poll())
                self.assertEqual(mounts_at(self.point), [])
                holder.communicate(timeout=harness.SOON)
                mnt.finish()

    def test_signals_while_it_is_read(self):
        table = self.table(rows=[{"id": n} for n in range(100000)])
        with self.mount(table, self.point) as mnt:
            script = 'while cat "$1/latest/data.jsonl" >/dev/null 2>&1; do :; done'
            readers = [subprocess.Popen(["sh", "-c", script, "sh", mnt]) for _ in range(4)]
            os.stat(mnt / "v1/data.jsonl")
            os.kill(mnt.pid, signal.SIGTERM)
            mnt.daemon.wait(harness.SOON)
            self.assertEqual(mounts_at(self.point), [])
            for reader in readers:
                self.assertIsNotNone(reader.wait(harness.SOON))
            mnt.finish()

    def test_a_signal_just_after_the_start(self):
        """Whenever it comes, no dead mount is left."""
        for delay in range(0, 40, 2):
            child = subprocess.Popen(
                [program("tinydeltafs"), self.table_path, self.point, "-f"],
                stderr=subprocess.PIPE,
            )
            time.sleep(delay / 1000)
            child.send_signal(signal.SIGTERM)
            _, said = child.communicate(timeout=harness.SOON)
            self.assertEqual(mounts_at(self.point), [], f"after {delay} ms: {said}")

    def test_umount_ends_it(self):
        with self.mount(self.table_path, self.point) as mnt:
            # The daemon's own first look at its mount may be under way.
            self.wait_for(lambda: harness.run(["umount", self.point]).status == 0, "the umount")
            mnt.daemon.wait(harness.SOON)
            mnt.finish()

    def test_umount_while_busy_is_refused_and_harmless(self):
        with self.mount(self.table_path, self.point) as mnt:
            with open(mnt / "v1/data.jsonl", "rb") as file:
                self.fails(["umount", self.point], status=None)
                self.assertEqual(file.read(), b'{"id":1}\n')
            self.assertEqual(mnt.read("v1/data.jsonl"), b'{"id":1}\n')

    def test_lazy_umount_ends_it_with_the_last_file(self):
        # Often: the last request may be on its way when the kernel cuts the connection.
        for _ in range(40):
            with self.mount(self.table_path, self.point) as mnt:
                with open(mnt / "v1/data.jsonl", "rb") as file:
                    mnt.unmount_lazily()
                    self.assertEqual(file.read(), b'{"id":1}\n')
                mnt.daemon.wait(harness.SOON)
                mnt.finish()

    def test_the_end_of_an_old_daemon_leaves_a_new_mount_alone(self):
        with self.mount(self.table_path, self.point) as old:
            self.replaced(old, lambda: None)

    def test_the_end_of_an_old_daemon_that_has_never_seen_its_mount(self):
        """The mount is another's already when it looks at it for the first time."""
        library = harness.build_root() / "tests" / "mount" / "late_stat.so"
        gate = self.path("gate")
        gate.mkdir()
        env = {"LD_PRELOAD": str(library), "LATE_STAT": str(gate)}
        with self.mount(self.table_path, self.point, env=env) as old:
            self.replaced(old, gate.rmdir)

    def replaced(self, old, before_its_end):
        other = self.table(rows=[{"id": 7}])
        with open(old / "v1/data.jsonl", "rb"):
            old.unmount_lazily()
            self.start(other, self.point)
            before_its_end()
            os.kill(old.pid, signal.SIGTERM)
            old.daemon.wait(harness.SOON)
        self.assertEqual((self.point / "v1/data.jsonl").read_bytes(), b'{"id":7}\n')
        self.assertEqual(len(mounts_at(self.point)), 1)
        self.ok(["umount", self.point])
        old.finish()
