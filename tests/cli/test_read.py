# SPDX-License-Identifier: MIT
"""read, describe, history: the same bytes as the Python package prints, wherever they go."""

import fcntl
import os
import pathlib
import shutil
import socket
import subprocess
import threading

import harness
from harness import TestCase


class Golden(TestCase):
    def test_read(self):
        for name in self.golden_names():
            table = self.golden(name)
            for version in range(self.golden_versions(name)):
                wanted = self.expected(name, f"v{version}.jsonl")
                said = self.tinydelta("read", table, "--version", version)
                self.assertEqual((said.out, said.err), (wanted, b""), (name, version))
            self.assertEqual(self.tinydelta("read", table).out, wanted, name)

    def test_describe(self):
        for name in self.golden_names():
            table = self.golden(name)
            for version in range(self.golden_versions(name)):
                wanted = self.expected(name, f"describe-v{version}.txt")
                said = self.tinydelta("describe", table, "--version", version)
                self.assertEqual((said.out, said.err), (wanted, b""), (name, version))
            self.assertEqual(self.tinydelta("describe", table).out, wanted, name)

    def test_history(self):
        for name in self.golden_names():
            said = self.tinydelta("history", self.golden(name))
            self.assertEqual((said.out, said.err), (self.expected(name, "history.txt"), b""), name)

    def test_read_only_folder(self):
        table = self.golden("orders")
        harness.run(["chmod", "-R", "a-w", table])
        user = 65534 if os.geteuid() == 0 else None
        for words in (["read"], ["describe"], ["history"], ["vacuum", "--dry-run"]):
            self.tinydelta(words[0], table, *words[1:], user=user)


class Destinations(TestCase):
    """Each kind of standard output takes another way through the kernel."""

    def setUp(self):
        super().setUp()
        # Large and small files in turn.
        self.t = self.table("id:int", "text:str")
        for count in (3, 20000, 1, 50000, 2):
            self.append(self.t, [{"id": i, "text": "x" * (i % 90)} for i in range(count)])
        self.wanted = self.data(self.t, 5)
        self.argv = [harness.program("tinydelta"), "read", str(self.t)]

    def read_to(self, out, **how):
        ended = subprocess.run(
            self.argv, stdout=out, stderr=subprocess.PIPE, timeout=harness.SOON, check=False, **how
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, b""))

    def test_pipe(self):
        self.assertEqual(harness.run(self.argv).out, self.wanted)

    def test_file(self):
        path = self.path()
        with open(path, "wb") as out:
            self.read_to(out)
        self.assertEqual(path.read_bytes(), self.wanted)

    def test_file_from_its_middle(self):
        path = self.file(b"0123456789" * 10)
        with open(path, "r+b") as out:
            out.seek(5)
            self.read_to(out)
            self.assertEqual(os.lseek(out.fileno(), 0, os.SEEK_CUR), 5 + len(self.wanted))
        self.assertEqual(path.read_bytes(), b"01234" + self.wanted)

    def test_file_appended_to(self):
        path = self.file(b"before\n")
        with open(path, "ab") as out:
            self.read_to(out)
        self.assertEqual(path.read_bytes(), b"before\n" + self.wanted)

    def test_file_elsewhere(self):
        if not os.path.isdir("/dev/shm"):
            self.skipTest("no /dev/shm")
        path = pathlib.Path(f"/dev/shm/tdl-test-{self.scratch.name}")
        try:
            with open(path, "wb") as out:
                self.read_to(out)
            self.assertEqual(path.read_bytes(), self.wanted)
        finally:
            path.unlink()

    def collect(self, descriptor, kind):
        """Reads to the end what another end of `descriptor` is given; returns (thread, chunks)."""
        chunks = []

        def run():
            while chunk := (os.read(descriptor, 7777) if kind == "fd" else descriptor.recv(7777)):
                chunks.append(chunk)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, chunks

    def test_socket(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            thread, chunks = self.collect(ours, "socket")
            self.read_to(theirs)
            theirs.shutdown(socket.SHUT_RDWR)
            thread.join(harness.SOON)
        self.assertEqual(b"".join(chunks), self.wanted)

    def test_pipe_that_does_not_block(self):
        ours, theirs = os.pipe()
        flags = fcntl.fcntl(theirs, fcntl.F_GETFL)
        fcntl.fcntl(theirs, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        thread, chunks = self.collect(ours, "fd")
        self.read_to(theirs)
        os.close(theirs)
        thread.join(harness.SOON)
        os.close(ours)
        self.assertEqual(b"".join(chunks), self.wanted)

    def test_terminal(self):
        ours, theirs = os.openpty()
        chunks = []

        def run():
            try:
                while chunk := os.read(ours, 4096):
                    chunks.append(chunk)
            except OSError:  # its other end is closed
                pass

        thread = threading.Thread(target=run)
        thread.start()
        self.read_to(theirs)
        os.close(theirs)
        thread.join(harness.SOON)
        os.close(ours)
        self.assertEqual(b"".join(chunks).replace(b"\r\n", b"\n"), self.wanted)

    def test_no_room(self):
        self.require_root()
        small = self.path("small")
        small.mkdir()
        self.ok(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small])
        self.addCleanup(harness.run, ["umount", "-l", small])
        with open(small / "out", "wb") as out:
            ended = subprocess.run(
                self.argv, stdout=out, stderr=subprocess.PIPE, timeout=harness.SOON, check=False
            )
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr, b"error: standard output: No space left on device\n")

    def test_limit_for_files(self):
        result = harness.run(
            ["bash", "-c", 'ulimit -f 100; "$1" read "$2" > "$3"', "bash"]
            + [harness.program("tinydelta"), self.t, self.path()]
        )
        self.assertEqual(result.status, 1, str(result))
        self.assertEqual(result.error, "error: standard output: File too large\n")


