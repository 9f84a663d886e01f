# SPDX-License-Identifier: MIT
"""What shells do: redirections of all kinds, background jobs, filters; one row each."""

import os

from drops import Drops, Row, add_rows

# The last command is bash's own where the drop's close is not: what it ends with is not ours.
REDIRECTIONS = [
    Row("cat_to", 'cat "$F" > "$I/$N"', n=3, bad=1),
    Row("cat_append", 'cat "$F" >> "$I/$N"', n=3, bad=1),
    Row("cat_clobber", 'set -C; cat "$F" >| "$I/$N"', n=3, bad=1),
    Row("cat_noclobber", 'set -C; cat "$F" > "$I/$N"', n=3, bad=1),
    Row("here_document", 'cat > "$I/$N" <<end\n{"id":$ID}\nend', bad=1),
    Row("here_string", 'cat > "$I/$N" <<< "{\\"id\\":$ID}"', bad=1),
    Row("echo_to", 'echo "{\\"id\\":$ID}" > "$I/$N"', bad=0),
    Row("echo_append", 'echo "{\\"id\\":$ID}" >> "$I/$N"', bad=0),
    Row("bin_echo", '/bin/echo "{\\"id\\":$ID}" > "$I/$N"', bad=1),
    Row("echo_dash", 'dash -c \'echo "{\\"id\\":$ID}" > "$I/$N"\'', bad=0),
    # Each >> of the loop is a drop of its own; its name is free again at once.
    Row("printf_loop_append", 'while read -r l; do printf "%s\\n" "$l" >> "$I/$N"; done < "$F"',
        n=3, versions=3, rows=3, bad=0),
    Row("loop_to", 'while read -r l; do printf "%s\\n" "$l"; done < "$F" > "$I/$N"', n=3, bad=0),
    Row("loop_of_programs", 'while read -r l; do /bin/echo "$l"; done < "$F" > "$I/$N"', n=3, bad=0),
    Row("subshell", '(cat "$F"; sleep .05; cat "$F") > "$I/$N"', rows=2, bad=1),
    Row("group", '{ cat "$F"; sleep .05; cat "$F"; } > "$I/$N"', rows=2, bad=0),
    Row("group_of_builtins", '{ l=$(<"$F"); echo "$l"; echo "$l"; } > "$I/$N"', rows=2, bad=0),
    Row("group_append", '{ cat "$F"; cat "$F"; } >> "$I/$N"', rows=2, bad=0),
    Row("pipeline_group", '(cat "$F" | cat; cat "$F" | tee /dev/stderr 2>/dev/null) > "$I/$N"', rows=2, bad=0),
    Row("function", 'f() { cat "$F"; echo "{\\"id\\":$ID}"; } > "$I/$N"; f', rows=2, bad=0),
    Row("exec_3", 'exec 3> "$I/$N"; cat "$F" >&3; cat "$F" >&3; exec 3>&-', rows=2, bad=0),
    Row("exec_3_builtins", 'exec 3> "$I/$N"; l=$(<"$F"); echo "$l" >&3; echo "$l" >&3; exec 3>&-', rows=2, bad=0),
    Row("exec_3_left_open", 'exec 3> "$I/$N"; cat "$F" >&3', bad=0),
    Row("exec_stdout", 'bash -c \'exec > "$I/$N"; cat "$F"; cat "$F"\'', rows=2, bad=1),
    Row("exec_read_write", 'exec 3<> "$I/$N"; cat "$F" >&3; exec 3>&-', bad=0),
    Row("both_streams", '{ cat "$F"; cat "$F" >&2; } > "$I/$N" 2>&1', rows=2, bad=0),
    Row("and_both", 'cat "$F" &> "$I/$N"', n=3, bad=1),
    Row("stderr_only", 'cat "$F" 2>&1 >&2 2> "$I/$N" | cat', versions=0, left=("N",)),
    Row("stderr_of_group", '{ cat "$F" >&2; } 2> "$I/$N"', bad=0),
    Row("descriptor_moved", 'exec 3> "$I/$N" 4>&3-; cat "$F" >&4; exec 4>&-', bad=0),
    Row("two_descriptors", 'exec 3> "$I/$N" 4>&3; cat "$F" >&3; exec 3>&-; cat "$F" >&4; exec 4>&-', rows=2, bad=0),
    Row("process_substitution", 'cat "$F" > >(cat > "$I/$N"); wait $!', bad=0),
    Row("command_missing", 'no-such-command > "$I/$N" 2>/dev/null', versions=0, status=127, left=("N",)),
    Row("colon", ': > "$I/$N"', versions=0, left=("N",)),
    Row("colon_then_append", ': > "$I/$N"; cat "$F" >> "$I/$N"', bad=1),
    Row("redirect_over_refused", 'cat "$W" > "$I/$N" 2>/dev/null; cat "$F" > "$I/$N"', bad=1),
    Row("append_to_refused", 'cat "$W" > "$I/$N" 2>/dev/null; cat "$F" >> "$I/$N"', versions=0, status=1, left=("N", "N.error")),
    Row("same_name_100_times", 'for i in {1..100}; do cat "$F" > "$I/$N" || exit; done', versions=100, rows=100),
    Row("same_name_builtin", 'l=$(<"$F"); for i in {1..100}; do echo "$l" > "$I/$N"; done', versions=100, rows=100),
]

