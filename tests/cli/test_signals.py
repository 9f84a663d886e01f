# SPDX-License-Identifier: MIT
"""Signals that end a command which commits: it cleans up, and says what is committed."""

import os
import signal
import subprocess

import harness
from harness import TestCase

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# More than a pipe holds, so that the command must have read some of it.
ROWS = b"".join(b'{"id":%d}\n' % i for i in range(100000))


class Signals(TestCase):
    def begin(self, *words, ignored=(), **how):
        def settle():
            for number in (*SIGNALS, signal.SIGPIPE):
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        child = subprocess.Popen(
            [harness.program("tinydelta"), *map(str, words)],
            stdout=how.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            preexec_fn=settle,
            **how,
        )
        self.addCleanup(child.kill)
        return child

    def left(self, table):
        """Everything that stands in a table, by name."""
        return sorted(str(p.relative_to(table)) for p in table.rglob("*"))

    def waits_to(self, child, *calls):
        """Until the child sleeps in one of these system calls."""

        def there():
            with open(f"/proc/{child.pid}/syscall", encoding="ascii") as what:
                return what.read().split()[0] in calls

        self.wait_for(there, f"system call {calls}", seconds=60)

    def ended(self, child, number, table, before):
        out, err = child.communicate(timeout=harness.COMMAND_TIMEOUT)
        name = signal.Signals(number).name
        self.assertEqual((out, err), (b"", f"error: stopped by {name}: nothing was committed\n".encode()))
        self.assertEqual(child.returncode, -number)
        self.assertEqual(self.left(table), before)
        self.assertEqual(self.tinydelta("check", table).text, "")

    def test_while_rows_are_read(self):
        self.require_root()
        table = self.table(rows=[{"id": 1}])
        before = self.left(table)
        for command in ("append", "overwrite"):
            for number in SIGNALS:
                child = self.begin(command, table, "--file", "-", stdin=subprocess.PIPE)
                child.stdin.write(ROWS)
                child.stdin.flush()
                self.waits_to(child, "0")
                self.assertNotEqual(self.left(table), before, "it has begun to write")
                child.send_signal(number)
                self.ended(child, number, table, before)

    def test_while_a_fifo_is_read(self):
        self.require_root()
        table, fifo = self.table(rows=[{"id": 1}]), self.path("fifo")
        before = self.left(table)
        os.mkfifo(fifo)
        child = self.begin("append", table, "--file", fifo, stdin=subprocess.DEVNULL)
        with open(fifo, "wb", buffering=0) as writer:
            writer.write(ROWS[:100000])
            self.waits_to(child, "0")
            child.send_signal(signal.SIGINT)
            self.ended(child, signal.SIGINT, table, before)

    def test_while_a_fifo_has_no_writer(self):
        self.require_root()
        table, fifo = self.table(rows=[{"id": 1}]), self.path("fifo")
        before = self.left(table)
        os.mkfifo(fifo)
        for number in SIGNALS:
            child = self.begin("append", table, "--file", fifo, stdin=subprocess.DEVNULL)
            self.waits_to(child, "2", "257")
            child.send_signal(number)
            self.ended(child, number, table, before)

    def test_ignored_from_outside(self):
        """As by nohup, and by shells for what runs in the background."""
        self.require_root()
        table = self.table()
        child = self.begin("append", table, "--file", "-", stdin=subprocess.PIPE, ignored=SIGNALS)
        child.stdin.write(ROWS)
        child.stdin.flush()
        self.waits_to(child, "0")
        for number in SIGNALS:
            child.send_signal(number)
        out, err = child.communicate(timeout=harness.COMMAND_TIMEOUT)
        self.assertEqual((out, err, child.returncode), (b"appended as version 1\n", b"", 0))

    def test_nobody_reads_what_is_committed(self):
        table, rows = self.table(), self.file([{"id": 1}])
        new = self.path("new")
        for words, said in (
            (("append", table, "--file", rows), "appended as version 1"),
            (("overwrite", table, "--file", rows), "overwrote as version 2"),
            (("restore", table, "--version", "1"), "restored version 1 as version 3"),
            (("create", new, "id:int"), f"created {new} version 0"),
        ):
            reader, writer = os.pipe()
            os.close(reader)
            child = self.begin(*words, stdin=subprocess.DEVNULL, stdout=writer)
            os.close(writer)
            _, err = child.communicate(timeout=harness.COMMAND_TIMEOUT)
            says = f"error: standard output: Broken pipe; already {said}: do not retry\n"
            self.assertEqual((child.returncode, err.decode()), (1, says))
        self.assertEqual(self.versions(table), [0, 1, 2, 3])
