# SPDX-License-Identifier: MIT
"""What /proc tells of processes and mounts, all of which may be gone a moment later."""

import contextlib
import os
import pathlib
import re

_PF_EXITING = 0x4


def mountinfo(path):
    """The device "0:57" and the type of the file system mounted at `path`, or None."""
    wanted = os.fspath(path)
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.split(" ")
            point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
            if point == wanted:
                found = fields[2], fields[fields.index("-") + 1]
    return found


def descriptors(pid):
    """What a process has open, (number, flags, target) of each; what it closes meanwhile is left out."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            info = pathlib.Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="ascii")
            flags = int(re.search(r"flags:\s*([0-7]+)", info)[1], 8)
            found.append((int(name), flags, os.readlink(f"/proc/{pid}/fd/{name}")))
    return found


def daemon_of(*words, base=False):
    """The pid of the tinydeltafs with all these words on its command line (base: with the last
    components of paths); or None. Only of our own mount namespace: others of the same name may be
    at work on this machine, in other checkouts, with the same arguments."""
    wanted = {os.fsencode(word) for word in words}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            given = pathlib.Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            program = os.path.basename(given[0])
            if base:
                given = [os.path.basename(word) for word in given]
            if program == b"tinydeltafs" and wanted <= set(given):
                if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
                    return int(pid)
    return None


def _ending(pid):
    """Whether a process has begun to exit; False where it cannot be known."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        stat = pathlib.Path("/proc", pid, "stat").read_bytes()
        return bool(int(stat.rpartition(b") ")[2].split()[6]) & _PF_EXITING)
    return False


def users_of(path):
    """Which processes have something open at a path or beneath it. Whoever is ending is none: its
    files are closed a moment before it leaves its directory."""
    found = []
    prefix = f"{path}/"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            held = [os.readlink(f"/proc/{pid}/cwd"), *(target for _, _, target in descriptors(pid))]
            held = [target for target in held if f"{target}/".startswith(prefix)]
            if held and not _ending(pid):
                found.append(f"{pid}: {held}")
    return found
