# SPDX-License-Identifier: MIT
"""Names with everything in them, of the table and of the mount point, on all three ways to mount."""

import os

import harness
from mounting import ESCAPED, Mount8

NAMES = (
    "with blanks  in it",
    "a,b,,c",
    ",ro",
    'quo"ted',
    "apos'trophe; echo $HOME `id` & | *",
    "back\\slash\\",
    "back\\040slash",
    "-dash",
    "--o=ro",
    "new\nline",
    "tab\tbed",
    "#hash",
    "a=b",
    "\udcff not text",
    "ünïcode",
    "d" * 200,
)


class Names(Mount8):
    def each(self, way):
        """Calls way(table, point) for a table and a mount point of each name."""
        for name in NAMES:
            table = self.path("tables") / name
            point = self.path("points") / name
            table.parent.mkdir(exist_ok=True)
            point.mkdir(parents=True)
            self.ok(["cp", "-a", self.t, table])
            self.addCleanup(harness.run, ["umount", "-l", point])
            with self.subTest(name=name):
                way(table, point)

    def works(self, table, point):
        self.assertEqual((point / "v1" / "data.jsonl").read_bytes(), b'{"id":1}\n')
        (fields,) = self.mounts(point)
        rest = fields[fields.index("-") + 1 :]
        self.assertEqual(rest[0], "fuse.tinydeltafs")
        self.assertEqual(rest[1], str(table).translate(ESCAPED).replace("#", r"\043"))
        self.assertIn("rw", rest[2].split(","))
        self.ok(["cp", self.file([{"id": 2}]), point / "incoming" / "x"])
        self.assertEqual(self.versions(table), [0, 1, 2])

    def test_mount(self):
        def way(table, point):
            self.ok(["mount", "-t", "tinydelta", table, point])
            self.works(table, point)
            self.mount_fails("-t", "tinydelta", table, point, says="already mounted")
            self.umount(point)

        self.each(way)

    def test_mount_from_where_they_are(self):
        """Relative names; mount(8) makes those of things that exist absolute."""
        def way(table, point):
            argv = ["mount", "-t", "tinydelta", "--", table.name, f"../points/{point.name}"]
            self.ok(argv, cwd=table.parent)
            self.works(table, point)
            self.umount(point)

        self.each(way)

    def test_fstab(self):
        def way(table, point):
            fields = [str(p).translate(ESCAPED).replace("#", r"\043") for p in (table, point)]
            self.fstab(f"{fields[0]} {fields[1]} tinydelta noauto 0 0")
            self.ok(["mount", point])
            self.works(table, point)
            self.ok(["mount", "-a"])
            self.assertEqual(len(self.mounts(point)), 1)
            self.umount(point)
            self.ok(["umount", "/etc/fstab"])

        self.each(way)

    def test_by_the_type_of_the_program(self):
        def way(table, point):
            self.ok(["mount", "-t", "fuse.tinydeltafs", table, point])
            self.works(table, point)
            self.umount(point)

        self.each(way)

    def test_directly(self):
        def way(table, point):
            program = harness.program("tinydeltafs")
            self.ok([program, "--", table.name, f"../points/{point.name}"], cwd=table.parent)
            self.works(table, point)
            self.fails([program, table, point])
            self.umount(point)

        self.each(way)

    def test_as_a_user(self):
        """fusermount3 reads the options, too."""
        self.open_device()
        def way(table, point):
            self.ok(["chown", "-R", "65534:65534", table, point])
            self.ok([self.path("fs") / "tinydeltafs", table, point], user=65534)
            (fields,) = self.mounts(point)
            self.assertEqual(
                fields[fields.index("-") + 2], str(table).translate(ESCAPED).replace("#", r"\043")
            )
            said = self.ok(["cat", point / "v1" / "data.jsonl"], user=65534)
            self.assertEqual(said.out, b'{"id":1}\n')
            self.ok(["fusermount3", "-u", point], user=65534)
            self.assertFalse(os.path.ismount(point))

        self.each(way)
