# SPDX-License-Identifier: MIT
"""What the tests of incoming/ share: one mounted table a test, and counting what became of it."""

import contextlib
import os
import time

from harness import SOON, TestCase, run

ROW = b'{"i":1}\n'
THREE = b'{"i":1}\n{"i":2}\n{"i":3}\n'
BAD = b'{"i":1}\n{"i":"x"}\n'


class DropCase(TestCase):
    """self.mnt is a mount of a new table with the column i:int; s1, s3 and bad are files with one
    row, three rows, and a row that is refused. Commands get M and S (the scratch directory) in
    their environment."""

    needs_fuse = True
    arguments = ()
    options = ()

    def setUp(self):
        super().setUp()
        self.root = self.table("i:int", name="table")
        self.s1 = self.file(ROW, "s1")
        self.s3 = self.file(THREE, "s3")
        self.bad = self.file(BAD, "bad")
        self.start()

    def start(self, **how):
        how.setdefault("arguments", self.arguments)
        how.setdefault("options", self.options)
        self.mnt = self.mount(self.root, self.path("mnt"), **how).start()
        self.inc = self.mnt / "incoming"
        self.env = {"M": str(self.mnt), "I": str(self.inc), "S": str(self.scratch)}

    def tearDown(self):
        # Where the test failed the log is worth more than a second failure.
        failed = any(error for _, error in getattr(self._outcome, "errors", ()) or ())
        if self.mnt.daemon is not None and self.mnt.daemon.poll() is None and not failed:
            self.mnt.unmount()
        super().tearDown()

    def drop(self, *argv, **how):
        """Runs a command (bash, where it is one string) to its end; returns its Result."""
        if len(argv) == 1:
            argv = ["bash", "-c", argv[0]]
        return run(argv, env={**self.env, **how.pop("env", {})}, **how)

    def rows(self):
        return self.mnt.read("latest/data.jsonl").count(b"\n")

    @contextlib.contextmanager
    def grows(self, versions, rows):
        """What happens inside makes so many versions and so many rows."""
        before = len(self.versions(self.root)), self.rows()
        yield
        after = len(self.versions(self.root)), self.rows()
        self.assertEqual(
            (after[0] - before[0], after[1] - before[1]), (versions, rows), "versions, rows"
        )

    def gives(self, versions, rows, *argv, **how):
        """A command that must succeed, and what it makes of the table."""
        with self.grows(versions, rows):
            result = self.drop(*argv, **how)
            self.assertEqual(result.status, 0, str(result))
        return result

    def refuses(self, *argv, status=None, **how):
        """A command that must fail, and that changes nothing in the table."""
        with self.grows(0, 0):
            result = self.drop(*argv, **how)
            if status is None:
                self.assertNotEqual(result.status, 0, str(result))
            else:
                self.assertEqual(result.status, status, str(result))
        return result

    def assertListed(self, *names):
        self.assertEqual(self.mnt.names("incoming"), sorted(names))

    def python(self, script, *args, **how):
        """A Python program of its own; d is one row."""
        head = "import os, sys, time, signal, subprocess, threading\nI = os.environ['I']\nd = b'{\"i\":1}\\n'\n"
        return self.drop("/usr/bin/python3", "-c", head + script, *map(str, args), **how)

    def python_gives(self, versions, rows, script, *args, **how):
        with self.grows(versions, rows):
            result = self.python(script, *args, **how)
            self.assertEqual(result.status, 0, str(result))
        return result

    def commits_soon(self, versions, rows, seconds=SOON):
        """Waits for a state of the table: what an orphan does has no end that can be waited for."""
        deadline = time.monotonic() + seconds
        while (len(self.versions(self.root)) - 1, self.rows()) != (versions, rows):
            self.assertLess(time.monotonic(), deadline, f"not {versions} versions, {rows} rows")
            time.sleep(0.01)

    def staged(self):
        """Sizes of the files that are staged on disk, without what is kept about them."""
        return sorted(
            os.stat(os.path.join(top, name)).st_size
            for top, _, names in os.walk(self.root / "_incoming")
            for name in names
            if name[:1] != "." and not name.endswith(".about")
        )
