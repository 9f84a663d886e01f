# SPDX-License-Identifier: MIT
"""Extended attributes and access control lists of what is copied into incoming/ have no effect, and
no copy fails because of them."""

import errno
import os
import struct

from dropping import DropCase

ACL = "system.posix_acl_access"


def access_list(user, group=0o4, mask=0o4):
    """u::rw-, u:USER:r--, g::GROUP, m::MASK, o::---"""
    none = 0xFFFFFFFF
    entries = [(1, 6, none), (2, 4, user), (4, group, none), (16, mask, none), (32, 0, none)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


class Copies(DropCase):
    def setUp(self):
        super().setUp()
        self.source = self.file('{"i":5}\n', "source")
        for name, value in (("user.origin", b"x"), (ACL, access_list(65534))):
            try:
                os.setxattr(self.source, name, value)
            except OSError as error:
                self.assertEqual(error.errno, errno.EOPNOTSUPP)
                self.skipTest(f"the file system here keeps no {name}")

    def copies(self, command):
        self.gives(1, 1, command)
        self.assertListed()

    def test_cp(self):
        for how in ("-p", "-a", "--preserve=xattr", "--preserve=all", "-p --preserve=context,xattr"):
            with self.subTest(how=how):
                if "context" in how and not os.path.exists("/sys/fs/selinux"):
                    continue
                self.copies(f"cp {how} $S/source $I/x")

    def test_mv(self):
        self.copies("mv $S/source $I/x")

    def test_rsync(self):
        self.require_tool("rsync")
        for how in ("-a", "-aX", "-aA", "-aAX", "-aAX --inplace", "-aAX --fake-super"):
            with self.subTest(how=how):
                self.copies(f"rsync {how} $S/source $I/x")

    def test_tar(self):
        self.require_tool("tar")
        self.copies("tar -C $S --xattrs --acls -cf - source | tar --xattrs --acls -C $I -xf -")

    def test_setfacl(self):
        self.require_tool("setfacl")
        self.gives(0, 0, "touch $I/x; setfacl -m u:daemon:r $I/x && setfacl -b $I/x")
        self.assertListed("x")


class Calls(DropCase):
    def test_of_a_drop(self):
        path = self.inc / "x"
        path.write_bytes(b"")
        for name in ("user.a", "trusted.a", "security.a", ACL):
            value = access_list(1) if name == ACL else b"1"
            os.setxattr(path, name, value)
            os.removexattr(path, name)
            # Nothing is kept.
            with self.assertRaises(OSError) as caught:
                os.getxattr(path, name)
            self.assertIn(caught.exception.errno, (errno.ENODATA, errno.EOPNOTSUPP))

    def test_of_the_folder(self):
        """Refused, but for programs that copy a folder: whose user has dropped a file just now."""
        for name in ("user.a", ACL):
            with self.assertRaises(PermissionError):
                os.setxattr(self.inc, name, access_list(1) if name == ACL else b"1")
        (self.inc / ".x").write_bytes(b"")
        os.setxattr(self.inc, "user.a", b"1")
        with self.assertRaises(OSError):
            os.getxattr(self.inc, "user.a")

    def test_of_what_is_read_only(self):
        for name in ("v0", "v0/data.jsonl", "history/v0.json", "latest", ""):
            for call in (lambda path: os.setxattr(path, "user.a", b"1"), lambda path: os.removexattr(path, "user.a")):
                with self.assertRaises(OSError) as caught:
                    call(self.mnt / name)
                self.assertIn(caught.exception.errno, (errno.EROFS, errno.EPERM, errno.EACCES))
        # And none of that has made the kernel stop asking for drops.
        (self.inc / "x").write_bytes(b"")
        os.setxattr(self.inc / "x", "user.a", b"1")
