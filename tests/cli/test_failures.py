# SPDX-License-Identifier: MIT
"""System calls that fail, one after the other: a command commits or it does not, and says which."""

import os
import re

import harness
from harness import TestCase


class Failures(TestCase):
    def setUp(self):
        super().setUp()
        self.strace = self.require_tool("strace")

    def inject(self, calls, error, nth, *words):
        """Runs a command whose nth call of these fails."""
        return harness.run(
            [self.strace, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}"]
            + ["-e", f"inject={calls}:error={error}:when={nth}"]
            + [harness.program("tinydelta"), *map(str, words)],
            # The leak sanitizer cannot work under a tracer.
            env={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"},
        )

    def each_call(self, calls, error, make, words, most=60):
        """Lets each call fail in turn until none is left; returns how many failed."""
        published = 0
        for nth in range(1, most):
            table = make()
            before = self.versions(table)
            result = self.inject(calls, error, nth, *words(table))
            after = self.versions(table)
            if b"Sanitizer has encountered a fatal error" in result.err:
                # The call was its own: it could not read its options, and looks for leaks where
                # it cannot, in a process that is traced.
                continue
            with self.subTest(calls=calls, error=error, nth=nth):
                self.assertEqual(after[: len(before)], before)
                if result.status == 0:
                    # A failure that does no harm, or no such call any more.
                    self.assertEqual(len(after), len(before) + 1, str(result))
                    self.assertEqual(result.err, b"")
                else:
                    self.assertEqual(result.status, 1, str(result))
                    self.assertRegex(result.error, r"\Aerror: [^\n]+\n\Z")
                    said = re.search(
                        r"committed as version ([0-9]+), [^:]+: do not "
                        rf"{words(table)[0]} again|standard output: .*; "
                        r"already \w+ as version ([0-9]+): do not retry",
                        result.error,
                    )
                    self.assertEqual(said is not None, len(after) > len(before), str(result))
                    if said:
                        published += 1
                        self.assertEqual(int(said[1] or said[2]), after[-1])
                # Whatever happened, it reads well and goes on.
                wanted = self.data(table, after[-1])
                self.assertEqual(self.tinydelta("read", table).out, wanted)
                if len(after) == len(before):
                    self.tinydelta(*words(table))
                self.tinydelta("vacuum", table)
                left = {p.name for p in table.glob("part-*")}
                named = {
                    action["add"]["path"]
                    for version in self.versions(table)
                    for action in self.commit(table, version)
                    if "add" in action
                }
                self.assertEqual(left, named)
            if result.status == 0 and nth > 12:
                break
        return published

    def make(self):
        return self.table(rows=[{"id": 1}])

    def words(self, command):
        rows = self.file([{"id": 2}, {"id": 3}])
        return lambda table: (command, table, "--file", rows)

    def test_append_fsync(self):
        self.assertGreater(self.each_call("fsync", "EIO", self.make, self.words("append")), 0)

    def test_overwrite_fsync(self):
        self.assertGreater(self.each_call("fsync", "EIO", self.make, self.words("overwrite")), 0)

    def test_restore_fsync(self):
        words = lambda table: ("restore", table, "--version", "0")
        self.assertGreater(self.each_call("fsync", "EIO", self.make, words), 0)

    def test_append_link(self):
        for error in ("EIO", "EPERM", "ENOSPC"):
            self.each_call("linkat", error, self.make, self.words("append"))

    def test_append_without_links_or_rename(self):
        table = self.make()
        result = self.inject("linkat,renameat2", "EOPNOTSUPP", "1+", *self.words("append")(table))
        self.assertEqual(result.status, 1, str(result))
        self.assertEqual(self.versions(table), [0, 1])

    def test_append_open_and_write(self):
        for calls, error in (("write,pwrite64", "ENOSPC"), ("openat,openat2", "EMFILE")):
            self.each_call(calls, error, self.make, self.words("append"))

    def test_unlink(self):
        self.each_call("unlinkat", "EIO", self.make, self.words("append"))
