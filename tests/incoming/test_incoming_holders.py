# SPDX-License-Identifier: MIT
"""Who has a dropped file open: the commit comes with the last close, whoever's it is; and writers
that are killed."""

import os
import signal
import subprocess

from dropping import ROW, DropCase


class LastClose(DropCase):
    def test_dup(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); g = os.dup(f); os.write(f, d)\n"
            "os.close(f); assert os.listdir(I) == ['a']; os.write(g, d); os.close(g)\n"
            "assert os.listdir(I) == []"
        )
        self.python_gives(1, 2, script)

    def test_two_handles_of_one_process(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); g = os.open(I + '/a', os.O_WRONLY | os.O_APPEND)\n"
            "os.write(f, d); os.close(f); assert os.listdir(I) == ['a']; os.write(g, d); os.close(g)"
        )
        self.python_gives(1, 2, script)

    def test_a_reader_does_not_hold(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); g = os.open(I + '/a', os.O_RDONLY)\n"
            "os.write(f, d); os.close(f); assert os.listdir(I) == []; assert os.read(g, 99) == d"
        )
        self.python_gives(1, 1, script)

    def test_fork(self):
        script = (
            "f = open(I + '/a', 'wb', buffering=0); f.write(d)\n"
            "if os.fork() == 0:\n    f.write(d); f.close(); os._exit(0)\n"
            "os.wait(); assert os.listdir(I) == ['a']; f.write(d); f.close()\n"
            "assert os.listdir(I) == []"
        )
        self.python_gives(1, 3, script)

    def test_the_parent_closes_first(self):
        script = (
            "f = open(I + '/a', 'w')\n"
            "p = subprocess.Popen(['sh', '-c', 'sleep .2; cat $S/s1'], stdout=f); f.close()\n"
            "assert os.listdir(I) == ['a']; p.wait(); assert os.listdir(I) == []"
        )
        self.python_gives(1, 1, script)

    def test_background_children(self):
        self.gives(1, 2, "(cat $S/s1; (sleep .2; cat $S/s1) & ) > $I/a; while [ -e $I/a ]; do :; done")
        self.gives(1, 2, "{ cat $S/s1 & cat $S/s1 & wait; } > $I/a")
        self.gives(1, 1, "nohup sh -c 'sleep .2; cat $S/s1' > $I/g 2> /dev/null & wait")
        self.gives(1, 5, "for i in 1 2 3 4 5; do cat $S/s1 & done > $I/a; wait")

    def test_double_fork_orphans(self):
        script = (
            "f = open(I + '/a', 'wb', buffering=0); f.write(d)\n"
            "r, w = os.pipe(); asked, ask = os.pipe()\n"
            "if os.fork() == 0:\n"
            "    if os.fork() == 0:\n"
            "        os.close(r); os.close(ask); os.setsid(); os.read(asked, 1)\n"
            "        f.write(d); f.close(); os._exit(0)\n"
            "    os._exit(0)\n"
            "os.close(w); os.wait(); f.close(); assert os.listdir(I) == ['a'], os.listdir(I)\n"
            "os.close(ask); os.read(r, 1); assert os.listdir(I) == []"
        )
        self.python_gives(1, 2, script)

    def test_an_orphan_whose_parent_opened(self):
        # Nobody near the orphan is left: only a scan of all processes finds it.
        script = (
            "r, w = os.pipe()\n"
            "if os.fork() == 0:\n"
            "    f = open(I + '/a', 'wb', buffering=0); f.write(d)\n"
            "    if os.fork() == 0:\n"
            "        time.sleep(.6); f.write(d); f.close(); os._exit(0)\n"
            "    os._exit(0)\n"
            "os.close(w); os.wait(); assert os.listdir(I) == ['a']\n"
            "os.read(r, 1); assert os.listdir(I) == []"
        )
        self.python_gives(1, 2, script)

    def test_exec_keeps_it(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d); os.dup2(f, 1); os.close(f)\n"
            "os.execvp('cat', ['cat', sys.argv[1]])"
        )
        self.python_gives(1, 2, script, self.s1)

    def test_exec_closes_it(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "g = os.dup(f)\nos.execvp('sh', ['sh', '-c', 'ls $I'])"
        )
        result = self.python_gives(1, 1, script)
        self.assertEqual(result.out, b"")

    def test_vfork_on_its_way_to_exec(self):
        script = (
            "stop = False\ndef spawn():\n"
            "    while not stop: subprocess.run(['/bin/true'])\n"
            "t = [threading.Thread(target=spawn) for _ in range(3)]\nfor x in t: x.start()\n"
            "for i in range(60):\n"
            "    f = open(I + '/a%d' % i, 'wb'); f.write(d); f.close()\n"
            "    assert os.listdir(I) == [], i\n"
            "stop = True\nfor x in t: x.join()"
        )
        self.python_gives(60, 60, script)

    def test_a_worker_that_inherited(self):
        script = (
            "f = open(I + '/a', 'wb', buffering=0); f.write(d)\n"
            "r, w = os.pipe()\nif os.fork() == 0:\n    os.close(w); os.read(r, 1); os._exit(0)\n"
            "f.close(); assert os.listdir(I) == ['a']; os.close(w); os.wait(); assert os.listdir(I) == []"
        )
        self.python_gives(1, 1, script)

    def test_threads(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
            "def work():\n    g = os.dup(f)\n    for _ in range(50): os.write(g, d)\n    os.close(g)\n"
            "t = [threading.Thread(target=work) for _ in range(8)]\nfor x in t: x.start()\n"
            "for x in t: x.join()\nassert os.listdir(I) == ['a']; os.close(f)\n"
            "assert os.listdir(I) == []"
        )
        self.python_gives(1, 400, script)

    def test_the_first_thread_ends_before_the_others(self):
        script = (
            "import ctypes\n"
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); g = os.dup(f); os.write(f, d)\n"
            "def work():\n"
            "    time.sleep(.2); os.close(f); assert os.listdir(I) == ['a']\n"
            "    os.write(g, d); os._exit(0)\n"
            "threading.Thread(target=work).start()\n"
            "ctypes.CDLL(None).pthread_exit(None)"
        )
        self.python_gives(1, 2, script)

    def test_exit_while_other_threads_run(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "for _ in range(4): threading.Thread(target=time.sleep, args=(60,)).start()\n"
            "def end():\n    time.sleep(.05); os._exit(0)\n"
            "threading.Thread(target=end).start(); time.sleep(60)"
        )
        for n in range(1, 6):
            result = self.python(script)
            self.assertEqual(result.status, 0, str(result))
            # Everyone is looked at, and where that takes too long it is left to the release.
            self.commits_soon(n, n)

    def test_passed_over_a_socket(self):
        script = (
            "import socket, array\n"
            "a, b = socket.socketpair()\n"
            "if os.fork() == 0:\n"
            "    b.close(); a.recv(1); m, anc, *_ = a.recvmsg(1, 64)\n"
            "    f = array.array('i', anc[0][2])[0]\n"
            "    a.send(b'x'); a.recv(1); os.write(f, d); os.close(f); os._exit(0)\n"
            "a.close()\nf = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "b.send(b'x'); socket.send_fds(b, [b'x'], [f]); b.recv(1)\n"
            "os.close(f); assert os.listdir(I) == ['a']\n"
            "b.send(b'x'); os.wait(); assert os.listdir(I) == []"
        )
        self.python_gives(1, 2, script)

    def test_in_flight_over_a_socket(self):
        # In the socket's queue nobody can see it: committed, and what comes later is a new commit.
        script = (
            "import socket, array\na, b = socket.socketpair()\n"
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "socket.send_fds(b, [b'x'], [f]); os.close(f); assert os.listdir(I) == []\n"
            "_, fds, *_ = socket.recv_fds(a, 1, 1); f = fds[0]\n"
            "try: os.pwrite(f, d, 0)\nexcept PermissionError: pass\nelse: sys.exit('written again')\n"
            "os.write(f, d + d); assert os.listdir(I) == ['a'], os.listdir(I)\n"
            "os.close(f); assert os.listdir(I) == []"
        )
        self.python_gives(2, 3, script)

    def test_reopened_through_proc(self):
        self.gives(1, 2, "(cat $S/s1; cat $S/s1 >> /dev/stdout) > $I/a")
        self.gives(1, 2, "(cat $S/s1; cat $S/s1 | tee -a /dev/stderr > /dev/null) 2> $I/a >&2")

    def test_read_write_descriptors(self):
        self.gives(1, 1, "exec 3<> $I/a; cat $S/s1 >&3; exec 3>&-")


