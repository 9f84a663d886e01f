# SPDX-License-Identifier: MIT
"""Benchmarks of judging rows, on one core, by the time of the processor."""

import shutil

from bench import cpu_of, median, ratio, run
from reading import COLUMNS, rows_file


def canonical(bench):
    """Rows as they are stored: in memory against a search for newlines, and the command that
    commits them against jq -c."""
    mib = bench.size(128, 32)
    found = bench.compare({"rows": lambda: run([bench.program("rows"), mib]).splitlines()[1].split()})
    ours = [float(line[1]) for line in found["rows"]]
    newlines = [float(line[2]) for line in found["rows"]]
    bench.report("rows validated, canonical (GB/s)", f"{median(ours):.2f} GB/s", median(ours), 0.8)
    bench.report(
        "rows validated, canonical: memchr for newlines",
        f"rows {median(ours):.2f} GB/s, memchr {median(newlines):.2f} GB/s",
        ratio(ours, newlines),
    )
    if not shutil.which("jq"):
        return
    source = bench.path("rows")
    with open(rows_file(bench), "rb") as rows:
        piece = rows.read(mib << 17)  # an eighth: jq takes its time
    source.write_bytes(piece[: piece.rfind(b"\n") + 1])
    size = source.stat().st_size
    table = bench.path("table")
    run([bench.program("tinydelta"), "create", table, *COLUMNS])
    seconds = bench.compare(
        {
            "tinydelta append": lambda: cpu_of(
                bench.program("tinydelta"), "append", table, "--file", source
            ),
            "jq -c .": lambda: cpu_of("jq", "-c", ".", stdin=source),
        }
    )
    jq = size / median(seconds["jq -c ."]) / 1e9
    bench.report(
        "rows validated, canonical: jq -c .",
        f"rows {median(ours):.2f} GB/s, jq {jq:.4f} GB/s",
        median(ours) / jq,
        20,
    )
    bench.report(
        "tinydelta append, with its writes: jq -c .",
        f"{size / median(seconds['tinydelta append']) / 1e9:.2f} GB/s of processor time",
        ratio(seconds["jq -c ."], seconds["tinydelta append"]),
    )
