# SPDX-License-Identifier: MIT
"""Programs that copy, move, unpack and download into incoming/: one row each."""

import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import threading

import harness
from drops import Drops, Row, add_rows

COPY = [
    Row("cp", 'cp "$F" "$I/$N"', bad=1),
    Row("cp_into", 'cp "$F" "$N" && cp "$N" "$I/"', bad=1),
    Row("cp_many_rows", 'cp "$F" "$I/$N"', n=30000, bad=1),
    Row("cp_p", 'cp -p "$F" "$I/$N"', bad=1),
    Row("cp_a", 'cp -a "$F" "$I/$N"', bad=1),
    Row("cp_preserve_all", 'setfattr -n user.k -v 1 "$F"; cp --preserve=all "$F" "$I/$N"', bad=1, needs=("setfattr",)),
    Row("cp_read_only", 'chmod 444 "$F"; cp -p "$F" "$I/$N"', bad=1),
    Row("cp_r", 'mkdir d; cp "$F" d/; cp -r d "$I/"', versions=0, status=1),
    Row("cp_two", 'cp "$F" a; cp "$F" b; cp a b "$I/"', versions=2, rows=2, bad=1,
        bad_left=("a", "a.error", "b", "b.error")),
    Row("cp_n", 'cp -n "$F" "$I/$N"', bad=1),
    Row("cp_reflink", 'cp --reflink=auto "$F" "$I/$N"', bad=1),
    Row("cp_sparse", 'cp --sparse=always "$F" "$I/$N"', n=3000, bad=1),
    Row("cp_again", 'cp "$F" "$I/$N" && cp "$F" "$I/$N"', versions=2, rows=2, bad=1),
    Row("cp_backup", 'cp -b "$F" "$I/$N"', bad=1),
    Row("cp_over_refused", 'cp "$W" "$I/$N" 2>/dev/null; cp "$F" "$I/$N"', bad=1),
    Row("cp_f_over_refused", 'cp "$W" "$I/$N" 2>/dev/null; cp -f "$F" "$I/$N"', bad=1),
    Row("cp_remove_destination", 'cp "$W" "$I/$N" 2>/dev/null; cp --remove-destination "$F" "$I/$N"', bad=1),
    Row("cp_u", 'cp -u "$F" "$I/$N"', bad=1),
    Row("cp_odd_names", 'for n in "a b" "#x" "$(printf "x\\ny")" "$(printf "\\377")" v3 latest; do'
        ' cp "$F" "$I/$n" || exit; done; cp -- "$F" "$I/-o"', versions=7, rows=7),
    Row("cp_long_name", 'cp "$F" "$I/$(printf %0222d 0)" && ! cp "$F" "$I/$(printf %0223d 0)"'),
    Row("rsync_long_name", 'N=$(printf %0222d 0); cp "$F" "$S/$N" && rsync "$S/$N" "$I/" && cp "$F" "$S/0$N"'
        ' && ! rsync "$S/0$N" "$I/" 2>/dev/null && rm "$S/0$N" "$S/$N"'),
    Row("cp_temporary", 'cp "$F" "$I/.$N" && cp "$F" "$I/$N.part" && mv "$I/.$N" "$I/$N"',
        left=("N.part",), bad=1, bad_left=(".N", "N.part", ".N.error")),
    Row("cp_after_reading", 'for i in {1..50}; do cat "$M/v0/data.jsonl"; done; cp "$F" "$I/$N"', bad=1),
    Row("cp_refused_is_listed", 'cp "$W" "$I/$N" 2>/dev/null; ls -la "$I" "$M" 2>&1 >/dev/null | grep .; test $? = 1',
        versions=0, left=("N", "N.error")),
    Row("cp_umask", 'umask 077; cp "$W" "$I/$N" 2>/dev/null; test "$(stat -c %a "$I/$N")" = 600',
        versions=0, left=("N", "N.error")),
    Row("cat_umask", '(umask 027; cat "$W" > "$I/$N") 2>/dev/null; test "$(stat -c %a "$I/$N")" = 640',
        versions=0, left=("N", "N.error")),
    Row("setfattr", 'cp "$W" "$I/$N" 2>/dev/null; setfattr -n user.a -v 1 "$I/$N"',
        versions=0, left=("N", "N.error"), needs=("setfattr",)),
    Row("getfattr", 'cp "$W" "$I/$N" 2>/dev/null; getfattr -d -m - "$I/$N" 2>&1 | grep -q "not supported"',
        versions=0, left=("N", "N.error"), needs=("getfattr",)),
    Row("sync_f", 'cp "$F" "$I/$N" && sync -f "$M" && sync "$I"', bad=1),
    Row("cp_from_the_mount", 'cp "$F" "$I/$N" && cp "$M"/v0/data.jsonl "$I/empty" && rm "$I/empty"', bad=1),
    Row("cp_error_name", 'cp "$F" "$I/$N.error"', versions=0, status=1),
    Row("cp_empty", ': > e; cp e "$I/$N"', versions=0, left=("N",)),
    Row("mv", 'mv "$F" "$I/$N" && ! test -e "$F"', bad=1),
    Row("mv_keeps_refused", 'mv "$F" "$I/$N"; s=$?; test $s = 0 || test -e "$F" || exit 9; exit $s', bad=1),
    Row("mv_n", 'mv -n "$F" "$I/$N"', bad=1),
    Row("mv_n_over_refused", 'cp "$W" "$I/$N"; mv -n "$F" "$I/$N"; test -e "$F"',
        versions=0, left=("N", "N.error")),
    Row("mv_retries", 'cp "$W" "$I/$N"; mv "$I/$N" "$I/$N.x"', versions=0, status=1,
        left=("N", "N.error")),
    Row("mv_out", 'cp "$W" "$I/$N"; mv "$I/$N" "$S/out" && cmp "$W" out', versions=0),
    Row("mv_note", 'cp "$W" "$I/$N"; mv "$I/$N.error" "$I/$N.txt"', versions=0, status=1,
        left=("N", "N.error")),
    Row("rm_both", 'cp "$W" "$I/$N"; rm "$I/$N"', versions=0),
    Row("rm_everything", 'cp "$W" "$I/$N"; rm "$I"/*', versions=0),
    Row("find_delete", 'cp "$W" "$I/$N"; find "$I" -type f -delete', versions=0),
    Row("rm_note", 'cp "$W" "$I/$N"; rm "$I/$N.error"', versions=0, left=("N",)),
    Row("note_is_read_only", 'cp "$W" "$I/$N"; cp "$F" "$I/$N.error"', versions=0, status=1,
        left=("N", "N.error")),
    Row("install", 'install -m 600 "$F" "$I/$N"', bad=1),
    Row("install_o", 'install -o nobody -g nogroup -p "$F" "$I/$N"', bad=1, root=True),
    Row("ln", 'ln "$F" "$I/$N"', versions=0, status=1),
    Row("ln_inside", 'cp "$W" "$I/$N"; ln "$I/$N" "$I/x"', versions=0, status=1, left=("N", "N.error")),
    Row("ln_s", 'ln -s "$F" "$I/$N"', versions=0, status=1),
    Row("mkdir", 'mkdir "$I/$N"', versions=0, status=1),
    Row("mkfifo", 'mkfifo "$I/$N"', versions=0, status=1),
    Row("touch", 'touch "$I/$N"', versions=0, left=("N",)),
    Row("touch_then_write", 'touch "$I/$N" && cat "$F" > "$I/$N"', bad=1),
    Row("mktemp", 'cp "$F" "$(mktemp "$I/XXXXXX")"'),
    Row("mknod", 'mknod "$I/$N" c 1 3', versions=0, status=1, root=True),
    Row("truncate_0", 'truncate -s 0 "$I/$N"', versions=0, left=("N",)),
    Row("truncate_empties_refused", 'cp "$W" "$I/$N"; truncate -s 0 "$I/$N"', versions=0, left=("N",)),
    Row("truncate_cuts", 'cat "$F" "$W" > x; cp x "$I/$N"; truncate -s "$(stat -c %s "$F")" "$I/$N"',
        bad=1),
    Row("truncate_20", 'truncate -s 20 "$I/$N"', versions=0, status=1, left=("N", "N.error"), says="NUL|control|JSON|object"),
    Row("fallocate", 'fallocate -l 100 "$I/$N"', versions=0, status=1, left=("N",)),
    Row("dd", 'dd if="$F" of="$I/$N" status=none', n=3, bad=1),
    Row("dd_fsync", 'dd if="$F" of="$I/$N" conv=fsync status=none', n=3, bad=1),
    Row("dd_fdatasync", 'dd if="$F" of="$I/$N" conv=fdatasync status=none', n=3, bad=1),
    Row("dd_bs_7", 'dd if="$F" of="$I/$N" bs=7 status=none', n=300, bad=1),
    Row("dd_append", 'dd if="$F" of="$I/$N" oflag=append conv=notrunc status=none', n=3, bad=1),
    Row("dd_direct", 'dd if="$F" of="$I/$N" oflag=direct bs=512 status=none', n=300, bad=1),
    Row("dd_direct_padded", 'dd if="$F" of="$I/$N" oflag=direct bs=512 conv=sync status=none',
        versions=0, status=1, left=("N", "N.error"), says="."),
    Row("tee", 'tee "$I/$N" < "$F" > /dev/null', n=3, bad=1),
    Row("tee_a", 'tee -a "$I/$N" < "$F" > /dev/null', n=3, bad=1),
    Row("tee_two", 'tee "$I/$N" "$I/$N.2" < "$F" > /dev/null', versions=2, rows=2, bad=1,
        bad_left=("N", "N.error", "N.2", "N.2.error")),
]

