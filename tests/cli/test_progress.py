# SPDX-License-Identifier: MIT
"""The progress line: on a terminal, after a second, and gone at the end."""

import os
import pty
import threading
import time

import harness
from harness import TestCase

ROW = b'{"id":1}\n'


class Progress(TestCase):
    def feed(self, fifo, seconds):
        """Writes rows for so long into a FIFO."""
        with open(fifo, "wb", buffering=0) as out:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                out.write(ROW * 5000)
                threading.Event().wait(0.02)

    def append_on_a_terminal(self, seconds):
        """Returns (the table, what the terminal was sent)."""
        table = self.table()
        fifo = self.path("fifo" + str(seconds))
        os.mkfifo(fifo)
        program = harness.program("tinydelta")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(program, [program, "append", str(table), "--file", str(fifo)])
        writer = threading.Thread(target=self.feed, args=(fifo, seconds))
        writer.start()
        sent = b""
        try:
            while chunk := os.read(terminal, 4096):
                sent += chunk
        except OSError:  # its other end is closed
            pass
        writer.join()
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, sent)
        return table, sent

    def test_long_work(self):
        table, sent = self.append_on_a_terminal(2)
        lines = sent.split(b"\r")
        shown = [line for line in lines if b"/s" in line]
        self.assertGreater(len(shown), 1, sent)
        for line in shown:
            self.assertRegex(line, rb"\Aappending [0-9.]+ [KMG]?i?B, [0-9.]+ [KMG]?i?B/s *\Z")
        # Written over with blanks before the result is printed.
        self.assertRegex(sent, rb"\r +\rappended as version 1: \+[0-9]+ rows, \+[0-9.]+ [KM]iB; it has [^\r]+\r\n\Z")
        self.assertNotIn(b"\x1b", sent)
        self.assertEqual(self.tinydelta("read", table).out.replace(ROW, b""), b"")

    def test_short_work(self):
        _, sent = self.append_on_a_terminal(0.1)
        self.assertRegex(sent, rb"\Aappended as version 1: \+[0-9]+ rows, [^\r]+\r\n\Z")

    def test_no_terminal(self):
        table = self.table()
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        writer = threading.Thread(target=self.feed, args=(fifo, 1.3))
        writer.start()
        said = self.tinydelta("append", table, "--file", fifo)
        writer.join()
        self.assertEqual((said.out, said.err), (b"appended as version 1\n", b""))
