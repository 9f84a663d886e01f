#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""One of many writers: appends rows, each in another of the ways there are, and prints the id of
each row that was acknowledged.

    worker.py TINYDELTA TABLE FIRST COUNT INCOMING...
"""

import os
import subprocess
import sys


def main(command, table, first, count, *incoming):
    for row in range(int(first), int(first) + int(count)):
        text = b'{"id":%d}\n' % row
        way = row % (1 + len(incoming))
        if way == 0:
            subprocess.run(
                [command, "append", table, "--file", "-"], input=text, stdout=subprocess.DEVNULL, check=True
            )
        else:
            drop = os.open(f"{incoming[way - 1]}/{row}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            os.write(drop, text)
            os.close(drop)
        print(row, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
