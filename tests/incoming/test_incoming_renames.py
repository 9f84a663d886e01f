# SPDX-License-Identifier: MIT
"""Renames that commit: the folder is locked meanwhile, so what can be done before them is."""

import os
import threading
import time

import places
from dropping import ROW
from harness import TestCase

DELAY = 250  # ms, for one fsync


class Prepared(TestCase):
    needs_fuse = True

    def setUp(self):
        super().setUp()
        self.root = places.nolink(self, f"delay={DELAY}") / "table"
        self.tinydelta("create", self.root, "i:int")
        self.mnt = self.mount(self.root).start()
        self.inc = self.mnt / "incoming"

    def tearDown(self):
        self.mnt.unmount()
        super().tearDown()

    def timed(self, call, *args):
        began = time.monotonic()
        call(*args)
        return (time.monotonic() - began) * 1000

    def test_a_file_that_was_closed_is_only_committed(self):
        at_once = self.timed((self.inc / "a").write_bytes, ROW)
        self.assertGreater(at_once, 2 * DELAY)
        rows = 1
        # How long the work in the background takes is not to be seen.
        for pause in (1, 2, 4, 8, 16):
            (self.inc / ".b").write_bytes(ROW)
            time.sleep(pause * DELAY / 1000)
            took = self.timed(os.rename, self.inc / ".b", self.inc / "b")
            rows += 1
            self.assertEqual(self.mnt.read("latest/data.jsonl"), ROW * rows)
            print(f"# {at_once:.0f} ms, renamed after {pause * DELAY} ms: {took:.0f} ms")
            if took < at_once - 0.75 * DELAY:
                break
        else:
            self.fail("the rename waits for what could have been done before")

    def test_what_is_written_after_it_is_committed_too(self):
        for number in range(3):
            path = self.inc / f".{number}"
            path.write_bytes(ROW)
            time.sleep(2 * number * DELAY / 1000)
            with open(path, "r+b", buffering=0) as file:
                file.write(ROW.replace(b"1", b"2") + ROW)
            os.rename(path, self.inc / f"{number}")
            self.assertEqual(
                self.mnt.read("latest/data.jsonl"), (ROW.replace(b"1", b"2") + ROW) * (number + 1)
            )

    def test_a_reason_is_told_at_the_rename(self):
        self.mnt.expect_log("incoming/.b:1: ")
        (self.inc / ".b").write_bytes(b'{"i":"x"}\n')
        time.sleep(2 * DELAY / 1000)
        self.assertEqual(self.mnt.names("incoming"), [".b"])
        with self.assertRaises(OSError) as caught:
            os.rename(self.inc / ".b", self.inc / "b")
        self.assertEqual(caught.exception.errno, 22)
        self.assertEqual(self.mnt.names("incoming"), [".b", ".b.error"])

    def test_it_does_not_wait_for_the_commits_of_others(self):
        """More than are committed at a time, or than one user has threads for."""
        (self.inc / ".b").write_bytes(ROW)
        alone = self.timed(os.rename, self.inc / ".b", self.inc / "b")
        (self.inc / ".c").write_bytes(ROW)
        files = [open(self.inc / f"d{number}", "wb", buffering=0) for number in range(24)]
        for file in files:
            file.write(ROW)
        drops = [threading.Thread(target=file.close) for file in files]
        began = time.monotonic()
        for drop in drops:
            drop.start()
        took = self.timed(os.rename, self.inc / ".c", self.inc / "c")
        for drop in drops:
            drop.join()
        whole = (time.monotonic() - began) * 1000
        print(f"# alone {alone:.0f} ms, beside 24 closes of {whole:.0f} ms {took:.0f} ms")
        self.assertLess(took, whole / 2)
        self.assertEqual(self.mnt.read("latest/data.jsonl"), ROW * 26)
