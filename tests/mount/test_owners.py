# SPDX-License-Identifier: MIT
"""Whose a file in incoming/ is, and who may look into it: two users of one mount of root's."""

import concurrent.futures
import contextlib
import os
import stat
import struct

import harness
from dropping import DropCase
from users import NOBODY, UserCase

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


class AccessControlList(harness.TestCase):
    """Where the table's folder has one, its mode shows the list's mask for the group."""

    needs_fuse = True
    LISTS = (
        # the entries of (tag, permissions, id); the mode that the folder shows then, and the mount
        ([(1, 7, -1), (2, 5, 1), (4, 0, -1), (16, 5, -1), (32, 0, -1)], 0o750, 0o700),
        ([(1, 7, -1), (2, 7, 1), (4, 5, -1), (16, 7, -1), (32, 5, -1)], 0o775, 0o755),
        ([(1, 7, -1), (4, 7, -1), (8, 7, 1), (16, 5, -1), (32, 0, -1)], 0o750, 0o750),
        ([(1, 7, -1), (4, 5, -1), (32, 0, -1)], 0o750, 0o750),
        # longer than what is looked at: the group may be what it cannot be shown to be
        ([(1, 7, -1), *((2, 7, n) for n in range(2000)), (4, 5, -1), (16, 7, -1), (32, 0, -1)], 0o770, 0o700),
    )

    def test_the_mask_is_not_the_groups(self):
        self.require_root()
        for entries, below, shown in self.LISTS:
            root = self.table(rows=[{"id": 1}])
            value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
            try:
                os.setxattr(root, "system.posix_acl_access", value)
            except OSError as error:
                if len(entries) > 1000:
                    continue  # more than the file system takes
                self.skipTest(f"no access control lists here: {error}")
            self.assertEqual(stat.S_IMODE(os.stat(root).st_mode), below)
            os.chown(root, 0, BEN)
            with self.subTest(shown=oct(shown)), self.mount(root, options=["allow_other"]) as mnt:
                for name, most in (("", 0o555), ("v0", 0o555), ("latest/data.jsonl", 0o444), ("incoming", 0o777)):
                    mode = stat.S_IMODE(os.stat(mnt / name).st_mode) & 0o777
                    self.assertEqual(mode, shown & most, name)
                may = harness.run(["cat", mnt / "v1/data.jsonl"], user=BEN).status == 0
                self.assertEqual(may, bool(shown & 0o040))


class Removal(TwoUsers):
    """What was refused and why go together, whoever names both."""

    def test_both(self):
        for script in (
            *("rm $I/*", "rm $I/x $I/x.error", "rm $I/x.error $I/x", "rm -r $I/*", "rm -f $I/*"),
            *("find $I -type f -delete", "unlink $I/x; unlink $I/x.error", "find $I -type f -exec rm {} +"),
            "python3 -c 'import os, sys; [os.unlink(n) for n in sys.argv[1:]]' $I/*",
            "python3 -c 'import os, sys; [os.stat(n) and os.unlink(n) for n in sys.argv[1:]]' $I/*",
        ):
            for user in (ANN, 0):
                with self.subTest(script=script, user=user):
                    self.by(ANN, "cat $S/bad > $I/x; cat $S/bad > $I/y; true")
                    said = self.by(user, f"set -e; {script}")
                    self.assertEqual((said.out, said.error), (b"", ""))
                    self.by(ANN, "rm -f $I/*")
                    self.assertListed()

    def test_it_has_gone(self):
        self.by(ANN, "cat $S/bad > $I/x; rm $I/x")
        self.assertListed()
        for user in (ANN, BEN, 0):
            self.by(user, "test -e $I/x.error", 1)
            self.by(user, "cat $I/x.error", 1)
            self.by(user, "ls -l $I/x.error", 2)
        self.by(BEN, "unlink $I/x.error", 1)
        self.by(ANN, "cat $S/bad > $I/x; true")
        self.assertListed("x", "x.error")
        self.assertIn("expected int", self.by(ANN, "cat $I/x.error").text)
        # Of a folder that only some may write to, nobody else removes anything.
        self.by(BEN, "rm -f $I/x.error", 1)
        self.by(ANN, "unlink $I/x; unlink $I/x.error")
        self.by(ANN, "unlink $I/x.error", 1)


