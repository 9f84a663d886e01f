#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Draws the picture in the README: what a terminal shows of a real run, as SVG on standard output.

    TDL_BUILD=build tests/docs/readme/picture.py > tests/docs/readme/picture.svg

The commands are run one by one on a terminal of their own, in a new directory. Only the name of the
user and the age of the versions are replaced in what they say, so that it is the same every time.
"""

import html
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile

COLUMNS, LINES = 84, 24
SIZE, WIDTH, HEIGHT = 14, 8.4, 19  # of the type, a column and a line, in pixels
MARGIN, BAR = 16, 34

FILES = {
    "monday.jsonl": [
        '{"id":1,"region":"north","year":2025}',
        '{"id":2,"region":"south","year":2025}',
        '{"id":3,"region":"south","year":2025}',
    ],
    "tuesday.jsonl": ['{"id":4,"region":"north","year":2026}'],
}

COMMANDS = [
    "tinydelta create orders id:int region:str year:int",
    "tinydeltafs orders mnt",
    "cp monday.jsonl tuesday.jsonl mnt/incoming/",
    "ls mnt",
    "grep -c north mnt/v*/data.jsonl",
    "tinydelta diff orders 1 2",
    "tinydelta restore orders --version 1",
    "tinydelta history orders --long --graph",
]

# Select Graphic Rendition, as far as tinydelta goes, and the classes that it becomes.
STYLES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}

STYLE = f"""
  text {{ font: {SIZE}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #24292f; }}
  .w {{ fill: #f6f8fa; stroke: #d0d7de; }} .o {{ fill: #d0d7de; }}
  .p {{ fill: #8250df; }} .b {{ font-weight: bold; }} .d {{ fill: #6e7781; }}
  .r {{ fill: #cf222e; }} .g {{ fill: #1a7f37; }} .y {{ fill: #9a6700; }} .c {{ fill: #0969da; }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #e6edf3; }}
    .w {{ fill: #161b22; stroke: #30363d; }} .o {{ fill: #30363d; }}
    .p {{ fill: #d2a8ff; }} .d {{ fill: #8b949e; }}
    .r {{ fill: #ff7b72; }} .g {{ fill: #3fb950; }} .y {{ fill: #d29922; }} .c {{ fill: #58a6ff; }}
  }}"""


def run(command, folder):
    """What a command sends to a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.alarm(60)
        os.chdir(folder)
        script = f"stty cols {COLUMNS} rows {LINES}; {command}"
        os.execv("/bin/bash", ["bash", "--norc", "-c", script])
    sent = b""
    try:
        while chunk := os.read(terminal, 65536):
            sent += chunk
    except OSError:  # its other end is closed
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    return sent.decode().replace("\r\n", "\n")


def same_every_time(text):
    user = re.escape(subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip())
    # Both are columns with blanks up to the next one.
    text = re.sub(rf"  {user}(?= )", lambda m: "  ada".ljust(len(m[0])), text)
    return re.sub(r"\d+ s(?=  )", lambda m: "9 s".ljust(len(m[0])), text)


def runs(line):
    """(class, text) for each stretch of one style."""
    style = ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if code:
            style = STYLES.get(code[1], "")
        elif part:
            yield style, part


def draw(lines):
    """An SVG of lines, each a list of (class, text)."""
    width = round(COLUMNS * WIDTH + 2 * MARGIN)
    height = round(BAR + len(lines) * HEIGHT + MARGIN)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        "<title>A table is made and mounted, two files are dropped, and its history is shown</title>",
        f"<style>{STYLE}\n</style>",
        f'<rect class="w" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        *(f'<circle class="o" cx="{MARGIN + 6 + 20 * i}" cy="17" r="6"/>' for i in range(3)),
    ]
    for number, line in enumerate(lines):
        y, column = BAR + (number + 1) * HEIGHT - 4, 0
        for style, text in line:
            # Placed by columns, and as wide as they are in any font.
            for stretch in re.finditer(r"\S+(?: \S+)*", text):
                x = MARGIN + (column + stretch.start()) * WIDTH
                shown = stretch[0]
                out.append(
                    f'<text{f" class={chr(34)}{style}{chr(34)}" if style else ""} x="{x:.1f}" y="{y}" '
                    f'textLength="{len(shown) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs">'
                    f"{html.escape(shown, quote=False)}</text>"
                )
            column += len(text)
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    build = pathlib.Path(os.environ["TDL_BUILD"]).resolve()
    os.environ.update(LC_ALL="C.UTF-8", TERM="xterm", PAGER="cat", COLUMNS=str(COLUMNS))
    os.environ["PATH"] = f"{build}/core/command:{build}/fs:{os.environ['PATH']}"
    for name in ("NO_COLOR", "LS_COLORS"):
        os.environ.pop(name, None)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tdl-picture-"))
    try:
        (folder / "mnt").mkdir()
        for name, rows in FILES.items():
            (folder / name).write_text("".join(f"{row}\n" for row in rows))
        lines = []
        for command in COMMANDS:
            lines.append([("p", "$ "), ("b", command)])
            said = same_every_time(run(command, folder))
            lines += [list(runs(line)) for line in said.splitlines()]
        sys.stdout.write(draw(lines))
    finally:
        for unmount in (["umount"], ["fusermount3", "-u"]):
            if subprocess.run([*unmount, folder / "mnt"], capture_output=True, check=False).returncode == 0:
                break
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
