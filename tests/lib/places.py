# SPDX-License-Identifier: MIT
"""File systems to put tables on: loop mounts of XFS and btrfs, tmpfs, and one without hard links."""

import contextlib
import os
import subprocess
import time

import harness


def _mounted(case, argv, point):
    case.ok(argv)
    # Lazily: a daemon of a test that failed may still have its table open.
    case.addCleanup(harness.run, ["umount", "-l", point])
    return point


def made(case, kind):
    """An empty directory on a fresh file system of this kind (xfs, btrfs, ext4, tmpfs), or skips."""
    case.require_root()
    point = case.path()
    point.mkdir()
    if kind == "tmpfs":
        return _mounted(case, ["mount", "-t", "tmpfs", "none", point], point)
    maker = case.require_tool(f"mkfs.{kind}")
    with open("/proc/filesystems", encoding="ascii") as known:
        if kind not in known.read().split() and harness.run(["modprobe", kind]).status != 0:
            case.skipTest(f"this kernel has no {kind}")
    if not os.path.exists("/dev/loop-control"):
        case.skipTest("no loop devices here")
    # In memory: a disk that discards what is given back would hold up every other fsync.
    memory = case.path()
    memory.mkdir()
    image = _mounted(case, ["mount", "-t", "tmpfs", "none", memory], memory) / "image"
    with open(image, "wb") as out:
        out.truncate(400 << 20)
    case.ok([maker, "-q", image])
    return _mounted(case, ["mount", "-t", kind, "-o", "loop", image, point], point)


def nolink(case, *options):
    """An empty directory on a file system without hard links. Options: noflags, delay=MS."""
    case.require_fuse()
    case.require_root()
    below, point = case.path(), case.path()
    below.mkdir()
    point.mkdir()
    argv = [harness.build_root() / "tests/writers/nolink", below, point]
    daemon = subprocess.Popen([*argv, *(w for o in options for w in ("-o", o))])

    def end():
        harness.run(["umount", "-l", point])
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(2)
        daemon.kill()
        daemon.wait()

    case.addCleanup(end)
    deadline = time.monotonic() + harness.DAEMON_TIMEOUT
    while not os.path.ismount(point):
        case.assertIsNone(daemon.poll(), "nolink ended before it served")
        case.assertLess(time.monotonic(), deadline, "nolink is not mounted")
        time.sleep(0.01)
    return point
