# SPDX-License-Identifier: MIT
"""Tables that several users share: whoever may write to one commits, and whoever may read it reads
what any of them committed; through the command, mounts of their own and one of root's. Through mounts
each mode of a table is tried with one umask, with TDL_TEAM=full with all."""

import contextlib
import os
import pathlib
import stat
import subprocess

import harness
from users import UserCase

ALICE, BOB, CAROL = 4001, 4002, 4003  # the owner; a member of her group; somebody else
STAFF, OTHERS = 5001, 5002
GROUPS = {ALICE: STAFF, BOB: STAFF, CAROL: OTHERS}
ROOT = 0
USERS = {ALICE: 0o700, BOB: 0o070, CAROL: 0o007}  # and which bits of a mode are theirs
MASKS = (0o022, 0o077, 0o002)
FULL = os.environ.get("TDL_TEAM") == "full"


class TeamCase(UserCase):
    def setUp(self):
        super().setUp()
        self.number = 0
        self.expected = b""
        self.rows = self.path("rows")
        self.rows.mkdir(mode=0o755)
        self.bind(self.file("user_allow_other\n"), "/etc/fuse.conf")
        # fusermount3 wants to know the name of who calls it.
        people = pathlib.Path("/etc/passwd").read_text(encoding="utf-8")
        people += "".join(f"team{u}:x:{u}:{u}::/:/bin/sh\n" for u in GROUPS)
        self.bind(self.file(people), "/etc/passwd")

    def bind(self, source, target):
        self.ok(["mount", "--bind", source, target])
        self.addCleanup(harness.run, ["umount", "-l", target])

    def become(self, user, mask=0o022):
        """What makes a command one of this user's."""
        shell = ["sh", "-c", f'umask {mask:03o}; exec "$@"', "sh"]
        if user == ROOT:
            return shell
        ids = [f"--reuid={user}", f"--regid={user}", f"--groups={GROUPS[user]}"]
        return [*shell, "setpriv", *ids]

    def made(self, mode, group=STAFF):
        """A table of Alice's that was given to the group, the way an administrator would."""
        place = self.path()
        place.mkdir()
        os.chown(place, ALICE, ALICE)
        table = place / "table"
        self.ok([*self.become(ALICE), self.programs["tinydelta"], "create", table, "id:int"])
        for path in (table, table / "_delta_log"):
            os.chown(path, ALICE, group)
            path.chmod(mode)
        first = table / "_delta_log" / f"{0:020d}.json"
        os.chown(first, ALICE, group)
        first.chmod(0o444 if mode & 4 else 0o440)
        self.expected = b""
        return table

    def row(self):
        self.number += 1
        row = self.rows / str(self.number)
        row.write_bytes(b'{"id":%d}\n' % self.number)
        row.chmod(0o644)
        return row

    def append(self, table, user, mask):
        row = self.row()
        self.ok([*self.become(user, mask), self.programs["tinydelta"], "append", table, "--file", row])
        self.expected += row.read_bytes()

    def read(self, table, user):
        return harness.run([*self.become(user), self.programs["tinydelta"], "read", table])

    def everybody_reads(self, table, mode):
        for user, bit in ((ROOT, 0o7777), (ALICE, 0o400), (BOB, 0o040), (CAROL, 0o004)):
            said = self.read(table, user)
            if mode & bit:
                self.assertEqual((said.status, said.out), (0, self.expected), f"{mode:o} {user} {said}")
            else:
                self.assertEqual((said.status, said.out), (1, b""), f"{mode:o} {user}")


