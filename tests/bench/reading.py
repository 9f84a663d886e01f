# SPDX-License-Identifier: MIT
"""Benchmarks of reading: large versions of one and of many data files, and small ones."""

import json
import os
import shutil

from bench import Mount, median, rate, ratio, run, timed


def rows_file(bench):
    mib = bench.size(880, 128)

    return bench.kept(
        f"rows-{mib}.jsonl", lambda path: timed(bench.program("data"), "rows", mib, stdout=path)
    )


COLUMNS = ["id:int", "region:str", "year:int", "amount:float", "paid:bool", "note:str"]


def one_file_table(bench):
    source = rows_file(bench)

    def make(path):
        run([bench.program("tinydelta"), "create", path, *COLUMNS])
        run([bench.program("tinydelta"), "append", path, "--file", source])

    return bench.kept(f"one-{source.stem}", make)


def many_files_table(bench):
    files, each = bench.size((10000, 100000), (1000, 100000))
    return bench.kept(
        f"many-{files}", lambda path: run([bench.program("data"), "append", path, files, each])
    )


def data_files(table):
    return sorted(table.glob("part-*.jsonl"))


def warm(*paths):
    for path in paths:
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file():
                timed("cat", file)


# ---- Peers --------------------------------------------------------------------------------------


class Peer:
    """Another way to show a folder: how it is mounted, and where a file of the folder is then."""

    def __init__(self, mount, file):
        self.mount, self.file = mount, file


def squashed(bench, folder, name):
    def make(path):
        # Uncompressed, as the peer would be for speed.
        run(["mksquashfs", folder, path, "-noI", "-noD", "-noF", "-noX", "-b", "1M", "-quiet", "-no-progress"])

    return bench.kept(name + ".squashfs", make)


def restic_repository(bench, file, name):
    def make(path):
        env = restic_env(path)
        run(["restic", "init"], env=env)
        run(["restic", "backup", "--compression", "off", str(file)], env=env)

    return bench.kept(name + ".restic", make)


def restic_env(repository):
    return {
        **os.environ,
        "RESTIC_REPOSITORY": str(repository),
        "RESTIC_PASSWORD": "bench",
        "RESTIC_CACHE_DIR": str(repository.parent / "restic-cache"),
    }


def peers(bench, table, file, name):
    """Peers that are installed, by name. The folder is the table, so that the bytes are the same."""
    found = {}
    if shutil.which("bindfs"):
        found["bindfs"] = Peer(lambda: Mount(bench, ["bindfs", "-f", table, None]), file.name)
    if shutil.which("squashfuse_ll"):
        image = squashed(bench, table, name)
        warm(image)
        found["squashfuse_ll"] = Peer(
            lambda: Mount(bench, ["squashfuse_ll", "-f", image, None]), file.name
        )
    if shutil.which("restic"):
        repository = restic_repository(bench, file, name)
        warm(repository)
        found["restic"] = Peer(
            lambda: Mount(bench, ["restic", "mount", None], env=restic_env(repository)),
            f"snapshots/latest{file}",
        )
    return found


# ---- Large versions -----------------------------------------------------------------------------


def read_twice(mount, name):
    with mount as mounted:
        path = mounted / name
        return timed("cat", path), timed("cat", path)


def passes_through(bench, table):
    with bench.mount(table) as mounted:
        timed("head", "-c1", mounted / "v1/data.jsonl")
        return "passthrough" in mounted.said() and "without" not in mounted.said()


def one_file(bench):
    """First and second read of a version of one data file."""
    table = one_file_table(bench)
    (file,) = data_files(table)
    size = file.stat().st_size
    others = peers(bench, table, file, f"one-{size}")
    through = passes_through(bench, table)
    warm(file)
    subjects = {
        "cat": lambda: (timed("cat", file),) * 2,
        "copying": lambda: read_twice(
            bench.mount(table, *(["nopassthrough"] if through else [])), "v1/data.jsonl"
        ),
    }
    if through:
        subjects["passthrough"] = lambda: read_twice(bench.mount(table), "v1/data.jsonl")
    for name, peer in others.items():
        subjects[name] = lambda peer=peer: read_twice(peer.mount(), peer.file)
    # The bound of every first read that fills the page cache.
    subjects["fill"] = lambda: (bench.loops("fill", size),) * 2
    found = bench.compare(subjects)
    first = {name: [pair[0] for pair in pairs] for name, pairs in found.items()}
    second = {name: [pair[1] for pair in pairs] for name, pairs in found.items()}
    text = ", ".join(f"{name} {rate(size, first[name])}" for name in found if name != "fill")
    text += f"; only writing so much to fresh memory {rate(size, first['fill'])}"
    targets = {"bindfs": 3, "squashfuse_ll": 1.3, "restic": None, "cat": 0.15, "fill": None}
    for name, target in targets.items():
        if name in found:
            bench.report(
                f"first read, one data file, no passthrough: {name}", text, ratio(first[name], first["copying"]), target
            )
            text = "as above"
    text = ", ".join(f"{name} {rate(size, second[name])}" for name in found if name != "fill")
    bench.report("second read, no passthrough: cat", text, ratio(second["cat"], second["copying"]), 0.5)
    if through:
        bench.report("first read, passthrough: cat", "as above", ratio(first["cat"], first["passthrough"]), 0.9)
        bench.report("second read, passthrough: cat", "as above", ratio(second["cat"], second["passthrough"]), 0.9)
    else:
        bench.report(
            "first read, passthrough: cat",
            "not measured",
            note="this libfuse, kernel or user has no passthrough",
        )


