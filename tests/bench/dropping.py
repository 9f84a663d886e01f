# SPDX-License-Identifier: MIT
"""Benchmarks of incoming/: one large drop, many small ones, one after the other and at once."""

import contextlib
import shutil

from bench import median, rate, ratio, run, timed
from reading import COLUMNS, rows_file


def fresh_table(bench):
    path = bench.path("table")
    run([bench.program("tinydelta"), "create", path, *COLUMNS])
    return path


def one_row(bench):
    path = bench.path("row")
    text = run([bench.program("data"), "rows", 1])
    path.write_text(text.split("\n", 1)[0] + "\n", encoding="utf-8")
    return path


def large(bench):
    """cp of a large file into incoming/, against cp and fsync to the same disk."""
    source = rows_file(bench)
    size = source.stat().st_size
    timed("cat", source)

    def ours():
        table = fresh_table(bench)
        with bench.mount(table) as mounted:
            run(["sync", "-f", bench.scratch])
            seconds = timed("cp", source, mounted / "incoming" / "rows.jsonl")
        shutil.rmtree(table)
        return seconds

    def theirs():
        target = bench.path("copy")
        run(["sync", "-f", bench.scratch])
        seconds = timed("sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", source, target)
        target.unlink()
        return seconds

    found = bench.compare({"tinydeltafs": ours, "cp + sync": theirs})
    bench.report(
        f"drop of {size / 1e6:.0f} MB by cp: cp + sync",
        ", ".join(f"{n} {median(s):.2f} s ({rate(size, s)})" for n, s in found.items()),
        ratio(found["tinydeltafs"], found["cp + sync"]),
        2,
        at_most=True,
    )


def insert(database, count, mode):
    """Durable single-row inserts, each a transaction of its own."""
    script = f"PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL;\n"
    script += "CREATE TABLE IF NOT EXISTS o (id INTEGER, region TEXT, year INTEGER);\n"
    script += "INSERT INTO o VALUES (1, 'north', 1999);\n" * count
    path = database.with_suffix(".sql")
    path.write_text(script, encoding="ascii")
    return timed("sqlite3", database, stdin=path)


def small(bench):
    """One-row drops in turn and eight at a time, the least that a commit costs, and sqlite3."""
    row, count = one_row(bench), bench.size(200, 50)
    plain, database = bench.path("plain"), bench.path("rows")
    plain.mkdir()
    with bench.mount(fresh_table(bench)) as mounted:
        incoming = mounted / "incoming"
        subjects = {
            "drops": lambda: bench.loops("drop", incoming, count, 1, row) / count,
            "8 droppers": lambda: bench.loops("drop", incoming, 4 * count, 8, row) / count / 4,
            "loop": lambda: bench.loops("commit", plain, count, row) / count,
        }
        if shutil.which("sqlite3"):
            for mode in ("WAL", "DELETE"):
                subjects[f"sqlite3 {mode}"] = lambda mode=mode: (
                    insert(database.with_name(mode), count, mode) / count
                )
        found = bench.compare(subjects, rounds=bench.rounds + 2)
    text = ", ".join(f"{name} {1 / median(seconds):.0f}/s" for name, seconds in found.items())
    bench.report(
        "sequential one-row drops: loop with the same fsyncs and links",
        text,
        ratio(found["loop"], found["drops"]),
        0.5,
    )
    bench.report("8 droppers in parallel: one", "as above", ratio(found["drops"], found["8 droppers"]), 2)
    for name in found:
        if name.startswith("sqlite3"):
            bench.report(f"sequential one-row drops: {name}", "as above", ratio(found[name], found["drops"]))


def under_listing(bench):
    """ls while commits land."""
    versions = bench.size(20000, 5000)
    table = bench.path("listed")
    run([bench.program("data"), "append", table, versions, 200])
    row, count = one_row(bench), bench.size(400, 100)
    with bench.mount(table) as mounted, contextlib.ExitStack() as stack:
        import subprocess

        alone = [timed("ls", mounted.point) for _ in range(5)]
        argv = [bench.program("loops"), "drop", mounted / "incoming", count, 4, row]
        dropper = stack.enter_context(
            subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL)
        )
        busy = [timed("ls", mounted.point)]
        while dropper.poll() is None:
            busy.append(timed("ls", mounted.point))
        if dropper.returncode != 0:
            raise RuntimeError("a drop failed")
    bench.report(
        f"ls of {versions} versions while commits land: ls alone",
        f"alone {median(alone):.3f} s, busy {median(busy):.3f} s ({len(busy)} times)",
        median(busy) / median(alone),
    )