RSYNC = [
    Row("rsync", 'rsync "$F" "$I/$N"', n=3, bad=23, bad_left=()),
    Row("rsync_a", 'rsync -a "$F" "$I/$N"', n=3, bad=23, bad_left=()),
    Row("rsync_again", 'rsync -a "$F" "$I/$N" && rsync -a "$F" "$I/$N"', versions=2, rows=2),
    Row("rsync_inplace", 'rsync --inplace "$F" "$I/$N"', n=3, bad=11),
    Row("rsync_a_inplace", 'rsync -a --inplace "$F" "$I/$N"', n=3, bad=11),
    Row("rsync_partial", 'rsync --partial "$F" "$I/$N"', bad=23, bad_left=()),
    Row("rsync_folder", 'mkdir d; cp "$F" d/"$N"; rsync -a d/ "$I/"', bad=23, bad_left=()),
    Row("rsync_private_folder", 'mkdir -m 700 d; cp "$F" d/"$N"; touch -d 2001-01-01 d; rsync -a d/ "$I/"', bad=23, bad_left=()),
    Row("cp_a_private_folder", 'mkdir -m 700 d; cp "$F" d/"$N"; cp -a d/. "$I"', bad=1),
    Row("tar_private_folder", 'mkdir -m 700 d; cp "$F" d/"$N"; tar c -C d . | tar xp -C "$I"', bad=2),
    Row("copytree_private_folder", 'mkdir -m 700 d; cp "$F" d/"$N"; python3 -c '
        "'import shutil; shutil.copytree(\"d\", \"'$I'\", dirs_exist_ok=True)'", bad=1),
    Row("rsync_folders", 'mkdir -p d/sub; cp "$F" d/"$N"; cp "$F" d/sub; rsync -a d/ "$I/"', status=23),
    # From another file system rsync does not rename but copy.
    Row("rsync_temp_dir", 'mkdir t; rsync --temp-dir="$S/t" "$F" "$I/$N"', bad=23),
    # It wants a folder in incoming/; where there is none it says so, and ends with 0.
    # It ends with 0, with nothing copied.
    Row("rsync_delay_updates", 'rsync --delay-updates "$F" "$I/$N" 2> err && grep -q "Unable to create partial-dir" err', versions=0),
    Row("rsync_empty", 'rsync /dev/null "$I/"; rsync "$F" "$I/$N"'),
    Row("rsync_ssh_like", 'rsync -az --rsh="sh -c \'shift; exec sh -c \\"\\$*\\"\' sh" "$F" "host:$I/$N"', bad=23, bad_left=()),
    # 1 MiB/s: it is still writing when it is ended.
    Row("rsync_interrupted", 'rsync --bwlimit=1m "$F" "$I/$N" & while ! ls -A "$I" | grep -q "^[.]$N"; do :; done;'
        " kill -INT $!; wait $!", n=300000, versions=0, status=20),
    # Here it gives what it has the final name, which is refused: it ends inside a row.
    Row("rsync_partial_interrupted", 'rsync --partial --bwlimit=1m "$F" "$I/$N" & '
        'until [ "$(stat -c %s "$I"/."$N".* 2>/dev/null || echo 0)" -gt 100000 ]; do :; done;'
        " kill -INT $!; wait $!", n=300000, versions=0, status=20),
    Row("rsync_killed", 'setsid rsync --bwlimit=1m "$F" "$I/$N" & until ls -A "$I" | grep -q "^[.]$N"; do :; done;'
        ' kill -KILL -$!; wait $! 2>/dev/null; [ "$(ls -A "$I" | wc -l)" = 1 ] && rm "$I"/.rsync*',
        n=300000, versions=0),
]

