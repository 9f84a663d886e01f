# SPDX-License-Identifier: MIT
"""What every benchmark uses: the machine, built programs, data kept between runs, mounts that end
with the run, comparisons, and the table that is reported. Knows no benchmark."""

import contextlib
import ctypes
import os
import pathlib
import resource
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MOUNT_TIMEOUT = 600  # seconds; a million commits may have to be replayed from a disk

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(argv, **how):
    """Runs a command that must succeed; returns its standard output."""
    done = subprocess.run(
        [str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **how
    )
    if done.returncode != 0:
        raise RuntimeError(f"{argv}: status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def timed(*argv, stdin=None, stdout=None):
    """The seconds that a command takes, which must succeed."""
    with open(stdin or os.devnull, "rb") as source, open(stdout or os.devnull, "wb") as target:
        start = time.perf_counter()
        subprocess.run([str(a) for a in argv], stdin=source, stdout=target, check=True)
        return time.perf_counter() - start


def cpu_of(*argv, stdin=None):
    """The user and system seconds that a command takes, which must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(*argv, stdin=stdin)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def is_mounted(point):
    wanted = str(point).replace(" ", "\\040")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        return any(line.split(" ")[4] == wanted for line in mounts)


class Mount:
    """A daemon in the foreground and what it mounts at a fresh directory; for `with`. `seconds` is
    how long it took until the mount answered."""

    def __init__(self, bench, argv, env=None):
        self.point = pathlib.Path(tempfile.mkdtemp(prefix="mnt-", dir=bench.scratch))
        argv = [str(self.point) if a is None else str(a) for a in argv]
        self.log = open(f"{self.point}.log", "w+", encoding="utf-8", errors="replace")
        # Opened before the daemon starts, so that no change is missed.
        with open("/proc/self/mountinfo", "rb") as mounts:
            start = time.perf_counter()
            self.daemon = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                env={**os.environ, **env} if env else None,
                preexec_fn=_die_with_parent,
            )
            poll = select.poll()
            poll.register(mounts, select.POLLPRI)
            while not is_mounted(self.point):
                mounts.seek(0)
                mounts.read()
                if self.daemon.poll() is not None or time.perf_counter() - start > MOUNT_TIMEOUT:
                    raise RuntimeError(f"{argv} did not mount: {self.said()}")
                poll.poll(100)
        os.stat(self.point)
        self.seconds = time.perf_counter() - start

    def said(self):
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    def resident(self):
        """Bytes of memory of the daemon."""
        with open(f"/proc/{self.daemon.pid}/status", encoding="utf-8") as status:
            kib = next(line.split()[1] for line in status if line.startswith("VmRSS"))
        return int(kib) * 1024

    def __truediv__(self, name):
        return self.point / name

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        # A reader that just ended may not have given its descriptor back.
        for _ in range(100):
            if subprocess.run(["umount", str(self.point)], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
            time.sleep(0.02)
        else:
            run(["umount", "-l", self.point])
        try:
            self.daemon.wait(60)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
        self.log.close()
        self.point.rmdir()


class Bench:
    """One run: where things are, how large they are, and what was found."""

    def __init__(self, build, cache, quick):
        self.build, self.cache, self.quick = build, cache, quick
        self.rounds = 3 if quick else 5
        self.cache.mkdir(parents=True, exist_ok=True)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=cache))
        self.rows = []

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def size(self, full, quick):
        return quick if self.quick else full

    # -- programs and data --

    def program(self, name):
        found = {
            "tinydelta": "core/command/tinydelta",
            "tinydeltafs": "fs/tinydeltafs",
        }.get(name, f"tests/bench/bench_{name}")
        return self.build / found

    def loops(self, *args):
        return float(run([self.program("loops"), *args]))

    def path(self, prefix="p"):
        """A fresh path that is gone after the run."""
        return pathlib.Path(tempfile.mkdtemp(prefix=prefix + "-", dir=self.scratch)) / prefix

    def kept(self, name, make):
        """A file or directory that is made once, by make(path), and kept for later runs."""
        path = self.cache / name
        if not path.exists():
            say(f"    making {name}")
            unfinished = self.cache / f"unfinished-{name}"
            if unfinished.is_dir():
                shutil.rmtree(unfinished)
            start = time.perf_counter()
            make(unfinished)
            unfinished.rename(path)
            say(f"    made {name} in {time.perf_counter() - start:.0f} s")
        return path

    def mount(self, table, *options, env=None):
        argv = [self.program("tinydeltafs"), table, None, "-f"]
        return Mount(self, [*argv, "-o", ",".join(options)] if options else argv, env)

    def drop_caches(self):
        """Makes the kernel forget names and inodes. False where that is not allowed."""
        try:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("2", encoding="ascii")
        except OSError:
            return False
        return True

    # -- measuring --

    def compare(self, subjects, rounds=None):
        """Runs every subject (name: function that returns a number) in each round, in turn, and
        returns the numbers by name. What others do on the machine hits all of them alike."""
        found = {name: [] for name in subjects}
        names = list(subjects)
        for turn in range(rounds or self.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                found[name].append(subjects[name]())
        return found

    def report(self, what, figures, ratio=None, target=None, at_most=False, note=""):
        """Adds a line. `ratio` is compared with `target`: at least, or at most, so much."""
        met = None
        if target is not None and ratio is not None:
            met = ratio <= target if at_most else ratio >= target
        self.rows.append((what, figures, ratio, target, at_most, met, note))
        say(f"    {what}: {figures}" + ("" if ratio is None else f"; {ratio:.3g}"))


def median(numbers):
    return statistics.median(numbers)


def ratio(above, below):
    """The median of the ratios of each round."""
    return median([a / b for a, b in zip(above, below)])


def rate(size, seconds):
    """Text: how many bytes a second."""
    return f"{size / median(seconds) / 1e9:.2f} GB/s"


@contextlib.contextmanager
def all_of(*contexts):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(c) for c in contexts]