class Command(TeamCase):
    MODES = (0o700, 0o750, 0o770, 0o2770, 0o775, 0o2775, 0o777)

    def test_who_may_write_commits_and_who_may_read_reads(self):
        for mode in self.MODES:
            for mask in MASKS:
                with self.subTest(mode=f"{mode:o}", mask=f"{mask:o}"):
                    self.all_of_them(mode, mask)

    def all_of_them(self, mode, mask):
        table = self.made(mode)
        writers = [ALICE, ROOT]
        if mode & 0o020:
            writers.insert(0, BOB)
        if mode & 0o002:
            writers.insert(0, CAROL)
        for _ in range(2):
            for user in writers:
                self.append(table, user, mask)
            self.everybody_reads(table, mode)
        for user in {BOB, CAROL} - set(writers):
            self.fails(
                [*self.become(user, mask), self.programs["tinydelta"], "append", table]
                + ["--file", self.row()]
            )
        # Who may only read cannot take the lock, and so stop nobody.
        for user in {BOB, CAROL} - set(writers):
            self.fails([*self.become(user), "flock", "-n", table / "_delta_log/_writers.lock", "true"], None)
        for user in writers:
            self.ok([*self.become(user, mask), self.programs["tinydelta"], "vacuum", table])
        self.everybody_reads(table, mode)
        # What is published is changed by nobody, by accident.
        for path in [*table.glob("part-*"), *table.glob("_delta_log/0*.json")]:
            self.assertEqual(path.stat().st_mode & 0o222 & ~0o200, 0, path)
            if path.name.startswith("part-"):
                self.assertEqual(path.stat().st_mode & 0o7777, mode & 0o444, path)
        self.ok([*self.become(ALICE), "rm", "-r", table / "_delta_log"])

    def test_overwrite_and_restore(self):
        table = self.made(0o2770)
        self.append(table, BOB, 0o077)
        row = self.row()
        program = self.programs["tinydelta"]
        self.ok([*self.become(ALICE, 0o077), program, "overwrite", table, "--file", row])
        self.ok([*self.become(BOB, 0o077), program, "restore", table, "--version", "1"])
        self.everybody_reads(table, 0o2770)

    def test_a_table_that_was_opened_later(self):
        """The staging folder and the lock that are there already become what they have to be."""
        table = self.made(0o700)
        self.append(table, ALICE, 0o022)
        staged = table / "_incoming"
        self.assertEqual(stat.S_IMODE(staged.stat().st_mode), 0o1700)
        for path in (table, table / "_delta_log"):
            path.chmod(0o2770)
        for path in table.rglob("*"):
            if path.is_file() and path.suffix != ".lock":
                os.chown(path, ALICE, STAFF)
                path.chmod(0o440)
        self.append(table, ALICE, 0o077)
        self.append(table, BOB, 0o077)
        self.everybody_reads(table, 0o2770)
        self.assertEqual(stat.S_IMODE(staged.stat().st_mode), 0o3770)
        self.assertEqual(stat.S_IMODE((table / "_delta_log/_writers.lock").stat().st_mode), 0o660)

    def test_created_in_a_folder_that_passes_its_group_on(self):
        for mask in (0o007, 0o002):
            place = self.path()
            place.mkdir()
            os.chown(place, ALICE, STAFF)
            place.chmod(0o2770)
            table = place / "table"
            program = self.programs["tinydelta"]
            self.ok([*self.become(ALICE, mask), program, "create", table, "id:int"])
            self.expected = b""
            for user in (BOB, ALICE, BOB):
                self.append(table, user, mask)
            for user in (ALICE, BOB):
                self.assertEqual(self.read(table, user).out, self.expected)
            for path in [table / "_delta_log", table / "_incoming"]:
                self.assertEqual(path.stat().st_mode & stat.S_ISGID, stat.S_ISGID, path)


