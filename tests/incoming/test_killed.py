# SPDX-License-Identifier: MIT
"""Writers that are killed: by each signal that kills, by limits, in the first thread or another, in
a shell whose child goes on. Nothing of theirs is committed, and NAME.error says so; who merely
inherited the descriptor spoils nothing."""

import os
import pathlib
import signal
import subprocess
import unittest

import harness
from drops import PYTHON, Drops

HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
            signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
DEADLY = [s for s in sorted(signal.valid_signals()) if s not in HARMLESS]

HEAD = """
import ctypes, os, resource, signal, sys, threading, time
D = os.environ['D']
for s in signal.valid_signals():
    try: signal.signal(s, signal.SIG_DFL)
    except OSError: pass
signal.pthread_sigmask(signal.SIG_SETMASK, [])
row = b'{"id":1}\\n'
def drop():
    f = os.open(D, os.O_CREAT | os.O_WRONLY | os.O_APPEND); os.write(f, row); return f
"""


class Killed(Drops):
    def python(self, code, *args, **how):
        environment = {"D": str(self.incoming / "k"), "I": str(self.incoming)}
        return harness.run([PYTHON, "-c", HEAD + code, *map(str, args)], env=environment, cwd=self.scratch, **how)

    def assertSpoilt(self, number, wait=False):
        """Nothing is committed, and the file is there with the reason."""
        if wait:
            # A note that this thread has just removed is still shown to it, so it asks for the list.
            self.wait_for(lambda: "k.error" in os.listdir(self.incoming), "a reason")
        self.assertCommitted()
        self.assertLeft("k", "k.error")
        self.assertRegex(self.reason("k"), rf"incomplete: its writer .* was killed by signal {int(number)}\b")
        os.unlink(self.incoming / "k")

    # -- each signal --

    def test_each_signal(self):
        for number in DEADLY:
            with self.subTest(signal=number):
                result = self.python("drop(); os.kill(os.getpid(), int(sys.argv[1]))", int(number))
                self.assertEqual(result.status, -number)
                self.assertSpoilt(number)

    def test_each_signal_to_a_thread(self):
        code = (
            "t = threading.Thread(target=signal.pause if len(sys.argv) == 2 else drop); t.start(); drop()\n"
            "if len(sys.argv) == 3: t.join(); t = threading.Thread(target=signal.pause); t.start()\n"
            "signal.pthread_kill(t.ident, int(sys.argv[1])); signal.pause()"
        )
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            for more in ((), ("x",)):
                with self.subTest(signal=number, wrote="thread" if more else "leader"):
                    self.assertEqual(self.python(code, int(number), *more).status, -number)
                    self.assertSpoilt(number)

    def test_a_thread_wrote_and_its_first_one_is_gone(self):
        code = (
            "def work():\n drop(); time.sleep(.1); os.kill(os.getpid(), signal.SIGKILL)\n"
            "threading.Thread(target=work).start(); ctypes.CDLL(None).pthread_exit(None)"
        )
        for _ in range(3):
            self.assertEqual(self.python(code).status, -signal.SIGKILL)
            self.assertSpoilt(signal.SIGKILL)

    # -- what sends signals --

    def test_core_dump(self):
        code = (
            "resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)\n"
            "drop(); ctypes.string_at(0)"
        )
        self.assertEqual(self.python(code).status, -signal.SIGSEGV)
        self.assertSpoilt(signal.SIGSEGV)

    def test_abort(self):
        self.assertEqual(self.python("drop(); os.abort()").status, -signal.SIGABRT)
        self.assertSpoilt(signal.SIGABRT)

    def test_size_limit(self):
        code = (
            "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); f = drop()\n"
            "while True: os.write(f, row)"
        )
        self.assertEqual(self.python(code).status, -signal.SIGXFSZ)
        self.assertSpoilt(signal.SIGXFSZ)

    def test_size_limit_of_cp(self):
        self.file(b'{"id":1}\n' * 100000, "big")
        result = harness.run(["bash", "-c", f"ulimit -f 64; cp {self.scratch}/big {self.incoming}/k"])
        self.assertNotEqual(result.status, 0)
        self.assertSpoilt(signal.SIGXFSZ)

    def test_time_limit(self):
        code = (
            "drop(); resource.setrlimit(resource.RLIMIT_CPU, (1, 2))\n"
            "while True: pass"
        )
        self.assertEqual(self.python(code).status, -signal.SIGXCPU)
        self.assertSpoilt(signal.SIGXCPU)

    def test_broken_pipe(self):
        # tee writes to the file first, then dies of the pipe that nobody reads.
        script = f"yes '{{\"id\":1}}' | env --default-signal=PIPE tee {self.incoming}/k | exec sleep 0.1"
        self.ok(["bash", "-c", script])
        self.assertSpoilt(signal.SIGPIPE, wait=True)

    def test_alarm(self):
        self.assertEqual(self.python("drop(); signal.setitimer(signal.ITIMER_REAL, .05); time.sleep(9)").status, -14)
        self.assertSpoilt(signal.SIGALRM)

    def test_out_of_memory(self):
        self.require_root()
        group = self.memory_group(48 << 20)
        code = (
            "open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid())); f = drop(); x = []\n"
            "while True: x.append(os.urandom(1 << 20))"
        )
        self.assertEqual(self.python(code, group).status, -signal.SIGKILL)
        self.assertSpoilt(signal.SIGKILL)

    def memory_group(self, limit):
        """A control group with so much memory."""
        for root, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = pathlib.Path(root, f"tdl-test-{self.scratch.name}")
            try:
                group.mkdir()
            except OSError:
                continue
            self.addCleanup(group.rmdir)
            try:
                (group / name).write_text(str(limit))
                for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
                    if (group / swap).exists():
                        (group / swap).write_text("0" if swap == "memory.swap.max" else str(limit))
                return group
            except OSError:
                continue
        raise unittest.SkipTest("no control group for memory can be made here")

    def test_timeout(self):
        script = f"timeout -s TERM 1 sh -c 'echo \"{{\\\"id\\\":1}}\"; exec sleep 9' > {self.incoming}/k"
        self.fails(["bash", "-c", script], status=125)  # it reports the failed close
        self.assertSpoilt(signal.SIGTERM, wait=True)

    def test_ctrl_c(self):
        """At a terminal, to the whole foreground job."""
        self.file(b'{"id":1}\n' * 3000000, "big")
        script = f"set -m; (stty -a; cat {self.scratch}/big; sleep 9; cat {self.scratch}/big) > {self.incoming}/k"
        child, terminal = os.forkpty()
        if child == 0:
            os.execvp("bash", ["bash", "-c", script])
        self.addCleanup(os.close, terminal)
        self.wait_for(lambda: os.path.exists(self.incoming / "k") and os.stat(self.incoming / "k").st_size > 1000, "bytes")
        os.write(terminal, b"\x03")
        os.waitpid(child, 0)
        self.assertSpoilt(signal.SIGINT, wait=True)

    # -- who is killed, and who goes on --

    def test_a_shell_whose_child_goes_on(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        script = f"{{ echo '{{\"id\":1}}'; cat {fifo}; }} > {self.incoming}/k; :"
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                shell = self.kill_later(subprocess.Popen(["bash", "-c", script]))
                with open(fifo, "wb", buffering=0) as rest:
                    self.wait_for(lambda: os.stat(self.incoming / "k").st_size > 0, "the first row")
                    shell.send_signal(number)
                    shell.wait()
                    self.assertLeft("k")
                    rest.write(b'{"id":2}\n')
                # cat ends, and ends well.
                self.assertSpoilt(number, wait=True)

    def test_after_an_exec(self):
        code = (
            "f = drop(); os.dup2(f, 1); os.close(f)\n"
            "os.execv('/bin/sh', ['sh', '-c', 'echo \"{\\\\\"id\\\\\":2}\"; kill -9 $$'])"
        )
        self.assertEqual(self.python(code).status, -9)
        self.assertSpoilt(signal.SIGKILL)

    def test_all_of_several_writers(self):
        code = (
            "f = drop()\nfor _ in range(5):\n"
            " if os.fork() == 0: os.write(f, row); signal.pause()\n"
            "os.killpg(0, signal.SIGKILL)"
        )
        for _ in range(5):
            self.python(code)
            self.assertSpoilt(signal.SIGKILL, wait=True)

    def test_the_other_writer_ends_well(self):
        code = (
            "f = drop(); r, w = os.pipe()\n"
            "if os.fork() == 0: os.write(f, row); os.write(w, b'.'); signal.pause()\n"
            "os.read(r, 1); os.killpg(0, 0)\n"
            "import subprocess; subprocess.run(['pkill', '-KILL', '-P', str(os.getpid()), 'python3'])\n"
            "os.wait(); os.write(f, row)\n"
            "try: os.close(f)\nexcept OSError as e: sys.exit(e.errno)"
        )
        self.assertEqual(self.python(code).status, 5)
        self.assertSpoilt(signal.SIGKILL)

    def test_with_a_descriptor_for_reading_only(self):
        code = (
            "f = drop(); g = os.open(D, os.O_RDONLY)\n"
            "if os.fork() == 0: os.close(f); os.kill(os.getpid(), 9)\n"
            "os.wait(); os.close(f)"
        )
        self.assertEqual(self.python(code).status, 0)
        self.assertCommitted(b'{"id":1}\n')

    def test_who_inherited(self):
        for number in DEADLY:
            code = (
                "f = drop()\n"
                "if os.fork() == 0: os.kill(os.getpid(), int(sys.argv[1]))\n"
                "os.wait(); os.write(f, row); os.close(f)"
            )
            with self.subTest(signal=number):
                self.mark()
                self.assertEqual(self.python(code, int(number)).status, 0)
                self.assertCommitted(b'{"id":1}\n' * 2)
                self.assertLeft()

    def test_who_inherited_and_outlived_the_writer(self):
        """What the writer closed is committed when the heir is killed."""
        code = (
            "f = drop()\n"
            "if os.fork() == 0: signal.pause()\n"
            "os.close(f); assert os.path.exists(D)\n"
            "import subprocess; subprocess.run(['pkill', '-KILL', '-P', str(os.getpid()), 'python3'])\n"
            "os.wait(); assert not os.path.exists(D) or os.listdir(os.environ['I']) == []"
        )
        for _ in range(5):
            self.mark()
            result = self.python(code)
            self.assertEqual(result.status, 0, result)
            self.assertCommitted(b'{"id":1}\n')

    def test_ends_that_are_no_kills(self):
        """Threads of a process that exits are killed by the kernel; the process is not."""
        code = (
            "f = drop()\n"
            "for _ in range(8): threading.Thread(target=signal.pause).start()\n"
            "threading.Thread(target=lambda: (time.sleep(.02), os._exit(3))).start()\n"
            "signal.pause()"
        )
        for _ in range(20):
            self.mark()
            self.assertEqual(self.python(code).status, 3)
            self.assertCommitted(b'{"id":1}\n')
            self.assertLeft()

    def test_signals_that_are_caught(self):
        code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); drop(); os.kill(os.getpid(), 15); time.sleep(9)"
        self.assertEqual(self.python(code).status, 4)
        self.assertCommitted(b'{"id":1}\n')

    def test_stopped_is_not_killed(self):
        code = "drop(); os.kill(os.getpid(), signal.SIGSTOP); os._exit(0)"
        child = self.kill_later(
            subprocess.Popen([PYTHON, "-c", HEAD + code], env={**os.environ, "D": str(self.incoming / "k")})
        )
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        self.assertLeft("k")
        child.send_signal(signal.SIGCONT)
        self.assertEqual(child.wait(), 0)
        self.assertCommitted(b'{"id":1}\n')
