# SPDX-License-Identifier: MIT
"""incoming/ when things go wrong: full disks, limits, ends of the mount at the wrong moment."""

import errno
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import harness
from dropping import ROW, THREE, DropCase
from harness import program, run


class FullDisk(DropCase):
    """The table on a file system of two megabytes."""

    def table(self, *columns, rows=None, name=None):
        self.require_root()
        disk = self.path("disk")
        disk.mkdir()
        self.ok(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)])
        self.addCleanup(run, ["umount", "-l", str(disk)])
        return super().table(*columns, rows=rows, name="disk/table")

    def setUp(self):
        super().setUp()
        self.big = self.file(ROW * 500000, "big")

    def test_the_writer_is_told(self):
        self.mnt.expect_log("incoming/big: not committed: a write failed .No space left")
        for command in ("cp $S/big $I/", "dd if=$S/big of=$I/big bs=64k status=none", "cat $S/big > $I/big"):
            result = self.refuses(command)
            self.assertIn("No space left on device", result.error)
            # What was written is worth nothing and takes no room.
            self.assertEqual(self.staged(), [0])
            self.assertListed("big", "big.error")
            self.gives(1, 3, "cp $S/s3 $I/ok")
        self.gives(0, 0, "rm $I/big")
        self.assertListed()

    def test_who_goes_on_after_a_failed_write(self):
        self.mnt.expect_log("incoming/h: not committed: a write failed")
        script = (
            "f = os.open(I + '/h', os.O_CREAT | os.O_WRONLY); failed = 0\n"
            "for i in range(400):\n"
            "    try: os.pwrite(f, d * 1024, i * 8192)\n    except OSError as e: failed += 1\n"
            "assert failed\nos.pwrite(f, d, 0)\n"
            "try: os.close(f)\nexcept OSError as e: assert e.errno == 28, e\nelse: sys.exit('closed')"
        )
        self.python_gives(0, 0, script)
        self.gives(1, 1, "cp $S/s1 $I/h")

    def test_truncating_makes_good(self):
        script = (
            "f = os.open(I + '/h', os.O_CREAT | os.O_WRONLY)\n"
            "try:\n    while True: os.write(f, d * 9999)\nexcept OSError as e: assert e.errno == 28\n"
            "os.ftruncate(f, 0); os.lseek(f, 0, 0); os.write(f, d); os.close(f)"
        )
        self.python_gives(1, 1, script)

    def test_a_temporary_name_does_not_hide_it(self):
        self.mnt.expect_log("incoming/.t: not committed: a write failed")
        self.drop("cp $S/big $I/.t")
        with self.grows(0, 0), self.assertRaises(OSError) as caught:
            os.rename(self.inc / ".t", self.inc / "t")
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertEqual(self.staged(), [0])

    def test_no_room_for_the_rewritten_rows(self):
        # Fits as it is, but not a second time.
        self.mnt.expect_log("incoming/b:")
        self.file(b'{ "i": 1}\n' * 130000, "spaced")
        result = self.refuses("cp $S/spaced $I/b")
        self.assertIn("No space left on device", result.error)
        self.assertListed("b", "b.error")
        self.gives(0, 0, "rm $I/b")
        self.gives(1, 3, "cp $S/s3 $I/b")


class FailedSync(DropCase):
    """The first fsync of each of the daemon's threads fails, and every later one says yes."""

    def setUp(self):
        super().setUp()
        strace = self.require_tool("strace")
        argv = [strace, "-f", "-o", "/dev/null", "-e", "trace=fsync"]
        argv += ["-e", "inject=fsync:error=EIO:when=1", "-p", str(self.mnt.pid)]
        tracer = subprocess.Popen(argv, stderr=subprocess.PIPE)
        self.addCleanup(tracer.kill)
        self.assertIn(b"attached", tracer.stderr.readline())
        self.mnt.expect_log("incoming/x: cannot make a data file of")
        self.refuses("cp $S/s1 $I/x")
        tracer.terminate()
        tracer.communicate(timeout=harness.SOON)

    def test_only_what_is_written_anew_is_committed(self):
        self.mnt.expect_log("incoming/[xy]: what was written could not be made durable")
        self.refuses("mv $I/x $I/y")
        self.assertListed("x", "x.error")
        self.assertEqual(self.mnt.read("incoming/x"), ROW)
        self.gives(1, 1, "cp $S/s1 $I/x")
        self.assertListed()

    def test_it_can_be_removed(self):
        self.gives(0, 0, "rm $I/x")
        self.assertListed()
        self.gives(1, 1, "cp $S/s1 $I/x")


