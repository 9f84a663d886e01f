# SPDX-License-Identifier: MIT
"""Eight droppers while writers are killed at random, for as long as TDL_MIXED_SECONDS says; mixed.py
runs it for longer."""

import os

import mixed
from drops import Drops

SECONDS = float(os.environ.get("TDL_MIXED_SECONDS") or 15)


class Mixed(Drops):
    def prepare(self, case):
        table = case.table("drop:int", "row:int")
        type(self)._mount = case.mount(table, arguments=self.arguments)
        self._mount.start()

    def test_nothing_is_lost_or_doubled(self):
        seed = int.from_bytes(os.urandom(3), "big")
        wrong, said = mixed.mixed(self.incoming, self.table_path, self.scratch, SECONDS, seed)
        self.assertEqual(wrong, [], said)
        self.assertLeft()
        self.tinydelta("check", self.table_path)


class MixedSingleThreaded(Mixed):
    arguments = ("-s",)
