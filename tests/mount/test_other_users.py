# SPDX-License-Identifier: MIT
"""Who may look in, what stands in the way of mounting, and mounts that end without their daemon."""

import os
import re
import select
import shutil
import signal
import time

import harness
import proc
from users import NOBODY, UserCase


class Refused(UserCase):
    def refuses(self, *arguments, says, status=1, **how):
        """Fails, with one line about why, and leaves nothing mounted."""
        how.setdefault("user", NOBODY)
        result = self.fails(
            [self.programs["tinydeltafs"], self.table_path, self.point, *arguments], status, **how
        )
        self.assertRegex(result.error, says)
        self.assertEqual(len(result.error.splitlines()), 1, str(result))
        self.assertFalse(os.path.ismount(self.point))

    def bind(self, source, target):
        self.ok(["mount", "--bind", source, target])
        self.addCleanup(harness.run, ["umount", "-l", target])

    def test_allow_other_needs_leave(self):
        self.bind(self.file("# nothing\n"), "/etc/fuse.conf")
        for option in ("allow_other", "allow_root"):
            self.refuses("-o", option, says="user_allow_other.*/etc/fuse.conf")

    def test_allow_other_with_leave(self):
        self.bind(self.file("user_allow_other\n"), "/etc/fuse.conf")
        mount = self.mount(self.table_path, self.point, options=["allow_other"], user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            mnt.expect_log("writers of other users cannot be watched")
            self.ok(["cat", mnt / "v0/data.jsonl"], user=NOBODY - 1)
            self.ok(["ls", mnt])
            self.user(["chmod", "700", self.table_path])
            # The kernel keeps the root's mode for a moment.
            self.wait_for(
                lambda: harness.run(["ls", mnt], user=NOBODY - 1).status == 2, "the new mode"
            )

    def test_no_fusermount(self):
        plain = shutil.copy(shutil.which("fusermount3"), self.path("fusermount3"))
        os.chmod(plain, 0o755)
        self.bind(plain, os.path.realpath(shutil.which("fusermount3")))
        self.refuses(says="fusermount3?: .*(not permitted|denied)")

    def test_a_mount_point_of_root(self):
        self.point = self.path("point")
        self.point.mkdir()
        self.refuses(says="fusermount3?: user has no write access to mountpoint")

    def test_a_table_that_is_hidden(self):
        self.table_path.chmod(0)
        os.chown(self.table_path, 0, 0)
        self.refuses(says="Permission denied")

    def test_no_device(self):
        empty = self.path("nodev")
        empty.mkdir()
        os.mknod(empty / "null", 0o020666, os.stat("/dev/null").st_rdev)
        os.chmod(empty / "null", 0o666)
        self.ok(["mount", "--bind", empty, "/dev"])
        self.addCleanup(harness.run, ["umount", "-l", "/dev"])
        self.refuses(says="fuse")


class LockedOut(UserCase):
    def test_root_too(self):
        """Not even root looks into the mount of a user, unless it is let in."""
        mount = self.mount(self.table_path, self.point, user=NOBODY)
        mount.program = self.programs["tinydeltafs"]
        with mount as mnt:
            said = self.fails(["ls", mnt], status=None)
            self.assertIn("Permission denied", said.error)
            harness.run(["df"])
            # Others' work goes on; what they may see of a mount is that it is there.
            self.assertTrue(proc.mountinfo(mnt))
            self.user(["df", mnt])


class AutoUnmount(UserCase):
    def libfuse(self):
        said = self.ok([harness.program("tinydeltafs"), "-V"]).text
        return tuple(map(int, re.search(r"library version ([0-9]+)\.([0-9]+)", said).groups()))

    def dies(self, user):
        """fusermount3 is told by the end of a socket, looks at the mount, and now and then gives up:
        that is libfuse's, and seen once in sixty. Not five times one after the other."""
        for _ in range(5):
            if self.is_cleared(user):
                self.assertEqual(os.listdir(self.point), [])
                return
            print("# fusermount3 left the mount as it was")
            self.ok(["umount", "-l", self.point])
        self.fail("the mount stays when its daemon was killed")

    def is_cleared(self, user):
        self.addCleanup(harness.run, ["umount", "-l", self.point])
        script = f"{self.programs['tinydeltafs']} {self.table_path} {self.point} -o auto_unmount"
        # Ends only when nobody holds the pipe any more.
        self.ok(["bash", "-c", f"set -o pipefail; {script} 2>&1 | cat"], user=user)
        self.ok(["ls", self.point], user=user)
        with open("/proc/self/mountinfo", "rb") as mounts:
            mounts.read()
            events = select.poll()
            events.register(mounts.fileno(), select.POLLPRI)
            os.kill(proc.daemon_of(self.point), signal.SIGKILL)
            deadline = time.monotonic() + 10
            while proc.mountinfo(self.point) and time.monotonic() < deadline:
                events.poll(500)
        return not proc.mountinfo(self.point)

    def test_of_root(self):
        self.dies(None)

    def test_of_a_user(self):
        if self.libfuse() >= (3, 15):
            self.dies(NOBODY)
            return
        argv = [self.programs["tinydeltafs"], self.table_path, self.point, "-o", "auto_unmount"]
        result = self.fails(argv, user=NOBODY)
        self.assertRegex(result.error, r"\Atinydeltafs: option auto_unmount: needs [^\n]*\n\Z")
        self.assertFalse(os.path.ismount(self.point))

    def test_umount_as_always(self):
        with self.mount(self.table_path, self.point, options=["auto_unmount"]) as mnt:
            self.ok(["ls", mnt])


class UserNamespace(UserCase):
    """As in a container without privileges: unshare -Urm."""

    def inside(self, script, *arguments, **how):
        argv = ["unshare", "-Urm", "bash", "-euc", script, "bash", self.programs["tinydeltafs"]]
        probe = harness.run(["unshare", "-Urm", "true"], user=NOBODY)
        if probe.status != 0:
            self.skipTest(f"no user namespaces: {probe.error.strip()}")
        return harness.run([*argv, self.table_path, self.point, *arguments], user=NOBODY, **how)

    def test_a_table_of_ones_own(self):
        self.mine("tinydelta", "append", self.table_path, "--file", self.file([{"id": 1}]))
        result = self.inside(
            "$1 $2 $3; cat $3/v1/data.jsonl; stat -c %u:%g $3/v1/data.jsonl; "
            "echo '{\"id\":2}' > $3/incoming/x; cat $3/latest/data.jsonl; umount $3"
        )
        self.assertEqual(result.status, 0, str(result))
        self.assertEqual(result.text, '{"id":1}\n0:0\n{"id":1}\n{"id":2}\n')
        self.assertEqual({p.stat().st_uid for p in self.table_path.glob("part-*")}, {NOBODY})

    def test_a_table_of_somebody_unknown_there(self):
        os.chown(self.table_path, 1234, 1234)
        self.table_path.chmod(0o755)
        self.table_path.joinpath("_delta_log").chmod(0o755)
        script = "$1 $2 $3 $4 $5; stat -c %U $3; cat $3/v0/data.jsonl; ls $3 >&2; umount $3"
        result = self.inside(script, "-o", "ro")
        self.assertEqual(result.status, 0, str(result))
        self.assertEqual(result.text, "nobody\n")
        result = self.inside(script, "-o", "ro,uid=0,gid=0")
        self.assertEqual(result.status, 0, str(result))
        self.assertEqual(result.text, "root\n")