def many_files(bench):
    """The same bytes in many data files, against one."""
    table, many = one_file_table(bench), many_files_table(bench)
    (file,) = data_files(table)
    head = len(data_files(many))
    plain = ["nopassthrough"] if passes_through(bench, table) else []
    warm(file, many)
    size = sum(f.stat().st_size for f in data_files(many))
    one = file.stat().st_size
    found = bench.compare(
        {
            "one": lambda: read_twice(bench.mount(table, *plain), "v1/data.jsonl")[0] / one,
            "many": lambda: read_twice(bench.mount(many, *plain), f"v{head}/data.jsonl")[0] / size,
        }
    )
    bench.report(
        f"first read, {size / 1e9:.1f} GB in {head} data files: one file",
        f"many {rate(1, found['many'])}, one {rate(1, found['one'])}",
        ratio(found["one"], found["many"]),
        0.7,
    )


def command(bench):
    """`tinydelta read` into a pipe, against cat into a pipe."""
    table = one_file_table(bench)
    (file,) = data_files(table)
    size = file.stat().st_size
    warm(file)
    read = f"{bench.program('tinydelta')} read {table}"
    found = bench.compare(
        {
            "cat": lambda: timed("sh", "-c", f"cat {file} | cat"),
            "tinydelta read": lambda: timed("sh", "-c", f"{read} | cat"),
        }
    )
    bench.report(
        "tinydelta read into a pipe: cat into a pipe",
        ", ".join(f"{name} {rate(size, seconds)}" for name, seconds in found.items()),
        ratio(found["cat"], found["tinydelta read"]),
    )


def unchecked_table(bench, table):
    """The same table as a writer leaves it that sums up nothing, with the same data files."""

    def without_sums(line):
        action = json.loads(line)
        for body in action.values():
            for name in ("crc32c", "blocks", "rows", "previous", "actions", "engineInfo"):
                body.pop(name, None)
        return json.dumps(action, separators=(",", ":")) + "\n"

    def make(path):
        (path / "_delta_log").mkdir(parents=True)
        for commit in table.glob("_delta_log/*.json"):
            lines = commit.read_text(encoding="utf-8").splitlines()
            text = "".join(without_sums(line) for line in lines)
            (path / "_delta_log" / commit.name).write_text(text, encoding="utf-8")
        for file in data_files(table):
            os.link(file, path / file.name)

    return bench.kept(f"{table.name}-unchecked", make)


def checked(bench):
    """What it costs that every byte is compared with its checksum before it is handed out."""
    table = one_file_table(bench)
    tables = {"compared": table, "not compared": unchecked_table(bench, table)}
    plain = ["nopassthrough"] if passes_through(bench, table) else []
    size = data_files(table)[0].stat().st_size
    program = bench.program("tinydelta")
    warm(*data_files(table))
    twice = bench.compare(
        {n: lambda t=t: read_twice(bench.mount(t, *plain), "v1/data.jsonl") for n, t in tables.items()},
        rounds=bench.rounds + 2,
    )
    command = bench.compare(
        {n: lambda t=t: timed("sh", "-c", f"{program} read {t} | cat") for n, t in tables.items()},
        rounds=bench.rounds + 2,
    )
    found = {
        "first read, no passthrough": ({n: [p[0] for p in pairs] for n, pairs in twice.items()}, 0.85),
        "second read, no passthrough": ({n: [p[1] for p in pairs] for n, pairs in twice.items()}, 0.95),
        "tinydelta read into a pipe": (command, None),
    }
    for what, (seconds, target) in found.items():
        bench.report(
            f"{what}, every byte compared: not compared",
            ", ".join(f"{name} {rate(size, s)}" for name, s in seconds.items()),
            ratio(seconds["not compared"], seconds["compared"]),
            target,
        )


# ---- Small versions -----------------------------------------------------------------------------


def small(bench):
    """Open, read and close versions of 200 bytes, against bindfs on the same bytes."""
    count = bench.size(5000, 1000)
    table = bench.kept(
        f"small-{count}", lambda path: run([bench.program("data"), "overwrite", path, count, 150])
    )
    folder = bench.kept(f"small-{count}-folder", lambda path: show_as_folders(bench, table, path, count))
    if not shutil.which("bindfs"):
        bench.report("open + read + close of 200 bytes: bindfs", "bindfs is not installed")
        return
    bound = lambda: Mount(bench, ["bindfs", "-f", folder, None])

    def measure(mount, dropped):
        with mount as mounted:
            args = f"{mounted.point}/v", "/data.jsonl", 1, count
            if dropped:
                bench.drop_caches()
            cold = bench.loops("open", *args)
            # What is in no cache may be waited for once; the second time all of it is there.
            return cold, bench.loops("open", *args)

    dropped = bench.drop_caches()
    found = bench.compare(
        {"tinydeltafs": lambda: measure(bench.mount(table), dropped), "bindfs": lambda: measure(bound(), dropped)}
    )
    for at, name in ((0, "caches dropped" if dropped else "first time"), (1, "warm")):
        ours, theirs = ([pair[at] for pair in found[s]] for s in ("tinydeltafs", "bindfs"))
        bench.report(
            f"open + read + close of 200 bytes, {name}: bindfs",
            f"tinydeltafs {median(ours) / count * 1e6:.0f} us, bindfs {median(theirs) / count * 1e6:.0f} us",
            ratio(ours, theirs),
            1.3,
            at_most=True,
        )


def show_as_folders(bench, table, path, count):
    """vN/data.jsonl as plain folders, with further names of the table's data files."""
    path.mkdir()
    parts = data_files(table)
    for version in range(1, count + 1):
        folder = path / f"v{version}"
        folder.mkdir()
        part = parts[version % len(parts)]
        try:
            os.link(part, folder / "data.jsonl")
        except OSError:  # all files may be one, which has as many names as it can have
            shutil.copy(part, folder / "data.jsonl")
