# SPDX-License-Identifier: MIT
"""Naming a version: every form, by every subcommand that takes one, and at a mount."""

import datetime
import json
import os

import harness
from harness import TestCase

# Versions 0 to 5; the clock was set back by an hour behind version 2.
CLOCK = [
    datetime.datetime(2024, 3, 30, 12, 0, 0, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 3, 31, 0, 30, 0, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 3, 31, 1, 30, 0, 500000, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 3, 31, 0, 30, 0, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 10, 27, 0, 30, 0, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 10, 27, 1, 30, 0, tzinfo=datetime.timezone.utc),
]

# In central Europe 2024-03-31 02:00 is 03:00, and 2024-10-27 02:00 to 03:00 comes twice.
ZONE = "CET-1CEST,M3.5.0,M10.5.0/3"

NAMED = {
    "0": 0,
    "5": 5,
    "v5": 5,
    "005": 5,
    "latest": 5,
    "latest~0": 5,
    "latest~5": 0,
    "v4~2": 2,
    "@2024-03-30T12:00Z": 0,
    "@2024-03-30 13:00": 0,
    "@2024-03-31": 0,
    "@20240331": 0,
    "@20240331Z": 0,
    "@2024-03-31T01:29:59.999": 0,
    "@2024-03-31T01:30": 1,
    "@2024-03-31T01:59:59": 1,
    "@2024-03-31T02:30": 1,  # the first instant after the gap, 01:00Z
    "@2024-03-31T03:30": 1,
    "@2024-03-31T03:30:00.499": 1,
    "@2024-03-31T03:30:00.500": 2,
    "@2024-03-31T01:30:00.5Z": 2,
    "@2024-03-31T01:30:00.501Z": 3,
    "@2024-03-31T03:30:00.501+02:00": 3,
    "@2024-03-31T03:30:00.501+0200": 3,
    "@2024-10-27T02:29:59": 3,
    "@2024-10-27T02:30": 4,  # the first of the two
    "@2024-10-27T02:30+01:00": 5,
    "@2024-10-27T03:00": 5,
    "@2024-10-27T02:30~1": 3,
    "@1711800000": 0,
    "@1711800000000": 0,
    "@1711848600500": 2,
    "@-0s": 5,
    "@-1m~5": 0,
    "@-7d": 5,
    "@2024-10-27T03:00~2": 3,
    "@2024-10-27T02:30:00.000+01:00": 5,
}

# What is refused, with its exit status: 1, there is no such version; 2, nothing is named like this.
REFUSED = {
    "6": 1,
    "v6": 1,
    "-1": 1,
    "9" * 40: 1,
    "5~6": 1,
    "latest~6": 1,
    "@2024-03-30T11:59:59.999Z": 1,
    "@1711799999": 1,
    "@-5200w": 1,
    "@9000-01-01": 1,
    "july": 1,
    "july~1": 1,
    "V5": 1,  # might be a tag
    "": 2,
    "~1": 2,
    "v": 1,
    "+5": 1,
    "5~": 2,
    "5~x": 2,
    "5~-1": 2,
    "5~1~1": 2,
    "head": 2,
    "now": 2,
    "a/b": 2,
    "a..b": 2,
    ".a": 2,
    "a\nb": 2,
    "@": 2,
    "@7": 2,
    "@yesterday": 2,
    "@2024": 2,
    "@2024-03": 2,
    "@2024-02-30": 2,
    "@2024-03-31T": 2,
    "@2024-03-31T24:00": 2,
    "@2024-03-31T1:30": 2,
    "@2024-03-31T01:30+2": 2,
    "@2024-03-31T01:30 Z": 2,
    "@171180000": 2,
    "@17118000000": 2,
    "@-5": 2,
    "@-5y": 2,
    "@5h": 2,
}


class Versions(TestCase):
    def setUp(self):
        super().setUp()
        self.t = self.path("t")
        (self.t / "_delta_log").mkdir(parents=True)
        for version, when in enumerate(CLOCK):
            stamp = round(when.timestamp() * 1000)
            info = {"timestamp": stamp, "operation": "APPEND", "readVersion": None}
            lines = [{"commitInfo": info}]
            if version == 0:
                schema = [{"name": "id", "type": "int"}]
                lines.append({"metaData": {"id": "11111111-2222-4333-8444-555555555555", "schema": schema}})
            else:
                row = f'{{"id":{version}}}\n'
                name = f"part-{version:032x}.jsonl"
                (self.t / name).write_text(row)
                lines.append({"add": {"path": name, "size": len(row), "numRecords": 1}})
            path = self.t / "_delta_log" / f"{version:020}.json"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.zone = {"TZ": ZONE}

    def test_every_form(self):
        for text, wanted in NAMED.items():
            with self.subTest(text=text):
                said = self.tinydelta("read", self.t, "--version", text, env=self.zone)
                self.assertEqual(said.out.count(b"\n"), wanted)

    def test_every_refusal(self):
        for text, status in REFUSED.items():
            with self.subTest(text=text):
                result = self.tinydelta_fails(
                    "read", self.t, f"--version={text}", status=status, env=self.zone
                )
                self.assertEqual(result.error.count("\n"), 1)
                if status == 2:
                    self.assertRegex(result.error, "versions are 7, v7, latest|times are 2026-11-29")

    def test_every_form_at_a_mount(self):
        """The names of a mount that mean a version agree with the command about each of these."""
        self.require_fuse()
        with self.mount(self.t, env=self.zone) as mnt:
            for text in [*NAMED, *REFUSED]:
                if text.startswith("@") and "/" not in text and text != "@":
                    name = mnt / "at" / text[1:]
                elif text == "latest" or text[:1] == "v" and text[1:] == str(NAMED.get(text)):
                    name = mnt / text
                else:
                    continue
                with self.subTest(text=text):
                    if text in REFUSED:
                        self.assertFalse(os.path.lexists(name))
                        continue
                    if name.parent.name == "at":
                        self.assertEqual(os.readlink(name), f"../v{NAMED[text]}")
                    self.assertEqual((name / "data.jsonl").read_bytes().count(b"\n"), NAMED[text])

    def test_every_subcommand(self):
        said = self.tinydelta("describe", self.t, "--version", "latest~2")
        self.assertTrue(said.text.startswith("version 3\n"), said.text)
        self.tinydelta("check", self.t, "--version", "@2024-03-31T01:30Z")
        said = self.fails([harness.program("tinydelta"), "diff", self.t, "v1", "latest~1"])
        self.assertEqual(said.text, "".join(f'+{{"id":{i}}}\n' for i in (2, 3, 4)))
        self.assertEqual(self.tinydelta("restore", self.t, "@1711848600500").text, "restored version 2 as version 6\n")
        self.assertEqual(self.tinydelta("restore", self.t, "--version", "v1").text, "restored version 1 as version 7\n")
        self.tinydelta_fails("restore", self.t, "head", status=2)
        self.tinydelta_fails("restore", self.t, "8", status=1)
        self.assertEqual(self.tinydelta("read", self.t, "--version", "latest~1").out.count(b"\n"), 2)
