# SPDX-License-Identifier: MIT
"""What many files in incoming/ cost: memory, descriptors, the time to list them."""

import os
import re
import signal
import unittest

from dropping import DropCase

SANITIZED = any(os.environ.get(name) for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))

OPEN_AND_REMOVE = """
for n in range(int(sys.argv[1])):
    os.mknod(f"{I}/f{n}")
    os.open(f"{I}/f{n}", os.O_RDONLY)
    os.unlink(f"{I}/f{n}")
os.kill(int(sys.argv[2]), signal.SIGSTOP)
"""


class Memory(DropCase):
    def resident(self):
        with open(f"/proc/{self.mnt.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])

    def forgotten(self, files):
        """Opens and removes files; the kernel lets go of all of them at once, as it does when it
        needs memory, since the daemon sleeps when their process ends."""
        try:
            result = self.python(OPEN_AND_REMOVE, files, self.mnt.pid)
        finally:
            os.kill(self.mnt.pid, signal.SIGCONT)
        self.assertEqual(result.status, 0, str(result))
        # Its answer comes behind what was waiting.
        os.stat(self.mnt / "v0")

    @unittest.skipIf(SANITIZED, "what was freed stays resident there")
    def test_what_the_kernel_forgets_is_freed(self):
        # So says libfuse, where the kernel still has something to forget at the end.
        self.mnt.allow_log(r"^fuse: reading device: Software caused connection abort$")
        for _ in range(4):
            self.forgotten(900)
        before = self.resident()
        for _ in range(10):
            self.forgotten(900)
        grown = self.resident() - before
        # The nodes of half of them would take 2 MB.
        self.assertLess(grown, 1000, "kB")
