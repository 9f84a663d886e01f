# SPDX-License-Identifier: MIT
"""Names of committed files under load: their writers find them for a moment, others never do, and a name
can be dropped again at once, any number of times."""

import os
import subprocess
import threading

import harness
from drops import PYTHON, Drops

WRITERS, ROUNDS = 4, 100
SHARES = 15  # of one name, each

# Drops a file again and again. After each it says so, and waits for what another user has seen.
WRITER = """
import os, sys
path, rounds, base = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for i in range(rounds):
    row = b'{"id":%d}\\n' % (base + i)
    with open(path, 'wb') as f: f.write(row)
    assert os.stat(path).st_size == len(row)
    os.chmod(path, 0o600); os.utime(path, (1, 1))
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.listdir(os.path.dirname(path)).count(os.path.basename(path)) == 0
    print(i, flush=True)
    sys.stdin.readline()
    assert open(path, 'rb').read() == row
"""


class RecentNames(Drops):
    def other_user(self, path, writer, wrong):
        """Looks for the name in every way, each time the writer has published it."""
        folder, name = os.path.split(path)
        for _ in range(ROUNDS):
            if not writer.stdout.readline():
                return
            looks = {
                "stat": lambda: os.stat(path),
                "open": lambda: os.close(os.open(path, os.O_RDONLY)),
                "write": lambda: os.close(os.open(path, os.O_WRONLY)),
                "chmod": lambda: os.chmod(path, 0o644),
                "unlink": lambda: os.unlink(path),
                "rename": lambda: os.rename(path, path + ".x"),
            }
            for what, look in looks.items():
                try:
                    look()
                    wrong.append(what)
                except FileNotFoundError:
                    pass
            if name in os.listdir(folder):
                wrong.append("listed")
            writer.stdin.write(b"\n")
            writer.stdin.flush()

    def test_strangers_never_see_one(self):
        wrong, threads, writers = [], [], []
        for number in range(WRITERS):
            path = str(self.incoming / f"g{number}")
            writer = subprocess.Popen(
                [PYTHON, "-c", WRITER, path, str(ROUNDS), str(number * ROUNDS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self.kill_later(writer)
            writers.append(writer)
            threads.append(threading.Thread(target=self.other_user, args=(path, writer, wrong)))
            threads[-1].start()
        for thread in threads:
            thread.join(harness.SOON)
        for writer in writers:
            writer.communicate(timeout=harness.SOON)
            self.assertEqual(writer.returncode, 0)
        self.assertEqual(wrong, [])
        self.assertCommitted(*(b'{"id":%d}\n' % i for i in range(WRITERS * ROUNDS)))
        self.assertLeft()

    def test_one_name_by_everybody(self):
        """Each creates it anew, O_EXCL where it is another process's turn."""
        script = 'for ((i = 0; i < $3; i++)); do (set -C; until echo "{\\"id\\":$(($2 + i))}" > "$1"; do :; done) 2>/dev/null; done'
        name = str(self.incoming / "same")
        writers = [
            subprocess.Popen(["bash", "-c", script, "bash", name, str(n * SHARES), str(SHARES)])
            for n in range(WRITERS)
        ]
        for writer in writers:
            self.kill_later(writer)
        for writer in writers:
            self.assertEqual(writer.wait(harness.SOON), 0)
        self.assertCommitted(*(b'{"id":%d}\n' % i for i in range(WRITERS * SHARES)))
        self.assertLeft()

    def test_one_name_by_turns(self):
        """A program that truncates what it finds, and another process in between, 200 times."""
        name = self.incoming / "turns"
        wanted = []
        for _ in range(100):
            mine, theirs = self.row(), self.row()
            name.write_bytes(mine)
            self.ok(["cp", self.file(theirs, "turn"), name])
            wanted += [mine, theirs]
        self.assertCommitted(*wanted)
        self.assertLeft()

    def test_a_stranger_creates_while_the_writer_looks(self):
        code = (
            "import os, subprocess, sys\npath, source = sys.argv[1:]\n"
            "for i in range(50):\n"
            "    f = os.open(path, os.O_CREAT | os.O_WRONLY); os.write(f, b'{\"id\":%d}\\n' % i); os.close(f)\n"
            "    st = os.stat(path); subprocess.run(['cp', source, path], check=True)\n"
            "    assert not os.path.exists(path)  # the name was the other's last\n"
        )
        theirs = self.row()
        self.ok([PYTHON, "-c", code, self.incoming / "x", self.file(theirs)])
        self.assertCommitted(*(b'{"id":%d}\n' % i for i in range(50)), *[theirs] * 50)

    def test_opened_for_nothing(self):
        code = (
            "import os, sys\npath = sys.argv[1]\n"
            "for i in range(20):\n"
            "    with open(path, 'wb') as f: f.write(b'{\"id\":%d}\\n' % i)\n"
            "    os.close(os.open(path, os.O_WRONLY))\n"
            "    while os.listdir(os.path.dirname(path)): pass\n"
        )
        self.ok([PYTHON, "-c", code, self.incoming / "x"])
        self.assertCommitted(*(b'{"id":%d}\n' % i for i in range(20)))


class RecentNamesSingleThreaded(RecentNames):
    arguments = ("-s",)
