#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs a program at a terminal of its own and types into it.

    at_terminal.py KEYS COMMAND...

KEYS are typed, a | in them waits until the program has written something and then nothing for a
moment. Ends with the program's status, and with 99 where the program does not end.
"""

import os
import pty
import select
import signal
import sys
import time

QUIET = 0.15  # seconds
LIMIT = 20


def read(terminal, seconds):
    """What the program writes, which is passed on; None where it has ended."""
    if not select.select([terminal], [], [], seconds)[0]:
        return b""
    try:
        text = os.read(terminal, 65536)
    except OSError:
        return None
    sys.stdout.buffer.write(text)
    return text or None


def wait_until_quiet(terminal, deadline):
    said = False
    while time.monotonic() < deadline:
        text = read(terminal, QUIET if said else deadline - time.monotonic())
        if text is None or (said and not text):
            return
        said = True


def main(keys, *command):
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execvp(command[0], command)
    deadline = time.monotonic() + LIMIT
    for part in keys.split("|"):
        try:
            os.write(terminal, part.encode())
        except OSError:
            break
        wait_until_quiet(terminal, deadline)
    while read(terminal, max(0, deadline - time.monotonic())):
        pass
    sys.stdout.flush()
    if time.monotonic() >= deadline:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return 99
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
