#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Eight droppers at once, whose writers are killed at random: nothing may be lost or doubled.

    TDL_BUILD=build tests/incoming/mixed.py [--seconds N] [--seed N]

By default it runs for half an hour. Each drop has rows of its own, and one of a dozen ways to come
into incoming/. Afterwards the whole table is counted: a drop whose program said so is there exactly
once and whole, every other either not at all or once and whole; and nothing else is there.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))

import harness

DROPPERS = 8
PYTHON = "/usr/bin/python3"

# $1: the rows, $2: the first of them, $3: the rest, $4: where to. None of these programs goes on
# when its writer is killed, and none catches a signal to end normally half-way.
WAYS = {
    "cp": 'exec cp "$1" "$4"',
    "cat": 'exec cat "$1" > "$4"',
    "append": 'exec cat "$1" >> "$4"',
    "group": '{ cat "$2"; sleep .0$((RANDOM % 5)); cat "$3"; } > "$4"',
    "builtins": 'exec 3> "$4"; while read -r l; do echo "$l" >&3; done < "$1"; exec 3>&-',
    "background": '{ (sleep .0$((RANDOM % 5)); cat "$3") & cat "$2"; wait; } > "$4"',
    "tee": 'tee "$4" < "$1" > /dev/null',
    "dd": 'exec dd if="$1" of="$4" bs=16 status=none',
    "rename": 'cat "$2" "$3" > "$4.tmp" && exec mv "$4.tmp" "$4"',
    "rsync": 'exec rsync "$1" "$4"',
    "install": 'exec install -m 644 "$1" "$4"',
    "python": "exec " + PYTHON + ' -c \'import sys\nwith open(sys.argv[2], "wb") as f:\n for l in open(sys.argv[1], "rb"): f.write(l); f.flush()\' "$1" "$4"',
}
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]


class Dropper(threading.Thread):
    """Drops one file after the other under names of its own, and notes how each ended."""

    def __init__(self, number, incoming, folder, until, seed):
        super().__init__()
        self.incoming, self.folder, self.until = incoming, folder, until
        self.random = random.Random(seed * 100 + number)
        self.number = number
        self.drops = {}  # serial: (way, rows, ended well, killed)
        self.wrong = []

    def run(self):
        serial = self.number
        while time.monotonic() < self.until:
            self.drop(serial)
            serial += DROPPERS

    def drop(self, serial):
        count = self.random.choice((2, 3, 10, 1000))
        way = self.random.choice(sorted(WAYS))
        rows = [b'{"drop":%d,"row":%d}\n' % (serial, row) for row in range(count)]
        whole, first, rest = (self.folder / f"{self.number}.{n}" for n in ("all", "first", "rest"))
        whole.write_bytes(b"".join(rows))
        first.write_bytes(rows[0])
        rest.write_bytes(b"".join(rows[1:]))
        name = f"d{self.number}.{self.random.randrange(3)}"
        kill = self.random.random() < 0.3
        program = subprocess.Popen(
            ["bash", "-c", WAYS[way], "bash", whole, first, rest, self.incoming / name],
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        killed = False
        if kill:
            time.sleep(self.random.random() * 0.06)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, self.random.choice(SIGNALS))
                killed = True
        error = program.communicate()[1].decode(errors="replace")
        self.drops[serial] = way, count, program.returncode == 0 and not killed, killed
        if not killed and program.returncode != 0:
            self.wrong.append(f"{way} ended with {program.returncode}: {error}")
        self.tidy(name, killed)

    def tidy(self, name, killed):
        """What a killed writer left is there, by its name, until it is removed."""
        for left in os.listdir(self.incoming):
            if left.lstrip(".").startswith(name):
                if not killed:
                    self.wrong.append(f"{left} is left, and nobody was killed")
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.incoming / left)


def count(table, droppers):
    """What is wrong with the table."""
    wrong = []
    found = collections.defaultdict(list)  # serial: for each commit, the rows in it
    folder = pathlib.Path(table, "_delta_log")
    for version, name in enumerate(sorted(n for n in os.listdir(folder) if n[0] != "." and n.endswith(".json"))):
        actions = [json.loads(line) for line in (folder / name).read_bytes().splitlines()]
        parts = [a["add"]["path"] for a in actions if "add" in a]
        if version == 0:
            continue
        rows = [json.loads(l) for p in parts for l in pathlib.Path(table, p).read_bytes().splitlines()]
        if len({row["drop"] for row in rows}) != 1:
            wrong.append(f"version {version} is not one drop")
        found[rows[0]["drop"]].append(sorted(row["row"] for row in rows))
    made = {serial: drop for dropper in droppers for serial, drop in dropper.drops.items()}
    for serial in found.keys() - made.keys():
        wrong.append(f"drop {serial} was never made")
    for serial, (way, rows, well, killed) in made.items():
        if len(found[serial]) > 1:
            wrong.append(f"drop {serial} ({way}) is there {len(found[serial])} times")
        if well and not found[serial]:
            wrong.append(f"drop {serial} ({way}) is lost")
        for some in found[serial]:
            if some != list(range(rows)):
                wrong.append(f"drop {serial} ({way}, killed: {killed}) is there with {len(some)} of {rows} rows")
    return wrong, made, found


def mixed(incoming, table, folder, seconds, seed):
    """Runs it; returns what is wrong, and a summary."""
    until = time.monotonic() + seconds
    droppers = [Dropper(n, pathlib.Path(incoming), pathlib.Path(folder), until, seed) for n in range(DROPPERS)]
    for dropper in droppers:
        dropper.start()
    for dropper in droppers:
        dropper.join()
    wrong, made, found = count(table, droppers)
    for dropper in droppers:
        wrong += dropper.wrong
    killed = sum(drop[3] for drop in made.values())
    there = sum(bool(f) for f in found.values())
    return wrong, f"{len(made)} drops, {killed} of them killed, {there} committed, seed {seed}"


class Run(harness.TestCase):
    def runTest(self):
        table = self.table("drop:int", "row:int")
        with self.mount(table) as mnt:
            mnt.allow_log("incoming/")
            wrong, said = mixed(mnt / "incoming", table, self.scratch, ARGUMENTS.seconds, ARGUMENTS.seed)
            print(said)
            self.assertEqual(wrong, [], said)
            self.assertEqual(mnt.names("incoming"), [])
        self.tinydelta("check", table)


def main():
    global ARGUMENTS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    ARGUMENTS = parser.parse_args()
    harness.TEST_TIMEOUT = ARGUMENTS.seconds + 600
    harness.enter_namespace()
    run = Run()
    result = run.run()
    for _, text in result.failures + result.errors:
        print(text)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