ARCHIVES = [
    Row("tar_x", 'cp "$F" "$N"; tar cf a.tar "$N"; tar xf a.tar -C "$I"', n=3, bad=2),
    Row("tar_xz", 'cp "$F" "$N"; tar czf a.tgz "$N"; tar xzf - -C "$I" < a.tgz', n=3, bad=2),
    Row("tar_two", 'cp "$F" "$N.a"; cp "$F" "$N.b"; tar c "$N.a" "$N.b" | tar xp -C "$I"', versions=2, rows=2),
    Row("cpio_i", 'cp "$F" "$N"; echo "$N" | cpio -o --quiet > a; cd "$I"; cpio -i --quiet < "$S/a"', n=3, bad=2, needs=("cpio",)),
    Row("cpio_p", 'cp "$F" "$N"; echo "$N" | cpio -p --quiet -m "$I"', n=3, bad=2, needs=("cpio",)),
    Row("unzip", 'cp "$F" "$N"; zip -q a.zip "$N"; unzip -q a.zip -d "$I"', n=3, bad=0, needs=("zip", "unzip")),
    # It leaves the temporary file that was refused, under a name of its own.
    Row("zip_is_refused", 'zip -q "$I/$N.zip" "$F" > out 2>&1; test $? != 0 && grep -q zip "$I"/zi*.error && rm "$I"/zi??????',
        versions=0, needs=("zip",)),
    Row("gunzip_c", 'gzip "$F"; gunzip -c "$F.gz" > "$I/$N"', n=3, bad=1),
    Row("gunzip_in_place", 'cp "$F" "$N"; gzip "$N"; gunzip -c < "$N.gz" | dd of="$I/$N" status=none', bad=1),
    Row("zcat", 'gzip "$F"; zcat "$F.gz" > "$I/$N"', n=3, bad=1),
    Row("gzip_is_refused", 'gzip -c "$F" > x; cp x "$I/$N"', versions=0, status=1, left=("N", "N.error"), says="gzip"),
    Row("git_checkout_index", 'git init -q; cp "$F" "$N"; git add "$N"; git checkout-index --prefix="$I/" "$N"',
        n=3, bad=0, needs=("git",)),
]

