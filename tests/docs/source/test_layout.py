# SPDX-License-Identifier: MIT
"""What holds of the source as a whole: who may include what, what stands where, what is exported
and installed."""

import json
import os
import pathlib
import re
import shutil

import harness
from harness import SOURCE, TestCase

# The folders of core/ in floors: each may include its own and those before it. "." is core/ itself:
# errors and system calls.
CORE_FLOORS = ["util", "json", ".", "row", "log", "table", "changes", "commit", "command"]

# Modules that tests and readers must be able to take without libfuse.
WITHOUT_FUSE = [
    *("fs/errmap", "fs/gate", "fs/mountpoint", "fs/msg", "fs/opts", "fs/pool", "fs/sink"),
    *("fs/incoming/incoming", "fs/incoming/close", "fs/incoming/name_rules", "fs/proc/process", "fs/proc/scan"),
    *("fs/versions/open_file", "fs/versions/tree", "mount-helper/mountopts"),
]

TOP_LEVEL = {"core", "fs", "mount-helper", "tests", "meson.build", "README.md", "LICENSE"}
MAX_LINES = 800


def sources(*patterns):
    """Paths of source files relative to the top, without build directories."""
    found = set()
    for area in ("core", "fs", "mount-helper", "tests"):
        for pattern in patterns:
            found.update(p.relative_to(SOURCE) for p in (SOURCE / area).rglob(pattern))
    return sorted(found)


def includes(path):
    """The names a file includes, ("quoted" or <angled>)."""
    text = (SOURCE / path).read_text(encoding="utf-8")
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', text, re.MULTILINE)


def quoted(path):
    text = (SOURCE / path).read_text(encoding="utf-8")
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', text, re.MULTILINE)



def rings(needs):
    """What is left of {name: names it needs} when all that need nothing more were taken out."""
    needs = {name: set(others) - {name} for name, others in needs.items()}
    while True:
        free = [name for name, others in needs.items() if not others & needs.keys()]
        if not free:
            return {name: sorted(others & needs.keys()) for name, others in needs.items()}
        for name in free:
            del needs[name]


def sanitizers():
    """The build's: "none", or "address,undefined"."""
    said = harness.run(["meson", "introspect", "--buildoptions", harness.build_root()])
    return next(o["value"] for o in json.loads(said.out) if o["name"] == "b_sanitize")


