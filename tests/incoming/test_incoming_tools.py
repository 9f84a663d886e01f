# SPDX-License-Identifier: MIT
"""incoming/ and the programs people have: one drop, one commit."""

from dropping import DropCase


class Shell(DropCase):
    def test_cat_and_redirections(self):
        self.gives(1, 3, "cat $S/s3 > $I/a")
        self.gives(1, 3, "cat > $I/a < $S/s3")
        self.gives(1, 3, "cat $S/s3 >> $I/new")
        self.gives(1, 1, "echo '{\"i\":1}' > $I/a")
        self.gives(1, 1, "printf '{\"i\":1}\\n' >> $I/a")
        self.gives(1, 2, 'cat > $I/a <<END\n{"i":1}\n{"i":2}\nEND')
        self.gives(1, 1, "cat > $I/a <<< '{\"i\":1}'")
        self.gives(1, 1, "cat $S/s1 > $I/a 2>&1")
        self.assertListed()

    def test_each_shell(self):
        for shell in ("bash", "dash"):
            self.gives(1, 2, shell, "-c", "(cat $S/s1; cat $S/s1) > $I/a")
            self.gives(1, 2, shell, "-c", "{ cat $S/s1; cat $S/s1; } > $I/a")
            self.gives(1, 2, shell, "-c", "for i in 1 2; do cat $S/s1; done > $I/a")
            self.gives(1, 2, shell, "-c", "f() { cat $S/s1; cat $S/s1; }; f > $I/a")
            self.gives(1, 2, shell, "-c", "exec 3> $I/a; cat $S/s1 >&3; cat $S/s1 >&3; exec 3>&-")
            self.gives(1, 1, shell, "-c", "exec > $I/a; exec cat $S/s1")
            self.gives(1, 3, shell, "-c", "while read l; do echo \"$l\"; done < $S/s3 > $I/a")

    def test_group_with_pauses(self):
        self.gives(1, 2, "(cat $S/s1; sleep .1; cat $S/s1) > $I/a")
        self.gives(1, 3, "( echo '{\"i\":1}'; /bin/echo '{\"i\":2}'; echo '{\"i\":3}' ) > $I/a")

    def test_builtins_only(self):
        self.gives(1, 2, "exec 3>$I/e; echo '{\"i\":1}' >&3; echo '{\"i\":2}' >&3; exec 3>&-")
        self.gives(1, 1, "exec 3>$I/e; echo '{\"i\":1}' >&3")

    def test_append_in_a_loop_is_a_commit_each(self):
        self.gives(3, 3, 'while read l; do echo "$l" >> $I/loop; done < $S/s3')

    def test_many_echoes_in_one_redirection(self):
        self.gives(1, 200, "for i in {1..100}; do echo '{\"i\":1}'; /bin/echo '{\"i\":2}'; done > $I/a")

    def test_the_same_name_again_and_again(self):
        self.gives(
            40, 40, "for i in {1..20}; do cp $S/s1 $I/b || exit; cat $S/s1 > $I/b || exit; done"
        )
        self.gives(10, 10, "for i in {1..10}; do echo '{\"i\":1}' > $I/b || exit; done")

    def test_names(self):
        names = ["a b", "#x", "-o", "é.jsonl", "v3", "latest", "data.jsonl", "a\nb", "%s", "n" * 222]
        for name in names:
            self.gives(1, 1, "cp", self.s1, f"{self.inc}/{name}")
        self.gives(1, 1, "bash", "-c", "cp $S/s1 $I/$'\\xff\\xfe'")
        self.refuses("cp", self.s1, f"{self.inc}/{'n' * 223}")
        self.assertListed()

    def test_source_and_user(self):
        self.gives(1, 1, "cp", self.s1, f"{self.inc}/orders 7.jsonl")
        info = self.commit(self.root, 1)[0]["commitInfo"]
        self.assertEqual((info["source"], info["userName"]), ("orders 7.jsonl", "root"))


