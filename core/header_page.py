# SPDX-License-Identifier: MIT
"""Makes tinydelta.3 of tinydelta.h, so that the header is the only manual of the library.

A heading in capitals or between dashes becomes a section, a comment its text, and every
declaration stands as it is.
"""

import re
import sys


def escape(text):
    text = text.replace("\\", "\\e")
    return "\\&" + text if text.startswith((".", "'")) else text


def display(lines, out):
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return
    tabs = [line.expandtabs(8) for line in lines]
    margin = min(len(line) - len(line.lstrip()) for line in tabs if line.strip())
    out.append(".Bd -literal")
    out.extend(escape(line[margin:]) for line in tabs)
    out.append(".Ed")


def paragraph(words, out):
    """Each sentence on a line of its own, as mdoc wants it."""
    if words:
        if out[-1] == ".Ed":
            out.append(".Pp")
        out.extend(escape(line) for line in re.split(r"(?<=[.?!])\s+", " ".join(words)))


def comment(text, out):
    """The text of one comment: headings, paragraphs, and what is set in or stands in columns."""
    words, literal = [], []
    for line in [*text, ""]:
        is_literal = line.startswith("  ") or re.match(r"\S+ {2,}\S", line)
        is_heading = re.fullmatch(r"[A-Z]+( [A-Z]+)*", line)
        if words and (is_literal or is_heading or not line.strip()):
            paragraph(words, out)
            words = []
            if not is_literal and not is_heading:
                out.append(".Pp")
        if is_literal or (literal and not line.strip()):
            literal.append(line)
            continue
        if literal:
            while out[-1] == ".Pp":
                out.pop()
            display(literal, out)
            literal = []
        if is_heading:
            while out[-1] == ".Pp":
                out.pop()
            out.append(f".Sh {line}")
        elif line.strip():
            words.append(line.strip())
    if literal:
        while out[-1] == ".Pp":
            out.pop()
        display(literal, out)
    while out[-1] == ".Pp":
        out.pop()


def strip(lines):
    return [re.sub(r"^ ?\* ?", "", line.rstrip()) for line in lines]


def main(header, page):
    source = open(header, encoding="utf-8").read()
    source = source[source.index("#define TINYDELTA_H") :]
    opening = re.search(r"/\*\n(.*?)\n \*/", source, re.S)
    out = [
        ".\\\" SPDX-License-Identifier: MIT",
        ".Dd November 29, 2026",
        ".Dt TINYDELTA 3",
        ".Os",
        ".Sh NAME",
        ".Nm tinydelta",
        ".Nd read and write tinydelta tables",
        ".Sh LIBRARY",
        "libtinydelta",
        ".Pq Fl ltinydelta ; No pkg-config name tinydelta",
        ".Sh SYNOPSIS",
        ".In tinydelta.h",
        ".Sh DESCRIPTION",
    ]
    comment(strip(opening.group(1).split("\n"))[2:], out)

    body = source[opening.end() :]
    body = body[body.index("/* ---- ") : body.rindex("#ifdef __cplusplus")]
    pieces = re.split(r"(?m)^(/\*.*?\*/)$", body, flags=re.S | re.M)
    for piece in pieces:
        heading = re.fullmatch(r"/\* -+ (.*?) -+ \*/", piece)
        if heading:
            out.append(f".Sh {heading.group(1).upper()}")
        elif piece.startswith("/*"):
            text = re.sub(r"^/\*\s?|\s*\*/$", "", piece)
            comment(strip(text.split("\n")), out)
        else:
            display([line.replace("TDL_API ", "") for line in piece.split("\n")], out)
    out += [".Sh SEE ALSO", ".Xr tinydelta 1 ,", ".Xr tinydelta-table 5"]
    with open(page, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


main(sys.argv[1], sys.argv[2])