JOBS = [
    Row("background", 'cat "$F" > "$I/$N" & wait $!', n=3, bad=1),
    Row("background_child_last", '(sleep .1; cat "$F") > "$I/$N" & wait', n=3, bad=0),
    Row("background_in_group", '{ (sleep .1; cat "$F") & cat "$F"; } > "$I/$N"; wait', rows=2, bad=0),
    Row("background_of_exec_3", 'exec 3> "$I/$N"; (sleep .1; cat "$F" >&3) & cat "$F" >&3; exec 3>&-; wait', rows=2, bad=0),
    Row("nohup", 'nohup cat "$F" > "$I/$N" 2>/dev/null & wait $!', n=3, bad=1),
    Row("nohup_sh", 'nohup sh -c \'sleep .1; cat "$F"\' > "$I/$N" 2>/dev/null & wait $!', n=3, bad=0),
    # The pipe ends when the orphan does; its descriptors are closed in ascending order.
    Row("setsid_orphan", 'mkfifo p; (setsid sh -c \'sleep .1; cat "$F"\' > "$I/$N" 3> p &); cat p', bad=0),
    Row("timeout", 'timeout 5 cat "$F" > "$I/$N"', bad=125),
    Row("nice", 'nice cat "$F" > "$I/$N"', bad=1),
    Row("time", '{ time cat "$F" > "$I/$N"; } 2>/dev/null', bad=1),
    Row("flock", 'flock "$I/$N" cp "$F" "$I/$N"', bad=1),
    # dash, which sh may be, holds the file itself and hears of the refusal instead of cat.
    Row("flock_c", 'SHELL=/bin/bash flock "$I/$N" -c \'cat "$F" > "$I/$N"\'', bad=1),
    Row("xargs", 'echo "$F" | xargs cat > "$I/$N"', n=3, bad=1),
    Row("xargs_cp", 'for i in 1 2 3; do cp "$F" "$N.$i"; done; ls "$N".* | xargs -n1 -I@ cp @ "$I/"', versions=3, rows=3, bad=123,
        bad_left=("N.1", "N.1.error", "N.2", "N.2.error", "N.3", "N.3.error")),
    Row("xargs_p4", 'for i in {1..20}; do cp "$F" "$N.$i"; done; ls "$N".* | xargs -n1 -P4 -I@ cp @ "$I/"', versions=20, rows=20),
    Row("xargs_p4_one_file", 'seq 8 | xargs -n1 -P4 sh -c \'cat "$F"\' > "$I/$N"', rows=8),
    Row("parallel", 'for i in {1..8}; do cp "$F" "$N.$i"; done; parallel -j4 -i cp {} "$I/" -- "$N".*', versions=8, rows=8, needs=("parallel",)),
    Row("find_exec", 'find "$F" -exec cp {} "$I/$N" ";"', bad=0),
    Row("eight_at_once", 'for i in {1..8}; do cp "$F" "$I/$N.$i" & done; wait', versions=8, rows=8),
]