class Copying(DropCase):
    def test_cp(self):
        self.gives(1, 3, "cp $S/s3 $I/")
        self.gives(1, 3, "cp -p $S/s3 $I/a")
        self.gives(1, 3, "cp -a $S/s3 $I/b")
        self.gives(1, 3, "cp --preserve=all $S/s3 $I/b")
        self.gives(1, 3, "cp --sparse=always $S/s3 $I/c")
        self.gives(1, 3, "cp --reflink=auto $S/s3 $I/c")
        self.gives(1, 3, "cp -f $S/s3 $I/c")
        self.gives(1, 3, "cp --remove-destination $S/s3 $I/c")
        self.gives(2, 4, "cp $S/s1 $S/s3 $I/")
        self.assertListed()

    def test_cp_of_a_read_only_file(self):
        self.gives(1, 3, "chmod 444 $S/s3; cp $S/s3 $I/e")
        self.gives(1, 3, "cp -p $S/s3 $I/f")
        self.gives(1, 3, "umask 333; cat $S/s3 > $I/g")

    def test_mv(self):
        self.gives(1, 3, "cp $S/s3 $S/x; mv $S/x $I/; test ! -e $S/x")
        self.refuses("mv $S/bad $I/")
        self.assertTrue(self.bad.exists())
        self.mnt.expect_log("incoming/bad:2:")

    def test_install(self):
        self.gives(1, 3, "install -m 644 $S/s3 $I/a")
        self.gives(1, 3, "install -m 600 -o 0 -g 0 $S/s3 $I/b")
        self.gives(1, 3, "install -p $S/s3 $I/c")
        self.assertListed()

    def test_rsync(self):
        for how in ("", "-a", "--inplace", "-a --inplace", "--partial", "--temp-dir=/tmp", "-aH", "-c"):
            self.gives(1, 3, f"rsync {how} $S/s3 $I/")
            self.gives(1, 3, f"rsync {how} $S/s3 $I/")
        self.gives(1, 1, "rsync -a --append $S/s1 $I/q")
        self.assertListed()

    def test_rsync_of_a_directory(self):
        self.gives(2, 4, "mkdir $S/d; cp $S/s1 $S/s3 $S/d; rsync -a $S/d/ $I/")
        self.gives(2, 4, "rsync -a --inplace $S/d/ $I/")
        with self.grows(2, 4):
            result = self.drop("mkdir $S/d/sub; cp $S/s1 $S/d/sub; rsync -a $S/d/ $I/")
            self.assertNotEqual(result.status, 0)
            self.assertNotIn("not implemented", result.error)

    def test_dd(self):
        self.gives(1, 3, "dd if=$S/s3 of=$I/a status=none")
        self.gives(1, 3, "dd if=$S/s3 of=$I/a conv=fsync status=none")
        self.gives(1, 3, "dd if=$S/s3 of=$I/a conv=fdatasync bs=7 status=none")
        self.gives(1, 3, "dd if=$S/s3 of=$I/a conv=notrunc bs=1 status=none")
        self.gives(1, 3, "dd if=$S/s3 of=$I/a oflag=append conv=notrunc bs=5 status=none")
        self.refuses("dd if=$S/s3 of=$I/od oflag=direct bs=512 conv=sync status=none")
        self.mnt.expect_log("incoming/od:")

    def test_tee(self):
        self.gives(1, 3, "tee $I/a < $S/s3 > /dev/null")
        self.gives(1, 3, "tee -a $I/a < $S/s3 > /dev/null")
        self.gives(2, 6, "tee $I/a $I/b < $S/s3 > /dev/null")
        self.gives(1, 3, "cat $S/s3 | tee $I/a | wc -l")

    def test_tar_and_split(self):
        self.gives(2, 4, "tar cf - -C $S s1 s3 | tar xf - -C $I")
        self.gives(3, 3, "split -l 1 $S/s3 $I/part-")
        self.assertListed()

    def test_sort_and_sponge(self):
        self.gives(1, 3, "sort -r -o $I/sorted $S/s3")
        self.require_tool("sponge")
        self.gives(1, 3, "sponge $I/soaked < $S/s3")

    def test_jq_perl_awk_sed(self):
        self.gives(1, 3, "jq -c . $S/s3 > $I/a")
        self.gives(1, 3, "perl -pe 's/1/7/' $S/s3 > $I/a")
        self.gives(1, 3, "awk '{print > ENVIRON[\"I\"] \"/b\"}' $S/s3")
        self.gives(1, 1, "sed -n 's/1/7/w '$I/c $S/s3")

    def test_a_large_file(self):
        self.file(b'{"i":123456789}\n' * 400000, "big")
        self.gives(1, 400000, "cp $S/big $I/")
        self.gives(1, 400000, "cat $S/big | dd of=$I/big bs=64k iflag=fullblock status=none")

    def test_moves_between_the_worlds(self):
        self.gives(1, 1, "cp $S/s1 $I/a")
        self.refuses("mv $M/v1/data.jsonl $I/")
        self.refuses("ln $M/v1/data.jsonl $I/l")
        self.refuses("cp $S/s1 $I/.t; mv $I/.t $M/latest/")
        self.gives(1, 1, "cp $M/v1/data.jsonl $I/again; rm $I/.t")