class Source(TestCase):
    def test_programs_see_only_the_public_header_and_util(self):
        for area in ("fs", "mount-helper", "core/command"):
            top = SOURCE / area
            own = {str(p.relative_to(top)) for p in top.rglob("*.h")}
            # What the build makes of a page.
            own |= {f"{p.relative_to(top)}.inc" for p in top.rglob("*.html")}
            for path in sources("*.[ch]"):
                if not str(path).startswith(area + "/"):
                    continue
                foreign = {n for n in quoted(path) if not n.startswith("util/")} - own - {"tinydelta.h"}
                self.assertEqual(foreign, set(), f"{path} includes what is not its business")

    def test_core_folders_point_one_way(self):
        for path in sources("*.[ch]"):
            if path.parts[0] != "core" or path.parts[1] == "command":
                continue
            inside = path.relative_to("core")
            floor = CORE_FLOORS.index(str(inside.parent))
            for name in quoted(path):
                self.assertTrue((SOURCE / "core" / name).exists(), f"{path}: {name} is named from core/")
                if name != "tinydelta.h":
                    above = CORE_FLOORS.index(str(pathlib.PurePath(name).parent))
                    self.assertLessEqual(above, floor, f"{path} includes {name}")

    def test_no_ring_of_files(self):
        """No two .c files call each other, by whatever way round: there is an order to read them."""
        root = harness.build_root()
        owners, wanted = {}, {}
        for target in (
            *("core/libtinydelta.so*.p", "core/util/libtinydelta_util.a.p", "core/command/tinydelta.p"),
            *("fs/tinydeltafs.p", "fs/incoming/libtdfs_incoming.a.p", "mount-helper/mount.tinydelta.p"),
        ):
            objects = [path for folder in root.glob(target) for path in folder.glob("*.o")]
            self.assertTrue(objects, target)
            said = self.ok(["nm", "--format=posix", "--print-file-name", "--extern-only", *objects])
            for line in said.text.splitlines():
                path, name, kind = line.replace(": ", " ", 1).split()[:3]
                if kind == "U":
                    wanted.setdefault(path, set()).add(name)
                elif kind in "TDBR":
                    owners[name] = path
        needs = {path: {owners[n] for n in names & owners.keys()} for path, names in wanted.items()}
        self.assertGreater(len(needs), 90)
        left = rings(needs)
        short = {p.rpartition("/")[2]: [o.rpartition("/")[2] for o in others] for p, others in left.items()}
        self.assertEqual(short, {})

    def test_no_ring_of_headers(self):
        needs = {}
        for path in sources("*.h"):
            if path.parts[0] != "tests":
                needs[str(path)] = {
                    str(pathlib.Path(area) / name)
                    for name in quoted(path)
                    for area in (path.parts[0], "core", path.parent)
                    if (SOURCE / area / name).exists()
                }
        self.assertEqual(rings(needs), {})

    def test_core_does_not_know_its_users(self):
        for path in sources("*.[ch]"):
            if path.parts[0] == "core":
                self.assertFalse([n for n in includes(path) if "fuse" in n], path)

    def test_modules_without_libfuse(self):
        def reachable(path, seen):
            for name in includes(path):
                self.assertFalse(name.startswith("fuse"), f"{path} includes {name}")
                header = pathlib.Path(path.parts[0]) / name
                if (SOURCE / header).exists() and header not in seen:
                    seen.add(header)
                    reachable(header, seen)

        for module in WITHOUT_FUSE:
            for suffix in (".c", ".h"):
                path = pathlib.Path(module + suffix)
                if (SOURCE / path).exists():
                    reachable(path, set())
            self.assertTrue(
                any((SOURCE / (module + suffix)).exists() for suffix in (".c", ".h")),
                f"{module} is gone: mend WITHOUT_FUSE",
            )

    def test_who_gives_up_the_lock_says_so(self):
        """Functions of incoming/ that are called with its lock and give it up, also for a moment:
        what their callers knew before may be wrong afterwards."""
        function = re.compile(
            r"^(static )?[A-Za-z_][\w \*]*?\b(\w+)\([^;{]*?\)\n\{\n(.*?)^\}\n", re.M | re.S
        )
        bodies = {}
        for path in sources("*.c"):
            if path.parts[:2] == ("fs", "incoming"):
                text = (SOURCE / path).read_text(encoding="utf-8")
                text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
                for static, name, body in function.findall(text):
                    bodies[path.name if static else "", name] = (path.name, body)
        gives = set()
        while True:
            more = set()
            for key, (file, body) in bodies.items():
                called = re.findall(r"\b(\w+)\(", body)
                known = {(file, name) for name in called} | {("", name) for name in called}
                locking = [c for c in called if c in ("tdfs_lock", "tdfs_unlock")]
                if key in gives or key[1] == "tdfs_unlock" or locking[:1] == ["tdfs_lock"]:
                    continue
                if locking or "pthread_cond_wait" in called or known & gives:
                    more.add(key)
            if not more:
                break
            gives |= more
        self.assertGreater(len(gives), 20)
        self.assertEqual([n for _, n in gives if not n.endswith("_unlocks")], [])
        self.assertEqual([n for f, n in bodies if n.endswith("_unlocks") and (f, n) not in gives], [])

    def test_top_level(self):
        names = {n for n in os.listdir(SOURCE) if not n.startswith(".")}
        self.assertEqual(names - TOP_LEVEL, set())
        self.assertEqual(TOP_LEVEL - names, set())

    def test_every_file_opens_with_its_licence_and_is_short(self):
        for path in sources("*.[ch]"):
            lines = (SOURCE / path).read_text(encoding="utf-8").splitlines()
            with self.subTest(path=str(path)):
                self.assertEqual(lines[0], "/* SPDX-License-Identifier: MIT */")
                # The public header is the manual too.
                if path.name != "tinydelta.h":
                    self.assertLessEqual(len(lines), MAX_LINES)
        for path in sources("*.py", "meson.build"):
            head = (SOURCE / path).read_text(encoding="utf-8").splitlines()[:2]
            with self.subTest(path=str(path)):
                if path.parts[0] == "tests":
                    self.assertIn("# SPDX-License-Identifier: MIT", head)

    def test_nothing_is_left_undone(self):
        for path in sources("*.[ch]", "*.py", "meson.build"):
            text = (SOURCE / path).read_text(encoding="utf-8")
            if path.name != "test_layout.py":
                self.assertNotRegex(text, r"\b(TODO|FIXME|XXX|HACK)\b", path)

    def test_format(self):
        tool = shutil.which("clang-format-14") or self.require_tool("clang-format")
        version = self.ok([tool, "--version"]).text
        if " 14." not in version:
            self.skipTest(f"formatted with clang-format 14, this is {version.strip()}")
        wrong = [
            str(path)
            for path in sources("*.[ch]")
            if self.ok([tool, "--style=file", SOURCE / path]).out != (SOURCE / path).read_bytes()
        ]
        self.assertEqual(wrong, [])

    def test_casebooks_name_tests_that_exist(self):
        names = set()
        for path in sources("*.py", "*.c"):
            names.update(re.findall(r"\b(?:test_\w+)", (SOURCE / path).read_text(encoding="utf-8")))
            names.add(path.stem)
        for path in sources("casebook.md"):
            text = (SOURCE / path).read_text(encoding="utf-8")
            named = re.findall(r"\btest_\w+", text)
            self.assertEqual(set(named) - names, set(), path)
            # Those in C, "unit/log: names, listing", have no such beginning.
            for file, tests in re.findall(r"(?<!/)\b((?:unit|fault)/(?!test_)\w+)(: \w+(?:, \w+)*)?", text):
                area, name = file.split("/")
                code = (SOURCE / "tests" / area / f"test_{name}.c").read_text(encoding="utf-8")
                for test in re.findall(r"\w+", tests):
                    self.assertRegex(code, rf"\bTest\(\w+, {test}\b", f"{path}: {file}")

    def test_every_test_file_is_registered(self):
        meson = shutil.which("meson")
        result = self.ok([meson, "introspect", "--tests", harness.build_root()])
        known = {pathlib.PurePath(a).stem for t in json.loads(result.out) for a in t["cmd"]}
        if sanitizers() != "none":
            known.add("test_nomem")  # its allocator and a sanitizer's exclude each other
        for path in sources("test_*.py", "test_*.c"):
            self.assertIn(path.stem, known, f"{path} is not in a meson.build")


