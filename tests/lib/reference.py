#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A second, small implementation of the table format, to hold the library against.

It is written from the format alone and shares nothing with core/. It behaves as the Python
package does where that matters: data files are not fsynced, a lost race is an error, vacuum
knows no locks.

    reference.py create TABLE NAME:TYPE...      reference.py append|overwrite TABLE FILE
    reference.py read TABLE N                   reference.py restore TABLE N
    reference.py vacuum TABLE
"""

import contextlib
import json
import os
import pathlib
import re
import sys
import time
import uuid

COMMIT = re.compile(r"[0-9]{20}\.json")
PART = re.compile(r"part-[0-9a-f]{32}\.jsonl")


class Conflict(Exception):
    """Another writer committed first."""


class Reference:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.log = self.path / "_delta_log"

    # -- reading --

    def versions(self):
        return sorted(int(n[:20]) for n in os.listdir(self.log) if COMMIT.fullmatch(n))

    def head(self):
        return self.versions()[-1]

    def actions(self, version):
        text = (self.log / f"{version:020d}.json").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n") if line.strip()]

    def files(self, version):
        """The live data files, in order, as {path: (size, numRecords)}."""
        live = {}
        for number in range(version + 1):
            for action in self.actions(number):
                if "add" in action:
                    add = action["add"]
                    live[add["path"]] = add["size"], add["numRecords"]
                elif "remove" in action:
                    live.pop(action["remove"]["path"], None)
        return live

    def schema(self, version):
        found = None
        for number in range(version + 1):
            for action in self.actions(number):
                if "metaData" in action:
                    found = [(c["name"], c["type"]) for c in action["metaData"]["schema"]]
        return found

    def read(self, version):
        """The bytes of a version, checked against what the log says of them."""
        whole = []
        for path, (size, records) in self.files(version).items():
            data = (self.path / path).read_bytes()
            if len(data) != size:
                raise ValueError(f"{path} has {len(data)} bytes, the log says {size}")
            if data and not data.endswith(b"\n"):
                data += b"\n"
            if sum(1 for line in data.split(b"\n") if line.strip()) != records:
                raise ValueError(f"{path} has not {records} rows")
            whole.append(data)
        return b"".join(whole)

    # -- writing --

    def create(self, columns):
        self.log.mkdir(parents=True)
        schema = [dict(zip(("name", "type"), c.split(":"))) for c in columns]
        self._commit(0, "CREATE", None, [{"metaData": {"id": str(uuid.uuid4()), "schema": schema}}])

    def append(self, rows):
        version = self.head()
        return self._commit(version + 1, "APPEND", version, [self._part(version, rows)])

    def overwrite(self, rows):
        version = self.head()
        removes = [{"remove": {"path": p}} for p in self.files(version)]
        return self._commit(
            version + 1, "OVERWRITE", version, [*removes, self._part(version, rows)]
        )

    def restore(self, target):
        version = self.head()
        now, then = self.files(version), self.files(target)
        actions = [{"remove": {"path": p}} for p in now if p not in then]
        actions += [
            {"add": {"path": p, "size": s, "numRecords": n}}
            for p, (s, n) in then.items()
            if p not in now
        ]
        return self._commit(version + 1, "RESTORE", version, actions)

    def vacuum(self, older_than=0):
        """Deletes every data file that no commit names now, unless it is younger than that (ms)."""
        named = set()
        for version in self.versions():
            named.update(a["add"]["path"] for a in self.actions(version) if "add" in a)
        gone = []
        for name in sorted(os.listdir(self.path)):
            if PART.fullmatch(name) and name not in named:
                with contextlib.suppress(FileNotFoundError):  # a loser took its own away
                    age = time.time() * 1000 - (self.path / name).stat().st_mtime * 1000
                    if age < older_than:
                        continue
                    (self.path / name).unlink()
                gone.append(name)
        return gone

    def _part(self, version, rows):
        name = f"part-{uuid.uuid4().hex}.jsonl"
        columns = [n for n, _ in self.schema(version)]
        lines = []
        for row in rows:
            stored = {c: row[c] for c in columns}
            lines.append(json.dumps(stored, separators=(",", ":"), ensure_ascii=False) + "\n")
        data = "".join(lines).encode()
        (self.path / name).write_bytes(data)
        return {"add": {"path": name, "size": len(data), "numRecords": len(lines)}}

    def _commit(self, version, operation, read_version, actions):
        info = {
            "timestamp": int(time.time() * 1000),
            "operation": operation,
            "readVersion": read_version,
        }
        lines = [{"commitInfo": info}, *actions]
        temporary = self.log / f".{version:020d}.{uuid.uuid4().hex}.tmp"
        with open(temporary, "x", encoding="ascii") as out:
            for line in lines:
                out.write(json.dumps(line, separators=(",", ":")) + "\n")
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(temporary, self.log / f"{version:020d}.json")
        except FileExistsError:
            for action in actions:
                if "add" in action and operation != "RESTORE":
                    (self.path / action["add"]["path"]).unlink()
            raise Conflict(version) from None
        finally:
            temporary.unlink()
        return version


def rows_of(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines.read().split("\n") if line.strip()]


def main(command, table, *arguments):
    table = Reference(table)
    try:
        if command == "create":
            table.create(arguments)
        elif command in ("append", "overwrite"):
            print(getattr(table, command)(rows_of(arguments[0])))
        elif command == "restore":
            print(table.restore(int(arguments[0])))
        elif command == "read":
            sys.stdout.buffer.write(table.read(int(arguments[0])))
        elif command == "vacuum":
            print("\n".join(table.vacuum()))
    except Conflict as version:
        print(f"conflict: {version}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