class Folder(TwoUsers):
    def test_its_mode_and_owner_are_the_tables(self):
        before = self.attributes("")
        for command in ("chmod 700 $I", "chown 5:5 $I", "chgrp 5 $I", "chmod u-w $I"):
            self.assertIn("not permitted", self.by(0, command, 1).error)
            self.assertEqual(self.attributes(""), before)
        # What changes nothing is granted, and so are times.
        self.by(0, "chmod 1777 $I; chown 0:0 $I; touch -d 2001-01-01 $I")

    def test_what_takes_nothing_away_is_granted(self):
        before = self.attributes("")
        self.by(0, "chmod 777 $I; chmod 7777 $I; chmod 6777 $I; chmod a+rwx $I; chmod +t $I")
        self.assertEqual(self.attributes(""), before)
        # Whoever only looks at it does not copy.
        for script in ("ls $I; chmod 700 $I", "chmod -R 700 $I", "touch $I; chmod 700 $I"):
            self.by(0, script, 1)
        self.assertEqual(self.python("os.listdir(I); os.chmod(I, 0o700)").status, 1)

    def test_programs_that_copy_a_folder_end_well(self):
        """Its mode and owner are taken and not kept: the rows are committed, and whoever reads of
        a failure copies them once more."""
        before = self.attributes("")
        self.by(0, "mkdir $S/d; cp $S/s1 $S/d/x; touch -d 2001-01-01 $S/d")
        for mode in ("700", "755", "500", "1777"):
            for owner in ("0:0", f"{ANN}:{ANN}"):
                self.by(0, f"chmod {mode} $S/d; chown {owner} $S/d")
                for script in (
                    *("rsync -a $S/d/ $I/", "cp -a $S/d/. $I", "tar c -C $S/d . | tar xp -C $I"),
                    "python3 -c 'import shutil, sys; shutil.copytree(*sys.argv[1:], dirs_exist_ok=True)' $S/d $I",
                    "cp $S/d/x $I; chmod --reference=$S/d $I; chown --reference=$S/d $I",
                ):
                    with self.subTest(mode=mode, owner=owner, script=script):
                        self.gives(1, 1, script)
                        self.assertEqual(self.attributes(""), before)

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
        # Ben may remove it, or open the same one after it: what becomes of it does not matter here.
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