class Header(TestCase):
    """tinydelta.h by itself, for the most particular of users."""

    def compiles(self, compiler, language, *flags):
        tool = self.require_tool(compiler)
        unit = self.file('#include "tinydelta.h"\n#include "tinydelta.h"\n')
        self.ok(
            [tool, "-x", language, *flags, "-pedantic", "-Wall", "-Wextra", "-Werror"]
            + ["-fsyntax-only", "-I", SOURCE / "core", unit]
        )

    def test_c99(self):
        self.compiles("gcc", "c", "-std=c99")

    def test_c99_clang(self):
        self.compiles("clang", "c", "-std=c99")

    def test_c_plus_plus(self):
        self.compiles("g++", "c++", "-std=c++11")


class Installed(TestCase):
    def declared(self):
        text = (SOURCE / "core" / "tinydelta.h").read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
        return set(re.findall(r"TDL_API\b[^;(]*?\b(\w+)\s*\(", text))

    def test_exported_symbols_are_the_declared_ones(self):
        library = harness.build_root() / "core" / "libtinydelta.so"
        listing = self.ok(["nm", "-D", "--defined-only", "--format=posix", library]).text
        exported = {line.split()[0].split("@")[0] for line in listing.splitlines()}
        # A sanitizer marks the ends of its sections.
        exported = {name for name in exported if not re.match(r"__(start|stop)_asan_", name)}
        self.assertEqual(exported, self.declared())

    def install(self):
        target = self.path("installed")
        environment = {"DESTDIR": str(target), "HOME": str(self.scratch)}
        self.ok(
            ["meson", "install", "-C", harness.build_root(), "--no-rebuild", "--quiet"],
            env=environment,
        )
        return target

    def test_installed_files(self):
        target = self.install()
        names = set()
        for path in target.rglob("*"):
            if path.is_file() or path.is_symlink():
                # mount(8) wants its helper in /usr/sbin, whatever the prefix.
                name = str(path.relative_to(target / "usr")).removeprefix("local/")
                names.add(re.sub(r"^lib/[^/]*-linux-[^/]*/", "lib/", name))
        self.assertEqual(
            names,
            {
                "bin/tinydelta",
                "bin/tinydeltafs",
                "sbin/mount.tinydelta",
                "sbin/mount.tinydeltafs",
                "include/tinydelta.h",
                "lib/libtinydelta.a",
                "lib/libtinydelta.so",
                "lib/libtinydelta.so.0",
                "lib/libtinydelta.so.0.1.0",
                "lib/pkgconfig/tinydelta.pc",
                "share/bash-completion/completions/tinydelta",
                "share/bash-completion/completions/tinydeltafs",
                "share/fish/vendor_completions.d/tinydelta.fish",
                "share/fish/vendor_completions.d/tinydeltafs.fish",
                "share/zsh/site-functions/_tinydelta",
                "share/zsh/site-functions/_tinydeltafs",
                "share/man/man1/tinydelta.1",
                "share/man/man1/tinydeltafs.1",
                "share/man/man3/tinydelta.3",
                "share/man/man5/tinydelta-table.5",
                "share/man/man8/mount.tinydelta.8",
            },
        )

    def test_a_program_on_pkg_config(self):
        prefix = self.install() / "usr" / "local"
        config = next(prefix.rglob("tinydelta.pc"))
        flags = self.ok(
            ["pkg-config", "--cflags", "--libs", f"--define-variable=prefix={prefix}", config]
        ).text.split()
        table = self.golden("orders")
        source = self.path("consumer.c")
        source.write_text(
            """#include <stdio.h>
#include <tinydelta.h>
int main(int argc, char **argv)
{
	tdl_error err = { 0 };
	tdl_table *table;
	if (argc != 2 || tdl_table_open(argv[1], TDL_OPEN_READ_ONLY, &table, &err) < 0)
		return 1;
	printf("%lld\\n", (long long)tdl_table_head(table));
	tdl_table_free(table);
	return 0;
}
"""
        )
        binary = self.path("consumer")
        compiler = ["gcc"]
        if sanitizers() != "none":
            compiler = ["clang", f"-fsanitize={sanitizers()}"]
        self.ok([*compiler, "-Wall", "-Werror", source, "-o", binary, *flags])
        said = self.ok([binary, table], env={"LD_LIBRARY_PATH": str(config.parent.parent)})
        self.assertEqual(said.text, "4\n")