FILTERS = [
    Row("split", 'split -l 1 "$F" "$I/$N."', n=3, versions=3, rows=3, bad=1,
        bad_left=("N.ac", "N.ac.error")),
    Row("csplit", 'csplit -s -f "$I/$N." "$F" 2 3', n=3, versions=3, rows=3, bad=1, bad_left=()),
    Row("sort_o", 'sort -o "$I/$N" "$F"', n=3, bad=2),
    Row("sort_o_onto_refused", 'cat "$W" "$W" > x; cp x "$I/$N" 2>/dev/null; sort -u -o "$I/$N" "$I/$N"', versions=0, status=2, left=("N", "N.error")),
    Row("sort_to", 'sort "$F" > "$I/$N"', n=3, bad=2),
    Row("sponge", 'sponge "$I/$N" < "$F"', n=3, bad=1, needs=("sponge",)),
    Row("sponge_in_place", 'cp "$W" "$I/$N" 2>/dev/null; sed "s/\\"wrong\\"/$ID/" "$I/$N" | sponge "$I/$N"', bad=1, needs=("sponge",)),
    Row("gawk_to", 'gawk 1 "$F" > "$I/$N"', n=3, bad=0, needs=("gawk",)),
    Row("gawk_print", 'gawk -v out="$I/$N" \'{ print > out }\' "$F"', n=3, bad=0, needs=("gawk",)),
    Row("mawk_to", 'mawk 1 "$F" > "$I/$N"', n=3, bad=2, needs=("mawk",)),
    Row("mawk_print", 'mawk -v out="$I/$N" \'{ print > out }\' "$F"', n=3, bad=2, needs=("mawk",)),
    Row("awk_close", 'awk -v out="$I/$N" \'{ print > out; close(out) }\' "$F"', n=3, versions=3, rows=3),
    Row("gawk_inplace", 'cp "$W" "$I/$N" 2>/dev/null; gawk -i inplace "{ gsub(/\\"wrong\\"/, $ID) } 1" "$I/$N"', needs=("gawk",)),
    Row("sed_to", 'sed "" "$F" > "$I/$N"', n=3, bad=4),
    Row("sed_w", 'sed -n "w $I/$N" "$F"', n=3, bad=4),
    Row("sed_i", 'cp "$W" "$I/$N" 2>/dev/null; sed -i "s/\\"wrong\\"/$ID/" "$I/$N"', bad=4, bad_left=("N", "N.error")),
    Row("sed_i_bak", 'cp "$W" "$I/$N" 2>/dev/null; sed -i.bak "s/\\"wrong\\"/$ID/" "$I/$N"', left=("N.bak", "N.bak.error")),
    Row("sed_i_orig", 'cp "$W" "$I/$N" 2>/dev/null; sed -i.orig "s/\\"wrong\\"/$ID/" "$I/$N"', left=("N.orig", "N.orig.error")),
    Row("patch_b", 'cp "$W" "$I/$N" 2>/dev/null; diff -u "$W" "$F" | patch -s -b "$I/$N"', left=("N.orig", "N.orig.error"), needs=("patch",)),
    Row("new_then_mv", 'cat "$F" > "$I/$N.new" && mv "$I/$N.new" "$I/$N"', n=3, bad=1, bad_left=("N.new", "N.new.error")),
    Row("sed_i_backup", 'cp "$W" "$I/$N" 2>/dev/null; sed -i~ "s/\\"wrong\\"/$ID/" "$I/$N"', left=("N~", "N~.error")),
    Row("jq_to", 'jq -c . "$F" > "$I/$N"', n=3, bad=2, needs=("jq",)),
    Row("jq_sponge", 'jq -c . "$F" | sponge "$I/$N"', n=3, bad=1, needs=("jq", "sponge")),
    Row("sqlite3_output", 'sqlite3 :memory: ".output $I/$N" "select json_object(\'id\', json(\'$ID\'))"', bad=0, needs=("sqlite3",)),
    Row("sqlite3_redirect", 'sqlite3 :memory: "select json_object(\'id\', json(\'$ID\'))" > "$I/$N"', bad=0, needs=("sqlite3",)),
    Row("paste", 'paste -s -d "\\n" "$F" > "$I/$N"', n=3, bad=1),
    Row("head", 'head -n 2 "$F" > "$I/$N"', n=3, rows=2),
    Row("tac", 'tac "$F" > "$I/$N"', n=3, bad=1),
    Row("yes_head", 'yes "$(<"$F")" | head -n 1000 > "$I/$N"', rows=1000, bad=1),
    Row("iconv", 'iconv -f utf-8 -t utf-8 -o "$I/$N" "$F"', n=3, bad=1),
    Row("base64", 'base64 "$F" | base64 -d > "$I/$N"', n=3, bad=1),
    Row("patch", 'diff /dev/null "$F" > p; patch -s "$I/$N" p', bad=2, bad_left=(), needs=("patch",)),
    Row("script", 'script -qec "cat $F" "$I/$N" > /dev/null', versions=0, left=("N", "N.error"), says="."),
]

