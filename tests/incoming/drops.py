# SPDX-License-Identifier: MIT
"""What the tests of incoming/ with real programs share: one mount for a class, and the table in
which a program is a row.

A row is run twice, where it has a `bad` status: once with a file that is good, which must be
committed with exactly its rows, and once with one whose last row is refused, which must commit
nothing and be reported. Scripts are run by bash in a scratch directory, with

    $I $N   incoming/, and the name to drop
    $F      the file with the rows; $ID is the value in its first (or, if bad, its last) row
    $W      a file with the one row {"id":"wrong"}, for what repairs files in place
    $M $S   the mount, the scratch directory
    $HERE   this directory
"""

import dataclasses
import itertools
import os
import pathlib
import shlex
import signal

import harness
from harness import TestCase

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
WRONG = '"wrong"'
REFUSED = r'"id" expected int, got string'

_ids = itertools.count(1)


def python(code):
    """A command: this Python program, with F, D (the path to drop), I and N defined."""
    head = "import os, sys\nF, I, N = (os.environ[k] for k in 'FIN')\nD = I + '/' + N\n"
    return f"{PYTHON} -c {shlex.quote(head + code)}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One program. `bad` is its exit status when the drop is refused, 0 where it cannot tell,
    None where it carries no rows or is not asked."""

    name: str
    script: str
    n: int = 1  # rows in $F
    versions: int = 1
    rows: int = None  # committed; by default n for each version that holds all of $F
    status: int = 0
    left: tuple = ()  # names in incoming/ afterwards; "N" stands for $N
    says: str = REFUSED  # in every .error that is left
    bad: int = None
    bad_left: tuple = ("N", "N.error")  # None: under a name of the program's own
    needs: tuple = ()
    root: bool = False


class Drops(TestCase):
    """Tests that share one mount: self.mnt, over self.table. The state of incoming/ is cleared
    after each of them, and the daemon's log must hold nothing but refusals."""

    needs_fuse = True
    options = ()
    arguments = ()
    needs = ()  # programs, for all rows
    log_may_say = ()  # patterns, besides refused and incomplete drops

    _case = None  # whose scratch directory the table is in
    _mount = None

    @classmethod
    def setUpClass(cls):
        cls._case = cls._mount = None

    def setUp(self):
        super().setUp()
        cls = type(self)
        if not cls._serves():
            cls._close()
            cls._case = TestCase()
            cls._case.setUp()
            self.prepare(cls._case)
        self.mnt = cls._mount
        self.table_path = cls._mount.table
        self.incoming = self.mnt / "incoming"
        self._logged = len(self.mnt.log())
        self.addCleanup(self._clear)
        self.mark()

    def prepare(self, case):
        """Makes the table and mounts it."""
        table = case.table()
        os.chmod(table, 0o777)
        type(self)._mount = case.mount(table, options=self.options, arguments=self.arguments)
        self._mount.start()

    def _end_mounts(self):
        for mount in list(harness._mounts):
            if mount is not self._mount:
                mount.kill()

    @classmethod
    def _serves(cls):
        """False before the first test, and after one that had to be cut off."""
        try:
            return cls._mount is not None and bool(os.stat(cls._mount))
        except OSError:
            return False

    def _clear(self):
        if not self._serves():
            return
        for name in os.listdir(self.incoming):
            try:
                os.unlink(self.incoming / name)
            except FileNotFoundError:
                pass
        lines = self.mnt.log()[self._logged :].splitlines()
        wanted = ("incoming/", *self.log_may_say)
        for line in lines:
            if not any(w in line for w in wanted):
                raise AssertionError(f"the daemon's log has a surprise: {line}")

    @classmethod
    def _close(cls):
        if cls._case is None:
            return
        try:
            if cls._serves():
                cls._mount.allowed = ["."]  # each test has looked already
                cls._mount.unmount()
        finally:
            cls._case.doCleanups()
            cls._case = cls._mount = None

    @classmethod
    def tearDownClass(cls):
        cls._close()

    # -- what was committed --

    def mark(self):
        """What follows counts from here."""
        self.head = self.versions(self.table_path)[-1]

    def committed(self):
        """The commits since mark(): a list of (source, bytes of the data file)."""
        found = []
        for version in range(self.head + 1, self.versions(self.table_path)[-1] + 1):
            actions = self.commit(self.table_path, version)
            adds = [a["add"] for a in actions if "add" in a]
            self.assertEqual(len(adds), 1, actions)
            data = (self.table_path / adds[0]["path"]).read_bytes()
            self.assertEqual((len(data), data.count(b"\n")), (adds[0]["size"], adds[0]["numRecords"]))
            found.append((actions[0]["commitInfo"].get("source"), data))
        return found

    def assertCommitted(self, *contents):
        """Exactly these files were committed since mark(), in any order; and latest/ shows them."""
        found = self.committed()
        self.assertEqual(sorted(data for _, data in found), sorted(contents), self.state())
        whole = self.mnt.read("latest/data.jsonl")
        self.assertTrue(whole.endswith(b"".join(data for _, data in found)))

    def assertLeft(self, *names):
        self.assertEqual(sorted(os.listdir(self.incoming)), sorted(names), self.state())

    def reason(self, name):
        """What NAME.error says, without its newline."""
        text = (self.incoming / (name + ".error")).read_text()
        self.assertRegex(text, r"\A[^\n]+\n\Z")
        return text[:-1]

    def state(self):
        names = sorted(os.listdir(self.incoming))
        notes = [(self.incoming / n).read_text() for n in names if n.endswith(".error")]
        return f"incoming/ has {names}, notes {notes}; committed {self.committed()}; {self.mnt.log()[self._logged:]}"

    def row(self):
        """A row never seen before, as bytes."""
        return b'{"id":%d}\n' % next(_ids)

    def kill_later(self, child):
        """A Popen that must not outlive the test."""

        def end():
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
            child.wait()

        self.addCleanup(end)
        return child

    # -- rows of the table --

    def run_row(self, row, good):
        for tool in (*self.needs, *row.needs):
            self.require_tool(tool)
        if row.root:
            self.require_root()
        ids = [next(_ids) for _ in range(row.n)]
        values = [*map(str, ids[:-1]), str(ids[-1]) if good else '"no"']
        lines = ['{"id":%s}\n' % value for value in values]
        source = self.file("".join(lines), "rows.jsonl")
        environment = {
            "I": str(self.incoming),
            "N": row.name,
            "F": str(source),
            "ID": values[0] if good else values[-1],
            "W": str(self.file('{"id":%s}\n' % WRONG, "wrong.jsonl")),
            "M": str(self.mnt),
            "S": str(self.scratch),
            "HERE": str(HERE),
            "HOME": str(self.scratch),
            **self.row_environment(),
        }
        result = harness.run(["bash", "-c", row.script], cwd=self.scratch, env=environment)
        self.assertEqual(result.status, row.status if good else row.bad, f"{result}\n{self.state()}")
        left = row.left if good else row.bad_left
        if left is not None:
            self.assertLeft(*(name.replace("N", row.name) for name in left))
        for name in os.listdir(self.incoming):
            if name.endswith(".error"):
                self.assertRegex(self.reason(name.removesuffix(".error")), row.says)
        found = self.committed()
        if not good:
            # Of several files in one command, those before the bad one may be in.
            self.assertNotIn(b"no", b"".join(data for _, data in found))
            if row.versions == 1:
                self.assertEqual(found, [], self.state())
            return
        self.assertEqual(len(found), row.versions, self.state())
        got = sorted(line for _, data in found for line in data.decode().splitlines(True))
        count = row.n if row.rows is None else row.rows
        wanted = sorted(itertools.islice(itertools.cycle(lines), count if row.versions else 0))
        self.assertEqual(got, wanted, self.state())

    def row_environment(self):
        return {}


def add_rows(cls, rows):
    """One or two tests for each row."""

    def test_of(row, good):
        return lambda self: self.run_row(row, good)

    names = [row.name for row in rows]
    assert len(set(names)) == len(names), "two rows of one name"
    for row in rows:
        setattr(cls, f"test_{row.name}", test_of(row, True))
        if row.bad is not None:
            setattr(cls, f"test_{row.name}__bad", test_of(row, False))