class Newlines(TestCase):
    def test_files_without_their_last_newline(self):
        table = self.table("text:str")
        for text in ("a", "b" * 200000, "c", "d"):
            self.append(table, [{"text": text}])
        # What other writers may leave: shorter by the newline, and the log says so.
        for version in (1, 2, 3, 4):
            path = pathlib.Path(table, "_delta_log", f"{version:020d}.json")
            add = self.commit(table, version)[1]["add"]
            part = pathlib.Path(table, add["path"])
            body = part.read_bytes()
            if version != 3:
                body = body[:-1]
            part.write_bytes(body)
            path.write_text(
                '{"commitInfo":{"timestamp":%d,"operation":"APPEND","readVersion":%d}}\n'
                '{"add":{"path":"%s","size":%d,"numRecords":1}}\n'
                % (version, version - 1, add["path"], len(body))
            )
        shutil.rmtree(table / "_incoming", ignore_errors=True)
        (table / "_delta_log" / "_history.idx").unlink(missing_ok=True)
        wanted = b"".join(
            b'{"text":"%s"}\n' % text for text in (b"a", b"b" * 200000, b"c", b"d")
        )
        self.assertEqual(self.tinydelta("read", table).out, wanted)
        with open(self.path("out"), "wb") as out:
            subprocess.run([harness.program("tinydelta"), "read", table], stdout=out, check=True)
        self.assertEqual(self.path("out").read_bytes(), wanted)


class Refusals(TestCase):
    def test_no_such_version(self):
        table = self.golden("orders")
        for command in ("read", "describe"):
            for version in ("5", "6", "9223372036854775807"):
                result = self.tinydelta_fails(command, table, "--version", version)
                self.assertIn(version, result.error)
                self.assertEqual(result.out, b"")

    def test_no_table(self):
        file = self.file(b"")
        folder = self.path()
        folder.mkdir()
        for command in ("read", "describe", "history", "vacuum"):
            for place in (self.path("nonexistent"), file, folder, ""):
                result = self.tinydelta_fails(command, place)
                self.assertEqual(result.out, b"")

    def test_damaged_file_is_found_before_the_first_row(self):
        table = self.table(rows=[{"id": 1}])
        self.append(table, [{"id": 2}])
        part = pathlib.Path(table, self.commit(table, 2)[1]["add"]["path"])
        whole = part.read_bytes()
        for body in (whole[:-1], whole + b"\n", b""):
            part.write_bytes(body)
            result = self.tinydelta_fails("read", table)
            self.assertEqual(result.out, b"")
            self.assertIn(part.name, result.error)
            self.assertEqual(self.tinydelta("read", table, "--version", 1).out, b'{"id":1}\n')
        part.unlink()
        self.assertIn(part.name, self.tinydelta_fails("read", table).error)
        part.symlink_to("/etc/passwd")
        self.assertEqual(self.tinydelta_fails("read", table).out, b"")

    def test_a_file_without_the_right_to_read_it(self):
        self.require_root()
        table = self.table(rows=[{"id": 1}])
        self.append(table, [{"id": 2}])
        part = pathlib.Path(table, self.commit(table, 2)[1]["add"]["path"])
        part.chmod(0)
        result = self.tinydelta_fails("read", table, user=65534)
        self.assertEqual(result.out, b"")
        self.assertIn(f"{part.name}: Permission denied", result.error)
        said = self.tinydelta("read", table, "--version", 1, user=65534)
        self.assertEqual(said.out, b'{"id":1}\n')

    def test_times_in_any_order(self):
        """History says what is stored, also where clocks went wrong; what we add is later still."""
        table = self.table()
        times = [4102444800000, 5, 5, -1, 10**18, 0]
        for version, time in enumerate(times, 1):
            path = pathlib.Path(table, "_delta_log", f"{version:020d}.json")
            path.write_text(
                '{"commitInfo":{"timestamp":%d,"operation":"APPEND","readVersion":%d}}\n'
                % (time, version - 1)
            )
        said = self.tinydelta("history", table).text.splitlines()[1:]
        self.assertEqual([int(line.rsplit("ts=", 1)[1]) for line in said], times)
        self.tinydelta("history", table, "--long")
        self.append(table, [{"id": 1}])
        info = self.commit(table, len(times) + 1)[0]["commitInfo"]
        self.assertGreater(info["timestamp"], 1700000000000)
        with self.mount(table) as mnt:
            stamps = [os.stat(mnt / f"v{v}/data.jsonl").st_mtime for v in range(1, 7)]
            # Later with each version, whatever the clocks said; none past the year 9999.
            late = [4102444800 + ms / 1000 for ms in range(4)]
            self.assertEqual(stamps, [*late, 253402300799, 253402300799])

    def test_damaged_log(self):
        table = self.table(rows=[{"id": 1}])
        self.append(table, [{"id": 2}])
        history = self.tinydelta("history", table).text.splitlines(keepends=True)
        for path in table.glob("_delta_log/_history.idx"):
            path.unlink()
        pathlib.Path(table, "_delta_log", f"{2:020d}.json").write_bytes(b'{"commitInfo":{"ti')
        for command in ("read", "describe"):
            self.assertEqual(self.tinydelta_fails(command, table).out, b"")
            self.tinydelta_fails(command, table, "--version", 2)
            self.tinydelta(command, table, "--version", 1)
        # What can be read is shown; that it is not everything is an error.
        result = self.tinydelta_fails("history", table)
        self.assertEqual(result.text, "".join(history[:2]))
        self.tinydelta_fails("append", table, "--file", self.file([{"id": 3}]))
        self.tinydelta_fails("vacuum", table)
        self.assertEqual(self.versions(table), [0, 1, 2])
