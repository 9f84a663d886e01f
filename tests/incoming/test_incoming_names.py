# SPDX-License-Identifier: MIT
"""Names in incoming/: temporary ones, error files, recent names, renames, unlinks, two writers of one name."""

import ctypes
import errno
import os
import signal
import stat
import subprocess

from dropping import ROW, DropCase

_libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2


def renameat2(old, new, flags):
    """0, or the errno."""
    if _libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) == 0:
        return 0
    return ctypes.get_errno()


class Temporary(DropCase):
    def test_close_neither_commits_nor_fails(self):
        names = [".x", "x~", "x.tmp", "x.part", "x.partial", "x.swp", ".x.jsonl", ".~lock"]
        names += ["x.bak", "x.orig", "x.old", "x.save", "x.new", "x.crdownload", "x.filepart"]
        for name in names:
            self.gives(0, 0, "cp", self.bad, f"{self.inc}/{name}")
        self.assertListed(*names)
        for name in names:
            self.gives(0, 0, "cp", self.s1, f"{self.inc}/{name}")
            self.gives(1, 1, "mv", f"{self.inc}/{name}", f"{self.inc}/x")
        self.assertListed()

    def test_rename_has_the_errno(self):
        self.mnt.expect_log(r"incoming/\.t:2:")
        self.gives(0, 0, "cp $S/bad $I/.t")
        with self.grows(0, 0), self.assertRaises(OSError) as caught:
            os.rename(self.inc / ".t", self.inc / "bad.jsonl")
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertListed(".t", ".t.error")
        self.assertRegex(self.mnt.read("incoming/.t.error"), rb"\A\.t:2:[^\n]+\n\Z")
        self.gives(0, 0, "cp $S/s1 $I/.t")
        self.assertListed(".t")
        self.gives(1, 1, "mv $I/.t $I/good")
        self.assertEqual(self.commit(self.root, 1)[0]["commitInfo"]["source"], "good")

    def test_renamed_by_another_process(self):
        self.gives(0, 0, "cp $S/s3 $I/a.part")
        self.gives(1, 3, "mv $I/a.part $I/a && echo done")
        self.assertListed()

    def test_a_refusal_keeps_the_target(self):
        self.mnt.expect_log("incoming/")
        self.drop("cp $S/bad $I/x; cp $S/bad $I/.x")
        self.refuses("mv $I/.x $I/x")
        self.assertListed(".x", ".x.error", "x", "x.error")

    def test_renamed_while_open(self):
        script = (
            "p = I + '/f'\nf = os.open(p + '.tmp', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "os.rename(p + '.tmp', p); assert os.listdir(I) == ['f']; os.write(f, d); os.close(f)"
        )
        self.python_gives(1, 2, script)
        self.assertListed()

    def test_temporary_to_temporary(self):
        self.gives(0, 0, "cp $S/s1 $I/.a; mv $I/.a $I/.b")
        self.assertListed(".b")
        self.gives(1, 1, "mv $I/.b $I/b")

    def test_interrupted_rsync(self):
        big = self.file(ROW * 3000000, "big")
        with self.grows(0, 0):
            child = subprocess.Popen(
                ["rsync", "--bwlimit=2000", str(big), f"{self.inc}/big"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            while not any(n.startswith(".big.") for n in self.mnt.names("incoming")):
                self.assertIsNone(child.poll())
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()  # until the last of its processes is gone
        for name in self.mnt.names("incoming"):
            os.unlink(self.inc / name)


class Notes(DropCase):
    def setUp(self):
        super().setUp()
        self.mnt.expect_log("incoming/")
        self.refuses("cp $S/bad $I/x")
        self.note = self.inc / "x.error"

    def test_reading(self):
        st = os.stat(self.note)
        self.assertEqual(stat.S_IMODE(st.st_mode), 0o444)
        self.assertEqual(st.st_size, len(self.note.read_bytes()))
        self.assertEqual(self.drop("cat $I/x.error").out, self.note.read_bytes())
        self.assertIn(b"x:2:", self.note.read_bytes())

    def test_not_written(self):
        for command in ("echo >> $I/x.error", "> $I/x.error", "truncate -s 0 $I/x.error",
                        "mv $I/x.error $I/y", "mv $I/x $I/y.error", "cp $S/s1 $I/z.error",
                        "touch $I/y.error", "chmod 600 $I/x.error"):  # fmt: skip
            self.refuses(command)
        self.assertListed("x", "x.error")

    def test_removed_alone(self):
        self.gives(0, 0, "rm $I/x.error")
        self.assertListed("x")
        self.refuses("mv $I/x $I/y")
        self.assertListed("x", "x.error")

    def test_removed_with_the_drop(self):
        self.gives(0, 0, "rm $I/x")
        self.assertListed()

    def test_rename_tries_again(self):
        self.refuses("mv $I/x $I/y")
        self.assertListed("x", "x.error")
        self.assertIn(b"x:2:", self.note.read_bytes())

    def test_rename_onto_it(self):
        self.gives(0, 0, "cp $S/s1 $I/.n")
        self.gives(1, 1, "mv $I/.n $I/x")
        self.assertListed()

    def test_rewriting(self):
        self.gives(1, 3, "cp $S/s3 $I/x")
        self.assertListed()

    def test_a_close_with_nothing_changed_says_nothing(self):
        self.gives(0, 0, "touch $I/x")
        self.gives(0, 0, "exec 3<> $I/x; cat <&3; exec 3>&-")
        self.assertListed("x", "x.error")

    def test_hidden_away(self):
        self.gives(0, 0, "mv $I/x $I/x.part")
        self.assertListed("x.part", "x.part.error")
        self.assertIn(b"x:2:", self.mnt.read("incoming/x.part.error"))
        self.gives(0, 0, "mv $I/x.part $I/x.bak")
        self.assertListed("x.bak", "x.bak.error")
        self.gives(0, 0, "rm $I/x.bak")
        self.assertListed()

    def test_an_open_note_outlives_its_drop(self):
        with open(self.note, "rb") as note:
            self.gives(0, 0, "rm $I/x")
            self.assertIn(b"x:2:", note.read())


class RecentNames(DropCase):
    def test_for_the_writer(self):
        script = (
            "p = I + '/g'\nf = open(p, 'wb'); f.write(d); f.close()\n"
            "assert os.listdir(I) == []\n"
            "st = os.stat(p); assert st.st_size == len(d)\n"
            "os.chmod(p, 0o600); os.utime(p, (5, 7)); st = os.stat(p)\n"
            "assert st.st_mode & 0o777 == 0o600 and st.st_mtime == 7\n"
            "assert open(p, 'rb').read() == d\n"
            "os.rename(p, I + '/h'); assert not os.path.exists(p); os.stat(I + '/h')\n"
            "os.unlink(I + '/h'); assert not os.path.exists(I + '/h')"
        )
        self.python_gives(1, 1, script)

    def test_for_the_writers_threads(self):
        script = (
            "p = I + '/g'\nf = open(p, 'wb'); f.write(d); f.close()\n"
            "found = []\nt = threading.Thread(target=lambda: found.append(os.path.exists(p)))\n"
            "t.start(); t.join(); assert found == [True], found"
        )
        self.python_gives(1, 1, script)

    def test_for_nobody_else(self):
        script = (
            "p = I + '/g'\nf = open(p, 'wb'); f.write(d); f.close(); assert os.path.exists(p)\n"
            "assert subprocess.run(['test', '-e', p]).returncode == 1\n"
            "assert subprocess.run(['rm', p], stderr=-3).returncode == 1\n"
            "assert os.path.exists(p)"
        )
        self.python_gives(1, 1, script)

    def test_written_again_by_the_writer(self):
        script = (
            "p = I + '/g'\nfor mode in ('wb', 'wb', 'ab', 'r+b', 'w+b', 'ab'):\n"
            "    f = open(p, mode); f.write(d); f.close()\n    assert os.stat(p).st_size == len(d)"
        )
        self.python_gives(6, 6, script)
        self.assertListed()

    def test_created_by_another(self):
        script = (
            "p = I + '/g'\nf = open(p, 'wb'); f.write(d); f.close()\n"
            "subprocess.run(['cp', sys.argv[1], p], check=True)\nf = open(p, 'wb'); f.write(d)"
        )
        self.python_gives(3, 3, script, self.s1)

    def test_onto_a_refused_file(self):
        self.mnt.expect_log("incoming/x:")
        self.refuses("cp $S/bad $I/x")
        script = "f = open(I + '/n', 'wb'); f.write(d); f.close(); os.rename(I + '/n', I + '/x')"
        self.python_gives(1, 1, script)
        self.assertListed()

    def test_it_ends(self):
        script = (
            "p = I + '/g'\nf = open(p, 'wb'); f.write(d); f.close(); assert os.path.exists(p)\n"
            "time.sleep(5.2); assert not os.path.exists(p)"
        )
        self.python_gives(1, 1, script)

    def test_more_than_there_is_room_for(self):
        script = (
            "for i in range(300):\n    p = I + '/g%d' % i\n"
            "    f = open(p, 'wb'); f.write(d); f.close(); os.utime(p)"
        )
        self.python_gives(300, 300, script)
        self.assertLess(len(os.listdir(f"/proc/{self.mnt.pid}/fd")), 1200)


class Renames(DropCase):
    def test_flags(self):
        self.drop("cp $S/s1 $I/.a; cp $S/s3 $I/.b")
        a, b, c = (self.inc / n for n in (".a", ".b", "c"))
        with self.grows(0, 0):
            self.assertEqual(renameat2(a, b, NOREPLACE), errno.EEXIST)
            self.assertEqual(renameat2(a, b, EXCHANGE), errno.EINVAL)
            self.assertEqual(renameat2(a, c, EXCHANGE), errno.ENOENT)
            self.assertEqual(renameat2(self.inc / ".q", c, 0), errno.ENOENT)
        with self.grows(1, 1):
            self.assertEqual(renameat2(a, c, NOREPLACE), 0)
        self.gives(0, 0, "rm $I/.b")

    def test_mv_n(self):
        self.drop("cp $S/s1 $I/.a; cp $S/s3 $I/.b; mv -n $I/.a $I/.b")
        self.assertListed(".a", ".b")

    def test_onto_itself(self):
        self.drop("cp $S/s1 $I/.a")
        os.rename(self.inc / ".a", self.inc / ".a")
        self.assertListed(".a")

    def test_onto_staged_and_empty(self):
        self.gives(1, 3, "cp $S/s3 $I/.b; touch $I/e; mv $I/.b $I/e")
        self.assertListed()
        self.gives(0, 0, "touch $I/e; mv $I/e $I/f")
        self.assertListed("f")

    def test_onto_a_just_published_name(self):
        self.gives(2, 4, "cp $S/s1 $I/p; cp $S/s3 $I/.p; mv $I/.p $I/p")
        self.python_gives(
            2, 2,
            "f = open(I + '/p', 'wb'); f.write(d); f.close()\n"
            "f = open(I + '/.p', 'wb'); f.write(d); f.close(); os.replace(I + '/.p', I + '/p')",
        )  # fmt: skip
        self.assertListed()

    def test_onto_one_that_is_being_written(self):
        script = (
            "f = os.open(I + '/w', os.O_CREAT | os.O_WRONLY); os.write(f, d + d)\n"
            "g = os.open(I + '/.n', os.O_CREAT | os.O_WRONLY); os.write(g, d); os.close(g)\n"
            "os.rename(I + '/.n', I + '/w'); os.write(f, d); os.close(f)"
        )
        self.python_gives(1, 1, script)
        self.assertListed()

    def test_the_disk_knows_the_name(self):
        self.drop("cp $S/s1 $I/.a; mv $I/.a $I/.renamed")
        names = [n for _, _, names in os.walk(self.root / "_incoming") for n in names]
        self.assertTrue(any(n.endswith("-.renamed") for n in names), names)


class Unlinks(DropCase):
    def test_while_open(self):
        script = (
            "p = I + '/u'\nf = os.open(p, os.O_CREAT | os.O_RDWR); os.unlink(p)\n"
            "os.write(f, d); assert os.fstat(f).st_nlink == 0; os.ftruncate(f, 3)\n"
            "assert os.pread(f, 10, 0) == d[:3]; os.fsync(f); os.close(f)"
        )
        self.python_gives(0, 0, script)
        self.assertListed()
        self.assertEqual(self.staged(), [])

    def test_the_name_is_free_at_once(self):
        script = (
            "p = I + '/u'\nf = open(p, 'wb'); f.write(d); f.flush(); os.unlink(p)\n"
            "g = open(p, 'wb'); g.write(d + d); g.close(); f.close()"
        )
        self.python_gives(1, 2, script)

    def test_what_is_not_there(self):
        self.refuses("rm $I/nothing")
        with self.grows(1, 1):  # published: gone for whoever did not write it
            self.assertNotEqual(self.drop("cp $S/s1 $I/x && rm $I/x").status, 0)


class TwoWriters(DropCase):
    def test_truncating_what_another_writes(self):
        script = (
            "p = I + '/t'\nf = open(p, 'wb'); f.write(d); f.flush()\n"
            "r = subprocess.run(['cp', sys.argv[1], p], capture_output=True, text=True)\n"
            "assert r.returncode == 1 and 'busy' in r.stderr, r"
        )
        self.python_gives(1, 1, script, self.s3)

    def test_truncating_ones_own(self):
        script = (
            "p = I + '/t'\nf = open(p, 'wb'); f.write(d + d); f.flush()\n"
            "g = open(p, 'wb'); g.write(d); g.close(); f.close()"
        )
        self.python_gives(1, 1, script)

    def test_sharing_one_file(self):
        script = (
            "p = I + '/t'\nf = open(p, 'ab', buffering=0); f.write(d)\n"
            "subprocess.run('cat $S/s1 >> $I/t', shell=True, check=True)\n"
            "assert os.stat(p).st_size == 2 * len(d); f.write(d); f.close()"
        )
        self.python_gives(1, 3, script)

    def test_a_crowd(self):
        for name in "abcd":
            self.file(b'{"i":%d}\n' % ord(name) * 1000, name)
        for _ in range(25):
            versions, rows = len(self.versions(self.root)), self.rows()
            result = self.drop(
                "for n in a b c d; do (cat $S/$n > $I/same && echo ok) 2> /dev/null & done; wait"
            )
            accepted = result.text.count("ok")
            self.assertGreaterEqual(accepted, 1, str(result))
            self.assertEqual(len(self.versions(self.root)) - versions, accepted)
            self.assertEqual(self.rows() - rows, 1000 * accepted)
            for version in range(versions, versions + accepted):
                added = self.mnt.read(f"v{version}/data.jsonl").splitlines()[-1000:]
                self.assertEqual(len(set(added)), 1, "one writer's rows among another's")
        self.assertListed()

    def test_read_only_with_o_trunc(self):
        self.drop("cp $S/s1 $I/.t")
        os.close(os.open(self.inc / ".t", os.O_RDONLY | os.O_TRUNC))
        self.assertEqual(os.stat(self.inc / ".t").st_size, 0)

    def test_a_shorter_rewrite_has_no_tail(self):
        self.mnt.expect_log("incoming/t:")
        self.refuses("(cat $S/s3; cat $S/bad) > $I/t")
        self.gives(1, 1, "cat $S/s1 > $I/t")


class Attributes(DropCase):
    def test_modes(self):
        self.gives(0, 0, "umask 077; cp $S/s1 $I/.a; test $(stat -c %a $I/.a) = 600")
        self.gives(0, 0, "umask 022; : > $I/.b; test $(stat -c %a $I/.b) = 644")
        self.gives(0, 0, "chmod 4755 $I/.b; test $(stat -c %a $I/.b) = 755")
        self.gives(0, 0, "chown 12:34 $I/.b; test $(stat -c %u:%g $I/.b) = 12:34")
        self.gives(0, 0, "touch -d @77 $I/.b; test $(stat -c %Y $I/.b) = 77")
        self.gives(0, 0, "cp -p $S/s1 $I/.c; test $(stat -c %Y $I/.c) = $(stat -c %Y $S/s1)")

    def test_listing(self):
        names = {f"e{i:04d}" for i in range(1000)}
        for name in names:
            (self.inc / name).touch()
        with os.scandir(self.inc) as entries:
            seen = {e.name: e.inode() for e in entries}
        self.assertEqual(set(seen), names)
        for name in ("e0000", "e0999"):
            self.assertEqual(os.stat(self.inc / name).st_ino, seen[name])
        listed = []
        with os.scandir(self.inc) as entries:
            for entry in entries:  # removing while listing loses none of the others
                listed.append(entry.name)
                os.unlink(entry.path)
        self.assertEqual(sorted(listed), sorted(names))
        self.assertListed()

    def test_free_space(self):
        self.assertGreater(os.statvfs(self.inc).f_blocks, 0)
