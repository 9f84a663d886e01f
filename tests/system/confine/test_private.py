# SPDX-License-Identifier: MIT
"""Who may do what through a daemon of root's, what becomes of the attributes of a drop, and what a
name can do to a log."""

import errno
import json
import os
import pathlib
import re
import stat
import subprocess

import harness
import proc
from dropping import DropCase
from harness import TestCase

OWNER, GROUP, OTHER = 1234, 5678, 65534


def written_by_root(table):
    """(uid, gid, mode) of all that is in the table, by its path."""
    found = {}
    for path in pathlib.Path(table).rglob("*"):
        st = path.lstat()
        name = re.sub(r"[0-9a-f-]{32,}", "ID", str(path.relative_to(table)))
        found[name] = st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)
    return found


class Rights(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.require_root()
        self.root = self.table(rows=[{"id": 1}])
        self.row = self.file([{"id": 2}], "row")

    def owned(self, mode):
        self.ok(["chown", "-R", f"{OWNER}:{GROUP}", self.root])
        os.chmod(self.root, mode)
        return self.mount(self.root, options=["allow_other"])

    def test_a_private_table(self):
        with self.owned(0o700) as mnt:
            for command in (
                *(["ls", mnt], ["ls", mnt / "v1"], ["cat", mnt / "v1/data.jsonl"]),
                *(["cat", mnt / "history/v1.json"], ["ls", mnt / "incoming"]),
                *(["stat", mnt / "latest/data.jsonl"], ["cp", self.row, mnt / "incoming/x"]),
            ):
                said = self.fails(command, user=OTHER, status=None)
                self.assertIn("Permission denied", said.error)
                self.assertEqual(said.out, b"")
            self.assertEqual(self.ok(["cat", mnt / "v1/data.jsonl"], user=OWNER).out, b'{"id":1}\n')
            self.ok(["cp", self.row, mnt / "incoming/x"], user=OWNER)
        self.assertEqual(self.versions(self.root), [0, 1, 2])

    def test_a_drop_needs_the_right_to_write(self):
        for mode, others in ((0o755, False), (0o775, False), (0o750, False), (0o1777, True)):
            with self.subTest(mode=oct(mode)), self.owned(mode) as mnt:
                for user, may in ((OWNER, True), (OTHER, others)):
                    before = self.versions(self.root)
                    said = harness.run(["cp", self.row, mnt / "incoming/x"], user=user)
                    self.assertEqual(said.status == 0, may, str(said))
                    if not may:
                        self.assertIn("Permission denied", said.error)
                    self.assertEqual(len(self.versions(self.root)), len(before) + may)

    def test_what_root_writes_is_the_owners(self):
        self.ok(["rm", "-rf", self.root])
        self.tinydelta("create", self.root, "id:int")
        for mode in (0o700, 0o750, 0o755, 0o2775):
            with self.subTest(mode=oct(mode)), self.owned(mode) as mnt:
                (mnt / "incoming/x").write_bytes(b'{"id":3}\n')
                # One that is written anew, and so is another file.
                (mnt / "incoming/y").write_bytes(b' { "id" : 4 } \n')
                self.append(self.root, [{"id": 5}])
                self.tinydelta("overwrite", self.root, "--file", self.row)
                self.tinydelta("restore", self.root, "--version", "1")
                files = mode & 0o444  # nobody writes to what is published
                found = written_by_root(self.root)
                for name, (uid, gid, got) in found.items():
                    if name.startswith("_incoming/"):
                        # Where the owner's own daemon takes over what was left: nobody else has
                        # business there.
                        wanted = 0o600 if name.endswith("/.lock") else 0o700 | mode & 0o2000
                        self.assertEqual((uid, got), (OWNER, wanted), name)
                        continue
                    self.assertEqual((uid, gid), (OWNER, GROUP), name)
                    # Where the table's group goes on to what is made in it, so it does there.
                    above = 0o1000 | mode & 0o2000 if name == "_incoming" else 0
                    self.assertEqual(got & ~0o777, above, name)
                newest = max((self.root / "_delta_log").glob("*.json"))
                self.assertEqual(stat.S_IMODE(newest.stat().st_mode), files)
                part = max(self.root.glob("part-*"), key=os.path.getctime)
                self.assertEqual(stat.S_IMODE(part.stat().st_mode), files)
            self.ok(["rm", "-rf", self.root / "_incoming"])

    def tree(self):
        """All that is in the table, and when it was changed; who read it does not matter."""
        found = {}
        for path in self.root.rglob("*"):
            st = path.lstat()
            found[path] = st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns
        return found

    def test_read_only_touches_nothing(self):
        """With -o ro nothing in the table is opened for writing, made, or changed, by root either;
        also where the log is so long that a cache of it is worth keeping."""
        self.require_tool("strace")
        for version in range(2, 1500):
            info = {"timestamp": version, "operation": "APPEND", "readVersion": version - 1}
            commit = self.root / "_delta_log" / f"{version:020d}.json"
            commit.write_text(json.dumps({"commitInfo": info}) + "\n")
        before = self.tree()
        trace = self.path("trace")
        wrapper = ["strace", "-f", "-qq", "-y", "-s", "300", "-o", trace]
        wrapper += ["-e", "trace=%file,%desc"]
        own = {"HOME": str(self.scratch), "XDG_CACHE_HOME": ""}
        with self.mount(self.root, options=["ro"], wrapper=wrapper, env=own) as mnt:
            mnt.read("latest/data.jsonl")
            mnt.read("history/v1.json")
            self.assertEqual(mnt.names("incoming"), [])
            self.fails(["cp", self.row, mnt / "incoming/x"], status=1)
            self.fails(["touch", mnt / "v1/data.jsonl"], status=1)
        text = trace.read_text(errors="replace")
        self.assertIn(str(self.root), text)
        for line in text.splitlines():
            call = re.match(r"(?:\d+ +)?(\w+)\(", line)
            if call is None or str(self.root) not in line or "execve" in line:
                continue
            self.assertNotRegex(line, r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", line)
            self.assertNotRegex(
                call[1],
                r"^(mkdir|mknod|link|symlink|rename|unlink|rmdir|chmod|fchmod|chown|lchown|fchown"
                r"|utime|futim|truncate|ftruncate|setxattr|fsetxattr|flock|fallocate|pwrite|write)",
                line,
            )
        self.assertTrue(self.tree() == before, "something in the table has changed")

    def test_no_descriptor_outlives_an_exec(self):
        with self.owned(0o755) as mnt:
            (mnt / "incoming/.waits").write_bytes(b'{"id":9}\n')
            (mnt / "incoming/done").write_bytes(b'{"id":9}\n')
            handles = [open(mnt / name, "rb") for name in ("v1/data.jsonl", "incoming/.waits")]
            for handle in handles:
                handle.read()
            seen = [one for one in proc.descriptors(mnt.pid) if one[0] > 2]
            for _, flags, target in seen:
                self.assertTrue(flags & os.O_CLOEXEC, target)
            self.assertGreater(len(seen), 5)
            for handle in handles:
                handle.close()
            os.unlink(mnt / "incoming/.waits")


class Attributes(DropCase):
    """What a drop carries besides its bytes has no effect on what is stored, nor while it waits."""

    options = ("allow_other",)

    def setUp(self):
        self.require_root()
        super().setUp()

    def stored(self):
        """What lies on the disk: modes without their type, and names of extended attributes."""
        for path in self.root.rglob("*"):
            if path.is_file():
                yield path, stat.S_IMODE(path.stat().st_mode), os.listxattr(path)

    def plain(self):
        for path, mode, names in self.stored():
            self.assertEqual(mode & ~0o666, 0, path)
            self.assertEqual([n for n in names if n != "security.selinux"], [], path)
        for directory in self.root.rglob("*/"):
            mode = stat.S_IMODE(directory.stat().st_mode)
            self.assertEqual(mode & 0o6000, 0, directory)

    def test_set_id_bits(self):
        for mode in (0o4755, 0o2755, 0o6777, 0o1777, 0o7777):
            os.chown(self.s3, 0, 0)
            os.chmod(self.s3, mode)
            for command in (
                *(["cp", "-p"], ["cp", "-a"], ["rsync", "-a"], ["rsync", "-aX", "--inplace"]),
                *(["install", "-m", f"{mode:o}"], ["cp", "--preserve=all"]),
            ):
                with self.subTest(mode=oct(mode), command=command), self.grows(1, 3):
                    result = harness.run([*command, self.s3, self.inc / f"d{mode:o}"])
                    self.assertEqual(result.status, 0, str(result))
                self.plain()
            # And while it waits.
            waits = self.inc / f".waits{mode:o}"
            self.gives(0, 0, "cp", "-p", self.s3, waits)
            self.assertEqual(stat.S_IMODE(waits.stat().st_mode) & 0o6000, 0)
            self.plain()
            self.gives(0, 0, "chmod", f"{mode:o}", waits)
            self.assertEqual(stat.S_IMODE(waits.stat().st_mode) & 0o6000, 0)
            self.plain()
            self.gives(1, 3, "mv", waits, self.inc / "now")
            self.plain()

    def test_set_id_bits_from_the_beginning(self):
        for mode in (0o4755, 0o6777):
            script = f"""
import os, stat
os.umask(0)
f = os.open(I + '/made', os.O_CREAT | os.O_WRONLY, 0o{mode:o})
assert os.fstat(f).st_mode & 0o6000 == 0
os.write(f, d)
os.fchmod(f, 0o{mode:o})
assert os.fstat(f).st_mode & 0o6000 == 0
os.close(f)
os.mknod(I + '/node', 0o100000 | 0o{mode:o})
assert os.stat(I + '/node').st_mode & 0o6000 == 0
os.unlink(I + '/node')
"""
            self.python_gives(1, 1, script)
            self.plain()

    def test_extended_attributes(self):
        waits = self.inc / ".waits"
        waits.write_bytes(b'{"i":1}\n')
        capability = bytes.fromhex("0100000200040000000000000000000000000000")
        for name, value in (
            *(("user.a", b"1"), ("security.capability", capability), ("trusted.a", b"1")),
            ("system.posix_acl_access", bytes.fromhex("0200000001000700ffffffff04000500ffffffff20000500ffffffff")),
        ):
            # Nothing is kept of it, and no copy fails for it.
            with self.subTest(name=name):
                os.setxattr(waits, name, value)
        with self.assertRaises(OSError) as caught:
            os.listxattr(waits)
        self.assertEqual(caught.exception.errno, errno.EOPNOTSUPP)
        self.plain()
        self.gives(1, 1, "mv", waits, self.inc / "now")
        self.plain()
        if harness.run(["setfattr", "-n", "user.k", "-v", "1", self.s3]).status == 0:
            self.gives(1, 3, "cp", "--preserve=all", self.s3, self.inc / "with")
            self.plain()

    def test_nothing_that_runs(self):
        """A program that was dropped is nowhere one that can be run with its owner's rights."""
        os.chmod(self.root, 0o1777)
        self.assertEqual(harness.run(["cp", self.s3, self.inc / ".mine"], user=OTHER).status, 0)
        self.assertEqual(harness.run(["chmod", "4777", self.inc / ".mine"], user=OTHER).status, 0)
        self.assertEqual(stat.S_IMODE((self.inc / ".mine").stat().st_mode), 0o777)
        self.plain()
        # Those who are not the daemon do not even reach what is staged.
        found = harness.run(["find", self.root / "_incoming"], user=OTHER)
        self.assertNotIn(b".mine", found.out)
        os.unlink(self.inc / ".mine")


class Names(DropCase):
    """Names cannot forge lines of a log, of a note, or of a commit."""

    NAMES = (
        b"a\ntinydeltafs: orders: all is well",
        b"a\r\x1b[2K\x1b[1;31mred\x1b]0;title\x07",
        b"\xff\xfe\x80latin \xe9",
        b"\xc2\x85next\xe2\x80\xa8line\xe2\x80\xae turned",
        b"%s%n%100000d",
        b'", "operation": "OVERWRITE", "x": "',
        b"\\n \\x1b",
        b"x" * 200 + b"\n",
    )

    def test_refused_drops(self):
        for name in self.NAMES:
            path = os.fsencode(self.inc) + b"/" + name
            with self.subTest(name=name):
                self.refuses("cp", self.bad, path)
                with open(path + b".error", "rb") as note:
                    text = note.read()
                self.one_line(text)
                os.unlink(path)
        self.assertListed()
        self.mnt.allow_log("^tinydeltafs: ")
        # Whoever closes and does not look is told in the log.
        for name in self.NAMES:
            path = os.fsencode(self.inc) + b"/" + name
            child = subprocess.run(["sh", "-c", 'echo "{" > "$1"', "sh", path], check=False)
            self.assertEqual(child.returncode, 0)
            os.unlink(path)
        log = self.mnt.log_path.read_bytes()
        self.assertGreaterEqual(len(log.splitlines()), len(self.NAMES))
        for line in log.split(b"\n")[:-1]:
            self.assertTrue(line.startswith(b"tinydeltafs: " + os.fsencode(self.root)), line)
            self.one_line(line + b"\n")

    def one_line(self, text):
        self.assertTrue(text.endswith(b"\n"), text)
        shown = text[:-1].decode("utf-8")  # strictly
        self.assertNotRegex(shown, "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

    def test_committed_drops(self):
        for number, name in enumerate(self.NAMES, 1):
            with self.subTest(name=name):
                with open(os.fsencode(self.inc) + b"/" + name, "wb") as drop:
                    drop.write(b'{"i":1}\n')
                path = self.root / "_delta_log" / f"{number:020d}.json"
                lines = path.read_bytes().split(b"\n")
                self.assertEqual((len(lines), lines[-1]), (3, b""))
                actions = self.commit(self.root, number)
                self.assertEqual(actions[0]["commitInfo"]["operation"], "APPEND")
                self.assertIsInstance(actions[0]["commitInfo"]["source"], str)
                said = self.tinydelta("history", self.root).out
                self.assertEqual(len(said.splitlines()), number + 1)

    def test_left_by_a_dead_daemon(self):
        for count in (1, 2):
            for name in self.NAMES:
                for prefix in (b"/.", b"/~")[:count]:
                    with open(os.fsencode(self.inc) + prefix + name + b".tmp", "wb") as drop:
                        drop.write(b'{"i":1}\n')
                self.mnt.kill()
                self.start()
                self.mnt.allow_log("^tinydeltafs: ")
                left = [n for n in os.listdir(os.fsencode(self.inc)) if not n.endswith(b".error")]
                self.assertEqual(len(left), count)
                for file in left:
                    self.assertIn(name, file)
                    os.unlink(os.fsencode(self.inc) + b"/" + file)
                self.wait_for(self.mnt.log_path.read_bytes, "a line in the log")
                self.one_line(self.mnt.log_path.read_bytes())

    def test_names_of_data_files(self):
        """The log of a table names files too."""
        self.mnt.allow_log("^tinydeltafs: ")
        for number, name in enumerate(self.NAMES[:2] + self.NAMES[3:6], 1):
            info = {"timestamp": number, "operation": "X\n\x1b[31m", "readVersion": None}
            add = {"path": "d/" + name.decode(), "size": 1, "numRecords": 1}
            text = json.dumps({"commitInfo": info}) + "\n" + json.dumps({"add": add}) + "\n"
            (self.root / "_delta_log" / f"{number:020d}.json").write_text(text)
            self.fails(["cat", self.mnt / f"v{number}/data.jsonl"])
            said = self.tinydelta_fails("read", self.root, "--version", number)
            self.one_line(said.err)
        log = self.mnt.log_path.read_bytes()
        for line in log.split(b"\n")[:-1]:
            self.assertTrue(line.startswith(b"tinydeltafs: "), line)
            self.one_line(line + b"\n")