NETWORK = [
    Row("curl_file", 'curl -s -o "$I/$N" "file://$F"', bad=23, needs=("curl",)),
    Row("curl_http", 'curl -s -o "$I/$N" "$URL"', n=3000, bad=23, needs=("curl",)),
    Row("wget", 'wget -q -O "$I/$N" "$URL"', n=3000, bad=3, needs=("wget",)),
    Row("scp", 'scp -q -F ssh.conf "$F" "here:$I/$N"', n=3, bad=1, needs=("scp", "sshd")),
    Row("scp_old", 'scp -O -q -F ssh.conf "$F" "here:$I/$N"', n=3, bad=1, needs=("scp", "sshd")),
    Row("sftp", 'printf "put %s %s\\n" "$F" "$I/$N" | sftp -q -b - -F ssh.conf here', n=3, bad=1, needs=("sftp", "sshd")),
    Row("ssh_cat", 'ssh -F ssh.conf here "cat > $I/$N" < "$F"', n=3, bad=1, needs=("sshd",)),
    Row("rsync_ssh", 'rsync -e "ssh -F ssh.conf" "$F" "here:$I/$N"', n=3, bad=23, bad_left=(), needs=("sshd",)),
]


class Copying(Drops):
    pass


add_rows(Copying, COPY)


