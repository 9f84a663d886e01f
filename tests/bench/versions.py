# SPDX-License-Identifier: MIT
"""Benchmarks of what must not grow with the number of versions: mounting, the first byte, memory,
listings, and the cost of a commit."""

import json
import os

from bench import median, ratio, run, say, timed
from reading import show_as_folders

INDEX = "_delta_log/_history.idx"


def commit_file(table, version):
    return table / "_delta_log" / f"{version:020d}.json"


def million_table(bench):
    """A table of so many versions, as it was made: what a run that was cut short added is gone."""
    versions = bench.size(1000000, 50000)
    table = bench.kept(
        f"versions-{versions}",
        lambda path: run([bench.program("data"), "append", path, versions, 200]),
    )
    trim(bench, table, versions)
    return table, versions


def trim(bench, table, versions):
    """Removes the versions after `versions`, and brings the index of those before back."""
    version = versions + 1
    while commit_file(table, version).exists():
        for line in commit_file(table, version).read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action:
                (table / action["add"]["path"]).unlink(missing_ok=True)
        commit_file(table, version).unlink()
        version += 1
    saved = bench.cache / f"{table.name}.idx"
    if version > versions + 1:
        (table / INDEX).unlink(missing_ok=True)
    if not (table / INDEX).exists() and saved.exists():
        # Written and named in one step, as the program does.
        unfinished = bench.cache / "unfinished.idx"
        unfinished.write_bytes(saved.read_bytes())
        unfinished.rename(table / INDEX)


def keep_index(bench, table):
    saved = bench.cache / f"{table.name}.idx"
    if not saved.exists() and (table / INDEX).exists():
        saved.write_bytes((table / INDEX).read_bytes())


def indexed(bench):
    """The table with its index, which a mount makes."""
    table, versions = million_table(bench)
    if not (table / INDEX).exists():
        say("    making the index")
        with bench.mount(table):
            pass
    keep_index(bench, table)
    return table, versions


def with_index(bench):
    """Mounting with the index, the first byte of a version in the middle, and memory."""
    table, versions = indexed(bench)
    middle = versions // 2
    firsts, sizes = [], []

    def measure():
        with bench.mount(table) as mounted:
            firsts.append(bench.loops("open", f"{mounted.point}/v", "/data.jsonl", middle, 1))
            sizes.append(mounted.resident())
            return mounted.seconds

    seconds = median(bench.compare({"mount": measure})["mount"])
    size = (table / INDEX).stat().st_size
    read = median(bench.compare({"read": lambda: timed("cat", table / INDEX)})["read"])
    bench.report(
        f"mount of {versions} versions, index present (s)",
        f"{seconds:.3f} s; the index has {size >> 20} MiB, cat of it takes {read:.3f} s",
        seconds,
        0.5,
        at_most=True,
        note="a faster one would have to trust the index before it has read and checked all of it",
    )
    bench.report(
        f"first byte of v{middle} after mount (ms)",
        f"{median(firsts) * 1e3:.2f} ms to open, read and close it",
        median(firsts) * 1e3,
        10,
        at_most=True,
    )
    bench.report(
        f"resident memory with {versions} versions and files (MB)",
        f"{median(sizes) / 1e6:.0f} MB, {median(sizes) / versions:.0f} bytes a version",
        median(sizes) / 1e6,
        120,
        at_most=True,
    )


def without_index(bench):
    """Mounting without it, against a loop that only reads the commit files."""
    table, versions = indexed(bench)
    log = table / "_delta_log"
    aside = bench.cache / f"{table.name}.aside"

    def measure():
        (table / INDEX).rename(aside)
        try:
            # Nor may there be one in the user's cache, where such a mount keeps it.
            with bench.mount(table, "ro", env={"XDG_CACHE_HOME": str(bench.path("cache"))}) as mounted:
                return mounted.seconds
        finally:
            (table / INDEX).unlink(missing_ok=True)
            aside.rename(table / INDEX)

    bench.loops("log", log, versions, 1)  # into the page cache
    found = bench.compare(
        {
            "mount": measure,
            "one": lambda: bench.loops("log", log, versions, 1),
            "all": lambda: bench.loops("log", log, versions, os.cpu_count()),
        },
        rounds=3,
    )
    fastest = [min(pair) for pair in zip(found["one"], found["all"])]
    bench.report(
        f"mount of {versions} versions, index absent: loop over the commit files, all cores",
        f"{median(found['mount']):.1f} s; loop {median(found['one']):.1f} s on one core, "
        f"{median(found['all']):.1f} s on {os.cpu_count()}",
        ratio(fastest, found["mount"]),
        0.5,
    )
    bench.report(
        f"mount of {versions} versions, index absent: the same loop, one core",
        "as above",
        ratio(found["one"], found["mount"]),
    )


