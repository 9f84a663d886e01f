# SPDX-License-Identifier: MIT
"""Whose a file in incoming/ is, and who may look into it: two users of one mount of root's."""

import concurrent.futures
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


# Ann drops a private file again and again, each time once more within the moment in which its
# name is still hers; Ben opens the name as any program does that writes a file.
ANNS = """
os.umask(0o077)
end = time.monotonic() + float(sys.argv[1])
rounds = 0
while time.monotonic() < end:
    for flags in (os.O_TRUNC | os.O_CREAT, 0):
        try:
            f = os.open(I + "/x", os.O_WRONLY | flags, 0o600)
        except OSError:
            continue
        rounds += 1
        # Ben may remove it, or open the same one after it: what becomes of it is no matter here.
        try:
            os.write(f, d)
            time.sleep(0.0002)
            os.close(f)
        except OSError:
            pass
print(rounds)
"""
BENS = """
import errno
os.umask(0o077)
end = time.monotonic() + float(sys.argv[1])
got = stale = 0
while time.monotonic() < end:
    try:
        f = os.open(I + "/x", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        stale += error.errno == errno.ESTALE
        continue
    if os.fstat(f).st_uid != os.getuid():
        got += 1
    else:
        os.unlink(I + "/x")
    os.close(f)
print(got, stale)
"""


class Races(TwoUsers):
    seconds = os.environ.get("TDL_RACE_SECONDS", "3")

    def test_nobody_gets_anothers_file(self):
        with concurrent.futures.ThreadPoolExecutor() as both:
            ann = both.submit(self.python, ANNS, self.seconds, user=ANN)
            ben = both.submit(self.python, BENS, self.seconds, user=BEN)
        self.assertEqual((ann.result().status, ben.result().status), (0, 0), f"{ann.result()} {ben.result()}")
        got, stale = map(int, ben.result().out.split())
        print(f"# Ann wrote {int(ann.result().out)} times; Ben got {got} of hers, ESTALE {stale} times")
        self.assertEqual(got, 0)
        # The kernel looks again once; only who is unlucky twice hears of it.
        self.assertLess(stale, 20 * float(self.seconds))
