#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs one unittest file and prints TAP: one line a test, diagnostics as comments.

    TDL_BUILD=build tests/lib/run_tap.py tests/mount/test_read.py [-k PATTERN]... [-x]

-k runs the tests whose name holds PATTERN, -x stops at the first failure. The exit status is 1
where a test failed.
"""

import argparse
import importlib.util
import os
import pathlib
import sys
import time
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import harness


class TapResult(unittest.TestResult):
    """Prints a line as each test ends."""

    def __init__(self, stop_early):
        super().__init__()
        self.failfast = stop_early
        self.number = 0
        self.bad = 0
        self.started = time.monotonic()

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def line(self, ok, test, directive="", comment=""):
        self.number += 1
        self.bad += not ok
        names = test.id().split(".")
        name = ".".join(names[-2:]).replace("#", "_")
        seconds = time.monotonic() - self.started
        print(f"{'ok' if ok else 'not ok'} {self.number} - {name} ({seconds:.2f}s){directive}")
        for text in comment.splitlines():
            print("#   " + text.encode("utf-8", "backslashreplace").decode())
        sys.stdout.flush()

    def addSuccess(self, test):
        self.line(True, test)

    def addError(self, test, error):
        super().addError(test, error)
        self.line(False, test, comment="".join(traceback.format_exception(*error)))

    addFailure = addError

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(True, test, f" # SKIP {' '.join(reason.split())}")

    def addSubTest(self, test, subtest, error):
        if error is None:
            return
        super().addSubTest(test, subtest, error)
        self.line(False, subtest, comment="".join(traceback.format_exception(*error)))

    def addExpectedFailure(self, test, error):
        self.line(True, test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.line(False, test, comment="was expected to fail and did not")


def load(path, patterns):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    loader = unittest.TestLoader()
    if patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in patterns]
    return loader.loadTestsFromModule(module)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("-k", action="append", metavar="PATTERN")
    parser.add_argument("-x", action="store_true")
    args = parser.parse_args()

    harness.enter_namespace()
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path.insert(0, str(args.file.resolve().parent))
    result = TapResult(args.x)
    try:
        suite = load(args.file.resolve(), args.k)
    except unittest.SkipTest as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    except Exception:
        print("1..1\nnot ok 1 - " + args.file.stem + " cannot be loaded")
        print("".join("#   " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
        return 1
    suite.run(result)
    print(f"1..{result.number}")
    return 1 if result.bad else 0


if __name__ == "__main__":
    sys.exit(main())
