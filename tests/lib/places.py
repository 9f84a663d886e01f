# SPDX-License-Identifier: MIT
"""File systems to put tables on: loop mounts of XFS and btrfs, tmpfs, one without hard links, and
one with a quota."""

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


def _tmpfs(case):
    point = case.path()
    point.mkdir()
    return _mounted(case, ["mount", "-t", "tmpfs", "none", point], point)


def made(case, kind, make=(), options=()):
    """An empty directory on a fresh file system of this kind (xfs, btrfs, ext4, tmpfs), or skips.
    make: more for mkfs; options: more of mount's."""
    case.require_root()
    if kind == "tmpfs":
        return _tmpfs(case)
    maker = case.require_tool(f"mkfs.{kind}")
    with open("/proc/filesystems", encoding="ascii") as known:
        if kind not in known.read().split() and harness.run(["modprobe", kind]).status != 0:
            case.skipTest(f"this kernel has no {kind}")
    if not os.path.exists("/dev/loop-control"):
        case.skipTest("no loop devices here")
    # In memory: a disk that discards what is given back would hold up every other fsync.
    image = _tmpfs(case) / "image"
    with open(image, "wb") as out:
        out.truncate(400 << 20)
    case.ok([maker, "-q", *make, image])
    point = case.path()
    point.mkdir()
    return _mounted(case, ["mount", "-t", kind, "-o", ",".join(["loop", *options]), image, point], point)


def quota(case, size):
    """An empty directory where root may have so many bytes, and what must stand before a command for
    it to be held to that. Of ext4; where the kernel has no quotas, of a file system that says
    EDQUOT as they do."""
    case.require_tool("setquota")
    try:
        folder = made(case, "ext4", ["-O", "quota", "-E", "quotatype=usrquota"], ["usrquota"])
    except AssertionError:  # what a kernel was built with can only be tried
        return nolink(case, f"quota={size}", below=_tmpfs(case)), []
    case.ok(["setquota", "-u", "0", "0", str(size >> 10), "0", "0", folder])
    return folder, ["setpriv", "--bounding-set", "-sys_resource"]


def nolink(case, *options, below=None):
    """An empty directory on a file system without hard links. Options: links (it has them), noflags,
    locallocks, delay=MS, quota=BYTES. below: where its files really are; two over one are two
    clients of a shared file system, which see each other's locks of files but not of directories."""
    case.require_fuse()
    case.require_root()
    if below is None:
        below = case.path()
        below.mkdir()
    point = case.path()
    point.mkdir()
    argv = [harness.build_root() / "tests/system/writers/nolink", below, point]
    daemon = subprocess.Popen([*argv, *(w for o in options for w in ("-o", o))])

    def end():
        harness.run(["umount", "-l", point])
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(harness.SOON)
        daemon.kill()
        daemon.wait()

    case.addCleanup(end)
    deadline = time.monotonic() + harness.DAEMON_TIMEOUT
    while not os.path.ismount(point):
        case.assertIsNone(daemon.poll(), "nolink ended before it served")
        case.assertLess(time.monotonic(), deadline, "nolink is not mounted")
        time.sleep(0.01)
    return point