def listing(bench):
    """ls, ls -l and find, against the same names in a folder of the disk."""
    versions = bench.size(100000, 20000)
    table = bench.kept(
        f"versions-{versions}",
        lambda path: run([bench.program("data"), "append", path, versions, 200]),
    )
    folder = bench.kept(
        f"folder-{versions}", lambda path: show_as_folders(bench, table, path, versions)
    )
    with bench.mount(table):
        pass  # makes the index

    for name, argv, target in (
        ("ls", ["ls"], 2),
        ("ls -l", ["ls", "-l"], None),
        ("find", ["find"], None),
    ):

        def ours(argv=argv):
            with bench.mount(table) as mounted:
                return timed(*argv, mounted.point)

        timed(*argv, folder)
        found = bench.compare({"tinydeltafs": ours, "folder": lambda argv=argv: timed(*argv, folder)})
        bench.report(
            f"{name} of {versions} versions: {name} of a folder",
            ", ".join(f"{n} {median(s):.3f} s" for n, s in found.items()),
            ratio(found["tinydeltafs"], found["folder"]),
            target,
            at_most=True,
        )


def records(bench):
    """history.jsonl: its last line, and all of it against a loop that only reads the commits."""
    table, versions = indexed(bench)
    log = table / "_delta_log"
    with bench.mount(table) as mounted:
        path = mounted / "history.jsonl"
        bench.loops("log", log, versions, 1)  # into the page cache
        found = bench.compare(
            {
                "cat": lambda: timed("cat", path),
                "loop": lambda: bench.loops("log", log, versions, 1),
                "tail": lambda: timed("tail", "-n", "1", path),
            },
            rounds=3,
        )
    bench.report(
        f"tail -n 1 of history.jsonl with {versions} versions (ms)",
        f"{median(found['tail']) * 1e3:.1f} ms",
        median(found["tail"]) * 1e3,
        50,
        at_most=True,
    )
    bench.report(
        "cat of history.jsonl (versions a second)",
        f"{median(found['cat']):.2f} s; a loop that reads the commits {median(found['loop']):.2f} s",
        versions / median(found["cat"]),
        100000,
    )


def commits(bench):
    """A commit at the end of a long log, against one at the beginning of a short one."""
    long, versions = indexed(bench)
    short = bench.path("short")
    run([bench.program("data"), "append", short, 10, 200])
    row = next(short.glob("part-*.jsonl"))
    count = bench.size(100, 30)
    try:
        with bench.mount(short) as a, bench.mount(long) as b:
            found = bench.compare(
                {
                    "short": lambda: bench.loops("drop", a / "incoming", count, 1, row),
                    "long": lambda: bench.loops("drop", b / "incoming", count, 1, row),
                },
                rounds=7,
            )
    finally:
        trim(bench, long, versions)
    bench.report(
        f"commit at version {versions}: at version 10",
        ", ".join(f"{n} {median(s) / count * 1e3:.2f} ms" for n, s in found.items()),
        ratio(found["long"], found["short"]),
        1.2,
        at_most=True,
    )


def first_commit(bench):
    """The first commit after a mount with the index, which lists the log, and one a moment later."""
    table, versions = indexed(bench)
    row = next(table.glob("part-*.jsonl"))
    seconds = {"at once": [], "later": []}
    for _ in range(bench.rounds):
        try:
            with bench.mount(table) as mounted:
                seconds["at once"].append(bench.loops("drop", mounted / "incoming", 1, 1, row))
                seconds["later"].append(bench.loops("drop", mounted / "incoming", 1, 1, row))
        finally:
            trim(bench, table, versions)
    bench.report(
        f"first commit after a mount of {versions} versions (ms)",
        ", ".join(f"{name} {median(s) * 1e3:.1f} ms" for name, s in seconds.items()),
        median(seconds["at once"]) * 1e3,
    )