class Remounts(TwoUsers):
    """What was there is there again, and is its owner's."""

    def again(self, how="unmount"):
        self.mnt.allow_log("left by a mount|not committed")
        getattr(self.mnt, how)()
        self.start()
        self.mnt.allow_log("left by a mount", "incoming/")
        self.wait_for(lambda: stat.S_IMODE(os.stat(self.inc).st_mode) & 0o777 == self.mode, "the mode")

    def test_owner_and_mode(self):
        modes = {"plain": 0o644, "private": 0o600, "group": 0o660, "shown": 0o444, "none": 0}
        for how in ("unmount", "kill"):
            with self.subTest(how=how):
                for name, mode in modes.items():
                    self.by(ANN, f"cat $S/bad > $I/{name}; chmod {mode:o} $I/{name}")
                self.by(ANN, "umask 077; cp $S/bad $I/umask; umask 0; cp $S/bad $I/.temporary; touch $I/empty")
                self.by(ANN, "umask 077; cp $S/bad $I/set; chmod 7640 $I/set")
                modes.update({"umask": 0o600, ".temporary": 0o644, "empty": 0o666, "set": 0o640})
                os.chown(self.inc / "shown", BEN, ANN)
                for _ in range(2):
                    self.again(how)
                    for name, mode in modes.items():
                        owner = BEN if name == "shown" else ANN
                        self.assertEqual(self.attributes(name), (owner, ANN, mode), name)
                    self.by(BEN, "cat $I/private", 1)
                    self.by(BEN, "cat $I/private.error", 1)
                    self.by(BEN, "cat $I/plain")
                # Its owner gets at it, and nobody else takes it away.
                self.by(BEN, "rm $I/private", 1)
                self.by(ANN, "mv $I/private $I/other.tmp; cat $I/other.tmp; rm $I/*.tmp")
                with self.grows(1, 1):
                    self.by(ANN, "cp $S/s1 $I/plain")
                for name in self.mnt.names("incoming"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.inc / name)

    def test_the_reason(self):
        """What was refused is called refused."""
        self.by(ANN, "cp $S/bad $I/bad; cp $S/bad $I/changed; true")
        self.by(ANN, "echo '{\"i\":1}' >> $I/changed; cat $S/s1 > $I/.half")
        said = (self.inc / "bad.error").read_text()
        self.assertIn("expected int", said)
        self.python(
            "f = os.open(I + '/killed', os.O_CREAT | os.O_WRONLY); os.write(f, d); os.kill(os.getpid(), 9)",
            user=ANN,
        )
        killed = (self.inc / "killed.error").read_text()
        self.assertIn("was killed", killed)
        for how in ("unmount", "kill", "unmount"):
            self.again(how)
            self.assertEqual((self.inc / "bad.error").read_text(), said)
            self.assertEqual((self.inc / "killed.error").read_text(), killed)
            self.assertIn("incomplete: the mount ended", (self.inc / ".half.error").read_text())
        # It is all there: whoever repairs it and closes it has it tried again.
        with self.grows(1, 3):
            self.by(ANN, "cp $S/s3 $I/bad")
        with self.grows(1, 1):
            self.by(ANN, "mv $I/killed $I/k2")

    def test_a_reason_of_other_bytes(self):
        self.by(ANN, "cp $S/bad $I/x; true")
        f = os.open(self.inc / "x", os.O_WRONLY | os.O_APPEND)
        os.write(f, b'{"i":3}\n')
        self.mnt.kill()
        with contextlib.suppress(OSError):
            os.close(f)
        self.start()
        self.mnt.allow_log("left by a mount")
        self.assertIn("incomplete: the mount ended", (self.inc / "x.error").read_text())

    def test_a_thousand_are_one_line(self):
        self.by(ANN, "for i in {1..300}; do : > $I/e$i; done")
        self.again("kill")
        self.assertEqual(len(self.mnt.names("incoming")), 300)
        self.assertEqual(self.mnt.log().count("\n"), 1)
        self.assertIn("and 299 more", self.mnt.log())

    def test_a_daemon_that_ends_late(self):
        """One that still lives when another one starts, and is killed then."""
        self.by(ANN, "umask 077; cp $S/bad $I/x; true")
        self.mnt.allow_log("incoming/")
        late = self.mnt
        self.mnt = self.mount(self.root, self.path("second"), options=self.options).start()
        self.mnt.allow_log("left by a mount")
        self.assertEqual(self.mnt.names("incoming"), [])
        late.kill()
        self.wait_for(lambda: self.mnt.names("incoming") == ["x", "x.error"], "what it left is listed")
        self.inc = self.mnt / "incoming"
        self.assertEqual(self.attributes("x"), (ANN, ANN, 0o600))

    def test_a_daemon_that_came_later_and_ends_first(self):
        with self.mount(self.root, self.path("second"), options=self.options) as second:
            second.allow_log("incoming/")
            (second / "incoming/.half").write_bytes(b"x")
            self.assertListed()
            second.kill()
        self.mnt.expect_log("incoming/.half: left by a mount")
        self.wait_for(lambda: self.mnt.names("incoming") == [".half", ".half.error"], "what it left is listed")


class OrdinaryDaemon(UserCase):
    """One of an ordinary user's, whose own modes must not stand in its way."""

    def test_remount(self):
        bad = self.file("bad\n", "bad")
        modes = {"plain": 0o644, "private": 0o600, "shown": 0o444, "none": 0}
        for round in range(3):
            mount = self.mount(self.table_path, self.point, user=NOBODY)
            mount.program = self.programs["tinydeltafs"]
            mount.allow_log("incoming/")
            with mount as mnt:
                for name, mode in modes.items():
                    path = mnt / f"incoming/{name}"
                    if round == 0:
                        harness.run(["cp", bad, path], user=NOBODY)
                        self.user(["chmod", f"{mode:o}", path])
                    said = self.user(["stat", "-c", "%u %a", path]).text.split()
                    self.assertEqual((int(said[0]), int(said[1], 8)), (NOBODY, mode), name)
                if round == 2:
                    self.user(["cp", "-f", self.file([{"id": 1}]), mnt / "incoming/none"])
                    self.user(["sh", "-c", "chmod u+rw $0/shown; cat $1 > $0/shown", mnt / "incoming", self.file([{"id": 2}])])
                    self.assertEqual(self.user(["cat", mnt / "latest/data.jsonl"]).out, b'{"id":1}\n{"id":2}\n')
