#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Drops a row after the other into incoming/ until its standard input ends, but none while the
file HALT is there. Prints each id before it tries ("? 7") and when its close said yes ("7").

    dropper.py INCOMING FIRST HALT [PAUSE]
"""

import os
import select
import sys
import time


def main(incoming, first, halt, pause="0"):
    row = int(first)
    while not select.select([sys.stdin], [], [], 0)[0]:
        if os.path.exists(halt):
            time.sleep(0.001)
            continue
        row += 1
        print("?", row, flush=True)
        try:
            drop = os.open(f"{incoming}/{row}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            try:
                os.write(drop, b'{"id":%d}\n' % row)
            finally:
                os.close(drop)
            print(row, flush=True)
        except OSError:
            time.sleep(0.01)  # the mount is away: this row was not taken
        time.sleep(float(pause))


if __name__ == "__main__":
    main(*sys.argv[1:])
