#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Sums the single tests of meson's test runs, prints what failed, and the one line at the end.

    report.py [--reports DIR] BUILD...

Reads BUILD/meson-logs/testlog.json, in which each test's TAP output stands. A sanitizer report,
a file in DIR, is a failed test.
"""

import argparse
import json
import pathlib
import re
import sys

LINE = re.compile(r"^(not )?ok\b[\s\d]*(?:- )?([^#]*?)\s*(?:\([\d.]+s\)\s*)?(?:#\s*(SKIP\S*)\s*(.*))?$", re.IGNORECASE)
# A test that asks for more memory than there is gets none, and asan tells. Where a thread is held in
# the kernel (by a hostile file, in a test), the leak checker says that it could not stop it; a leak
# is a report all the same.
HARMLESS = re.compile(
    r"(==[0-9]+==WARNING: AddressSanitizer failed to allocate .*\n"
    r"|==[0-9]+==Running thread [0-9]+ was not suspended\. False leaks are possible\.\n|\s*)*"
)
SHOWN = 80  # lines of a failure


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def fail(self, title, text):
        self.failed += 1
        lines = text.rstrip().splitlines()
        print(f"\n--- FAILED {title}")
        if len(lines) > SHOWN:
            lines = [*lines[: SHOWN // 2], "    [...]", *lines[-SHOWN // 2 :]]
        print("\n".join(lines))

    def add_test(self, build, test):
        title = f"{build.name}: {test['name']}"
        output = (test.get("stdout") or "").splitlines()
        failed_before, counted = self.failed, 0
        for index, line in enumerate(output):
            match = LINE.match(line)
            if not match:
                continue
            counted += 1
            if match[1]:
                detail = []
                for text in output[index + 1 :]:
                    if LINE.match(text) or text.startswith("1.."):
                        break
                    detail.append(text)
                self.fail(f"{title}: {match[2]}", "\n".join(detail))
            elif match[3]:
                self.skipped += 1
                print(f"skipped: {title}: {match[2]}: {match[4]}")
            else:
                self.passed += 1
        result = test["result"]
        if result in ("OK", "SKIP", "EXPECTEDFAIL"):
            if not counted and result == "OK":
                self.passed += 1
            elif not counted:
                self.skipped += 1
                print(f"skipped: {title}")
        elif self.failed == failed_before or result == "TIMEOUT":
            tail = "\n".join(output[-SHOWN // 2 :]) + "\n" + (test.get("stderr") or "")
            self.fail(f"{title}: {result}, status {test.get('returncode')}", tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=pathlib.Path)
    parser.add_argument("builds", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    tally = Tally()
    for build in args.builds:
        log = build / "meson-logs" / "testlog.json"
        if not log.exists():
            tally.fail(str(log), "no tests were run")
            continue
        with open(log, encoding="utf-8") as lines:
            for line in lines:
                tally.add_test(build, json.loads(line))
    if args.reports:
        for report in sorted(args.reports.iterdir()):
            text = report.read_text(errors="replace")
            if not HARMLESS.fullmatch(text):
                tally.fail(f"sanitizer: {report.name}", text)
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"\n{tally.passed} passed, {tally.failed} failed{skipped}")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