# inotify tells of what other programs do in incoming/.
SPECIAL = [
    Row("inotifywait", 'exec 3< <(exec inotifywait -t 20 -e close_write --format %f "$I" 2>&1);'
        'until [[ $l = *established* ]]; do read -r l <&3; done; cp "$F" "$I/$N"; read -r l <&3; test "$l" = "$N"',
        needs=("inotifywait",)),
    Row("unshare_U", 'unshare -Urpf cp "$F" "$I/$N"', bad=1, root=True),
    Row("unshare_U_proc", 'unshare -Urpf --mount-proc sh -c \'(cat "$F"; sleep .1; cat "$F") > "$I/$N"\'', rows=2, bad=1, root=True),
    Row("unshare_m", 'unshare -m cp "$F" "$I/$N"', bad=1, root=True),
    Row("unshare_m_group", 'unshare -m sh -c \'(cat "$F"; sleep .1; cat "$F") > "$I/$N"\'', rows=2, bad=1, root=True),
    Row("unshare_p", 'unshare -pf --kill-child sh -c \'(cat "$F"; sleep .1; cat "$F") > "$I/$N"\'', rows=2, bad=1, root=True),
    Row("bind_mount", 'mkdir b; unshare -m sh -c \'mount --bind "$I" b; cp "$F" "b/$N"\'', bad=1, root=True),
    Row("bind_mount_group", 'mkdir b; unshare -m sh -c \'mount --bind "$I" b; (cat "$F"; sleep .1; cat "$F") > "b/$N"\'', rows=2, bad=1, root=True),
    Row("hidden_proc", 'unshare -m sh -c \'mount -t proc -o hidepid=2 proc /proc; (cat "$F"; sleep .1; cat "$F") > "$I/$N"\'', rows=2, bad=1, root=True),
    Row("no_proc", 'unshare -m sh -c \'umount -l /proc; (cat "$F"; sleep .1; cat "$F") > "$I/$N"\'', rows=2, bad=1, root=True),
    Row("chroot", 'mkdir b; unshare -m sh -c \'mount --rbind / b; exec chroot b cp "$F" "$I/$N"\'', bad=1, root=True),
]

OTHERS = [
    Row("su", 'su -s /bin/sh nobody -c \'cp "$F" "$I/$N"\'', bad=1, root=True),
    Row("su_p", 'chmod 755 "$S"; su -s /bin/sh nobody -c \'(cat "$F"; sleep .1; cat "$F") > "$I/$N"\'', rows=2, bad=1, root=True),
    Row("setpriv", 'setpriv --reuid 1234 --regid 1234 --clear-groups cp "$F" "$I/$N"', bad=1, root=True),
    Row("setpriv_read_only", 'chmod 444 "$F"; umask 333; setpriv --reuid 1234 --regid 1234 --clear-groups cp -p "$F" "$I/$N"', bad=1, root=True),
    Row("setpriv_umask", 'umask 377; setpriv --reuid 1234 --regid 1234 --clear-groups sh -c \'cat "$F" > "$I/$N"\'', bad=0, root=True),
    Row("setpriv_install", 'setpriv --reuid 1234 --regid 1234 --clear-groups install -m 600 "$F" "$I/$N"', bad=1, root=True),
    Row("setpriv_mv", 'chown -R 1234 "$S"; setpriv --reuid 1234 --regid 1234 --clear-groups mv "$F" "$I/$N"', bad=1, root=True),
    Row("setpriv_rsync_a", 'setpriv --reuid 1234 --regid 1234 --clear-groups rsync -a "$F" "$I/$N"', bad=23, bad_left=(), root=True, needs=("rsync",)),
    Row("sticky", 'cp "$W" "$I/$N" 2>/dev/null; setpriv --reuid 1234 --regid 1234 --clear-groups cp "$F" "$I/$N" 2>/dev/null;'
        ' test $? = 1', versions=0, left=("N", "N.error"), root=True),
]


class Redirections(Drops):
    pass


add_rows(Redirections, REDIRECTIONS)


class Jobs(Drops):
    pass


add_rows(Jobs, JOBS)


class Filters(Drops):
    pass


add_rows(Filters, FILTERS)


class Namespaces(Drops):
    pass


add_rows(Namespaces, SPECIAL)


class OtherUsers(Drops):
    options = ("allow_other",)

    def test_who_wrote_is_said(self):
        self.require_root()
        source = self.file(self.row())
        self.ok(["cp", source, self.incoming / "a"], user=1234)
        self.ok(["cp", source, self.incoming / "b"], user=65534)
        self.ok(["cp", source, self.incoming / "c"])
        said = []
        for version in self.versions(self.table_path)[-3:]:
            info = self.commit(self.table_path, version)[0]["commitInfo"]
            said.append((info["source"], info["userName"]))
            self.assertIn("tinydelta", info["engineInfo"])
        self.assertEqual(said, [("a", "1234"), ("b", "nobody"), ("c", "root")])
        self.assertEqual(os.geteuid(), 0)


add_rows(OtherUsers, OTHERS)