class Ends(DropCase):
    def test_a_killed_daemon_in_mid_drop(self):
        self.drop("cp $S/bad $I/bad; cp $S/s1 $I/.t; touch $I/empty")
        writer = open(self.inc / "half", "wb", buffering=0)
        writer.write(ROW)
        self.mnt.kill()
        with self.assertRaises(OSError):
            writer.write(ROW)
        with self.assertRaises(OSError):
            writer.close()
        self.start()
        self.mnt.expect_log("incoming/[.a-z]+( and [0-9]+ more)?: left by a mount")
        self.assertListed(".t", ".t.error", "bad", "bad.error", "empty", "half", "half.error")
        self.assertIn(b"incomplete", self.mnt.read("incoming/half.error"))
        self.assertEqual(self.mnt.read("incoming/half"), ROW)
        self.gives(0, 0, "touch $I/half")
        self.assertIn("half.error", self.mnt.names("incoming"))
        self.gives(1, 1, "mv $I/half $I/whole")
        self.gives(1, 1, "mv $I/.t $I/t")
        self.gives(1, 1, "cat $S/s1 > $I/bad; rm $I/empty")
        self.assertListed()

    def test_leftovers_with_one_name(self):
        for row in (b"1", b"2"):
            self.drop("cat > $I/.x", input=b'{"i":%s}\n' % row)
            self.mnt.kill()
            self.start()
        self.mnt.expect_log("left by a mount")
        self.gives(0, 0, "cp $S/s1 $I/.y")
        names = [n for n in self.mnt.names("incoming") if not n.endswith(".error")]
        self.assertEqual(len(names), 2, names)

    def test_remounted_at_once(self):
        self.drop("cp $S/s1 $I/.t")
        old = self.mnt
        self.ok(["umount", str(old)])
        self.start()
        old.daemon.wait(harness.SOON)
        harness._mounts.remove(old)
        self.mnt.expect_log("left by a mount")
        deadline = time.monotonic() + harness.SOON
        while ".t" not in self.mnt.names("incoming"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_sigterm_with_a_writer(self):
        writer = open(self.inc / "w", "wb", buffering=0)
        writer.write(ROW)
        self.mnt.expect_log("incoming/w: not committed: it was not complete")
        started = time.monotonic()
        self.mnt.daemon.send_signal(signal.SIGTERM)
        self.mnt.finish()
        self.assertLess(time.monotonic() - started, harness.SOON)
        with self.assertRaises(OSError):
            writer.write(ROW)
        with self.assertRaises(OSError):
            writer.close()
        self.start()
        self.mnt.expect_log("incoming/w: left by a mount")
        self.assertListed("w", "w.error")
        self.assertEqual(self.versions(self.root), [0])

    def test_umount_after_a_close(self):
        for i in range(20):
            self.drop(f"cp $S/s1 $I/a{i}")
            self.mnt.unmount()
            self.assertEqual(self.versions(self.root)[-1], i + 1)
            self.start()

    def test_sigterm_during_a_commit(self):
        big = self.file(ROW * 2000000, "big")
        child = subprocess.Popen(["cp", str(big), f"{self.inc}/big"], stderr=subprocess.DEVNULL)
        size = 0
        while child.poll() is None and size < 16000000:
            with contextlib.suppress(FileNotFoundError):  # not yet there, or committed already
                size = os.stat(self.inc / "big").st_size
        self.mnt.daemon.send_signal(signal.SIGTERM)
        status = child.wait()
        log = self.finish_whatever_it_says()
        # Told that it was done: done. Told that it failed: not done.
        self.assertEqual(len(self.versions(self.root)) == 2, status == 0, log)

    def finish_whatever_it_says(self):
        self.assertEqual(self.mnt.daemon.wait(harness.SOON), 0)
        log = self.mnt.log()
        self.mnt.kill()
        return log

    def test_background(self):
        self.mnt.unmount()
        point = self.path("back")
        point.mkdir()
        self.ok([program("tinydeltafs"), str(self.root), str(point)])
        try:
            self.ok(["cp", str(self.s3), f"{point}/incoming/a"])
            self.assertEqual((point / "latest/data.jsonl").read_bytes(), THREE)
        finally:
            self.ok(["umount", str(point)])


class Users(DropCase):
    """Several users of one table."""

    options = ("allow_other",)

    def table(self, *columns, rows=None, name=None):
        self.require_root()
        root = super().table(*columns, rows=rows, name=name)
        os.chmod(root, 0o1777)
        return root

    def test_another_user(self):
        with self.grows(1, 3):
            result = run(["cp", str(self.s3), f"{self.inc}/theirs"], user=65534)
            self.assertEqual(result.status, 0, str(result))
        info = self.commit(self.root, 1)[0]["commitInfo"]
        self.assertEqual(info["userName"], "nobody")
        with self.grows(1, 1):
            self.assertEqual(run(["cp", str(self.s1), f"{self.inc}/x"], user=123456).status, 0)
        self.assertEqual(self.commit(self.root, 2)[0]["commitInfo"]["userName"], "123456")

    def test_files_are_their_owners(self):
        self.assertEqual(run(["cp", str(self.s1), f"{self.inc}/.t"], user=65534).status, 0)
        self.assertEqual(os.stat(self.inc / ".t").st_uid, 65534)
        for command in (["rm", "-f", f"{self.inc}/.t"], ["mv", f"{self.inc}/.t", f"{self.inc}/t"],
                        ["cp", str(self.s3), f"{self.inc}/.t"]):  # fmt: skip
            self.assertNotEqual(run(command, user=1234).status, 0)
        self.assertEqual(run(["rm", f"{self.inc}/.t"], user=65534).status, 0)

    def test_a_read_only_file_by_its_owner(self):
        self.s3.chmod(0o444)
        for command in (["cp"], ["cp", "-p"], ["install", "-m", "400"], ["rsync", "-a"]):
            with self.grows(1, 3):
                result = run([*command, str(self.s3), f"{self.inc}/f"], user=65534)
                self.assertEqual(result.status, 0, str(result))


class Concurrent(DropCase):
    def test_eight_loops_and_a_reader(self):
        for i in range(8):
            self.file(b"".join(b'{"i":%d}\n' % (i * 1000 + n) for n in range(100)), f"in{i}")
        script = (
            "for n in $(seq 0 99); do sed -n $((n + 1))p $S/in$1 > $S/row$1; "
            "cp $S/row$1 $I/f$1 || exit 1; done"
        )
        children = [
            subprocess.Popen(["bash", "-c", script, "bash", str(i)], env={**os.environ, **self.env})
            for i in range(8)
        ]
        first = {}
        point = pathlib.Path(str(self.mnt))
        while any(child.poll() is None for child in children):
            for name in os.listdir(point):
                if not re.fullmatch(r"v\d+", name):
                    continue
                data = (point / name / "data.jsonl").read_bytes()
                self.assertEqual(first.setdefault(name, data), data, name)
                self.assertEqual(data.count(b"\n"), int(name[1:]), name)
            time.sleep(0.05)
        self.assertEqual([child.wait() for child in children], [0] * 8)
        self.assertEqual(len(self.versions(self.root)), 801)
        for name, data in first.items():
            self.assertEqual((point / name / "data.jsonl").read_bytes(), data, name)
        rows = sorted(self.mnt.read("latest/data.jsonl").splitlines())
        self.assertEqual(rows, sorted(b'{"i":%d}' % (i * 1000 + n) for i in range(8) for n in range(100)))
        self.assertListed()

    def test_a_close_is_visible_to_the_next_open(self):
        script = (
            "def rows(): return open(I + '/../latest/data.jsonl', 'rb').read().count(b'\\n')\n"
            "n = rows()\nfor i in range(200):\n"
            "    f = open(I + '/r%d' % i, 'wb'); f.write(d); f.close(); n += 1; assert rows() == n, i"
        )
        self.python_gives(200, 200, script)

    def test_slow_and_quick_drops_side_by_side(self):
        self.file(ROW * 1000000, "big")
        script = "for i in 1 2 3 4; do cp $S/big $I/b$i & done; for i in {1..20}; do cp $S/s1 $I/s$i; done; wait"
        self.gives(24, 4000020, script)

    def test_renames_side_by_side(self):
        script = (
            "work() { for i in {1..25}; do cp $S/s1 $I/.w$1 && mv $I/.w$1 $I/w$1 || exit 1; done; }\n"
            "work 1 & work 2 & work 3 & work 4 & wait"
        )
        self.gives(100, 100, script)


class ConcurrentSingleThreaded(Concurrent):
    arguments = ("-s",)
