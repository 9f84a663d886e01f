# SPDX-License-Identifier: MIT
"""Execs while a dropped file is open, a hundred times each. An exec that closes a descriptor waits
for the answer to the close while it holds what parts of /proc wait for: whoever read the wrong file
there would hang, and with it every ps. harness.run() is the watchdog: it cuts the mount."""

import shlex
import subprocess

import harness
from drops import PYTHON, Drops

COUNT = 100
LIMIT = 60  # seconds; it takes two


class Exec(Drops):
    def setUp(self):
        super().setUp()
        # Somebody who looks at all processes all the time, as monitors do.
        self.onlooker = self.kill_later(
            subprocess.Popen(
                ["sh", "-c", "while :; do cat /proc/[0-9]*/stat /proc/[0-9]*/cmdline; sleep .1; done"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    def drops(self, *argv):
        """Each run of the loop is a commit of one row, and nothing is left."""
        environment = {"D": str(self.incoming / "drop"), "COUNT": str(COUNT)}
        result = harness.run(argv, env=environment, cwd=self.scratch, timeout=LIMIT)
        self.assertEqual((result.status, result.error), (0, ""), f"{result}\n{self.state()}")
        found = self.committed()
        self.assertEqual([data.count(b"\n") for _, data in found], [1] * COUNT, self.state())
        self.assertLeft()
        self.assertIsNone(self.onlooker.poll())

    def in_c(self, mode):
        program = harness.build_root() / "tests/incoming/exec_loop"
        self.drops(program, mode, str(COUNT), self.incoming / "drop")

    def test_c_itself(self):
        self.in_c("self")

    def test_c_from_a_thread(self):
        self.in_c("thread")

    def test_c_posix_spawn(self):
        self.in_c("spawn")

    def test_c_vfork(self):
        self.in_c("vfork")

    def python(self, code):
        head = "import os, subprocess, threading\nD, COUNT = os.environ['D'], int(os.environ['COUNT'])\n"
        row = "def row(i):\n f = os.open(D, os.O_CREAT | os.O_WRONLY); os.write(f, b'{\"id\":%d}\\n' % i); return f\n"
        self.drops(PYTHON, "-c", head + row + code)

    def test_python_fork_and_exec(self):
        self.python(
            "for i in range(COUNT):\n"
            " if os.fork() == 0: row(i); os.execv('/bin/true', ['true'])\n"
            " assert os.wait()[1] == 0"
        )

    def test_python_subprocess(self):
        self.python("for i in range(COUNT): f = row(i); subprocess.run(['true'], check=True); os.close(f)")

    def test_python_subprocess_meanwhile(self):
        self.python(
            "end = False\n"
            "def spawn():\n while not end: subprocess.run(['true'], check=True)\n"
            "t = [threading.Thread(target=spawn) for _ in range(2)]; [x.start() for x in t]\n"
            "for i in range(COUNT): os.close(row(i)); assert os.listdir(os.path.dirname(D)) == [], i\n"
            "end = True; [x.join() for x in t]"
        )

    def test_node_spawn(self):
        self.require_tool("node")
        self.drops(
            "node",
            "-e",
            "const fs = require('fs'), c = require('child_process'), e = process.env;"
            "for (let i = 0; i < e.COUNT; i++) { const f = fs.openSync(e.D, 'w'); fs.writeSync(f, `{\"id\":${i}}\\n`);"
            " if (c.spawnSync('true').status) process.exit(1); fs.closeSync(f) }",
        )

    def test_node_spawn_meanwhile(self):
        self.require_tool("node")
        self.drops(
            "node",
            "-e",
            "const fs = require('fs').promises, c = require('child_process'), e = process.env;"
            "(async () => { for (let i = 0; i < e.COUNT; i++) { const f = await fs.open(e.D, 'w');"
            " await f.write(`{\"id\":${i}}\\n`); const p = c.spawn('true'), q = new Promise(r => p.on('exit', r));"
            " await f.close(); await q } })().catch(x => { console.error(x); process.exit(1) })",
        )

    def shell(self, shell):
        # The exec of `true` takes descriptor 3 along; that of the inner shell comes after a close.
        script = (
            'i=0; while [ $i -lt $COUNT ]; do i=$((i+1)); if [ $((i%2)) = 0 ]; then '
            '(exec 3>$D; echo "{\\"id\\":$i}" >&3; exec true); else '
            '(exec 3>$D; echo "{\\"id\\":$i}" >&3; exec 3>&- sh -c :); fi || exit; done'
        )
        self.drops(shell, "-c", script)

    def test_bash(self):
        self.shell("bash")

    def test_dash(self):
        self.shell("dash")

    def test_xargs(self):
        self.drops("bash", "-c", "seq $COUNT | xargs -I@ -P8 sh -c " + shlex.quote('echo "{\\"id\\":@}" > $D.@; exec true'))


class ExecSingleThreaded(Exec):
    arguments = ("-s",)