class Editors(DropCase):
    def test_vim(self):
        self.require_tool("vim")
        self.gives(1, 1, "vim -N -es -c 'normal i{\"i\":1}' -c wq $I/ed")
        self.gives(0, 0, "vim -N -es -c q $I/ed2")
        self.gives(1, 1, "vim -N -es -c 'set backup' -c 'normal i{\"i\":1}' -c wq $I/ed3")
        self.assertListed()

    def test_mending_in_place(self):
        self.mnt.expect_log("incoming/f:2:")
        for mend in (
            "sed -i 's/\"x\"/2/' $I/f",
            "perl -pi -e 's/\"x\"/2/' $I/f",
            "vim -N -es -c '%s/\"x\"/2/' -c wq $I/f",
            "printf '{\"i\":1}\\n{\"i\":2}\\n' > $I/f",
            "sort -o $I/f $S/s1 $S/s1",
            "cat $S/s1 $S/s1 > $I/f",
            "printf '{\"i\":222}' | dd of=$I/f bs=1 seek=8 conv=notrunc status=none",
        ):
            with self.subTest(mend=mend):
                self.refuses("cp $S/bad $I/f")
                self.assertListed("f", "f.error")
                self.gives(1, 2, mend)
                self.assertListed()

    def test_editing_that_does_not_mend(self):
        self.mnt.expect_log("incoming/")
        self.refuses("cp $S/bad $I/f")
        self.refuses("sed -i 's/\"x\"/\"y\"/' $I/f")
        self.assertIn("f", self.mnt.names("incoming"))
        self.assertIn("f.error", self.mnt.names("incoming"))


class PythonPrograms(DropCase):
    def test_open_and_write(self):
        self.python_gives(1, 1, "with open(I + '/a', 'wb') as f: f.write(d)")
        self.python_gives(1, 1, "open(I + '/a', 'wb').write(d)")
        self.python_gives(1, 1, "f = open(I + '/a', 'wb'); f.write(d)")
        self.python_gives(1, 1, "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d)")
        self.python_gives(1, 1, "f = open(I + '/a', 'ab', buffering=0); f.write(d)")
        self.python_gives(1, 1, "print('{\"i\":1}', file=open(I + '/a', 'w'))")
        self.python_gives(1, 1, "import pathlib; pathlib.Path(I, 'a').write_bytes(d)")
        self.python_gives(1, 1, "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d); os._exit(0)")

    def test_fsync_does_not_publish(self):
        script = (
            "f = open(I + '/a', 'wb'); f.write(d); f.flush(); os.fsync(f.fileno())\n"
            "f.write(d); f.flush(); os.fdatasync(f.fileno()); f.close()"
        )
        self.python_gives(1, 2, script)
        self.python_gives(0, 0, "os.fsync(os.open(I, os.O_RDONLY))")

    def test_shutil(self):
        for function in ("copy", "copy2", "copyfile", "copy2"):
            self.python_gives(1, 1, f"import shutil; shutil.{function}(sys.argv[1], I + '/w')", self.s1)
        self.python_gives(1, 1, "import shutil; shutil.copy2(sys.argv[1], I)", self.s1)
        self.assertListed()

    def test_tempfile_and_replace(self):
        script = (
            "import tempfile\n"
            "f = tempfile.NamedTemporaryFile(dir=I, prefix='.t', delete=False)\n"
            "f.write(d); f.close(); os.chmod(f.name, 0o644); os.replace(f.name, I + '/x')\n"
            "os.stat(I + '/x')"
        )
        self.python_gives(1, 1, script)
        self.python_gives(1, 1, script.replace("prefix='.t'", "prefix='t', suffix='.tmp'"))
        self.assertListed()

    def test_write_then_rename_of_an_ordinary_name(self):
        script = (
            "with open(I + '/a.new', 'wb') as f: f.write(d)\n"
            "assert os.stat(I + '/a.new').st_size == len(d)\n"
            "os.rename(I + '/a.new', I + '/a'); os.stat(I + '/a'); os.unlink(I + '/a')"
        )
        self.python_gives(1, 1, script)

    def test_close_reports(self):
        script = (
            "f = os.open(I + '/b', os.O_CREAT | os.O_WRONLY)\nos.write(f, b'{bad')\n"
            "try: os.close(f)\nexcept OSError as e: assert e.errno == 22, e\nelse: sys.exit('closed')"
        )
        self.python_gives(0, 0, script)
        self.mnt.expect_log("incoming/b:1:")

    def test_signals_during_close(self):
        script = (
            "signal.signal(signal.SIGALRM, lambda *_: None)\n"
            "signal.setitimer(signal.ITIMER_REAL, .0003, .0003)\n"
            "for i in range(100):\n"
            "    f = os.open(I + '/s%d' % i, os.O_CREAT | os.O_WRONLY); os.write(f, d); os.close(f)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0)"
        )
        self.python_gives(100, 100, script)

    def test_shared_mappings_are_refused(self):
        script = (
            "import mmap\nf = os.open(I + '/m', os.O_CREAT | os.O_RDWR); os.write(f, d)\n"
            "try: mmap.mmap(f, len(d))\nexcept OSError as e: assert e.errno == 19, e\n"
            "else: sys.exit('mapped')"
        )
        self.python_gives(1, 1, script)

    def test_reading_back_while_writing(self):
        script = (
            "f = os.open(I + '/m', os.O_CREAT | os.O_RDWR); os.write(f, d)\n"
            "assert os.pread(f, 100, 0) == d; assert os.fstat(f).st_size == len(d)\n"
            "assert open(I + '/m', 'rb').read() == d\n"
            "assert os.lseek(f, 0, os.SEEK_END) == len(d)\n"
            "assert os.lseek(f, 0, os.SEEK_HOLE) == len(d)\n"
            "os.ftruncate(f, 3); assert os.fstat(f).st_size == 3\n"
            "os.ftruncate(f, 0); os.pwrite(f, d, 0)\n"
            "assert os.listdir(I) == ['m']"
        )
        self.python_gives(1, 1, script)


