# SPDX-License-Identifier: MIT
"""Python, Node, Perl and editors: one row each."""

import shlex

from drops import Drops, Row, add_rows, python


def node(code):
    head = "const fs = require('fs'), e = process.env, D = e.I + '/' + e.N, F = e.F;\n"
    return f"node -e {shlex.quote(head + code)}"


def perl(code):
    head = 'my ($F, $D) = ($ENV{F}, "$ENV{I}/$ENV{N}"); open(my $in, "<", $F); my @l = <$in>; '
    return f"perl -e {shlex.quote(head + code)}"


# An uncaught exception is status 1.
PYTHONS = [
    Row("py_with", python("with open(D, 'w') as f: f.write(open(F).read())"), n=3, bad=1),
    Row("py_close", python("f = open(D, 'w'); f.write(open(F).read()); f.close()"), n=3, bad=1),
    Row("py_append", python("with open(D, 'a') as f: f.write(open(F).read())"), n=3, bad=1),
    Row("py_exclusive", python("with open(D, 'x') as f: f.write(open(F).read())"), n=3, bad=1),
    Row("py_r_plus", python("open(D, 'x').close()\nwith open(D, 'r+') as f: f.write(open(F).read())"), n=3, bad=1),
    Row("py_not_closed", python("f = open(D, 'w'); f.write(open(F).read())"), n=3, bad=0),
    Row("py_one_liner", python("open(D, 'w').write(open(F).read())"), n=3, bad=0),
    Row("py_unbuffered", python("f = open(D, 'wb', buffering=0)\nfor l in open(F, 'rb'): f.write(l)\nf.close()"), n=30, bad=1),
    Row("py_print", python("f = open(D, 'w')\nfor l in open(F): print(l, end='', file=f)\nf.close()"), n=30, bad=1),
    Row("py_stdout", python("print(open(F).read(), end='')") + ' > "$I/$N"', n=3, bad=0),
    Row("py_os_write", python("f = os.open(D, os.O_CREAT | os.O_WRONLY)\nos.write(f, open(F, 'rb').read())\nos.close(f)"), n=3, bad=1),
    Row("py_os_exit", python("f = os.open(D, os.O_CREAT | os.O_WRONLY)\nos.write(f, open(F, 'rb').read())\nos._exit(0)"), n=3, bad=0),
    Row("py_fsync", python("with open(D, 'w') as f:\n for l in open(F): f.write(l); f.flush(); os.fsync(f.fileno())"), n=3, bad=1),
    Row("py_fsync_then_more", python("t = open(F).read()\nf = open(D, 'w'); f.write(t); f.flush(); os.fsync(f.fileno())\n"
        "assert os.listdir(I) == [N]\nf.write(t); f.close()"), n=2, rows=4, bad=1),
    Row("py_copy", python("import shutil; shutil.copy(F, D)"), n=3, bad=1),
    Row("py_copy2", python("import shutil; shutil.copy2(F, D)"), n=3, bad=1),
    Row("py_copyfile", python("import shutil; shutil.copyfile(F, D)"), n=3, bad=1),
    Row("py_move", python("import shutil; shutil.move(F, D)"), n=3, bad=1),
    Row("py_pathlib", python("import pathlib; pathlib.Path(D).write_bytes(open(F, 'rb').read())"), n=3, bad=1),
    Row("py_tempfile", python("import tempfile\nwith tempfile.NamedTemporaryFile('w', dir=I, prefix='.', delete=False) as f: f.write(open(F).read())\n"
        "os.replace(f.name, D)"), n=3, bad=1, bad_left=None),
    Row("py_tempfile_ordinary", python("import tempfile\nwith tempfile.NamedTemporaryFile('w', dir=I, delete=False) as f: f.write(open(F).read())\n"
        "os.replace(f.name, D)"), n=3, bad=1, bad_left=None),
    Row("py_rename_open", python("f = open(D + '.tmp', 'w'); f.write(open(F).read()); f.flush()\nos.rename(D + '.tmp', D); f.close()"), n=3, bad=1),
    Row("py_mmap_shared", python("import mmap\nf = open(D, 'w+b'); f.truncate(4096)\n"
        "try: mmap.mmap(f.fileno(), 4096)\nexcept OSError as e: os.ftruncate(f.fileno(), 0); sys.exit(e.errno)"),
        versions=0, status=19, left=("N",)),
    Row("py_mmap_source", python("import mmap\nf = open(F, 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "with open(D, 'wb') as o: o.write(m)"), n=3, bad=1),
    Row("py_sendfile", python("a, b = open(F, 'rb'), open(D, 'wb')\nwhile os.sendfile(b.fileno(), a.fileno(), None, 1 << 20): pass\nb.close()"), n=3000, bad=1),
    Row("py_splice", python("a, b = open(F, 'rb'), open(D, 'wb'); r, w = os.pipe()\n"
        "while (n := os.splice(a.fileno(), w, 65536)): os.splice(r, b.fileno(), n)\nb.close()"), n=3000, bad=1),
    Row("py_copy_file_range", python("import errno\na, b = open(F, 'rb'), open(D, 'wb')\n"
        "try: os.copy_file_range(a.fileno(), b.fileno(), 1 << 20)\n"
        "except OSError as e:\n  assert e.errno in (errno.EXDEV, errno.EOPNOTSUPP), e\n  b.write(a.read())\nb.close()"), n=3, bad=1),
    Row("py_writev", python("f = os.open(D, os.O_CREAT | os.O_WRONLY)\nos.writev(f, open(F, 'rb').readlines())\nos.close(f)"), n=30, bad=1),
    Row("py_backwards", python("t = open(F, 'rb').read(); f = os.open(D, os.O_CREAT | os.O_WRONLY)\n"
        "for i in reversed(range(len(t))): os.pwrite(f, t[i:i+1], i)\nos.close(f)"), n=3, bad=1),
    Row("py_hole", python("f = os.open(D, os.O_CREAT | os.O_WRONLY)\nos.pwrite(f, open(F, 'rb').read(), 100)\n"
        "try: os.close(f)\nexcept OSError as e: sys.exit(e.errno)"), versions=0, status=22, left=("N", "N.error"), says="."),
    Row("py_posix_fallocate", python("t = open(F, 'rb').read(); f = os.open(D, os.O_CREAT | os.O_RDWR)\n"
        "try: os.posix_fallocate(f, 0, 100)\nexcept OSError: pass\nos.write(f, t); os.ftruncate(f, len(t)); os.close(f)"), n=3, bad=1),
    Row("py_popen", python("import subprocess\nf = open(D, 'w'); p = subprocess.Popen(['cat', F], stdout=f); f.close(); sys.exit(p.wait())"), n=3, bad=None),
    Row("py_popen_slow", python("import subprocess\nf = open(D, 'w'); p = subprocess.Popen(['sh', '-c', 'sleep .2; cat \"$F\"'], stdout=f); f.close()\n"
        "assert os.listdir(I) == [N]; sys.exit(p.wait())"), n=3, bad=0),
    Row("py_run", python("import subprocess\nwith open(D, 'w') as f: subprocess.run(['cat', F], stdout=f, check=True)"), n=3, bad=1),
    Row("py_run_both", python("import subprocess\nwith open(D, 'w') as f: subprocess.run(['cat', F], stdout=f, stderr=f, check=True)"), n=3, bad=1),
    Row("py_system_meanwhile", python("f = open(D, 'w'); f.write(open(F).read()); f.flush()\nos.system('true'); f.close()"), n=3, bad=1),
    Row("py_multiprocessing", python("import multiprocessing as m\nf = os.open(D, os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "def w(l): os.write(f, l)\n"
        "c = m.get_context('fork'); p = [c.Process(target=w, args=(l,)) for l in open(F, 'rb')]\n"
        "[x.start() for x in p]; [x.join() for x in p]; os.close(f)"), n=8, bad=1),
    Row("py_pool", python("import multiprocessing as m\nf = os.open(D, os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "def w(l): os.write(f, l)\n"
        "p = m.get_context('fork').Pool(4); p.map(w, open(F, 'rb').readlines()); p.close(); p.join()\nos.close(f)"), n=20, bad=1),
    # So may end what `with Pool` ends: its workers get a SIGTERM, and those that wrote count.
    Row("py_terminated", python("import multiprocessing as m, time\nf = os.open(D, os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "r, w = os.pipe()\n"
        "def work(): os.write(f, open(F, 'rb').read()); os.write(w, b'.'); time.sleep(60)\n"
        "p = m.get_context('fork').Process(target=work); p.start(); os.read(r, 1); p.terminate(); p.join()\nos.close(f)"),
        n=20, versions=0, status=1, left=("N", "N.error"), says="was killed by signal 15"),
    Row("py_pool_of_files", python("import multiprocessing as m\n"
        "def w(i):\n with open(D + str(i), 'wb') as f: f.write(open(F, 'rb').read())\n"
        "with m.get_context('fork').Pool(4) as p: p.map(w, range(20))"), versions=20, rows=20),
    Row("py_threads", python("import threading\nf = os.open(D, os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "t = [threading.Thread(target=os.write, args=(f, l)) for l in open(F, 'rb')]\n"
        "[x.start() for x in t]; [x.join() for x in t]; os.close(f)"), n=8, bad=1),
    Row("py_csv_like_logging", python("import logging\nlogging.basicConfig(filename=D, format='%(message)s', level=0)\n"
        "for l in open(F): logging.info(l.strip())"), n=3, bad=0),
    Row("py_json_dump", python("import json\nwith open(D, 'w') as f:\n  for l in open(F): json.dump(json.loads(l), f); f.write('\\n')"), n=3, bad=1),
    Row("py_gzip_open", python("import gzip\nwith gzip.open(D, 'w') as f: f.write(open(F, 'rb').read())"), versions=0, status=1, left=("N", "N.error"), says="gzip"),
]

NODES = [
    Row("node_write_file_sync", node("fs.writeFileSync(D, fs.readFileSync(F))"), n=3, bad=1, needs=("node",)),
    Row("node_write_file", node("fs.writeFile(D, fs.readFileSync(F), x => { if (x) process.exit(3) })"), n=3, bad=3, needs=("node",)),
    Row("node_promises", node("fs.promises.writeFile(D, fs.readFileSync(F)).catch(() => process.exit(3))"), n=3, bad=3, needs=("node",)),
    Row("node_stream", node("fs.createReadStream(F).pipe(fs.createWriteStream(D)).on('error', () => process.exit(3))"), n=3000, bad=3, needs=("node",)),
    Row("node_copy_file", node("fs.copyFile(F, D, x => { if (x) process.exit(3) })"), n=3, bad=3, bad_left=(), needs=("node",)),
    Row("node_append_file", node("fs.appendFile(D, fs.readFileSync(F), x => { if (x) process.exit(3) })"), n=3, bad=3, needs=("node",)),
    Row("node_close_sync", node("const f = fs.openSync(D, 'w'); fs.writeSync(f, fs.readFileSync(F)); fs.closeSync(f)"), n=3, bad=1, needs=("node",)),
    Row("node_child", node("const f = fs.openSync(D, 'w'); require('child_process').spawn('cat', [F], {stdio: ['ignore', f, 2]}); fs.closeSync(f)"), n=3, needs=("node",)),
    Row("node_console_log", node("process.stdout.write(fs.readFileSync(F))") + ' > "$I/$N"', n=3, bad=0, needs=("node",)),
]

# Looking at a refused file through a descriptor that could write it, and mending it in place.
LOOKS = [
    Row("r_plus_looks", 'cp "$W" "$I/$N"; ' + python("f = open(D, 'r+')\nassert 'wrong' in f.read()\nf.close()"),
        versions=0, left=("N", "N.error")),
    Row("r_plus_looks_by_dup", 'cp "$W" "$I/$N"; ' + python("f = os.open(D, os.O_RDWR)\ng = os.dup(f)\nos.read(f, 9)\nos.close(f)\nos.close(g)"),
        versions=0, left=("N", "N.error")),
    Row("r_plus_locks", 'cp "$W" "$I/$N"; flock "$I/$N" true && exec 9<> "$I/$N" && exec 9>&-', versions=0, left=("N", "N.error")),
    Row("r_plus_looks_and_another_mends", 'cp "$W" "$I/$N"; ' + python("a = open(D, 'r+'); b = open(D, 'w')\nb.write(open(F).read()); b.close()\na.close()"),
        bad=1),
    Row("r_plus_mends", 'cp "$W" "$I/$N"; ' + python("f = open(D, 'r+')\nt = f.read()\nf.seek(0); f.write(t.replace('\"wrong\"', os.environ['ID'])); f.truncate(); f.close()"),
        bad=1),
    Row("truncate_by_name", 'head -n -1 "$F" > good; (cat good "$W") > "$I/$N"; rm log; ' + python("os.truncate(D, os.path.getsize('good'))\nf = open(D, 'r+'); f.close()"),
        n=3, rows=2),
    Row("proc_fd_of_what_was_committed", python("f = open(D, 'w'); f.write(open(F).read()); f.flush()\ng = os.open(D, os.O_PATH)\nf.close()\n"
        "try: os.open(f'/proc/self/fd/{g}', os.O_WRONLY)\nexcept OSError: pass\n"
        "import time\nend = time.monotonic() + 30\nwhile os.listdir(I):\n  assert time.monotonic() < end\n  time.sleep(.1)")),
]

PERLS = [
    Row("perl_print", perl('open(my $o, ">", $D); print $o @l; close($o) or die'), n=3, bad=22),
    Row("perl_unchecked", perl('open(my $o, ">", $D); print $o @l; close($o)'), n=3, bad=0),
    Row("perl_not_closed", perl('open(my $o, ">", $D); print $o @l'), n=3, bad=0),
    Row("perl_file_copy", perl('use File::Copy; copy($F, $D) or die'), n=3, bad=22),
    Row("perl_pi", 'cp "$W" "$I/$N" 2>/dev/null; perl -pi -e "s/\\"wrong\\"/$ID/" "$I/$N" 2>log', bad=22),
    Row("perl_pi_bak", 'cp "$W" "$I/$N" 2>/dev/null; perl -pi.bak -e "s/\\"wrong\\"/$ID/" "$I/$N"', left=("N.bak", "N.bak.error")),
    Row("perl_pi_orig", 'cp "$W" "$I/$N" 2>/dev/null; perl -pi.orig -e "s/\\"wrong\\"/$ID/" "$I/$N"', left=("N.orig", "N.orig.error")),
    Row("perl_pi_backup", 'cp "$W" "$I/$N" 2>/dev/null; perl -pi~ -e "s/\\"wrong\\"/$ID/" "$I/$N"', left=("N~", "N~.error")),
]

EDITORS = [
    Row("vim_new", 'vim -N -u NONE -i NONE -es -c ":normal i{\\"id\\":$ID}" -c wq "$I/$N"', bad=1, needs=("vim",)),
    Row("vim_quits", 'vim -N -u NONE -i NONE -es -c q "$I/$N"', versions=0, needs=("vim",)),
    Row("vim_repairs", 'cp "$W" "$I/$N" 2>/dev/null; vim -N -u NONE -i NONE -es -c "%s/\\"wrong\\"/$ID/" -c wq "$I/$N"', bad=1, needs=("vim",)),
    Row("vim_backup", 'cp "$W" "$I/$N" 2>/dev/null; vim -N -u NONE -i NONE -es -c "set backup backupcopy=no backupskip=" -c "%s/\\"wrong\\"/$ID/" -c wq "$I/$N"',
        left=("N~", "N~.error"), needs=("vim",)),
    Row("vim_terminal", 'cp "$W" "$I/$N" 2>/dev/null; $HERE/at_terminal.py "|:%s/\\"wrong\\"/$ID/"$\'\\r|:wq\\r\' vim -N -u NONE -i NONE "$I/$N" > screen',
        needs=("vim",)),
    Row("vim_50_times", 'for i in {1..50}; do vim -N -u NONE -i NONE -es -c ":normal i{\\"id\\":$ID}" -c wq "$I/$N" || exit; done',
        versions=50, rows=50, needs=("vim",)),
    Row("nano_new", '$HERE/at_terminal.py "|{\\"id\\":$ID}|"$\'\\x0f|\\r|\\x18\' nano -I "$I/$N" > screen', needs=("nano",)),
    Row("nano_repairs", 'cp "$W" "$I/$N" 2>/dev/null; $HERE/at_terminal.py $\'|\\x0b\'"{\\"id\\":$ID}|"$\'\\x0f|\\r|\\x18\' nano -I "$I/$N" > screen', needs=("nano",)),
    Row("nano_refused", '$HERE/at_terminal.py $\'|{bad|\\x0f|\\r|\\x18|n\' nano -I "$I/$N" > screen; grep -aq "Invalid argument" screen',
        versions=0, left=("N", "N.error"), says=".", needs=("nano",)),
    Row("ed", 'printf "a\\n{\\"id\\":%s}\\n.\\nw\\nq\\n" "$ID" | ed -s "$I/$N"', bad=1, needs=("ed",)),
    Row("ed_repairs", 'cp "$W" "$I/$N" 2>/dev/null; printf ",s/\\"wrong\\"/%s/\\nw\\nq\\n" "$ID" | ed -s "$I/$N"', bad=1, needs=("ed",)),
    Row("ex", 'cp "$W" "$I/$N" 2>/dev/null; ex -s -u NONE -i NONE -c "%s/\\"wrong\\"/$ID/" -c x "$I/$N"', bad=1, needs=("ex",)),
    # It opens what it has saved once more, for writing, and writes nothing: no file is left of that.
    Row("emacs", 'emacs -Q --batch "$I/$N" --eval "(progn (insert \\"{\\\\\\"id\\\\\\":\\" (getenv \\"ID\\") \\"}\\n\\") (save-buffer))" 2>log;'
        ' s=$?; while test $s = 0 -a -e "$I/$N"; do :; done; exit $s', bad=255, needs=("emacs",)),
    Row("emacs_repairs", 'cp "$W" "$I/$N" 2>/dev/null; emacs -Q --batch "$I/$N" --eval '
        '"(progn (search-forward \\"\\\\\\"wrong\\\\\\"\\") (replace-match (getenv \\"ID\\") t t) (save-buffer))" 2>log;'
        ' s=$?; while test $s = 0 -a -e "$I/$N"; do :; done; exit $s', bad=255, needs=("emacs",)),
]


class Python(Drops):
    pass


add_rows(Python, PYTHONS)


class Node(Drops):
    pass


add_rows(Node, NODES)


class Looks(Drops):
    pass


add_rows(Looks, LOOKS)


class Perl(Drops):
    pass


add_rows(Perl, PERLS)


class Editors(Drops):
    pass


add_rows(Editors, EDITORS)