class Rsync(Drops):
    needs = ("rsync",)


add_rows(Rsync, RSYNC)


class Archives(Drops):
    pass


add_rows(Archives, ARCHIVES)


class _FileServer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = pathlib.Path(self.server.file).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Network(Drops):
    """Over the loopback interface, from servers of our own."""

    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _FileServer)
        self.server.file = self.scratch / "rows.jsonl"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        if "sshd" in self.row_needs():
            self.require_root()
            self.start_sshd()

    def row_needs(self):
        row = self._testMethodName.removeprefix("test_").removesuffix("__bad")
        return next(r.needs for r in NETWORK if r.name == row)

    def start_sshd(self):
        sshd = self.require_tool("sshd")
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for name in ("host", "user"):
            self.ok(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)])
        shutil.copy(self.path("user.pub"), self.path("authorized"))
        subsystem = next(p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server",
                                     "internal-sftp") if not p.startswith("/") or os.path.exists(p))
        # Another program may take the port in between.
        for _ in range(10):
            port = self.serve(sshd, subsystem)
            if port:
                break
        self.assertTrue(port, self.path("sshd.log").read_text())
        self.path("ssh.conf").write_text(
            f"Host here\nHostName 127.0.0.1\nPort {port}\nUser root\n"
            f"IdentityFile {self.path('user')}\nStrictHostKeyChecking no\n"
            f"UserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        )

    def serve(self, sshd, subsystem):
        """Starts it on a port that was free; returns the port, or None where it did not start."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = {
            "ListenAddress": f"127.0.0.1:{port}",
            "HostKey": self.path("host"),
            "AuthorizedKeysFile": self.path("authorized"),
            "PidFile": "none",
            "StrictModes": "no",
            "PermitRootLogin": "yes",
            "UsePAM": "yes",
            "Subsystem": f"sftp {subsystem}",
        }
        self.path("sshd.conf").write_text("".join(f"{k} {v}\n" for k, v in options.items()))
        with open(self.path("sshd.log"), "wb") as log:
            daemon = subprocess.Popen(
                [sshd, "-D", "-e", "-f", self.path("sshd.conf")],
                stderr=log,
                preexec_fn=harness._die_with_parent,
            )
        self.kill_later(daemon)
        log = self.path("sshd.log")
        self.wait_for(
            lambda: b"Server listening" in log.read_bytes() or daemon.poll() is not None, "sshd serves"
        )
        return port if daemon.poll() is None else None

    def row_environment(self):
        return {"URL": f"http://127.0.0.1:{self.server.server_address[1]}/rows"}


add_rows(Network, NETWORK)
