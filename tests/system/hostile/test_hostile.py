# SPDX-License-Identifier: MIT
"""Everything that a hostile user can do at the same time, beside an owner whose closes are right: 0
means committed, bad rows are refused, groups are one commit and the killed commit nothing, all of
it in bounded time. Nobody reads the daemon's log meanwhile.

TDL_HOSTILE multiplies what the hostile user takes: 67 gives 20,000 descriptors, 5,000 processes, rows
of 256 MiB, and 100,000 files, of which he may have 20,000.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
import sys
import time

import harness

sys.path.insert(0, str(harness.SOURCE / "tests/incoming"))
import test_incoming_hostile as others
from test_incoming_hostile import ATTACKER, OWNER

SCALE = float(os.environ.get("TDL_HOSTILE", "1"))
DESCRIPTORS, PROCESSES = min(19800, int(3000 * SCALE)), min(5000, int(150 * SCALE))
FILES = min(100000, int(1500 * SCALE))
ROW_MIB = min(256, int(24 * SCALE))
SHARE = 20000  # files that may wait of one user
ROUNDS = 3
BOUND = 60  # seconds for one close, with two processors for all of that

OWNERS = """
import json
N = int(os.environ['N'])
def timed(name, call):
    began = time.monotonic()
    answer = call()
    print(name, answer, int((time.monotonic() - began) * 1000), flush=True)
def free(call, taken):
    # Whoever comes first has a name, and the other one waits until it is free again.
    for _ in range(500):
        try: answer = call()
        except PermissionError: answer = taken
        if answer != taken: break
        time.sleep(.01)
    return answer
def killed():
    child = os.fork()
    if child == 0:
        try: f = os.open(I + '/killed', os.O_CREAT | os.O_WRONLY)
        except PermissionError: os._exit(13)
        os.write(f, b'{"i":%d}\\n' % (N + 3))
        os.kill(os.getpid(), 9)
    return os.waitpid(child, 0)[1]
def group():
    script = 'exec 3> "$I/group" || exit 13; (echo "{\\\\"i\\\\":%d}"; sleep .1; echo "{\\\\"i\\\\":%d}") >&3' % (N + 1, N + 2)
    return subprocess.run(['bash', '-c', script]).returncode
def rename():
    os.rename(I + '/.aside.tmp', I + '/aside')
    return 0
timed('bad', lambda: free(lambda: drop('bad', BAD), 13))
timed('good', lambda: free(lambda: drop('good', b'{"i":%d}\\n' % N), 13))
timed('group', lambda: free(group, 13))
timed('killed', lambda: free(killed, 13 << 8))
timed('aside', lambda: free(lambda: drop('.aside.tmp', b'{"i":%d}\\n' % (N + 4)), 13))
timed('rename', lambda: free(rename, 13))
timed('list', lambda: len(os.listdir(I)) > 0)
for name in ('bad', 'killed'):
    timed('unlink', lambda: os.unlink(I + '/' + name) or 0)
"""

# Each of these goes on until the test ends.
FIFOS_AND_RENAMES = """
def forever():
    n = 0
    while True:
        n += 1
        for call in (lambda: os.mkfifo(I + '/fifo'), lambda: os.symlink('/etc/passwd', I + '/link')):
            try: call(); os._exit(1)
            except OSError: pass
        for name in ('bad', 'good', 'group', 'killed', 'aside', '.aside.tmp', 'bad.error'):
            mine = I + '/.mine%d' % n
            os.close(os.open(mine, os.O_CREAT | os.O_WRONLY))
            for call in (lambda: os.rename(mine, I + '/' + name), lambda: os.unlink(I + '/' + name),
                         lambda: os.close(os.open(I + '/' + name, os.O_RDWR | os.O_TRUNC))):
                try: call()
                except OSError: pass
            try: os.unlink(mine)
            except OSError: pass
            time.sleep(.02)
threading.Thread(target=forever, daemon=True).start()
"""
KILLED_AND_STOPPED = """
def forever():
    for n in range(10**6):
        child = os.fork()
        if child == 0:
            f = os.open(I + '/k%d' % n, os.O_CREAT | os.O_WRONLY)
            os.write(f, b'{"i":-7}\\n')
            os.kill(os.getpid(), signal.SIGSTOP if n % 10 == 0 else signal.SIGKILL)
            os._exit(0)
        if n % 10: os.waitpid(child, 0)
        time.sleep(.02)