class Namespaces(DropCase):
    def setUp(self):
        super().setUp()
        self.require_root()

    def test_another_mount_namespace(self):
        self.gives(1, 2, "unshare -m --propagation private sh -c '(cat $S/s1; cat $S/s1) > $I/a'")
        self.gives(
            1, 2,
            "mkdir $S/b; unshare -m --propagation private sh -c 'mount --bind $I $S/b && "
            "(cat $S/s1; sleep .1; cat $S/s1) > $S/b/a'",
        )  # fmt: skip

    def test_another_pid_namespace(self):
        self.gives(1, 2, "unshare -pf --kill-child sh -c '(cat $S/s1; sleep .1; cat $S/s1) > $I/a'")

    def test_a_writer_who_cannot_be_seen(self):
        # The mount is made in a namespace of processes of its own, and written to from outside.
        self.mnt.unmount()
        self.start(wrapper=("unshare", "-pf", "--kill-child"))
        self.mnt.expect_log("writers cannot be watched: /proc is not that of this process")
        self.gives(1, 3, "cp $S/s3 $I/a")

    def test_hidden_processes(self):
        self.gives(
            1, 2,
            "unshare -m --propagation private sh -c 'mount -t proc -o hidepid=2 proc /proc; "
            "(cat $S/s1; cat $S/s1) > $I/a'",
        )  # fmt: skip


