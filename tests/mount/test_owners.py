# SPDX-License-Identifier: MIT
"""Whose a file in incoming/ is, and who may look into it: two users of one mount of root's."""

import os
import stat

import harness
from dropping import BAD, DropCase

ANN, BEN = 1234, 65534  # both may drop


class TwoUsers(DropCase):
    options = ("allow_other",)
    mode = 0o777

    def setUp(self):
        self.require_root()
        super().setUp()
        os.chmod(self.root, self.mode)
        self.mnt.allow_log("incoming/")
        # The kernel keeps the mode of incoming/ for a moment.
        self.wait_for(lambda: stat.S_IMODE(os.stat(self.inc).st_mode) & 0o777 == self.mode, "the mode")

    def by(self, user, script, status=0):
        result = self.drop(script, user=user)
        self.assertEqual(result.status, status, str(result))
        return result

    def attributes(self, name):
        st = os.stat(self.inc / name)
        return st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)


class Notes(TwoUsers):
    def test_is_as_private_as_the_drop(self):
        self.by(ANN, "umask 077; cat $S/bad > $I/x; true")
        self.assertListed("x", "x.error")
        self.assertEqual(self.attributes("x"), (ANN, ANN, 0o600))
        self.assertEqual(self.attributes("x.error"), (ANN, ANN, 0o400))
        self.by(BEN, "cat $I/x.error", 1)
        self.assertIn("expected int", self.by(ANN, "cat $I/x.error").text)

    def test_follows_the_drop(self):
        self.by(ANN, "umask 022; cat $S/bad > $I/x; true")
        self.assertEqual(self.attributes("x.error"), (ANN, ANN, 0o444))
        for mode in (0o600, 0o640, 0o666, 0, 0o755):
            os.chmod(self.inc / "x", mode)
            self.assertEqual(self.attributes("x.error"), (ANN, ANN, mode & 0o444))
        os.chown(self.inc / "x", BEN, ANN)
        self.assertEqual(self.attributes("x.error"), (BEN, ANN, 0o444))
        os.chmod(self.inc / "x", 0o600)
        # One that is put there anew, too.
        self.by(BEN, "cat $S/bad > $I/x; true")
        self.assertEqual(self.attributes("x.error"), (BEN, ANN, 0o400))
        self.by(ANN, "cat $I/x.error", 1)


class Folder(TwoUsers):
    def test_its_mode_and_owner_are_the_tables(self):
        before = self.attributes("")
        for command in ("chmod 700 $I", "chown 5:5 $I", "chgrp 5 $I", "chmod u-w $I"):
            self.assertIn("not permitted", self.by(0, command, 1).error)
            self.assertEqual(self.attributes(""), before)
        # What changes nothing is granted, and so are times.
        self.by(0, "chmod 1777 $I; chown 0:0 $I; touch -d 2001-01-01 $I")

    def test_room_for_names(self):
        # On a version 255, which is what the file system below has.
        for name, length in (("incoming", 222), ("latest", 255), ("", 255)):
            self.assertEqual(os.pathconf(self.mnt / name, "PC_NAME_MAX"), length)
            self.assertEqual(os.statvfs(self.mnt / name).f_namemax, length)
        self.by(0, "echo > $I/x")
        self.assertEqual(os.pathconf(self.inc / "x", "PC_NAME_MAX"), 222)
        long = "n" * 222
        self.gives(1, 1, f"cp $S/s1 $I/{long}")
        self.refuses(f"cp $S/s1 $I/{long}n")