threading.Thread(target=forever, daemon=True).start()
"""
WAITING = """
made = 0
why = 0
for n in range(int(os.environ['COUNT'])):
    try:
        f = os.open(I + '/w%d.tmp' % n, os.O_CREAT | os.O_WRONLY)
        os.close(f)
        made += 1
    except OSError as e: why = e.errno; break
for n in range(30):
    try: drop('r%d' % n, BAD)
    except OSError: pass
print(made, why, flush=True)
"""
LONG_ROW = """
held = []
for n in range(3):
    f = os.open(I + '/.long%d' % n, os.O_CREAT | os.O_WRONLY); held.append(f)
    try:
        os.write(f, b'{"i":1,"x":"')
        for _ in range(int(os.environ['MIB'])): os.write(f, b'x' * (1 << 20))
    except OSError: pass
"""
CROWD = """
for n in range(int(os.environ['COUNT'])):
    if os.fork() == 0:
        try: held = os.open(I + '/.crowd%d' % (n % 20), os.O_CREAT | os.O_WRONLY)
        except OSError: pass
        signal.pause()
        os._exit(0)
"""


class Siege(others.Hostile):
    def start(self, **how):
        fifo = self.path()
        os.mkfifo(fifo)
        self.log_reader = os.open(fifo, os.O_RDWR)  # who never reads
        self.addCleanup(os.close, self.log_reader)
        fcntl.fcntl(self.log_reader, fcntl.F_SETPIPE_SZ, 4096)
        super().start(wrapper=["sh", "-c", 'exec "$@" 2>"$0"', str(fifo)], **how)

    def right(self, number):
        n = 1000 * (number + 1)
        said = self.ask(OWNERS, OWNER, env={"N": str(n)}, bound=BOUND * 10)
        answers = [line.split() for line in said.splitlines()]
        print("#", " ".join(f"{name}:{ms}ms" for name, _, ms in answers))
        for name, answer, ms in answers:
            wanted = {"bad": "22", "killed": "9", "list": "True"}.get(name, "0")
            self.assertEqual(answer, wanted, name)
            self.assertLess(int(ms), BOUND * 1000, name)
        data = self.data(self.root, self.versions(self.root)[-1]).split()
        found = [row for row in data if row in {b'{"i":%d}' % (n + k) for k in range(5)}]
        self.assertEqual(sorted(found), [b'{"i":%d}' % (n + k) for k in (0, 1, 2, 4)])
        self.assertEqual(data.index(b'{"i":%d}' % (n + 1)) + 1, data.index(b'{"i":%d}' % (n + 2)))

    def test_all_at_once(self):
        self.right(0)
        with self.stuck_polls() as polled:
            for _ in range(9):
                self.begin(others.STUCK, ATTACKER)
                polled()
            self.begin(f"many({DESCRIPTORS})", ATTACKER)
            self.begin(CROWD, ATTACKER + 2, COUNT=str(PROCESSES))
            made, why = map(int, self.begin(WAITING, ATTACKER + 1, COUNT=str(FILES)).split())
            if FILES >= SHARE:
                self.assertEqual(why, errno.EDQUOT)
                self.assertLessEqual(made, SHARE)
            else:
                self.assertEqual((made, why), (FILES, 0))
            self.begin(LONG_ROW, ATTACKER, MIB=str(ROW_MIB))
            self.begin(FIFOS_AND_RENAMES, ATTACKER)
            self.begin(KILLED_AND_STOPPED, ATTACKER)
            for number in range(1, ROUNDS + 1):
                self.right(number)
            rss = int(pathlib.Path(f"/proc/{self.mnt.pid}/status").read_text().split("VmRSS:")[1].split()[0])
            print(f"# the daemon has {rss >> 10} MiB")
            if not any(os.environ.get(name) for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")):
                self.assertLess(rss >> 10, 400)
        # Who waits for a poll cannot be killed before that has ended.
        self.end_children()
        self.right(ROUNDS + 1)
        for name in self.mnt.names("incoming"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.inc / name)
        self.wait_for(lambda: not self.mnt.names("incoming"), "all can be removed")
        data = self.data(self.root, self.versions(self.root)[-1]).split()
        self.assertNotIn(b'{"i":-7}', data, "killed and stopped writers")
        self.assertEqual(self.mnt.read("latest/data.jsonl").split(), data)


for inherited in dir(others.Hostile):
    if inherited.startswith("test_"):
        setattr(Siege, inherited, None)