class Killed(DropCase):
    def setUp(self):
        super().setUp()
        self.mnt.expect_log("incoming/k: incomplete: its writer .* was killed by signal")

    def test_after_a_write(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV):
            script = (
                "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
                "f = os.open(I + '/k', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
                f"os.kill(os.getpid(), {int(number)})"
            )
            with self.grows(0, 0):
                self.assertEqual(self.python(script).status, -number)
            self.assertListed("k", "k.error")
            note = self.mnt.read("incoming/k.error")
            self.assertRegex(note, rb"python3 \(process \d+\) was killed by signal %d" % number)
            self.gives(0, 0, "rm $I/k")

    def wrote(self):
        return os.path.exists(self.inc / "k") and os.stat(self.inc / "k").st_size > 0

    def test_in_the_middle_of_a_copy(self):
        self.file(ROW * 3000000, "big")
        with self.grows(0, 0):
            child = subprocess.Popen(["dd", f"if={self.scratch}/big", f"of={self.inc}/k", "bs=64", "status=none"])
            self.wait_for(self.wrote, "the first rows")
            self.assertIsNone(child.poll())
            child.kill()
            child.wait()
        self.assertListed("k", "k.error")

    def test_the_opener_while_a_child_goes_on(self):
        script = (
            "p = os.fork()\nif p == 0:\n"
            "    f = os.open(I + '/k', os.O_CREAT | os.O_WRONLY)\n"
            "    if os.fork() == 0:\n        time.sleep(.2); os.write(f, d); os.close(f); os._exit(0)\n"
            "    os.kill(os.getpid(), 9)\n"
            "os.wait()\nwhile not os.path.exists(I + '/k.error'): time.sleep(.01)"
        )
        self.python_gives(0, 0, script)

    def test_a_child_that_wrote(self):
        script = (
            "f = os.open(I + '/k', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "if os.fork() == 0:\n    os.write(f, d); os.kill(os.getpid(), 9)\n"
            "os.wait(); os.write(f, d)\n"
            "try: os.close(f)\nexcept OSError as e: assert e.errno == 5, e\nelse: sys.exit('closed')"
        )
        self.python_gives(0, 0, script)
        self.assertListed("k", "k.error")

    def test_the_whole_group(self):
        for _ in range(10):
            with self.grows(0, 0):
                child = subprocess.Popen(
                    ["sh", "-c", "(cat $S/s1; sleep 9; cat $S/s1) > $I/k"],
                    env={**os.environ, **self.env},
                    start_new_session=True,
                )
                self.wait_for(self.wrote, "the first row")
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                self.wait_for(lambda: "k.error" in os.listdir(self.inc), "k.error")
            self.drop("rm $I/k")

    def test_with_threads(self):
        script = (
            "f = os.open(I + '/k', os.O_CREAT | os.O_WRONLY)\n"
            "def w(): os.write(f, d)\nt = threading.Thread(target=w); t.start(); t.join()\n"
            "for _ in range(4): threading.Thread(target=time.sleep, args=(60,)).start()\n"
            "os.kill(os.getpid(), 9)"
        )
        for _ in range(5):
            with self.grows(0, 0):
                self.assertEqual(self.python(script).status, -9)
            self.assertListed("k", "k.error")
            self.drop("rm $I/k")

    def test_what_makes_it_good_again(self):
        kill = "f = os.open(I + '/k', os.O_CREAT | os.O_WRONLY); os.write(f, d); os.kill(os.getpid(), 9)"
        for mend, rows in (
            ("cat $S/s3 > $I/k", 3),
            ("cp $S/s3 $I/k", 3),
            ("truncate -s 0 $I/k; cat $S/s3 >> $I/k", 3),
            ("mv $I/k $I/named", 1),
            ("rsync --inplace $S/s3 $I/k", 3),
            ("dd if=$S/s3 of=$I/k conv=notrunc status=none", 3),
            ("cp $S/s3 $I/.k; mv $I/.k $I/k", 3),
        ):
            with self.subTest(mend=mend):
                with self.grows(0, 0):
                    self.assertEqual(self.python(kill).status, -9)
                self.gives(1, rows, mend)
                self.assertListed()
        with self.grows(0, 0):
            self.assertEqual(self.python(kill).status, -9)
        self.refuses("cat $S/s3 >> $I/k")  # behind half a file
        self.gives(0, 0, "touch $I/k")  # changes nothing, and is not told of it
        self.assertListed("k", "k.error")