class Refused(DropCase):
    def test_programs_that_tell(self):
        self.mnt.expect_log("incoming/")
        for command in (
            "cp $S/bad $I/r", "cp -p $S/bad $I/r", "dd if=$S/bad of=$I/r status=none",
            "tee $I/r < $S/bad > /dev/null", "install $S/bad $I/r", "cat $S/bad > $I/r",
            "rsync $S/bad $I/r", "rsync --inplace $S/bad $I/r", "tar cf - -C $S bad | tar xf - -C $I",
            "split -l 9 $S/bad $I/r", "sort -o $I/r $S/bad",
        ):  # fmt: skip
            with self.subTest(command=command):
                self.refuses(command)
                self.drop("rm -f $I/* $I/.[!.]*")
                self.assertListed()

    def test_programs_that_hide_it(self):
        self.mnt.expect_log("incoming/r:1:")
        with self.grows(0, 0):
            self.drop("echo '{bad' > $I/r")
        self.assertListed("r", "r.error")
        self.assertEqual(self.mnt.read("incoming/r"), b"{bad\n")
        note = self.mnt.read("incoming/r.error")
        self.assertTrue(note.startswith(b"r:1:") and note.count(b"\n") == 1, note)
        self.gives(0, 0, "rm $I/r")
        self.assertListed()

    def test_empty_files(self):
        for command in ("touch $I/n", ": > $I/n", "cp /dev/null $I/n", "truncate -s 0 $I/n",
                        "flock $I/n true", "rsync /dev/null $I/ 2> /dev/null; :"):  # fmt: skip
            self.gives(0, 0, command)
        self.assertListed("n")
        self.gives(1, 1, "cat $S/s1 > $I/n")
        self.gives(1, 1, "touch $I/x && cat $S/s1 >> $I/x")
        self.gives(1, 1, "f=$(mktemp $I/fXXXXXX) && cat $S/s1 > $f")
        self.gives(1, 1, "flock $I/l -c 'cat $S/s1 > $I/l'")
        self.assertListed()

    def test_blank_lines_only(self):
        self.gives(0, 0, "printf '\\n\\n' > $I/n")
        self.assertListed("n")
        self.gives(1, 1, "cat $S/s1 >> $I/n")

    def test_what_is_no_file(self):
        for command in ("mkdir $I/d", "ln -s x $I/l", "mkfifo $I/p", "mknod $I/b b 7 0", "rmdir $I/q"):
            result = self.refuses(command)
            self.assertNotIn("not implemented", result.error)
        for command in ("chmod 755 $I", "touch $I", "chown 0:0 $I"):
            self.gives(0, 0, command)

    def test_what_is_no_json(self):
        self.mnt.expect_log("incoming/")
        for command in ("gzip -c $S/s3 > $I/g", "zip -q $I/y.zip $S/s3", "truncate -s 100 $I/z",
                        "head -c 100000 /dev/urandom > $I/r", "head -c 9000 /dev/zero > $I/0"):  # fmt: skip
            with self.grows(0, 0):
                self.drop(command)
            self.drop("rm -f $I/*")

    def test_fallocate(self):
        result = self.refuses("fallocate -l 100 $I/fa")
        self.assertIn("not supported", result.error)
        self.refuses("fallocate -p -l 100 $I/fa")
        script = "f = os.open(I + '/fa', os.O_CREAT | os.O_WRONLY); os.posix_fallocate(f, 0, 100); os.write(f, d); os.close(f)"
        with self.grows(0, 0):
            self.assertNotEqual(self.python(script).status, 0)
        self.mnt.expect_log("incoming/fa:")