class Mounts(TeamCase):
    MODES = (0o700, 0o750, 0o770, 0o2770, 0o775, 0o777)

    def mounted(self, table, user, mask=0o077, options=()):
        point = self.path()
        point.mkdir()
        os.chown(point, user, user)
        mount = self.mount(table, point, options=options, wrapper=self.become(user, mask))
        mount.program = self.programs["tinydeltafs"]
        return mount

    def drop(self, mount, user, name, mask=0o077):
        row = self.row()
        self.ok([*self.become(user, mask), "sh", "-c", 'cat "$1" > "$2"', "sh", row, mount / f"incoming/{name}"])
        self.expected += row.read_bytes()

    def shown(self, mount, user):
        return self.ok([*self.become(user), "cat", mount / "latest/data.jsonl"]).out

    def modes_and_masks(self, shift):
        """Every mode with one of the masks, so that all occur; with TDL_TEAM=full with each."""
        return [
            (mode, mask)
            for number, mode in enumerate(self.MODES)
            for mask in (MASKS if FULL else MASKS[(number + shift) % 3 :][:1])
        ]

    def no_drop(self, mount, user, mask):
        row = self.row()
        script = 'cat "$1" > "$2"'
        self.fails(
            [*self.become(user, mask), "sh", "-c", script, "sh", row, mount / f"incoming/no{user}"], None
        )

    def test_mounts_of_their_own(self):
        for mode, mask in self.modes_and_masks(0):
            with self.subTest(mode=f"{mode:o}", mask=f"{mask:03o}"):
                self.own_mounts(mode, mask)

    def own_mounts(self, mode, mask):
        """Of who may write and of who may only read; nobody else gets one."""
        table = self.made(mode)
        writers = [user for user in USERS if mode & USERS[user] & 0o222]
        readers = [user for user in USERS if mode & USERS[user] & 0o444]
        with contextlib.ExitStack() as stack:
            mounts = {}
            for user in readers:
                mount = self.mounted(table, user, mask)
                if user not in writers:
                    mount.expect_log("nothing can be dropped: cannot write to .*: Permission denied")
                mounts[user] = stack.enter_context(mount)
            for turn in range(2):
                for writer in writers:
                    self.drop(mounts[writer], writer, f"{turn}", mask)
                    for user in readers:
                        self.assertEqual(self.shown(mounts[user], user), self.expected, user)
            for user in set(readers) - set(writers):
                self.no_drop(mounts[user], user, mask)
            said = self.ok([*self.become(ALICE), self.programs["tinydelta"], "check", table])
            self.assertEqual(said.text, "", "a living mount of another is not a problem")
            for user, mount in mounts.items():
                self.unmount_as(user, mount)
                mount.finish()
        for user in set(USERS) - set(readers):
            point = self.path()
            point.mkdir()
            os.chown(point, user, user)
            self.fails([*self.become(user, mask), self.programs["tinydeltafs"], table, point], None)
        self.everybody_reads(table, mode)

    def test_one_mount_for_all(self):
        for mode, mask in self.modes_and_masks(1):
            with self.subTest(mode=f"{mode:o}", mask=f"{mask:03o}"):
                self.one_mount(mode, mask)

    def one_mount(self, mode, mask):
        table = self.made(mode)
        with self.mounted(table, ROOT, mask, options=["allow_other"]) as mnt:
            for user, bits in USERS.items():
                if mode & bits & 0o222:
                    self.drop(mnt, user, f"u{user}", mask)
                else:
                    self.no_drop(mnt, user, mask)
            self.drop(mnt, ROOT, "r", mask)
            for user, bits in {ROOT: 0o777, **USERS}.items():
                if mode & bits & 0o444:
                    self.assertEqual(self.shown(mnt, user), self.expected, user)
                else:
                    self.fails([*self.become(user), "cat", mnt / "latest/data.jsonl"])
        self.everybody_reads(table, mode)

    def half(self, mount, user, name="halfway"):
        """A drop whose daemon is killed before it is done."""
        child = subprocess.Popen(
            [*self.become(user), "sh", "-c", 'exec 3> "$1"; echo \'{"id":99}\' >&3; echo done; read x', "sh"]
            + [mount / f"incoming/{name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        child.stdout.readline()
        mount.kill()
        child.communicate(b"\n")

    def unmount_as(self, user, mount):
        """Its daemon may look at its own mount just now, for the first time: then it is busy."""
        argv = [*self.become(user), "fusermount3", "-u", mount]
        self.wait_for(lambda: harness.run(argv).status == 0, "an end of the mount")

    def test_what_roots_daemon_leaves_is_the_owners(self):
        table = self.made(0o770)
        mount = self.mounted(table, ROOT, options=["allow_other"]).start()
        self.half(mount, ALICE)
        said = self.fails([*self.become(ALICE), self.programs["tinydelta"], "check", table])
        self.assertRegex(said.text, r"halfway: an incomplete drop of a process that died\n\Z")
        # Bob's check cannot look into it, and says so.
        said = self.fails([*self.become(BOB), self.programs["tinydelta"], "check", table])
        self.assertRegex(said.text, r"\A_incoming/[0-9a-f-]{82}: .*user 4001")
        mine = self.mounted(table, ALICE)
        mine.allow_log("halfway")
        with mine:
            listed = self.ok([*self.become(ALICE), "ls", mine / "incoming"]).text
            self.assertIn("halfway\n", listed)
            self.unmount_as(ALICE, mine)
            mine.finish()
        roots = self.mounted(table, ROOT, options=["allow_other"])
        roots.allow_log("halfway")
        with roots:
            self.assertIn("halfway", roots.names("incoming"))
            self.assertEqual(roots.read("incoming/halfway"), b'{"id":99}\n')
        self.ok([*self.become(ALICE), "rm", "-r", table])

    def test_the_owner_removes_the_table(self):
        table = self.made(0o700)
        mount = self.mounted(table, ROOT, options=["allow_other"]).start()
        self.drop(mount, ALICE, "a")
        self.half(mount, ALICE)
        self.ok([*self.become(ALICE), "rm", "-rf", table])
        self.assertFalse(table.exists())

    def test_root_takes_nothing_over_that_is_not_what_it_seems(self):
        """The owner of a table could put a file of root's into the folder that is hers now, to have
        it published."""
        table = self.made(0o770)
        mount = self.mounted(table, ROOT, options=["allow_other"]).start()
        self.half(mount, ALICE)
        (folder,) = (table / "_incoming").iterdir()
        secret = folder / ("0" * 32 + "-secret")
        secret.write_bytes(b'{"id":666}\n')
        secret.chmod(0o600)
        roots = self.mounted(table, ROOT, options=["allow_other"])
        roots.allow_log("halfway")
        with roots:
            self.assertEqual(
                [n for n in roots.names("incoming") if not n.endswith(".error")], ["halfway"]
            )
        self.assertEqual((secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)), (0, 0o600))

    def test_a_closed_folder_is_named(self):
        table = self.made(0o770)
        mount = self.mounted(table, BOB).start()
        self.half(mount, BOB)
        said = self.fails([*self.become(ALICE), self.programs["tinydelta"], "check", table])
        self.assertRegex(said.text, r"\A_incoming/[0-9a-f-]{82}: of user 4002, who alone .*\n\Z")
        said = self.fails([self.programs["tinydelta"], "check", table])
        self.assertRegex(said.text, r"halfway: an incomplete drop of a process of user 4002 that died")