class Unharmed(DropCase):
    def test_who_merely_inherited(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "if os.fork() == 0: os.kill(os.getpid(), 9)\n"
            "os.wait(); os.write(f, d); os.close(f)"
        )
        self.python_gives(1, 2, script)
        self.gives(1, 1, "exec 3> $I/a; sleep 9 & cat $S/s1 >&3; exec 3>&-; kill -9 $!; wait; :")

    def test_killed_after_its_close(self):
        script = (
            "f = os.open(I + '/a', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "if os.fork() == 0:\n    os.write(f, d); os.close(f); os.kill(os.getpid(), 9)\n"
            "os.wait(); os.write(f, d); os.close(f)"
        )
        for _ in range(5):
            self.python_gives(1, 3, script)

    def test_killed_with_a_temporary_name(self):
        script = "f = os.open(I + '/.k', os.O_CREAT | os.O_WRONLY); os.write(f, d); os.kill(os.getpid(), 9)"
        with self.grows(0, 0):
            self.assertEqual(self.python(script).status, -9)
        self.assertListed(".k")

    def test_failing_is_not_being_killed(self):
        with self.grows(1, 1):
            self.assertEqual(self.drop("(cat $S/s1; exit 3) > $I/a").status, 3)

    def test_sigpipe_of_a_neighbour(self):
        self.gives(1, 3, "cat $S/s3 | tee $I/a | head -c 1 > /dev/null; :")


class Exec(DropCase):
    """An exec that closes the file waits for our answer while it holds what /proc wants."""

    def loops(self):
        self.gives(100, 100, 'for i in $(seq 100); do sh -c "exec 5>$I/s; cat $S/s1 >&5; exec true"; done')
        script = (
            "for i in range(100):\n"
            "    if os.fork() == 0:\n"
            "        f = os.open(I + '/p', os.O_CREAT | os.O_WRONLY); os.write(f, d)\n"
            "        g = os.dup(f)\n        os.execv('/bin/true', ['true'])\n"
            "    assert os.wait()[1] == 0\n"
        )
        self.python_gives(100, 100, script, timeout=50)

    def test_loops(self):
        watcher = subprocess.Popen(
            ["sh", "-c", "while :; do cat /proc/[0-9]*/stat > /dev/null 2>&1; sleep .02; done"]
        )
        try:
            self.loops()
        finally:
            watcher.kill()
            watcher.wait()


class ExecSingleThreaded(Exec):
    arguments = ("-s",)
